"""A truncation into a batch leaves a hole, and below it a log does not promise to have no other.

The renames of another truncation may reach the disk in any order: a crash took segments out of the
midst, and nobody noticed [DUR-1, DUR-16, DUR-54]. Found by tests/c/crash: `append(4,130)
append(1,520) append(1,70) append(2,1100) append(4,520) truncate_to(10) append(4,70) append(3,90)
truncate_to(11) truncate_to(3) delete_records(1)`, crash 75,seed,10266506299684445813.
"""

from __future__ import annotations

from tests.crash.crash_check import check_crashes
from tests.crash.crash_model import Operation
from tests.crash.crash_script import Settings, run_script

OPERATIONS = (
    Operation("append", 3),
    Operation("append", 3),
    Operation("truncate_to", 5),
    Operation("roll"),
    Operation("append", 1),
    Operation("roll"),
    Operation("append", 1),
    Operation("roll"),
    Operation("append", 3),
    Operation("truncate_to", 8),
    Operation("truncate_to", 2),
)


def test_what_a_truncation_leaves_is_a_prefix():
    run = run_script(OPERATIONS, Settings(segment_bytes=100_000))
    last = run.steps[-1]

    check_crashes(run, last.begin, last.end, seeds=40)
