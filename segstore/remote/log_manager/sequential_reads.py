"""What was read last of remote segments: a reader that goes on gets slices of it.

A consumer reads a partition from front to back. What it asks for next is fetched together with what
it asks for now: one request, one check of its headers, several reads.

THREADS  any number.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from uuid import UUID

    from segstore._core import BatchTable, ScanResult

MOST_BYTES: Final = 4 * 1024 * 1024
"""Of one piece that is kept."""
_MOST_PIECES: Final = 8
_READS: Final = 8
"""Of a reader that reads on: so many reads like this one are fetched by one request."""


class Place(NamedTuple):
    """Where an offset is in a piece."""

    row: int | None
    """Of its batch; None: that one begins where the whole ones end."""
    begin: int
    """Where the batch begins in the data."""
    is_next: bool
    """Whether who got the last bytes needs those of this batch next."""


class Piece:
    """Part of a segment that begins with a whole batch.

    Parameters
    ----------
    name : str
        Of the object.
    data : memoryview
        The bytes.
    position : int
        Of the first one in the segment.
    table, result
        What `scan_headers` says of them; there is at least one batch.

    Attributes
    ----------
    end : int
        Where the bytes end that may be given to somebody: behind the last whole batch, or, where
        the next one is not damaged, behind the part of it that is here.
    given_end : int
        Up to where somebody has got them.
    """

    __slots__ = (
        "_last_offsets",
        "_whole_end",
        "data",
        "end",
        "given_end",
        "name",
        "position",
        "table",
    )

    def __init__(
        self, name: str, data: memoryview, position: int, table: BatchTable, result: ScanResult
    ) -> None:
        self.name = name
        self.data = data
        self.position = position
        self.table = table
        self.end = len(data) if result.why is None else result.valid_bytes
        self.given_end = 0
        self._whole_end = result.valid_bytes
        self._last_offsets = table.array["last_offset"]

    def first_row(self, offset: int) -> int | None:
        """Return the row of the first batch that ends at *offset* or behind it."""
        table = self.table
        if table.first_last_offset >= offset:
            return 0
        if table.last_offset < offset:
            return None
        return bisect_left(self._last_offsets, offset, lo=1)

    def place_of(self, offset: int) -> Place | None:
        """Return where an offset is, or comes next; None: that is not known from this piece."""
        table = self.table
        if not table.base_offset <= offset <= table.last_offset + 1:
            return None
        row = self.first_row(offset)
        if row is None:
            return Place(None, self._whole_end, self.given_end >= self._whole_end)
        batch = table[row]
        begin = batch.position
        return Place(row, begin, begin <= self.given_end < begin + batch.size_bytes)


class ReadAhead:
    """Keeps the last piece of each of the segments that were read last, 32 MiB in all.

    They are known by their ids: what is finished under an id does not change.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._pieces: OrderedDict[UUID, Piece] = OrderedDict()
        """The one used longest ago first."""

    def get(self, segment_id: UUID) -> Piece | None:
        """Return what was read last of a segment."""
        with self._lock:
            piece = self._pieces.get(segment_id)
            if piece is not None:
                self._pieces.move_to_end(segment_id)
            return piece

    def keep(self, segment_id: UUID, piece: Piece) -> None:
        """Keep a piece in the place of that before; one that is too large is not kept."""
        with self._lock:
            self._pieces.pop(segment_id, None)
            if piece.data.nbytes <= MOST_BYTES:
                self._pieces[segment_id] = piece
            while len(self._pieces) > _MOST_PIECES:
                self._pieces.popitem(last=False)


def ahead_bytes(max_bytes: int) -> int:
    """Return how many bytes to ask for when reads of *max_bytes* follow each other."""
    return max(max_bytes, min(_READS * max_bytes, MOST_BYTES))
