"""Which segments of one leader epoch are in remote storage [TIER-26…TIER-28]."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from segstore.number_limits import MAX_LONG, MIN_LONG

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

    __slots__ = (
        "_ends",
        "_ids",
        "_passed",
        "_starts",
        "_stops",
        "highest_offset",
        "unreferenced",
    )

    def __init__(self) -> None:
        self._starts: list[int] = []  # ascending
        self._ids: list[UUID] = []  # at the same places, as the next two
        self._ends: list[int] = []
        self._passed: list[bool] = []
        self._stops: list[int] = []  # the starts at which `next_stop` stops, ascending
        self.unreferenced: set[UUID] = set()
        self.highest_offset: int | None = None

    @property
    def offsets(self) -> list[tuple[int, UUID]]:
        """First offsets of finished segments in this epoch, ascending, each with the segment."""
        return list(zip(self._starts, self._ids, strict=True))

    def copy_started(self, segment_id: UUID) -> None:
        """Take a segment whose copy begins."""
        self.unreferenced.add(segment_id)

    def copy_finished(
        self, segment_id: UUID, start_offset: int, end_offset: int, *, may_be_passed: bool = False
    ) -> None:
        """Take a segment that has the offsets from *start_offset* to *end_offset* in this epoch.

        A search for aborted transactions goes on behind it in this epoch where it *may be passed*.

        Segments that begin from there on are covered by it, as after a change of the leader, unless
        a higher offset was finished before [TIER-26].
        """
        if self.highest_offset is None or self.highest_offset <= end_offset:
            covered = bisect_left(self._starts, start_offset)
            self.unreferenced.update(self._ids[covered:])
            del self._starts[covered:], self._ids[covered:]
            del self._ends[covered:], self._passed[covered:]
            del self._stops[bisect_left(self._stops, start_offset) :]
            self.highest_offset = end_offset
        at = bisect_left(self._starts, start_offset)
        replaced = self._starts[at : at + 1] == [start_offset]
        self._starts[at : at + replaced] = [start_offset]
        self._ids[at : at + replaced] = [segment_id]
        self._ends[at : at + replaced] = [end_offset]
        self._passed[at : at + replaced] = [may_be_passed]
        self._note_stop(at - 1)
        self._note_stop(at)
        self.unreferenced.discard(segment_id)

    def delete_started(self, segment_id: UUID, start_offset: int) -> None:
        """Take a segment whose deletion begins; it stays listed, so that it is tried again."""
        at = bisect_left(self._starts, start_offset)
        if self._starts[at : at + 1] == [start_offset] and self._ids[at] == segment_id:
            del self._starts[at], self._ids[at], self._ends[at], self._passed[at]
            stop = bisect_left(self._stops, start_offset)
            if self._stops[stop : stop + 1] == [start_offset]:
                del self._stops[stop]
            self._note_stop(at - 1)
        self.unreferenced.add(segment_id)

    def delete_finished(self, segment_id: UUID) -> None:
        """Forget a segment that is deleted."""
        self.unreferenced.discard(segment_id)

    def floor(self, offset: int) -> UUID | None:
        """Return the finished segment that begins at *offset* or next before it [TIER-28]."""
        at = bisect_right(self._starts, offset)
        return self._ids[at - 1] if at else None

    def range_of_floor(self, offset: int) -> tuple[int, int]:
        """Return the first and last offset for which `floor` finds the same as for *offset*."""
        at = bisect_right(self._starts, offset)
        return (
            self._starts[at - 1] if at else MIN_LONG,
            self._starts[at] - 1 if at < len(self._starts) else MAX_LONG,
        )

    def next_stop(self, offset: int) -> UUID | None:
        """Return the segment that `floor` finds, or one behind it, without a gap between the two.

        All before the one that is returned may be passed.
        """
        at = bisect_right(self._starts, offset) - 1
        if at < 0:
            return None
        stop = self._stops[bisect_left(self._stops, self._starts[at])]
        return self._ids[bisect_left(self._starts, stop)]

    def _note_stop(self, at: int) -> None:
        """Note whether a search stops at that place, as it does at the last one."""
        if at < 0:
            return
        start, following = self._starts[at], self._ends[at] + 1
        is_stop = (
            not self._passed[at]
            or self._starts[at + 1 : at + 2] != [following]
            or self._ends[at + 1] < following
        )
        stop = bisect_left(self._stops, start)
        was_stop = self._stops[stop : stop + 1] == [start]
        self._stops[stop : stop + was_stop] = [start] * is_stop

    def listed(self) -> set[UUID]:
        """Return the segments in both sets [TIER-29]."""
        return self.unreferenced.union(self._ids)
