"""Where the data that one call of a reader sees ends, and what it leaves out before that [RD-1].

An answer: `LogReader` chooses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from segstore._core import AbortedTransactions

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.log.local.batch_transactions import Damage
    from segstore.log.local.local_log import LocalLog
    from segstore.types import LogOffsetMetadata

NOTHING_ABORTED = AbortedTransactions(())


class VisibleRange(NamedTuple):
    """What an isolation means at one moment.

    Attributes
    ----------
    bound : LogOffsetMetadata
        Where visible data ends, with its place.
    aborted_from : callable or None
        Gives the aborted transactions that reach to the first of two offsets, or lie behind it, and
        begin below the second; it may give more. None when they are not left out.
    damage : Damage or None
        Why nothing is known behind the bound.
    """

    bound: LogOffsetMetadata
    aborted_from: Callable[[int, int], AbortedTransactions] | None = None
    damage: Damage | None = None

    def aborted_at(self, offset: int) -> AbortedTransactions | None:
        """Return what is left out of the data from *offset* on; None = nothing ever is."""
        if self.aborted_from is None:
            return None
        return self.aborted_from(offset, self.bound.message_offset)

    def aborted_of_fetch(
        self,
        local_log: LocalLog,
        offset: int,
        metadata: LogOffsetMetadata,
        size_bytes: int | None,
    ) -> tuple[AbortedTransactions | None, int]:
        """Return what is left out of the bytes of one fetch, and an offset behind them [LOC-9].

        The offset is that of the next index entry: the list may name transactions that begin above
        the last stable offset, as Kafka's does.

        Parameters
        ----------
        metadata, size_bytes : LogOffsetMetadata, int or None
            What the fetch gave; None = nothing is visible there, and at the bound or behind it
            there is an empty list [LOC-6].
        """
        if self.aborted_from is None:
            return None, 0
        if size_bytes is None:
            return (None if offset < self.bound.message_offset else NOTHING_ABORTED), 0
        upper_bound_offset = local_log.upper_bound_of_fetch(metadata, size_bytes)
        return self.aborted_from(offset, upper_bound_offset), upper_bound_offset
