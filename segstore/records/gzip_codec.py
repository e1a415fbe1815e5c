"""gzip: zlib, and isal's faster inflate where it is installed [format.md 8.1]."""

from __future__ import annotations

import importlib
import zlib
from functools import cache
from typing import Any, Final

from segstore.errors import CodecError, LimitExceededError

LIBRARY: Final = "zlib"

GZIP_WINDOW_BITS: Final = 31  # a gzip header and trailer around a window of 32 KiB
HIGHEST_LEVEL: Final = 9
MEMBER_START: Final = b"\x1f\x8b\x08"
FLAGS_AT: Final = 3
RESERVED_FLAGS: Final = 0xE0
STEP_INPUT_BYTES: Final = 8 * 1024
STEP_OUTPUT_BYTES: Final = 16 * 1024  # the steps of Kafka's stream
SMALLEST_MEMBER_BYTES: Final = 18  # header and trailer; fewer bytes behind a member are ignored


@cache
def _inflater() -> Any:
    """The module that decompresses; both have zlib's interface."""
    try:
        return importlib.import_module("isal.isal_zlib")
    except ImportError:
        return zlib


def library_version() -> str:
    """Library and version, for people."""
    return f"zlib {zlib.ZLIB_RUNTIME_VERSION}" + ("" if _inflater() is zlib else ", isal")


def compress(data: bytes, level: int) -> bytes:
    """Compress to one member; a level outside 0 to 9 is zlib's default, as -1 is in Kafka."""
    effective = level if 0 <= level <= HIGHEST_LEVEL else zlib.Z_DEFAULT_COMPRESSION
    compressor = zlib.compressobj(effective, zlib.DEFLATED, GZIP_WINDOW_BITS)
    return compressor.compress(data) + compressor.flush()


def decompress(data: memoryview, limit: int) -> bytes:
    """Decompress all members to at most *limit* bytes [DUR-92, DUR-94].

    Trailing bytes that begin no member are ignored, as Java's ``GZIPInputStream`` does.
    """
    try:
        return _decompress_members(data, limit)
    except CodecError as error:
        error.decoded = _before_break(data, limit)
        raise


def _decompress_members(data: memoryview, limit: int) -> bytes:
    inflater = _inflater()
    rest: memoryview | bytes = data
    parts: list[bytes] = []
    size = 0
    while True:
        member = inflater.decompressobj(GZIP_WINDOW_BITS)
        rest = _with_known_flags(rest)
        try:
            part: bytes = member.decompress(rest, limit - size + 1)
        except inflater.error as error:
            raise CodecError(f"gzip: {error}") from error
        size += len(part)
        if size > limit:
            raise LimitExceededError(
                "gzip data decompresses to too many bytes",
                found=f"more than {limit} bytes",
                expected=f"at most {limit} bytes",
            )
        if not member.eof:
            raise CodecError("gzip data ends before its trailer")
        parts.append(part)
        rest = member.unused_data
        if len(rest) <= SMALLEST_MEMBER_BYTES or rest[:3] != MEMBER_START:
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _with_known_flags(member: memoryview | bytes) -> memoryview | bytes:
    """Clear the reserved flags of a header, which Java does not look at and zlib refuses."""
    if len(member) <= FLAGS_AT or not member[FLAGS_AT] & RESERVED_FLAGS:
        return member
    known = bytearray(member)
    known[FLAGS_AT] &= ~RESERVED_FLAGS & 0xFF
    return bytes(known)


def _before_break(data: memoryview, limit: int) -> bytes:
    """Return what Java's stream gives before its error.

    It inflates in steps: the step in which the data is wrong gives nothing, but a wrong trailer
    comes behind all data.
    """
    content = bytearray()
    member = zlib.decompressobj(GZIP_WINDOW_BITS)
    rest = bytes(_with_known_flags(data))
    while rest and len(content) < limit:
        step, rest = rest[:STEP_INPUT_BYTES], rest[STEP_INPUT_BYTES:]
        before = member.copy()
        try:
            content += member.decompress(step, min(STEP_OUTPUT_BYTES, limit - len(content)))
        except zlib.error as error:
            if "check" in str(error):  # of the trailer
                content += _bytewise(before, step)
            break
        rest = member.unconsumed_tail + rest
        if member.eof:
            rest = bytes(_with_known_flags(member.unused_data + rest))
            member = zlib.decompressobj(GZIP_WINDOW_BITS)
    return bytes(content[:limit])


def _bytewise(member: Any, step: bytes) -> bytes:
    content = bytearray()
    for place in range(len(step)):
        try:
            content += member.decompress(step[place : place + 1])
        except zlib.error:
            break
    return bytes(content)
