"""Bringing a log to stable storage: group commit, syncs on a timer and after a roll.

Source: [DUR-3, DUR-13..15].

One sync runs at a time, outside the append lock. Who needs one that began after his write waits for
the next round; the first to wait leads it, so many writers share one ``fdatasync``.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import segstore._core as _core
from segstore._core import AppendLock, Barrier, SyncRounds
from segstore.errors import (
    ClosedError,
    DiskFullError,
    FsyncFailedError,
    IllegalStateError,
    LogNotFoundError,
    WriteError,
)
from segstore.log.directory.partition_lock import check_not_removed
from segstore.log.local.tail_rewrite import rewrite_from
from segstore.log.recovery_point_flusher import RecoveryPointFlusher
from segstore.types import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import AppendLane
    from segstore.log.directory.background import Scheduler
    from segstore.log.directory.durability import Durability
    from segstore.log.directory.log_dir_failure_channel import LogDirFailureChannel
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment
    from segstore.types import TopicPartition

_NS: Final = 1_000_000_000
_MAX_SEALED_WAITING: Final = 16  # for the thread; each keeps its files open until it is synced


class Flusher(RecoveryPointFlusher):
    """Knows how far a log is durable, and makes it so.

    Where the log is durable is published for all its threads, by the lane too: `PublishedEnd`.
    """

    def __init__(  # noqa: PLR0913 - what a flusher works with
        self,
        local_log: LocalLog,
        append_lock: AppendLock,
        durability: Durability,
        background: Scheduler,
        topic_partition: TopicPartition,
        recovery_point: int,
        failures: LogDirFailureChannel | None = None,
    ) -> None:
        super().__init__(append_lock, local_log.directory, topic_partition, failures)
        self._published = local_log.published
        self._published.durable, self._is_settled = local_log.log_end, True
        self.recovery_point = self.highest_recovery_point = recovery_point
        self._local_log = local_log
        self._durability = durability
        self._background = background
        self.rounds = SyncRounds(append_lock)
        self._synced_names_version = 0
        self._has_ended = False
        self._checkpoint_lock = AppendLock()
        append_lock.comes_before(self._checkpoint_lock)
        self._oldest_unsynced_ns: int | None = None
        self._oldest_in_round_ns: int | None = None
        self._sealed_waiting: set[Segment] = set()
        self._hole = (-1, -1)
        self._timers: set[float] = set()
        self._repeat_each(durability.seconds)

    def settle_later(self, log_start: int) -> None:
        """What lies above the recovery point is to be written again: it is not durable [DUR-36]."""
        offset = max(self.recovery_point, log_start)
        self._published.durable = self._local_log.offset_metadata(offset)._replace(
            message_offset=offset
        )
        self._is_settled = False

    def settle(self) -> None:
        """Write again what an unclean stop left: the first change begins with this [DUR-36]."""
        if self._is_settled or self.failure is not None:
            return
        log, offset = self._local_log, self.recovery_point
        with self.poisoned_by(FsyncFailedError):
            rewrite_from(log.segments.values(offset, log.log_end.message_offset), offset)
            log.directory.sync(Barrier.RECOVERY_NAMES)
            self._published.durable, self._is_settled = log.log_end, True
            with contextlib.suppress(DiskFullError):  # the next open checks more than it needs to
                self.write_recovery_point(is_locked=True)

    def take_name(self, topic_partition: TopicPartition) -> None:
        """Write the recovery point under another name from now on."""
        with self._checkpoint_lock:
            self._topic_partition = topic_partition

    def use_durability(self, durability: Durability) -> None:
        """Sync as *durability* says from the next append on.

        A timer of another period stays beside the new one: it syncs more often than was asked for.
        """
        self._repeat_each(durability.seconds)
        self._durability = durability

    def _repeat_each(self, seconds: float | None) -> None:
        """Have one timer a period, however often the settings come back to it."""
        if seconds is not None and seconds not in self._timers:
            self._timers.add(seconds)
            self._background.repeat(self._flush_by_timer, seconds)

    @property
    def durable(self) -> LogOffsetMetadata:
        """All below is on stable storage, by syncs that have ended: never ahead of it [DUR-4]."""
        return self._published.durable

    def note_log_end(self, offset: int) -> None:
        """The log ends at *offset* now; what is durable is known by syncs alone."""

    @property
    def durable_offset(self) -> int:
        """Below it everything is on stable storage [DUR-4]."""
        return self._published.durable_offset

    def check_window(self) -> None:
        """Refuse an append when the timed sync is twice as late as was promised [DUR-14].

        Called under the append lock before anything is written.
        """
        seconds = self._durability.seconds
        if seconds is None:
            return
        now = _core.monotonic_ns()
        if self._oldest_unsynced_ns is None:
            self._oldest_unsynced_ns = now
        oldest = self._oldest_in_round_ns or self._oldest_unsynced_ns
        if now - oldest > 2 * seconds * _NS:
            raise WriteError(
                f"the sync that should run every {seconds:g} s is {(now - oldest) / _NS:.3g} s"
                " behind; the append was refused, it can be tried again",
                file=self._local_log.directory.path,
            )

    def wait_until_durable(self, offset: int, generation: int) -> None:
        """Return when a sync that began after the write of *offset* - 1 has ended [DUR-15].

        Also returns when the log was truncated meanwhile: what a truncation left was synced before
        it took anything away, and the rest is gone, durably. That of one which failed is still
        there.
        """
        while self._published.durable_offset < offset:
            if self._local_log.generation != generation:
                with self._append_lock:  # which a truncation has until it is over
                    self._require_not_failed()
                    if self._local_log.log_end.message_offset < offset:
                        return
                    generation = self._local_log.generation
            self._join_round(offset)

    def sync_if_due(self, offset: int, generation: int) -> None:
        """Do what the mode asks for behind an append, outside the append lock."""
        durability = self._durability
        if durability.sync or offset - self._published.durable_offset >= durability.messages:
            self.wait_until_durable(offset, generation)

    def flush(self) -> int:
        """Bring everything appended so far to stable storage; returns the durable offset.

        Source: [FLU-1, FLU-2].
        """
        with self._append_lock:
            self.settle()
            offset = self._local_log.log_end.message_offset
            generation = self._local_log.generation
            names_version = self._local_log.names_version
            if self._published.durable_offset == offset:
                self._oldest_unsynced_ns = None  # an append was announced, but wrote nothing
        self._require_not_failed()
        self.wait_until_durable(offset, generation)
        self.sync_names(names_version)  # a roll behind the last sync: all was durable before it
        check_not_removed(self._local_log.directory)
        return self._published.durable_offset

    def sync_active_segment(self) -> None:
        """Sync the files of the active segment, also when it is empty [FLU-3].

        As a round: of two syncs of one descriptor only one hears of an error [DUR-35].
        """

        def sync() -> None:
            with self.poisoned_by(FsyncFailedError):
                self._require_not_failed()
                active = self._local_log.segments.active_segment
                active.flush(Barrier.APPENDED_RECORDS, indexes=True)

        while not self.rounds.join(sync):
            self._require_not_failed()  # another round has ended

    def _join_round(self, offset: int) -> None:
        """Lead a round, or wait for the end of the one that runs."""
        self._require_not_failed()
        if self._published.durable_offset >= offset:
            return
        if not self._lead_round():
            self._require_not_failed()  # of this round, or the one that would have covered us

    def _lead_round(self, up_to_offset: int | None = None) -> bool:
        """Sync when nobody does; else return False when the round that runs has ended."""
        return self.rounds.join(lambda: self._sync_round(up_to_offset))

    def sync_round(self, lane: AppendLane) -> None:
        """Lead the round that appends through *lane* wait for; what they wrote is published."""
        try:
            if lane.sync_records():
                return
        except (ClosedError, IllegalStateError, LogNotFoundError):
            pass  # the log has changed since, or is gone: below it is found out
        except BaseException as error:
            self._poison_by_round(error)
            raise
        self._sync_round(lane=lane)

    def _sync_round(
        self, up_to_offset: int | None = None, *, lane: AppendLane | None = None
    ) -> None:
        """Sync what was written, ascending and below *up_to_offset*, then the names [DUR-13]."""
        log = self._local_log
        times_armed = 0
        try:
            with self._append_lock:
                self._require_not_ended()
                self._require_not_failed()
                if lane is not None:
                    lane.publish_written()
                    times_armed = lane.times_armed
                generation = log.generation
                target = log.log_end
                if up_to_offset is not None:
                    if up_to_offset not in log.segments:
                        return  # the log was truncated before this round began
                    target = min(target, LogOffsetMetadata(up_to_offset, up_to_offset, 0))
                segments = log.segments.values(
                    min(self._published.durable_offset, target.message_offset),
                    target.message_offset,
                )
                active = log.segments.active_segment
                names_version = log.names_version
                self._oldest_in_round_ns, self._oldest_unsynced_ns = self._oldest_unsynced_ns, None
                if up_to_offset is None:
                    self.rounds.begin()
            for segment in segments:
                self._sync_segment(segment, indexes=segment is not active)
            self.sync_names(names_version)
            check_not_removed(log.directory)
            with self._append_lock:
                self._oldest_in_round_ns = None
                self._require_not_failed()  # another sync may have, since this one began
                if log.generation == generation and target > self._published.durable:
                    self._published.durable = target
                if lane is not None:
                    lane.note_settled(times_armed)
        except BaseException as error:
            self._poison_by_round(error)
            with self._append_lock:
                self._oldest_unsynced_ns = self._oldest_in_round_ns or self._oldest_unsynced_ns
                self._oldest_in_round_ns = None
            raise

    def sync_what_stays(self, offset: int) -> None:
        """Sync the records below *offset*, under the append lock [DUR-1, DUR-15].

        Before anything is cut: whoever sees that the log was truncated may go on. And before a gap
        behind which records count as they are. A full truncation leaves nothing to sync.
        """
        log = self._local_log
        if self._published.durable_offset >= offset:
            return
        with self.poisoned_by(FsyncFailedError):
            for segment in log.segments.values(self._published.durable_offset, offset):
                is_sealed = segment is not log.segments.active_segment
                segment.flush(Barrier.TRUNCATION_KEEPS, indexes=is_sealed)
                log.transaction_indexes.sync(segment.base_offset)
            self.sync_names(log.names_version)
        self._require_not_failed()

    def _sync_segment(self, segment: Segment, *, indexes: bool) -> None:
        try:
            segment.flush(Barrier.APPENDED_RECORDS, indexes=indexes)
            self._local_log.transaction_indexes.sync(segment.base_offset)
        except (ClosedError, IllegalStateError, LogNotFoundError):
            if segment in self._local_log.segments.as_tuple:
                raise  # else it was deleted meanwhile: nothing of it needs to be durable

    def segment_was_sealed(self, segment: Segment, sync_snapshots: Callable[[], None]) -> None:
        """Sync a sealed segment and raise the recovery point, on the background thread [DUR-29].

        When segments are filled faster than they can be synced, this one is synced at once: the
        process must not run out of descriptors.
        """
        if len(self._sealed_waiting) >= _MAX_SEALED_WAITING:
            with self.poisoned_by(FsyncFailedError):
                segment.flush(Barrier.APPENDED_RECORDS)
        self._sealed_waiting.add(segment)
        self._note_for_sidecar(segment)
        self._background.submit(lambda: self._flush_sealed(segment, sync_snapshots))

    def _flush_sealed(self, segment: Segment, sync_snapshots: Callable[[], None]) -> None:
        self._sealed_waiting.discard(segment)
        following = self._local_log.segments.higher_segment(segment.base_offset)
        if self.failure is not None or following is None:
            return
        with self._telling_of_failures("sync after a roll"):
            end = following.base_offset
            while self._published.durable_offset < end and not self._lead_round(end):
                pass  # the round that ran may have begun before this segment's end
            self._sync_segment(segment, indexes=True)  # no round may have known that it is sealed
            sync_snapshots()
            self.write_recovery_point()
        self._write_sidecar_behind_roll(segment)

    def _flush_by_timer(self) -> None:
        if self.failure is None and self._oldest_unsynced_ns is not None:
            with self._telling_of_failures("timed sync"):
                self.flush()

    def take_durable_back(self, durable: LogOffsetMetadata) -> None:
        """Everything up to *durable* is still there: the truncation was refused, nothing was cut.

        Called under the append lock. The checkpoint stays lower: a recovery reads more.
        """
        self._published.durable = max(self._published.durable, durable)

    def note_durable(self, log_end: LogOffsetMetadata) -> None:
        """Everything up to *log_end* was synced by the caller, who holds the append lock."""
        self._require_not_failed()  # a sync beside it may have
        self._published.durable = log_end
        self._oldest_unsynced_ns = None

    def end(self) -> None:
        """Write nothing any more, and wait until nobody is about to; the log was closed before.

        Who still waits for a sync is told that the log is closed.
        """
        with self._append_lock:
            self._has_ended = True
        self.rounds.wait()
        with self._checkpoint_lock:
            pass

    def _require_not_ended(self) -> None:
        if self._has_ended:
            raise ClosedError("the log is closed", file=self._local_log.directory.path)
