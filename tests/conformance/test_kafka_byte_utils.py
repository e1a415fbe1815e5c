"""Kafka's ByteUtilsTest, Crc32CTest and ChecksumsTest.

Fixed-size numbers are in tests/c/test_bytes.c.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import (
    crc32c,
    read_uvarint,
    read_varlong,
    write_uvarint,
    write_varint,
    write_varlong,
)
from segstore.errors import IllegalArgumentError

TEXT = b"Any String you want"


def naive_uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (17179869183, "feffffff7f"),
        (-17179869184, "ffffffff7f"),
        (17179869184, "808080808001"),
        (-17179869185, "818080808001"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
        *(
            (value, write_varint(value).hex())
            for value in (0, -1, 1, 63, -64, 64, -65, 8191, -8193)
        ),
    ],
)
def test_varlongs(value: int, text: str):
    """[format.md 2.1] ByteUtilsTest.testVarlongSerde."""
    assert write_varlong(value).hex() == text
    assert read_varlong(bytes.fromhex(text)) == (value, len(text) // 2)


@pytest.mark.parametrize("bit", [34, 41, 48, 55, 62])
def test_varlongs_grow_at_each_seventh_bit(bit: int):
    """[format.md 2.1] ByteUtilsTest.testVarlongSerde."""
    for value in (2**bit - 1, -(2**bit)):
        assert len(write_varlong(value)) == (bit + 1) // 7
        assert read_varlong(write_varlong(value)) == (value, (bit + 1) // 7)
    for value in (2**bit, -(2**bit) - 1):
        assert len(write_varlong(value)) == (bit + 1) // 7 + 1
        assert read_varlong(write_varlong(value))[0] == value


def test_a_varlong_of_eleven_bytes_is_refused():
    """[DUR-88] ByteUtilsTest.testInvalidVarlong."""
    with pytest.raises(IllegalArgumentError):
        read_varlong(b"\xff" * 10 + b"\x01")


def test_unsigned_varints_are_those_of_the_loop():
    """[format.md 2.1] ByteUtilsTest.testCorrectnessReadUnsignedVarint."""
    for value in [*range(0, 100_000, 13), *range(0, 2**31, 2**31 // 9973)]:
        assert read_uvarint(naive_uvarint(value)) == (value, len(naive_uvarint(value)))
        assert write_uvarint(value) == naive_uvarint(value)


@given(st.binary(max_size=100), st.integers(0, 100))
def test_a_checksum_goes_on_where_another_ended(data: bytes, cut: int):
    """[format.md 2.2] Crc32CTest.testUpdate, with any text and any cut."""
    whole = crc32c(data)

    assert crc32c(data[cut:], crc32c(data[:cut])) == whole


def test_a_checksum_byte_by_byte_and_of_numbers():
    """[format.md 2.2] Crc32CTest.testUpdate, ChecksumsTest.testUpdateInt.

    ChecksumsTest.testUpdateLong.
    """
    value = 0
    for byte in TEXT:
        value = crc32c(bytes([byte]), value)
    assert value == crc32c(TEXT)

    for data in (struct.pack(">i", 1000), struct.pack(">q", -2147483648)):
        value = crc32c(TEXT)
        for byte in data:
            value = crc32c(bytes([byte]), value)
        assert value == crc32c(TEXT + data)
