"""Messages of Kafka's generated formats, read by schema into a tree of values.

Both forms, fixed and flexible; bounds are checked before anything is taken [DUR-87, DUR-88]. The
errors say what Kafka's say, for a dump prints them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any
from uuid import UUID

from segstore.records.utf8_java import decode_utf8

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.records.messages.message_schema import Field, Schema

LOW_BITS = 0x7F
MAX_STRING_BYTES = 0x7FFF
UUID_BYTES = 16
VARINT_BITS = 28
SIGN = 2**31

_NUMBERS = {
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "uint16": struct.Struct(">H"),
    "int32": struct.Struct(">i"),
    "uint32": struct.Struct(">I"),
    "int64": struct.Struct(">q"),
    "float64": struct.Struct(">d"),
}


class MessageError(Exception):
    """A message that Kafka cannot read either; the text is Kafka's."""


def underflow() -> MessageError:
    """Return what Java's ``BufferUnderflowException`` says: nothing."""
    return MessageError("null")


def signed(value: int) -> int:
    """Return *value* as a Java ``int``."""
    return (value + SIGN) % (2 * SIGN) - SIGN


class MessageReader:
    """Fields out of *data*, one after the other."""

    __slots__ = ("_data", "_flexible", "_last_version", "_position", "_readers", "_version")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self._version = 0
        self._last_version = 0
        self._flexible = False
        self._readers: dict[str, Callable[[Field], Any]] = {
            "string": self._string,
            "bytes": self._bytes,
            "uuid": lambda _: self._uuid(),
            "bool": lambda _: self.number("int8") != 0,
        }

    @property
    def remaining(self) -> int:
        """Bytes behind what was read."""
        return len(self._data) - self._position

    def number(self, kind: str) -> int:
        """Read a big-endian number."""
        layout = _NUMBERS[kind]
        if self.remaining < layout.size:
            raise underflow()
        start = self._position
        self._position += layout.size
        value: int = layout.unpack_from(self._data, start)[0]
        return value

    def unsigned_varint(self) -> int:
        """Read a varint of at most 5 bytes, as a Java ``int``: above 2^31 it is negative."""
        value = 0
        for shift in range(0, VARINT_BITS + 1, 7):
            byte = self.number("int8") & 0xFF
            value |= (byte & LOW_BITS) << shift
            if byte <= LOW_BITS:
                return signed(value)
        # Kafka adds the fifth byte with its sign, then says what came out
        last = byte - 0x100
        text = f"{signed((value & (1 << VARINT_BITS) - 1) | last << VARINT_BITS) % (2 * SIGN):x}"
        raise MessageError(
            "Varint is too long, the most significant bit in the 5th byte is set, "
            f"converted value: {text}"
        )

    def array(self, size: int) -> bytes:
        """Read *size* bytes."""
        if size > self.remaining:
            raise MessageError(
                f"Error reading byte array of {size} byte(s): "
                f"only {self.remaining} byte(s) available"
            )
        if size < 0:
            raise MessageError(str(size))
        start = self._position
        self._position += size
        return self._data[start : self._position]

    def message(self, schema: Schema, version: int) -> dict[str, Any]:
        """Read the fields of *schema* in this version, in the order of Kafka's JSON.

        A tagged field that is not there, or has its default, is left out.
        """
        self._version = version
        self._last_version = schema.versions.last
        self._flexible = version in schema.flexible
        return self._structure(schema.fields)

    def _structure(self, fields: tuple[Field, ...]) -> dict[str, Any]:
        found = {
            field.name: self._field(field)
            for field in fields
            if field.tag is None and self._version in field.versions
        }
        if not self._flexible:
            return found
        tagged = self._tagged(fields)
        if not tagged:
            return found
        return {
            field.name: tagged[field.name] if field.name in tagged else found[field.name]
            for field in fields
            if field.name in tagged or field.name in found
        }

    def _tagged(self, fields: tuple[Field, ...]) -> dict[str, Any]:
        """Read the tagged fields; what equals its default is left out, as in Kafka's JSON."""
        by_tag = {field.tag: field for field in fields if field.tag is not None}
        found: dict[str, Any] = {}
        for _ in range(self.unsigned_varint()):
            tag = self.unsigned_varint()
            size = self.unsigned_varint()
            field = by_tag.get(tag)
            if field is None:
                self.array(size)
                continue
            if self._version not in field.versions:
                raise MessageError(f"Tag {tag} is not valid for version {self._version}")
            found[field.name] = self._field(field)
            if found[field.name] == field.default:
                del found[field.name]
        return found

    def _field(self, field: Field) -> Any:
        if not field.is_array:
            if field.fields is not None and field.is_nullable and not self._is_there(field):
                return None
            return self._value(field)
        count = self.unsigned_varint() - 1 if self._flexible else self.number("int32")
        count = signed(count)
        if count < 0:
            return self._null(field)
        if count > self.remaining:  # an element takes a byte at least
            raise MessageError(
                f"Tried to allocate a collection of size {count}, "
                f"but there are only {self.remaining} bytes remaining."
            )
        return [self._value(field) for _ in range(count)]

    def _is_there(self, field: Field) -> bool:
        """Read the mark in front of a nullable structure."""
        return self.number("int8") >= 0 if field.tag is None else self.unsigned_varint() > 0

    def _value(self, field: Field) -> Any:
        if field.fields is not None:
            if (
                self._version > self._last_version
            ):  # of the message itself Kafka does not look at it
                raise MessageError(f"Can't read version {self._version} of {field.kind}")
            return self._structure(field.fields)
        reader = self._readers.get(field.kind)
        return self.number(field.kind) if reader is None else reader(field)

    @staticmethod
    def _null(field: Field) -> None:
        if not field.is_nullable:
            raise MessageError(f"non-nullable field {field.name} was serialized as null")

    def _string(self, field: Field) -> str | None:
        size = signed(self.unsigned_varint() - 1) if self._flexible else self.number("int16")
        name = f"{field.name} element" if field.is_array else field.name
        if size < 0:
            if field.is_array or not field.is_nullable:
                raise MessageError(f"non-nullable field {name} was serialized as null")
            return None
        if size > MAX_STRING_BYTES:
            raise MessageError(f"string field {name} had invalid length {size}")
        return decode_utf8(self.array(size))

    def _bytes(self, field: Field) -> bytes | None:
        size = signed(self.unsigned_varint() - 1) if self._flexible else self.number("int32")
        if size < 0:
            self._null(field)
            return None
        return self.array(size)

    def _uuid(self) -> UUID:
        if self.remaining < UUID_BYTES:
            raise underflow()
        return UUID(bytes=self.array(UUID_BYTES))
