"""Cutting ranges into Spark partitions; the recorded plans are replayed in test_connector_batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import segstore
from segstore.errors import LimitExceededError
from segstore.spark.datasource import SegstoreDataSource
from segstore.spark.offsets import cut_by_bytes, plan_ranges
from segstore.spark.options import parse_options
from segstore.spark.ranges import pack, split, wants_splitting
from segstore.spark.visible_log import VisibleLog
from segstore.tables.offset_ranges import OffsetRange
from segstore.types import Isolation, TopicPartition

SIZES = st.integers(0, 9) | st.integers(0, 10**6)
RANGES = st.lists(st.tuples(st.integers(0, 10**6), SIZES), max_size=8).map(
    lambda pairs: [
        OffsetRange("t", partition, start, start + size)
        for partition, (start, size) in enumerate(pairs)
    ]
)


@given(RANGES, st.none() | st.integers(1, 50), st.none() | st.integers(10**4, 10**7))
def test_parts_cover_every_offset_once(ranges, min_partitions, max_records):
    parts = split(ranges, min_partitions, max_records)

    for whole in ranges:
        own = [part for part in parts if part.partition == whole.partition]
        bounds = [whole.from_offset, *(part.until_offset for part in own)]
        assert [part.from_offset for part in own] == bounds[:-1]
        assert bounds[-1] == (whole.until_offset if own else whole.from_offset)
        assert all(part.size > 0 for part in own)
        if max_records is not None:
            assert all(part.size <= max_records for part in own)


@given(RANGES, st.integers(1, 50))
def test_a_hint_above_the_number_of_offsets_makes_no_empty_part(ranges, min_partitions):
    total = sum(offsets.size for offsets in ranges)

    assert len(split(ranges, min_partitions, None)) <= max(total, len(ranges))


@given(RANGES, st.integers(1, 9), st.none() | st.integers(1, 9), st.none() | st.integers(1, 10**6))
def test_tasks_have_every_range_once_in_order_and_keep_the_limits(
    ranges, per_task, min_partitions, max_records
):
    tasks = pack(ranges, per_task, min_partitions, max_records)

    assert [offsets for task in tasks for offsets in task] == ranges
    assert all(1 <= len(task) <= per_task for task in tasks)
    assert len(tasks) >= min(min_partitions or 0, len(ranges))
    for task in tasks:
        assert len(task) == 1 or max_records is None or sum(o.size for o in task) <= max_records


def test_a_task_is_filled_before_the_next_one_begins():
    ranges = [OffsetRange("t", number, 0, 10) for number in range(10)]

    def sizes(*limits):
        return [len(task) for task in pack(ranges, *limits)]

    assert sizes(None, None, None) == [1] * 10
    assert sizes(4, None, None) == [4, 4, 2]
    assert sizes(4, 5, None) == [2] * 5
    assert sizes(4, None, 35) == [3, 3, 3, 1]
    assert sizes(100, None, None) == [10]
    assert pack([], 4, 5, 35) == []


def test_unresolved_ends_are_counted_as_they_are_written():
    """The connector subtracts -2 and -1 as if they were offsets."""
    everything = OffsetRange("t", 0, -2, -1)
    numbers = OffsetRange("t", 0, 0, 700)

    assert not wants_splitting([everything], None, 5)
    assert wants_splitting([numbers], None, 5)
    assert wants_splitting([everything], 2, None)
    assert not wants_splitting([everything, numbers], 2, None)


@pytest.mark.parametrize(
    ("options", "sizes_of_parts"),
    [
        ({}, [100]),
        ({"maxBytesPerPartition": "1"}, [10] * 10),
        ({"maxBytesPerPartition": "3k"}, [20] * 5),
        ({"maxBytesPerPartition": "3k", "maxRecordsPerPartition": "15"}, [10] * 10),
        ({"maxBytesPerPartition": "3k", "minPartitions": "4"}, [20] * 5),
        ({"maxBytesPerPartition": "3k", "minPartitions": "10"}, [10] * 10),
        ({"maxBytesPerPartition": "1g", "connectorCompatible": "true"}, [100]),
    ],
)
def test_ranges_are_cut_by_bytes(tmp_path, options, sizes_of_parts):
    """Between batches, of 10 records and a good kilobyte here, before the other ways to cut."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        for _ in range(10):
            log.append([(b"k", bytes(100))] * 10)
    given = parse_options({"path": str(tmp_path), "subscribe": "t", **options})
    opened = VisibleLog(segstore.open(tmp_path / "t-0", read_only=True), given.isolation)
    parts = plan_ranges(given, [opened.topic_partition], lambda _: opened, print)
    opened.log.close()

    assert [part.size for part in parts] == sizes_of_parts
    assert parts[0].from_offset == 0


def test_micro_batches_are_cut_by_bytes(tmp_path):
    """A stream's batch is cut as a batch read is."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        for _ in range(10):
            log.append([(b"k", bytes(100))] * 10)
    source = SegstoreDataSource(
        {"path": str(tmp_path), "subscribe": "t", "maxBytesPerPartition": "3k"}
    )
    reader = source.streamReader(source.schema())
    parts = reader.partitions({"t": {"0": 5}}, {"t": {"0": 95}})
    offsets = [
        n for one in parts for batch in reader.read(one) for n in batch["offset"].to_pylist()
    ]
    reader.stop()

    assert [part.ranges[0].size for part in parts] == [15, 20, 20, 20, 15]
    assert offsets == list(range(5, 95))


@pytest.fixture
def small_partitions(tmp_path):
    """A directory of ten partitions with ten records each, in two batches."""
    for number in range(10):
        with segstore.open(tmp_path / f"t-{number}", durability="none") as log:
            for start in (0, 5):
                log.append([(b"k", b"%d" % n) for n in range(start, start + 5)])
    return tmp_path


ALL_TEN = [(number, offset) for number in range(10) for offset in range(10)]


def rows_of_tasks(reader, partitions):
    """Partition and offset of each row, task by task."""
    return [
        [
            place
            for batch in reader.read(one)
            for place in zip(
                batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True
            )
        ]
        for one in partitions
    ]


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({}, [10] * 10),
        ({"partitionsPerTask": "4"}, [40, 40, 20]),
        ({"partitionsPerTask": "4", "minPartitions": "5"}, [20] * 5),
        ({"partitionsPerTask": "4", "minPartitions": "20"}, [5] * 20),
        ({"partitionsPerTask": "4", "maxRecordsPerPartition": "25"}, [20] * 5),
        ({"partitionsPerTask": "4", "maxRecordsPerPartition": "5"}, [5] * 20),
    ],
)
def test_small_partitions_share_a_task(small_partitions, options, rows):
    """Case 03-many-partitions: one task each took 20,000 tasks."""
    source = SegstoreDataSource({"path": str(small_partitions), "subscribe": "t", **options})
    reader = source.reader(source.schema())
    found = rows_of_tasks(reader, reader.partitions())

    assert [len(task) for task in found] == rows
    assert [place for task in found for place in task] == ALL_TEN


def test_small_partitions_of_a_micro_batch_share_a_task(small_partitions):
    source = SegstoreDataSource(
        {"path": str(small_partitions), "subscribe": "t", "partitionsPerTask": "4"}
    )
    reader = source.streamReader(source.schema())
    ends = {"t": {str(number): 10 for number in range(10)}}
    starts = {"t": {str(number): 4 if number else 10 for number in range(10)}}
    found = rows_of_tasks(reader, reader.partitions(starts, ends))
    reader.stop()

    assert [len(task) for task in found] == [24, 24, 6]
    assert [place for task in found for place in task] == [
        (number, offset) for number, offset in ALL_TEN if number and offset >= 4
    ]


def test_metadata_of_small_partitions_shares_a_task(small_partitions):
    for kind, rows in (("segments", 1), ("batches", 2)):
        source = SegstoreDataSource(
            {
                "path": str(small_partitions),
                "subscribe": "t",
                "kind": kind,
                "partitionsPerTask": "4",
            }
        )
        reader = source.reader(source.schema())
        found = [
            [number for batch in reader.read(one) for number in batch["partition"].to_pylist()]
            for one in reader.partitions()
        ]

        assert [len(task) for task in found] == [4 * rows, 4 * rows, 2 * rows]
        assert [n for task in found for n in task] == [n for n in range(10) for _ in range(rows)]


def test_offsets_that_a_log_does_not_hold_are_not_cut_away(tmp_path):
    """``failOnDataLoss`` looks at them later."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        log.append([(b"k", bytes(100))] * 10)
        log.append([(b"k", bytes(100))] * 10)
        opened = VisibleLog(log, Isolation.READ_UNCOMMITTED)
        wanted = [OffsetRange("t", 0, 5, 300), OffsetRange("t", 0, 400, 500)]

        assert cut_by_bytes(wanted, {TopicPartition("t", 0): opened}, 1) == [
            OffsetRange("t", 0, 5, 10),
            OffsetRange("t", 0, 10, 300),
            OffsetRange("t", 0, 400, 500),
        ]


def test_an_absurd_number_of_parts_is_refused_before_memory_is_taken():
    """[DUR-92] An end of 2^63 - 1 is a legal offset."""
    with pytest.raises(LimitExceededError, match="Spark partitions"):
        split([OffsetRange("t", 0, 0, 2**63 - 1)], None, 1)
