"""What planning asks of files alone: their bounds are values, the rest opens them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from segstore.log.lone_segment import open_segment
from segstore.spark.conditions import ConnectorOptionError
from segstore.types import FileTimestampAndOffset, SpecialTimestamp

if TYPE_CHECKING:
    from segstore.types import Isolation, TopicPartition


class FilesPlannedLog(NamedTuple):
    """Files alone, as one log.

    Attributes
    ----------
    files : tuple of str
        Their paths.
    topic_partition : TopicPartition
        Whose records they are, as far as that is known.
    isolation : Isolation
        Which records are visible.
    start_offset, end_offset : int
        Where these begin, and end (exclusive).
    damage : str or None
        What is behind the end and is no whole batch.
    as_partition : str or None
        The name under which they are read, where the user gives one.
    topic_id : None
        No file has it.
    """

    files: tuple[str, ...]
    topic_partition: TopicPartition
    isolation: Isolation
    start_offset: int
    end_offset: int
    damage: str | None
    as_partition: str | None = None
    topic_id: None = None

    def fetch_offset_by_timestamp(self, timestamp: int) -> FileTimestampAndOffset:
        """Find the first record at or after *timestamp*, in ms; offset -1 = there is none."""
        if timestamp == SpecialTimestamp.EARLIEST:
            return FileTimestampAndOffset(-1, self.start_offset, None)
        if timestamp == SpecialTimestamp.LATEST:
            return FileTimestampAndOffset(-1, self.end_offset, None)
        if timestamp < 0:
            raise ConnectorOptionError(
                f"files alone are not asked for the special timestamp {timestamp}",
                found=str(timestamp),
                expected="milliseconds since 1970, or -1 latest, -2 earliest",
            )
        found = self.first_offset_at(timestamp)
        return FileTimestampAndOffset(timestamp, -1 if found is None else found, None)

    def first_offset_at(self, timestamp: int) -> int | None:
        """Return the offset of the first record at or after *timestamp*, in ms."""
        with open_segment(self.files, as_=self.as_partition) as segment:
            return segment.offset_for_timestamp(timestamp)

    def cuts(self, start_offset: int, end_offset: int, max_bytes: int) -> list[int]:
        """Return where batches begin that cut a range into parts of at most *max_bytes* bytes."""
        with open_segment(self.files, as_=self.as_partition) as segment:
            return segment.scan(start_offset, end_offset, columns=("offset",)).cuts(max_bytes)
