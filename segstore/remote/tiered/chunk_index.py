"""Where the chunks of a tiered segment lie in its ``.log`` object [MAN-3 to MAN-6, CHK-1].

The plain segment is cut every ``original_chunk_size`` bytes. Each piece is transformed by itself,
so a plain range needs the stored bytes of its own chunks and no others [RDB-1].
"""

from __future__ import annotations

import struct
from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.errors import CorruptCheckpointError, CorruptLogError
from segstore.number_limits import MAX_INT
from segstore.remote.tiered.zstd_chunk import undo_zstd

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_CHUNK_SIZE: Final = 2**30 - 1
MAX_BLOCK_BYTES: Final = 10 * 1024 * 1024
"""Of the sizes of the chunks, decompressed [MAN-4]."""
MAX_SIZE_WIDTH: Final = 4
LEAST_FRAME_BYTES: Final = 9
"""Of one zstd frame: magic, descriptor, size or window, and the header of a block."""

_FIELD: Final = "chunkIndex"


class Chunk(NamedTuple):
    """One chunk: *plain_bytes* of the segment at *plain_position*, and where it is stored."""

    number: int
    plain_position: int
    plain_bytes: int
    stored_position: int
    stored_bytes: int


class ChunkIndex(NamedTuple):
    """The chunks of one segment.

    Attributes
    ----------
    original_chunk_size : int
        Plain bytes of each chunk but the last.
    original_file_size : int
        Plain bytes of the segment.
    stored_positions : sequence of int
        Where each chunk begins in the object: a ``range``, which takes no memory, where all have
        one size.
    stored_file_size : int
        Bytes of the whole ``.log`` object.
    """

    original_chunk_size: int
    original_file_size: int
    stored_positions: Sequence[int]
    stored_file_size: int

    @property
    def chunk_count(self) -> int:
        """How many chunks there are."""
        return len(self.stored_positions)

    def chunk(self, number: int) -> Chunk:
        """Return chunk *number*, ``0 <= number < chunk_count``."""
        plain = number * self.original_chunk_size
        stored = self.stored_positions[number]
        is_last = number + 1 == self.chunk_count
        end = self.stored_file_size if is_last else self.stored_positions[number + 1]
        plain_bytes = min(self.original_chunk_size, self.original_file_size - plain)
        return Chunk(number, plain, plain_bytes, stored, end - stored)

    def chunks(self, start: int, end: int) -> Iterator[Chunk]:
        """Yield the chunks that hold plain bytes of ``[start, end)`` [RDB-1].

        Neighbours are neighbours in the object. What lies outside of the segment has no chunk.
        """
        start, end = max(start, 0), min(end, self.original_file_size)
        if start < end:
            first = start // self.original_chunk_size
            last = (end - 1) // self.original_chunk_size
            yield from map(self.chunk, range(first, last + 1))

    def stored_range(self, start: int, end: int) -> tuple[int, int]:
        """Return ``[from, to)`` of the object that plain ``[start, end)`` needs; (0, 0) = none."""
        start, end = max(start, 0), min(end, self.original_file_size)
        if start >= end:
            return 0, 0
        last = self.chunk((end - 1) // self.original_chunk_size)
        first = self.stored_positions[start // self.original_chunk_size]
        return first, last.stored_position + last.stored_bytes


def fixed_chunk_index(
    original_chunk_size: int,
    original_file_size: int,
    transformed_chunk_size: int,
    final_transformed_chunk_size: int,
    *,
    overhead_bytes: int,
) -> ChunkIndex:
    """Return the index of chunks that are not compressed [MAN-3].

    Parameters
    ----------
    original_chunk_size, original_file_size : int
        Plain bytes.
    transformed_chunk_size, final_transformed_chunk_size : int
        Stored bytes of each chunk but the last, and of the last.
    overhead_bytes : int
        By how much a stored chunk is larger than a plain one: 28 with encryption, else 0 [ENC-3].

    Raises
    ------
    CorruptCheckpointError
        The sizes contradict each other.
    """
    count = _chunk_count(original_chunk_size, original_file_size)
    last = original_file_size - max(count - 1, 0) * original_chunk_size
    for name, found, expected in (
        ("transformedChunkSize", transformed_chunk_size, original_chunk_size + overhead_bytes),
        ("finalTransformedChunkSize", final_transformed_chunk_size, last + overhead_bytes),
    ):
        if count and found != expected:
            raise _contradiction(name, f"{found} bytes", f"{expected} bytes")
    positions = range(0, count * transformed_chunk_size, transformed_chunk_size or 1)
    stored = positions[-1] + final_transformed_chunk_size if count else 0
    return ChunkIndex(original_chunk_size, original_file_size, positions, stored)


def variable_chunk_index(
    original_chunk_size: int,
    original_file_size: int,
    transformed_chunks: bytes,
    *,
    overhead_bytes: int = 0,
    log_bytes: int | None = None,
) -> ChunkIndex:
    """Return the index of compressed chunks [MAN-4].

    Parameters
    ----------
    original_chunk_size, original_file_size : int
        Plain bytes.
    transformed_chunks : bytes
        One zstd frame with the stored size of each chunk.
    overhead_bytes : int
        By how much a stored chunk is larger than its frame [ENC-3].
    log_bytes : int or None
        Size of the ``.log`` object in the listing, if it is known. No memory is taken for more
        chunks than it can hold.

    Raises
    ------
    CorruptCheckpointError
        The sizes contradict each other, or their block is damaged.
    CorruptLogError
        The ``.log`` object is too small for so many chunks.
    CodecError, LimitExceededError, UnsupportedFormatError
        The frame is damaged, or larger than such a block can be.
    """
    count = _chunk_count(original_chunk_size, original_file_size)
    least_bytes = count * (LEAST_FRAME_BYTES + overhead_bytes)
    if log_bytes is not None and log_bytes < least_bytes:
        raise CorruptLogError(
            "the .log object has another size than its manifest says: it was cut or changed",
            found=f"{log_bytes} bytes",
            expected=f"{count} chunks, {least_bytes} bytes at least",
        )
    sizes = _stored_sizes(undo_zstd(transformed_chunks, MAX_BLOCK_BYTES), count)
    positions = array("q", accumulate(sizes, initial=0))
    end = positions.pop()
    return ChunkIndex(original_chunk_size, original_file_size, positions, end)


def _stored_sizes(block: bytes, expected_count: int) -> array[int]:
    count = int.from_bytes(block[:4]) if len(block) >= 4 else -1  # noqa: PLR2004 - int32
    if count != expected_count:
        raise _contradiction("transformedChunks", f"{count} chunks", f"{expected_count} chunks")
    if count <= 1:
        position, width, base = 4, 0, 0
    else:
        if len(block) < (position := 9):
            raise _contradiction("transformedChunks", f"{len(block)} bytes", "9 bytes at least")
        base, width = struct.unpack_from(">iB", block, 4)
        if not 1 <= width <= MAX_SIZE_WIDTH:
            raise _contradiction("transformedChunks", f"width {width}", "width 1 to 4", 8)
    expected = position + max(count - 1, 0) * width + (4 if count else 0)
    if len(block) != expected:
        raise _contradiction("transformedChunks", f"{len(block)} bytes", f"{expected} bytes")
    end = position + max(count - 1, 0) * width
    starts = range(position, end, width or 1)
    sizes = array("q", (base + int.from_bytes(block[at : at + width]) for at in starts))
    sizes.extend(struct.unpack_from(">i", block, end) if count else ())
    for number, size in enumerate(sizes):
        if not 0 < size <= MAX_INT:
            at = end if number + 1 == count else position + number * width
            raise _contradiction("transformedChunks", f"{size} bytes", f"1 to {MAX_INT} bytes", at)
    return sizes


def _chunk_count(original_chunk_size: int, original_file_size: int) -> int:
    if not 0 < original_chunk_size <= MAX_CHUNK_SIZE:
        raise _contradiction(
            "originalChunkSize", f"{original_chunk_size}", f"1 to {MAX_CHUNK_SIZE}"
        )
    if not 0 <= original_file_size <= MAX_INT:
        raise _contradiction("originalFileSize", f"{original_file_size}", f"0 to {MAX_INT}")
    return -(-original_file_size // original_chunk_size)  # MAN-5: rounded up


def _contradiction(
    name: str, found: str, expected: str, position: int | None = None
) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"{_FIELD}.{name} does not fit the segment",
        position=position,
        found=found,
        expected=expected,
    )
