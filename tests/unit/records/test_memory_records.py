"""Prebuilt batches, views of single batches, and control records."""

from __future__ import annotations

import numpy as np
import pytest

from segstore._core import encode_empty_batch, encode_end_transaction_marker
from segstore.errors import (
    CorruptRecordError,
    IllegalArgumentError,
    InvalidRecordError,
    RecordTypeError,
    SegstoreError,
)
from segstore.records.control_record import ControlRecord, ControlRecordType, parse_control_record
from segstore.records.memory_records import MemoryRecords
from segstore.types import Codec, TimestampType
from tests.kits.core_inputs import TIME, batch, encoded, run_of_batches


def test_batches_records_and_table_are_those_of_the_bytes():
    data = run_of_batches(3)
    records = MemoryRecords(data)

    assert len(records) == 3
    assert records.size_bytes == len(data)
    assert bytes(records.data) == data
    assert [b.base_offset for b in records.batches()] == [0, 3, 6]
    assert [r.offset for r in records] == list(range(9))
    assert [[r.offset for r in b] for b in records.batches()] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert b"".join(bytes(b.data) for b in records.batches()) == data


@pytest.mark.parametrize(
    "make", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)]
)
def test_any_buffer_will_do(make):
    assert len(MemoryRecords(make(run_of_batches(2)))) == 2


def test_a_cut_batch_at_the_end_is_left_out():
    """[APP-6]"""
    data = run_of_batches(2)
    assert MemoryRecords(data + data[:80]).size_bytes == len(data)
    assert len(MemoryRecords(b"")) == 0


def test_damage_is_found_at_once_unless_told_not_to_look():
    data = bytearray(run_of_batches(2))
    data[-2] ^= 1
    with pytest.raises(CorruptRecordError) as caught:
        MemoryRecords(data)
    assert caught.value.position is not None
    assert len(MemoryRecords(data, check_crc=False)) == 2
    assert [b.is_valid() for b in MemoryRecords(data, check_crc=False).batches()] == [True, False]


def test_what_is_no_buffer_is_refused():
    with pytest.raises(TypeError):
        MemoryRecords("text")
    with pytest.raises(IllegalArgumentError):
        MemoryRecords(memoryview(bytes(100))[::2])


def test_a_batch_says_what_its_header_says():
    data = batch(
        [(TIME + 3, b"k", b"v"), (TIME, b"k", b"v")],
        base_offset=40,
        partition_leader_epoch=6,
        codec=3,
        producer_id=9,
        producer_epoch=2,
        base_sequence=2**31 - 1,
        transactional=True,
    )
    (view,) = MemoryRecords(data).batches()

    assert (view.magic, view.position, view.size_bytes) == (2, 0, len(data))
    assert (view.base_offset, view.last_offset, view.next_offset, view.count) == (40, 41, 42, 2)
    assert (view.codec, view.timestamp_type) == (Codec.LZ4, TimestampType.CREATE_TIME)
    assert (view.base_timestamp, view.max_timestamp, view.delete_horizon_ms) == (
        TIME + 3,
        TIME + 3,
        None,
    )
    assert (view.producer_id, view.producer_epoch, view.base_sequence) == (9, 2, 2**31 - 1)
    assert view.last_sequence == 0  # wraps [format.md 4.2]
    assert (view.is_transactional, view.is_control) == (True, False)
    assert view.partition_leader_epoch == 6
    assert view.crc == int.from_bytes(data[17:21])
    assert view.is_valid()
    assert "offsets=[40, 41]" in repr(view)


def test_horizon_empty_and_marker_batches_are_seen_as_what_they_are():
    horizon = batch([(TIME, b"k", None)], delete_horizon_ms=TIME + 9)
    empty = encode_empty_batch(encoded([(b"k", b"v")] * 2, base_offset=5).headers[0])
    marker = encode_end_transaction_marker(7, TIME, 1, 8, 0, commit=False, coordinator_epoch=3)

    first, second, third = MemoryRecords(horizon + empty + marker).batches()

    assert first.delete_horizon_ms == TIME + 9
    assert (second.count, second.last_offset, list(second)) == (0, 6, [])
    assert third.is_control
    (record,) = third
    assert parse_control_record(record.key, record.value) == ControlRecord(
        ControlRecordType.ABORT, 0, 0, 3
    )
    assert list(MemoryRecords(marker)) == []


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (b"\0\0\0\1", b"\0\0\0\0\0\5", (ControlRecordType.COMMIT, 1, 0, 5)),
        (b"\0\1\0\0", b"\0\2\xff\xff\xff\xff more", (ControlRecordType.ABORT, 0, 1, -1)),
        (b"\0\0\0\2", None, (ControlRecordType.LEADER_CHANGE, 2, 0, None)),
        (b"\0\0\0\6 more", b"", (ControlRecordType.KRAFT_VOTERS, 6, 0, None)),
        (b"\0\0\0\7", b"", (ControlRecordType.UNKNOWN, 7, 0, None)),
        (b"\0\0\xff\xff", b"", (ControlRecordType.UNKNOWN, -1, 0, None)),
    ],
)
def test_control_records_are_read_as_kafka_reads_them(key, value, expected):
    """[DUR-96, format.md 6.1, 6.2]"""
    assert parse_control_record(key, value) == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"", b""),
        (b"\0\0\0", b""),
        (b"\xff\xff\0\0", b"\0\0\0\0\0\5"),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0\0\0\0\0"),
        (b"\0\0\0\1", b"\x80\0\0\0\0\0"),
    ],
)
def test_control_records_that_are_too_short_or_of_a_negative_version_are_invalid(key, value):
    with pytest.raises(InvalidRecordError):
        parse_control_record(key, value)


def test_errors_are_of_one_family():
    assert issubclass(RecordTypeError, SegstoreError)
    assert issubclass(InvalidRecordError, SegstoreError)
