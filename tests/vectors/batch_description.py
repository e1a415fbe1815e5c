"""A batch as the vectors describe it, from what segstore reads."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from segstore._core import scan_batches
from segstore.records.control_record import ControlRecordType, parse_control_key
from segstore.records.memory_records import batches_of
from segstore.records.utf8_java import decode_utf8

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from segstore._core import RawRecord
    from segstore.records.record_batch import RecordBatch

LONG_VALUE_BYTES = 4096


def text_of(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def describe_control(record: RawRecord) -> dict[str, Any]:
    """Type of a control record; what it says is checked where it is built."""
    key = parse_control_key(record.key)
    described: dict[str, Any] = {"type": key.type.name, "type_id": key.type_id}
    if key.type in {ControlRecordType.ABORT, ControlRecordType.COMMIT}:
        assert record.value is not None
        described["coordinator_epoch"] = int.from_bytes(record.value[2:6], signed=True)
    return described


def describe_record(record: RawRecord, *, control: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "sequence": record.sequence,
        "size": record.size,
        "key": text_of(record.key),
        "headers": [[decode_utf8(name), text_of(value)] for name, value in record.headers],
    }
    if record.value is not None and len(record.value) > LONG_VALUE_BYTES:
        described["value_size"] = len(record.value)
        described["value_sha256"] = hashlib.sha256(record.value).hexdigest()
    else:
        described["value"] = text_of(record.value)
    if control:
        described["control"] = describe_control(record)
    return described


def describe_batch(batch: RecordBatch) -> dict[str, Any]:
    current = batch.magic > 1
    return {
        "magic": batch.magic,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "next_offset": batch.next_offset,
        "size": batch.size_bytes,
        "crc": batch.crc,
        "is_valid": batch.is_valid(),
        "timestamp_type": batch.timestamp_type.label,
        "compression": batch.codec.name.lower(),
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence,
        "count": batch.count if current else None,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "partition_leader_epoch": batch.partition_leader_epoch,
        "delete_horizon_ms": batch.delete_horizon_ms,
        **({"base_timestamp": batch.base_timestamp} if current else {}),
        "offset_of_max_timestamp": batch.offset_of_max_timestamp,
        "records": [
            describe_record(record, control=batch.is_control) for record in batch.raw_records()
        ],
    }


def describe_batches(data: Buffer) -> list[dict[str, Any]]:
    """Describe every batch of a buffer that ends with a batch."""
    headers, scan = scan_batches(data, kafka_limits=True)
    assert scan.stop == "complete", scan
    return [describe_batch(batch) for batch in batches_of(headers, memoryview(data))]


def without(batches: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """Leave fields out: sizes and CRCs say nothing where something was compressed anew."""
    return [
        {name: value for name, value in batch.items() if name not in names} for batch in batches
    ]
