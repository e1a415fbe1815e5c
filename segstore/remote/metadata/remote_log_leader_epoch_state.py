"""Which segments of one leader epoch are in remote storage [TIER-26…TIER-28]."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID


class RemoteLogLeaderEpochState:
    """The finished segments of an epoch by offset, and those that are listed and not found.

    Attributes
    ----------
    unreferenced : set of UUID
        Segments whose copy is not finished, that are being deleted, or that a later copy covers.
    highest_offset : int or None
        The highest offset that was ever finished; deletions do not lower it [TIER-27].
    """

    __slots__ = ("_ids", "_starts", "highest_offset", "unreferenced")

    def __init__(self) -> None:
        self._starts: list[int] = []  # ascending
        self._ids: list[UUID] = []  # at the same places
        self.unreferenced: set[UUID] = set()
        self.highest_offset: int | None = None

    @property
    def offsets(self) -> list[tuple[int, UUID]]:
        """First offsets of finished segments in this epoch, ascending, each with the segment."""
        return list(zip(self._starts, self._ids, strict=True))

    def copy_started(self, segment_id: UUID) -> None:
        """Take a segment whose copy begins."""
        self.unreferenced.add(segment_id)

    def copy_finished(self, segment_id: UUID, start_offset: int, end_offset: int) -> None:
        """Take a segment that has the offsets from *start_offset* to *end_offset* in this epoch.

        Segments that begin from there on are covered by it, as after a change of the leader, unless
        a higher offset was finished before [TIER-26].
        """
        if self.highest_offset is None or self.highest_offset <= end_offset:
            covered = bisect_left(self._starts, start_offset)
            self.unreferenced.update(self._ids[covered:])
            del self._starts[covered:], self._ids[covered:]
            self.highest_offset = end_offset
        at = bisect_left(self._starts, start_offset)
        replaced = self._starts[at : at + 1] == [start_offset]
        self._starts[at : at + replaced] = [start_offset]
        self._ids[at : at + replaced] = [segment_id]
        self.unreferenced.discard(segment_id)

    def delete_started(self, segment_id: UUID, start_offset: int) -> None:
        """Take a segment whose deletion begins; it stays listed, so that it is tried again."""
        at = bisect_left(self._starts, start_offset)
        if self._starts[at : at + 1] == [start_offset] and self._ids[at] == segment_id:
            del self._starts[at], self._ids[at]
        self.unreferenced.add(segment_id)

    def delete_finished(self, segment_id: UUID) -> None:
        """Forget a segment that is deleted."""
        self.unreferenced.discard(segment_id)

    def floor(self, offset: int) -> UUID | None:
        """Return the finished segment that begins at *offset* or next before it [TIER-28]."""
        at = bisect_right(self._starts, offset)
        return self._ids[at - 1] if at else None

    def listed(self) -> set[UUID]:
        """Return the segments in both sets [TIER-29]."""
        return self.unreferenced.union(self._ids)
