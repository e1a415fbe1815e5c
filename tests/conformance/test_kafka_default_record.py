"""Kafka's DefaultRecordTest.

Records whose lengths lie; in the middle of a batch, plain and compressed.
"""

from __future__ import annotations

import gzip

import pytest

from segstore._core import (
    crc32c,
    decode_tuples,
    iterate_raw_records,
    iterate_records,
    write_varlong,
)
from segstore.errors import CorruptRecordError, InvalidRecordError
from segstore.records.compression import codec_table
from segstore.types import Codec
from tests.kits.records_kit import build

HEADER_BYTES = 61
CRC_START = 21
BODY_BYTES = 100
START = bytes([0, 4, 2])  # attributes 0, timestamp delta 2, offset delta 1
NULL = b"\x01"
LENGTH_105 = bytes.fromhex("d201")
COUNT_MINUS_1 = b"\x01"
ITERATIONS = ["streaming", "whole", "skip_key_value"]


def batch_of(section: bytes, codec: Codec) -> bytes:
    """A batch of one record whose section is *section*, with the right CRC."""
    if codec is Codec.GZIP:
        section = gzip.compress(section)
    data = bytearray(build([(0, 0, b"k", b"v")])[:HEADER_BYTES] + section)
    data[8:12] = (len(data) - 12).to_bytes(4)
    data[22] = int(codec)
    data[17:21] = crc32c(bytes(data[CRC_START:])).to_bytes(4)
    return bytes(data)


def body(*parts: bytes) -> bytes:
    """A record that says 100 bytes, filled up with zeros."""
    return bytes([200, 1]) + b"".join([START, *parts]).ljust(BODY_BYTES, b"\0")


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize(
    "section",
    [
        pytest.param(body(LENGTH_105), id="key size"),
        pytest.param(body(NULL, LENGTH_105), id="value size"),
        pytest.param(body(NULL, NULL, COUNT_MINUS_1), id="headers count"),
        pytest.param(body(NULL, NULL, b"\x02", LENGTH_105), id="header key"),
        pytest.param(body(NULL, NULL, b"\x02", b"\x02\x01", LENGTH_105), id="header value"),
        pytest.param(b"\x02\x00", id="timestamp"),
        pytest.param(
            bytes([22, 0]) + write_varlong(2**63 - 1)[:9] + b"\x80", id="too long a varlong"
        ),
        pytest.param(b"\x14", id="nothing behind the size"),
    ],
)
def test_a_record_that_lies_is_refused(section: bytes, codec: Codec):
    """[format.md 5, DUR-87, DUR-88] DefaultRecordTest.testInvalidKeySize.

    DefaultRecordTest.testInvalidKeySizePartial, DefaultRecordTest.testInvalidValueSize,
    DefaultRecordTest.testInvalidValueSizePartial, DefaultRecordTest.testInvalidNumHeadersPartial,
    DefaultRecordTest.testInvalidHeaderKey, DefaultRecordTest.testInvalidHeaderValue,
    DefaultRecordTest.testInvalidHeaderValuePartial,
    DefaultRecordTest.testUnderflowReadingTimestamp, DefaultRecordTest.testInvalidVarlong,
    DefaultRecordTest.testInvalidSizeOfBodyInBytes.
    """
    data = batch_of(section, codec)

    with pytest.raises(InvalidRecordError):
        decode_tuples(data, codec_table())
    with pytest.raises(InvalidRecordError):
        list(iterate_records(data, codec_table()))
    for iteration in ITERATIONS:
        with pytest.raises((InvalidRecordError, CorruptRecordError)):
            list(iterate_raw_records(data, codec_table(), iteration=iteration))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_headers_count_that_is_too_low_is_refused(codec: Codec):
    """[format.md 5] DefaultRecordTest.testBasicSerdeInvalidHeaderCountTooLow."""
    made = build([(0, 0, b"hi", b"there", [("foo", b"value"), ("bar", None)])])
    section = bytearray(made[HEADER_BYTES:])
    count = section.index(b"there") + len(b"there")
    assert section[count] == 4
    section[count] = 2

    with pytest.raises(InvalidRecordError):
        decode_tuples(batch_of(bytes(section), codec), codec_table())


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_record_of_a_batch_without_sequence_has_none(codec: Codec):
    """[format.md 4.2] DefaultRecordTest.testSerdeNoSequence."""
    data = build([(10, 0, b"hi", b"there")], codec=codec, base_offset=0)

    (record,) = iterate_raw_records(data, codec_table())
    assert (record.offset, record.sequence) == (10, -1)
