"""What a crash in the midst of truncate_fully_and_start_at left [DUR-5, DUR-18].

Found by tests/crash: its random scripts 5430 and 1569.
"""

from __future__ import annotations

import pytest

from tests.crash.crash_check import Crash, check_crash, check_crashes
from tests.crash.crash_model import Operation
from tests.crash.crash_script import Settings, run_script

SCRIPTS = {
    "a log start that is lowered before the files are gone brings deleted records back": [
        Operation("append", 2),
        Operation("append", 2),
        Operation("delete_records", 4),
        Operation("truncate_fully_and_start_at", 2),
    ],
    "the renames of many segments may reach the disk in any order": [
        Operation("append", 3),
        Operation("append", 3),
        Operation("roll"),
        Operation("append", 3),
        Operation("roll"),
        Operation("append", 3),
        Operation("flush"),
        Operation("truncate_fully_and_start_at", 5),
    ],
}


@pytest.mark.parametrize("operations", SCRIPTS.values(), ids=SCRIPTS)
def test_a_prefix_of_the_old_log_or_the_new_one(operations: list[Operation]):
    run = run_script(operations, Settings(segment_bytes=100_000))
    last = run.steps[-1]

    check_crashes(run, last.begin, last.end, seeds=20)
    for effects in range(last.begin, last.end + 1):
        check_crash(run, Crash(effects, "lost"))
        check_crash(run, Crash(effects, "kept"))
