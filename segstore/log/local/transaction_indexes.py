"""The transaction indexes of one log: lines for aborted transactions, their sync, and the search.

Source: [TXX-*, LOC-9]; Kafka ``LocalLog.collectAbortedTransactions`` and
``LogSegment.updateTxnIndex``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from segstore.errors import LogNotFoundError, SegstoreError
from segstore.log.local.transaction_index import (
    AbortedTransaction,
    TransactionIndex,
    truncate_transaction_index,
)

if TYPE_CHECKING:
    from segstore._core import Directory
    from segstore.log.local.segments import Segments


class TransactionIndexes:
    """The transaction indexes of one log; changes are made under its append lock.

    Parameters
    ----------
    directory : Directory
        The partition's.

    Attributes
    ----------
    unsynced : dict
        By base offset, how many lines were written to the index of a segment since its last sync.
    """

    __slots__ = ("_directory", "unsynced")

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.unsynced: dict[int, int] = {}

    # ---- change ----------------------------------------------------------------------------------

    def reserve(self, base_offset: int) -> None:
        """Take the space of one line in the index of that segment.

        Raises
        ------
        DiskFullError
            There is none. What is there stays as it was.
        """
        TransactionIndex(self._directory, base_offset).reserve()

    def give_back(self, base_offset: int) -> None:
        """Undo `reserve`, where that is possible: no reader sees what stays."""
        with suppress(SegstoreError):
            TransactionIndex(self._directory, base_offset).give_back()

    def append(self, base_offset: int, aborted: AbortedTransaction) -> None:
        """Add a line to the index of that segment [SEG-12]."""
        TransactionIndex(self._directory, base_offset).append(aborted)
        unsynced = self.unsynced
        unsynced[base_offset] = unsynced.get(base_offset, 0) + 1

    def sync(self, base_offset: int) -> None:
        """Bring what `append` wrote to stable storage, with the segment's records."""
        unsynced = self.unsynced
        lines = unsynced.get(base_offset)
        if lines is not None:
            TransactionIndex(self._directory, base_offset).flush()
            if unsynced.get(base_offset) == lines:  # else another one came meanwhile
                unsynced.pop(base_offset, None)

    def truncate(self, base_offset: int, offset: int) -> None:
        """Drop the lines of that segment whose marker is at or above *offset*, durably."""
        truncate_transaction_index(self._directory, base_offset, offset)

    # ---- read ------------------------------------------------------------------------------------

    def collect(
        self,
        segments: Segments,
        log_start_offset: int,
        base_offset: int,
        upper_bound_offset: int,
        *,
        in_order: bool,
    ) -> list[AbortedTransaction]:
        """Return the lines in the indexes of *segments*; the rest as `LocalLog` says it."""
        first = segments.floor_segment(base_offset)
        if first is None:
            return []
        aborted: list[AbortedTransaction] = []
        for segment in (first, *segments.higher_segments(first.base_offset)):
            index = TransactionIndex(self._directory, segment.base_offset)
            try:
                found = index.collect_aborted_transactions(
                    log_start_offset, upper_bound_offset, check=True, in_order=in_order
                )
            except LogNotFoundError:
                continue  # deleted since it was opened
            aborted += found.aborted
            if found.is_complete:
                break
        return aborted
