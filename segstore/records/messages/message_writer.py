"""Kafka's message structures as bytes: what `MessageReader` reads, in flexible versions."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from segstore._core import write_uvarint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segstore._core import MessageField, MessageSchema

_NUMBERS: Final = {
    "bool": ">?",
    "float64": ">d",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "int8": ">b",
    "uint16": ">H",
    "uint32": ">I",
}
FRAME_VERSION: Final = 1


def framed_message(schema: MessageSchema, version: int, fields: Mapping[str, Any]) -> bytes:
    """Return a message with its frame; a field that is not given has its default.

    Source: [format.md 6.4]; Kafka ``AbstractApiMessageSerde``.
    """
    frame = b"".join(write_uvarint(number) for number in (FRAME_VERSION, schema.key, version))
    return frame + _structure(schema.fields, version, fields)


def _structure(schema: Sequence[MessageField], version: int, given: Mapping[str, Any]) -> bytes:
    present = [field for field in schema if version in field.versions]
    plain = b"".join(
        _field(one, version, given.get(one.name, one.default)) for one in present if one.tag is None
    )
    tagged = sorted(
        (one.tag, _field(one, version, given[one.name]))
        for one in present
        if one.tag is not None and given.get(one.name, one.default) != one.default
    )
    parts = [write_uvarint(tag) + write_uvarint(len(data)) + data for tag, data in tagged]
    return plain + write_uvarint(len(parts)) + b"".join(parts)


def _field(field: MessageField, version: int, value: Any) -> bytes:
    if value is None:
        return write_uvarint(0)
    if not field.is_array:
        return _one(field, version, value)
    elements = b"".join(_one(field, version, each) for each in value)
    return write_uvarint(len(value) + 1) + elements


def _one(field: MessageField, version: int, value: Any) -> bytes:
    if field.fields is not None:
        return _structure(field.fields, version, value)
    match field.kind:
        case "uuid":
            return bytes(value.bytes)
        case "string" | "bytes":
            data = value.encode() if field.kind == "string" else bytes(value)
            return write_uvarint(len(data) + 1) + data
    return struct.pack(_NUMBERS[field.kind], value)
