"""Metadata logs and snapshots for tests, written without Kafka."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any
from uuid import UUID

from segstore._core import RecordsBuilder, write_uvarint
from segstore.log.files.topic_names import METADATA_LOG
from segstore.records.compression import codec_table
from segstore.records.control_batch import build_kraft_batch
from segstore.records.kraft_record import KRaftValue, SnapshotFooter, SnapshotHeader
from segstore.records.messages.message_schema import parse_schemas
from segstore.records.messages.metadata_messages import METADATA_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from segstore._core import MessageField

SCHEMAS = parse_schemas(METADATA_MESSAGES)
FORMATS = {
    "int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "int64": ">q", "float64": ">d",
    "bool": ">?",
}  # fmt: skip
EPOCH = 5
TIMESTAMP = 1_000
TOPIC_ID = UUID(int=7 << 64)


def metadata_record(name: str, version: int | None = None, /, **fields: Any) -> bytes:
    """Return the value of a record; what is not given has its default."""
    schema = SCHEMAS[name]
    version = schema.versions.last if version is None else version
    head = b"".join(write_uvarint(number) for number in (1, schema.key, version))
    present = [field for field in schema.fields if version in field.versions]
    return head + _structure(present, fields)


def _structure(fields: Sequence[MessageField], given: dict[str, Any]) -> bytes:
    plain = b"".join(
        _field(one, given.get(one.name, one.default)) for one in fields if one.tag is None
    )
    tagged = [
        (one.tag, _field(one, given[one.name]))
        for one in fields
        if one.tag is not None and one.name in given
    ]
    parts = [
        write_uvarint(tag or 0) + write_uvarint(len(data)) + data for tag, data in sorted(tagged)
    ]
    return plain + write_uvarint(len(parts)) + b"".join(parts)


def _field(field: MessageField, value: Any) -> bytes:
    if value is None:
        return b"\0"
    if not field.is_array:
        return _one(field, value)
    return write_uvarint(len(value) + 1) + b"".join(_one(field, each) for each in value)


def _one(field: MessageField, value: Any) -> bytes:
    if field.fields is not None:
        return _structure(field.fields, value)
    match field.kind:
        case "uuid":
            return bytes(value.bytes)
        case "string" | "bytes":
            data = value.encode() if field.kind == "string" else value
            return write_uvarint(len(data) + 1) + bytes(data)
    return struct.pack(FORMATS[field.kind], value)


def metadata_batch(offset: int, values: Sequence[bytes], epoch: int = EPOCH) -> bytes:
    """Return a batch of records."""
    builder = RecordsBuilder(codec_table(), base_offset=offset, partition_leader_epoch=epoch)
    for number, value in enumerate(values):
        builder.append(offset + number, TIMESTAMP, None, value)
    return builder.build()


def control_batch(offset: int, value: KRaftValue, epoch: int = EPOCH) -> bytes:
    """Return a batch with one control record."""
    return build_kraft_batch(offset, TIMESTAMP, epoch, value)


def topic_records(name: str = "orders", topic_id: UUID = TOPIC_ID, **config: str) -> list[bytes]:
    """Return the records of a topic with one partition."""
    partition = metadata_record(
        "PartitionRecord", topicId=topic_id, replicas=[1], directories=[UUID(int=9)], isr=[1]
    )
    settings = [
        metadata_record("ConfigRecord", resourceType=2, resourceName=name, name=key, value=value)
        for key, value in config.items()
    ]
    return [metadata_record("TopicRecord", name=name, topicId=topic_id), partition, *settings]


def snapshot_bytes(batches: Sequence[Sequence[bytes]], epoch: int = EPOCH) -> bytes:
    """Return a whole snapshot."""
    data, offset = control_batch(0, SnapshotHeader(TIMESTAMP), epoch), 1
    for batch in batches:
        data += metadata_batch(offset, batch, epoch)
        offset += len(batch)
    return data + control_batch(offset, SnapshotFooter(), epoch)


def write_metadata_log(folder: Path, segments: dict[int, bytes]) -> Path:
    """Write segments by their base offsets; returns the directory."""
    directory = folder / METADATA_LOG
    directory.mkdir(exist_ok=True, parents=True)
    for base, data in segments.items():
        (directory / f"{base:020}.log").write_bytes(data)
    return directory


def write_snapshot(directory: Path, offset: int, data: bytes, epoch: int = EPOCH) -> Path:
    """Write a snapshot; returns the file."""
    file = directory / f"{offset:020}-{epoch:010}.checkpoint"
    file.write_bytes(data)
    return file
