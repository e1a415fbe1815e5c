"""The text of .snapshot and .txnindex files [format.md 18.5]."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from segstore.cli.batch_file import open_for_reading
from segstore.cli.output import say, write
from segstore.errors import UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

SNAPSHOT_HEADER = struct.Struct(">hIi")
SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
SNAPSHOT_VERSION = 1
SNAPSHOT_CRC_START = 6
MAX_SNAPSHOT_BYTES = 64 * 1024 * 1024

MAX_SEQUENCE = 2**31 - 1

TRANSACTION_ENTRY = struct.Struct(">hqqqq")
TRANSACTIONS_READ = 4096


class CorruptSnapshotError(Exception):
    """A snapshot that Kafka would delete; its text is what Kafka says."""


def dump_producer_snapshot(path: str) -> None:
    """Print the producers of the snapshot at *path*; a corrupt one is named on stderr."""
    with os.fdopen(open_for_reading(path), "rb") as file:
        data = file.read(MAX_SNAPSHOT_BYTES + 1)
    try:
        lines = producer_lines(data)
    except CorruptSnapshotError as corrupt:
        say(str(corrupt))
        return
    write("".join(lines).encode())


def producer_lines(data: bytes) -> list[str]:
    """Return a line for each producer of a snapshot.

    Raises
    ------
    CorruptSnapshotError
        Version, size or CRC are wrong [format.md 14].
    """
    from segstore._core import crc32c

    if len(data) > MAX_SNAPSHOT_BYTES:
        raise CorruptSnapshotError(f"Snapshot is larger than {MAX_SNAPSHOT_BYTES} bytes")
    if len(data) < SNAPSHOT_HEADER.size:
        raise CorruptSnapshotError(
            f"Snapshot failed schema validation: {len(data)} bytes are too few"
        )
    version, crc, count = SNAPSHOT_HEADER.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise CorruptSnapshotError(f"Snapshot contained an unknown file version {version}")
    if not 0 <= count <= (len(data) - SNAPSHOT_HEADER.size) // SNAPSHOT_ENTRY.size:
        raise CorruptSnapshotError(
            f"Snapshot failed schema validation: {count} entries in {len(data)} bytes"
        )
    computed = crc32c(memoryview(data)[SNAPSHOT_CRC_START:])
    if computed != crc:
        raise CorruptSnapshotError(
            "Snapshot is corrupt (CRC is no longer valid). "
            f"Stored crc: {crc}. Computed crc: {computed}"
        )
    entries = memoryview(data)[SNAPSHOT_HEADER.size :][: count * SNAPSHOT_ENTRY.size]
    return [_producer_line(*entry) for entry in SNAPSHOT_ENTRY.iter_unpack(entries)]


def _producer_line(  # noqa: PLR0913 - the fields of an entry, in the order of the file
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    first_offset: int,
) -> str:
    transaction = "OptionalLong.empty" if first_offset < 0 else f"OptionalLong[{first_offset}]"
    line = (
        f"producerId: {producer_id} producerEpoch: {producer_epoch} "
        f"coordinatorEpoch: {coordinator_epoch} currentTxnFirstOffset: {transaction} "
        f"lastTimestamp: {timestamp}"
    )
    if last_offset >= 0:  # a cached batch; sequences wrap from 2^31-1 to 0
        first_sequence = (last_sequence - offset_delta) & MAX_SEQUENCE
        line += (
            f" firstSequence: {first_sequence} lastSequence: {last_sequence} "
            f"lastOffset: {last_offset} offsetDelta: {offset_delta} timestamp: {timestamp}"
        )
    return f"{line}\n"


def dump_transaction_index(path: str) -> None:
    """Print the aborted transactions at *path*; a file that is not there has none."""
    if not Path(path).exists():
        return
    with os.fdopen(open_for_reading(path), "rb") as file:
        position = 0
        while data := file.read(TRANSACTION_ENTRY.size * TRANSACTIONS_READ):
            for line in transaction_lines(data, path, position):
                write(line.encode())
            position += len(data)


def transaction_lines(data: bytes, name: str, position: int = 0) -> Iterator[str]:
    """Yield a line for each whole entry of *data*, which begins at *position* of the file *name*.

    Raises
    ------
    UnsupportedFormatError
        An entry's version is not 0 [format.md 13.6].
    """
    whole = len(data) - len(data) % TRANSACTION_ENTRY.size
    for word, producer_id, first, last, stable in TRANSACTION_ENTRY.iter_unpack(data[:whole]):
        version = word >> 8  # of its two bytes Kafka 4.3 looks at the first only [format.md 13.6]
        if version != 0:
            raise UnsupportedFormatError(
                f"Unexpected aborted transaction version {version}",
                file=name,
                position=position,
                found=str(version),
                expected="0",
            )
        yield (
            f"version: {version} producerId: {producer_id} firstOffset: {first} "
            f"lastOffset: {last} lastStableOffset: {stable}\n"
        )
        position += TRANSACTION_ENTRY.size
