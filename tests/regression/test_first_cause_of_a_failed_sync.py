"""An append between a sync that failed and its report made what it met the log's failure.

That is no I/O error: the log directory stayed online, and other logs on the disk went on.
"""

from __future__ import annotations

import errno
import threading

import pytest

from segstore._core import Directory, SimulatedDisk
from segstore.errors import FsyncFailedError, IllegalStateError, SegstoreError
from segstore.log.durability import sync_failed_before
from segstore.log.flusher import Flusher
from segstore.log.local.local_log import LocalLog
from segstore.log.log_dir_failure_channel import LogDirFailureChannel
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from tests.kits.log_kit import lead_rounds_by_layers

PATIENCE_SECONDS = 20


@pytest.fixture
def opened():
    """Two durable logs of one directory, with three records each."""
    disk, failures = SimulatedDisk(), LogDirFailureChannel()
    Directory("/data", disk, create=True)
    where = LogEnvironment(environment=disk, failures=failures)
    logs = [
        open_partition(f"/data/{name}", open_options(durability="sync"), where)
        for name in ("topic-0", "other-0")
    ]
    for log in logs:
        for _ in range(3):
            log.append([(None, b"x")])
    yield disk, failures, *logs
    for log in logs:
        log.close_quietly()


def test_the_log_directory_hears_of_the_sync(opened, monkeypatch):
    """[DUR-35, DUR-38, LOC-27]"""
    disk, failures, log, _ = opened
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
            beside.join(PATIENCE_SECONDS)
            raise

    monkeypatch.setattr(Flusher, "_sync_segment", sync_segment)
    lead_rounds_by_layers(monkeypatch)
    disk.fail("sync_data", 1, errno.EIO)
    with pytest.raises(FsyncFailedError):
        log.append([(None, b"c")])
    assert met
    assert isinstance(log._failure_mark.failure, FsyncFailedError)
    assert failures.has_offline_log_dir("/data")


def test_an_interrupted_truncation_is_no_failure_of_the_disk(opened, monkeypatch):
    """[DUR-38, LOC-27] Who waits for a round is told what ended writing: that is no cause."""
    _, failures, log, other = opened
    real, begun, may_end = Flusher._sync_segment, threading.Event(), threading.Event()

    def sync_segment(self, segment, *, indexes):
        begun.set()
        assert may_end.wait(PATIENCE_SECONDS)
        real(self, segment, indexes=indexes)

    def interrupted(*_):
        raise KeyboardInterrupt

    told = []

    def append():
        try:
            log.append([(None, b"waits")])
        except SegstoreError as error:
            told.append(error)

    with monkeypatch.context() as patched:
        patched.setattr(Flusher, "_sync_segment", sync_segment)
        lead_rounds_by_layers(patched)
        waiting = threading.Thread(target=append)
        waiting.start()
        assert begun.wait(PATIENCE_SECONDS)
        patched.setattr(LocalLog, "truncate_to", interrupted)
        may_end.set()
        with pytest.raises(KeyboardInterrupt):
            log.truncate_to(1)
        waiting.join(PATIENCE_SECONDS)
    assert not failures.has_offline_log_dir("/data")
    assert isinstance(log._failure_mark.failure, IllegalStateError)
    assert other.append([(None, b"goes on")]).durable_offset == 4


def test_what_is_told_again_is_no_cause(opened):
    """[DUR-35, LOC-27] Nothing of the disk has failed: the other logs of the directory go on."""
    _, failures, log, other = opened
    met = IllegalStateError("the log ends where nobody left it")
    log._failure_mark.poison(met)
    log._failure_mark.poison(sync_failed_before(met, log.path))
    assert log._failure_mark.failure is met
    assert not failures.has_offline_log_dir("/data")
    assert other.append([(None, b"goes on")]).durable_offset == 4
