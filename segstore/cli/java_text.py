"""Bytes as text the way Java reads and lists them: what a dump must do to print Kafka's text.

Java's ``new String(bytes, UTF_8)`` puts U+FFFD for malformed input by another rule than Python's
``errors="replace"`` [format.md 18.2]; files of findings are listed in ``HashMap`` order [18.6].
"""

# ruff: noqa: PLR2004 - the bytes of UTF-8

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ERRORS_NAME = "segstore-java"
REPLACEMENT = "\ufffd"

_MAP_CAPACITY = 16
_MAP_LOAD_FACTOR = 0.75


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


def string_hash(text: str) -> int:
    """Return Java's ``String.hashCode`` as an unsigned 32-bit number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (value * 31 + (high << 8 | low)) & 0xFFFFFFFF
    return value


def hash_map_order(keys: Iterable[str]) -> list[str]:
    """Return *keys*, given in order of insertion, in the order of a Java ``HashMap``."""
    inserted = list(dict.fromkeys(keys))
    capacity = _MAP_CAPACITY
    while len(inserted) > capacity * _MAP_LOAD_FACTOR:
        capacity *= 2

    def bucket(key: str) -> int:
        value = string_hash(key)
        return (value ^ value >> 16) & (capacity - 1)

    return sorted(inserted, key=bucket)  # stable: a bucket keeps the order of insertion
