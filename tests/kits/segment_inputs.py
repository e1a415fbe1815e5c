"""Segments for tests, and what is put into them."""

from __future__ import annotations

from segstore._core import (
    LogSegment,
    SegmentContext,
    decode_tuples,
    validate_and_assign_offsets,
)
from segstore.records.compression import codec_table
from tests.kits.core_inputs import TIME, encoded

LOG = "00000000000000000000.log"


class Segment(LogSegment):
    """As log/segment.py has it."""

    __slots__ = ()


def context_of(directory, **options) -> SegmentContext:
    settings = {"writable": True, "index_interval_bytes": 100, "max_index_bytes": 1000}
    return SegmentContext(directory, codec_table(), **(settings | options))


def append(segment, count: int, *, start: int = 0, timestamp: int = TIME, size: int = 20) -> None:
    """One batch of *count* records with offsets from *start* on."""
    batches = encoded([(timestamp + i, b"k%d" % (start + i), b"v" * size) for i in range(count)])
    validate_and_assign_offsets(
        batches,
        batches.headers,
        codec_table(),
        next_offset=start,
        now_ms=timestamp,
        leader_epoch=0,
        log_append_time=False,
        keys_required=False,
        records_are_trusted=True,
        timestamp_before_max_ms=2**63 - 1,
        timestamp_after_max_ms=2**63 - 1,
    )
    segment.append(batches, batches.headers)


def offsets(fetched) -> list[int]:
    return [row[0] for row in decode_tuples(fetched, codec_table())]
