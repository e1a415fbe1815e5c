"""A log-start checkpoint that is lost, beside a clean marker that has the log start too.

The log began at its first segment then: records that were deleted came back, which nobody wanted
to see again. The marker was looked at for lost files alone.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial

import pytest

from segstore._core import Directory
from tests.crash.crash_check import Crash, look
from tests.crash.crash_script import Settings
from tests.crash.failing_scenarios_of_damage import LOG_START, MARKER, OPENED, changed
from tests.crash.failing_scenarios_of_opens import SEGMENTS, closed, without
from tests.kits.log_kit import offsets

SETTINGS = Settings("none")
DELETED = 3
LEFT = [3, 4, 5]


def lost(how):
    disk = closed(*SEGMENTS, ("delete_records", DELETED))
    if how == "gone":
        return without(disk, LOG_START)
    return changed(disk, LOG_START, lambda _: how)


@pytest.mark.parametrize("how", ["gone", b"", b"0\n1\ntopic 0", b"\0" * 40])
@pytest.mark.parametrize("read_only", [True, False])
def test_the_clean_marker_tells_where_the_log_starts(how, read_only):
    """[DUR-19, DUR-21] What was deleted stays deleted, and a warning says what was lost."""
    with closing(SETTINGS.open(lost(how), read_only=read_only)) as log:
        assert log.log_start_offset == DELETED
        assert offsets(log) == LEFT
        assert log.report.clean
        (warning,) = (text for text in log.report.warnings if "clean-shutdown marker" in text)
        assert LOG_START in warning
        assert str(DELETED) in warning


def test_it_is_written_down_before_the_marker_goes():
    """[DUR-21, DUR-56] A crash at any point of the open, and of the one behind it."""
    disk = OPENED["with a lost log start"]()
    begun = disk.effects
    with closing(SETTINGS.open(disk)) as log:
        assert offsets(log) == LEFT
        opened = disk.effects
    assert opened > begun + 2

    for effects in range(begun, opened + 1):
        for seed in range(4):
            found = look(Crash(effects, "seed", seed).image(disk), SETTINGS).found
            assert (found.log_start, found.log_end) == (DELETED, 6), (effects, seed)


def test_a_checkpoint_that_says_more_is_believed():
    """[DUR-65] Also that of the log directory: the greater of all that is known."""
    settings = SETTINGS._replace(in_log_directory=True)
    disk = without(closed(*SEGMENTS, ("delete_records", DELETED), settings=settings), LOG_START)
    with closing(settings.open(disk)) as log:
        assert log.log_start_offset == DELETED
        assert not any("clean-shutdown marker" in text for text in log.report.warnings)


def test_without_a_marker_the_log_starts_at_its_first_segment():
    """[DUR-21] Nobody knows better, and the report says what cannot be read."""
    disk = without(lost(b"0\n1\n"), MARKER)
    with closing(SETTINGS.open(disk)) as log:
        assert log.log_start_offset == 2
        assert any(LOG_START in text for text in log.report.warnings)


def test_a_checkpoint_that_says_something_else_is_not_believed():
    """[DUR-21] A flipped bit in it took segments away; the marker was written behind it."""
    for wrong in (0, 2, 4, 99, 2**63 - 1):
        with closing(SETTINGS.open(lost(f"0\n1\ntopic 0 {wrong}\n".encode()))) as log:
            assert (log.log_start_offset, offsets(log)) == (DELETED, LEFT)
            assert any(f"log start {wrong};" in text for text in log.report.warnings)
            assert log.report.removed == log.report.set_aside == []


def test_no_flipped_bit_of_a_marker_hides_a_record():
    """[DUR-8, DUR-51] It has a checksum: one that does not fit is no marker."""
    disk = closed(*SEGMENTS, ("delete_records", 1))
    with closing(Directory("/data/topic-0", disk)) as directory:
        size = len(directory.read_file(MARKER))
    for bit in range(8 * size):
        with closing(Directory("/data/topic-0", image := disk.crash_image(fate="lost"))):
            changed(image, MARKER, partial(flipped, bit=bit))
        for read_only in (True, False):
            with closing(SETTINGS.open(image, read_only=read_only)) as log:
                assert (log.log_start_offset, offsets(log)) == (1, [1, 2, 3, 4, 5]), bit


def flipped(content, bit):
    return bytes(byte ^ (number == bit // 8) << bit % 8 for number, byte in enumerate(content))
