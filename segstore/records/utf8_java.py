"""Bytes as text the way Java reads them.

Java's ``new String(bytes, UTF_8)`` puts U+FFFD for malformed input by another rule than Python's
``errors="replace"`` [format.md 18.2].
"""

# ruff: noqa: PLR2004 - the bytes of UTF-8

from __future__ import annotations

import codecs

ERRORS_NAME = "segstore-java"
REPLACEMENT = "\ufffd"


def decode_utf8(data: bytes) -> str:
    """Decode as Java's ``new String(data, UTF_8)``; never fails."""
    return data.decode("utf-8", ERRORS_NAME)


def malformed_length(data: bytes, start: int) -> int:
    """Return how many bytes, from the bad one at *start*, Java covers with one U+FFFD."""
    lead = data[start]
    rest = data[start + 1 : start + 4]
    if not 0xE0 <= lead <= 0xF4 or not rest:
        return 1
    second = rest[0]
    if not _is_continuation(second) or not _second_fits(lead, second):
        return 1
    wanted = 2 if lead < 0xF0 else 3
    for count, byte in enumerate(rest[1:wanted], start=2):
        if not _is_continuation(byte):
            return count
    # all continuations: a whole surrogate, or cut off by the end of the input
    return min(1 + len(rest), 1 + wanted)


def _is_continuation(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _second_fits(lead: int, second: int) -> bool:
    if lead == 0xE0:
        return second >= 0xA0
    if lead == 0xF0:
        return second >= 0x90
    return lead != 0xF4 or second < 0x90


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return REPLACEMENT, error.start + malformed_length(error.object, error.start)


codecs.register_error(ERRORS_NAME, _replace)
