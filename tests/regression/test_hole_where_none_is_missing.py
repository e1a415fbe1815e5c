"""An open took a hole where no offset is missing; what was appended behind it, the next refused.

Found by ``csrc/fuzz/fuzz_directory.c``: the segment that begins where no offset is missing any more
lies behind a gap that may be there, and its first batch does not begin where it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore.errors import CorruptLogError
from segstore.log.files.checkpoints import LOG_STATE
from tests.crash.crash_script import Settings
from tests.kits.directory_kit import disk_with, name_of
from tests.kits.log_kit import at

if TYPE_CHECKING:
    from segstore._core import SimulatedDisk

SETTINGS = Settings("sync", segment_bytes=100_000)
STATE = b"version 0\ncontiguous_from 5\nepochs_ordered_from 5\nlatest_epoch 0 5\n"


def disk_with_a_batch_at(base_offset: int) -> SimulatedDisk:
    """Segments at 0, empty, and at 5, with one batch; from 5 on no offset is missing."""
    return disk_with(
        {
            name_of(0): b"",
            name_of(5): at(base_offset, 2, epoch=0),
            LOG_STATE: STATE,
            "leader-epoch-checkpoint": b"0\n1\n0 5\n",
        }
    )


def test_a_hole_where_no_offset_is_missing_is_refused_before_anything_is_appended():
    """[DUR-50, DUR-54, DUR-63]"""
    with pytest.raises(CorruptLogError, match="32769 where 5 is next"):
        SETTINGS.open(disk_with_a_batch_at(32769))


def test_a_gap_below_it_is_none_of_its_business():
    """[DUR-54] What was appended is there when the power goes."""
    disk = disk_with_a_batch_at(5)
    log = SETTINGS.open(disk)
    log.append([(None, b"y")])
    log.close_quietly()

    log = SETTINGS.open(disk.crash_image(fate="lost"))

    assert (log.log_start_offset, log.log_end_offset) == (0, 8)
    log.close_quietly()
