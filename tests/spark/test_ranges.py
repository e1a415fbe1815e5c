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
from segstore.spark.ranges import OffsetRange, split, wants_splitting
from segstore.spark.visible_log import VisibleLog
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

    assert [part.value.size for part in parts] == [15, 20, 20, 20, 15]
    assert offsets == list(range(5, 95))


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
