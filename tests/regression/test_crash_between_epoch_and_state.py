"""Records that were missing in the midst of a log went unnoticed after a crash [DUR-2, DUR-64].

``.segstore`` says from where on no offset is missing, and counts only while it fits the epoch
checkpoint. A crash between the two made it look as if a broker had written the log, and a later
segment was kept behind lost ones. So it did where the missing records began at the hole that a
truncation had left. Found by tests/crash: its random scripts 10698 and 19182.
"""

from __future__ import annotations

import pytest

from segstore.log.files.checkpoints import LogState
from segstore.types import EpochEntry
from tests.crash.crash_check import check_crashes
from tests.crash.crash_model import Operation
from tests.crash.crash_script import Settings, run_script

SCRIPTS = {
    "log start in the epoch checkpoint": [
        Operation("append", 1),
        Operation("append", 2),
        Operation("roll"),
        Operation("append", 2),
        Operation("delete_records", 1),
    ],
    "a new epoch": [
        Operation("append", 2),
        Operation("append", 1),
        Operation("roll"),
        Operation("new_epoch"),
        Operation("append", 1),
    ],
    "hole of a truncation": [
        Operation("append", 2),
        Operation("truncate_to", 1),
        Operation("append", 2),
        Operation("append", 1),
        Operation("roll"),
        Operation("append", 1),
    ],
}


@pytest.mark.parametrize("operations", SCRIPTS.values(), ids=SCRIPTS)
def test_no_records_are_missing_in_the_midst(operations: list[Operation]):
    run = run_script(operations, Settings(segment_bytes=100_000))

    check_crashes(run, 0, run.disk.effects, seeds=40)


def test_the_state_fits_the_checkpoint_before_and_after():
    old, new, other = EpochEntry(1, 5), EpochEntry(2, 9), EpochEntry(3, 9)
    state = LogState(0, 0, new, (old,))

    assert LogState.parse(state.format()) == state
    assert [state.fits(entry) for entry in (old, new, other, None)] == [True, True, False, False]
    assert LogState(0, 0, None, ()).fits(None)
    first = LogState(0, 0, new, (None,))
    assert LogState.parse(first.format()) == first
    assert first.fits(None)
