"""A crash may bring any of the renames to the disk that came since the last sync of the directory.

Where a segment is split, the first new segment could be there as ``.swap`` while a later one still
was ``.cleaned``: the next open took the first for the whole result, put it in the place of the old
segment, and removed the later one with its records. And where an incomplete set was removed, the
``.cleaned`` file that showed it to be incomplete could go first: the open after that took the rest
for complete, and found segments that reach into each other. Both came up when each sync of the
engine got a name, and the question what a crash takes without it.

With three new segments the last rename of the middle one could be on the disk alone: between the
``.swap`` files of its neighbours it was taken for a segment that they replace, and removed.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.crash.crash_check import logs_behind_crashes
from tests.crash.crash_script import Settings
from tests.kits.directory_kit import (
    RECOVERY_POINT,
    disk_with,
    far_record,
    name_of,
    records,
    recovery_point,
)
from tests.kits.log_kit import offsets

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import SimulatedDisk

LARGE = Settings(segment_bytes=100_000)
FAR = 2**31 + 10
SEEDS = 12


@pytest.mark.parametrize("synced", [0, 2])
def test_no_record_of_a_split_segment_goes(synced: int):
    """[DUR-1, DUR-20] Whatever of the split is there."""
    content = far_record(0) + far_record(1) + far_record(FAR) + far_record(FAR + 1)
    disk = disk_with({name_of(0): content, RECOVERY_POINT: recovery_point(synced)})
    begin = disk.effects
    log = LARGE.open(disk)
    assert [segment.base_offset for segment in log.segments()] == [0, FAR]
    log.close_quietly()

    for crash, found in logs_behind_crashes(LARGE, disk, begin, SEEDS):
        assert offsets(found.scan()) == [0, 1, FAR, FAR + 1], crash


def replaced(count: int) -> SimulatedDisk:
    """Return a disk with a segment of three batches a new one, and those that replace it."""
    return disk_with(
        {
            name_of(0): records(0, 3 * count),
            **{name_of(3 * k, "log.swap"): records(3 * k, 3 * k + 3) for k in range(count)},
            RECOVERY_POINT: recovery_point(3 * count),
        }
    )


def overflowing(count: int) -> SimulatedDisk:
    """Return a disk with a segment that is split in so many."""
    content = b"".join(far_record(k * FAR) + far_record(k * FAR + 1) for k in range(count))
    end = (count - 1) * FAR + 2
    return disk_with({name_of(0): content, RECOVERY_POINT: recovery_point(end)})


@pytest.mark.parametrize("disk_of", [replaced, overflowing])
def test_no_new_segment_is_taken_for_an_old_one(disk_of: Callable[[int], SimulatedDisk]):
    """[DUR-1, DUR-20, DUR-55] Its last name may be on the disk before those of its neighbours."""
    disk = disk_of(3)
    begin = disk.effects
    log = LARGE.open(disk)
    expected = offsets(log.scan())
    log.close_quietly()
    assert len(expected) >= 6

    for crash, found in logs_behind_crashes(LARGE, disk, begin, SEEDS):
        assert offsets(found.scan()) == expected, crash


def test_a_reader_takes_no_new_segment_for_an_old_one():
    """[DUR-55, DUR-71] Of three of a set, the one in the middle has its last name."""
    files = {
        name_of(0, "log.swap"): records(0, 3),
        name_of(3): records(3, 6),
        name_of(6, "log.swap"): records(6, 9),
        name_of(9): records(9, 10),
    }
    with closing(LARGE.open(disk_with(files), read_only=True)) as log:
        assert offsets(log.scan()) == list(range(10))


@pytest.mark.parametrize("synced", [0, 6])
def test_an_incomplete_set_stays_incomplete(synced: int):
    """[DUR-20, DUR-55, DUR-56] Also when a crash takes part of what removed it."""
    disk = disk_with(
        {
            name_of(0): records(0, 6),
            name_of(0, "log.cleaned"): records(0, 3),
            name_of(3, "log.swap"): records(3, 6),
            RECOVERY_POINT: recovery_point(synced),
        }
    )
    begin = disk.effects
    LARGE.open(disk).close_quietly()

    for crash, found in logs_behind_crashes(LARGE, disk, begin, SEEDS):
        sizes = [(one.base_offset, one.size_bytes) for one in found.segments()]
        assert offsets(found.scan()) == list(range(6)), crash
        assert sizes == [(0, len(records(0, 6)))], crash
