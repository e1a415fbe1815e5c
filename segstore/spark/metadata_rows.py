"""The rows of the metadata tables, as Arrow batches made from whole columns of header tables.

A batch is a row without becoming an object. Segments, producers, transactions and epochs are few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segstore._core import Directory
from segstore.log.files.partition_directory import file_name
from segstore.log.producers.producer_history import ProducerHistory
from segstore.numpy_on_demand import np
from segstore.records.compression import codec_table
from segstore.types import (
    CODEC_MASK,
    CONTROL_FLAG,
    CURRENT_MAGIC,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
    Codec,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from segstore._core import BatchHeaders
    from segstore.log.scan import LogScan
    from segstore.log.unified_log import Log

CODEC_NAMES = [
    Codec(number).name.lower() if number in set(Codec) else f"unknown-{number}"
    for number in range(CODEC_MASK + 1)
]


def batch_rows(scan: LogScan, *, from_base_offset: int) -> Iterator[dict[str, Any]]:
    """Yield the columns of ``kind=batches`` for the batches that begin at *from_base_offset* on."""
    for segment, table in scan.headers():
        headers = table[table["base_offset"] >= from_base_offset]
        if len(headers):
            yield _batch_columns(segment.base_offset, headers)


def _batch_columns(segment_base_offset: int, headers: BatchHeaders) -> dict[str, Any]:
    import pyarrow as pa

    attributes, magic = headers["attributes"], headers["magic"]
    is_current = magic == CURRENT_MAGIC
    flags = np.where(is_current, attributes, 0)
    horizon = flags & DELETE_HORIZON_FLAG != 0
    span = headers["last_offset"] - headers["base_offset"]
    sequence = headers["base_sequence"].astype(np.int64)
    counts = headers["records_count"]
    timestamp_type = np.where(magic == 0, -1, (attributes & LOG_APPEND_TIME_FLAG != 0).astype(int))
    codecs = pa.DictionaryArray.from_arrays((attributes & CODEC_MASK).astype(np.int8), CODEC_NAMES)
    return {
        "segmentBaseOffset": np.full(len(headers), segment_base_offset),
        "position": headers["position"],
        "size": headers["size_bytes"],
        "baseOffset": pa.array(headers["base_offset"], mask=counts < 0),  # inside a wrapper
        "lastOffset": headers["last_offset"],
        "count": pa.array(counts, mask=counts < 0),
        "baseTimestamp": timestamps(headers["base_timestamp"], horizon),
        "maxTimestamp": timestamps(headers["max_timestamp"]),
        "timestampType": timestamp_type,
        "magic": magic,
        "compresscodec": codecs.dictionary_decode(),
        "partitionLeaderEpoch": headers["partition_leader_epoch"],
        "producerId": headers["producer_id"],
        "producerEpoch": headers["producer_epoch"],
        "baseSequence": headers["base_sequence"],
        "lastSequence": np.where(sequence < 0, -1, (sequence + span) % 2**31),
        "isTransactional": flags & TRANSACTIONAL_FLAG != 0,
        "isControl": flags & CONTROL_FLAG != 0,
        "deleteHorizonMs": pa.array(headers["base_timestamp"], mask=~horizon),
        "crc": headers["crc"],
    }


def segment_rows(log: Log) -> dict[str, Any]:
    """Return the columns of ``kind=segments``."""
    segments = log.segments()
    bases = [segment.base_offset for segment in segments]
    directory = Directory(log.path)
    try:
        sizes = {
            kind: [_size_of(directory, file_name(base, kind)) for base in bases]
            for kind in ("index", "timeindex")
        }
    finally:
        directory.close()
    return {
        "baseOffset": bases,
        "nextOffset": [*bases[1:], log.log_end_offset],
        "size": [segment.size_bytes for segment in segments],
        "indexSize": sizes["index"],
        "timeIndexSize": sizes["timeindex"],
        "firstTimestamp": timestamps([one.first_batch_timestamp() for one in segments]),
        "largestTimestamp": timestamps([one.largest_record_timestamp() for one in segments]),
        "modified": timestamps([segment.modified_ms() for segment in segments]),
        "isActive": [segment is segments[-1] for segment in segments],
        "file": [segment.path for segment in segments],
    }


def producer_rows(log: Log) -> dict[str, Any]:
    """Return the columns of ``kind=producers``, by producer id."""
    producers = sorted(_history(log).producers.values(), key=lambda producer: producer.producer_id)
    return {
        "producerId": [producer.producer_id for producer in producers],
        "producerEpoch": [producer.producer_epoch for producer in producers],
        "lastSequence": [producer.last_sequence for producer in producers],
        "lastOffset": [_known(producer.last_offset) for producer in producers],
        "lastTimestamp": timestamps([producer.last_timestamp for producer in producers]),
        "coordinatorEpoch": [producer.coordinator_epoch for producer in producers],
        "currentTransactionStartOffset": [
            None if producer.transaction is None else producer.transaction.first_offset
            for producer in producers
        ],
    }


def transaction_rows(log: Log) -> dict[str, Any]:
    """Return the columns of ``kind=transactions``, by first offset."""
    found = _history(log).transactions
    return {
        "producerId": [one.producer_id for one in found],
        "producerEpoch": [one.producer_epoch for one in found],
        "state": [one.state for one in found],
        "firstOffset": [one.first_offset for one in found],
        "lastOffset": [one.last_offset for one in found],
        "firstTimestamp": timestamps([one.first_timestamp for one in found]),
        "lastTimestamp": timestamps([one.last_timestamp for one in found]),
        "coordinatorEpoch": [one.coordinator_epoch for one in found],
    }


def epoch_rows(log: Log) -> dict[str, Any]:
    """Return the columns of ``kind=epochs``; each epoch ends where the next one begins."""
    entries = log.leader_epochs
    starts = [entry.start_offset for entry in entries]
    return {
        "leaderEpoch": [entry.epoch for entry in entries],
        "startOffset": starts,
        "endOffset": [*starts[1:], *([max(starts[-1], log.log_end_offset)] if starts else [])],
    }


ROWS_OF_LOGS: Mapping[str, Callable[[Log], dict[str, Any]]] = {
    "segments": segment_rows,
    "producers": producer_rows,
    "transactions": transaction_rows,
    "epochs": epoch_rows,
}
"""What a whole log says, by kind."""


def metadata_batch(
    columns: Mapping[str, Any], topic: str, partition: int | None, schema: pa.Schema
) -> pa.RecordBatch:
    """Put *columns* under *schema*, with topic and partition in every row.

    *partition* is None for a table that has none.
    """
    import pyarrow as pa

    count = len(next(iter(columns.values())))
    constants = {"topic": topic, "partition": partition}
    arrays = []
    for field in schema:
        if field.name in constants:
            array = pa.repeat(pa.scalar(constants[field.name], field.type), count)
        else:
            values = columns[field.name]
            array = values if isinstance(values, pa.Array) else pa.array(values)
            array = array.cast(field.type)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def timestamps(milliseconds: Any, is_other: Any = False) -> pa.Array:  # noqa: FBT002 - no mask
    """Return Arrow timestamps; null for -1, and where *is_other* says that it is no timestamp."""
    import pyarrow as pa

    values = np.asarray(milliseconds, dtype=np.int64)
    return pa.array(values, mask=(values < 0) | is_other).cast(pa.timestamp("ms", tz="UTC"))


def _known(offset: int) -> int | None:
    return offset if offset >= 0 else None


def _size_of(directory: Directory, name: str) -> int | None:
    return directory.info(name).size if directory.exists(name) else None


def _history(log: Log) -> ProducerHistory:
    return ProducerHistory(codec_table()).take(log.scan().headers())
