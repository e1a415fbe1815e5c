"""Messages read by schema; more of them in tests/unit/cli/test_decoders.py and tests/fuzz."""

from __future__ import annotations

import struct
import tracemalloc
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import (
    FramedMessages,
    MessageError,
    MessageReader,
    MessageSchema,
    UnknownMessageError,
    UnknownVersionError,
)
from segstore.errors import ArgumentTypeError
from segstore.records.messages.message_schema import ALL_VERSIONS, parse_schemas
from segstore.records.utf8_java import decode_utf8

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMAS = parse_schemas("""
Numbers key=1 versions=0
  bool bool
  int8 int8
  int16 int16
  uint16 uint16
  int32 int32
  uint32 uint32
  int64 int64
  float64 float64
Ids key=2 versions=0-1 flexible=0+
  ids []uuid?
Text key=3 versions=0
  text string?
Tags key=4 versions=0-1 flexible=0+
  last int32 #3
  first Pair? #1
    left int8
    right int8
  lists []int32? 1+ #2=null
""")
NUMBERS = struct.Struct(">?bhHiIqd")
SLOTS = 4096
FEW_BYTES = 20_000


def read(name: str, data: bytes, version: int = 0) -> dict[str, Any]:
    return MessageReader(data).message(SCHEMAS[name], version)


@pytest.mark.parametrize(
    "values",
    [
        (False, 0, 0, 0, 0, 0, 0, 0.0),
        (True, 127, 32767, 65535, 2**31 - 1, 2**32 - 1, 2**63 - 1, 1.5e300),
        (True, -128, -32768, 1, -(2**31), 1, -(2**63), -0.1),
        (False, -1, -1, 256, -1, 2**31, -1, float("-inf")),
    ],
)
def test_numbers_of_all_kinds_are_big_endian(values: tuple[Any, ...]):
    """[format.md 2.3] Their ends included; a truth value stays one."""
    found = read("Numbers", NUMBERS.pack(*values))

    assert tuple(found.values()) == values
    assert list(map(type, found.values())) == [bool, *[int] * 6, float]


@pytest.mark.parametrize("size", range(NUMBERS.size))
def test_a_number_that_is_cut_underflows(size: int):
    """[DUR-87] Java's exception has no text."""
    with pytest.raises(MessageError, match=r"^null$"):
        read("Numbers", bytes(size))


def test_more_ids_than_are_kept_come_as_they_were_written():
    """Ids share places of those that are kept; each is compared."""
    ids = [UUID(int=number << 64 | number) for number in range(3 * SLOTS)]
    ids += [UUID(int=number) for number in range(SLOTS)]
    data = b"".join(one.bytes for one in ids)
    claim = bytes([len(ids) + 1 & 0x7F | 0x80, len(ids) + 1 >> 7 & 0x7F | 0x80, len(ids) + 1 >> 14])

    for _ in range(2):
        assert read("Ids", claim + data + b"\0") == {"ids": ids}


@given(st.lists(st.binary(min_size=16, max_size=16), max_size=20))
def test_any_ids(ids: list[bytes]):
    found = read("Ids", bytes([len(ids) + 1]) + b"".join(ids) + b"\0")

    assert found == {"ids": [UUID(bytes=one) for one in ids]}


@given(st.binary(max_size=60))
def test_text_that_is_no_utf8_reads_as_in_java(data: bytes):
    """[format.md 18.2] As the strings of a dump."""
    found = read("Text", struct.pack(">h", len(data)) + data)

    assert found == {"text": decode_utf8(data)}


def test_tagged_fields_stand_in_the_order_of_the_schema():
    """The bytes have them by their tags, and Kafka's JSON does not; the last of two counts."""
    data = b"\3" + b"\1\4\1\1\2\0" + b"\3\4\0\0\0\7" + b"\3\4\0\0\0\x08"
    undone = b"\2" + b"\3\4\0\0\0\7" + b"\3\4\0\0\0\0"

    assert [*read("Tags", data).items()] == [("last", 8), ("first", {"left": 1, "right": 2})]
    assert read("Tags", undone) == {}
    assert read("Tags", b"\1\2\1\0", 1) == {}  # null, its default
    with pytest.raises(MessageError, match="Tag 2 is not valid for version 0"):
        read("Tags", b"\1\2\1\0", 0)


@pytest.mark.parametrize("name", ["Ids", "Tags"])
@pytest.mark.parametrize("claim", [b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x04"])
def test_a_claimed_count_allocates_nothing(name: str, claim: bytes):
    """[DUR-87, DUR-88] Of elements, of tags, and of the elements of a tagged array."""
    for data in (claim, b"\1\2\5" + claim):
        tracemalloc.start()
        try:
            with pytest.raises(MessageError):
                read(name, data, 1)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

        assert peak < FEW_BYTES


@pytest.mark.parametrize(
    "call",
    [
        lambda: MessageReader(None),  # type: ignore[arg-type]
        lambda: MessageReader(bytearray(2)),  # type: ignore[arg-type]
        lambda: MessageReader(b"").message(None, 0),  # type: ignore[arg-type]
        lambda: FramedMessages([None]),  # type: ignore[list-item]
        lambda: FramedMessages(["schema"]),  # type: ignore[list-item]
        lambda: FramedMessages([]).read("text"),  # type: ignore[arg-type]
        lambda: MessageSchema("a", 0, ALL_VERSIONS, ALL_VERSIONS, None),  # type: ignore[arg-type]
        lambda: MessageSchema.__new__(MessageSchema),  # type: ignore[call-arg]
    ],
)
def test_other_objects_are_refused(call: Callable[[], object]):
    """The core takes the classes of what it reads for granted once they are checked."""
    with pytest.raises(TypeError):
        call()


@pytest.mark.parametrize("field", [None, "name", object()])
def test_what_is_no_field_is_none_of_a_schema(field: Any):
    with pytest.raises(ArgumentTypeError, match=f"a field of a message is {type(field).__name__}"):
        MessageSchema("a", 0, ALL_VERSIONS, ALL_VERSIONS, (field,))


def test_a_frame_names_kind_and_version():
    """[format.md 6.4] One that is not known is an error of its own, which has what was found."""
    messages = FramedMessages(SCHEMAS.values())

    found = messages.read(b"\1\3\0\0\1a")
    assert found == (SCHEMAS["Text"], 0, {"text": "a"})
    assert (found.schema, found.version, found.fields) == found

    with pytest.raises(UnknownMessageError, match="Unknown metadata id 9") as unknown:
        messages.read(b"\1\x09\0")
    assert unknown.value.kind == 9

    assert messages.read(b"\1\3\7\0\1a").version == 7  # as Kafka: by the fields that are known
    with pytest.raises(UnknownVersionError, match="Text has no version 7") as version:
        messages.read(b"\1\3\7\0\1a", known_versions=True)
    assert (version.value.schema, version.value.version) == (SCHEMAS["Text"], 7)

    with pytest.raises(MessageError, match=r"^null$"):
        messages.read(None)
