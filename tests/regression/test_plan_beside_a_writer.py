"""A plan by timestamps beside a writer: its ends were taken before, and what it found lay behind.

The query failed with a data loss that was none, or with a start above its end.
"""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark.sql.datasource")

import segstore
from segstore.spark.log_source import source_of
from segstore.spark.mapped_ranges import options_of_call
from segstore.spark.offsets import plan_ranges
from segstore.spark.open_logs import OPEN_LOGS
from tests.kits.log_kit import TIME

RECORDS = 100


@pytest.fixture
def logs(tmp_path):
    with segstore.open_dir(tmp_path, durability="none") as manager:
        manager.create_topic("t", 1)
    append(tmp_path, 0, RECORDS)
    yield tmp_path
    OPEN_LOGS.close()


def append(logs, first, count):
    with segstore.open_dir(logs, durability="none") as manager:
        for number in range(first, first + count):
            manager.log("t", 0).append([(TIME + number, None, b"%d" % number)])


def planned(logs, **given):
    """Plan a query; a writer goes on as soon as the ends are known."""
    options = options_of_call(str(logs), given)
    source = source_of(options)

    def open_log(partition):
        log = source.open(partition)
        append(logs, RECORDS, 50)
        return log

    return [
        (offsets.from_offset, offsets.until_offset)
        for offsets in plan_ranges(options, source.partitions(), open_log, pytest.fail)
    ]


def test_an_end_that_a_writer_brought_is_the_end_of_the_plan(logs):
    assert planned(logs, endingTimestamp=TIME + RECORDS + 5) == [(0, RECORDS)]


def test_a_start_that_a_writer_brought_is_no_match_yet(logs):
    begin = {"startingTimestamp": TIME + RECORDS + 5}
    with pytest.raises(segstore.SegstoreError, match="No offset matched"):
        planned(logs, **begin)


def test_a_start_that_a_writer_brought_is_the_end_where_that_was_asked_for(logs):
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    assert planned(logs, startingTimestamp=TIME + RECORDS + 5, **latest) == [(RECORDS, RECORDS)]


@pytest.mark.parametrize(("word", "expected"), [(-1, (RECORDS, RECORDS)), (-2, (0, RECORDS))])
def test_words_in_the_place_of_timestamps(logs, word, expected):
    assert planned(logs, startingTimestamp=word) == [expected]
