"""Names in the order of a Java ``HashMap``, as a dump lists files with findings [18.6]."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAP_CAPACITY = 16
_MAP_LOAD_FACTOR = 0.75


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
