"""Kafka's MemoryRecordsTest: what `filterTo` leaves of a log.

What is built again is of magic 2, as since Kafka 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from segstore._core import FilterResult, encode_empty_batch, filter_records
from segstore.errors import IllegalArgumentError, IllegalStateError
from segstore.records.compression import codec_table
from segstore.types import BatchRetention, Codec, TimestampType
from tests.kits.records_kit import COMBINATIONS, as_magic, build, headers, records, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kits.records_kit import Row

DELETE, DELETE_EMPTY, RETAIN_EMPTY = (
    BatchRetention.DELETE,
    BatchRetention.DELETE_EMPTY,
    BatchRetention.RETAIN_EMPTY,
)
FIRST_OFFSETS = [0, 57]
every_format = pytest.mark.parametrize(("magic", "codec"), COMBINATIONS)
every_first_offset = pytest.mark.parametrize("first", FIRST_OFFSETS)


class Filtered(NamedTuple):
    data: bytes
    result: FilterResult


def with_key(data: bytes) -> list[int]:
    """Offsets of the records that Kafka's RetainNonNullKeysFilter keeps."""
    return [record.offset for record in records(data) if record.key is not None]


def filtered(
    data: bytes,
    keep: list[int],
    decide: Callable[[np.void], BatchRetention] = lambda _: DELETE_EMPTY,
    **options: int,
) -> Filtered:
    table = headers(data)
    result = filter_records(
        data,
        table,
        codec_table(),
        decisions=bytes(decide(row) for row in table),
        keep_offsets=np.array(sorted(keep), np.int64),
        **({"now_ms": 0, "delete_retention_ms": 0} | options),
    )
    return Filtered(bytes(result.output), result)


def three_records(first: int) -> list[Row]:
    return [(first, 10, None, b"a"), (first + 1, 11, b"1", b"b"), (first + 2, 12, None, b"c")]


@every_first_offset
@every_format
def test_the_leader_epoch_stays(magic: int, codec: Codec, first: int):
    """[format.md 11] MemoryRecordsTest.testFilterToPreservesPartitionLeaderEpoch."""
    options = {"partition_leader_epoch": 67} if magic == 2 else {}
    data = build(three_records(first), magic, codec, **options)

    left, _ = filtered(data, with_key(data))

    assert headers(left)["partition_leader_epoch"].tolist() == [67 if magic == 2 else -1]


@pytest.mark.parametrize("transactional", [False, True])
@every_format
def test_an_empty_batch_stays_for_its_producer(magic: int, codec: Codec, *, transactional: bool):
    """[format.md 4.5, 11] MemoryRecordsTest.testFilterToEmptyBatchRetention."""
    producer = {"producer_id": 23, "producer_epoch": 5, "base_sequence": 10}
    batch = [(3, 11, b"1", b"v"), (4, 12, b"2", b"v")]
    if magic < 2:
        with pytest.raises(IllegalArgumentError):
            build(batch, magic, codec, transactional=transactional, **producer)
        with pytest.raises(IllegalStateError):
            filtered(build(batch, magic, codec), [], lambda _: RETAIN_EMPTY)
        return
    data = build(
        batch, 2, codec, transactional=transactional, partition_leader_epoch=293, **producer
    )

    left, result = filtered(data, [], lambda _: RETAIN_EMPTY)

    assert (result.messages_read, result.messages_retained) == (2, 0)
    assert (result.bytes_read, result.bytes_retained) == (len(data), 61)
    assert result.max_offset == 4
    assert (result.max_timestamp, result.shallow_offset_of_max_timestamp) == (12, 4)
    (row,) = headers(left)
    assert (row["base_offset"], row["last_offset"], row["records_count"]) == (3, 4, 0)
    assert (row["producer_id"], row["producer_epoch"], row["base_sequence"]) == (23, 5, 10)
    assert (row["partition_leader_epoch"], row["max_timestamp"]) == (293, 12)
    assert row["attributes"] == (0x10 if transactional else 0)


def empty_batch(timestamp: int) -> bytes:
    """Build what compaction left of one record at offset 3."""
    data = build([(3, timestamp, b"k", b"v")], producer_id=23, producer_epoch=5, base_sequence=10)
    return encode_empty_batch(headers(data)[0])


def test_an_empty_batch_stays_again():
    """[format.md 11] MemoryRecordsTest.testEmptyBatchRetention."""
    left, result = filtered(empty_batch(99), [], lambda _: RETAIN_EMPTY)

    assert left == empty_batch(99)
    assert (result.messages_read, result.bytes_retained, result.max_offset) == (0, 61, 3)
    assert (result.max_timestamp, result.shallow_offset_of_max_timestamp) == (99, 3)


@pytest.mark.parametrize("retention", [DELETE, DELETE_EMPTY])
def test_an_empty_batch_goes(retention: BatchRetention):
    """[format.md 11] MemoryRecordsTest.testEmptyBatchDeletion."""
    left, result = filtered(empty_batch(99), [], lambda _: retention)

    assert left == b""
    assert result.bytes_retained == 0


@pytest.mark.parametrize("codec", Codec)
def test_a_tombstone_gives_its_batch_a_horizon(codec: Codec):
    """[format.md 11] MemoryRecordsTest.testBaseTimestampToDeleteHorizonConversion."""
    batch = [(0, 5, b"0", b"0"), (1, 10, b"1", None), (2, 15, b"2", b"2")]
    data = build(batch, 2, codec)

    left, _ = filtered(data, [0, 1, 2], now_ms=1_073_741_822, delete_retention_ms=1)

    (row,) = headers(left)
    assert row["attributes"] & 0x40
    assert row["base_timestamp"] == 1_073_741_823
    assert rows(left) == batch


@every_format
def test_batches_go_unseen(magic: int, codec: Codec):
    """[format.md 11] MemoryRecordsTest.testFilterToBatchDiscard."""
    times = {0: [10], 1: [11, 12], 3: [13, 20, 15], 6: [16]}
    parts = [
        [(at + i, t, b"k", b"v") for i, t in enumerate(stamps)] for at, stamps in times.items()
    ]
    data = b"".join(build(part, magic, codec) for part in parts)
    table = headers(data)
    kept_parts = (
        [parts[0], parts[2]]
        if codec is not Codec.NONE or magic == 2
        else [parts[0], parts[1][:1], *([row] for row in parts[2])]
    )

    left, _ = filtered(
        data,
        [record.offset for record in records(data)],
        lambda row: DELETE if row["last_offset"] in {2, 6} else DELETE_EMPTY,
    )

    assert len(table) > len(headers(left))
    assert headers(left)["last_offset"].tolist() == [part[-1][0] for part in kept_parts]
    assert rows(left) == as_magic([row for part in kept_parts for row in part], magic)


@every_format
def test_a_compacted_log_is_compacted_again(magic: int, codec: Codec):
    """[format.md 4.3, 11] MemoryRecordsTest.testFilterToAlreadyCompactedLog."""
    batch = [(5, 10, None, b"a"), (8, 11, b"1", b"b"), (10, 12, None, b"c")]
    data = build(batch, magic, codec, base_offset=0)

    left, result = filtered(data, with_key(data))

    assert rows(left) == as_magic([batch[1]], magic)
    (row,) = headers(left)
    whole_range = (0, 10) if magic == 2 else (8, 8)
    assert (row["base_offset"], row["last_offset"]) == whole_range
    assert result.max_offset == 8


@every_format
def test_producers_stay(magic: int, codec: Codec):
    """[format.md 4.3, 11] MemoryRecordsTest.testFilterToPreservesProducerInfo."""
    idempotent = {"producer_id": 23, "producer_epoch": 5, "base_sequence": 10}
    transactional = {"producer_id": 99384, "producer_epoch": 234, "base_sequence": 15}
    first_part = [(0, 10, None, b"a"), (1, 11, b"1", b"b"), (2, 12, None, b"c")]
    others = [(3, 20, None, b"d"), (4, 20, b"4", b"e"), (5, 20, b"5", b"f")]
    if magic < 2:
        with pytest.raises(IllegalArgumentError):
            build(others, magic, codec, **idempotent)
        with pytest.raises(IllegalArgumentError):
            build(others, magic, codec, transactional=True, **transactional)
        return
    data = build(first_part, 2, codec) + build(others, 2, codec, **idempotent)
    data += build(others, 2, codec, transactional=True, **transactional)

    left, _ = filtered(data, [1, 4, 5])

    table = headers(left)
    assert table["base_offset"].tolist() == [0, 3, 3]
    assert table["last_offset"].tolist() == [2, 5, 5]
    assert table["records_count"].tolist() == [1, 2, 2]
    assert table["producer_id"].tolist() == [-1, 23, 99384]
    assert table["producer_epoch"].tolist() == [-1, 5, 234]
    assert table["base_sequence"].tolist() == [-1, 10, 15]
    assert (table["attributes"] & 0x10).tolist() == [0, 0, 0x10]
    assert [record.sequence for record in records(left)] == [-1, 11, 12, 16, 17]


@every_first_offset
@every_format
def test_filtering_goes_on_where_it_stopped(magic: int, codec: Codec, first: int):
    """[format.md 11] MemoryRecordsTest.testFilterToWithUndersizedBuffer."""
    big = bytes(128)
    parts = [
        [(0, 10, None, b"a")],
        [(1, 11, b"1", big), (2, 12, b"2", b"c"), (3, 13, None, b"d")],
        [(4, 14, None, b"e"), (5, 15, b"5", b"f"), (6, 16, b"6", b"g")],
        [(7, 17, b"7", big)],
    ]
    moved = [[(first + o, t, k, v) for o, t, k, v in part] for part in parts]
    data = b"".join(build(part, magic, codec) for part in moved)
    left, grew = b"", False

    while data:
        piece, result = filtered(data, with_key(data), destination_capacity=64)
        assert result.bytes_read > 0
        assert result.output_grew == (len(piece) > 64)
        grew = grew or result.output_grew
        left += piece
        data = data[result.bytes_read :]

    assert grew
    kept = [row for part in moved for row in part if row[2] is not None]
    assert len(kept) == 5
    assert rows(left) == as_magic(kept, magic)


@every_first_offset
@every_format
def test_append_times_stay(magic: int, codec: Codec, first: int):
    """[format.md 11] MemoryRecordsTest.testFilterToPreservesLogAppendTime."""
    append_time = 1_700_000_000_000
    options = (
        {"timestamp_type": TimestampType.LOG_APPEND_TIME, "log_append_time": append_time}
        if magic > 0
        else {}
    )
    parts = [
        [(first, 10, None, b"a")],
        [(first + 1, 11, b"1", b"b"), (first + 2, 12, None, b"c")],
        [(first + 3, 13, None, b"d"), (first + 4, 14, b"4", b"e"), (first + 5, 15, b"5", b"f")],
    ]
    data = b"".join(build(part, magic, codec, **options) for part in parts)

    left, result = filtered(data, with_key(data))

    table = headers(left)
    assert len(table) == (3 if magic < 2 and codec is Codec.NONE else 2)
    assert set(table["attributes"] & 0x07) == {codec}
    if magic > 0:
        assert (table["attributes"] & 0x08).all()
        assert set(table["max_timestamp"]) == {append_time}
        assert result.max_timestamp == append_time
        assert {record.timestamp for record in records(left)} == {append_time}
    else:
        assert not (table["attributes"] & 0x08).any()
        assert result.max_timestamp == -1
