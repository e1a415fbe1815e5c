"""The roll of an empty active segment renamed the only file that said where the log ends.

Neither a rename nor the new file is on the disk before a sync of the directory, and the recovery
point is there already: a crash left an intact log that was refused, or one that ended lower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore._core import SimulatedDisk
from tests.crash.crash_check import Crash
from tests.crash.crash_script import ManualScheduler, Settings

if TYPE_CHECKING:
    from segstore import UnifiedLog

SETTINGS = Settings(segment_bytes=100_000)
WAYS = ("clean", "killed", "open")


def end_inside_a_batch(log: UnifiedLog) -> None:
    """Leave an empty segment at 1 behind an empty one at 0 [TRU-5]."""
    log.append([(None, b"x")] * 3)
    log.truncate_to(1)
    log.roll()


def begin_below_the_log_end(log: UnifiedLog) -> None:
    """Leave an empty segment at 50 in a log that begins at 30 [TRU-4]."""
    log.append([(None, b"x")] * 3)
    log.truncate_fully_and_start_at(50, 30)


def end_in_an_empty_segment(log: UnifiedLog) -> None:
    log.append([(None, b"x")] * 3)
    log.flush()
    log.roll()


STATES = {
    "truncated inside a batch": (end_inside_a_batch, 0),
    "begins below its end": (begin_below_the_log_end, 50),
    "rolled before": (end_in_an_empty_segment, 3),
}
"""And the lowest end that a crash may leave: a hole behind the data may close."""


@pytest.mark.parametrize("preallocate", [False, True], ids=["", "preallocated"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", STATES)
def test_a_crash_takes_nothing_durable(name, way, preallocate):
    """[LOC-11, DUR-1, DUR-51, DUR-56] Every image opens, and nothing below D is gone."""
    settings = SETTINGS._replace(preallocate=preallocate)
    disk = SimulatedDisk()
    log = settings.open(disk, ManualScheduler())
    prepare, lowest_end = STATES[name]
    prepare(log)
    if way != "open":
        log.close() if way == "clean" else log.close_quietly()
        log = settings.open(disk, ManualScheduler())
    start, end = log.log_start_offset, log.log_end_offset
    held = [record.offset for record in log.scan()]
    before = disk.effects

    log.roll()

    assert (log.log_start_offset, log.log_end_offset) == (start, end)
    last = disk.effects
    log.close_quietly()
    for effects in range(before, last + 1):
        fates = [("lost", 0), ("kept", 0), *(("seed", seed) for seed in range(16))]
        for fate, seed in fates:
            image = Crash(effects, fate, seed).image(disk)
            again = settings.open(image)
            assert again.log_start_offset in {start, lowest_end}, (effects, fate, seed)
            assert lowest_end <= again.log_end_offset <= end, (effects, fate, seed)
            assert [record.offset for record in again.scan()] == held, (effects, fate, seed)
            again.close_quietly()


def test_it_is_ready_for_appends_again():
    """[LOC-11] It is the segment that begins there, and takes what comes."""
    disk = SimulatedDisk()
    log = SETTINGS.open(disk, ManualScheduler())
    segment = log.segments()[0]

    assert log.roll() is segment
    assert [each.base_offset for each in log.segments()] == [0]
    assert log.append([(None, b"x")]).base_offset == 0
    log.close()
    with SETTINGS.open(disk, ManualScheduler()) as again:
        assert again.report.clean
        assert [record.value for record in again.scan()] == [b"x"]
