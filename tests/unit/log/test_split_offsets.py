"""Cutting a range into parts of so many bytes, between batches."""

from __future__ import annotations

import random

import pytest

from segstore.errors import IllegalArgumentError
from tests.kits.log_kit import TIME, at


def batches_of(scan):
    return [(batch.base_offset, batch.size_bytes) for batch in scan.batches()]


def greedy(batches, max_bytes):
    """Where parts begin, behind the first: the plain way, over every batch."""
    cuts, used = [], 0
    for base_offset, size in batches:
        if used and used + size > max_bytes:
            cuts.append(base_offset)
            used = 0
        used += size
    return cuts


@pytest.fixture
def log(new_log):
    """Batches of 70 to 4,000 bytes in segments of about 9,000, with gaps between some."""
    chance = random.Random(3)
    log = new_log(replicated=True, internal_segment_bytes=9_000, index_interval_bytes=500)
    offset = 0
    for _ in range(120):
        offset += chance.choice([0, 0, 0, 1, 50])
        count = chance.randint(1, 4)
        value = bytes(chance.choice([1, 20, 300, 950]))
        log.append_as_follower(at(offset, count, value=value), 0)
        offset += count
    assert len(log.segments()) > 5
    return log


@pytest.mark.parametrize("max_bytes", [1, 69, 500, 1_000, 4_000, 8_999, 20_000, 10**9])
def test_parts_are_as_large_as_they_may_be(log, max_bytes):
    """The oracle fills part after part with whole batches; segments make no difference."""
    chance = random.Random(max_bytes)
    end = log.log_end_offset
    ranges = [(0, end), *(sorted(chance.choices(range(end), k=2)) for _ in range(20))]
    for first, behind in ranges:
        scan = log.scan(first, behind)

        assert scan.cuts(max_bytes) == greedy(batches_of(scan), max_bytes), (first, behind)


def test_a_range_without_batches_is_not_cut(new_log):
    log = new_log()

    assert log.scan().cuts(1) == []
    log.append([(TIME, b"k", b"v")] * 3)
    assert log.scan(3, 3).cuts(1) == []
    assert log.scan().cuts(1) == []
    with pytest.raises(IllegalArgumentError):
        log.scan().cuts(0)
