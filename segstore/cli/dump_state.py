"""The text of .snapshot and .txnindex files [format.md 18.5]."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

from segstore.cli.batch_file import pieces_of
from segstore.cli.output import say, write
from segstore.errors import CorruptSnapshotError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore.log.producers.producer_state_entry import ProducerStateEntry

TRANSACTION_ENTRY = struct.Struct(">hqqqq")
TRANSACTIONS_READ = 4096


def dump_producer_snapshot(path: str) -> None:
    """Print the producers of the snapshot at *path*; a corrupt one is named on stderr."""
    from segstore.log.producers.producer_snapshot import MAX_SNAPSHOT_BYTES

    data = next(pieces_of(path, MAX_SNAPSHOT_BYTES + 1), b"")
    try:
        lines = producer_lines(data)
    except CorruptSnapshotError as corrupt:
        say(corrupt.message)
        return
    write("".join(lines).encode())


def producer_lines(data: bytes) -> list[str]:
    """Return a line for each producer of a snapshot.

    Raises
    ------
    CorruptSnapshotError
        Version, size or CRC are wrong [format.md 14].
    """
    from segstore.log.producers.producer_snapshot import parse_snapshot

    return [_producer_line(entry) for entry in parse_snapshot(data, exact_size=False)]


def _producer_line(entry: ProducerStateEntry) -> str:
    first_offset = entry.current_txn_first_offset
    transaction = "OptionalLong.empty" if first_offset is None else f"OptionalLong[{first_offset}]"
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: {transaction} "
        f"lastTimestamp: {entry.last_timestamp}"
    )
    for batch in entry.batch_metadata:  # a snapshot holds one at most
        line += (
            f" firstSequence: {batch.first_seq} lastSequence: {batch.last_seq} "
            f"lastOffset: {batch.last_offset} offsetDelta: {batch.offset_delta} "
            f"timestamp: {batch.timestamp}"
        )
    return f"{line}\n"


def dump_transaction_index(path: str) -> None:
    """Print the aborted transactions at *path*; a file that is not there has none."""
    if not Path(path).exists():
        return
    position = 0
    for data in pieces_of(path, TRANSACTION_ENTRY.size * TRANSACTIONS_READ):
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
