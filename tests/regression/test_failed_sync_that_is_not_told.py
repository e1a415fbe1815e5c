"""A sync failed, and a signal came before anybody could note it: the log went on writing.

The next sync of the same file succeeds, and proves nothing of what the first one lost. Files of
names and the active segment were marked by the core already; sealed segments and transaction
indexes were not.
"""

from __future__ import annotations

import errno

import pytest

from segstore._core import scan_batches
from segstore.errors import FsyncFailedError, LogReadOnlyError, WriteError
from segstore.log.failure_mark import FailureMark
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.crash_model import Operation
from tests.crash.crash_script import ScriptRunner, Settings
from tests.kits.directory_kit import records

ONE = [(None, b"x")]


@pytest.fixture
def interrupted_report(monkeypatch):
    """Let Control-C come when a failure is about to be noted, once."""
    real, came = FailureMark.poison, []

    def poison(self, error):
        if not came:
            came.append(error)
            raise KeyboardInterrupt
        real(self, error)

    monkeypatch.setattr(FailureMark, "poison", poison)
    return came


def require_read_only(log, came):
    assert came
    for _ in range(2):
        with pytest.raises(LogReadOnlyError):
            log.append(ONE)
    log.close_quietly()


def fail_sync_of(disk, ending):
    def watch(call: str, name: str) -> None:
        if call.startswith("sync"):
            disk.fail(call, 1 if name.endswith(ending) else 0, errno.EIO)

    disk.watch(watch)


def test_of_a_sealed_segment(interrupted_report):
    """[DUR-35, DUR-38, DUR-70]"""
    disk = new_disk()
    log = open_log(disk, durability="none")
    log.append(ONE)
    log.roll()
    log.append(ONE)
    fail_sync_of(disk, ".log")
    with pytest.raises(KeyboardInterrupt):
        log.flush()
    disk.watch(None)

    require_read_only(log, interrupted_report)


def test_of_records_that_the_lane_syncs(interrupted_report):
    """[DUR-35, DUR-38, DUR-70]"""
    disk = new_disk()
    log = open_log(disk, durability="sync")
    for _ in range(3):
        log.append(ONE)
    assert log._lane_switch.lane.is_armed
    fail_sync_of(disk, ".log")
    with pytest.raises(KeyboardInterrupt):
        log.append(ONE)
    disk.watch(None)

    require_read_only(log, interrupted_report)


def test_of_a_transaction_index(interrupted_report):
    """[DUR-35, DUR-38, DUR-70]"""
    runner = ScriptRunner(Settings("none", segment_bytes=100_000))
    for operation in (("transactional", 1), ("abort", 1), ("append", 1)):
        runner.do(Operation(*operation))
    log = runner._log
    fail_sync_of(runner.disk, ".txnindex")
    with pytest.raises(KeyboardInterrupt):
        log.flush()
    runner.disk.watch(None)

    require_read_only(log, interrupted_report)


@pytest.mark.parametrize("call", ["truncate", "sync_file"])
def test_the_core_marks_it_whichever_call_it_was(call):
    """[DUR-32, DUR-35] A cut, or the roll-back of an append: the layers come behind it."""
    disk = new_disk()
    log = open_log(disk, durability="none")
    for _ in range(2):
        log.append(ONE)
    active = log._local_log.segments.active_segment
    disk.fail(call, 1, errno.EIO)
    if call == "sync_file":
        with pytest.raises(FsyncFailedError):
            active.truncate_to(1)
    else:
        disk.fail("write_at", 1, errno.EIO)
        with pytest.raises(WriteError):
            active.append(records(2, 3), scan_batches(records(2, 3))[0])

    assert log._local_log.directory.sync_failed
    log.close_quietly()
