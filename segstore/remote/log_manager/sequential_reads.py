"""What was read last of remote segments: a reader that goes on gets slices of it.

A consumer reads a partition from front to back. What it asks for next is fetched together with what
it asks for now: one request, one check of its headers, several reads.

THREADS  any number.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from uuid import UUID

    from segstore._core import BatchTable, ScanResult
    from segstore.log.local.batch_lineage import Lineage

MOST_BYTES: Final = 4 * 1024 * 1024
"""Of one piece that is kept."""
_MOST_PIECES: Final = 8
_READS: Final = 16
"""Of a reader that reads on: so many reads like this one are fetched by one request."""


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
    segment_bytes : int
        Of the whole segment.

    Attributes
    ----------
    end : int
        Where the bytes end that may be given to somebody: behind the last whole batch, or, where
        the next one is not damaged, behind the part of it that is here.
    given_end : int
        Up to where somebody has got them.
    is_last : bool
        The segment has nothing behind *end*.
    """

    __slots__ = (
        "_known_history",
        "_whole_end",
        "data",
        "end",
        "given_end",
        "is_last",
        "name",
        "position",
        "table",
    )

    def __init__(  # noqa: PLR0913 - bytes, and what is known of them
        self,
        name: str,
        data: memoryview,
        position: int,
        table: BatchTable,
        result: ScanResult,
        segment_bytes: int,
    ) -> None:
        self.name = name
        self.data = data
        self.position = position
        self.table = table
        self.end = len(data) if result.why is None else result.valid_bytes
        self.given_end = 0
        self.is_last = position + self.end == segment_bytes
        self._whole_end = result.valid_bytes
        self._known_history: tuple[Lineage | None, bool] = (None, False)

    def knows(self, offset: int) -> bool:
        """Whether *offset* is in the piece, or right behind its whole batches."""
        table = self.table
        return table.base_offset <= offset <= table.last_offset + 1

    def needed_next(self, row: int) -> int | None:
        """Return where a batch begins that who got the last bytes needs next; None: not this one.

        Parameters
        ----------
        row : int
            Of the batch; the length of the table for that which begins where the whole ones end.
        """
        table = self.table
        if row == len(table):
            return self._whole_end if self.given_end >= self._whole_end else None
        begin, size_bytes, _ = table.place(row)
        return begin if begin <= self.given_end < begin + size_bytes else None

    def is_of(self, lineage: Lineage) -> bool:
        """Whether all batches are of that history; asked once of each."""
        known, is_of_it = self._known_history
        if known is not lineage:
            is_of_it = lineage.has_all(self.table)
            self._known_history = lineage, is_of_it
        return is_of_it


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

    def forget(self, segment_id: UUID) -> None:
        """Keep a piece no longer that its reader has passed: the next one gets its memory."""
        with self._lock:
            self._pieces.pop(segment_id, None)

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
