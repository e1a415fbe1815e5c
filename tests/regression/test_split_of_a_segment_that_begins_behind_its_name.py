"""A split whose first new segment has another name than the old one could not be broken off.

Offsets of a segment that begins with a gap, as compaction leaves them, are above its name; the
first new one has that of the first batch. Until the old one is gone it lies before them all: the
next open took neither for what the other replaces, found segments that reach into each other, and
refused the log. A failing call at the last renames was enough.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.crash.crash_check import logs_behind_crashes
from tests.crash.crash_script import Settings
from tests.kits.directory_kit import (
    RECOVERY_POINT,
    disk_with,
    far_record,
    name_of,
    recovery_point,
)
from tests.kits.log_kit import offsets

LARGE = Settings(segment_bytes=100_000)
FAR = 2**31 + 10
SEEDS = 4
SPLITS = [(10, FAR + 10), (10, 11, FAR + 10, 2 * FAR + 10), (FAR + 10, 2 * FAR + 20)]


@pytest.mark.parametrize("synced", [0, 3 * FAR])
@pytest.mark.parametrize("split", SPLITS)
def test_it_is_there_whatever_of_the_split_is(split: tuple[int, ...], synced: int):
    """[DUR-1, DUR-20, DUR-56] For a reader, for the next writer, and for a reader behind him."""
    expected = [1, *split, 3 * FAR]
    files = {
        name_of(1): far_record(1),
        name_of(5): b"".join(far_record(offset) for offset in split),
        name_of(3 * FAR): far_record(3 * FAR),
    }
    point = {RECOVERY_POINT: recovery_point(synced)} if synced else {}
    disk = disk_with({**files, **point})
    begin = disk.effects
    with closing(LARGE.open(disk)) as log:
        assert offsets(log.scan()) == expected

    for number in range(begin, disk.effects + 1):
        for seed in range(2):
            image = disk.crash_image(number, fate="seed" if seed else "lost", seed=seed)
            with closing(LARGE.open(image, read_only=True)) as reader:
                shown = offsets(reader.scan())
                assert shown == expected[: len(shown)], (number, seed)
    for crash, found in logs_behind_crashes(LARGE, disk, begin, SEEDS):
        assert offsets(found.scan()) == expected, crash
