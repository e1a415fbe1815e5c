"""Cutting ranges into Spark partitions; the recorded plans are replayed in test_connector_batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore.errors import LimitExceededError
from segstore.spark.ranges import OffsetRange, split, wants_splitting

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


def test_an_absurd_number_of_parts_is_refused_before_memory_is_taken():
    """[DUR-92] An end of 2^63 - 1 is a legal offset."""
    with pytest.raises(LimitExceededError, match="Spark partitions"):
        split([OffsetRange("t", 0, 0, 2**63 - 1)], None, 1)
