"""Which segments give which records of a partition: one lineage of leader epochs [SEL, DUR-141].

Segments of several leaders overlap in normal operation, and after an unclean election some hold
records of a lost branch. A range of a segment counts only where its own leader epoch is that of the
newest leader's lineage [SEL-4, SEL-5].
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from segstore.errors import IllegalArgumentError
from segstore.types import EpochEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Candidate(Protocol):
    """What the choice asks of a segment; `TieredSegment` has it.

    Attributes
    ----------
    start_offset, end_offset : int
        Both inclusive.
    leader_epochs : tuple of EpochEntry
        Each epoch with its first offset in the segment, ascending.
    """

    @property
    def start_offset(self) -> int:
        """The first offset."""
        ...

    @property
    def end_offset(self) -> int:
        """The last offset."""
        ...

    @property
    def leader_epochs(self) -> tuple[EpochEntry, ...]:
        """Each epoch with its first offset in the segment."""
        ...


_CandidateT = TypeVar("_CandidateT", bound=Candidate)


class PlannedRange(NamedTuple, Generic[_CandidateT]):
    """Records ``[from_offset, to_offset]`` of one epoch, from one segment."""

    segment: _CandidateT
    from_offset: int
    to_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class PartitionPlan(Generic[_CandidateT]):
    """The records of a partition that a bucket holds.

    Attributes
    ----------
    ranges : tuple of PlannedRange
        Ascending, none overlaps another.
    gaps : tuple of (int, int)
        Offsets ``[from, to]`` between two ranges that no segment holds [SEL-8], or before the first
        range where segments hold other records than the lineage's.
    start_offset : int
        The first offset of the plan, which `ranges` hold [SEL-9].
    end_offset : int
        Behind the last one: exclusive [SEL-10].
    """

    ranges: tuple[PlannedRange[_CandidateT], ...]
    gaps: tuple[tuple[int, int], ...]
    start_offset: int
    end_offset: int


def newest_segment(candidates: Sequence[_CandidateT]) -> _CandidateT:
    """Return the candidate whose leader epoch index is the newest leader's view [SEL-3]."""
    return max(candidates, key=lambda one: (one.leader_epochs[-1].epoch, one.end_offset))


def plan_partition(
    candidates: Sequence[_CandidateT],
    lineage: Sequence[EpochEntry],
    start_offset: int | None = None,
    end_offset: int | None = None,
) -> PartitionPlan[_CandidateT]:
    """Choose the segments of a partition [SEL-5 to SEL-10].

    Parameters
    ----------
    candidates : sequence
        Complete segments of one topic id, at least one.
    lineage : sequence of EpochEntry
        Of `newest_segment`, at least one entry, or extended downwards.
    start_offset : int or None
        Where to begin. None: the first start of *lineage*, the log start at the time of the newest
        copy.
    end_offset : int or None
        The last offset that is wanted. None: that of `newest_segment`.

    Raises
    ------
    IllegalArgumentError
        No candidate, or no lineage.
    """
    if not candidates or not lineage:
        raise IllegalArgumentError(
            "there is nothing to plan with",
            found=f"{len(candidates)} segments, {len(lineage)} leader epochs",
            expected="at least one of each",
        )
    end = newest_segment(candidates).end_offset if end_offset is None else end_offset
    begin = lineage[0].start_offset if start_offset is None else start_offset
    served = sorted(
        (
            one
            for candidate in candidates
            for one in _served(candidate, lineage)
            if one.to_offset >= begin and one.from_offset <= end
        ),
        key=lambda one: one.from_offset,
    )
    ranges: list[PlannedRange[_CandidateT]] = []
    gaps: list[tuple[int, int]] = []
    reaching: list[tuple[int, int]] = []
    at, taken = begin, 0
    while at <= end:
        while taken < len(served) and served[taken].from_offset <= at:
            heappush(reaching, (-served[taken].to_offset, taken))
            taken += 1
        while reaching and -reaching[0][0] < at:
            heappop(reaching)
        if reaching:
            best = served[reaching[0][1]]
            to = min(best.to_offset, end)
            ranges.append(best._replace(from_offset=at, to_offset=to))
            at = to + 1
            continue
        following = served[taken].from_offset if taken < len(served) else end + 1
        if ranges:  # below the first range is what retention has deleted
            gaps.append((at, following - 1))
        at = following
    first = ranges[0].from_offset if ranges else end + 1
    low = max(begin, lineage[0].start_offset)
    # Retention deletes a lost branch no later than what it branched from: so these are missing.
    other = [
        max(low, one.leader_epochs[0].start_offset) for one in candidates if one.end_offset >= low
    ]
    if (lowest := min(other, default=first)) < first:
        gaps.insert(0, (lowest, first - 1))
    return PartitionPlan(tuple(ranges), tuple(gaps), first, end + 1)


def extended_lineage(
    lineage: Sequence[EpochEntry], others: Iterable[Sequence[EpochEntry]]
) -> tuple[EpochEntry, ...]:
    """Extend *lineage* below the log start by the lineages of other segments [SEL-9].

    Raising the log start drops entries and moves the first one that is left. Another segment's
    index, which was copied before, has that epoch with a smaller start.
    """
    extended, left = tuple(lineage), list(others)
    while extended:
        epoch, start = extended[0]
        found = [
            tuple(other[: place + 1])
            for other in left
            for place, own in enumerate(other)
            if own.epoch == epoch and own.start_offset <= start and other[0].start_offset < start
        ]
        if not found:
            break
        extended = (*min(found, key=lambda one: one[0].start_offset), *extended[1:])
    return extended


def _served(
    candidate: _CandidateT, lineage: Sequence[EpochEntry]
) -> Iterator[PlannedRange[_CandidateT]]:
    """Yield the ranges of a segment whose epoch is the lineage's there [SEL-4, SEL-5]."""
    behind = EpochEntry(-1, candidate.end_offset + 1)
    own = {
        entry.epoch: (entry.start_offset, following.start_offset - 1)
        for entry, following in pairwise((*candidate.leader_epochs, behind))
    }
    for entry, following in pairwise((*lineage, EpochEntry(-1, candidate.end_offset + 1))):
        if entry.epoch not in own:
            continue
        start, end = own[entry.epoch]
        low = max(start, entry.start_offset)
        high = min(end, following.start_offset - 1)
        if low <= high:
            yield PlannedRange(candidate, low, high, entry.epoch)
