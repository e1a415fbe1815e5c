"""Transactions as the log sees them (Kafka ``TxnMetadata``, ``CompletedTxn``), ordered by offset.

Source: [PSM-40..PSM-44].
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore.types import LogOffsetMetadata


class TxnMetadata(NamedTuple):
    """A transaction that has data in the log."""

    producer_id: int
    first_offset: LogOffsetMetadata
    """Of its first batch; the place in the file is known when it was appended by this handle."""
    last_offset: int | None = None
    """Of its marker, None while it is open."""


class CompletedTxn(NamedTuple):
    """A transaction that a marker has just ended; one without data is none [PSM-19]."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Of the marker."""
    is_aborted: bool


class TransactionsByOffset:
    """Transactions in the order of their first offsets; one thread at a time.

    They begin in that order, so that an insertion is an append to a list nearly always.
    """

    __slots__ = ("_by_offset", "_first_offsets")

    def __init__(self) -> None:
        self._first_offsets: list[int] = []
        self._by_offset: dict[int, TxnMetadata] = {}

    def put(self, transaction: TxnMetadata) -> None:
        """Add *transaction*; it replaces one that begins at the same offset."""
        first_offset = transaction.first_offset.message_offset
        if first_offset not in self._by_offset:
            insort(self._first_offsets, first_offset)
        self._by_offset[first_offset] = transaction

    def pop(self, first_offset: int) -> TxnMetadata | None:
        """Take out what begins at *first_offset*, None when nothing does."""
        transaction = self._by_offset.pop(first_offset, None)
        if transaction is not None:
            del self._first_offsets[bisect_left(self._first_offsets, first_offset)]
        return transaction

    def drop_ended_before(self, offset: int) -> None:
        """Drop what has its marker below *offset* [PSM-41]."""
        ended = [
            first_offset
            for first_offset, transaction in self._by_offset.items()
            if transaction.last_offset is not None and transaction.last_offset < offset
        ]
        for first_offset in ended:
            self.pop(first_offset)

    def clear(self) -> None:
        """Drop everything."""
        self._first_offsets.clear()
        self._by_offset.clear()

    @property
    def first(self) -> TxnMetadata | None:
        """The one that begins lowest."""
        return self._by_offset[self._first_offsets[0]] if self._first_offsets else None

    def __iter__(self) -> Iterator[TxnMetadata]:
        return (self._by_offset[first_offset] for first_offset in self._first_offsets)

    def __len__(self) -> int:
        return len(self._by_offset)
