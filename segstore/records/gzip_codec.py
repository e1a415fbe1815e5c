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
FIRST_STEP_BYTES: Final = 1024  # of a member behind another; doubled until its end
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
    parts: list[bytes] = []
    position = size = 0
    while True:
        part, position = _decompress_member(data, position, limit - size + 1)
        size += len(part)
        if size > limit:
            raise LimitExceededError(
                "gzip data decompresses to more than max_decompressed_batch_bytes",
                found=f"more than {limit} bytes",
                expected=f"at most {limit} bytes",
            )
        parts.append(part)
        if len(data) - position <= SMALLEST_MEMBER_BYTES or (
            bytes(data[position : position + len(MEMBER_START)]) != MEMBER_START
        ):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompress_member(data: memoryview, position: int, most: int) -> tuple[bytes, int]:
    """Return what the member at *position* holds, at most *most* bytes, and where it ends.

    The first one gets all data at once: there is seldom another. The others get steps that grow,
    since an inflater copies what it is given in excess [DUR-103].
    """
    inflater = _inflater()
    member = inflater.decompressobj(GZIP_WINDOW_BITS)
    step_bytes = FIRST_STEP_BYTES if position else len(data)
    step = _with_known_flags(data[position : position + step_bytes])
    pieces: list[bytes] = []
    while most > 0:
        try:
            pieces.append(member.decompress(step, most))
        except inflater.error as error:
            raise CodecError(f"gzip: {error}", found=str(error), expected="gzip data") from error
        most -= len(pieces[-1])
        position += len(step) - len(member.unused_data)
        if member.eof:
            break
        if most > 0 and position >= len(data):
            raise CodecError(
                "gzip data ends before its trailer",
                position=len(data),
                found=f"{len(data)} bytes",
                expected="more",
            )
        step_bytes *= 2
        step = data[position : position + step_bytes]
    return pieces[0] if len(pieces) == 1 else b"".join(pieces), position


def _with_known_flags(member: memoryview) -> memoryview | bytes:
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
    position, is_start = 0, True
    while position < len(data) and len(content) < limit:
        taken = data[position : position + STEP_INPUT_BYTES]
        step = bytes(_with_known_flags(taken) if is_start else taken)
        before = member.copy()
        try:
            content += member.decompress(step, min(STEP_OUTPUT_BYTES, limit - len(content)))
        except zlib.error as error:
            if "check" in str(error):  # of the trailer
                content += _bytewise(before, step)
            break
        is_start = member.eof
        position += len(step) - len(member.unused_data if is_start else member.unconsumed_tail)
        if is_start:
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
