"""Files of transactions that a broker left in a log: kept true when the log is cut.

Source: [TXX-5, PSM-*].
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from segstore.log.partition_directory import file_name, segment_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import Directory

_ENTRY: Final = struct.Struct(">hqqqq")
"""Version, producer id, first offset, last offset, last stable offset."""


def read_transaction_index(
    directory: Directory, base_offset: int
) -> list[tuple[int, int, int]] | None:
    """Return (producer id, first offset, last offset) of each entry; None for a damaged file.

    A missing file is an empty one; a torn entry at the end is left out [13.6].
    """
    name = file_name(base_offset, "txnindex")
    if not directory.exists(name):
        return []
    data = directory.read_file(name)
    whole = len(data) - len(data) % _ENTRY.size
    entries = list(_ENTRY.iter_unpack(memoryview(data)[:whole]))
    if any(version != 0 or last < base_offset for version, _, _, last, _ in entries):
        return None
    return [(producer_id, first, last) for _, producer_id, first, last, _ in entries]


def truncate_transaction_index(directory: Directory, base_offset: int, offset: int) -> bool:
    """Drop aborted transactions whose marker is at or above *offset*; says whether any went."""
    name = file_name(base_offset, "txnindex")
    if not directory.exists(name):
        return False
    data = directory.read_file(name)
    keep = 0
    while keep + _ENTRY.size <= len(data):
        _, _, _, last_offset, _ = _ENTRY.unpack_from(data, keep)
        if last_offset >= offset:
            directory.write_file_atomically(name, data[:keep])
            return True
        keep += _ENTRY.size
    return False


def remove_snapshots_above(directory: Directory, offset: int) -> list[str]:
    """Remove the producer snapshots that describe offsets above *offset*; returns their names."""
    return _remove(directory, lambda snapshot_offset: snapshot_offset > offset)


def remove_snapshots_at(directory: Directory, offsets: set[int]) -> list[str]:
    """Remove the producer snapshots of exactly *offsets*, the bases of removed segments."""
    return _remove(directory, lambda snapshot_offset: snapshot_offset in offsets)


def _remove(directory: Directory, goes: Callable[[int], bool]) -> list[str]:
    names = [
        file.name
        for file in segment_files(directory.names())
        if file.kind == "snapshot" and not file.suffix and goes(file.offset)
    ]
    for name in names:
        directory.unlink(name, missing_ok=True)
    return names
