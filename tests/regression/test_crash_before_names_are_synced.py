"""The name of a new segment was not on the disk when something that relied on it was.

A log lost nothing, and yet could not be opened any more, or began behind its records [DUR-13,
DUR-19, DUR-54]. Found by tests/c/crash: `flush flush kill truncate_to(0) append(4,70)
truncate_to(1) roll close`, crash 41,seed,6821954031457973091; `flush append(4,520) roll flush
background append(3,1100) background new_epoch append(2,70) append(3,130) truncate_to(11)
append(2,520) new_epoch truncate_to(11) background`, crash 63,seed,10614315259177753262; `background
roll append(3,1100) close delete_records(3) append(4,1100) append(1,200) kill`, crash
54,seed,2596151849194968605.
"""

from __future__ import annotations

import pytest

from tests.crash.crash_check import check_crashes
from tests.crash.crash_model import Operation
from tests.crash.crash_script import Settings, run_script

SCRIPTS = {
    "the recovery point of a clean stop, behind a hole and a roll": [
        Operation("append", 3),
        Operation("truncate_to", 1),
        Operation("roll"),
        Operation("close"),
    ],
    "the recovery point of the background, behind a segment that was emptied": [
        Operation("append", 3),
        Operation("append", 3),
        Operation("truncate_to", 4),
        Operation("roll"),
        Operation("append", 1),
        Operation("truncate_to", 4),
        Operation("background"),
    ],
    "an open takes away what was deleted": [
        Operation("append", 3),
        Operation("delete_records", 3),
        Operation("roll"),
        Operation("append", 3),
        Operation("roll"),
        Operation("append", 1),
        Operation("kill"),
    ],
    "a deletion takes away the only segment before a new one": [
        Operation("append", 3),
        Operation("delete_records", 3),
        Operation("roll"),
        Operation("delete_records", 3),
    ],
}


@pytest.mark.parametrize("operations", SCRIPTS.values(), ids=SCRIPTS)
def test_the_log_opens_with_what_it_held(operations: list[Operation]):
    run = run_script(operations, Settings(segment_bytes=100_000))
    last = run.steps[-1]

    check_crashes(run, last.begin, last.end, seeds=60)
