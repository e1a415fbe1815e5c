"""What a compaction would take away: by its first half, the map of keys, or by age [CLN-55]."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from segstore._core import OffsetMap, SegmentCleaner
from segstore.log.cleaning.cleaner import DEFAULT_IO_BUFFER_BYTES, DEFAULT_LOAD_FACTOR
from segstore.types import DELETE_HORIZON_FLAG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segstore._core import BatchHeaders, CodecTable
    from segstore.log.local.segment import Segment
    from segstore.records.record_batch import RecordBatch


class CompactionPlan(NamedTuple):
    """The part of a log that a compaction reads, and about what it leaves.

    Attributes
    ----------
    end_offset : int
        Where that part ends.
    bytes_before, records_before : int
        What it has now. A control batch counts as one record.
    records_after : int
        About one for each key; tombstones that are old are among them.
    bytes_after : int
        An estimate: as if all records had the same size.
    first_dirty_offset : int
        What lies below is clean; the log start where nothing is known to be.
    dirty_ratio : float
        The dirty part of the bytes below *end_offset*, 0 to 1. Above ``min.cleanable.dirty.ratio``
        a manager begins a pass.
    held_back_from, held_back_until : int or None
        From which offset on records are younger than ``min.compaction.lag.ms``, and when the first
        segment of these is old, in ms since 1970. None = nothing is held back by it; the time is
        not known where damage may hide a timestamp.
    overdue_since : int or None
        Since when a pass has been due by ``max.compaction.lag.ms``, in ms since 1970. None = it is
        not, or nothing can be cleaned yet.
    """

    end_offset: int
    bytes_before: int
    records_before: int
    records_after: int
    bytes_after: int
    first_dirty_offset: int = 0
    dirty_ratio: float = 0.0
    held_back_from: int | None = None
    held_back_until: int | None = None
    overdue_since: int | None = None


def plan_compaction(
    segments: Iterable[Segment],
    codecs: CodecTable,
    aborted: Iterable[tuple[int, int, int, int]],
    end_offset: int,
    memory_bytes: int,
) -> CompactionPlan:
    """Read the keys of *segments*, all below *end_offset*, as far as the memory has room."""
    offset_map = OffsetMap(memory_bytes, os.urandom(16))
    core = SegmentCleaner(offset_map, codecs)
    core.begin_pass(
        first_dirty_offset=0,
        max_entries=int(offset_map.slots * DEFAULT_LOAD_FACTOR),
        now_ms=0,
        delete_retention_ms=0,
        read_bytes=DEFAULT_IO_BUFFER_BYTES,
        check=True,
    )
    core.add_aborted(aborted)
    is_full = False
    for segment in segments:
        core.begin_source(segment, next_base_offset=end_offset)
        while not (core.is_done or is_full):
            is_full = core.map_piece(segment)
    counts = core.counts
    before, records = counts.map_bytes_read, counts.map_messages_read
    after = min(offset_map.size, records)
    return CompactionPlan(
        offset_map.latest_offset + 1 if is_full else end_offset,
        before,
        records,
        after,
        before * after // records if records else 0,
    )


def is_deletion_due(
    headers_by_segment: Iterable[tuple[Segment, BatchHeaders]],
    batches: Callable[[int, int], Iterable[RecordBatch]],
    start: int,
    now_ms: int,
) -> bool:
    """Whether the time of a tombstone or an empty transaction's marker has come [CLN-84].

    Parameters
    ----------
    headers_by_segment : iterable
        Of the clean part of the log.
    batches : callable
        Returns the batches from one offset to another.
    start : int
        Where the log begins.
    now_ms : int
        The time, in ms since 1970.
    """
    for _, headers in headers_by_segment:
        is_due = (
            (headers["magic"] > 1)
            & (headers["attributes"] & DELETE_HORIZON_FLAG != 0)
            & (headers["base_timestamp"] <= now_ms)
            & (headers["records_count"] > 0)
        )
        for row in headers[is_due]:  # the batch keeps its time when its tombstones have gone
            first, end = max(start, int(row["base_offset"])), int(row["last_offset"]) + 1
            for batch in batches(first, end):
                if batch.is_control or any(one.value is None for one in batch.records()):
                    return True
    return False
