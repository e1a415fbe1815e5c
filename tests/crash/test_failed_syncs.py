"""A sync fails, the process dies, another opens the log, and then the power goes.

The kernel tells of a failed sync once and counts the pages as clean, though they are not on the
disk: the simulated disk does too. What an open has shown survives all the same, since the mark that
the failed sync has left lets the open write it again; where somebody else was told, who leaves no
mark, what is appended and synced behind it does not stand behind a hole.
"""

from __future__ import annotations

import contextlib
import errno
import random
from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory, FileBarrier, SimulatedDisk
from segstore.errors import FsyncFailedError, SegstoreError
from segstore.log.files.checkpoints import SYNC_FAILED_MARK
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from tests.crash.crash_check import Crash, look
from tests.crash.crash_model import Operation
from tests.crash.crash_script import (
    PATH,
    ScriptRunner,
    Settings,
    random_operation,
    random_settings,
    run_script,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SETTINGS = Settings("none", segment_bytes=100_000)
APPENDS = [Operation("append", 2), Operation("append", 3)]


def disk_behind_a_failed_sync(seed: int, *, marked: bool = True) -> tuple[SimulatedDisk, Settings]:
    """Return what the next process finds; unmarked: nobody has told it of the failure."""
    choice = random.Random(seed)
    runner = ScriptRunner(random_settings(choice), seed)
    call = choice.choice(("sync_data", "sync_data", "sync_file"))
    runner.disk.fail(call, choice.randint(1, 12), errno.EIO)
    with contextlib.suppress(SegstoreError):
        for _ in range(8):
            runner.do(random_operation(choice, runner.state))
        runner.disk.fail("sync_data", 1, errno.EIO)
        runner.do(Operation("append", 1))
        runner.do(Operation("flush"))
    runner.disk.fail(call, 0, 0)
    runner.disk.fail("sync_data", 0, 0)
    runner.abandon()
    disk = Crash(runner.disk.effects, "killed").image(runner.disk)
    directory = Directory(PATH, disk)
    if not marked and directory.exists(SYNC_FAILED_MARK):
        directory.unlink(SYNC_FAILED_MARK)
    return disk, runner.run.settings


def check_survives(disk: SimulatedDisk, settings: Settings) -> None:
    """What an open shows is there when the power goes right behind it."""
    shown = look(disk, settings).found
    assert look(disk.crash_image(fate="lost"), settings).found == shown


@pytest.mark.parametrize("part", range(4))
def test_what_an_open_shows_behind_a_failed_sync_survives(
    part: int, few_or_many: Callable[[int, int], int]
):
    """[DUR-35, DUR-36, DUR-1]"""
    scripts = few_or_many(50, 1000)
    for seed in range(part * scripts, (part + 1) * scripts):
        try:
            check_survives(*disk_behind_a_failed_sync(seed))
        except Exception as error:
            msg = f"script {seed}: {error!r}"
            raise AssertionError(msg) from error


def test_without_the_mark_it_would_not():
    """[DUR-110] The mutant of the test above: some of these scripts need the mark."""
    noticed = 0
    for seed in range(30):
        try:
            check_survives(*disk_behind_a_failed_sync(seed, marked=False))
        except Exception:  # noqa: BLE001 - an open that fails breaks a promise too
            noticed += 1
    assert noticed


def disk_of_a_sync_that_failed_elsewhere() -> SimulatedDisk:
    """Two batches that no sync brings to the disk, and no mark."""
    run = run_script([], SETTINGS)
    log = SETTINGS.open(run.disk)
    for operation in APPENDS:
        log.append([(None, b"x")] * operation.argument)
    run.disk.fail("sync_data", 1, errno.EIO)
    with pytest.raises(FsyncFailedError):
        log.flush()
    log.close_quietly()
    disk = run.disk.crash_image(fate="killed")
    Directory(PATH, disk).unlink(SYNC_FAILED_MARK)
    return disk


CHANGES = {
    "append": lambda log: log.append([(None, b"y")]),
    "roll": lambda log: log.roll(),
    "close": lambda log: log.close(),
    "truncate": lambda log: log.truncate_to(2),
    "delete records": lambda log: log.delete_records(1),
}


def durable_behind(change: str) -> tuple[int, int]:
    """What was called durable behind a change of a log that was opened, and what the disk has."""
    disk = disk_of_a_sync_that_failed_elsewhere()
    log = SETTINGS.open(disk)
    assert (log.log_end_offset, log.durable_offset, log.recovery_point) == (5, 0, 0)
    CHANGES[change](log)
    if not log.closed:
        log.flush()
        assert log.durable_offset == log.log_end_offset
        log.close_quietly()
    found = look(disk.crash_image(fate="lost"), SETTINGS).found
    return log.log_end_offset, found.log_end


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_opened_is_written_again_before_it_is_called_durable(change: str):
    """[DUR-36, DUR-4] Whoever was told of the failure."""
    promised, there = durable_behind(change)

    assert there == promised


@pytest.mark.parametrize("change", ["append", "roll", "close"])
def test_without_writing_it_again_it_would_be_lost(change: str, monkeypatch: pytest.MonkeyPatch):
    """[DUR-110] The mutant of the test above."""
    monkeypatch.setattr("segstore.log.flusher.rewrite_from", lambda *_: None)
    with contextlib.suppress(SegstoreError):
        promised, there = durable_behind(change)
        assert there < promised


def test_the_mark_goes_when_all_is_written_again():
    """[DUR-36] And what was written again is durable."""
    disk = disk_of_a_sync_that_failed_elsewhere()
    directory = Directory(PATH, disk)
    directory.create_file(SYNC_FAILED_MARK, b"", FileBarrier.CLEAN_MARKER)

    log = SETTINGS.open(disk)

    assert not directory.exists(SYNC_FAILED_MARK)
    assert log.durable_offset == log.recovery_point == 5
    assert "a sync had failed" in "".join(log.report.warnings)
    log.close_quietly()
    assert look(disk.crash_image(fate="lost"), SETTINGS).found.log_end == 5


def test_durable_reads_end_at_the_recovery_point_until_all_is_written_again():
    """[DUR-4, DUR-36, DUR-81]"""
    run = run_script([Operation("append", 2), Operation("flush"), Operation("append", 3)], SETTINGS)
    log = SETTINGS.open(run.disk)
    assert log.durable_offset == 2
    shown = [record.offset for record in log.read(0, 2**20, isolation="durable")]
    assert shown == [0, 1]
    log.flush()
    shown = [record.offset for record in log.read(0, 2**20, isolation="durable")]
    assert shown == [0, 1, 2, 3, 4]
    log.close_quietly()


def test_with_kafkas_profile_no_mark_is_left():
    """[DUR-62] No file but Kafka's."""
    disk = SimulatedDisk()
    options = open_options(recovery="kafka", durability="none")
    log = open_partition(PATH, options, LogEnvironment(environment=disk))
    log.append([(None, b"x")])
    disk.fail("sync_data", 1, errno.EIO)
    with pytest.raises(FsyncFailedError):
        log.flush()
    log.close_quietly()
    assert not Directory(PATH, disk).exists(SYNC_FAILED_MARK)
