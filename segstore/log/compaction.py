"""What a pass of the cleaner needs of one log: its range, transactions, the swap under its lock.

Source: [CLN-32..CLN-34, CLN-72, CLN-73, CLN-110..CLN-112, DUR-20, DUR-126].
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from segstore._core import size_of_segments
from segstore.errors import (
    FsyncFailedError,
    IllegalArgumentError,
    LogCleaningAbortedError,
    SegstoreError,
)
from segstore.log.codec_limits import codecs_of
from segstore.log.files.profile import Profile
from segstore.log.local.batch_transactions import aborts_by_segment
from segstore.log.producers.active_producers import last_records_of_active_producers
from segstore.log.recovery.overflow_split import split_overflowed_segment
from segstore.log.retention import delete_snapshots_of
from segstore.number_limits import MAX_LONG

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from segstore._core import ChangeLock, CodecTable
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment
    from segstore.log.local.segments import Segments
    from segstore.log.log_writer import LogWriter

_Aborted = tuple[int, int, int, int]
_log = logging.getLogger(__name__)


def aligned(segments: Segments, offset: int) -> int:
    """Return the base offset of the segment with *offset*, at least that of the first [CLN-34]."""
    floor = segments.floor_segment(offset)
    return segments.first_segment.base_offset if floor is None else floor.base_offset


def end_of_old(local_log: LocalLog, first_dirty_offset: int, now_ms: int) -> int:
    """Return where the records begin that are younger than ``min.compaction.lag.ms`` [CLN-32].

    It is the base offset of a sealed segment; 2^63-1 where none holds such records.
    """
    lag_ms = local_log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in local_log.segments.non_active_segments_from(first_dirty_offset):
            if segment.latest_possible_timestamp() > now_ms - lag_ms:
                return segment.base_offset
    return MAX_LONG


def cleanable_bytes(
    local_log: LocalLog, first_dirty_offset: int, uncleanable_offset: int
) -> tuple[int, int, int]:
    """Return where a pass has to end, the bytes below the range, and those of the range.

    Source: [CLN-34, CLN-36]; Kafka ``LogCleanerManager.calculateCleanableBytes``.
    """
    segments = local_log.segments
    limit = aligned(segments, uncleanable_offset)
    clean = segments.values(-1, first_dirty_offset)
    dirty = segments.values(min(first_dirty_offset, limit), limit)
    return limit, size_of_segments(clean), size_of_segments(dirty)


def compaction_delay(local_log: LocalLog, first_dirty_offset: int, now_ms: int) -> int:
    """Return for how many ms a pass has been due by ``max.compaction.lag.ms``; 0 = it is not.

    Source: [CLN-38]; Kafka ``LogCleanerManager.maxCompactionDelay``.
    """
    dirty = local_log.segments.non_active_segments_from(first_dirty_offset)
    first = min((t for one in dirty if (t := one.first_batch_timestamp()) > 0), default=None)
    limit_ms = now_ms - max(local_log.config.max_compaction_lag_ms, 0)
    return 0 if first is None else max(0, limit_ms - first)


class DirtyPart(NamedTuple):
    """What a pass over a log would clean now, by its segments.

    Attributes
    ----------
    first_dirty_offset, end_offset : int
        The range; the end is the base offset of a segment.
    undecided_offset : int
        Where the active segment or an open transaction begins, whichever is first.
    young_offset : int
        See `end_of_old`.
    clean_bytes, dirty_bytes : int
        See `cleanable_bytes`.
    delay_ms : int
        See `compaction_delay`.
    """

    first_dirty_offset: int
    end_offset: int
    undecided_offset: int
    young_offset: int
    clean_bytes: int
    dirty_bytes: int
    delay_ms: int

    @classmethod
    def of(
        cls, local_log: LocalLog, first_dirty_offset: int, stable_offset: int, now_ms: int
    ) -> DirtyPart:
        """Return that of a log whose open transactions begin at *stable_offset*."""
        segments = local_log.segments
        undecided = min(stable_offset, segments.active_segment.base_offset)
        young = end_of_old(local_log, first_dirty_offset, now_ms)
        end = aligned(segments, min(undecided, young))
        _, clean, dirty = cleanable_bytes(local_log, first_dirty_offset, end)
        delay_ms = compaction_delay(local_log, first_dirty_offset, now_ms)
        return cls(first_dirty_offset, end, undecided, young, clean, dirty, delay_ms)

    @property
    def ratio(self) -> float:
        """The dirty part of all bytes, 0 to 1."""
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes) if self.dirty_bytes else 0.0

    def is_due(self, min_ratio: float) -> bool:
        """Whether more than *min_ratio* is dirty, or records wait for too long [CLN-39]."""
        return self.dirty_bytes > 0 and (self.delay_ms > 0 or self.ratio > min_ratio)


class OffsetsToClean(NamedTuple):
    """The range of a log that can be cleaned (Kafka ``OffsetsToClean``).

    Attributes
    ----------
    first_dirty_offset : int
        Where it begins.
    first_uncleanable_dirty_offset : int
        Where it ends; a pass ends at the segment below.
    force_update_checkpoint : bool
        The offset where the last pass ended was not in the log.
    """

    first_dirty_offset: int
    first_uncleanable_dirty_offset: int
    force_update_checkpoint: bool


class Compaction:
    """One log as the cleaner sees it; a new object for every pass.

    Appends, reads, truncations and deletions go on during a pass. The lock is held for the swap of
    a group, and for a look at the producers.
    """

    def __init__(self, changing: ChangeLock, writer: LogWriter) -> None:
        self._changing = changing
        self._writer = writer
        self._is_safe = writer.profile is Profile.SAFE
        self._limit = 0
        self._truncations_done = 0
        self._aborted: list[_Aborted] = []

    @property
    def local_log(self) -> LocalLog:
        """Its segments."""
        return self._writer.local_log

    @property
    def codecs(self) -> CodecTable:
        """To read compressed batches, with records as large as the log takes now [CLN-105]."""
        config = self.local_log.config
        return codecs_of(config, self._writer.profile, config.max_decompressed_message_bytes)

    # ---- the range -------------------------------------------------------------------------------

    def first_uncleanable_offset(self, first_dirty_offset: int, now_ms: int | None = None) -> int:
        """Return where a pass has to end by the time *now_ms*, None = now [CLN-32].

        What is not decided, the active segment, and what is younger than ``min.compaction.lag.ms``
        stay as they are.
        """
        now = self.local_log.directory.wall_clock_ms() if now_ms is None else now_ms
        with self._changing:
            decided = self._end_of_decided()
        limit = min(decided, end_of_old(self.local_log, first_dirty_offset, now))
        return max(aligned(self.local_log.segments, limit), first_dirty_offset)

    def cleanable_offsets(self, last_clean_offset: int | None, now_ms: int) -> OffsetsToClean:
        """Return the range that a pass would clean, for a choice between logs; it takes no lock.

        Parameters
        ----------
        last_clean_offset : int or None
            Where the last pass ended; None = none did.
        now_ms : int
            The time by which records are young, in ms since 1970.

        Source: [CLN-31, CLN-32]; Kafka ``LogCleanerManager.cleanableOffsets``.
        """
        offsets, local_log = self._writer.offsets, self.local_log
        start, end = offsets.log_start_offset, local_log.log_end.message_offset
        first_dirty = start if last_clean_offset is None else last_clean_offset
        is_invalid = not start <= first_dirty <= end
        if is_invalid:
            if first_dirty > end or "delete" not in local_log.config.cleanup_policies:
                _log.warning(
                    "%s: the cleaner begins at %d, not at %d, which is not in the log",
                    local_log.directory.path,
                    start,
                    first_dirty,
                )
            first_dirty = start
        limit = min(self._end_of_cleanable(), end_of_old(local_log, first_dirty, now_ms))
        return OffsetsToClean(first_dirty, max(limit, first_dirty), is_invalid)

    def calculate_cleanable_bytes(
        self, first_dirty_offset: int, uncleanable_offset: int
    ) -> tuple[int, int, int]:
        """See `cleanable_bytes`."""
        return cleanable_bytes(self.local_log, first_dirty_offset, uncleanable_offset)

    def max_compaction_delay(self, first_dirty_offset: int, now_ms: int) -> int:
        """See `compaction_delay`."""
        return compaction_delay(self.local_log, first_dirty_offset, now_ms)

    def _end_of_decided(self) -> int:
        """Return where a pass has to end that begins now; the caller holds the append lock."""
        self._writer.begin_change()
        self._truncations_done = self.local_log.truncations.done
        return self._end_of_cleanable()

    def _end_of_cleanable(self) -> int:
        """Return where open transactions begin, and the active segment, whichever is first."""
        active = self.local_log.segments.active_segment.base_offset
        return min(self._writer.offsets.last_stable_offset, active)

    def begin(self, first_dirty_offset: int, first_uncleanable_offset: int) -> int:
        """Check the range, bring what lies below its end to stable storage; return that end.

        It is the base offset of a segment. A value goes because of a newer one: that one has to
        survive a crash, too [DUR-1].
        """
        with self._changing:
            highest = self._end_of_decided()
            self.local_log.delete_cleaned_files()
        end = self.local_log.log_end.message_offset
        if not 0 <= first_dirty_offset <= end or first_uncleanable_offset < first_dirty_offset:
            raise IllegalArgumentError(
                f"offsets {first_dirty_offset} to {first_uncleanable_offset} are no range to clean:"
                f" the log ends at {end}",
                file=self.local_log.directory.path,
                found=f"{first_dirty_offset} to {first_uncleanable_offset}",
                expected=f"0 to {end}, ascending",
            )
        self._limit = aligned(self.local_log.segments, min(first_uncleanable_offset, highest))
        if self._is_safe:
            self._writer.flusher.flush_up_to_exclusive(self._limit)
            self._aborted = self._aborted_by_batches()
        return self._limit

    def check_not_changed(self, sources: Iterable[Segment]) -> None:
        """Raise when a change of the log, not damage, is why *sources* cannot be read.

        Raises
        ------
        LogTruncatedError
            The log was truncated below the end of the range since the pass began.
        LogCleaningAbortedError
            One of *sources* was deleted.
        """
        local_log = self.local_log
        local_log.truncations.check_not_truncated(self._truncations_done, self._limit)
        there = set(map(id, local_log.segments))
        for segment in sources:
            if id(segment) not in there:
                raise LogCleaningAbortedError(
                    "a segment was deleted while it was cleaned: begin another pass",
                    file=segment.path,
                )

    # ---- transactions and producers --------------------------------------------------------------

    def _aborted_by_batches(self) -> list[_Aborted]:
        """Return all aborted transactions, as the batches say; an index may be wrong [DUR-8].

        With one that is missing there, aborted records would count, and take committed ones away.
        """
        local_log, found = self.local_log, []
        start = self._writer.offsets.log_start_offset
        for _, _, ends in aborts_by_segment(local_log, start, local_log.log_end):
            if ends.damage is not None and ends.damage.offset < self._limit:
                raise ends.damage.error()
            found += [
                (one.producer_id, one.first_offset, one.marker, one.last_stable_offset)
                for one in ends.aborts
                if one.first_offset is not None
            ]
        return found

    def aborted_transactions(
        self, start_offset: int, upper_bound_offset: int
    ) -> Iterable[_Aborted]:
        """Return the aborted transactions that overlap the range, as in a transaction index."""
        if self._is_safe:
            return [
                one
                for one in self._aborted
                if one[2] >= start_offset and one[1] < upper_bound_offset
            ]
        return self.local_log.collect_aborted_transactions(
            self._writer.offsets.log_start_offset, start_offset, upper_bound_offset
        )

    def last_records(self) -> list[tuple[int, int, int]]:
        """Return producer id, last data offset or -1, and epoch of active producers [CLN-72]."""
        with self._changing:
            found = last_records_of_active_producers(self._writer.producers)
        return [
            (
                producer_id,
                -1 if last.last_data_offset is None else last.last_data_offset,
                last.producer_epoch,
            )
            for producer_id, last in found.items()
        ]

    # ---- the swap --------------------------------------------------------------------------------

    def replace(self, new: Sequence[Segment], old: Sequence[Segment], next_offset: int) -> bool:
        """Put *new* in the place of *old*, below *next_offset*; False where *old* is gone.

        Before that, ``.segstore`` says that offsets may be missing there: else an open would call
        the gaps a loss [DUR-54, DUR-64].

        Raises
        ------
        LogTruncatedError
            The log was truncated below the range since the pass began; nothing was replaced.
        """
        writer, local_log = self._writer, self.local_log
        with self._changing:
            writer.begin_change()
            local_log.truncations.check_not_truncated(self._truncations_done, self._limit)
            there = set(map(id, local_log.segments))
            remaining = [segment for segment in old if id(segment) in there]  # [CLN-112]
            if not remaining:
                return False
            writer.metadata.begin_change()
            state_file = writer.metadata.state_file
            if state_file is not None and state_file.state.contiguous_from < next_offset:
                writer.metadata.save_state(contiguous_from=next_offset)
            with writer.failure_mark.poisoned_by(FsyncFailedError):
                replacement = local_log.replace_segments(list(new), remaining)
            delete_snapshots_of(replacement.vanished, writer.producers, local_log)
            writer.watcher.note_segments()
            sidecars = local_log.checksum_sidecars
            if sidecars is not None and sidecars.are_written:
                for segment in replacement.new:
                    writer.flusher.segment_was_sealed(segment, lambda: None)
        return True

    def discard(self, new: Iterable[Segment]) -> None:
        """Remove what a pass has made, unless it is replacing already.

        A ``.cleaned`` file that stays would undo a later replacement after a crash [LDR-3].
        """
        with suppress(SegstoreError):  # a log that takes no changes: the next open removes it
            self.local_log.delete_cleaned_segments(new)

    def split(self, segment: Segment) -> None:
        """Split a segment whose offsets do not fit its base offset [CLN-75]."""
        writer, local_log = self._writer, self.local_log
        with self._changing:
            writer.begin_change()
            writer.metadata.begin_change()
            with writer.failure_mark.poisoned_by(BaseException):  # names and memory may be apart
                done = split_overflowed_segment(
                    segment, local_log.segments, local_log.directory, local_log.context
                )
                local_log.take_over(done.segments, done.taken_out)
