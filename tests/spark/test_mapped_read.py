"""``segstore.spark.read`` and ``count``: the data source's answers, with less work."""

from __future__ import annotations

import datetime as dt
import json
import random

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

import segstore
import segstore.spark
from segstore.errors import ArgumentTypeError, CorruptRecordError
from segstore.spark.conditions import ConnectorOptionError
from segstore.spark.mapped_ranges import options_of_call, ranges_of
from segstore.spark.mapped_read import _narrowed
from segstore.spark.open_logs import OPEN_LOGS
from segstore.spark.range_reader import RangeReader
from segstore.spark.record_count import count_range
from segstore.spark.schema import (
    ROWS_WITHOUT_COLUMNS_SINCE,
    columns_of,
    connector_schema,
    spark_version,
)
from segstore.spark.where_clause import Narrowing, narrowing_of

TOPIC, RECORDS = "orders", 1400
"""Of the packed case that the tests with numbers read."""


@pytest.fixture
def orders(packed):
    return packed / "plain-many-segments" / "data"


@pytest.fixture(autouse=True)
def no_log_stays_open():
    yield
    OPEN_LOGS.close()


def every_record(options):
    """Rows, read one range after the other in this process."""
    reader = RangeReader(options, columns_of(connector_schema(include_headers=False)))
    ranges = ranges_of(options)
    return [row for one in ranges for b in reader.read_range(one) for row in b.to_pylist()]


@pytest.mark.golden_kinds(
    "plain",
    "compacted",
    "transactions",
    "killed in transactions",
    "message sets",
    "a log start that moved",
)
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed", "durable"])
def test_a_count_by_headers_is_that_of_the_records(golden_data, isolation):
    """Gaps, markers, aborted transactions, compaction, ranges, every isolation."""
    whole = options_of_call(str(golden_data), {"isolation.level": isolation})
    inside = {}
    for one in ranges_of(whole):
        begin = one.from_offset + one.size // 3
        inside.setdefault(one.topic, {})[str(one.partition)] = begin
    for given in (
        {},
        {"maxBytesPerPartition": 5000},
        {"startingOffsets": json.dumps(inside)},
    ):
        options = options_of_call(str(golden_data), {"isolation.level": isolation, **given})
        ranges = ranges_of(options)
        counted = sum(count_range(options, one) for one in ranges)
        nothing_is_durable = isolation == "durable" and not any(one.size for one in ranges)

        assert counted == len(every_record(options))
        assert counted > 0 or nothing_is_durable


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"columns": "offset"}, r"name them in a list.*\['offset'\]"),
        ({"where": 3}, "where must be a condition in SQL, as text"),
    ],
)
def test_columns_are_a_list_and_a_condition_is_text(tmp_path, given, said):
    with pytest.raises(ArgumentTypeError, match=said):
        segstore.spark.read(None, tmp_path, **given)


def test_rows_without_columns_come_from_headers(orders):
    options = options_of_call(str(orders), {})
    reader = RangeReader(options, ())
    batches = [batch for one in ranges_of(options) for batch in reader.read_range(one)]

    assert sum(batch.num_rows for batch in batches) == RECORDS
    assert {batch.num_columns for batch in batches} == {0}


def test_a_condition_skips_segments_and_offsets(tmp_path):
    """Records that are not wanted may even be damaged: they are not read."""
    with segstore.open(tmp_path / "t-0", durability="none", internal_segment_bytes=4_000) as log:
        for number in range(100):
            log.append([(1_000_000 + 1000 * number, b"k", bytes(200))] * 2)
        first, *_ = segments = log.segments()
        assert len(segments) > 5
    file = tmp_path / "t-0" / first.name
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    options = options_of_call(str(tmp_path), {})

    def times(condition):
        narrowing = narrowing_of(condition, lambda text: int(text.split("'")[1]) * 1_000_000)
        reader = RangeReader(
            options,
            columns_of(connector_schema(include_headers=False)),
            start_timestamp=narrowing.first_timestamp,
            end_timestamp=narrowing.end_timestamp,
        )
        ranges = ranges_of(options, lambda offsets, log: _narrowed(offsets, log, narrowing))
        rows = [r for one in ranges for b in reader.read_range(one) for r in b.to_pylist()]
        return [round(row["timestamp"].timestamp()) for row in rows]

    assert times("timestamp >= '1090' AND timestamp < '1092'") == [1090, 1090, 1091, 1091]
    assert times("offset >= 198") == [1099, 1099]
    assert times("timestamp >= '2000'") == []
    assert times("partition = 7 AND offset >= 0") == []
    with pytest.raises(CorruptRecordError):
        times("offset < 3")


def test_no_condition_loses_a_record_of_a_disordered_log(tmp_path):
    """Timestamps in any order, equal ones, many segments: what is skipped would not match."""
    chance = random.Random(11)
    with segstore.open(tmp_path / "t-0", durability="none", internal_segment_bytes=600) as log:
        for _ in range(60):
            count = chance.randint(1, 4)
            log.append([(chance.randint(1, 60) * 1000, None, b"v")] * count)
        assert len(log.segments()) > 5
        everything = [(one.offset, one.timestamp) for one in log]
    options = options_of_call(str(tmp_path), {"maxBytesPerPartition": 300})
    for _ in range(150):
        first, behind = sorted(chance.choices(range(62), k=2))
        low, high = sorted(chance.choices(range(len(everything) + 1), k=2))
        narrowing = Narrowing(low, high, first * 1000, behind * 1000)
        ranges = ranges_of(options, lambda offsets, log, by=narrowing: _narrowed(offsets, log, by))
        reader = RangeReader(
            options,
            columns_of(StructType().add("offset", "long")),
            start_timestamp=first * 1000,
            end_timestamp=behind * 1000,
        )
        found = [
            n for one in ranges for b in reader.read_range(one) for n in b["offset"].to_pylist()
        ]
        assert found == [
            offset
            for offset, timestamp in everything
            if low <= offset < high and first * 1000 <= timestamp < behind * 1000
        ]


def test_spark_gives_the_same_rows_by_both_doors(spark, orders):
    """Every condition, pushed down or not, against the data source's rows."""
    path = str(orders)
    frame = spark.read.format("segstore").options(path=path, subscribe=TOPIC).load()
    whole = frame.toArrow().sort_by([("partition", "ascending"), ("offset", "ascending")])
    frame.createOrReplaceTempView("orders")
    times = sorted(set(whole["timestamp"].to_pylist()))
    middle = times[len(times) // 2].astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")

    def rows(table):
        return sorted(table.to_pylist(), key=repr)

    plain = segstore.spark.read(spark, path, subscribe=TOPIC)
    assert plain.schema == frame.schema
    assert rows(plain.toArrow()) == rows(whole)
    for condition in (
        f"timestamp >= '{middle}' AND timestamp < TIMESTAMP '{middle}' + INTERVAL 1 SECOND",
        f"timestamp <= TIMESTAMP '{middle}' AND partition = 1",
        "offset BETWEEN 100 AND 120 OR offset = 7",
        "offset < 20 AND length(value) > 0 AND topic IN ('orders', 'other')",
    ):
        narrow = segstore.spark.read(spark, path, ["offset", "value"], condition, subscribe=TOPIC)
        expected = frame.where(condition).select("offset", "value").toArrow()
        assert narrow.columns == ["offset", "value"]
        assert expected.num_rows > 0
        assert rows(narrow.toArrow()) == rows(expected)


def test_spark_counts_by_headers(spark, orders):
    path = str(orders)
    assignment = {"assign": json.dumps({TOPIC: [1]}), "minPartitions": 3}

    assert segstore.spark.count(spark, path) == RECORDS
    assert segstore.spark.count(spark, path, **assignment) < RECORDS
    assert segstore.spark.count(spark, path, partitionsPerTask=2) == RECORDS
    packed = segstore.spark.read(spark, path, ["offset"], partitionsPerTask=2)
    assert packed.rdd.getNumPartitions() == 1
    assert packed.count() == RECORDS
    assert (
        segstore.spark.count(
            spark, path, startingTimestamp=2**50, startingOffsetsByTimestampStrategy="latest"
        )
        == 0
    )
    assert segstore.spark.read(spark, path, columns=()).count() == RECORDS
    assert segstore.spark.read(spark, path, (), "offset < 5").count() == 10
    assert segstore.spark.read(spark, path, (), "1 = 1").count() == RECORDS
    frame = spark.read.format("segstore").options(path=path, subscribe=TOPIC)
    frame = frame.schema(StructType([])).load()
    if spark_version() >= ROWS_WITHOUT_COLUMNS_SINCE:
        assert frame.count() == RECORDS
    else:
        with pytest.raises(Exception, match="no column"):
            frame.count()


@pytest.mark.parametrize("columns", [["offset", "size"], ["value", "VALUE"]])
def test_columns_that_cannot_be_are_refused(orders, columns):
    with pytest.raises(ConnectorOptionError):
        segstore.spark.read(None, orders, columns)
