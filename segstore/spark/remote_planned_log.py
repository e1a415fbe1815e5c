"""What planning asks of a log at a URL: answered by its ends and by a listing of its segments."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import uuid

    from segstore.remote.remote_logs import RemoteBounds, RemoteLogs
    from segstore.types import FileTimestampAndOffset, Isolation, TopicPartition


class RemotePlannedLog(NamedTuple):
    """A log whose ends were looked at, and nothing else yet.

    Attributes
    ----------
    logs : RemoteLogs
        Where more is asked.
    topic_partition : TopicPartition
        Whose log it is.
    isolation : Isolation
        Which records are visible.
    bounds : RemoteBounds
        Where they begin and end, and the segments.
    """

    logs: RemoteLogs
    topic_partition: TopicPartition
    isolation: Isolation
    bounds: RemoteBounds

    @property
    def topic_id(self) -> uuid.UUID | None:
        """The id in ``partition.metadata``, None without one."""
        return self.bounds.topic_id

    @property
    def start_offset(self) -> int:
        """Offset of the first record that was not deleted."""
        return self.bounds.start_offset

    @property
    def end_offset(self) -> int:
        """Offset behind the last record that may be seen."""
        return self.bounds.end_offset

    @property
    def damage(self) -> str | None:
        """Why the log is known to lack records, None = it is not."""
        return self.bounds.damage

    def fetch_offset_by_timestamp(self, timestamp: int) -> FileTimestampAndOffset:
        """Find the first record at or after *timestamp*, in ms; the whole log is fetched for it.

        An answer compares time indexes with batches, and any segment may hold it.
        """
        with self.logs.open_whole(self.topic_partition) as log:
            return log.fetch_offset_by_timestamp(timestamp, self.isolation)

    def first_offset_at(self, timestamp: int) -> int | None:  # noqa: ARG002 - nothing is fetched
        """Return the log start: what is skipped for its timestamp is skipped by the tasks."""
        return self.bounds.start_offset

    def cuts(self, start_offset: int, end_offset: int, max_bytes: int) -> list[int]:
        """Return where to cut a range so that parts need about *max_bytes* bytes at most.

        Between segments; one that is larger is cut by its offsets, since nothing else is known.
        """
        cuts: list[int] = []
        held = 0
        ends = (max(self.bounds.end_offset, end_offset), 0)
        for (base_offset, size_bytes), (following, _) in pairwise([*self.bounds.segments, ends]):
            low, high = max(base_offset, start_offset), min(following, end_offset)
            if low >= high:
                continue
            share = size_bytes * (high - low) // (following - base_offset)
            if held and held + share > max_bytes:
                cuts.append(low)
                held = 0
            parts = min(high - low, -(-share // max_bytes)) or 1
            cuts += [low + (high - low) * number // parts for number in range(1, parts)]
            held = share // parts if parts > 1 else held + share
        return [cut for cut in dict.fromkeys(cuts) if start_offset < cut < end_offset]
