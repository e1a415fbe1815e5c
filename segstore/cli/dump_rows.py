"""A log as rows instead of text: the words of kafka-dump-log, one row a batch or a record.

With ``--deep-iteration`` or contents a row is a record and has its batch's words that readers ask
for, else a batch. The checks are those of the text; what they find goes to stderr.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from segstore.cli.batch_file import BatchFile
from segstore.cli.decoders.record_decoder import StringDecoder
from segstore.cli.dump_control import control_text
from segstore.cli.dump_log import batch_codec, batch_records, first_line, note_order
from segstore.cli.dump_report import MAX_INT
from segstore.cli.output import say
from segstore.records.utf8_java import decode_utf8
from segstore.types import DELETE_HORIZON_FLAG, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import RawRecord
    from segstore.cli.batch_file import FileBatch
    from segstore.cli.dump_report import DumpOptions, Findings

BATCH_COLUMNS: Final = {
    "file": "string",
    "position": "int64",
    "baseOffset": "int64",
    "lastOffset": "int64",
    "count": "int32",
    "baseSequence": "int32",
    "lastSequence": "int32",
    "producerId": "int64",
    "producerEpoch": "int16",
    "partitionLeaderEpoch": "int32",
    "isTransactional": "bool",
    "isControl": "bool",
    "deleteHorizonMs": "int64",
    "timestampType": "string",
    "maxTimestamp": "int64",
    "size": "int32",
    "magic": "int8",
    "compresscodec": "string",
    "crc": "uint32",
    "isvalid": "bool",
}
RECORD_COLUMNS: Final = {
    "file": "string",
    "position": "int64",
    "offset": "int64",
    "timestampType": "string",
    "timestamp": "int64",
    "keySize": "int32",
    "valueSize": "int32",
    "sequence": "int32",
    "headers": "headers",
    "producerId": "int64",
    "producerEpoch": "int16",
    "partitionLeaderEpoch": "int32",
    "isTransactional": "bool",
    "isControl": "bool",
    "control": "string",
    "magic": "int8",
    "crc": "uint32",
    "isValid": "bool",
}
"""``position`` is the batch's; ``crc`` and ``isValid`` are those of messages of magic 0 and 1."""


def columns_of(options: DumpOptions) -> dict[str, str]:
    """Return the columns that *options* ask for, with their types."""
    if not options.deep:
        return dict(BATCH_COLUMNS)
    if options.decoder is None:
        return dict(RECORD_COLUMNS)
    kind = "binary" if isinstance(options.decoder, StringDecoder) else "string"
    return RECORD_COLUMNS | {"key": kind, "payload": kind}


def log_rows(path: str, options: DumpOptions, findings: Findings) -> Iterator[dict[str, Any]]:
    """Yield the rows of the .log or .checkpoint at *path*, each with all columns."""
    valid_bytes = 0
    last_offset = -1
    with BatchFile(path) as file:
        first_line(Path(path).name, file)  # a name of no snapshot is refused as in the text
        for batch in file.batches(0, options.max_bytes):
            if options.deep:
                for record in batch_records(batch, path):
                    last_offset = note_order(path, last_offset, record.offset, findings)
                    yield _record_row(path, batch, record, options)
            else:
                yield _batch_row(path, batch)
            valid_bytes += batch.size_bytes
        trailing_bytes = min(file.size_bytes, options.max_bytes) - valid_bytes
    if trailing_bytes > 0 and options.max_bytes == MAX_INT:
        say(f"Found {trailing_bytes} invalid bytes at the end of {Path(path).name}")


def _batch_row(path: str, batch: FileBatch) -> dict[str, Any]:
    horizon = bool(batch.attributes & DELETE_HORIZON_FLAG)
    return {
        "file": path,
        "position": batch.position,
        "baseOffset": None if batch.is_legacy else batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": None if batch.is_legacy else batch.records_count,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "isTransactional": bool(batch.attributes & TRANSACTIONAL_FLAG),
        "isControl": batch.is_control,
        "deleteHorizonMs": batch.base_timestamp if horizon else None,
        "timestampType": batch.timestamp_type,
        "maxTimestamp": batch.max_timestamp,
        "size": batch.size_bytes,
        "magic": batch.magic,
        "compresscodec": batch_codec(batch, path),
        "crc": batch.crc,
        "isvalid": batch.is_valid,
    }


def _record_row(
    path: str, batch: FileBatch, record: RawRecord, options: DumpOptions
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "file": path,
        "position": batch.position,
        "offset": record.offset,
        "timestampType": batch.timestamp_type,
        "timestamp": record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": None if batch.is_legacy else record.sequence,
        "headers": [{"key": decode_utf8(name), "value": value} for name, value in record.headers],
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "isTransactional": bool(batch.attributes & TRANSACTIONAL_FLAG),
        "isControl": batch.is_control,
        "control": control_text(record.key, record.value)[1:] if batch.is_control else None,
        "magic": batch.magic,
        "crc": record.crc,
        "isValid": record.is_valid,
    }
    if options.decoder is None:
        return row
    if batch.is_control:
        row["key"] = row["payload"] = None
    elif isinstance(options.decoder, StringDecoder):
        row["key"], row["payload"] = record.key, record.value
    else:
        row["key"], row["payload"] = options.decoder.decode(record)
    return row
