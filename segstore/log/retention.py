"""The old end of a log: its log start, and the deletion of its oldest segments [RET-*].

The log start moves in memory, in its checkpoint, and in what depends on it, durably. Which segments
go says `RetentionPlanner`. When that runs is the manager's business [RET-10].

Source: [LST-1, LST-5, UNI-3, DUR-19]; Kafka ``UnifiedLog.deleteOldSegments``.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from segstore.errors import CorruptLogError, CorruptRecordError, DiskFullError, FsyncFailedError
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
    from segstore.log.retention_plan import DeletedSegment
    from segstore.log.retention_planner import RetentionPlanner


_log = logging.getLogger(__name__)


class Retention:
    """Moves the log start, and takes whole segments away, under the append lock.

    `LogOffsets` has the number.

    Attributes
    ----------
    size_in_percent : int
        How much of ``retention.bytes`` the last run left in use; 0 without a limit [RET-11].
    """

    def __init__(
        self,
        log: LogWriter,
        checkpoint_store: CheckpointStore,
        remote: RemotePart,
        planner: RetentionPlanner,
    ) -> None:
        self.size_in_percent = 0
        self._planner = planner
        self._log = log
        self._checkpoint_store = checkpoint_store
        self._remote = remote

    def delete_old_segments(self, deleted: list[DeletedSegment], now_ms: int | None = None) -> None:
        """Delete what lies below the log start, and what the settings keep no longer [RET-1].

        Parameters
        ----------
        deleted : list of DeletedSegment
            Gets what was deleted, also where an error ends the run.
        now_ms : int or None
            The time by which segments are old; None = the wall clock, where that is believed.
        """
        self._log.begin_deletion()
        chosen = self._planner.nothing_chosen()
        config = self._log.local_log.config
        try:
            with self._log.failure_mark.poisoned_by(FsyncFailedError):
                for limit, goes in self._planner.limits(chosen, config, now_ms):
                    chosen.take_while(limit, goes)
                    if chosen.rolls_active:
                        self._log.roll()
                    gone = self._delete_segments(chosen.segments)
                    deleted += chosen.values[: len(gone)]
                    chosen.begin_again()
        finally:
            self._note_size(self._log.local_log.config)
        for segment, timestamp in chosen.of_the_future:
            _log.warning(
                "%s: segment %d has a record of the time %d, which is in the future: retention.ms"
                " deletes neither this segment nor any after it before that time has passed",
                self._log.local_log.directory.path,
                segment.base_offset,
                timestamp,
            )
        for error in chosen.unread:
            raise error
        for segment in chosen.undecided:
            _raise_undecided(segment)

    def next_look_ms(self, now_ms: int) -> int | None:
        """Return when a run may delete something, if nothing is told to the watcher before.

        It may be too early, never too late: the oldest segment decides, and appends make its latest
        record later. *now_ms* = at each run. None = never. Source: [RTN-5, RTN-11, RTN-12].
        """
        config, segments = self._log.local_log.config, self._log.local_log.segments
        if self._remote.tier is not None:
            return now_ms  # uploads are not told
        oldest, active = segments.first_segment, segments.active_segment
        if "delete" not in config.cleanup_policies or (oldest is active and not active.size_bytes):
            return None
        if 0 <= config.retention_bytes <= self._largest_rest():
            return now_ms
        if config.retention_ms is None or config.retention_ms < 0:
            return None
        recorded = oldest.largest_record_timestamp()
        if recorded < 0 and oldest is active:
            return now_ms  # an append may have an older time than the file
        latest = oldest.modified_ms() if recorded < 0 else recorded
        return latest + config.retention_ms + 1

    def _largest_rest(self) -> int:
        """Return how large the log can be, before the next roll, without its oldest segment."""
        log = self._log.local_log
        oldest, active = log.segments.first_segment, log.segments.active_segment
        if oldest is active:
            return 0
        sealed_bytes = log.segments.size_in_bytes - active.size_bytes
        return sealed_bytes - oldest.size_bytes + max(active.size_bytes, log.config.roll_bytes)

    def delete_below_log_start(self) -> None:
        """Delete the segments that end at or below the log start; the active one stays [RET-5]."""
        self._log.begin_deletion()
        start = self._log.offsets.log_start_offset
        pairs = pairwise(self._log.local_log.segments.as_tuple)
        chosen = [one for one, following in pairs if following.base_offset <= start]
        with self._log.failure_mark.poisoned_by(FsyncFailedError):
            self._delete_segments(chosen)

    def _note_size(self, config: LogConfig) -> None:
        limit = 0 if self._planner.is_copied else config.retention_bytes
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
        self._log.watcher.note_segments()
        self._log.watcher.note_checkpoint()
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
        clean_end = self._log.clean_part.end()
        if self._log.profile is Profile.SAFE:  # after a crash there is the one behind them [DUR-54]
            self._log.flusher.sync_names(local_log.names_version)
        local_log.delete_segments(gone)
        delete_snapshots_of(gone, self._log.producers, local_log)
        self._log.clean_part.renew(clean_end)
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
