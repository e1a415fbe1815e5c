"""A log start above the end of a log that was closed cleanly: not believed, and so for good.

Only the clean marker tells. It was taken away first, so a call that failed during the open, or a
crash, left a log start that the next open believed: it set every record aside. And a read that
failed while the end was looked for counted as "not clean after all".
"""

from __future__ import annotations

import errno
from contextlib import closing

import pytest

from segstore.errors import ReadIOError
from tests.crash.crash_check import Crash, look
from tests.crash.crash_script import Settings
from tests.crash.failing_scenarios_of_damage import OPENED
from tests.crash.failing_scenarios_of_opens import without
from tests.kits.log_kit import offsets

SETTINGS = Settings("none")
RECORDS = [0, 1, 2, 3, 4, 5]


@pytest.fixture
def disk():
    return OPENED["with an impossible log start"]().crash_image(fate="lost")


def test_a_crash_at_any_point_of_the_open(disk):
    """[DUR-21, DUR-56]"""
    begun = disk.effects
    with closing(SETTINGS.open(disk)) as log:
        assert offsets(log) == RECORDS
        opened = disk.effects
    assert opened > begun + 2

    for effects in range(begun, opened + 1):
        for seed in range(4):
            found = look(Crash(effects, "seed", seed).image(disk), SETTINGS).found
            assert (found.log_start, found.log_end) == (0, 6), (effects, seed)


@pytest.mark.parametrize("number", range(1, 12))
def test_a_read_that_fails(disk, number):
    """[DUR-6, DUR-31] Whichever read of the open it is."""
    disk.fail("read_at", number, errno.EIO)
    try:
        SETTINGS.open(disk).close_quietly()
    except ReadIOError:
        assert look(disk.crash_image(fate="killed"), SETTINGS).found.log_end == 6

    disk.fail("read_at", 0, 0)
    with closing(SETTINGS.open(disk)) as log:
        assert offsets(log) == RECORDS


def test_a_lost_index_is_still_missed():
    """[DUR-53] The look for the end made it, empty, before anybody asked whether it was there."""
    names = [f"{4:020d}.{kind}" for kind in ("index", "timeindex")]
    disk = without(OPENED["with an impossible log start"](), *names)
    with closing(SETTINGS.open(disk)) as log:
        assert set(names) <= set(log.report.rebuilt)
        assert log.verify().ok
