"""From tuples, records and Arrow data to batches (Kafka ``MemoryRecordsBuilder``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segstore._core import BatchOptions, EncodedBatches, Record, encode_columns, encode_records
from segstore.record_columns import BY_THEIR_NAMES, RecordColumns
from segstore.record_rows import refuse_no_rows
from segstore.records.compression import codec_table, compression_level
from segstore.records.frames import (
    FrameReader,
    columns_to_append,
    frame_of,
    require_frame,
)
from segstore.types import NO_PARTITION_LEADER_EPOCH, Codec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from typing import Protocol, SupportsIndex, TypeAlias

    from typing_extensions import Buffer

    from segstore.config.log_config import LogConfig

    class HasArrowStream(Protocol):
        """A table, or a stream of one."""

        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

    class HasArrowArray(Protocol):
        """A record batch."""

        def __arrow_c_array__(self, requested_schema: object | None = None) -> object: ...

    Pair: TypeAlias = tuple[Buffer | None, Buffer | None]
    Triple: TypeAlias = tuple[SupportsIndex | datetime | None, Buffer | None, Buffer | None]
    Records: TypeAlias = Iterable[Pair | Triple | Record] | Record | HasArrowStream | HasArrowArray

__all__ = ["build_batches"]


def build_batches(  # noqa: PLR0913 - how a log builds them
    records: object,
    *,
    config: LogConfig,
    default_timestamp: int,
    columns: RecordColumns = BY_THEIR_NAMES,
    codec: Codec | None = None,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> EncodedBatches:
    """Build batches as a producer sends them: each begins at offset 0.

    Parameters
    ----------
    records : object
        An iterable of ``(key, value)``, ``(timestamp, key, value)`` and :class:`Record`, one
        Record, or a frame: anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``. Keys and
        values are bytes-like or None; in Arrow, binary or string in any of its layouts.
    config : LogConfig
        ``max_message_bytes`` bounds a batch before compression; a larger record makes a batch of
        its own.
    default_timestamp : int
        In ms, for records that have none.
    columns : RecordColumns
        Which columns of a frame are the parts of a record. The other columns that a log's own
        tables have are passed over.
    codec : Codec or None
        None = the one that ``compression_type`` names, uncompressed where it says ``producer``.
    leader_epoch : int
        Written into the batches; -1 = none.

    Raises
    ------
    RecordTypeError
        Naming index and type of what is no record.
    IllegalArgumentError
        For a timestamp below -1, a record that no batch can hold, or a column that would be lost,
        which may be a misspelt one.
    """
    if codec is None:
        codec = codec_of(config)
    options = BatchOptions(
        partition_leader_epoch=leader_epoch,
        codec=int(codec),
        level=compression_level(codec, config),
    )
    codecs = codec_table(config.max_decompressed_batch_bytes, config.max_record_bytes)
    limit = config.max_message_bytes
    frame = frame_of(records)
    if frame is not None:
        if columns.has_json:
            reader = FrameReader(frame, columns)
            frame, columns = reader.stream(), reader.columns
        else:
            frame = columns_to_append(frame, columns)
        return encode_columns(frame, options, codecs, default_timestamp, limit, columns)
    require_frame(records, columns)
    rows = _rows_of(records)
    return encode_records(rows, options, codecs, default_timestamp, limit)


def codec_of(config: LogConfig) -> Codec:
    """Return the codec that *config* wants for records that come without one."""
    if config.compression_type in {"producer", "uncompressed"}:
        return Codec.NONE
    return Codec[config.compression_type.upper()]


def _rows_of(records: object) -> Iterable[object]:
    if isinstance(records, Record):
        return [records]
    refuse_no_rows(records)
    rows: Iterable[Any] = records  # type: ignore[assignment]
    return rows
