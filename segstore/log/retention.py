"""The old end of a log: its log start, and which of its oldest segments are deleted [RET-*].

The log start moves in memory, in its checkpoint, and in what depends on it, durably. Segments go by
log start, by size and by time. When that runs is the manager's business [RET-10].

Source: [LST-1, LST-5, UNI-3, DUR-19]; Kafka ``UnifiedLog.deleteOldSegments``.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Final

from segstore.errors import (
    CorruptLogError,
    CorruptRecordError,
    DiskFullError,
    FsyncFailedError,
    SegstoreError,
)
from segstore.log.files.partition_directory import LOG_FILE_SUFFIX
from segstore.log.files.profile import Profile
from segstore.log.files.recovery_advice import corrupt_log, salvage_hint
from segstore.log.local.local_log import out_of_range
from segstore.log.retention_plan import (
    DeletedSegment,
    HoldingReason,
    HoldingSegment,
    RetentionLimit,
    RetentionPlan,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from segstore.config.log_config import LogConfig
    from segstore.log.files.checkpoint_store import CheckpointStore
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment
    from segstore.log.log_writer import LogWriter
    from segstore.log.producers.producer_state_manager import ProducerStateManager
    from segstore.log.remote_part import RemotePart

    _Goes = Callable[[Segment, Segment | None], bool]
    """Takes a segment and the next one; says whether it goes."""

_LARGEST_CLOCK_STEP_MS: Final = 3600 * 1000
_NS_PER_MS: Final = 1_000_000


class Retention:
    """Moves the log start, and takes whole segments away, under the append lock.

    `LogOffsets` has the number.

    Attributes
    ----------
    size_in_percent : int
        How much of ``retention.bytes`` the last run left in use; 0 without a limit [RET-11].
    """

    def __init__(
        self, log: LogWriter, checkpoint_store: CheckpointStore, remote: RemotePart
    ) -> None:
        self.size_in_percent = 0
        self._last_clocks: tuple[int, int] | None = None  # wall and monotonic, in ms
        self._log = log
        self._checkpoint_store = checkpoint_store
        self._remote = remote

    def plan(self) -> RetentionPlan:
        """Return what a run deletes now, and change nothing [RET-1]."""
        chosen = self._nothing_chosen()
        for limit, goes in self._limits(chosen):
            chosen.take_while(limit, goes)
        return RetentionPlan(tuple(chosen.values), chosen.holding())

    def delete_old_segments(self) -> list[DeletedSegment]:
        """Delete what lies below the log start, and what the settings keep no longer [RET-1]."""
        self._log.begin_deletion()
        deleted: list[DeletedSegment] = []
        chosen = self._nothing_chosen()
        try:
            with self._log.failure_mark.poisoned_by(FsyncFailedError):
                for limit, goes in self._limits(chosen):
                    chosen.take_while(limit, goes)
                    if chosen.rolls_active:
                        self._log.roll()
                    gone = self._delete_segments(chosen.segments)
                    deleted += chosen.values[: len(gone)]
                    chosen.begin_again()
        finally:
            self._note_size(self._log.local_log.config)
        for error in chosen.unread:
            raise error
        for segment in chosen.undecided:
            _raise_undecided(segment)
        return deleted

    def _nothing_chosen(self) -> _Chosen:
        return _Chosen(self._log, self._remote, is_copied=self._is_copied)

    def delete_below_log_start(self) -> None:
        """Delete the segments that end at or below the log start; the active one stays [RET-5]."""
        self._log.begin_deletion()
        start = self._log.offsets.log_start_offset
        pairs = pairwise(self._log.local_log.segments.as_tuple)
        chosen = [one for one, following in pairs if following.base_offset <= start]
        with self._log.failure_mark.poisoned_by(FsyncFailedError):
            self._delete_segments(chosen)

    def _note_size(self, config: LogConfig) -> None:
        limit = 0 if self._is_copied else config.retention_bytes
        size = self._log.local_log.segments.size_in_bytes
        self.size_in_percent = size * 100 // limit if limit > 0 else 0

    # ---- the log start ---------------------------------------------------------------------------

    def raise_log_start(self, offset: int) -> bool:
        """Move the log start to *offset*, unless it is there; returns whether it moved.

        Raises
        ------
        OffsetOutOfRangeError
            *offset* is above the high watermark.
        """
        offsets, metadata = self._log.offsets, self._log.metadata
        if offset > offsets.high_watermark:
            start, end = offsets.log_start_offset, offsets.high_watermark
            raise out_of_range(offset, start, end, self._log.local_log.directory)
        if self._remote.tier is not None:
            self._remote.tier.raise_local_log_start(offset)  # also where the log start stays
        if offset <= offsets.log_start_offset:
            return False
        self._log.begin_deletion()
        metadata.begin_change()
        with self._log.failure_mark.poisoned_by(FsyncFailedError):
            # what they know of records that go is nowhere else
            self._log.producers.snapshots.sync_unsynced()
            self._with_room(lambda: self._checkpoint_store.write_log_start(offset), offset)
            offsets.update_log_start_offset(offset)
            self._log.flusher.raise_recovery_point(offset)
            is_changed = metadata.epochs.truncate_from_start(offset)
            self._log.producers.on_log_start_offset_incremented(offset)
            offsets.update_first_unstable_offset()
            with suppress(DiskFullError):  # what they say of deleted records counts no more
                if is_changed:
                    self._with_room(metadata.epochs.flush, offset)
                    self._with_room(metadata.save_state, offset)
        return True

    def _with_room(self, write: Callable[[], None], offset: int) -> None:
        """Write a small file; a full disk must not keep anybody from deleting what fills it.

        Where it is full, the indexes of the oldest segments make room, as far as these are to go:
        they end at or below *offset*. Until they go reads are slower, and an open after a crash
        builds their indexes again [DUR-8, DUR-19, DUR-30].
        """
        try:
            write()
        except DiskFullError:
            if self._log.profile is Profile.KAFKA or not self._is_room_made(write, offset):
                raise

    def _is_room_made(self, write: Callable[[], None], offset: int) -> bool:
        for segment, following in pairwise(self._log.local_log.segments.as_tuple):
            if following.base_offset > offset:
                break
            if segment.give_up_indexes():
                with suppress(DiskFullError):
                    write()
                    return True
        return False

    # ---- what goes -------------------------------------------------------------------------------

    @property
    def _is_copied(self) -> bool:
        """Whether sealed segments are uploaded, and go here then."""
        tier = self._remote.tier
        return tier is not None and tier.copies

    def _limits(self, chosen: _Chosen) -> Iterator[tuple[RetentionLimit, _Goes]]:
        """Yield what decides: log start, then size, then time, each of what the one before left."""
        config = self._log.local_log.config
        tier = self._remote.tier
        start = self._log.offsets.log_start_offset if tier is None else tier.local_log_start_offset
        yield (
            RetentionLimit.LOG_START_OFFSET,
            lambda _, following: following is not None and following.base_offset <= start,
        )
        policies = config.cleanup_policies
        if "delete" not in policies and not (self._is_copied and not policies):
            return
        gone = self._gone()
        limit_bytes = config.local_bytes if self._is_copied else config.retention_bytes
        if limit_bytes >= 0:
            yield RetentionLimit.RETENTION_BYTES, _is_surplus(chosen.rest(), gone, limit_bytes)
        limit_ms = config.local_ms if self._is_copied else config.retention_ms
        now_ms = self._log.local_log.directory.wall_clock_ms()
        if limit_ms is not None and limit_ms >= 0:
            if self._believes_clock(now_ms):
                yield RetentionLimit.RETENTION_MS, _is_old(chosen, gone, now_ms - limit_ms)
            else:
                chosen.hold(HoldingReason.CLOCK)

    def _gone(self) -> frozenset[Segment]:
        """Return the sealed segments whose ``.log`` somebody has removed [DUR-132].

        They count as deleted where a limit deletes the oldest segments: nothing of them is read.
        """
        if self._log.profile is Profile.KAFKA:
            return frozenset()
        listing = self._log.local_log.directory.segment_listing()
        there = set(listing.base_offsets(LOG_FILE_SUFFIX))
        sealed = self._log.local_log.segments.as_tuple[:-1]
        return frozenset(segment for segment in sealed if segment.base_offset not in there)

    def _believes_clock(self, now_ms: int) -> bool:
        """Whether the wall clock went on as time did: one that was set deletes nothing [DUR-28]."""
        if self._log.profile is Profile.KAFKA:
            return True
        last, monotonic_ns = self._last_clocks, self._log.local_log.directory.monotonic_ns()
        clocks = self._last_clocks = now_ms, monotonic_ns // _NS_PER_MS
        if last is None:
            return True
        return abs((clocks[0] - last[0]) - (clocks[1] - last[1])) <= _LARGEST_CLOCK_STEP_MS

    # ---- how it goes -----------------------------------------------------------------------------

    def _delete_segments(self, chosen: list[Segment]) -> list[Segment]:
        """Roll when all would go, move the log start, then take them out [RET-4].

        Where a full disk has no room for another segment, the last one stays.
        """
        local_log = self._log.local_log
        if not chosen:
            return chosen
        self._log.metadata.begin_change()
        if len(chosen) == len(local_log.segments):
            try:
                self._log.roll()
            except DiskFullError:
                if len(chosen) == 1 or self._log.profile is Profile.KAFKA:
                    raise
                chosen.pop()
        self._log.producers.snapshots.sync_unsynced()  # older ones go with their segments
        following = local_log.segments.higher_segment(chosen[-1].base_offset)
        if following is not None:
            self._raise_start(following.base_offset)
        gone = [segment for segment in chosen if segment in local_log.segments.as_tuple]
        if self._log.profile is Profile.SAFE:  # after a crash there is the one behind them [DUR-54]
            self._log.flusher.sync_names(local_log.names_version)
        local_log.delete_segments(gone)
        delete_snapshots_of(gone, self._log.producers, local_log)
        return chosen

    def _raise_start(self, offset: int) -> None:
        """Let the log begin at *offset*, or here, where the rest is uploaded; durably [DUR-19]."""
        tier = self._remote.tier
        if tier is None or not tier.copies:
            self.raise_log_start(offset)
            return
        tier.raise_local_log_start(offset)
        state_file = self._log.metadata.state_file
        if state_file is not None and offset > state_file.state.local_log_start_offset:
            change = partial(state_file.change, local_log_start_offset=offset)
            self._with_room(change, offset)


def _is_surplus(segments: tuple[Segment, ...], gone: frozenset[Segment], limit_bytes: int) -> _Goes:
    """Keep at least ``retention.bytes``, of files that are there [RET-6, RET-8]."""
    surplus = sum(one.size_bytes for one in segments if one not in gone) - limit_bytes

    def goes(segment: Segment, _: Segment | None) -> bool:
        nonlocal surplus
        if segment in gone:
            return True
        if surplus < segment.size_bytes:
            return False
        surplus -= segment.size_bytes
        return True

    return goes


def _is_old(chosen: _Chosen, gone: frozenset[Segment], oldest_ms: int) -> _Goes:
    """Delete what has no record of *oldest_ms* or later [RET-7, RET-8].

    A segment whose latest record damage may hide stays, with all behind it, and the damage is
    raised [DUR-79].
    """

    def goes(segment: Segment, _: Segment | None) -> bool:
        if segment in gone:
            return True
        try:
            latest = segment.largest_timestamp()
        except SegstoreError as error:
            chosen.unread.append(error)
            return False
        if latest >= oldest_ms:
            return False
        if segment.may_hide_times():
            chosen.undecided.append(segment)
            return False
        return True

    return goes


class _Chosen:
    """The segments that go, in their order, up to the first that stays; an active one may be last.

    An active segment that would go is rolled where there is remote storage: it can be uploaded
    then, and deleted later [RET-3].
    """

    def __init__(self, log: LogWriter, remote: RemotePart, *, is_copied: bool) -> None:
        self.segments: list[Segment] = []
        self.values: list[DeletedSegment] = []
        self.undecided: list[Segment] = []
        """Old enough, if damage does not hide a later record."""
        self.unread: list[SegstoreError] = []
        """Why the age of the first that stays cannot be read."""
        self.rolls_active = False
        self._log = log
        self._tier = remote.tier
        self._is_copied = is_copied
        self._reason = HoldingReason.WITHIN_LIMITS

    def begin_again(self) -> None:
        """Forget those that were deleted."""
        self.segments, self.values, self.rolls_active = [], [], False

    def rest(self) -> tuple[Segment, ...]:
        """Return those that stay so far."""
        return self._log.local_log.segments.as_tuple[len(self.segments) :]

    def hold(self, reason: HoldingReason) -> None:
        """Note why the first of the rest stays."""
        self._reason = reason

    def holding(self) -> HoldingSegment | None:
        """Return the first that stays."""
        for segment in self.rest()[:1]:
            time, _ = _largest_time(segment)
            return HoldingSegment(segment.base_offset, segment.size_bytes, time, self._reason)
        return None

    def take_while(self, limit: RetentionLimit, goes: _Goes) -> None:
        """Take more of them, up to the first that stays [RET-2]."""
        if not self.rolls_active:
            for segment, following in zip_longest(self.rest(), self.rest()[1:]):
                reason = self._take(limit, goes, segment, following)
                if reason is not None:
                    self._reason = reason
                    return

    def _take(
        self, limit: RetentionLimit, goes: _Goes, segment: Segment, following: Segment | None
    ) -> HoldingReason | None:
        """Take one more, or return why it stays."""
        log, tier = self._log, self._tier
        end = log.local_log.log_end.message_offset if following is None else following.base_offset
        if log.offsets.high_watermark < end:
            return HoldingReason.HIGH_WATERMARK
        if not goes(segment, following):
            is_hidden = segment in self.undecided or bool(self.unread)
            return HoldingReason.DAMAGED if is_hidden else HoldingReason.WITHIN_LIMITS
        if following is None and segment.size_bytes == 0:
            return HoldingReason.ACTIVE
        if tier is not None:
            self.rolls_active = following is None
            is_deleted = following is not None and end <= log.offsets.log_start_offset
            if not is_deleted and not tier.allows_deletion(end):
                return HoldingReason.NOT_COPIED
        self.segments.append(segment)
        time, has_time = None, False
        # Kafka makes an index at its first use, and reads none for the other limits
        if limit is RetentionLimit.RETENTION_MS or log.profile is Profile.SAFE:
            time, has_time = _largest_time(segment)
        base, size = segment.base_offset, segment.size_bytes
        self.values.append(DeletedSegment(base, end, size, time, has_time, limit, self._is_copied))
        return None


def _largest_time(segment: Segment) -> tuple[int | None, bool]:
    """Return the largest time of a segment, and whether a record has it."""
    with suppress(SegstoreError):
        recorded = segment.largest_record_timestamp()
        return (segment.modified_ms() if recorded < 0 else recorded), recorded >= 0
    return None, False


def _raise_undecided(segment: Segment) -> None:
    try:
        segment.check_times(segment.size_bytes)
    except (CorruptLogError, CorruptRecordError) as error:
        raise corrupt_log(
            error,
            "damage may hide the newest record of this segment, so retention.ms does not delete it;"
            f" {salvage_hint(segment.directory_path)}; `delete_records` deletes the segment",
        ) from error


def delete_snapshots_of(
    segments: Iterable[Segment], producers: ProducerStateManager, local_log: LocalLog
) -> None:
    """Mark the snapshots that went with *segments*, and unlink them as late [PSM-57]."""
    for segment in segments:
        file = producers.snapshots.mark_for_deletion(segment.base_offset)
        if file is not None:
            local_log.unlink_later(file.delete_if_exists)
