"""Kafka's LegacyRecordTest, SimpleLegacyRecordTest and AbstractLegacyRecordBatchTest.

Magic 0 and 1.
"""

from __future__ import annotations

import gzip
from itertools import product

import pytest

from segstore._core import check_batch, set_last_offset, set_max_timestamp
from segstore.errors import IllegalArgumentError, InvalidRecordError
from segstore.types import Codec, TimestampType
from tests.kits.records_kit import as_magic, build, headers, records, rows, simple

LEGACY = [0, 1]
LEGACY_CODECS = [codec for codec in Codec if codec is not Codec.ZSTD]
DATA = [None, b"", b"key", b"\x01" * 1000]
ATTRIBUTES = 17


@pytest.mark.parametrize(("magic", "codec"), list(product(LEGACY, Codec)))
def test_fields_of_a_message(magic: int, codec: Codec):
    """[format.md 7.1] LegacyRecordTest.testFields, LegacyRecordTest.testEquality.

    The codec bits are looked at in the header; what they say of the value is the wrapper's
    business.
    """
    for timestamp, key, value in product((-1, 0, 1), DATA, DATA):
        plain = build([(0, timestamp, key, value)], magic)
        (header,) = headers(plain)
        assert header["magic"] == magic
        assert header["max_timestamp"] == (-1 if magic == 0 else timestamp)
        (record,) = records(plain)
        assert (record.key, record.value) == (key, value)
        assert record.timestamp == (-1 if magic == 0 else timestamp)
        assert record.is_valid
        assert bytes(bytearray(plain)) == plain
        assert build([(0, timestamp, key, value)], magic) == plain

        marked = bytearray(plain)
        marked[ATTRIBUTES] |= int(codec)
        (header,) = headers(bytes(marked), check_crc=False)
        assert header["attributes"] & 7 == codec


@pytest.mark.parametrize("magic", LEGACY)
def test_a_wrapper_at_offset_0_counts_from_0(magic: int):
    """AbstractLegacyRecordBatchTest.testIterateCompressedRecordWithWrapperOffsetZero.

    [format.md 7.2]
    """
    data = bytearray(build(simple(), magic, Codec.GZIP))
    set_last_offset(data, 0)

    assert rows(bytes(data)) == as_magic(simple(), magic)


def test_a_wrapper_below_its_last_message_is_invalid():
    """[format.md 7.2] AbstractLegacyRecordBatchTest.testInvalidWrapperOffsetV1."""
    data = bytearray(build(simple(), 1, Codec.GZIP))
    set_last_offset(data, 1)

    with pytest.raises(InvalidRecordError):
        records(bytes(data))


def test_magic_0_has_no_timestamp():
    """[format.md 7.2] AbstractLegacyRecordBatchTest.testSetLogAppendTimeNotAllowedV0."""
    data = bytearray(build(simple(), 0, Codec.GZIP))

    with pytest.raises(IllegalArgumentError):
        set_max_timestamp(data, int(TimestampType.LOG_APPEND_TIME), 15)
    check_batch(data)


@pytest.mark.parametrize("magic", LEGACY)
def test_zstd_came_with_magic_2(magic: int):
    """[format.md 8] AbstractLegacyRecordBatchTest.testZStdCompressionTypeWithV0OrV1,
    MemoryRecordsBuilderTest.testUnsupportedCompress, MemoryRecordsTest.testUnsupportedCompress."""
    with pytest.raises(IllegalArgumentError, match=f"is not supported for magic {magic}"):
        build(simple(), magic, Codec.ZSTD)


@pytest.mark.parametrize("value", [None, gzip.compress(b"")], ids=["null", "no records"])
def test_a_wrapper_of_nothing_is_invalid(value: bytes | None):
    """[format.md 7.2] SimpleLegacyRecordTest.testCompressedIterationWithNullValue,
    SimpleLegacyRecordTest.testCompressedIterationWithEmptyRecords."""
    data = bytearray(build([(0, 1, None, value)], 1))
    data[ATTRIBUTES] = int(Codec.GZIP)

    with pytest.raises(InvalidRecordError):
        records(bytes(data))


@pytest.mark.parametrize(("magic", "codec"), list(product(LEGACY, LEGACY_CODECS)))
def test_what_was_built_is_read(magic: int, codec: Codec):
    """[format.md 7] Every codec that these magics have."""
    data = build(simple(5), magic, codec)

    for header in headers(data):
        start, size = int(header["position"]), int(header["size_bytes"])
        check_batch(data[start : start + size])
    assert rows(data) == as_magic(simple(5), magic)
