"""A clean marker goes, durably, before the first change of a log, and not before [DUR-24].

An open alone leaves it, so that a crash of a process that changed nothing costs no recovery. In
every image of a crash, a marker that is there speaks of the files as they are.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory, FileBarrier
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER
from tests.crash.crash_check import Crash
from tests.crash.crash_model import Operation
from tests.crash.crash_script import PATH, Run, Settings, run_script
from tests.kits.log_kit import singleton

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import UnifiedLog
    from segstore._core import SimulatedDisk

ABOVE = os.path.dirname(PATH)  # noqa: PTH120 - not a real one
SCRIPT = [*6 * [Operation("append", 2)], Operation("roll"), Operation("append", 1)]
OURS = Settings()
BROKERS = Settings(in_log_directory=True)

CHANGES: dict[str, Callable[[UnifiedLog], object]] = {
    "append": lambda log: log.append([(None, b"value")]),
    "append of an epoch": lambda log: log.append_as_leader(singleton(), leader_epoch=9),
    "many appends": lambda log: [log.append([(None, b"value" * 20)]) for _ in range(6)],
    "roll": lambda log: log.roll(),
    "epoch": lambda log: log.assign_epoch_start_offset(9, log.log_end_offset),
    "truncation": lambda log: log.truncate_to(7),
    "truncation of all": lambda log: log.truncate_fully_and_start_at(3),
    "deletion": lambda log: log.delete_records(5),
    "deletion of all": lambda log: log.delete_records(-1),
}


def stopped(settings: Settings) -> Run:
    """Return a log that was closed cleanly: by us, or by a broker that knows none of our files."""
    run = run_script([*SCRIPT, Operation("close")], settings)
    if settings is BROKERS:
        directory, above = Directory(PATH, run.disk), Directory(ABOVE, run.disk)
        for name in (CLEAN_SHUTDOWN_MARKER, ".segstore", "recovery-point-offset-checkpoint"):
            directory.unlink(name)
        above.create_file(CLEAN_SHUTDOWN_MARKER, b"", FileBarrier.CLEAN_MARKER)
        directory.create_file("made", b"", FileBarrier.CLEAN_MARKER)  # its names are synced
        directory.unlink("made")
    return run


def contents(disk: SimulatedDisk) -> dict[str, bytes]:
    """What a marker speaks of: segments, their indexes, epochs, and the log start."""
    directory = Directory(PATH, disk)
    counted = (".log", ".index", ".timeindex", "epoch-checkpoint", "start-offset-checkpoint")
    return {name: directory.read_file(name) for name in directory.names() if name.endswith(counted)}


def is_marked(disk: SimulatedDisk) -> bool:
    return any(Directory(path, disk).exists(CLEAN_SHUTDOWN_MARKER) for path in (PATH, ABOVE))


def opens_clean(disk: SimulatedDisk, settings: Settings) -> bool:
    log = settings.open(disk)
    log.close_quietly()
    return log.report.clean


@pytest.mark.parametrize("settings", [OURS, BROKERS], ids=["ours", "a brokers"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_marker_that_is_there_is_true(change: str, settings: Settings):
    """[DUR-24] Whatever the first change is, the marker goes before it."""
    run = stopped(settings)
    before, begin = contents(run.disk), run.disk.effects
    log = settings.open(run.disk)
    opened = run.disk.effects
    CHANGES[change](log)
    log.close_quietly()

    assert not is_marked(run.disk)
    for effects in range(begin, run.disk.effects + 1):
        for crash in [
            Crash(effects, "lost"),
            Crash(effects, "kept"),
            *(Crash(effects, seed=seed) for seed in range(3)),
        ]:
            image = crash.image(run.disk)
            if effects <= opened:
                assert is_marked(image)
            if is_marked(image):
                assert contents(image) == before, crash
                assert opens_clean(image, settings)


@pytest.mark.parametrize("settings", [OURS, BROKERS], ids=["ours", "a brokers"])
def test_a_close_without_a_change_writes_nothing_of_the_log(settings: Settings):
    """[DUR-24] Case 12: at no moment is the marker gone, and no file is another one."""
    run = stopped(settings)
    before, begin = contents(run.disk), run.disk.effects
    log = settings.open(run.disk)
    assert len(list(log.scan())) == log.log_end_offset
    assert (log.truncate_to(1000), len(log.delete_old_segments()), log.delete_records(0)) == (
        0,
        0,
        0,
    )
    log.flush()
    log.close()

    for effects in range(begin, run.disk.effects + 1):
        image = Crash(effects, seed=effects).image(run.disk)
        assert is_marked(image)
        assert contents(image) == before
    assert opens_clean(run.disk, settings)
