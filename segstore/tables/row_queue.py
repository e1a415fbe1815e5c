"""Rows of a stream of Arrow batches, taken as many at a time as are wanted."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

RECORD_FIELDS: Final = (
    "offset",
    "timestamp",
    "timestampType",
    "leaderEpoch",
    "key",
    "value",
    "headers",
)
"""What a record is, wherever it lies: topic and partition may have other names."""


class RowQueue:
    """The rows of *batches*, with the columns of an export; none of the batches is empty."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._at_hand: deque[pa.RecordBatch] = deque()
        self._rows = self._bytes = 0

    @property
    def first_offset(self) -> int | None:
        """Offset of the next row; None after the last one."""
        return int(self._at_hand[0].column("offset")[0].as_py()) if self.fill() else None

    def fill(self, wanted: int = 1, max_bytes: int | None = None) -> int:
        """Read until *wanted* rows are at hand, or the stream ends; return how many are.

        Parameters
        ----------
        max_bytes : int or None
            So many bytes at hand are enough too; the last batch may exceed them.
        """
        while self._rows < wanted and (max_bytes is None or self._bytes < max_bytes):
            batch = next(self._batches, None)
            if batch is None:
                break
            self._at_hand.append(batch)
            self._rows += batch.num_rows
            self._bytes += batch.nbytes
        return self._rows

    def take(self, count: int) -> pa.RecordBatch:
        """Return the next *count* rows, at least one, which are at hand, with `RECORD_FIELDS`."""
        import pyarrow as pa

        pieces = []
        self._rows -= count
        while count:
            first = self._at_hand.popleft()
            self._bytes -= first.nbytes
            if first.num_rows > count:
                rest = first.slice(count)
                self._bytes += rest.nbytes
                self._at_hand.appendleft(rest)
                first = first.slice(0, count)
            pieces.append(first.select(RECORD_FIELDS))
            count -= first.num_rows
        if len(pieces) == 1:
            return pieces[0]
        return pa.Table.from_batches(pieces).combine_chunks().to_batches()[0]
