"""The structure of zstd data: frames, blocks, and the most bytes that they make (RFC 8878)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.errors import CodecError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_WINDOW_LOG: Final = 27

MAGIC: Final = 0xFD2FB528
SKIPPABLE_MAGIC: Final = 0x184D2A50  # and the 15 values above it
SKIPPABLE_MASK: Final = 0xFFFFFFF0
BLOCK_MAX_BYTES: Final = 128 * 1024
BLOCK_HEADER_BYTES: Final = 3
RAW, RUN, COMPRESSED, RESERVED = range(4)
DICTIONARY_ID_BYTES: Final = (0, 1, 2, 4)
CONTENT_SIZE_BYTES: Final = (0, 2, 4, 8)
TWO_BYTE_SIZE_BIAS: Final = 256


def frames_of(data: memoryview) -> Iterator[tuple[memoryview, int]]:
    """Yield each frame with the most bytes that it can make; skippable frames are skipped.

    Raises
    ------
    CodecError
        Where the data is cut, or is no frame.
    UnsupportedFormatError
        For a dictionary or a window above 128 MiB [DUR-93].
    """
    position = 0
    while position < len(data):
        magic = _number(data, position, 4)
        if magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC:
            position += 8 + _number(data, position + 4, 4)
            if position > len(data):
                raise _cut(len(data), position)
        elif magic == MAGIC:
            end, bound = _walk_frame(data, position + 4)
            yield data[position:end], bound
            position = end
        else:
            raise CodecError(
                "zstd: no frame begins here",
                position=position,
                found=f"{len(data) - position} other bytes",  # of a record, perhaps [DUR-105]
                expected=f"0x{MAGIC:08x}",
            )


def _walk_frame(data: memoryview, position: int) -> tuple[int, int]:
    descriptor = _number(data, position, 1)
    position += 1
    single_segment = descriptor >> 5 & 1
    if descriptor & 0x08:
        raise UnsupportedFormatError(
            "zstd: a frame uses a reserved bit",
            position=position - 1,
            found=f"0x{descriptor:02x}",
            expected="bit 3 clear",
        )
    if not single_segment:
        window_log = 10 + (_number(data, position, 1) >> 3)
        if window_log > MAX_WINDOW_LOG:
            raise UnsupportedFormatError(
                "zstd: the window of a frame is too large",
                position=position,
                found=f"2^{window_log} bytes",
                expected=f"at most 2^{MAX_WINDOW_LOG} bytes",
            )
        position += 1
    dictionary_bytes = DICTIONARY_ID_BYTES[descriptor & 3]
    if dictionary_bytes and _number(data, position, dictionary_bytes) != 0:
        raise UnsupportedFormatError(
            "zstd: a frame needs a dictionary",
            position=position,
            found=f"dictionary {_number(data, position, dictionary_bytes)}",
            expected="none",
        )
    position += dictionary_bytes
    size_bytes = CONTENT_SIZE_BYTES[descriptor >> 6] or single_segment
    declared = _number(data, position, size_bytes) if size_bytes else None
    if declared is not None and size_bytes == CONTENT_SIZE_BYTES[1]:
        declared += TWO_BYTE_SIZE_BIAS
    position, bound = _walk_blocks(data, position + size_bytes)
    position += 4 if descriptor & 0x04 else 0  # checksum
    if position > len(data):
        raise _cut(len(data), position)
    if declared is not None and declared > bound:
        raise CodecError(
            "zstd: a frame declares more bytes than its blocks can make",
            found=f"{declared} bytes",
            expected=f"at most {bound} bytes",
        )
    return position, bound if declared is None else declared


def _walk_blocks(data: memoryview, position: int) -> tuple[int, int]:
    bound = 0
    last = 0
    while not last:
        header = _number(data, position, BLOCK_HEADER_BYTES)
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        position += BLOCK_HEADER_BYTES
        if kind == RESERVED:
            raise CodecError(
                "zstd: a block of no known type",
                position=position - BLOCK_HEADER_BYTES,
                found=f"type {kind}",
                expected=f"below {RESERVED}",
            )
        bound += BLOCK_MAX_BYTES if kind == COMPRESSED else size
        position += 1 if kind == RUN else size
    return position, bound


def _number(data: memoryview, position: int, size: int) -> int:
    if position + size > len(data):
        raise _cut(len(data), position + size)
    return int.from_bytes(data[position : position + size], "little")


def _cut(size: int, expected: int) -> CodecError:
    return CodecError(
        "zstd: the data ends inside a frame",
        position=size,
        found=f"{size} bytes",
        expected=f"{expected} at least",
    )
