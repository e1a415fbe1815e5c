"""The parts of the decoders of internal topics; tests/interop compares their text with Kafka's."""

from __future__ import annotations

import struct

import pytest

from segstore._core import MessageError, MessageReader, RawRecord
from segstore.cli.decoders.cluster_metadata_decoder import ClusterMetadataDecoder
from segstore.cli.decoders.coordinator_decoder import offsets_decoder
from segstore.cli.decoders.json_text import double_text, json_text
from segstore.errors import InvalidRecordError
from segstore.records.messages.message_schema import parse_schemas

TABLE = """
Example key=3 versions=0-2 flexible=1+
  name string
  count int32 1+
  parts []Part?
  note string? 2+ #0=null
  size int64 1+ #1=-1
  struct Part
    id int8
"""
EXAMPLE = parse_schemas(TABLE)["Example"]


def record(key: bytes | None, value: bytes | None) -> RawRecord:
    return RawRecord(7, 0, -1, key, value, (), 0)


@pytest.mark.parametrize(
    ("data", "version", "expected"),
    [
        (b"\0\1a" + b"\0\0\0\1\x05", 0, {"name": "a", "parts": [{"id": 5}]}),
        (b"\0\0" + b"\xff" * 4, 0, {"name": "", "parts": None}),
        (b"\2a\0\0\0\7\2\5\0\0", 1, {"name": "a", "count": 7, "parts": [{"id": 5}]}),
        (
            b"\1\0\0\0\7\1\2\0\2\2n\1\10\0\0\0\0\0\0\0\1",
            2,
            {"name": "", "count": 7, "parts": [], "note": "n", "size": 1},
        ),
        (
            b"\1\0\0\0\7\0\2\1\10" + b"\xff" * 8 + b"\x63\2xx",
            2,
            {"name": "", "count": 7, "parts": None},
        ),
    ],
)
def test_messages_of_both_forms(data: bytes, version: int, expected: dict[str, object]):
    """[format.md 2.3] Tagged fields that have their default, and unknown ones, are left out."""
    reader = MessageReader(data)

    assert reader.message(EXAMPLE, version) == expected
    assert reader.remaining == 0


@pytest.mark.parametrize(
    ("data", "version", "message"),
    [
        (b"", 0, "null"),
        (b"\0\5a", 0, "Error reading byte array of 5 byte(s): only 1 byte(s) available"),
        (b"\xff\xff", 0, "non-nullable field name was serialized as null"),
        (b"\0\0\0\0\0\x09", 0, "Tried to allocate a collection of size 9, but there are only 0"),
        (b"\1\0\0\0\7\1\1\0\2n", 1, "Tag 0 is not valid for version 1"),
        (b"\xff" * 5, 1, "Varint is too long"),
        (b"\xff\xff\x03", 1, "string field name had invalid length 65534"),
    ],
)
def test_what_is_wrong_is_said_in_kafkas_words(data: bytes, version: int, message: str):
    """[DUR-87, DUR-88] Bounds come before anything is taken."""
    with pytest.raises(MessageError) as caught:
        MessageReader(data).message(EXAMPLE, version)

    assert str(caught.value).startswith(message)


def test_a_record_without_key_ends_the_dump():
    """[format.md 18.2] It is none of a coordinator's topic."""
    with pytest.raises(InvalidRecordError, match="missing key"):
        offsets_decoder().decode(record(None, b""))


def test_keys_and_tombstones_of_consumer_offsets():
    """[format.md 18.2] A null value is ``<DELETE>``.

    An unknown kind is named and has no payload.
    """
    key = struct.pack(">h", 2) + b"\0\1g"

    assert offsets_decoder().decode(record(key, None)) == (
        '{"type":"2","data":{"group":"g"}}',
        "<DELETE>",
    )
    assert offsets_decoder().decode(record(b"\0\x63", b"")) == (
        "Unknown record type 99 at offset 7, skipping.",
        None,
    )


def test_frames_of_the_metadata_log():
    """[format.md 6.4] The frame's version, an unknown kind, and bytes that are left."""
    decode = ClusterMetadataDecoder().decode

    assert decode(record(None, b"\x01\x14\0\0")) == (
        None,
        '{"type":"NO_OP_RECORD","version":0,"data":{}}',
    )
    assert "unknown frame version 9" in str(decode(record(None, b"\x09")))
    assert "Unknown metadata id 99" in str(decode(record(None, b"\x01\x63\0")))
    assert "Found 1 byte(s) of garbage after 20" in str(decode(record(None, b"\x01\x14\0\0\0")))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (100.0, "100.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1e-3, "0.001"),
        (9.5e-4, "9.5E-4"),
        (-1.5e300, "-1.5E300"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_numbers_are_printed_as_java_prints_them(value: float, text: str):
    """Java's ``Double.toString``."""
    assert double_text(value) == text


def test_json_is_jacksons():
    """Escapes with capital digits, bytes as base64, numbers that are none as text."""
    tree = {"a": ['\x00\x1f\n"\\\x7fü', b"\xff", None, True, 3, float("nan")]}

    assert json_text(tree) == '{"a":["\\u0000\\u001F\\n\\"\\\\\x7fü","/w==",null,true,3,"NaN"]}'
