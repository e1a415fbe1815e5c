"""Flushing as a broker does it: when it is told to, and nothing is written down [FLU-*, DUR-62]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import Barrier
from segstore.errors import FsyncFailedError, LogNotFoundError
from segstore.log.flusher import Flusher

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.log.local.segment import Segment
    from segstore.types import LogOffsetMetadata


class KafkaFlusher(Flusher):
    """The flusher of a handle with Kafka's profile; the recovery point lives in memory.

    A broker's log manager writes it down, for all logs together.
    """

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

    def check_window(self) -> None:
        """No append is refused for a late sync."""

    def sync_if_due(self, offset: int, generation: int) -> None:
        """Flush when so many messages are not flushed [APP-17]."""
        del generation
        if offset - self.recovery_point >= self._durability.messages or self._durability.sync:
            self.flush()

    def flush(self) -> int:
        """Flush all that was written; returns the recovery point [FLU-1]."""
        return self.flush_up_to(self._local_log.log_end.message_offset, inclusive=False)

    def flush_up_to(self, offset: int, *, inclusive: bool) -> int:
        """Flush the segments below *offset*, and move the recovery point there [FLU-2, LOC-16].

        Parameters
        ----------
        inclusive : bool
            Also the segment that begins at *offset* [FLU-3].
        """
        flush_offset = offset + 1 if inclusive else offset
        log = self._local_log
        if flush_offset > self.recovery_point:
            self._require_not_failed()
            generation = log.generation
            segments = log.segments.values(self.recovery_point, flush_offset)
            with self.poisoned_by(FsyncFailedError):
                for segment in segments:
                    self._sync_segment(segment, indexes=True)
                if any(segment.base_offset >= self.recovery_point for segment in segments):
                    log.directory.sync(Barrier.APPENDED_NAMES)
            with self._append_lock:
                self._require_not_failed()  # another flush may have, beside this one
                if log.generation != generation:  # cut meanwhile: others may be there now
                    return self.recovery_point
                self.recovery_point = max(self.recovery_point, offset)  # [LOC-17]
        return self.recovery_point

    def segment_was_sealed(self, segment: Segment, sync_snapshots: Callable[[], None]) -> None:
        """Flush up to the new segment, later: Kafka's task ``flush-log`` [ROL-1].

        First the producer snapshot of the roll: without it, nothing [ROL-2].
        """
        following = self._local_log.segments.higher_segment(segment.base_offset)
        base_offset = self._local_log.log_end.message_offset
        if following is not None:
            base_offset = following.base_offset

        def flush_log() -> None:
            with self._telling_of_failures("flush after a roll"):
                sync_snapshots()
                self.flush_up_to(base_offset, inclusive=False)

        self._background.submit(flush_log)

    def _sync_segment(self, segment: Segment, *, indexes: bool) -> None:
        try:
            super()._sync_segment(segment, indexes=indexes)
        except LogNotFoundError:
            if segment in self._local_log.segments.as_tuple:
                raise

    def sync_what_stays(self, offset: int) -> None:
        """Nobody waits."""

    def lower_recovery_point(self, offset: int) -> None:
        """Come down to *offset* [LOC-4]."""
        self.recovery_point = min(self.recovery_point, offset)

    def raise_recovery_point(self, offset: int) -> None:
        """Nothing below the log start needs to be recovered [UNI-3]."""
        self.recovery_point = max(self.recovery_point, offset)

    def write_recovery_point(self, *, is_locked: bool = False) -> None:
        """Nothing is written: the manager's business."""

    def note_hole(self, data_end_offset: int, log_end_offset: int) -> None:
        """Holes are as good as records."""
