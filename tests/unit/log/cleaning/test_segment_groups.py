"""Which segments the cleaner makes one of [CLN-65..CLN-69]."""

from __future__ import annotations

from typing import NamedTuple

from segstore.log.cleaning.segment_groups import group_segments_by_size
from segstore.number_limits import MAX_INT


class FakeSegment(NamedTuple):
    """What grouping asks of a segment."""

    base_offset: int
    size_bytes: int = 100
    indexes: tuple[int, int] = (8, 12)

    def index_bytes(self) -> tuple[int, int]:
        return self.indexes


def grouped(*segments: FakeSegment, max_bytes: int = 1000, max_index: int = 1000, limit=99):
    groups = group_segments_by_size(segments, max_bytes, max_index, limit)
    return [[one.base_offset for one in group] for group in groups]


def test_as_many_as_fit_the_size_of_a_segment():
    """[CLN-65, CLN-66, CLN-69]"""
    segments = [FakeSegment(0), FakeSegment(10), FakeSegment(20, 2000), FakeSegment(30)]

    assert grouped(*segments, max_bytes=200) == [[0, 10], [20], [30]]
    assert grouped(*segments, max_bytes=199) == [[0], [10], [20], [30]]
    assert grouped(*segments, max_bytes=9000) == [[0, 10, 20, 30]]
    assert grouped() == []


def test_as_many_as_fit_either_index():
    """[CLN-66, CLN-68]"""
    by_offsets = [FakeSegment(0, indexes=(50, 12)), FakeSegment(10, indexes=(50, 12))]
    by_times = [FakeSegment(0, indexes=(8, 50)), FakeSegment(10, indexes=(8, 51))]

    assert grouped(*by_offsets, max_index=100) == [[0, 10]]
    assert grouped(*by_offsets, max_index=99) == [[0], [10]]
    assert grouped(*by_times, max_index=100) == [[0], [10]]


def test_offsets_of_a_group_fit_an_index():
    """[CLN-66, CLN-67] A segment ends where the next one begins, or below the limit."""
    far = MAX_INT + 1
    segments = [FakeSegment(0), FakeSegment(10), FakeSegment(far)]

    assert grouped(*segments, limit=far + 1) == [[0, 10], [far]]
    assert grouped(*segments[:2], limit=far) == [[0, 10]]
    assert grouped(*segments[:2], limit=far + 1) == [[0], [10]]
    empty = FakeSegment(10, size_bytes=0)
    assert grouped(FakeSegment(0), empty, limit=far + 1) == [[0, 10]]
