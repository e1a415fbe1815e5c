"""The bytes of a producer snapshot, ``<offset>.snapshot`` (Kafka ``ProducerStateManager``).

FILE FORMAT [format.md 14]: version, CRC-32C of what follows it, number of producers; then 46 bytes
for each, big-endian. Only the newest batch of a producer is kept. The offset in the name is
exclusive: the state of all records below it.

Source: [PSM-53, PSM-54].
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from segstore._core import crc32c
from segstore.errors import CorruptSnapshotError
from segstore.log.producers.producer_state_entry import (
    NO_OFFSET,
    BatchMetadata,
    ProducerStateEntry,
    remembered,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION: Final = 1
MAX_SNAPSHOT_BYTES: Final = 64 * 1024 * 1024

_HEADER: Final = struct.Struct(">hIi")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_CRC_POSITION: Final = 2
_CRC_START: Final = 6


def format_snapshot(entries: Iterable[ProducerStateEntry]) -> bytes:
    """Return the file's bytes, producers in the order of their ids."""
    rows = [_format_entry(entry) for entry in sorted(entries, key=lambda entry: entry.producer_id)]
    body = len(rows).to_bytes(_HEADER.size - _CRC_START) + b"".join(rows)
    return _HEADER.pack(VERSION, crc32c(body), len(rows)) + body[_HEADER.size - _CRC_START :]


def parse_snapshot(
    data: bytes, name: str = "", *, exact_size: bool = True
) -> list[ProducerStateEntry]:
    """Return the producers of a snapshot, in the order of the file.

    Parameters
    ----------
    data : bytes
        The whole file.
    name : str
        Of the file, for messages.
    exact_size : bool
        Refuse bytes behind the last producer [DUR-97]; Kafka reads past them.

    Raises
    ------
    CorruptSnapshotError
        Size, version or CRC are wrong.
    """
    size = len(data)
    if size > MAX_SNAPSHOT_BYTES:
        raise CorruptSnapshotError(
            f"Snapshot is larger than {MAX_SNAPSHOT_BYTES} bytes",
            file=name,
            position=MAX_SNAPSHOT_BYTES,
            found=f"{size} bytes",
            expected=f"at most {MAX_SNAPSHOT_BYTES} bytes",
        )
    if size < _HEADER.size:
        raise CorruptSnapshotError(
            f"Snapshot failed schema validation: {size} bytes are too few",
            file=name,
            position=size,
            found=f"{size} bytes",
            expected=f"at least {_HEADER.size} bytes",
        )
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshotError(
            f"Snapshot contained an unknown file version {version}",
            file=name,
            position=0,
            found=f"version {version}",
            expected=f"version {VERSION}",
        )
    end = _HEADER.size + count * _ENTRY.size
    if count < 0 or end > size or (exact_size and end < size):
        raise CorruptSnapshotError(
            f"Snapshot failed schema validation: {count} entries in {size} bytes",
            file=name,
            position=_CRC_START,
            found=f"{count} entries" if count < 0 else f"{size} bytes",
            expected="0 entries or more" if count < 0 else f"{end} bytes",
        )
    computed = crc32c(memoryview(data)[_CRC_START:])
    if computed != crc:
        raise CorruptSnapshotError(
            "Snapshot is corrupt (CRC is no longer valid). "
            f"Stored crc: {crc}. Computed crc: {computed}",
            file=name,
            position=_CRC_POSITION,
            found=f"the stored CRC {crc}",
            expected=f"{computed}, the CRC of the bytes",
        )
    rows = _ENTRY.iter_unpack(memoryview(data)[_HEADER.size : end])
    return [_parse_entry(*row) for row in rows]


def is_cut(data: bytes) -> bool:
    """Whether a snapshot ends before its last entry, as one that is being written does."""
    if len(data) < _HEADER.size:
        return True
    _, _, count = _HEADER.unpack_from(data)
    return bool(_HEADER.size + count * _ENTRY.size > len(data))


def open_transactions(data: bytes) -> dict[int, int] | None:
    """Return {producer id: first offset} of the open transactions; None for a damaged snapshot."""
    try:
        entries = parse_snapshot(data, exact_size=False)
    except CorruptSnapshotError:
        return None
    return {
        entry.producer_id: entry.current_txn_first_offset
        for entry in entries
        if entry.current_txn_first_offset is not None
    }


def _format_entry(entry: ProducerStateEntry) -> bytes:
    first_offset = entry.current_txn_first_offset
    return _ENTRY.pack(
        entry.producer_id,
        entry.producer_epoch,
        entry.last_seq,
        entry.last_data_offset,
        entry.last_offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        NO_OFFSET if first_offset is None else first_offset,
    )


def _parse_entry(  # noqa: PLR0913 - the fields of an entry, in the order of the file
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    first_offset: int,
) -> ProducerStateEntry:
    batch = BatchMetadata(last_sequence, last_offset, offset_delta, timestamp)
    return ProducerStateEntry(
        producer_id,
        producer_epoch,
        coordinator_epoch,
        timestamp,
        first_offset if first_offset >= 0 else None,
        remembered([batch] if last_offset >= 0 else []),
    )
