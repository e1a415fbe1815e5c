"""Kafka's MemoryRecordsBuilderTest and the builder's part of MemoryRecordsTest."""

from __future__ import annotations

import pytest

from segstore._core import (
    BatchOptions,
    Record,
    check_batch,
    encode_end_transaction_marker,
    encode_records,
)
from segstore.errors import IllegalArgumentError, IllegalStateError
from segstore.records.compression import codec_table
from segstore.records.control_batch import build_kraft_batch
from segstore.records.control_record import ControlRecordType, parse_control_key
from segstore.records.kraft_record import LeaderChange, LeaderChangeVoter, parse_kraft_record
from segstore.types import Codec
from tests.kits.records_kit import (
    COMBINATIONS,
    as_magic,
    build,
    builder,
    headers,
    records,
    rows,
)

PRODUCER = {"producer_id": 9809, "producer_epoch": 15, "base_sequence": 2342}
ONE = [(0, 0, b"foo", b"bar")]


@pytest.mark.parametrize(("magic", "codec"), COMBINATIONS)
def test_transactional_batches_came_with_magic_2(magic: int, codec: Codec):
    """[format.md 10] MemoryRecordsBuilderTest.testWriteTransactionalRecordSet."""
    if magic < 2:
        with pytest.raises(IllegalArgumentError):
            builder(magic, codec, transactional=True, **PRODUCER)
        return

    data = build(ONE, magic, codec, transactional=True, **PRODUCER)

    (header,) = headers(data)
    assert header["attributes"] & 0x10
    assert rows(data) == ONE


@pytest.mark.parametrize(("magic", "codec"), COMBINATIONS)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"producer_epoch": -1}, id="epoch"),
        pytest.param({"base_sequence": -1}, id="sequence"),
    ],
)
def test_idempotent_batches_have_epoch_and_sequence(magic: int, codec: Codec, fault: dict):
    """[format.md 10] MemoryRecordsBuilderTest.testWriteIdempotentWithInvalidEpoch,
    MemoryRecordsBuilderTest.testWriteIdempotentWithInvalidBaseSequence."""
    with pytest.raises(IllegalArgumentError):
        build(ONE, magic, codec, **(PRODUCER | fault))


@pytest.mark.parametrize("flags", [{"control": True}, {"transactional": True}], ids=str)
def test_markers_need_a_transactional_control_batch(flags: dict[str, bool]):
    """[format.md 6.2] MemoryRecordsBuilderTest.testWriteEndTxnMarkerNonTransactionalBatch,
    MemoryRecordsBuilderTest.testWriteEndTxnMarkerNonControlBatch.

    There is no such batch before magic 2; at magic 2 the one way to write a marker sets both.
    """
    for magic, codec in COMBINATIONS:
        if magic < 2:
            with pytest.raises(IllegalArgumentError):
                builder(magic, codec, producer_id=9809, producer_epoch=15, **flags)

    marker = encode_end_transaction_marker(0, -1, 0, 9809, 15, commit=False, coordinator_epoch=0)

    (header,) = headers(marker)
    assert header["attributes"] & 0x30 == 0x30
    assert header["base_sequence"] == -1


@pytest.mark.parametrize(("magic", "codec"), COMBINATIONS)
def test_a_batch_that_was_built_takes_no_more(magic: int, codec: Codec):
    """MemoryRecordsBuilderTest.shouldThrowIllegalStateExceptionOnAppendWhenClosed.

    [format.md 10]
    """
    made = builder(magic, codec)
    made.append(*ONE[0])
    made.build()

    with pytest.raises(IllegalStateError):
        made.append(1, 0, b"a", b"1")
    with pytest.raises(IllegalStateError):
        made.build()


@pytest.mark.parametrize(("magic", "codec"), COMBINATIONS)
def test_what_is_past_the_limit_is_written_all_the_same(magic: int, codec: Codec):
    """[format.md 10] MemoryRecordsBuilderTest.writePastLimit."""
    made = builder(magic, codec, write_limit=64, estimated_compression_ratio=0.5)
    made.append(0, 0, b"a", b"1")
    made.append(1, 1, b"b", b"2")

    assert not made.has_room_for(2, b"c", b"3")
    made.append(2, 2, b"c", b"3")
    data = made.build()

    assert made.info == ((-1, -1) if magic == 0 else (2, 2))
    expected = [(0, 0, b"a", b"1"), (1, 1, b"b", b"2"), (2, 2, b"c", b"3")]
    assert rows(data) == as_magic(expected, magic)


@pytest.mark.parametrize(("magic", "codec"), COMBINATIONS)
def test_nothing_is_built_of_what_was_aborted(magic: int, codec: Codec):
    """MemoryRecordsBuilderTest.shouldThrowIllegalStateExceptionOnBuildWhenAborted,
    MemoryRecordsBuilderTest.shouldThrowIllegalStateExceptionOnAppendWhenAborted.

    [format.md 10]
    """
    made = builder(magic, codec)
    made.append(*ONE[0])
    made.abort()

    with pytest.raises(IllegalStateError):
        made.build()
    with pytest.raises(IllegalStateError):
        made.append(1, 0, b"a", b"1")
    assert made.is_full
    assert not made.has_room_for(0, b"a", b"1")


@pytest.mark.parametrize(("magic", "codec"), COMBINATIONS)
def test_an_abort_takes_back_what_was_appended(magic: int, codec: Codec):
    """[format.md 10] MemoryRecordsBuilderTest.shouldResetBufferToInitialPositionOnAbort.

    With bytes before the batch: the C test of the same name in test_write_limit.c.
    """
    made = builder(magic, codec)
    empty = made.estimated_size
    made.append(0, 0, b"a", b"1")
    assert made.estimated_size > empty

    made.abort()

    assert made.estimated_size == empty


def test_a_leader_change_is_a_control_batch():
    """[format.md 6.3] MemoryRecordsTest.testBuildLeaderChangeMessage."""
    change = LeaderChange(5, [LeaderChangeVoter(6)], [])
    data = build_kraft_batch(983, 1, 20, change)

    check_batch(data)
    (header,) = headers(data)
    assert (header["base_offset"], header["partition_leader_epoch"]) == (983, 20)
    assert header["attributes"] & 0x20
    (record,) = records(data)
    assert parse_control_key(record.key).type is ControlRecordType.LEADER_CHANGE
    found = parse_kraft_record(record.key, record.value)
    assert (found.leader_id, [voter.voter_id for voter in found.voters]) == (5, [6])


def split(records_: list[tuple], limit: int, codec: Codec) -> list[int]:
    """Records of each batch that the limit leads to."""
    made = encode_records(records_, BatchOptions(codec=int(codec)), codec_table(), 0, limit)
    return made.headers["records_count"].tolist()


@pytest.mark.parametrize("codec", list(Codec))
def test_one_record_always_has_room(codec: Codec):
    """[format.md 10] MemoryRecordsBuilderTest.testSmallWriteLimit: and then the batch is full."""
    assert split([(b"foo", b"bar")], 1, codec) == [1]
    assert split([(b"foo", b"bar")] * 3, 1, codec) == [1, 1, 1]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_takes_what_it_has_room_for(codec: Codec):
    """[format.md 10] MemoryRecordsTest.testHasRoomForMethod,
    MemoryRecordsTest.testHasRoomForMethodWithHeaders: headers count."""
    small = Record(key=b"key", value=b"value")
    with_headers = Record(key=b"key", value=b"value", headers=[("hello", b"world.world")] * 10)

    assert split([small, small], 1024, codec) == [2]
    assert split([small, small], 120, codec) == [2]
    assert split([small, with_headers], 120, codec) == [1, 1]
