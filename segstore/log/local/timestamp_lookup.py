"""Offsets by timestamp: the first record from a time on, the latest of all [TS-1..TS-4, TS-6].

This chooses the segment; the search within one is that of the core's ``LogSegment``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.errors import SegstoreError
from segstore.log.local.local_log import nothing_replaced
from segstore.types import NO_TIMESTAMP, FileTimestampAndOffset, SpecialTimestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment
    from segstore.types import LogOffsetMetadata

UNKNOWN_OFFSET: Final = -1


def fetch_offset(
    local_log: LocalLog,
    epochs: LeaderEpochFileCache,
    log_start_offset: int,
    end_offset: int,
    timestamp: int,
) -> FileTimestampAndOffset:
    """Answer for a timestamp in ms, or for a `SpecialTimestamp` [TS-1].

    No record at or behind *end_offset* is found. Source: Kafka
    ``UnifiedLog.fetchOffsetByTimestamp``.
    """
    match timestamp:
        case SpecialTimestamp.LATEST:
            return FileTimestampAndOffset(NO_TIMESTAMP, end_offset, epochs.latest_epoch)
        case SpecialTimestamp.EARLIEST | SpecialTimestamp.EARLIEST_LOCAL:
            earliest = epochs.earliest_entry
            has_epoch = earliest is not None and earliest.start_offset <= log_start_offset
            epoch = earliest.epoch if earliest is not None and has_epoch else None
            return FileTimestampAndOffset(NO_TIMESTAMP, log_start_offset, epoch)
        case SpecialTimestamp.LATEST_TIERED | SpecialTimestamp.EARLIEST_PENDING_UPLOAD:
            return FileTimestampAndOffset(NO_TIMESTAMP, UNKNOWN_OFFSET, -1)
        case SpecialTimestamp.MAX:
            found = find_max_timestamp(local_log)
        case _:
            found = next(_found_by_segment(local_log, log_start_offset, timestamp), None)
    if found is None or found.offset >= end_offset:
        return FileTimestampAndOffset(NO_TIMESTAMP, UNKNOWN_OFFSET, None)
    return found


def find_offset_by_timestamp(
    local_log: LocalLog,
    log_start_offset: int,
    timestamp: int,
    take_over_replaced: Callable[[], bool] = nothing_replaced,
) -> FileTimestampAndOffset | None:
    """Return the first record from *log_start_offset* on with that timestamp or a later one.

    Stricter than a broker, which looks into one segment only [TS-2]: it finds nothing when that one
    is empty, or has such records below the log start alone.

    Parameters
    ----------
    take_over_replaced : callable
        See `nothing_replaced`.
    """
    truncations_done, log_end_offset = local_log.truncations.done, local_log.log_end.message_offset
    try:
        found = next(filter(None, _found_by_segment(local_log, log_start_offset, timestamp)), None)
    except SegstoreError as error:
        local_log.check_not_changed(truncations_done, log_end_offset, error)
        if take_over_replaced():
            return find_offset_by_timestamp(
                local_log, log_start_offset, timestamp, take_over_replaced
            )
        raise
    local_log.truncations.check_not_truncated(
        truncations_done, log_end_offset if found is None else found.offset + 1
    )
    return found


def _found_by_segment(
    local_log: LocalLog, log_start_offset: int, timestamp: int
) -> Iterator[FileTimestampAndOffset | None]:
    """Yield what is found in each segment that may have such a timestamp, ascending."""
    log_end = local_log.log_end
    for segment in local_log.segments.reaching_timestamp(timestamp):
        found = segment.find_offset_by_timestamp(
            timestamp, log_start_offset, local_log.max_position(segment, log_end)
        )
        if found is not None:
            local_log.check_within(segment, found.offset)
        if found is not None and found.offset == segment.base_offset:
            _check_before(local_log, segment)
        is_visible = found is not None and found.offset < log_end.message_offset
        yield found if is_visible else None


def _check_before(local_log: LocalLog, segment: Segment) -> None:
    """See that nothing is missing before a segment whose first record is the answer [DUR-79]."""
    segments = local_log.segments
    before = segments.lower_segment(segment.base_offset)
    if before is not None:
        local_log.check_no_gap(before, segment)
        if segments.lane is not None:
            segments.lane.learn_order(segment.base_offset)


def find_max_timestamp(local_log: LocalLog) -> FileTimestampAndOffset | None:
    """Return the first record that has the largest timestamp [TS-3]."""
    log_end = local_log.log_end
    timestamps = {
        segment: _largest_visible_timestamp(local_log, segment, log_end)
        for segment in local_log.segments
    }
    largest = max(local_log.segments, key=timestamps.__getitem__)
    timestamp = timestamps[largest]
    if timestamp == largest.largest_record_timestamp():
        found = largest.find_max_timestamp()
    elif timestamp >= 0:
        found = largest.find_offset_by_timestamp(
            timestamp, largest.base_offset, local_log.max_position(largest, log_end)
        )
    else:
        found = None
    return found if found is not None and found.offset < log_end.message_offset else None


def _largest_visible_timestamp(
    local_log: LocalLog, segment: Segment, log_end: LogOffsetMetadata
) -> int:
    """Return the largest timestamp of what is visible of *segment*, -1 when none has one.

    Damage that may hide it is raised [DUR-79]. Where bytes that are no batch follow the log end,
    the last entry of the index is all that is known of them. But of a log that another process
    writes it may be one that a truncation left, and the bytes a batch that is being written
    [DUR-76, DUR-77]: the entry counts for nothing then.
    """
    is_growing = local_log.is_followed and segment.base_offset == log_end.segment_base_offset
    if not is_growing:  # else its writer may have cut it: what was cut is not read
        segment.check_times(local_log.max_position(segment, log_end))
    found = segment.max_timestamp()
    if not (is_growing and found.offset >= log_end.message_offset):
        return found.timestamp
    scan = segment.scan_result(end_position=log_end.relative_position_in_segment, check_crc=False)
    return scan.max_timestamp
