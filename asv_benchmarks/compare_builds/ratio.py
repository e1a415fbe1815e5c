"""The median of ratios that were measured in pairs, and where it lies with 95 % confidence."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE: Final = 0.95


class Interval(NamedTuple):
    """The median of a sample, and an interval that holds the median of what it was drawn from."""

    median: float
    lower: float
    upper: float

    def reaches(self, limit: float) -> bool:
        """Whether what was measured does not contradict a median of *limit* or less."""
        return self.lower <= limit


def median_interval(values: Sequence[float]) -> Interval:
    """Return the interval between two of the values, whatever distribution they come from.

    Each value is below the true median or above it, by the toss of a coin: a neighbour that was
    busy in some of the rounds makes them extreme, and moves nothing.

    Raises
    ------
    ValueError
        Fewer than six values: all of them lie on one side too often.
    """
    rank = _rank_of_lower_end(len(values))
    if rank == 0:
        raise ValueError(f"{len(values)} values are too few for {CONFIDENCE:.0%} confidence")
    ordered = sorted(values)
    return Interval(statistics.median(ordered), ordered[rank - 1], ordered[-rank])


def _rank_of_lower_end(count: int) -> int:
    """Return the largest r so that fewer than r of *count* are below the median by 2.5 % chance.

    0 when there is none.
    """
    below = 0.0
    for rank in range(count):
        below += math.comb(count, rank) / 2**count
        if 2 * below > 1 - CONFIDENCE:
            return rank
    return 0
