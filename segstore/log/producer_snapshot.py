"""Producer snapshots as far as readers need them: which transactions were open [format.md 14]."""

from __future__ import annotations

import struct
from typing import Final

from segstore._core import crc32c

_HEADER: Final = struct.Struct(">hIi")
"""Version, CRC of what follows it, number of producers."""
_ENTRY: Final = struct.Struct(">qhiqiqiq")
VERSION: Final = 1
CRC_START: Final = 6


def open_transactions(data: bytes) -> dict[int, int] | None:
    """Return {producer id: first offset} of the open transactions; None for a damaged snapshot."""
    if len(data) < _HEADER.size:
        return None
    version, crc, count = _HEADER.unpack_from(data)
    end = _HEADER.size + count * _ENTRY.size
    if version != VERSION or count < 0 or end > len(data):
        return None
    if crc32c(memoryview(data)[CRC_START:]) != crc:
        return None
    entries = _ENTRY.iter_unpack(memoryview(data)[_HEADER.size : end])
    return {entry[0]: entry[-1] for entry in entries if entry[-1] >= 0}
