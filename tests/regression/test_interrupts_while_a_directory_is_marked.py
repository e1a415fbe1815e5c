"""Control-C while a failed log marked its directory left the logs beside it writable, for good.

Behind the mark, and before the others were told, a second failure returned at once: the directory
bore its mark already, or the log its own.
"""

from __future__ import annotations

import errno

import pytest

from segstore._core import SimulatedDisk
from segstore.errors import FsyncFailedError, LogReadOnlyError, SegstoreError
from segstore.log.failure_mark import FailureMark
from segstore.log.log_dir_failure_channel import LogDirFailureChannel
from tests.kits.interrupted_at import InterruptedAt
from tests.regression.test_failures_that_reach_the_directory import ONE, two_logs

STEPS = [
    LogDirFailureChannel.maybe_add_offline_log_dir,
    LogDirFailureChannel._notify,
    LogDirFailureChannel._watched,
    FailureMark.poison,
    FailureMark._end_writing,
    FailureMark._notify_directory,
    FailureMark._error_of_directory,
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__qualname__)
def test_an_interrupt_before_any_instruction(step):
    """[LOC-27, DUR-38] The next who asks the failed log lets the others know, at the latest."""
    for nth in range(1, 1000):
        disk, failures = SimulatedDisk(), LogDirFailureChannel()
        broken, neighbour = two_logs(disk, failures)
        disk.fail("sync_data", 1, errno.EIO)
        with InterruptedAt(step, nth) as interrupt, pytest.raises(BaseException) as raised:
            broken.flush()
        assert isinstance(raised.value, KeyboardInterrupt if interrupt.came else FsyncFailedError)
        with pytest.raises(SegstoreError):  # it may have come before anything has failed
            broken.flush()
        for log in (broken, neighbour):
            with pytest.raises(LogReadOnlyError):
                log.append(ONE)
            log.close_quietly()
        assert failures.has_offline_log_dir("/logs")
        if not interrupt.came:
            break
    assert nth > 3


class OftenInterrupted(dict):
    def setdefault(self, key, value):
        super().setdefault(key, value)
        raise KeyboardInterrupt  # a signal's handler, behind the call


def test_an_interrupt_behind_the_mark_of_the_directory():
    """[LOC-27] The others hear of it all the same, and nobody has to ask the failed log."""
    disk, failures = SimulatedDisk(), LogDirFailureChannel()
    failures._offline = OftenInterrupted()
    broken, neighbour = two_logs(disk, failures)
    disk.fail("sync_data", 1, errno.EIO)
    with pytest.raises(KeyboardInterrupt):
        broken.flush()

    for log in (neighbour, broken):
        with pytest.raises(LogReadOnlyError):
            log.append(ONE)
        log.close_quietly()


def test_a_log_finds_the_mark_of_its_directory():
    """[LOC-27, DUR-38] Where nobody came to tell it: no close of it is clean."""
    disk, failures = SimulatedDisk(), LogDirFailureChannel()
    broken, neighbour = two_logs(disk, failures)
    error = FsyncFailedError("cannot sync")
    failures._offline["/logs"] = error
    for change in (neighbour.flush, neighbour.roll, neighbour.close):
        with pytest.raises(LogReadOnlyError) as refused:
            change()
        assert refused.value.__cause__ is error
    for log in (broken, neighbour):
        log.close_quietly()
