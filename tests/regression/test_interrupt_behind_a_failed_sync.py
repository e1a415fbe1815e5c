"""Control-C between a sync of names that failed and the mark that it leaves on the log.

The log stayed writable: an append was called durable, and the names of the files that its epoch
had been written to were not.
"""

from __future__ import annotations

import contextlib

import pytest

from segstore._core import BatchOptions, SimulatedDisk, encode_records
from segstore.errors import FsyncFailedError, LogReadOnlyError
from segstore.records.compression import codec_table
from tests.crash.crash_script import START_MS, Settings

EIO = 5


@contextlib.contextmanager
def interrupted_behind(*_):
    """Stand for `FailureMark.poisoned_by` that is interrupted before it has heard of the error."""
    try:
        yield
    except FsyncFailedError:
        raise KeyboardInterrupt from None


def test_a_log_takes_no_changes_behind_a_failed_sync_that_was_interrupted(monkeypatch):
    """[DUR-12, DUR-35] The directory remembers it."""
    disk = SimulatedDisk()
    disk.wall_clock_ms = START_MS
    log = Settings(durability="sync").open(disk)
    log.append([(None, b"x")])
    batch = encode_records([(None, b"y")], BatchOptions(), codec_table(), START_MS, 10_000)
    disk.fail("sync_directory", 1, EIO)
    with monkeypatch.context() as patched:
        patched.setattr(log._failure_mark, "poisoned_by", interrupted_behind)
        with pytest.raises(KeyboardInterrupt):
            log.append_as_leader(bytes(memoryview(batch)), 5)
    disk.fail("sync_directory", 0, EIO)

    with pytest.raises(LogReadOnlyError):
        log.append([(None, b"z")])
    assert isinstance(log._failure_mark.failure, FsyncFailedError)
    with pytest.raises(LogReadOnlyError):
        log.flush()
    with pytest.raises(LogReadOnlyError):
        log.close()
