"""Random records of Kafka's internal topics, written from the decoders' own tables.

Good and damaged.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from segstore.records.messages.message_schema import LAST_VERSION

if TYPE_CHECKING:
    from random import Random

    from segstore._core import MessageField, MessageSchema

NUMBERS = {
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "bool": ">?",
}
TEXTS = ["", "a", "topic", "ü€😀", '"quoted\\"', "\x00\x1f\x7f\n\t\r\b\f", "x" * 200, "consumer"]
FLOATS = [0.0, -0.0, 1.0, 0.1, 1e7, 9999999.5, 1e-3, 9e-4, 1048576.0, 1.5e300, -1e21]
FRAME_VERSION = 1
UNKNOWN_TAG = 99


def varint(value: int) -> bytes:
    """Unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


class MessageWriter:
    """Writes random fields of a schema in one version."""

    def __init__(self, random: Random, schema: MessageSchema, version: int) -> None:
        self._random = random
        self._version = version
        self._flexible = version in schema.flexible
        self._schema = schema

    def message(self) -> bytes:
        return self._structure(self._schema.fields)

    def _structure(self, fields: tuple[MessageField, ...]) -> bytes:
        present = [field for field in fields if self._version in field.versions]
        data = b"".join(self._field(field) for field in present if field.tag is None)
        if not self._flexible:
            return data
        tags = {
            field.tag: self._field(field)
            for field in present
            if field.tag is not None and self._random.random() < 0.6
        }
        if self._random.random() < 0.1:
            tags[UNKNOWN_TAG] = self._random.randbytes(3)
        return (
            data
            + varint(len(tags))
            + b"".join(
                varint(tag) + varint(len(value)) + value for tag, value in sorted(tags.items())
            )
        )

    def _field(self, field: MessageField) -> bytes:
        if field.is_nullable and self._random.random() < 0.3:
            return self._null(field)
        if not field.is_array:
            return self._there(field) + self._value(field)
        count = self._random.choice([0, 0, 1, 2, 3])
        return self._size(count, ">i") + b"".join(self._value(field) for _ in range(count))

    def _null(self, field: MessageField) -> bytes:
        if field.fields is not None and not field.is_array:
            return b"\xff" if field.tag is None else varint(0)
        if self._flexible:
            return varint(0)
        return b"\xff\xff" if field.kind == "string" and not field.is_array else b"\xff" * 4

    @staticmethod
    def _there(field: MessageField) -> bytes:
        if field.fields is None or not field.is_nullable:
            return b""
        return b"\x01"

    def _size(self, size: int, fixed: str) -> bytes:
        return varint(size + 1) if self._flexible else struct.pack(fixed, size)

    def _value(self, field: MessageField) -> bytes:
        if field.fields is not None:
            return self._structure(field.fields)
        if field.kind == "string":
            text = self._random.choice(TEXTS).encode()
            return self._size(len(text), ">h") + text
        if field.kind == "bytes":
            data = self._random.randbytes(self._random.choice([0, 1, 2, 7, 40]))
            return self._size(len(data), ">i") + data
        if field.kind == "uuid":
            return self._random.choice([bytes(16), self._random.randbytes(16)])
        if field.kind == "float64":
            return struct.pack(">d", self._random.choice(FLOATS))
        size = struct.calcsize(NUMBERS[field.kind])
        return self._random.choice(
            [bytes(size), b"\xff" * size, bytes(size - 1) + b"\x01", self._random.randbytes(size)]
        )


def versions_of(schema: MessageSchema) -> list[int]:
    """Return every version, and one that Kafka does not know."""
    last = schema.versions.last if schema.versions.last < LAST_VERSION else schema.versions.first
    return [*range(schema.versions.first, last + 1), last + 1]


def coordinator_records(
    schemas: dict[str, MessageSchema], random: Random, each: int
) -> list[tuple[bytes, bytes | None]]:
    """Return keys and values of all kinds in all versions."""
    rows: list[tuple[bytes, bytes | None]] = []
    for name, schema in schemas.items():
        if not name.endswith("Value"):
            continue
        key_schema = schemas[name.removesuffix("Value") + "Key"]
        for version in versions_of(schema):
            for _ in range(each):
                key = MessageWriter(random, key_schema, 0).message()
                value = MessageWriter(random, schema, version).message()
                rows.append(
                    (
                        struct.pack(">h", schema.key) + key,
                        None if random.random() < 0.05 else struct.pack(">h", version) + value,
                    )
                )
    return rows


def framed_values(schemas: dict[str, MessageSchema], random: Random, each: int) -> list[bytes]:
    """Return values with frames, of all kinds in all versions."""
    return [
        varint(FRAME_VERSION)
        + varint(schema.key)
        + varint(version)
        + MessageWriter(random, schema, version).message()
        for schema in schemas.values()
        for version in versions_of(schema)
        for _ in range(each)
    ]


def damaged(data: bytes, random: Random) -> bytes:
    """Cut *data*, append to it or change some of its bytes."""
    match random.randrange(3):
        case 0:
            return data[: random.randrange(len(data) + 1)]
        case 1:
            return data + random.randbytes(random.randrange(1, 4))
        case _:
            changed = bytearray(data)
            for _ in range(random.randrange(1, 4)):
                if changed:
                    changed[random.randrange(len(changed))] = random.choice(
                        [0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)]
                    )
            return bytes(changed)
