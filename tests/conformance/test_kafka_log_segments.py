"""Kafka's LogSegmentsTest and LogOffsetMetadataTest."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from segstore.errors import IllegalArgumentError
from segstore.log.local.segments import Segments
from segstore.types import LogOffsetMetadata


class Sized(NamedTuple):
    """What a collection of segments looks at."""

    base_offset: int
    size_bytes: int = 0


def bases(segments) -> list[int]:
    return [segment.base_offset for segment in segments]


def test_closest_match_operations():
    """Kafka: LogSegmentsTest.testClosestMatchOperations [MAP-2]."""
    segments = Segments(Sized(base) for base in (1, 3, 5, 7))
    assert [segments.floor_segment(n).base_offset for n in (2, 3)] == [1, 3]
    assert [segments.lower_segment(n).base_offset for n in (3, 4)] == [1, 3]
    assert [segments.higher_segment(n).base_offset for n in (4, 5)] == [5, 7]


def test_higher_segments():
    """Kafka: LogSegmentsTest.testHigherSegments [MAP-3]."""
    segments = Segments(Sized(base) for base in (1, 3, 5, 7, 9))
    assert bases(segments.higher_segments(0)) == [1, 3, 5, 7, 9]
    assert bases(segments.higher_segments(1)) == [3, 5, 7, 9]
    assert bases(segments.higher_segments(8)) == [9]
    assert bases(segments.higher_segments(9)) == []


def test_size_for_large_logs():
    """Kafka: LogSegmentsTest.testSizeForLargeLogs [MAP-6]."""
    segments = Segments([Sized(0, 2147483647), Sized(1, 2147483647)])
    assert segments.size_in_bytes == 4294967294


def test_message_offset_only():
    """Kafka: LogOffsetMetadataTest.testMessageOffsetOnly [HW-8]."""
    assert LogOffsetMetadata(-1).message_offset_only
    assert LogOffsetMetadata(1).message_offset_only
    assert not LogOffsetMetadata(1, 0, 1).message_offset_only


def test_on_same_segment():
    """Kafka: LogOffsetMetadataTest.testOnSameSegment [HW-8]."""
    assert not LogOffsetMetadata(1, 0, 1).on_same_segment(LogOffsetMetadata(5, 4, 2))
    assert LogOffsetMetadata(5, 4, 2).on_same_segment(LogOffsetMetadata(10, 4, 200))
    assert not LogOffsetMetadata(1).on_same_segment(LogOffsetMetadata(1))
    assert LogOffsetMetadata(1, 0, 1).on_older_segment(LogOffsetMetadata(5, 4, 2))
    assert not LogOffsetMetadata(1).on_older_segment(LogOffsetMetadata(5, 4, 2))


def test_position_diff():
    """Kafka: LogOffsetMetadataTest.testPositionDiff [HW-8]."""
    for one, other in [
        (LogOffsetMetadata(1), LogOffsetMetadata(5, 0, 5)),
        (LogOffsetMetadata(5, 0, 5), LogOffsetMetadata(1)),
        (LogOffsetMetadata(15, 10, 5), LogOffsetMetadata(5, 0, 5)),
    ]:
        with pytest.raises(IllegalArgumentError):
            one.position_diff(other)
    assert LogOffsetMetadata(40, 10, 100).position_diff(LogOffsetMetadata(15, 10, 5)) == 95
