"""A plan of more than 64 partitions failed with ClosedError, and one in each of two threads, too.

The logs that stay open were handed out while they stayed in the cache, so the 65th closed the
first one, which the plan still held; two threads closed each other's.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("pyspark")

import segstore
from segstore.spark.mapped_ranges import options_of_call, ranges_of
from segstore.spark.open_logs import MAX_OPEN_LOGS, OPEN_LOGS
from segstore.spark.record_count import count_range

PARTITIONS = MAX_OPEN_LOGS + 6


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("many")
    for number in range(PARTITIONS):
        with segstore.open(path / f"t-{number}", durability="none") as log:
            log.append([segstore.Record(value=b"v", timestamp=n) for n in range(3)])
    yield path
    OPEN_LOGS.close()


@pytest.mark.parametrize(
    "more", [{}, {"maxBytesPerPartition": 1}, {"startingTimestamp": 1, "endingTimestamp": 3}]
)
def test_all_are_planned_and_read(directory, more):
    options = options_of_call(str(directory), more)
    ranges = ranges_of(options)

    assert len(ranges) == PARTITIONS
    first = 1 if "startingTimestamp" in more else 0
    assert sum(count_range(options, one) for one in ranges) == PARTITIONS * (3 - first)


def test_threads_plan_side_by_side(directory):
    """Together they need more than stay open."""
    options = options_of_call(str(directory), {})

    def plan(_):
        return [(one.from_offset, one.until_offset) for one in ranges_of(options)]

    with ThreadPoolExecutor(4) as pool:
        plans = list(pool.map(plan, range(8)))
    assert plans == [[(0, 3)] * PARTITIONS] * 8
