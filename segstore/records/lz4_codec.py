"""LZ4 frames as Kafka writes and reads them [format.md 8.3].

The frame's structure is walked before the library sees it: Kafka's reader takes only some of what
the format allows, skips the content size and does not verify the content checksum; and the walk
bounds the output before memory is taken for it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from segstore.errors import CodecError, CodecMissingError, LimitExceededError

if TYPE_CHECKING:
    from typing_extensions import Buffer

LIBRARY: Final = "lz4"

KAFKA_DEFAULT_LEVEL: Final = 9  # stands for the fast compressor; every other level is LZ4 HC
HC_LEVELS: Final = (3, 16)  # the library's names for its smallest and largest effort

MAGIC: Final = b"\x04\x22\x4d\x18"
SHORTEST_HEADER_BYTES: Final = 7
CONTENT_SIZE_BYTES: Final = 8
FLAGS_KEPT: Final = 0x70  # version 01, independent blocks, block checksums
FLAGS_REQUIRED: Final = 0x60
FLAG_BLOCK_CHECKSUM: Final = 0x10
FLAG_CONTENT_SIZE: Final = 0x08
FLAG_CONTENT_CHECKSUM: Final = 0x04
BLOCK_SIZES: Final = {0x40: 1 << 16, 0x50: 1 << 18, 0x60: 1 << 20, 0x70: 1 << 22}
END_MARK: Final = bytes(4)
STORED: Final = 0x80000000
HIGHEST_RATIO: Final = 255  # a block byte makes at most so many

PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
MASK: Final = 0xFFFFFFFF
WORD_BYTES: Final = 4


@cache
def _library() -> Any:
    try:
        import lz4.frame
    except ImportError as error:
        raise CodecMissingError(
            "lz4 needs the package lz4: pip install lz4",
            found="no package lz4",
            expected="the package lz4",
        ) from error
    return lz4.frame


def library_version() -> str:
    """Library and version, for people."""
    try:
        _library()
    except CodecMissingError as error:
        return f"missing: {error.message}"
    import lz4

    return f"lz4 {lz4.__version__} (liblz4 {lz4.library_version_string()})"


def compress(data: bytes, level: int) -> bytes:
    """Compress to a frame of independent blocks of 64 KiB without checksums and size."""
    library = _library()
    fast = level == KAFKA_DEFAULT_LEVEL or not 1 <= level <= HC_LEVELS[1] + 1
    frame: bytes = library.compress(
        data,
        compression_level=0 if fast else min(max(level, HC_LEVELS[0]), HC_LEVELS[1]),
        block_size=library.BLOCKSIZE_MAX64KB,
        block_linked=False,
        content_checksum=False,
        block_checksum=False,
        store_size=False,
    )
    return frame


def decompress(data: memoryview, limit: int) -> bytes:
    """Decompress the first frame to at most *limit* bytes; what follows its end mark is ignored."""
    try:
        return _decompress_frame(data, limit)
    except CodecError as error:
        error.decoded = _before_break(data, limit)
        raise


def _decompress_frame(data: memoryview, limit: int) -> bytes:
    header, blocks, checksums = _read_header(data)
    block_max_bytes = BLOCK_SIZES[header[5]]
    end, bound = _walk_blocks(data, blocks, block_max_bytes, checksum_bytes=checksums)
    frame = header + bytes(data[blocks:end])  # without what Kafka does not verify
    decompressor = _library().LZ4FrameDecompressor()
    try:
        content: bytes = decompressor.decompress(frame, max_length=min(bound, limit) + 1)
    except RuntimeError as error:
        raise CodecError(f"lz4: {error}", found=str(error), expected="an lz4 frame") from error
    if len(content) > limit:
        raise LimitExceededError(
            "an lz4 frame decompresses to more than max_decompressed_batch_bytes",
            found=f"more than {limit} bytes",
            expected=f"at most {limit} bytes",
        )
    if not decompressor.eof:
        raise CodecError(
            "lz4: a block decompresses to more than its frame allows",
            found="more bytes",
            expected=f"blocks of at most {block_max_bytes} bytes",
        )
    return content


def _before_break(data: memoryview, limit: int) -> bytes:
    """Return the blocks before the first that is wrong: one by one, for they are independent."""
    content = bytearray()
    try:
        header, position, checksum_bytes = _read_header(data)
        while len(content) < limit:
            word = int.from_bytes(data[position : position + WORD_BYTES], "little")
            end = position + WORD_BYTES + (word & ~STORED) + checksum_bytes
            if word == 0 or end > len(data):
                break
            frame = b"".join((header, data[position:end], END_MARK))
            content += _decompress_frame(memoryview(frame), limit - len(content))
            position = end
    except (CodecError, LimitExceededError):
        pass  # the break
    return bytes(content)


def _read_header(data: memoryview) -> tuple[bytes, int, int]:
    """Check the frame header as Kafka does.

    Returns
    -------
    tuple of (bytes, int, int)
        The header without the fields that are not verified, where the blocks begin, bytes of a
        block checksum.
    """
    if len(data) < SHORTEST_HEADER_BYTES:
        raise _ended_after(len(data), SHORTEST_HEADER_BYTES)
    if bytes(data[:4]) != MAGIC:
        raise CodecError(
            "lz4: stream unsupported (invalid magic bytes)",
            position=0,
            found=f"{len(data)} other bytes",  # of a record, perhaps [DUR-105]
            expected=MAGIC.hex(),
        )
    flags, descriptor = data[4], data[5]
    if flags & 0xE3 != FLAGS_REQUIRED or descriptor not in BLOCK_SIZES:
        raise CodecError(
            "lz4: stream unsupported (frame flags)",
            found=f"FLG 0x{flags:02x}, BD 0x{descriptor:02x}",
            expected="version 01, independent blocks, no dictionary",
        )
    size = SHORTEST_HEADER_BYTES + (CONTENT_SIZE_BYTES if flags & FLAG_CONTENT_SIZE else 0)
    if len(data) < size:
        raise _ended_after(len(data), size)
    checksum = _header_checksum(bytes(data[4 : size - 1]))
    if data[size - 1] != checksum:
        raise CodecError(
            "lz4: stream frame descriptor corrupted",
            position=size - 1,
            found=f"checksum 0x{data[size - 1]:02x}",
            expected=f"0x{checksum:02x}",
        )
    kept = bytes((flags & FLAGS_KEPT, descriptor))
    checksum_bytes = WORD_BYTES if flags & FLAG_BLOCK_CHECKSUM else 0
    return MAGIC + kept + bytes((_header_checksum(kept),)), size, checksum_bytes


def _ended_after(size: int, expected: int) -> CodecError:
    return CodecError(
        "lz4: stream ended prematurely",
        position=size,
        found=f"{size} bytes",
        expected=f"{expected} at least",
    )


def _walk_blocks(
    data: memoryview, position: int, block_max_bytes: int, *, checksum_bytes: int
) -> tuple[int, int]:
    """Find the end of the frame, and the most bytes that its blocks can make."""
    bound = 0
    while True:
        if len(data) - position < WORD_BYTES:
            raise _ended_after(len(data), position + WORD_BYTES)
        word = int.from_bytes(data[position : position + WORD_BYTES], "little")
        position += WORD_BYTES
        if word == 0:
            return position, bound
        size = word & ~STORED
        if size > block_max_bytes:
            raise CodecError(
                f"lz4: block size {size} exceeded max: {block_max_bytes}",
                position=position - WORD_BYTES,
                found=str(size),
                expected=f"at most {block_max_bytes}",
            )
        bound += size if word & STORED else min(block_max_bytes, size * HIGHEST_RATIO)
        position += size + checksum_bytes


@cache
def _header_checksum(descriptor: bytes) -> int:
    """The second byte of xxHash32 over FLG, BD and content size."""
    return _xxh32_of_few_bytes(descriptor) >> 8 & 0xFF


def _xxh32_of_few_bytes(data: Buffer) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes, which need no stripes [format.md 2.2]."""
    content = bytes(data)
    value = (PRIMES[4] + len(content)) & MASK
    words = len(content) // WORD_BYTES * WORD_BYTES
    for place in range(0, words, WORD_BYTES):
        word = int.from_bytes(content[place : place + WORD_BYTES], "little")
        value = _rotate((value + word * PRIMES[2]) & MASK, 17) * PRIMES[3] & MASK
    for byte in content[words:]:
        value = _rotate((value + byte * PRIMES[4]) & MASK, 11) * PRIMES[0] & MASK
    value = (value ^ (value >> 15)) * PRIMES[1] & MASK
    value = (value ^ (value >> 13)) * PRIMES[2] & MASK
    return value ^ (value >> 16)


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & MASK
