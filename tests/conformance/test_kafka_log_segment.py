"""Kafka's LogSegmentTest: what a read finds (the rest is in tests/c)."""

from __future__ import annotations

import pytest

from tests.kits.log_kit import at, offsets


@pytest.fixture
def segment(new_log):
    """An empty segment at 40, and a function that appends one record an offset."""
    log = new_log()
    log.truncate_fully_and_start_at(40)

    def append(*records: int) -> None:
        for offset in records:
            log.append_as_follower(at(offset), 0)

    return log, log.segments()[0], append


def test_read_on_empty_segment(segment):
    """Kafka: LogSegmentTest.testReadOnEmptySegment [SEG-19]."""
    _, empty, _ = segment
    assert empty.read(40, 300, 300, True) is None


def test_read_after_last(segment):
    """Kafka: LogSegmentTest.testReadAfterLast [SEG-19]."""
    _, filled, append = segment
    append(50, 51)
    assert filled.read(52, 200, 1000, True) is None


def test_read_from_gap(segment):
    """Kafka: LogSegmentTest.testReadFromGap [SEG-18]."""
    log, filled, append = segment
    append(50, 51, 60, 61)
    assert filled.read(55, 200, 1000, True).base_offset == 60
    assert offsets(log.read(55, 200)) == [60, 61]


def test_next_offset_calculation(segment):
    """Kafka: LogSegmentTest.testNextOffsetCalculation [SEG-22]."""
    _, filled, append = segment
    assert filled.read_next_offset() == (40, True)
    append(50, 51, 52)
    assert filled.read_next_offset() == (53, True)
