"""Remote storage for tests."""

from __future__ import annotations

import struct
from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from segstore import RemoteRead
from segstore._core import iterate_records, scan_batches
from segstore.errors import OffsetOutOfRangeError
from segstore.log.local.transaction_index import AbortedTransaction
from segstore.records.compression import codec_table
from segstore.types import FileTimestampAndOffset, LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from segstore.types import EpochEntry, TopicPartition

_ABORTED = struct.Struct(">hqqqq")

TIERED = {"remote_storage_enable": True}


class RemoteRecords:
    """A `RemoteLogReader` that knows when its records were made; their bytes it has not.

    Parameters
    ----------
    records : iterable of (timestamp, offset, leader epoch)
        In the order of their offsets.
    """

    def __init__(self, records: Iterable[tuple[int, int, int]] = ()) -> None:
        self.records = [FileTimestampAndOffset(*one) for one in records]
        self.asked: list[tuple[TopicPartition, int, int, Sequence[EpochEntry]]] = []

    def find_offset_by_timestamp(
        self,
        topic_partition: TopicPartition,
        timestamp: int,
        starting_offset: int,
        leader_epochs: Sequence[EpochEntry],
    ) -> FileTimestampAndOffset | None:
        self.asked.append((topic_partition, timestamp, starting_offset, leader_epochs))
        for one in self.records:
            if one.timestamp >= timestamp and one.offset >= starting_offset:
                return one
        return None

    def read(self, topic_partition: TopicPartition, start_offset: int, *_: object, **__: object):
        raise OffsetOutOfRangeError(
            f"remote storage has no segment of {topic_partition} with offset {start_offset}",
            found=str(start_offset),
            expected="an offset that is there",
        )

    def aborted_transactions(self, *_: object) -> tuple[()]:
        return ()


class _Copied(NamedTuple):
    name: str
    base_offset: int
    data: bytes
    aborted: tuple[AbortedTransaction, ...]


class RemoteSegments:
    """A `RemoteLogReader` over copies of segments, in memory.

    Attributes
    ----------
    reads : list of int
        The offsets that were asked for.
    before_read : callable or None
        Called with each of them.
    """

    def __init__(self) -> None:
        self.reads: list[int] = []
        self.before_read: Callable[[int], object] | None = None
        self._segments: dict[int, _Copied] = {}

    def copy(self, path: str | Path, below: int | None = None) -> None:
        """Take all segments of a log directory, or those with a base offset below *below*."""
        for file in sorted(Path(path).glob("*.log")):
            base_offset = int(file.stem)
            if base_offset in self._segments or (below is not None and base_offset >= below):
                continue
            index = file.with_suffix(".txnindex")
            found = _ABORTED.iter_unpack(index.read_bytes()) if index.exists() else ()
            aborted = tuple(AbortedTransaction(*fields) for _, *fields in found)
            self._segments[base_offset] = _Copied(
                f"remote/{file.name}", base_offset, file.read_bytes(), aborted
            )

    def damage(self, base_offset: int, position: int) -> None:
        """Change a byte of a segment."""
        segment = self._segments[base_offset]
        data = bytearray(segment.data)
        data[position] ^= 1
        self._segments[base_offset] = segment._replace(data=bytes(data))

    def remove_below(self, offset: int) -> None:
        """Remove the segments that begin below *offset*."""
        self._segments = {base: one for base, one in self._segments.items() if base >= offset}

    def read(  # noqa: PLR0913 - as of the protocol
        self,
        topic_partition: TopicPartition,
        start_offset: int,
        max_bytes: int,
        *,
        min_one_message: bool,
        leader_epochs: Sequence[EpochEntry],
        is_committed: bool,
        local_aborted_transactions: Callable[[int, int], Iterable[AbortedTransaction]],
    ) -> RemoteRead:
        self.reads.append(start_offset)
        if self.before_read is not None:
            self.before_read(start_offset)
        bases = sorted(self._segments)
        place = bisect_right(bases, start_offset) - 1
        if place < 0:
            raise OffsetOutOfRangeError(
                f"no remote segment of {topic_partition} holds offset {start_offset}",
                found=str(start_offset),
                expected=f"an offset from {bases[:1]} on",
            )
        nothing = RemoteRead(b"", LogOffsetMetadata(start_offset), "")
        for base in bases[place:]:
            segment = self._segments[base]
            headers, _ = scan_batches(segment.data, check_crc=False)
            rows = headers[headers["last_offset"] >= start_offset]
            if not len(rows):
                continue
            begin, size = int(rows["position"][0]), int(rows["size_bytes"][0])
            if size > max_bytes and not min_one_message:
                return nothing
            records = segment.data[begin : begin + max(size, max_bytes)]
            first = int(rows["base_offset"][0])
            aborted = None
            if is_committed:
                behind = rows[rows["position"] >= begin + len(records)]
                end = int(behind["base_offset"][0]) if len(behind) else int(rows["last_offset"][-1])
                here = local_aborted_transactions(first, end + 1)
                there = self.aborted_transactions(topic_partition, first, end + 1, leader_epochs)
                aborted = sorted({*there, *here}, key=lambda one: one.last_offset)
            metadata = LogOffsetMetadata(first, base, begin)
            return RemoteRead(records, metadata, segment.name, aborted)
        return nothing._replace(aborted_transactions=[] if is_committed else None)

    def aborted_transactions(
        self, _: TopicPartition, start_offset: int, end_offset: int, __: Sequence[EpochEntry]
    ) -> list[AbortedTransaction]:
        return [
            one
            for segment in self._segments.values()
            for one in segment.aborted
            if one.last_offset >= start_offset and one.first_offset < end_offset
        ]

    def find_offset_by_timestamp(
        self, _: TopicPartition, timestamp: int, starting_offset: int, __: Sequence[EpochEntry]
    ) -> FileTimestampAndOffset | None:
        for base in sorted(self._segments):
            for record in iterate_records(self._segments[base].data, codec_table()):
                if record.offset >= starting_offset and record.timestamp >= timestamp:
                    epoch = record.leader_epoch
                    return FileTimestampAndOffset(record.timestamp, record.offset, epoch)
        return None
