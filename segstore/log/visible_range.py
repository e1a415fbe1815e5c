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
    aborted_from : callable or None
        Gives the aborted transactions that reach to an offset, or lie behind it, below the bound;
        None when they are not left out.
    damage : Damage or None
        Why nothing is known behind the bound.
    """

    bound: LogOffsetMetadata
    aborted_from: Callable[[int], AbortedTransactions] | None = None
    damage: Damage | None = None

    def aborted_at(self, offset: int) -> AbortedTransactions | None:
        """Return what is left out of the data from *offset* on; None = nothing ever is."""
        return None if self.aborted_from is None else self.aborted_from(offset)
