"""What is in a snapshot of the metadata: a header, the voters, batches of records, a footer.

Source: [RAFT-47, RAFT-48]; Kafka ``RecordsSnapshotWriter``, ``RecordsSnapshotReader``,
``BatchAccumulator``, ``RecordsIterator``.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from segstore._core import (
    RecordsBuilder,
    check_batch,
    first_batch_size,
    iterate_raw_records,
    scan_headers,
    write_varint,
)
from segstore.arguments import flag, positive
from segstore.errors import (
    CorruptLogError,
    IllegalArgumentError,
    IllegalStateError,
    RecordBatchTooLargeError,
    SegstoreError,
)
from segstore.records.compression import codec_table
from segstore.records.kraft_record import (
    KRaftValue,
    KRaftVersion,
    KRaftVoters,
    SnapshotFooter,
    SnapshotHeader,
    encode_kraft_value,
    parse_kraft_record,
)
from segstore.types import CONTROL_FLAG, Codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from segstore._core import BatchHeader, RawRecord
    from segstore.raft.offset_and_epoch import OffsetAndEpoch

__all__ = ["RecordsSnapshotReader", "RecordsSnapshotWriter", "SnapshotBatch"]

MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
BATCH_HEADER_BYTES: Final = 61
FIXED_RECORD_BYTES: Final = 4
"""Of each record: attributes, a timestamp delta of 0, no key, no headers."""
PREFIX_BYTES: Final = 17
WINDOW_BYTES: Final = 1024 * 1024


class SnapshotTarget(Protocol):
    """What a snapshot is written to: a `RawSnapshotWriter`."""

    snapshot_id: OffsetAndEpoch
    is_frozen: bool

    @property
    def path(self) -> str:
        """For messages."""

    @property
    def size_bytes(self) -> int:
        """Bytes that were added."""

    def wall_clock_ms(self) -> int:
        """Milliseconds since 1970."""

    def append(self, data: bytes) -> None:
        """Add bytes."""

    def freeze(self) -> None:
        """Make it a snapshot."""

    def close(self) -> None:
        """End it."""


class SnapshotSource(Protocol):
    """What a snapshot is read from: a `RawSnapshotReader`."""

    snapshot_id: OffsetAndEpoch
    size_bytes: int

    @property
    def path(self) -> str:
        """For messages."""

    def slice(self, position: int, size: int) -> bytes:
        """Return up to *size* bytes from *position* on."""


class RecordsSnapshotWriter:
    """Writes records into a snapshot, in batches, with its header before and its footer after.

    Parameters
    ----------
    target : RawSnapshotWriter
        Empty; `MetadataLog.create_new_snapshot` gives it.
    last_contained_log_timestamp : int
        Of the last batch of the log that the snapshot has, in ms; -1 = there is none.
    kraft_version : int
        Level of the feature; from 1 on a snapshot says it, and who the voters are.
    voters : KRaftVoters or None
        None = the brokers' settings name them.
    max_batch_bytes : int
        Size in bytes of the largest batch.
    codec : Codec
        Of the batches of data; a broker compresses none.

    Raises
    ------
    IllegalStateError
        *target* has bytes, or there are voters at level 0.
    """

    def __init__(  # noqa: PLR0913 - what a snapshot says
        self,
        target: SnapshotTarget,
        *,
        last_contained_log_timestamp: int = -1,
        kraft_version: int = 0,
        voters: KRaftVoters | None = None,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        codec: Codec = Codec.NONE,
    ) -> None:
        if target.size_bytes:
            raise IllegalStateError(
                "a snapshot is begun in a file that has content",
                file=target.path,
                found=f"{target.size_bytes} bytes",
                expected="an empty one",
            )
        if kraft_version == 0 and voters is not None:
            raise IllegalStateError(
                "a snapshot has voters only from kraft.version 1 on",
                file=target.path,
                found="kraft.version 0 and voters",
                expected="kraft.version 1, or no voters",
            )
        self._target = target
        self._max_batch_bytes = positive("max_batch_bytes", max_batch_bytes)
        self._codec = Codec(codec)
        self._next_offset = 0
        self._values: list[bytes] = []
        self._batch_timestamp: int | None = None
        self._batch_bytes = 0
        self._measured = 0
        """How many of the values `_batch_bytes` counts as compressed."""
        self._completed: list[bytes] = []
        self._is_begun = False
        header: list[KRaftValue] = [SnapshotHeader(last_contained_log_timestamp)]
        if kraft_version > 0:
            header.append(KRaftVersion(kraft_version))
            if voters is not None:
                header.append(voters)
        self._add_control(header)

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        """What the snapshot covers."""
        return self._target.snapshot_id

    @property
    def is_frozen(self) -> bool:
        """Whether the snapshot is finished."""
        return self._target.is_frozen

    def append(self, records: Iterable[bytes]) -> None:
        """Add records, each as the bytes of its value; all of one call go into one batch.

        Raises
        ------
        IllegalStateError
            The snapshot is frozen.
        RecordBatchTooLargeError
            They do not fit a batch; none was added.
        """
        self._require_unfrozen("add to")
        values = [bytes(one) for one in records]
        overflows = self._add(values)
        if overflows:
            self._complete_batch()
        if overflows or not self._is_begun:
            self._drain()

    def freeze(self) -> int:
        """Write what is left and the footer, and make it a snapshot; returns its size in bytes.

        Raises
        ------
        IllegalStateError
            The snapshot is frozen.
        """
        self._require_unfrozen("freeze")
        self._complete_batch()
        self._add_control([SnapshotFooter()])
        self._drain()
        self._target.freeze()
        return self._target.size_bytes

    def close(self) -> None:
        """End it; what was not frozen is removed."""
        self._target.close()

    def _require_unfrozen(self, what: str) -> None:
        if self._target.is_frozen:
            raise IllegalStateError(
                f"you cannot {what} a snapshot that is frozen",
                file=self._target.path,
                found="frozen",
                expected="a snapshot that is being written",
            )

    def _add(self, values: list[bytes]) -> bool:
        """Add records to the batch; returns whether they needed another one."""
        if not values:
            return False
        if self._batch_timestamp is None:
            self._begin_batch()
        size = self._size_of(values)
        overflows = not self._has_room_for(size)
        if overflows:
            whole = BATCH_HEADER_BYTES + size
            if whole > self._max_batch_bytes:
                raise RecordBatchTooLargeError(
                    "records that are added together do not fit a batch of the snapshot",
                    file=self._target.path,
                    found=f"{whole} bytes",
                    expected=f"at most {self._max_batch_bytes}",
                )
            self._complete_batch()
            self._begin_batch()
            size = self._size_of(values)
        self._values += values
        self._batch_bytes += size
        return overflows

    def _begin_batch(self) -> None:
        self._batch_timestamp = self._target.wall_clock_ms()
        self._batch_bytes, self._measured = BATCH_HEADER_BYTES, 0

    def _size_of(self, values: list[bytes]) -> int:
        """Return how many bytes they are as records of the batch, not compressed."""
        total = 0
        for delta, value in enumerate(values, len(self._values)):
            size = len(value)
            body = FIXED_RECORD_BYTES + len(write_varint(delta)) + len(write_varint(size)) + size
            total += len(write_varint(body)) + body
        return total

    def _has_room_for(self, size: int) -> bool:
        """Whether the batch has room; where it is compressed, by what it has come to so far."""
        if self._batch_bytes + size <= self._max_batch_bytes:
            return True
        if self._codec is Codec.NONE or self._measured == len(self._values):
            return False
        self._batch_bytes, self._measured = len(self._built_batch()), len(self._values)
        return self._batch_bytes + size <= self._max_batch_bytes

    def _built_batch(self) -> bytes:
        builder = self._builder(is_control=False)
        timestamp = self._batch_timestamp or 0
        for number, value in enumerate(self._values):
            builder.append(self._next_offset + number, timestamp, None, value)
        return builder.build()

    def _builder(self, *, is_control: bool) -> RecordsBuilder:
        return RecordsBuilder(
            codec_table(),
            codec=int(Codec.NONE if is_control else self._codec),  # [DUR-95]
            control=is_control,
            base_offset=self._next_offset,
            partition_leader_epoch=self.snapshot_id.epoch,
        )

    def _complete_batch(self) -> None:
        if self._values:
            self._completed.append(self._built_batch())
            self._next_offset += len(self._values)
        self._values = []
        self._batch_timestamp = None

    def _add_control(self, values: list[KRaftValue]) -> None:
        builder = self._builder(is_control=True)
        timestamp = self._target.wall_clock_ms()
        for value in values:
            kind, content = encode_kraft_value(value)
            builder.append(self._next_offset, timestamp, struct.pack(">hh", 0, kind), content)
            self._next_offset += 1
        self._completed.append(builder.build())

    def _drain(self) -> None:
        self._is_begun = True
        completed, self._completed = self._completed, []
        for batch in completed:
            self._target.append(batch)


class SnapshotBatch(NamedTuple):
    """One batch of a snapshot."""

    base_offset: int
    last_offset: int
    epoch: int
    append_timestamp: int
    size_bytes: int
    records: tuple[bytes, ...]
    """Values, of a batch of data."""
    control_records: tuple[KRaftValue, ...]


class RecordsSnapshotReader:
    """Reads the batches of a snapshot, in order; iterate it.

    Parameters
    ----------
    source : RawSnapshotReader
        `MetadataLog.read_snapshot` gives it.
    check_crcs : bool
        Compare checksums.
    requires_footer : bool
        A snapshot that ends without its footer is an error. False: it ends silently, as in Kafka.
    """

    def __init__(
        self, source: SnapshotSource, *, check_crcs: bool = True, requires_footer: bool = True
    ) -> None:
        self.snapshot_id = source.snapshot_id
        self._source = source
        self._check_crcs = flag("check_crcs", check_crcs)
        self._requires_footer = flag("requires_footer", requires_footer)
        self._window, self._window_start = b"", 0

    @property
    def last_contained_log_offset(self) -> int:
        """The last offset of the log that the snapshot has."""
        return self.snapshot_id.offset - 1

    @property
    def last_contained_log_epoch(self) -> int:
        """Its leader epoch."""
        return self.snapshot_id.epoch

    @property
    def last_contained_log_timestamp(self) -> int:
        """The timestamp of its batch, in ms, from the header of the snapshot.

        Raises
        ------
        IllegalStateError
            The snapshot does not begin with its header, or is empty.
        """
        first = next(self._batches(), None)
        if first is None:
            raise self._no_header("no batch")
        value: Any = first.control_records[0]
        timestamp: int = value.last_contained_log_timestamp
        return timestamp

    def __iter__(self) -> Iterator[SnapshotBatch]:
        """Yield the batches.

        Raises
        ------
        IllegalStateError
            The snapshot does not begin with its header.
        CorruptRecordError
            A batch is damaged.
        IllegalArgumentError
            A record is none of the metadata: it has a key, headers, a time of its own, or no value.
        CorruptLogError
            The snapshot is cut: it ends without its footer.
        """
        last = None
        for last in self._batches():
            yield last
        if self._requires_footer:
            ends = last is not None and last.control_records[-1:] == (SnapshotFooter(),)
            if not ends or self._end != self._source.size_bytes:
                raise CorruptLogError(
                    "the snapshot is incomplete: its end is missing",
                    file=self._source.path,
                    position=self._end,
                    found=f"{self._source.size_bytes - self._end} bytes that are no batch",
                    expected="a batch with the footer, as the last one",
                )

    def _batches(self) -> Iterator[SnapshotBatch]:
        position = self._end = 0
        while True:
            size = first_batch_size(self._slice(position, PREFIX_BYTES))
            if size is None or position + size > self._source.size_bytes:
                return
            batch = self._read_batch(self._slice(position, size), position)
            if position == 0:
                self._check_first(batch)
            yield batch
            position = self._end = position + size

    def _slice(self, position: int, size: int) -> bytes:
        start = position - self._window_start
        if start < 0 or start + size > len(self._window):
            self._window_start, start = position, 0
            self._window = self._source.slice(position, max(size, WINDOW_BYTES))
        return self._window[start : start + size]

    def _read_batch(self, data: bytes, position: int) -> SnapshotBatch:
        if self._check_crcs:
            try:
                check_batch(data)
            except SegstoreError as error:
                error.file, error.position = self._source.path, position
                raise
        table, scan = scan_headers(data)
        if scan.why is not None:
            raise scan.why
        header = table[0]
        records = list(iterate_raw_records(data, codec_table()))
        is_control = bool(header.attributes & CONTROL_FLAG)
        return SnapshotBatch(
            header.base_offset,
            header.base_offset + len(records) - 1,
            header.partition_leader_epoch,
            header.max_timestamp,
            header.size_bytes,
            () if is_control else tuple(self._value(one, header, position) for one in records),
            tuple(parse_kraft_record(one.key, one.value) for one in records) if is_control else (),
        )

    def _value(self, record: RawRecord, header: BatchHeader, position: int) -> bytes:
        """Return the value of a data record, which has nothing else."""
        delta = record.timestamp - header.base_timestamp
        wrong = [
            text
            for text, is_wrong in (
                ("a key", record.key is not None),
                ("no value", not record.value),
                ("headers", record.headers),
                (f"a timestamp delta of {delta}", delta),
            )
            if is_wrong
        ]
        if wrong or record.value is None:
            raise IllegalArgumentError(
                f"the record with offset {record.offset} is none of the metadata",
                file=self._source.path,
                position=position,
                found=", ".join(wrong),
                expected="a value alone",
            )
        return record.value

    def _check_first(self, batch: SnapshotBatch) -> None:
        if not batch.control_records:
            raise self._no_header("a batch of data")
        if not isinstance(batch.control_records[0], SnapshotHeader):
            raise self._no_header(type(batch.control_records[0]).__name__)

    def _no_header(self, found: str) -> IllegalStateError:
        return IllegalStateError(
            "this is no snapshot of a metadata log: it does not begin with a snapshot header",
            file=self._source.path,
            position=0,
            found=found,
            expected="a control batch that begins with a snapshot header",
        )
