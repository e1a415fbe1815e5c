"""The sorted snapshot of segments [MAP-1..MAP-8]."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore.errors import IllegalArgumentError, IllegalStateError
from segstore.log.local.segments import Segments


class Fake(NamedTuple):
    """What a snapshot looks at."""

    base_offset: int
    size_bytes: int = 10
    timestamp: int = 0

    def latest_possible_timestamp(self) -> int:
        return self.timestamp


FIVE = Segments(Fake(base) for base in (9, 1, 5, 3, 7))


def bases(segments) -> list[int]:
    return [segment.base_offset for segment in segments]


def test_order_and_exact_look_ups():
    """[MAP-1]"""
    assert bases(FIVE) == list(FIVE.base_offsets) == [1, 3, 5, 7, 9]
    assert len(FIVE) == 5
    assert FIVE.get(5) == Fake(5)
    assert FIVE.get(4) is None
    assert FIVE.get(10) is None
    assert 5 in FIVE
    assert 6 not in FIVE


@pytest.mark.parametrize(
    ("offset", "floor", "lower", "higher"),
    [(0, None, None, 1), (1, 1, None, 3), (2, 1, 1, 3), (9, 9, 7, None), (99, 9, 9, None)],
)
def test_neighbours(offset, floor, lower, higher):
    """[MAP-2] floor is at or below, lower and higher are strict."""
    found = (FIVE.floor_segment(offset), FIVE.lower_segment(offset), FIVE.higher_segment(offset))
    assert [None if one is None else one.base_offset for one in found] == [floor, lower, higher]


def test_higher_segments():
    """[MAP-3]"""
    assert bases(FIVE.higher_segments(0)) == [1, 3, 5, 7, 9]
    assert bases(FIVE.higher_segments(4)) == [5, 7, 9]
    assert bases(FIVE.higher_segments(9)) == []


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (3, 3, []),
        (4, 4, []),
        (0, 1, []),
        (0, 2, [1]),
        (3, 7, [3, 5]),
        (4, 8, [3, 5, 7]),
        (9, 100, [9]),
        (99, 100, [9]),
    ],
)
def test_values(start, end, expected):
    """[MAP-4] from the floor of the start, or the first, up to bases below the end."""
    assert bases(FIVE.values(start, end)) == expected


def test_a_reversed_range_is_refused():
    """[MAP-4]"""
    with pytest.raises(IllegalArgumentError, match="reversed"):
        FIVE.values(5, 4)


@pytest.mark.parametrize(("start", "expected"), [(0, [1, 3, 5, 7]), (9, []), (10, []), (6, [5, 7])])
def test_non_active_segments(start, expected):
    """[MAP-5]"""
    assert bases(FIVE.non_active_segments_from(start)) == expected


def test_ends_and_size():
    """[MAP-6] the size is no 32-bit number."""
    assert (FIVE.first_segment, FIVE.active_segment) == (Fake(1), Fake(9))
    assert Segments([Fake(0, 2**31 - 1), Fake(1, 2**31 - 1)]).size_in_bytes == 2**32 - 2
    for end in ("first_segment", "active_segment"):
        with pytest.raises(IllegalStateError, match="no segment"):
            getattr(Segments(), end)
    assert Segments().size_in_bytes == 0


def test_a_snapshot_never_changes():
    """[MAP-7] who iterates sees what was there when he took it."""
    one = Segments([Fake(0)])
    iterator = iter(one)
    two = one.with_segment(Fake(5))
    replaced = two.with_segment(Fake(5, 99))
    assert bases(iterator) == bases(one) == [0]
    assert bases(two) == [0, 5]
    assert replaced.get(5).size_bytes == 99
    assert bases(two.without([two.get(0)])) == [5]
    assert bases(two) == [0, 5]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.lists(st.integers(-1, 31)))
def test_segments_that_reach_a_timestamp(timestamps: list[int], wanted: list[int]):
    """[TS-2] Every one with such a record, as if each were asked; rolls keep what is known.

    Kafka: the filter of ``UnifiedLog.fetchOffsetByTimestamp``.
    """
    fakes = [Fake(base, timestamp=timestamp) for base, timestamp in enumerate(timestamps)]
    segments = Segments(fakes[:1])
    for count in range(1, len(fakes) + 1):
        for timestamp in wanted:
            found = list(segments.reaching_timestamp(timestamp))

            assert found == [fake for fake in fakes[:count] if fake.timestamp >= timestamp]
        if count < len(fakes):
            segments = segments.with_segment(fakes[count])
