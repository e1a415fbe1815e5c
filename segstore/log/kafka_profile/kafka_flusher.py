"""Flushing as a broker does it: when it is told to, and nothing is written down [FLU-*, DUR-62].

`Flusher` does it for the safe profile. Both answer the same calls of a log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import Barrier, SyncRounds
from segstore.errors import FsyncFailedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import AppendLock
    from segstore.log.durability import Durability
    from segstore.log.failure_mark import FailureMark
    from segstore.log.files.background import Scheduler
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment
    from segstore.types import LogOffsetMetadata, TopicPartition


class KafkaFlusher:
    """The flusher of a handle with Kafka's profile; the recovery point lives in memory.

    A broker's log manager writes it down, for all logs together.

    Attributes
    ----------
    recovery_point : int
        Everything below was flushed.
    last_flush_ms : int
        When a flush last moved it, or the log was opened [MGR-41].
    rounds : SyncRounds
        Nobody waits in them here.
    """

    def __init__(  # noqa: PLR0913 - what a flusher works with
        self,
        local_log: LocalLog,
        append_lock: AppendLock,
        durability: Durability,
        background: Scheduler,
        recovery_point: int,
        failure_mark: FailureMark,
    ) -> None:
        self.recovery_point = recovery_point
        self.rounds = SyncRounds(append_lock)
        self._local_log = local_log
        self._append_lock = append_lock
        self._durability = durability
        self._background = background
        self._failure_mark = failure_mark
        self.last_flush_ms = local_log.directory.wall_clock_ms()

    # ---- what is durable -------------------------------------------------------------------------

    @property
    def durable_offset(self) -> int:
        """Without its place, which would take a look into the segment."""
        return min(self.recovery_point, self._local_log.log_end.message_offset)

    @property
    def durable(self) -> LogOffsetMetadata:
        """Everything below the recovery point was flushed."""
        log_end = self._local_log.log_end
        if self.recovery_point >= log_end.message_offset:
            return log_end
        place = self._local_log.offset_metadata(self.recovery_point)
        return place._replace(message_offset=self.recovery_point)  # it may lie inside a batch

    def note_log_end(self, offset: int) -> None:
        """A recovery point above the log end comes down to it [LOC-4, FLU-5]."""
        self.recovery_point = min(self.recovery_point, offset)

    def lower_recovery_point(self, offset: int) -> None:
        """Come down to *offset* [LOC-4]."""
        self.recovery_point = min(self.recovery_point, offset)

    def raise_recovery_point(self, offset: int) -> None:
        """Nothing below the log start needs to be recovered [UNI-3]."""
        self.recovery_point = max(self.recovery_point, offset)

    def note_durable(self, _log_end: LogOffsetMetadata) -> None:
        """Only the recovery point says what is durable; a flush beside this may have failed."""
        self._failure_mark.require_not_failed()

    # ---- flushing --------------------------------------------------------------------------------

    def use_durability(self, durability: Durability) -> None:
        """Flush as *durability* says from the next append on."""
        self._durability = durability

    def sync_if_due(self, offset: int, generation: int) -> None:
        """Flush when so many messages are not flushed [APP-17]."""
        del generation
        if offset - self.recovery_point >= self._durability.messages or self._durability.sync:
            self.flush()

    def flush(self) -> int:
        """Flush all that was written; returns the recovery point [FLU-1]."""
        return self.flush_log(force_active_segment=False)

    def flush_log(self, *, force_active_segment: bool) -> int:
        """Flush up to the log end; *force_active_segment* as in `UnifiedLog.flush` [FLU-3]."""
        end = self._local_log.log_end.message_offset
        return self._flush_up_to(end, inclusive=force_active_segment)

    def flush_up_to_exclusive(self, offset: int) -> int:
        """Flush what is below *offset*; returns the recovery point [FLU-1]."""
        return self._flush_up_to(offset, inclusive=False)

    def _flush_up_to(self, offset: int, *, inclusive: bool) -> int:
        """Flush the segments below *offset*, and move the recovery point there [FLU-2, LOC-16].

        Parameters
        ----------
        inclusive : bool
            Also the segment that begins at *offset* [FLU-3].
        """
        flush_offset = offset + 1 if inclusive else offset
        log = self._local_log
        if flush_offset > self.recovery_point:
            self._failure_mark.require_not_failed()
            generation = log.generation
            segments = log.segments.values(self.recovery_point, flush_offset)
            with self._failure_mark.poisoned_by(FsyncFailedError):
                for segment in segments:
                    log.sync_segment(segment, self._append_lock, indexes=True)
                if any(segment.base_offset >= self.recovery_point for segment in segments):
                    log.directory.sync(Barrier.APPENDED_NAMES)
            with self._append_lock:
                self._failure_mark.require_not_failed()  # another flush may have, beside this one
                if log.generation != generation:  # cut meanwhile: others may be there now
                    return self.recovery_point
                if offset > self.recovery_point:  # [LOC-17]
                    self.recovery_point = offset
                    self.last_flush_ms = log.directory.wall_clock_ms()
        return self.recovery_point

    def segment_was_sealed(self, segment: Segment, sync_snapshots: Callable[[], None]) -> None:
        """Flush up to the new segment, later: Kafka's task ``flush-log`` [ROL-1].

        Called under the append lock, which a flush takes.

        First the producer snapshot of the roll: without it, nothing [ROL-2].
        """
        following = self._local_log.segments.higher_segment(segment.base_offset)
        base_offset = self._local_log.log_end.message_offset
        if following is not None:
            base_offset = following.base_offset

        def flush_log() -> None:
            with self._failure_mark.telling_of_failures("flush after a roll"):
                sync_snapshots()
                self._flush_up_to(base_offset, inclusive=False)

        self._background.submit(flush_log)

    def end(self) -> None:
        """Flush nothing any more; the log was closed before."""
        self.rounds.wait()

    # ---- what a broker does not do ---------------------------------------------------------------

    def reconcile(self) -> None:
        """A broker believes what an unclean stop left."""

    def use_name(self, topic_partition: TopicPartition) -> None:
        """The recovery point is not written down here."""

    def check_window(self) -> None:
        """No append is refused for a late sync."""

    def sync_what_stays(self, offset: int) -> None:
        """Nobody waits."""

    def sync_names(self, version: int) -> None:
        """Names are synced with what is flushed."""

    def restore_durable(self, durable: LogOffsetMetadata) -> None:
        """Only the recovery point says what is durable."""

    def note_hole(self, data_end_offset: int, log_end_offset: int) -> None:
        """Holes are as good as records."""
