"""An append between a sync that failed and its report made what it met the log's failure.

That is no I/O error: the log directory stayed online, and other logs on the disk went on.
"""

from __future__ import annotations

import errno
import threading

import pytest

from segstore._core import Directory, SimulatedDisk
from segstore.errors import FsyncFailedError, SegstoreError
from segstore.log.directory.log_dir_failure_channel import LogDirFailureChannel
from segstore.log.flusher import Flusher
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.log.surroundings import Surroundings
from tests.crash.crash_script import PATH


def test_the_log_directory_hears_of_the_sync(monkeypatch):
    """[DUR-35, DUR-38, LOC-27]"""
    disk = SimulatedDisk()
    Directory("/data", disk, create=True)
    failures = LogDirFailureChannel()
    log = open_partition(
        PATH,
        open_options(durability="sync"),
        Surroundings(environment=disk, failures=failures),
    )
    log.append([(None, b"a")])
    log.append([(None, b"b")])
    real, met = Flusher._sync_segment, []

    def append_beside():
        try:
            log.append([(None, b"beside")])
        except SegstoreError as error:
            met.append(error)

    def sync_segment(self, segment, *, indexes):
        try:
            real(self, segment, indexes=indexes)
        except SegstoreError:
            beside = threading.Thread(target=append_beside, daemon=True)
            beside.start()
            beside.join(1)
            raise

    monkeypatch.setattr(Flusher, "_sync_segment", sync_segment)
    disk.fail("sync_data", 1, errno.EIO)
    with pytest.raises(FsyncFailedError):
        log.append([(None, b"c")])
    assert met
    assert isinstance(log._flusher.failure, FsyncFailedError)
    assert failures.has_offline_log_dir("/data")
    log.close_quietly()
