"""A range of offsets of one partition: what a task reads, or a file of an export holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from segstore.types import TopicPartition

if TYPE_CHECKING:
    import uuid


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets ``[from_offset, until_offset)`` of one partition; compaction leaves gaps in them.

    ``topic_id`` is that of the directory when the range was planned: a task that finds another one
    has another topic before it. None = the directory had none, and a task does not compare.
    """

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    topic_id: uuid.UUID | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose offsets they are."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Number of offsets."""
        return self.until_offset - self.from_offset
