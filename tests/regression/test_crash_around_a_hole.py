"""A truncation into a batch leaves a hole, and below it a log does not promise to have no other.

The renames of another truncation may reach the disk in any order: a crash took segments out of the
midst, and nobody noticed [DUR-1, DUR-16, DUR-54]. Found by tests/c/crash: `append(4,130)
append(1,520) append(1,70) append(2,1100) append(4,520) truncate_to(10) append(4,70) append(3,90)
truncate_to(11) truncate_to(3) delete_records(1)`, crash 75,seed,10266506299684445813. What empties
such a log, or one that a broker began, renamed its segments in any order, too.
"""

from __future__ import annotations

import pytest

from tests.crash.crash_check import check_crashes, logs_behind_crashes
from tests.crash.crash_model import Operation
from tests.crash.crash_script import Settings, run_script
from tests.kits.directory_kit import (
    RECOVERY_POINT,
    disk_with,
    name_of,
    records,
    recovery_point,
)
from tests.kits.log_kit import offsets

LARGE = Settings(segment_bytes=100_000)

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
    run = run_script(OPERATIONS, LARGE)
    last = run.steps[-1]

    check_crashes(run, last.begin, last.end, seeds=40)


EMPTIED = (
    Operation("append", 3),
    Operation("roll"),
    Operation("append", 3),
    Operation("roll"),
    Operation("append", 3),
    Operation("roll"),
    Operation("append", 2),
    Operation("truncate_to", 10),
    Operation("flush"),
)


@pytest.mark.parametrize("offset", [0, 5])
def test_what_is_left_of_a_log_that_is_emptied_is_a_prefix(offset: int):
    """[DUR-2, DUR-18] Above a hole that a truncation into a batch left."""
    run = run_script((*EMPTIED, Operation("truncate_fully_and_start_at", offset)), LARGE)
    last = run.steps[-1]

    check_crashes(run, last.begin, last.end, seeds=60)


def test_what_is_left_of_a_brokers_log_that_is_emptied_is_a_prefix():
    """[DUR-2, DUR-18] Nothing says that such a log has no holes."""
    files = {name_of(base): records(base, base + 3) for base in (0, 3, 6, 9)}
    disk = disk_with({**files, RECOVERY_POINT: recovery_point(12)})
    log = LARGE.open(disk)
    log.flush()
    begin = disk.effects
    log.truncate_fully_and_start_at(0)
    log.close_quietly()

    for crash, left in logs_behind_crashes(LARGE, disk, begin, seeds=60):
        found = offsets(left.scan())
        assert found == list(range(len(found))), crash
