"""Where the data that one call of a reader sees ends, and what it leaves out before that [RD-1]."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import AbortedTransactions
    from segstore.log.transaction_walk import Damage
    from segstore.types import LogOffsetMetadata


class VisibleRange(NamedTuple):
    """What an isolation means at one moment.

    Attributes
    ----------
    bound : LogOffsetMetadata
        Where visible data ends, with its place.
    aborted_between : callable or None
        Gives the aborted transactions that reach to a first offset, or lie behind it, and begin
        below a second one; None when they are not left out.
    damage : Damage or None
        Why nothing is known behind the bound.
    """

    bound: LogOffsetMetadata
    aborted_between: Callable[[int, int], AbortedTransactions] | None = None
    damage: Damage | None = None

    def left_out(self, offset: int, upper_bound_offset: int) -> AbortedTransactions | None:
        """Return what is left out of the data in that range; None = nothing ever is."""
        between = self.aborted_between
        return None if between is None else between(offset, upper_bound_offset)
