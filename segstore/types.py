"""Small values and enums that all layers use; this module imports nothing from the engine."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Literal, NamedTuple, TypeAlias

from segstore.errors import IllegalArgumentError

NO_TIMESTAMP = -1
NO_PARTITION_LEADER_EPOCH = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1

# A batch of the current format, and the bits of its attributes [format.md 4.1].
CURRENT_MAGIC = 2
BATCH_HEADER_BYTES = 61
CODEC_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40


class TimestampType(IntEnum):
    """What a record's timestamp means; the values are those of Spark's ``timestampType`` column."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def label(self) -> str:
        """Kafka's name: ``NoTimestampType``, ``CreateTime`` or ``LogAppendTime``."""
        return ("CreateTime", "LogAppendTime", "NoTimestampType")[self.value]


class Codec(IntEnum):
    """Compression codecs, with the ids in the attributes of a batch [format.md 8]."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class AppendOrigin(IntEnum):
    """The kind of writer of a batch, which decides the checks (Kafka ``AppendOrigin``)."""

    REPLICATION = 0
    COORDINATOR = 1
    CLIENT = 2
    RAFT_LEADER = 3


class BatchRetention(IntEnum):
    """What compaction does with a batch (Kafka ``RecordFilter.BatchRetention``)."""

    DELETE = 0
    """Without a look at its records."""
    RETAIN_EMPTY = 1
    """Keep its header when none of its records stays."""
    DELETE_EMPTY = 2


class Isolation(StrEnum):
    """Where the data that a reader sees ends.

    ``read_committed`` ends at the last stable offset and leaves out aborted transactions.
    ``read_uncommitted`` is Kafka's name for ``high_watermark``.
    """

    LOG_END = "log_end"
    HIGH_WATERMARK = "high_watermark"
    DURABLE = "durable"
    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


IsolationName: TypeAlias = Literal[
    "log_end", "high_watermark", "durable", "read_uncommitted", "read_committed"
]


class SpecialTimestamp(IntEnum):
    """Timestamps with a special meaning in ListOffsets [TS-1]."""

    LATEST = -1
    EARLIEST = -2
    MAX = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


class TopicPartition(NamedTuple):
    """A partition of a topic; its directory is ``<topic>-<partition>``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetPosition(NamedTuple):
    """An entry of an offset index: absolute offset, byte position in the ``.log``."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """An entry of a time index: timestamp in ms, absolute offset."""

    timestamp: int
    offset: int


class LargestTimestamp(NamedTuple):
    """The largest timestamp of a segment in ms, and the last offset of a batch that has it.

    ``is_partial``: the segment cannot be read to its end, and a later timestamp may follow.
    """

    timestamp: int
    offset: int
    is_partial: bool


class FileTimestampAndOffset(NamedTuple):
    """The answer to a lookup by timestamp (Kafka ``FileRecords.TimestampAndOffset``).

    ``offset`` is -1 when no record was found.
    """

    timestamp: int
    offset: int
    leader_epoch: int | None


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset written in it."""

    epoch: int
    start_offset: int


class LogOffsetMetadata(NamedTuple):
    """An offset with its segment and byte position (Kafka ``LogOffsetMetadata``) [HW-8].

    Segment and position are -1 when only the offset is known.
    """

    message_offset: int
    segment_base_offset: int = -1
    relative_position_in_segment: int = -1

    @property
    def message_offset_only(self) -> bool:
        """Whether segment and position are unknown."""
        return self.segment_base_offset == -1 and self.relative_position_in_segment == -1

    def on_older_segment(self, that: LogOffsetMetadata) -> bool:
        """Whether this lies in an older segment than *that*; False when a segment is unknown."""
        if self.message_offset_only or that.message_offset_only:
            return False
        return self.segment_base_offset < that.segment_base_offset

    def on_same_segment(self, that: LogOffsetMetadata) -> bool:
        """Whether both lie in one segment; False when a segment is unknown."""
        if self.message_offset_only or that.message_offset_only:
            return False
        return self.segment_base_offset == that.segment_base_offset

    def position_diff(self, that: LogOffsetMetadata) -> int:
        """Return the bytes from *that* to this, both in one segment [HW-8].

        Raises
        ------
        IllegalArgumentError
            They are in different segments, or a position is unknown.
        """
        if not self.on_same_segment(that):
            raise IllegalArgumentError(
                f"bytes are counted between two places of one segment, not from {that} to {self}",
                found=f"segments {that.segment_base_offset} and {self.segment_base_offset}",
                expected="two places of one segment",
            )
        return self.relative_position_in_segment - that.relative_position_in_segment


class LogAppendInfo(NamedTuple):
    """What an append did (Kafka ``LogAppendInfo``).

    Attributes
    ----------
    base_offset, last_offset : int
        First and last offset of the records; -1, -1 for an empty append.
    max_timestamp : int
        Largest record timestamp in ms, -1 when none has one.
    log_append_time : int
        LogAppendTime of the records in ms, -1 for CreateTime.
    log_start_offset : int
        Log start at the time of the append.
    records_count, size_bytes : int
        Records and bytes written.
    durable_offset : int
        Records below it were durable when the append returned.
    is_duplicate : bool
        The producer had sent the batch before. Nothing was appended; the offsets are those of the
        first time.
    """

    base_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time: int
    log_start_offset: int
    records_count: int
    size_bytes: int
    durable_offset: int
    is_duplicate: bool = False
