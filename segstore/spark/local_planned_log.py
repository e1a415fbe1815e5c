"""What planning asks of a log on a local disk: its bounds are values, the rest opens it again."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from segstore.spark.open_logs import OPEN_LOGS
from segstore.spark.visible_log import VisibleLog

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterator

    from segstore.types import FileTimestampAndOffset, Isolation, TopicPartition


class LocalPlannedLog(NamedTuple):
    """A log whose ends were looked at; it holds nothing open, however many a plan has of them.

    Attributes
    ----------
    path : str
        The log directory.
    topic_partition : TopicPartition
        Whose log it is.
    isolation : Isolation
        Which records are visible.
    start_offset : int
        Offset of the first record that was not deleted.
    end_offset : int
        Offset behind the last record that may be seen.
    log_end_offset : int
        Offset behind the last record.
    damage : str or None
        Why the log is known to lack records.
    topic_id : uuid.UUID or None
        The id in ``partition.metadata``.
    """

    path: str
    topic_partition: TopicPartition
    isolation: Isolation
    start_offset: int
    end_offset: int
    log_end_offset: int
    damage: str | None
    topic_id: uuid.UUID | None

    def fetch_offset_by_timestamp(self, timestamp: int) -> FileTimestampAndOffset:
        """Find the first record at or after *timestamp*, in ms; offset -1 = there is none."""
        with leased_log(self.path, self.topic_partition, self.isolation) as log:
            return log.fetch_offset_by_timestamp(timestamp)

    def first_offset_at(self, timestamp: int) -> int | None:
        """Return the offset of the first record at or after *timestamp*, in ms."""
        with leased_log(self.path, self.topic_partition, self.isolation) as log:
            return log.first_offset_at(timestamp)

    def cuts(self, start_offset: int, end_offset: int, max_bytes: int) -> list[int]:
        """Return where batches begin that cut a range into parts of at most *max_bytes* bytes."""
        with leased_log(self.path, self.topic_partition, self.isolation) as log:
            start = max(start_offset, log.start_offset)  # what was deleted since the task will tell
            return log.cuts(start, end_offset, max_bytes) if start < end_offset else []


@contextmanager
def leased_log(
    path: str, topic_partition: TopicPartition, isolation: Isolation
) -> Iterator[VisibleLog]:
    """Lend the log as it is now; nobody else uses it meanwhile."""
    with OPEN_LOGS.lease(path, topic_partition) as log:
        yield VisibleLog(log, isolation)


def planned_log(
    path: str, topic_partition: TopicPartition, isolation: Isolation
) -> LocalPlannedLog:
    """Look at the ends of a log."""
    with leased_log(path, topic_partition, isolation) as log:
        return LocalPlannedLog(
            path,
            topic_partition,
            isolation,
            log.start_offset,
            log.end_offset,
            log.log.log_end_offset,
            log.damage,
            log.topic_id,
        )
