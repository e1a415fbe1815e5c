"""Log start of a log that is opened: whether it is possible, and its records are there.

Source: [DUR-18, DUR-19, DUR-21, DUR-54].
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from segstore.errors import CorruptLogError, CorruptRecordError, ResourceError, SegstoreError
from segstore.log.files.recovery_advice import missing_records, recovery_advice
from segstore.log.local.segment import Segment
from segstore.log.local.segments import floor_index
from segstore.log.recovery.refusals import NO_DAMAGE, damage, lost_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore.log.files.checkpoints import LogState
    from segstore.log.files.stored_state import StoredState
    from segstore.log.recovery.recovery_report import RecoveryReport
    from segstore.types import EpochEntry

EndOf: TypeAlias = Callable[[Segment], tuple[int, bool]]
"""Says where a segment ends, and whether nothing follows; raises the error of reading it."""


def with_possible_log_start(
    found: StoredState, segments: Sequence[Segment], report: RecoveryReport, end_of: EndOf
) -> StoredState:
    """Return *found*, its log start as if unreadable when it cannot be this log's [DUR-21].

    A truncation or a deletion that a crash broke off leaves a log start above the log end
    [DUR-18, DUR-19]; a clean stop does not. Such a checkpoint would drop every record. But where
    the recovery point lies above the end too, a broker has truncated into a batch, or a file is
    missing that may come back: then what was deleted stays deleted [DUR-5].
    """
    own = found.own_marker
    if not segments or not may_be_impossible(found):
        return found
    if found.log_start_offset <= segments[-1].base_offset:
        return found  # wherever the log ends; to look costs a read
    try:
        end, ends_clean = end_of(segments[-1])
    except (CorruptRecordError, CorruptLogError):
        return found  # not clean after all: told below
    is_clean = ends_clean and (
        found.parent_is_clean or (own is not None and own.log_end_offset == end)
    )
    if not is_clean or found.log_start_offset <= end or (found.recovery_point or 0) > end:
        return found
    first = segments[0].base_offset
    if own is not None and (own.log_start_offset or 0) <= end:
        first = max(first, own.log_start_offset or 0)
    report.warnings.append(
        f"the log start {found.log_start_offset} lies above the end {end} of a log that was"
        f" closed cleanly: it is ignored, the log starts at {first}"
    )
    return replace(found, log_start_offset=first)


def contradiction_of(
    found: StoredState, segments: Sequence[Segment], path: str, end_of: EndOf
) -> CorruptLogError | None:
    """Return what is wrong where a clean stop, the end and the log start contradict each other.

    The log has lost its end, or its log start is not what was written; nothing tells which, and by
    the log start all that there is would go. Of one for which `with_possible_log_start` knew.
    """
    start, point, own = found.log_start_offset, found.recovery_point, found.own_marker
    if not segments or start <= segments[-1].base_offset or not may_be_impossible(found):
        return None
    last = segments[-1]
    try:
        end, ends_clean = end_of(last)
    except (CorruptRecordError, CorruptLogError) as error:
        what = f"the log was closed cleanly, with a log start of {start}"
        return damage(path, last, what, error)
    if start <= end:
        return None
    if found.lacks_records_from(end):
        return lost_end(path, last, end, found)
    had_more = own is not None and own.has_crc and own.log_end_offset > end
    if had_more or not ends_clean or (point is not None and end < point < start):
        contradiction = damage(
            path,
            last,
            f"the log was closed cleanly, and ends at {end}, below its log start {start}",
        )
        contradiction.found, contradiction.expected = f"end offset {end}", f"{start} at least"
        return contradiction
    return None


def may_be_impossible(found: StoredState) -> bool:
    """Whether the log was closed cleanly, and its clean marker says something else."""
    own = found.own_marker
    if found.log_start_offset <= 0 or not (found.parent_is_clean or own is not None):
        return False
    return own is None or own.log_start_offset != found.log_start_offset


def first_missing_offset(  # noqa: PLR0913 - what is known of the beginning
    segments: Sequence[Segment],
    found: StoredState,
    told_epochs: Sequence[EpochEntry],
    state: LogState | None,
    end_of: EndOf,
    shown_before: Callable[[int, int], int | None],
    *,
    is_for_writing: bool = False,
) -> int | None:
    """Return the first of the records that are missing before the first segment, None without.

    This library notes the log start, or the local one of a log with a part in remote storage,
    before it takes a file away [DUR-19]: what begins above it has lost files. Where the checkpoint
    itself is lost, the clean marker and the first leader epoch, which moves with the log start
    [EPC-6], say that records were deleted; the latter also when it was a broker, which writes its
    checkpoint later. Epochs that were made anew of the batches say nothing [`lost_epochs`]. Without
    ``.segstore`` only an index can tell whose ``.log`` is gone: *shown_before* is
    `Survey.first_shown_before`.

    A log that was emptied to go on above its log start [TRU-4], and crashed before that was noted,
    has lost nothing: it holds no record, and its recovery point had come down first [DUR-18].
    *is_for_writing*: where a failed call leaves that open, its error is raised [DUR-33].
    """
    if not segments:
        return None
    told = told_epochs[0].start_offset if told_epochs else 0
    if state is None:
        return shown_before(max(found.log_start_offset, told), segments[0].base_offset)
    begin = max(known_log_start(state, found), state.contiguous_from, told)
    if begin >= segments[0].base_offset:
        return None
    is_empty = len(segments) == 1 and not _may_hold_records(
        segments[0], NO_DAMAGE if is_for_writing else (ResourceError,), end_of
    )
    return None if is_empty and found.safe_below <= begin else begin


def known_log_start(state: LogState, found: StoredState) -> int:
    """Return the highest log start, or local one, that a small file notes."""
    marked = found.own_marker.log_start_offset if found.own_marker is not None else None
    return max(found.log_start_offset, state.local_log_start_offset, marked or 0)


def _may_hold_records(
    segment: Segment, raised: tuple[type[SegstoreError], ...], end_of: EndOf
) -> bool:
    try:
        return end_of(segment)[0] > segment.base_offset
    except raised:
        raise
    except SegstoreError:
        return True


def require_begin(segments: Sequence[Segment], first_missing: int | None) -> None:
    """Refuse to write to a log that has lost its beginning.

    Raises
    ------
    CorruptLogError
        *first_missing* is an offset.
    """
    if first_missing is not None:
        first = segments[0]
        raise CorruptLogError(
            f"{missing_before(first, first_missing)}. No record was changed;"
            f" {recovery_advice(os.path.dirname(first.path))}",  # noqa: PTH120 - the path as it is
            file=first.path,
            found=f"base offset {first.base_offset}",
            expected=f"base offset {first_missing}",
        ).lacks(first_missing, first.base_offset)


def count_deleted(segments: Sequence[Segment], log_start_offset: int, end_of: EndOf) -> int:
    """Count the first segments that end at or below the log start: they were deleted [DUR-18].

    By what is in them: one may reach into the next, which is damage that is told later [DUR-54].
    """
    floor = floor_index(segments, log_start_offset)
    for index, segment in enumerate(segments[:floor]):
        try:
            end, _ = end_of(segment)
        except ResourceError:
            raise
        except SegstoreError:
            return index
        if end > log_start_offset:
            return index
    return floor


def missing_before(first: Segment, first_missing: int) -> str:
    """Return what is said of a lost beginning."""
    return f"{missing_records(first_missing, first.base_offset)} before it"


def without_gap_from(
    state: LogState | None, segments: Sequence[Segment], log_start_offset: int
) -> LogState | None:
    """Return *state*; what was deleted without a log start of its own is no gap from now on."""
    if state is None or not segments:
        return state
    first = segments[0].base_offset
    if first <= max(state.contiguous_from, log_start_offset):
        return state
    return replace(state, contiguous_from=first)


def kept_remote_part(state: LogState | None, first: int, found: StoredState) -> str | None:
    """Return what is said of a log that is not opened as a tiered one, and was one [DUR-26].

    None where its first records did not go here because remote storage has them.
    """
    start = found.log_start_offset
    if state is None or min(state.local_log_start_offset, first) <= start:
        return None
    return (
        f"records {start} to {first - 1} are in remote storage alone: they stay part of the log,"
        " and no later record counts as uploaded. Open the log with remote_log_reader and"
        " remote_storage_enable=True, or delete them with remote_log_delete_on_disable=True"
    )
