"""A crash at each effect of truncations and deletions, and of what comes next [DUR-16, DUR-18].

tests/crash/test_crash_scripts.py tries sequences; here each step of `Truncation` has a script
that needs it, with all crashes of its last two operations.
"""

from __future__ import annotations

import pytest

from tests.crash.crash_check import check_crashes
from tests.crash.crash_model import Operation
from tests.crash.crash_script import Settings, run_script

LARGE, SMALL = Settings(segment_bytes=100_000), Settings(segment_bytes=400)
SYNCED = LARGE._replace(durability="sync")
APPEND, THREE, FLUSH, ROLL = (
    Operation("append", 1),
    Operation("append", 3),
    Operation("flush"),
    Operation("roll"),
)


def cut(offset):
    return Operation("truncate_to", offset)


def empty(offset):
    return Operation("truncate_fully_and_start_at", offset)


def delete(offset):
    return Operation("delete_records", offset)


SCRIPTS = {
    "inside a batch that was synced": (LARGE, [THREE, THREE, FLUSH, cut(4), APPEND]),
    "inside a batch, nothing synced": (LARGE, [THREE, THREE, cut(4), APPEND]),
    "inside the first batch": (LARGE, [THREE, FLUSH, cut(1), APPEND]),
    "inside a batch of an earlier segment": (LARGE, [THREE, THREE, ROLL, THREE, cut(4), APPEND]),
    "what stays was not synced": (LARGE, [THREE, THREE, THREE, cut(6), APPEND]),
    "what stays is synced at each append": (SYNCED, [THREE, THREE, cut(3), APPEND]),
    "several segments": (SMALL, [THREE, THREE, THREE, THREE, FLUSH, cut(3), APPEND]),
    "below the log start": (LARGE, [THREE, THREE, FLUSH, delete(5), cut(3), APPEND]),
    "below the log start, which stays": (LARGE, [THREE, THREE, delete(2), cut(3), APPEND]),
    "below the first segment": (LARGE, [THREE, ROLL, THREE, FLUSH, delete(4), cut(1), APPEND]),
    "an epoch without records": (LARGE, [THREE, Operation("new_epoch"), APPEND, cut(3), APPEND]),
    "a second time, lower": (LARGE, [THREE, THREE, FLUSH, cut(4), cut(3), APPEND]),
    "all, and on behind its end": (SMALL, [THREE, THREE, FLUSH, empty(9), APPEND]),
    "all, and on below its end": (SMALL, [THREE, THREE, FLUSH, empty(2), APPEND]),
    "all, below the log start": (LARGE, [THREE, THREE, FLUSH, delete(5), empty(2), APPEND]),
    "all, above the log start": (LARGE, [THREE, THREE, FLUSH, delete(2), empty(4), APPEND]),
    "all, twice": (LARGE, [THREE, FLUSH, empty(7), empty(3), APPEND]),
    "deletion of whole segments": (SMALL, [THREE, THREE, THREE, FLUSH, delete(6), APPEND]),
    "deletion of what was not synced": (LARGE, [THREE, ROLL, THREE, delete(6), APPEND]),
}


@pytest.mark.parametrize("case", SCRIPTS)
@pytest.mark.parametrize("in_log_directory", [False, True], ids=["alone", "in a log directory"])
def test_no_crash_brings_back_or_takes_what_it_must_not(case, in_log_directory):
    """[DUR-1, DUR-2, DUR-5, DUR-16, DUR-18, DUR-19, TRU-5]"""
    settings, operations = SCRIPTS[case]
    run = run_script(operations, settings._replace(in_log_directory=in_log_directory))

    check_crashes(run, run.steps[-2].begin, run.disk.effects, seeds=4)
