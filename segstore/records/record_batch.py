"""One batch as a view: its header row beside its bytes (Kafka ``RecordBatch``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import base_offset_of, check_batch, iterate_raw_records, iterate_records
from segstore.errors import CorruptRecordError
from segstore.records.compression import codec_table
from segstore.types import (
    CODEC_MASK,
    CONTROL_FLAG,
    CURRENT_MAGIC,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
    Codec,
    TimestampType,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from segstore._core import CodecTable, RawRecord, Record

__all__ = ["RecordBatch"]

MAX_SEQUENCE = 2**31 - 1


class RecordBatch:
    """A batch of a log, a fetch or a producer; records are decoded on request.

    Parameters
    ----------
    header : numpy.void
        A row of the batch-header table; its ``position`` is not used.
    data : memoryview
        The bytes of the batch.
    codecs : CodecTable
        Codecs for the records; default: the shared table.
    topic, partition
        Topic and partition that the records have.
    """

    __slots__ = ("_codecs", "_data", "_header", "_partition", "_topic")

    def __init__(
        self,
        header: np.void,
        data: memoryview,
        codecs: CodecTable | None = None,
        *,
        topic: str = "",
        partition: int = -1,
    ) -> None:
        self._header = header
        self._data = data
        self._codecs = codec_table() if codecs is None else codecs
        self._topic = topic
        self._partition = partition

    def _field(self, name: str) -> int:
        return int(self._header[name])

    @property
    def data(self) -> memoryview:
        """All bytes of the batch: shape ``(size_bytes,)``, format ``B``."""
        return self._data

    @property
    def magic(self) -> int:
        """Version of the format: 2, or 0 and 1 in old logs."""
        return self._field("magic")

    @property
    def position(self) -> int:
        """First byte of the batch in the file or buffer that was scanned."""
        return self._field("position")

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch in bytes."""
        return self._field("size_bytes")

    @property
    def base_offset(self) -> int:
        """First offset of the batch as it was written, also after compaction.

        For a compressed message set (magic 0 and 1) it is the offset of its first message. Finding
        it decompresses the set, and may raise the errors of `records`.
        """
        if self._field("magic") < CURRENT_MAGIC and self.count is None:
            return base_offset_of(self._data, self._codecs)
        return self._field("base_offset")

    @property
    def last_offset(self) -> int:
        """Last offset of the batch as it was written, also after compaction."""
        return self._field("last_offset")

    @property
    def next_offset(self) -> int:
        """One more than the last offset."""
        return self.last_offset + 1

    @property
    def count(self) -> int | None:
        """Number of records in the batch; None when only decoding shows it (magic 0 and 1)."""
        count = self._field("records_count")
        return count if count >= 0 else None

    @property
    def attributes(self) -> int:
        """The attribute bits as stored."""
        return self._field("attributes")

    @property
    def codec(self) -> Codec:
        """Compression of the records; raises ValueError for an unknown id."""
        return Codec(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        """What the timestamps of the records mean."""
        if self.magic == 0:
            return TimestampType.NO_TIMESTAMP_TYPE
        return TimestampType(1 if self.attributes & LOG_APPEND_TIME_FLAG else 0)

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp in ms, -1 when there is none."""
        return self._field("max_timestamp")

    @property
    def base_timestamp(self) -> int:
        """Timestamp in ms that the timestamp deltas of the records are added to."""
        return self._field("base_timestamp")

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time in ms from which compaction may remove tombstones; None when not set."""
        is_set = self.magic > 1 and self.attributes & DELETE_HORIZON_FLAG
        return self.base_timestamp if is_set else None

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.magic > 1 and bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        """Whether the records are markers, not data."""
        return self.magic > 1 and bool(self.attributes & CONTROL_FLAG)

    @property
    def producer_id(self) -> int:
        """Id of the idempotent producer, -1 = none."""
        return self._field("producer_id")

    @property
    def producer_epoch(self) -> int:
        """Epoch of the producer, -1 = none."""
        return self._field("producer_epoch")

    @property
    def base_sequence(self) -> int:
        """Sequence number of the first record, -1 = none."""
        return self._field("base_sequence")

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record as written; after 2^31 - 1 follows 0."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset - self.base_offset) & MAX_SEQUENCE

    @property
    def partition_leader_epoch(self) -> int:
        """Epoch of the leader that wrote the batch, -1 = unknown."""
        return self._field("partition_leader_epoch")

    @property
    def crc(self) -> int:
        """The CRC as stored."""
        return self._field("crc")

    @property
    def offset_of_max_timestamp(self) -> int | None:
        """Offset of the first record with the batch's largest timestamp; None at magic 0."""
        if self.magic == 0:
            return None
        for record in self.raw_records():
            if record.timestamp == self.max_timestamp:
                return record.offset
        return None

    def ensure_valid(self) -> None:
        """Raise CorruptRecordError if the size or the CRC is wrong [format.md 9.2]."""
        check_batch(self._data)

    def is_valid(self) -> bool:
        """Whether size and CRC are right [format.md 9.2]."""
        try:
            check_batch(self._data)
        except CorruptRecordError:
            return False
        return True

    def raw_records(self, iteration: str = "streaming") -> Iterator[RawRecord]:
        """Iterate as Kafka does, see ``_core.iterate_raw_records``; the CRC is not compared."""
        return iterate_raw_records(self._data, self._codecs, iteration=iteration)

    def records(self, *, check_crc: bool = True) -> Iterator[Record]:
        """Yield the decoded records, also those of a control batch.

        Raises
        ------
        CorruptRecordError, InvalidRecordError
            The batch is damaged.
        CodecError, LimitExceededError, UnsupportedFormatError
            The batch cannot be decompressed.
        """
        return iterate_records(
            self._data,
            self._codecs,
            check_crc=check_crc,
            control=True,
            topic=self._topic,
            partition=self._partition,
        )

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self._header, bytes(self._data), self._topic, self._partition)

    def __repr__(self) -> str:
        return (
            f"RecordBatch(magic={self.magic}, offsets=[{self.base_offset}, {self.last_offset}], "
            f"count={self.count}, size_bytes={self.size_bytes}, "
            f"attributes=0x{self.attributes:02x}, leader_epoch={self.partition_leader_epoch})"
        )


def _restored(header: np.void, data: bytes, topic: str, partition: int) -> RecordBatch:
    """Return the batch that was pickled; its records are decoded with the shared codecs."""
    return RecordBatch(header, memoryview(data), topic=topic, partition=partition)
