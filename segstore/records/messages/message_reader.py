"""Messages of Kafka's generated formats, read by schema into a tree of values.

Both forms, fixed and flexible; bounds are checked before anything is taken [DUR-87, DUR-88]. The
errors say what Kafka's say, for a dump prints them.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from segstore.records.utf8_java import decode_utf8

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
_SIZES = {**{kind: layout.size for kind, layout in _NUMBERS.items()}, "uuid": UUID_BYTES}
"""Of elements that all have the same size."""


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

    __slots__ = ("_data", "_flexible", "_last_version", "_position", "_version")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self._version = 0
        self._last_version = 0
        self._flexible = False

    @property
    def remaining(self) -> int:
        """Bytes behind what was read."""
        return len(self._data) - self._position

    def number(self, kind: str) -> int:
        """Read a big-endian number."""
        layout = _NUMBERS[kind]
        start = self._position
        end = start + layout.size
        if end > len(self._data):
            raise underflow()
        self._position = end
        value: int = layout.unpack_from(self._data, start)[0]
        return value

    def unsigned_varint(self) -> int:
        """Read a varint of at most 5 bytes, as a Java ``int``: above 2^31 it is negative."""
        start = self._position
        if start < len(self._data) and self._data[start] <= LOW_BITS:  # most have one byte
            self._position = start + 1
            return self._data[start]
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
        start = self._position
        end = start + size
        if end > len(self._data):
            raise MessageError(
                f"Error reading byte array of {size} byte(s): "
                f"only {self.remaining} byte(s) available"
            )
        if size < 0:
            raise MessageError(str(size))
        self._position = end
        return self._data[start:end]

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
            field.name: read(self, field) for field, read in _plain_fields(fields, self._version)
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
        found: dict[str, Any] = {}
        count = self.unsigned_varint()
        if count == 0:
            return found
        by_tag = _tagged_fields(fields)
        for _ in range(count):
            tag = self.unsigned_varint()
            size = self.unsigned_varint()
            field = by_tag.get(tag)
            if field is None:
                self.array(size)
                continue
            if self._version not in field.versions:
                raise MessageError(f"Tag {tag} is not valid for version {self._version}")
            found[field.name] = _reader_of(field)(self, field)
            if found[field.name] == field.default:
                del found[field.name]
        return found

    def _structure_or_null(self, field: Field) -> Any:
        return self._value(field) if self._is_there(field) else None

    def _array(self, field: Field) -> list[Any] | None:
        count = self.unsigned_varint() - 1 if self._flexible else self.number("int32")
        if count == 0:
            return []
        count = signed(count)
        if count < 0:
            self._null(field)
            return None
        if count > self.remaining:  # an element takes a byte at least
            raise MessageError(
                f"Tried to allocate a collection of size {count}, "
                f"but there are only {self.remaining} bytes remaining."
            )
        size = _SIZES.get(field.kind)
        if size is not None and count * size <= self.remaining:
            return self._fixed(field.kind, count, size)
        return [self._value(field) for _ in range(count)]

    def _fixed(self, kind: str, count: int, size: int) -> list[Any]:
        """Read elements of *size* bytes at once; they are known to be there."""
        start = self._position
        self._position = end = start + count * size
        if kind == "uuid":
            return [_uuid_of(self._data[at : at + size]) for at in range(start, end, size)]
        return [one for (one,) in _NUMBERS[kind].iter_unpack(self._data[start:end])]

    def _is_there(self, field: Field) -> bool:
        """Read the mark in front of a nullable structure."""
        return self.number("int8") >= 0 if field.tag is None else self.unsigned_varint() > 0

    def _value(self, field: Field) -> Any:
        if field.fields is None:
            return _READERS.get(field.kind, MessageReader._number)(self, field)
        if self._version > self._last_version:  # of the message itself Kafka does not look at it
            raise MessageError(f"Can't read version {self._version} of {field.kind}")
        return self._structure(field.fields)

    def _number(self, field: Field) -> int:
        return self.number(field.kind)

    def _bool(self, _: Field) -> bool:
        return self.number("int8") != 0

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

    def _uuid(self, _: Field) -> UUID:
        if self.remaining < UUID_BYTES:
            raise underflow()
        return _uuid_of(self.array(UUID_BYTES))


_READERS: Final[Mapping[str, Callable[[MessageReader, Field], Any]]] = {
    "string": MessageReader._string,  # noqa: SLF001 - its own table
    "bytes": MessageReader._bytes,  # noqa: SLF001
    "uuid": MessageReader._uuid,  # noqa: SLF001
    "bool": MessageReader._bool,  # noqa: SLF001
}
"""How a value is read that is no number."""


def _reader_of(field: Field) -> Callable[[MessageReader, Field], Any]:
    if field.is_array:
        return MessageReader._array  # noqa: SLF001
    if field.fields is None:
        return _READERS.get(field.kind, MessageReader._number)  # noqa: SLF001
    return MessageReader._structure_or_null if field.is_nullable else MessageReader._value  # noqa: SLF001


@lru_cache(1024)
def _plain_fields(
    fields: tuple[Field, ...], version: int
) -> list[tuple[Field, Callable[[MessageReader, Field], Any]]]:
    """Return the fields of a version that have no tag, and how each is read."""
    return [
        (field, _reader_of(field))
        for field in fields
        if field.tag is None and version in field.versions
    ]


@lru_cache(1024)
def _tagged_fields(fields: tuple[Field, ...]) -> dict[int, Field]:
    """Return those that have a tag, by it."""
    return {field.tag: field for field in fields if field.tag is not None}


@lru_cache(4096)
def _uuid_of(data: bytes) -> UUID:
    """Return the id in 16 bytes; most records name one of few topics and directories."""
    return UUID(bytes=data)
