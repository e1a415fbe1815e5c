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
from tests.conformance.records_kit import COMBINATIONS, build, builder, headers, records, rows

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
