"""A log being emptied could not be opened behind two kills, or failed syncs, and a power cut.

An open that finds no ``.log`` makes the new segment. The sync that was to bring the removal of the
old ones to the disk had not run, and the power brought one of them back beside the new one. Found
by ``csrc/fuzz/fuzz_operations.c``: "segment 0 ends at 4, the next begins at 3".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import Directory
from tests.crash.barrier_scene import new_disk
from tests.crash.crash_script import PATH, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import SimulatedDisk

SETTINGS = Settings("sync", segment_bytes=100_000)


def has_a_log_file(disk: SimulatedDisk) -> bool:
    return any(".log" in name for name in Directory(PATH, disk).names())


def disk_in_a_full_truncation() -> tuple[SimulatedDisk, int]:
    """Return a disk, and behind how many of its effects the log of two segments is emptied."""
    disk = new_disk()
    log = SETTINGS.open(disk)
    log.append([(None, b"%d" % number) for number in range(4)])
    log.roll()
    log.append([(None, b"%d" % number) for number in range(4, 8)])
    begin = disk.effects
    log.truncate_fully_and_start_at(3)
    log.close_quietly()
    return disk, begin


def killed(disk: SimulatedDisk, begin: int) -> Iterator[SimulatedDisk]:
    """Yield what a kill behind each effect from *begin* on leaves."""
    for effects in range(begin, disk.effects + 1):
        yield disk.crash_image(effects, fate="killed")


def killed_in_an_open(disk: SimulatedDisk) -> Iterator[SimulatedDisk]:
    begin = disk.effects
    SETTINGS.open(disk).close_quietly()
    yield from killed(disk, begin)


def test_the_new_segment_is_made_when_the_old_ones_are_gone():
    """[DUR-18, DUR-36, DUR-56] No open refuses: it is the new log, or the beginning of the old."""
    cuts = 0
    for truncated in killed(*disk_in_a_full_truncation()):
        names = Directory(PATH, truncated).names()
        if any(name.endswith(".log") for name in names) or not has_a_log_file(truncated):
            continue
        for cleared in killed_in_an_open(truncated):
            if has_a_log_file(cleared):
                continue
            for third in killed_in_an_open(cleared):
                for seed in range(20):
                    log = SETTINGS.open(third.crash_image(fate="seed", seed=seed))
                    assert (log.log_start_offset, log.log_end_offset) in {(3, 3), (3, 4)}
                    log.close_quietly()
                    cuts += 1
    assert cuts > 0
