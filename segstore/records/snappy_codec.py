"""snappy: cramjam, for single raw blocks; the stream around them is the core's [format.md 8.2]."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from segstore.errors import CodecError, CodecMissingError, LimitExceededError

if TYPE_CHECKING:
    from typing_extensions import Buffer

LIBRARY: Final = "cramjam"

LENGTH_MAX_BYTES: Final = 5
CONTINUES: Final = 0x80


@cache
def _library() -> Any:
    try:
        import cramjam
    except ImportError as error:
        raise CodecMissingError(
            "snappy needs cramjam: pip install cramjam",
            found="no package cramjam",
            expected="the package cramjam",
        ) from error
    return cramjam


def library_version() -> str:
    """Library and version, for people."""
    try:
        return f"cramjam {_library().__version__}"
    except CodecMissingError as error:
        return f"missing: {error.message}"


def compress(data: bytes, level: int) -> Buffer:  # noqa: ARG001 - snappy has no levels
    """Compress to one raw block."""
    block: Buffer = _library().snappy.compress_raw(data)
    return block


def _declared_size(block: memoryview) -> int:
    """The uncompressed size that a raw block begins with, a varint of 32 bits."""
    size = 0
    for place, byte in enumerate(block[:LENGTH_MAX_BYTES]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < CONTINUES:
            return size
    raise CodecError(
        "snappy: a block without its size",
        position=0,
        found=f"{min(len(block), LENGTH_MAX_BYTES)} bytes that go on",
        expected="a varint of 32 bits",
    )


def decompress(data: memoryview, limit: int) -> Buffer:
    """Decompress one raw block of at most *limit* bytes, declared size first [DUR-94]."""
    declared = _declared_size(data)
    if declared > limit:
        raise LimitExceededError(
            "a snappy block decompresses to more than max_decompressed_batch_bytes",
            found=f"{declared} bytes",
            expected=f"at most {limit} bytes",
        )
    library = _library()
    try:
        block: Buffer = library.snappy.decompress_raw(data)
    except library.DecompressionError as error:
        raise CodecError(
            f"snappy: {error}", found=str(error), expected=f"a block of {declared} bytes"
        ) from error
    return block
