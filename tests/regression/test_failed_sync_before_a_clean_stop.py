"""A handle of Kafka's profile closed cleanly over pages that a failed sync had left behind."""

from __future__ import annotations

import contextlib
import errno

from segstore._core import Directory, SimulatedDisk
from segstore.errors import SegstoreError
from segstore.log.files.checkpoints import SYNC_FAILED_MARK
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from tests.crash.crash_check import Crash, look
from tests.crash.crash_model import Operation
from tests.crash.crash_script import PATH, ManualScheduler, ScriptRunner, Settings

SETTINGS = Settings("none", segment_bytes=100_000)


def closed_over_a_failed_sync() -> SimulatedDisk:
    """Return a disk with a mark, a clean marker, and a recovery point above what is on it."""
    runner = ScriptRunner(SETTINGS, 1)
    runner.do(Operation("append", 2))
    runner.do(Operation("roll"))
    runner.do(Operation("append", 3))
    runner.disk.fail("sync_data", 1, errno.EIO)
    with contextlib.suppress(SegstoreError):
        runner.do(Operation("flush"))
    runner.disk.fail("sync_data", 0, 0)
    runner.abandon()
    disk = Crash(runner.disk.effects, "killed").image(runner.disk)
    scheduler = ManualScheduler()
    log_environment = LogEnvironment(environment=disk, background=lambda *_: scheduler)
    options = open_options(recovery="kafka", state_dir=PATH, durability="none")
    open_partition(PATH, options, log_environment).close()
    return disk


def test_a_mark_outlives_a_clean_stop_of_who_does_not_know_it():
    """[DUR-4, DUR-35, DUR-36] The next safe open reads and writes everything again."""
    disk = closed_over_a_failed_sync()

    with SETTINGS.open(disk) as log:
        assert not log.report.clean
        assert any("is not believed" in warning for warning in log.report.warnings)
        assert log.durable_offset == log.log_end_offset == 5
    assert not Directory(PATH, disk).exists(SYNC_FAILED_MARK)
    after = look(disk.crash_image(fate="lost"), SETTINGS)
    assert after.found.log_end == 5


def test_an_open_that_was_killed_does_not_make_the_recovery_point_right():
    """[DUR-4, DUR-35, DUR-36] It took the clean marker away, and the next one believed the rest."""
    disk = closed_over_a_failed_sync()
    before = disk.effects
    SETTINGS.open(disk).close_quietly()
    were_marked = set()
    for effects in range(before, disk.effects + 1):
        killed = Crash(effects, "killed").image(disk)
        were_marked.add(is_marked := Directory(PATH, killed).exists(SYNC_FAILED_MARK))
        with SETTINGS.open(killed) as log:
            assert len(sizes := [segment.size_bytes for segment in log.segments()]) == 2
            assert not is_marked or log.report.rewritten_bytes == sum(sizes), effects
            assert log.durable_offset == log.log_end_offset == 5, effects
        assert look(killed.crash_image(fate="lost"), SETTINGS).found.log_end == 5, effects
    assert were_marked == {True, False}
