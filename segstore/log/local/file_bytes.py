"""A file of batches under any name, gone through as a segment is: without its indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from segstore._core import ScanResult, scan_batches
from segstore.errors import LogTruncatedError, ReadIOError
from segstore.number_limits import MAX_LONG

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from segstore._core import BatchHeaders

_PIECE_BYTES: Final = 4 * 1024 * 1024
_LENGTH_END: Final = 12


class FileSource(Protocol):
    """What files lie in: a `Directory`, or an archive."""

    @property
    def path(self) -> str:
        """Path of the directory or archive, for messages."""
        ...

    def read_range(self, name: str, position: int, size: int) -> bytes:
        """Return up to *size* bytes of a file from *position* on; fewer only at its end."""
        ...

    def read_file(self, name: str, max_bytes: int) -> bytes:
        """Return a small file whole; LogNotFoundError when it is not there."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class FileBytes:
    """The bytes of one file; nothing of them is kept, and nothing is written.

    Parameters
    ----------
    directory : FileSource
        That the file is in.
    name : str
        Of the file.
    size_bytes : int
        So much of it counts.
    base_offset : int or None
        No batch has a lower offset; None where nothing says so.
    next_base_offset : int
        Where the next file begins; 2^63-1 = there is none.
    check_crcs : bool
        False: a batch counts as whole whose length leads to the next one; behind damage the CRC
        says all the same where one begins.
    batch_before : callable or None
        Returns position and base offset of a whole batch that begins at or before an offset, where
        an index beside the file shows one; None where none does.
    """

    __slots__ = (
        "_batch_before",
        "_check_crcs",
        "_directory",
        "base_offset",
        "name",
        "next_base_offset",
        "size_bytes",
    )

    def __init__(  # noqa: PLR0913 - a file, and which offsets it may hold
        self,
        directory: FileSource,
        name: str,
        size_bytes: int,
        base_offset: int | None = None,
        next_base_offset: int = MAX_LONG,
        *,
        check_crcs: bool = True,
        batch_before: Callable[[int], tuple[int, int] | None] | None = None,
    ) -> None:
        self._directory = directory
        self._batch_before = batch_before
        self._check_crcs = check_crcs
        self.name = name
        self.size_bytes = size_bytes
        self.base_offset = base_offset
        self.next_base_offset = next_base_offset

    @property
    def path(self) -> str:
        """Path of the file, for messages."""
        return f"{self._directory.path}/{self.name}"

    def read(self, position: int, size: int) -> bytes:
        """Return *size* bytes from *position* on.

        Raises
        ------
        LogTruncatedError
            The file has become shorter.
        """
        data = self._directory.read_range(self.name, position, size)
        if len(data) < size:
            raise LogTruncatedError(
                "the file became shorter while it was read",
                file=self.path,
                position=position,
                found=f"{len(data)} bytes",
                expected=f"{size} bytes",
            )
        return data

    def read_range(self, _name: str, position: int, size: int) -> bytes:
        """Do as `Directory.read_range` does, for the search."""
        return self._directory.read_range(self.name, position, size)

    def read_into(self, buffer: Buffer, position: int) -> None:
        """Fill *buffer* from *position* on, as a segment does."""
        view = memoryview(buffer)
        view[:] = self.read(position, view.nbytes)

    def is_zero(self, position: int, size: int) -> bool:
        """Whether there is nothing but zeros, as in room that was allocated ahead."""
        while size > 0:
            piece = self.read(position, min(size, _PIECE_BYTES))
            if piece.strip(b"\0"):
                return False
            position, size = position + len(piece), size - len(piece)
        return True

    def scan(
        self, *, start_position: int, end_position: int, max_batches: int
    ) -> tuple[BatchHeaders, ScanResult]:
        """Scan a piece, as `Segment.scan` does; it has one whole batch at least, if there is."""
        headers, result = self._scan(
            start_position, end_position, max_batches, check_crc=self._check_crcs
        )
        headers["position"] += start_position
        return headers, result

    def scan_result(
        self, *, start_position: int, end_position: int, max_batches: int
    ) -> ScanResult:
        """Scan a piece, as `Segment.scan_result` does; the CRCs are compared."""
        return self._scan(start_position, end_position, max_batches, check_crc=True)[1]

    def _scan(
        self, start_position: int, end_position: int, max_batches: int, *, check_crc: bool
    ) -> tuple[BatchHeaders, ScanResult]:
        left = end_position - start_position
        data = self.read(start_position, min(_PIECE_BYTES, left))
        first_bytes = _LENGTH_END + int.from_bytes(data[8:_LENGTH_END])
        if _PIECE_BYTES < first_bytes <= left:
            data = self.read(start_position, first_bytes)
        headers, result = scan_batches(data, check_crc=check_crc, max_batches=max_batches)
        stop = result.stop
        if len(data) < left and len(headers) and stop in {"complete", "incomplete"}:
            stop = "limit"
        return headers, result._replace(stop=stop, valid_bytes=start_position + result.valid_bytes)

    def place_before(self, offset: int) -> tuple[int, int]:
        """Return where to begin to look for *offset*: a position, and the least offset there is.

        The beginning of the file, unless an index beside it shows a batch.
        """
        found = None if self._batch_before is None else self._batch_before(offset)
        return found or (0, self.base_offset or 0)

    def first_header(self) -> BatchHeaders | None:
        """Return the header of the first batch; None if it is not whole, or cannot be read."""
        return self.header_at(0)

    def header_at(self, position: int) -> BatchHeaders | None:
        """Return the header of the batch at *position*; None if none is whole there, or readable.

        No byte after the batch is read: the disk may not be able to [DUR-33].
        """
        try:
            prefix = self.read(position, min(_LENGTH_END, self.size_bytes - position))
            length = int.from_bytes(prefix[8:])
            end = min(position + _LENGTH_END + length, self.size_bytes)
            headers, _ = self.scan(start_position=position, end_position=end, max_batches=1)
        except ReadIOError:
            return None
        return headers if len(headers) else None
