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
)
from segstore.log.files.partition_directory import LOG_FILE_SUFFIX
from segstore.log.files.profile import Profile
from segstore.log.files.recovery_advice import corrupt_log, salvage_hint
from segstore.log.local.local_log import out_of_range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segstore.config.log_config import LogConfig
    from segstore.log.files.checkpoint_store import CheckpointStore
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment
    from segstore.log.log_writer import LogWriter
    from segstore.log.producers.producer_state_manager import ProducerStateManager
    from segstore.log.remote_part import RemotePart

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

    def delete_old_segments(self) -> int:
        """Delete what lies below the log start, and what the settings keep no longer [RET-1]."""
        config = self._log.local_log.config
        self._log.begin_deletion()
        try:
            with self._log.failure_mark.poisoned_by(FsyncFailedError):
                deleted = self._delete_while(self._is_below_log_start)
                policies = config.cleanup_policies
                if "delete" in policies or (self._is_copied and not policies):
                    gone = self._gone()
                    deleted += self._delete_by_size(config, gone)
                    deleted += self._delete_by_time(config, gone)
        finally:
            self._note_size(config)
        return deleted

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

    def _is_below_log_start(self, _: Segment, following: Segment | None) -> bool:
        tier = self._remote.tier
        start = self._log.offsets.log_start_offset if tier is None else tier.local_log_start_offset
        return following is not None and following.base_offset <= start  # [RET-5]

    def _delete_by_size(self, config: LogConfig, gone: frozenset[Segment]) -> int:
        """Keep at least ``retention.bytes``, of files that are there [RET-6, RET-8]."""
        limit = config.local_bytes if self._is_copied else config.retention_bytes
        if limit < 0:
            return 0
        size = self._log.local_log.segments.size_in_bytes
        surplus = size - sum(segment.size_bytes for segment in gone) - limit

        def is_surplus(segment: Segment, _: Segment | None) -> bool:
            nonlocal surplus
            if segment in gone:
                return True
            if surplus < segment.size_bytes:
                return False
            surplus -= segment.size_bytes
            return True

        return self._delete_while(is_surplus)

    def _delete_by_time(self, config: LogConfig, gone: frozenset[Segment]) -> int:
        """Delete what is older than ``retention.ms`` by its newest record [RET-7, RET-8].

        A segment whose newest record damage may hide stays, with all behind it, and the damage is
        raised [DUR-79].
        """
        limit = config.local_ms if self._is_copied else config.retention_ms
        now_ms = self._log.local_log.directory.wall_clock_ms()
        if limit is None or limit < 0 or not self._believes_clock(now_ms):
            return 0
        undecided: list[Segment] = []

        def is_old(segment: Segment, _: Segment | None) -> bool:
            if segment in gone:
                return True
            if now_ms - segment.largest_timestamp() <= limit:
                return False
            if segment.may_hide_times():
                undecided.append(segment)
                return False
            return True

        deleted = self._delete_while(is_old)
        for segment in undecided:
            _raise_undecided(segment)
        return deleted

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

    def _delete_while(self, goes: Callable[[Segment, Segment | None], bool]) -> int:
        """Delete from the oldest on, up to the first that stays; returns how many [RET-2].

        An active segment that would go is rolled where there is remote storage: it can be uploaded
        then, and deleted later [RET-3].
        """
        chosen: list[Segment] = []
        segments, tier = self._log.local_log.segments.as_tuple, self._remote.tier
        high_watermark, start = self._log.offsets.high_watermark, self._log.offsets.log_start_offset
        rolls_active = False
        for segment, following in zip_longest(segments, segments[1:]):
            log_end_offset = self._log.local_log.log_end.message_offset
            end = log_end_offset if following is None else following.base_offset
            if high_watermark < end or not goes(segment, following):
                break
            if following is None and segment.size_bytes == 0:
                break
            rolls_active = tier is not None and following is None
            is_deleted = following is not None and following.base_offset <= start
            if tier is not None and not is_deleted and not tier.allows_deletion(end):
                break
            chosen.append(segment)
        if rolls_active:
            self._log.roll()
        self._delete_segments(chosen)
        return len(chosen)

    # ---- how it goes -----------------------------------------------------------------------------

    def _delete_segments(self, chosen: list[Segment]) -> None:
        """Roll when all would go, move the log start, then take them out [RET-4].

        Where a full disk has no room for another segment, the last one stays.
        """
        local_log = self._log.local_log
        if not chosen:
            return
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
