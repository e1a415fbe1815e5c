"""Kafka's DefaultRecordBatchTest: fields of batches, edits in place, iteration."""

from __future__ import annotations

import random

import pytest

from segstore._core import check_batch, increment_sequence, set_max_timestamp
from segstore.cli.batch_file import BatchFile
from segstore.errors import IllegalArgumentError, InvalidRecordError
from segstore.types import Codec, TimestampType
from tests.kits.records_kit import build, headers, records, rows, simple

BASE_OFFSET = 1234567
RECORDS_COUNT = 57


@pytest.mark.parametrize(
    ("producer", "last_sequence"),
    [
        ({}, -1),
        ({"producer_id": 23423, "producer_epoch": 145, "base_sequence": 983}, 984),
    ],
    ids=["plain", "idempotent"],
)
def test_fields_are_read_back(tmp_path, producer: dict[str, int], last_sequence: int):
    """[format.md 4] DefaultRecordBatchTest.buildDefaultRecordBatch,
    DefaultRecordBatchTest.buildDefaultRecordBatchWithProducerId."""
    data = build(simple(BASE_OFFSET, (1, 2)), **producer)
    (tmp_path / "0.log").write_bytes(data)

    check_batch(data)
    (header,) = headers(data)
    assert (header["base_offset"], header["last_offset"]) == (BASE_OFFSET, BASE_OFFSET + 1)
    assert header["max_timestamp"] == 2
    for name in ("producer_id", "producer_epoch", "base_sequence"):
        assert header[name] == producer.get(name, -1)
    assert rows(data) == simple(BASE_OFFSET, (1, 2))
    with BatchFile(str(tmp_path / "0.log")) as file:
        assert [batch.last_sequence for batch in file.batches()] == [last_sequence]


def test_more_records_than_the_header_counts():
    """[format.md 5] DefaultRecordBatchTest.testInvalidRecordCountTooLittleCompressedV2."""
    data = bytearray(build(simple(), codec=Codec.GZIP))
    data[RECORDS_COUNT : RECORDS_COUNT + 4] = (2).to_bytes(4)

    with pytest.raises(InvalidRecordError):
        records(bytes(data))


def test_a_batch_always_has_a_timestamp_type():
    """[format.md 4.6] DefaultRecordBatchTest.testSetNoTimestampTypeNotAllowed."""
    data = bytearray(build(simple()))

    with pytest.raises(IllegalArgumentError):
        set_max_timestamp(data, int(TimestampType.NO_TIMESTAMP_TYPE), -1)


@pytest.mark.parametrize("codec", list(Codec))
def test_iteration_without_keys_and_values(codec: Codec):
    """[format.md 5] DefaultRecordBatchTest.testSkipKeyValueIteratorCorrectness.

    Sizes without data.
    """
    large = random.Random(1).randbytes(200 * 1024)
    data = build(
        [
            (0, 1, b"a", b"1"),
            (1, 2, b"b", None),
            (2, 3, None, b"3"),
            (3, 4, None, None),
            (4, 1000, b"abc", large),
            (5, 9999, b"abc", b"0", [("k1", b"v1"), ("k2", None)]),
        ],
        codec=codec,
    )

    found = records(data, "skip_key_value")

    assert [(r.size, r.offset, r.timestamp, r.sequence) for r in found] == [
        (9, 0, 1, -1),
        (8, 1, 2, -1),
        (8, 2, 3, -1),
        (7, 3, 4, -1),
        (15 + 204800, 4, 1000, -1),
        (23, 5, 9999, -1),
    ]
    whole = records(data)
    if codec is Codec.NONE:
        assert found == whole
    else:
        assert all(record.key is record.value is None for record in found)
        assert [(r.offset, r.timestamp) for r in whole] == [(r.offset, r.timestamp) for r in found]


def test_sequences_wrap():
    """[format.md 4.2] DefaultRecordBatchTest.testIncrementSequence."""
    assert increment_sequence(5, 5) == 10
    assert increment_sequence(2**31 - 1, 1) == 0
    assert increment_sequence(2**31 - 6, 10) == 4
