"""A reader's view of a log that another process writes: looking again.

Source: [DUR-71, DUR-75..DUR-78, DUR-81].
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from segstore.errors import (
    CorruptLogError,
    CorruptRecordError,
    LogNotFoundError,
    LogTruncatedError,
)
from segstore.log.directory.partition_directory import list_beside_a_writer
from segstore.log.directory.partition_lock import removed_while_open
from segstore.log.local.followed_transaction_indexes import FollowedTransactionIndexNotes
from segstore.log.local.rewritten import LastBatch
from segstore.log.local.segment import Segment
from segstore.log.local.segments import Segments
from segstore.types import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore._core import SegmentContext
    from segstore.log.directory.log_places import LogPlaces
    from segstore.log.loader.loaded_log import LoadedLog
    from segstore.log.local.local_log import LocalLog

_log = logging.getLogger(__name__)

_NEWEST_COUNT: Final = 16
"""How many sealed segments are looked at again."""


class LogFollower:
    """Keeps a read-only handle up to date; nothing on disk is changed, no file is locked.

    Attributes
    ----------
    log_start_offset : int
        As last read.
    recovery_point : int
        The writer's, from its checkpoint.
    """

    def __init__(
        self, local_log: LocalLog, places: LogPlaces, context: SegmentContext, loaded: LoadedLog
    ) -> None:
        self.recovery_point = loaded.recovery_point
        self.log_start_offset = loaded.log_start_offset
        self._local_log = local_log
        local_log.is_followed = True
        self._places = places
        self._context = context
        self._lock = threading.Lock()
        segments = local_log.segments
        self._last_batch = LastBatch(places.directory, segments.active_segment, local_log.log_end)

    @property
    def durable(self) -> LogOffsetMetadata:
        """Where a durable read ends: at the writer's recovery point [DUR-81]."""
        local_log = self._local_log
        end = local_log.log_end
        if self.recovery_point >= end.message_offset:
            return end
        return local_log.offset_metadata(self.recovery_point)

    def refresh(self) -> None:
        """Take over new segments, new bytes, a new log start.

        Raises
        ------
        LogTruncatedError
            The log ends below what was seen, or other records stand where its last batch was. The
            handle shows the log as it is from then on.
        LogNotFoundError
            The directory was removed.
        """
        with self._lock:
            self._refresh()

    def _refresh(self) -> None:
        local_log = self._local_log
        seen = local_log.log_end
        is_replaced = self._last_batch.is_replaced(seen)
        found = self._places.read()
        listing, bases = list_beside_a_writer(self._places.directory)
        if not bases:
            if not listing.others:  # a writer who begins anew leaves other files where they are
                raise removed_while_open(self._places.directory.path)
            return
        known = local_log.segments
        intact_below = _intact_below(known.base_offsets, bases, seen.segment_base_offset)
        there = set(bases)
        kept = [
            segment
            for segment in known
            if segment.base_offset in there and segment.base_offset < intact_below
        ]
        go_on = seen
        if is_replaced:
            base = seen.segment_base_offset
            go_on = LogOffsetMetadata(base, base, 0)
        segments, end = self._look_from(go_on, self._without_rewritten(kept), bases)
        if not len(segments):
            return  # all were deleted since their names were read: the next look is another
        self.log_start_offset = max(found.log_start_offset, segments.base_offsets[0])
        local_log.log_end = min(seen, end)  # a bound that holds for both lists of segments
        local_log.segments = segments
        local_log.log_end = end
        if end != seen or is_replaced:
            self._last_batch = LastBatch(self._places.directory, segments.active_segment, end)
        notes = local_log.transaction_index_notes
        if isinstance(notes, FollowedTransactionIndexNotes):
            notes.look_again(is_cut=is_replaced or end.message_offset < seen.message_offset)
        recovery_point = found.recovery_point
        self.recovery_point = min(
            end.message_offset, self.recovery_point if recovery_point is None else recovery_point
        )
        if end.message_offset < seen.message_offset:
            raise LogTruncatedError(
                f"the log ends at {end.message_offset} now, it was read to {seen.message_offset}",
                file=self._places.directory.path,
                found=str(end.message_offset),
                expected=f"at least {seen.message_offset}",
            )
        if is_replaced:
            raise LogTruncatedError(
                f"the log was cut below {seen.message_offset}, to which it was read, and written"
                f" again: it ends at {end.message_offset} now",
                file=self._places.directory.path,
                found="another last batch",
                expected="the one that was read",
            )

    def _without_rewritten(self, kept: list[Segment]) -> list[Segment]:
        """Leave out what a truncation cut and new batches filled up to the old base of the next.

        A sealed segment has its size for ever, and a truncation takes the newest ones.
        """
        directory = self._places.directory
        for index in range(max(len(kept) - _NEWEST_COUNT, 0), len(kept)):
            try:
                if directory.info(kept[index].name).size != kept[index].size_bytes:
                    return kept[:index]
            except LogNotFoundError:
                return kept[:index]
        return kept

    def _look_from(
        self, seen: LogOffsetMetadata, kept: list[Segment], bases: Sequence[int]
    ) -> tuple[Segments, LogOffsetMetadata]:
        """Read headers and checksums of what came behind *seen*; *kept* lies before it."""
        segments = list(kept)
        last_kept = kept[-1].base_offset if kept else -1
        end = LogOffsetMetadata(bases[0], bases[0], 0)
        for base in bases:
            if base <= last_kept:
                continue
            try:
                segment = Segment(self._context, base)
            except LogNotFoundError:  # deleted since its name was read, and all before it
                segments.clear()
                continue
            expected, position = base, 0
            if base == seen.segment_base_offset:
                expected, position = self._where_to_go_on(segment, seen)
            elif (
                segments
                and base < end.message_offset
                and end.segment_base_offset == segments[-1].base_offset
            ):
                break  # a writer is in the middle of a truncation
            _, scan = segment.scan(
                start_position=position,
                check_order=True,
                expected_offset=max(expected, base),
                table=False,
            )
            segments.append(segment)
            next_offset = scan.next_offset if scan.batches_count else max(expected, base)
            end = LogOffsetMetadata(next_offset, base, scan.valid_bytes)
            if scan.stop != "complete":
                break  # a batch that is being written: the end for now [DUR-76]
        return Segments(segments), end

    def _where_to_go_on(self, segment: Segment, seen: LogOffsetMetadata) -> tuple[int, int]:
        """Return offset and byte behind which bytes are new; 0 when the segment was cut meanwhile.

        Source: [DUR-77].
        """
        position = seen.relative_position_in_segment
        if position in {0, segment.size_bytes}:
            return seen.message_offset, position
        if position < segment.size_bytes:
            try:
                rows, _ = segment.scan(start_position=position, max_batches=1)
            except (CorruptRecordError, CorruptLogError):
                rows = None
            if (
                rows is not None
                and len(rows)
                and int(rows["base_offset"][0]) >= seen.message_offset
            ):
                return seen.message_offset, position
            # a batch that is being written, or bytes of others: does the position still end one?
            _, before = segment.scan(end_position=position, check_crc=False, table=False)
            if (before.valid_bytes, before.next_offset) == (position, seen.message_offset):
                return seen.message_offset, position
        return segment.base_offset, 0


def _intact_below(known: Sequence[int], bases: Sequence[int], seen_base: int) -> int:
    """Return the base offset of the first segment that may have been cut since it was seen.

    A truncation takes the segments behind the one that it cuts; new ones may have come instead.
    """
    were_there = set(known)
    strange = [base for base in bases if base < seen_base and base not in were_there]
    if not strange and seen_base in bases:
        return seen_base
    first_changed = strange[0] if strange else seen_base
    return max((base for base in bases if base < first_changed), default=seen_base)
