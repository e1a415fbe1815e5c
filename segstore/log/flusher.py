"""Bringing a log to stable storage: group commit, syncs on a timer and after a roll.

`Flusher` also decides when the recovery point is written.

Source: [DUR-3, DUR-13..15].

One sync runs at a time, outside the append lock. Who needs one that began after his write waits for
the next round; the first to wait leads it, so many writers share one ``fdatasync``.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final, TypeAlias

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
from segstore.log.directory_sync import DirectorySync
from segstore.log.files.partition_lock import check_not_removed
from segstore.log.files.profile import Profile
from segstore.log.kafka_profile.kafka_flusher import KafkaFlusher
from segstore.log.local.tail_rewrite import rewrite_from
from segstore.log.recovery_point import RecoveryPoint
from segstore.types import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import AppendLane
    from segstore.log.durability import Durability
    from segstore.log.failure_mark import FailureMark
    from segstore.log.files.background import Scheduler
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment
    from segstore.log.log_parts import LogParts
    from segstore.log.log_watcher import LogWatcher
    from segstore.types import TopicPartition

_log = logging.getLogger(__name__)

_NS: Final = 1_000_000_000
_MAX_SEALED_WAITING: Final = 16  # for the thread; each keeps its files open until it is synced


class Flusher:
    """Knows how far a log is durable, and makes it so.

    Where the log is durable is published for all its threads, by the lane too: `PublishedEnd`.

    Attributes
    ----------
    rounds : SyncRounds
        Of appends that wait for a sync.
    """

    def __init__(  # noqa: PLR0913 - what a flusher works with
        self,
        local_log: LocalLog,
        append_lock: AppendLock,
        durability: Durability,
        background: Scheduler,
        topic_partition: TopicPartition,
        recovery_point: int,
        failure_mark: FailureMark,
        *,
        log_start_offset: int,
        watcher: LogWatcher,
    ) -> None:
        self._watcher = watcher
        self._local_log = local_log
        self._published = local_log.published
        self._append_lock = append_lock
        self._durability = durability
        self._background = background
        self._failure_mark = failure_mark
        self._directory_sync = DirectorySync(local_log.directory, append_lock, failure_mark)
        self._recovery_point = RecoveryPoint(
            local_log.directory, self._directory_sync, topic_partition, recovery_point
        )
        self.rounds = SyncRounds(append_lock)
        self._oldest_unsynced_ns: int | None = None
        self._oldest_in_round_ns: int | None = None
        self._sealed_waiting: set[Segment] = set()
        self._timers: set[float] = set()
        # what lies above the recovery point is to be written again: it is not durable [DUR-36]
        self._is_reconciled = recovery_point >= local_log.log_end.message_offset
        self._published.durable = local_log.log_end
        if not self._is_reconciled:
            offset = max(recovery_point, log_start_offset)
            place = local_log.offset_metadata(offset)
            self._published.durable = place._replace(message_offset=offset)
        self._repeat_each(durability.seconds)

    @property
    def durable(self) -> LogOffsetMetadata:
        """All below is on stable storage, by syncs that have ended: never ahead of it [DUR-4]."""
        return self._published.durable

    @property
    def recovery_point(self) -> int:
        """What the checkpoint says [DUR-21]."""
        return self._recovery_point.offset

    def reconcile(self) -> None:
        """Write again what an unclean stop left: the first change begins with this [DUR-36]."""
        if self._is_reconciled or self._failure_mark.failure is not None:
            return
        log, offset = self._local_log, self.recovery_point
        with self._failure_mark.poisoned_by(FsyncFailedError):
            rewrite_from(log.segments.values(offset, log.log_end.message_offset), offset)
            log.directory.sync(Barrier.RECOVERY_NAMES)
            self._published.durable, self._is_reconciled = log.log_end, True
            with contextlib.suppress(DiskFullError):  # the next open checks more than it needs to
                self.write_recovery_point(is_locked=True)

    def use_name(self, topic_partition: TopicPartition) -> None:
        """Write the recovery point under another name from now on."""
        self._recovery_point.use_name(topic_partition)

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
                " late; the append was refused, it can be tried again",
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
                    self._failure_mark.require_not_failed()
                    if self._local_log.log_end.message_offset < offset:
                        return
                    generation = self._local_log.generation
            if not self._lead_round():
                # of this round, or the one that would have covered us
                self._failure_mark.require_not_failed()

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
            self.reconcile()
            offset = self._local_log.log_end.message_offset
            generation = self._local_log.generation
            names_version = self._local_log.names_version
            if self._published.durable_offset == offset:
                self._oldest_unsynced_ns = None  # an append was announced, but wrote nothing
        self._failure_mark.require_not_failed()
        self.wait_until_durable(offset, generation)
        self.sync_names(names_version)  # a roll behind the last sync: all was durable before it
        check_not_removed(self._local_log.directory)
        return self._published.durable_offset

    def flush_log(self, *, force_active_segment: bool) -> int:
        """As `flush`, and write the recovery point; *force_active_segment* as in `UnifiedLog`."""
        durable_offset = self.flush()
        if force_active_segment:
            self.sync_active_segment()
        try:
            self.write_recovery_point()
        except DiskFullError:  # the records are safe; the next open checks more than it needs to
            _log.warning("%s: no room for the recovery point", self._local_log.directory.path)
        except FsyncFailedError as error:
            self._failure_mark.poison(error)
            raise
        return durable_offset

    def flush_up_to_exclusive(self, offset: int) -> int:
        """Bring what is below *offset* to stable storage, or more; returns the durable offset."""
        if offset > self._published.durable_offset:
            return self.flush_log(force_active_segment=False)
        return self._published.durable_offset

    def sync_active_segment(self) -> None:
        """Sync the files of the active segment, also when it is empty [FLU-3].

        As a round: of two syncs of one descriptor only one hears of an error [DUR-35].
        """

        def sync() -> None:
            with self._failure_mark.poisoned_by(FsyncFailedError):
                self._failure_mark.require_not_failed()
                active = self._local_log.segments.active_segment
                self._sync_segment(active, indexes=True)

        while not self.rounds.join(sync):
            self._failure_mark.require_not_failed()  # another round has ended

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
            self._failure_mark.poison_by_round(error)
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
                self._directory_sync.require_not_ended()
                self._failure_mark.require_not_failed()
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
                self._oldest_in_round_ns = self._oldest_unsynced_ns
                if target == log.log_end:  # else what was appended since a roll waits still
                    self._oldest_unsynced_ns = None
                if up_to_offset is None:
                    self.rounds.begin()
            for segment in segments:
                self._sync_segment(segment, indexes=segment is not active)
            self.sync_names(names_version)
            check_not_removed(log.directory)
            with self._append_lock:
                self._oldest_in_round_ns = None
                self._failure_mark.require_not_failed()  # another sync may have meanwhile
                if log.generation == generation and target > self._published.durable:
                    self._published.durable = target
                if lane is not None:
                    lane.note_reconciled(times_armed)
        except BaseException as error:
            self._failure_mark.poison_by_round(error)
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
        with self._failure_mark.poisoned_by(FsyncFailedError):
            for segment in log.segments.values(self._published.durable_offset, offset):
                is_sealed = segment is not log.segments.active_segment
                segment.flush(Barrier.TRUNCATION_KEEPS, indexes=is_sealed)
                log.transaction_indexes.sync(segment.base_offset)
            self.sync_names(log.names_version)
        self._failure_mark.require_not_failed()

    def _sync_segment(self, segment: Segment, *, indexes: bool) -> None:
        self._local_log.sync_segment(segment, self._append_lock, indexes=indexes)

    def segment_was_sealed(self, segment: Segment, sync_snapshots: Callable[[], None]) -> None:
        """Sync a sealed segment and raise the recovery point, on the background thread [DUR-29].

        Called under the append lock, which a flush takes.

        When segments are filled faster than they can be synced, this one is synced at once: the
        process must not run out of descriptors.
        """
        if len(self._sealed_waiting) >= _MAX_SEALED_WAITING:
            with self._failure_mark.poisoned_by(FsyncFailedError):
                segment.flush(Barrier.APPENDED_RECORDS)
        self._sealed_waiting.add(segment)
        sidecars = self._local_log.checksum_sidecars
        if sidecars is not None and sidecars.are_written:
            sidecars.note_sealed(segment)
        self._background.submit(lambda: self._flush_sealed(segment, sync_snapshots))

    def _flush_sealed(self, segment: Segment, sync_snapshots: Callable[[], None]) -> None:
        self._sealed_waiting.discard(segment)
        following = self._local_log.segments.higher_segment(segment.base_offset)
        if self._failure_mark.failure is not None or following is None:
            return
        with self._failure_mark.telling_of_failures("sync after a roll"):
            end = following.base_offset
            while self._published.durable_offset < end and not self._lead_round(end):
                pass  # the round that ran may have begun before this segment's end
            self._sync_segment(segment, indexes=True)  # no round may have known that it is sealed
            sync_snapshots()
            self.write_recovery_point()
        if self._failure_mark.failure is None:  # never a gate [DUR-41, DUR-60]
            with self._failure_mark.telling_of_failures("checksum sidecar"):
                self.write_checksum_sidecar(segment)

    def _flush_by_timer(self) -> None:
        if self._failure_mark.failure is None and self._oldest_unsynced_ns is not None:
            with self._failure_mark.telling_of_failures("timed sync"):
                self.flush()

    def restore_durable(self, durable: LogOffsetMetadata) -> None:
        """Everything up to *durable* is still there: the truncation was refused, nothing was cut.

        Called under the append lock. The checkpoint stays lower: a recovery reads more.
        """
        self._published.durable = max(self._published.durable, durable)

    def note_durable(self, log_end: LogOffsetMetadata) -> None:
        """Everything up to *log_end* was synced by the caller, who holds the append lock."""
        self._failure_mark.require_not_failed()  # a sync beside it may have
        self._published.durable = log_end
        self._oldest_unsynced_ns = None

    # ---- the recovery point, names, sidecars ----------------------------------------------------

    def sync_names(self, version: int) -> None:
        """Sync the directory when files were created or renamed since it last was."""
        self._directory_sync.sync_names(version)

    def write_recovery_point(self, *, is_locked: bool = False) -> None:
        """Write a durable offset [DUR-21]; with *is_locked* the caller holds the append lock."""
        offset = self._published.durable_offset
        with contextlib.nullcontext() if is_locked else self._append_lock:
            names_version = self._local_log.names_version
        # a segment that begins there, and is empty yet, may be all that says where the log ends
        self.sync_names(names_version)
        with self._directory_sync.lock:
            self._recovery_point.raise_to(min(offset, self._published.durable_offset))
        self._watcher.note_checkpoint()

    def lower_recovery_point(self, offset: int) -> None:
        """Lower durable offset and checkpoint to *offset*, before a truncation.

        Called under the append lock; the checkpoint is on stable storage at return [DUR-16].
        """
        with self._directory_sync.lock:
            self._recovery_point.lower_to(offset)
            if self._published.durable_offset > offset:
                self._published.durable = LogOffsetMetadata(offset)

    def raise_recovery_point(self, offset: int) -> None:
        """Nothing below *offset*, the log start, is to be recovered: an open knows [UNI-3]."""

    def note_hole(self, data_end_offset: int, log_end_offset: int) -> None:
        """There is nothing between the data and the log end, behind a truncation [TRU-5]."""
        self._recovery_point.note_hole(data_end_offset, log_end_offset)

    def write_checksum_sidecar(self, segment: Segment, **how: bool) -> bool:
        """Write that of a segment which is sealed and synced, when it was noted [DUR-60].

        *how* is that of `ChecksumSidecars.make`. Not beside another sync of the directory: of two
        only one hears of an error [DUR-35].
        """
        sidecars = self._local_log.checksum_sidecars
        made = None if sidecars is None else sidecars.make(segment, **how)
        if sidecars is None or made is None:
            return False
        with self._directory_sync.lock, self._directory_sync.writing():
            return sidecars.publish(made)

    # ---- the end ---------------------------------------------------------------------------------

    def end(self) -> None:
        """Write nothing any more, and wait until no thread is about to; the log was closed before.

        A thread that still waits for a sync gets `ClosedError`.
        """
        with self._append_lock:
            self._directory_sync.end()
        self.rounds.wait()
        self._directory_sync.wait()


LogFlusher: TypeAlias = Flusher | KafkaFlusher


def new_flusher(parts: LogParts, durability: Durability, failure_mark: FailureMark) -> LogFlusher:
    """Return the flusher of the profile that the log was opened with."""
    point = parts.loaded.recovery_point
    if parts.options.profile is Profile.KAFKA:
        return KafkaFlusher(
            parts.local_log, parts.append_lock, durability, parts.background, point, failure_mark
        )
    return Flusher(
        parts.local_log,
        parts.append_lock,
        durability,
        parts.background,
        parts.checkpoint_store.topic_partition,
        point,
        failure_mark,
        log_start_offset=parts.loaded.log_start_offset,
        watcher=parts.log_environment.watcher,
    )
