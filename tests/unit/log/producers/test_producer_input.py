"""Batches that somebody else built, before the append lock is taken [APP-4..6, APP-30..33]."""

from __future__ import annotations

import zlib

import pytest

from segstore import LogConfig, MemoryRecords, _core
from segstore.errors import (
    CorruptRecordError,
    InvalidRecordError,
    RecordTooLargeError,
    SegstoreError,
)
from segstore.log.producers.producer_input import ProducerInput
from segstore.records.compression import codec_table
from segstore.types import AppendOrigin
from tests.kits.log_kit import TIME, at, batch, singleton

LENGTH_AT, MAGIC_AT, CRC_AT, CRC_FROM = 8, 16, 17, 21
COUNT_AT, LAST_DELTA_AT, ATTRIBUTES_AT = 57, 23, 21


def source(**settings) -> ProducerInput:
    return ProducerInput(LogConfig(**settings), codec_table())


def changed(data: bytes, at_byte: int, new: bytes, *, crc: bool = True) -> bytes:
    """A batch with some bytes replaced, and a checksum that says they belong there."""
    made = bytearray(data)
    made[at_byte : at_byte + len(new)] = new
    if crc:
        made[CRC_AT:CRC_FROM] = _core.crc32c(bytes(made[CRC_FROM:])).to_bytes(4)
    return bytes(made)


def test_a_copy_and_its_headers():
    """[APP-4, APP-6] a torn tail is left out; the copy may be written to."""
    given = singleton(b"1") + singleton(b"2") + singleton(b"3")[:-2]
    data, headers, _ = source().analyse(MemoryRecords(given), TIME)
    one = len(singleton(b"1"))
    assert len(data) == 2 * one
    for place in (0, one):  # but for the epoch, which is stamped in the copy
        assert data[place + MAGIC_AT : place + one] == given[place + MAGIC_AT : place + one]
    assert headers["size_bytes"].tolist() == [len(singleton(b"1"))] * 2
    assert not memoryview(data).readonly


def test_nothing():
    """[APP-6] valid bytes 0."""
    data, headers, _ = source().analyse(b"", TIME)
    assert (len(data), len(headers)) == (0, 0)


@pytest.mark.parametrize("cut", [singleton()[:17], singleton()[:-1]])
def test_no_whole_batch(cut):
    """Stricter than Kafka, which appends nothing and says nothing."""
    with pytest.raises(CorruptRecordError, match="no complete batch"):
        source().analyse(cut, TIME)


@pytest.mark.parametrize(
    ("at_byte", "new", "error"),
    [
        (LENGTH_AT, (13).to_bytes(4), CorruptRecordError),
        (LENGTH_AT, (-1).to_bytes(4, signed=True), CorruptRecordError),
        (MAGIC_AT, b"\x03", SegstoreError),
        (CRC_AT, b"\0\0\0\0", CorruptRecordError),
        (65, b"\xff", CorruptRecordError),
    ],
)
def test_damage(at_byte, new, error):
    """[APP-4.7] position and reason; the caller's batch is not looked at further."""
    with pytest.raises(error) as caught:
        source().analyse(changed(singleton(), at_byte, new, crc=False), TIME)
    assert caught.value.position == 0 or "position" in str(caught.value)


@pytest.mark.parametrize("setting", [{}, {"compression_type": "lz4"}])
def test_the_size_of_a_batch(setting):
    """[APP-4.6] before and after a change of the codec [APP-8]."""
    one = singleton(bytes(range(256)) * 4)
    with pytest.raises(RecordTooLargeError) as caught:
        source(max_message_bytes=len(one) - 1, **setting).analyse(one, TIME)
    assert f"{len(one)} bytes are more than max.message.bytes" in str(caught.value)
    source(max_message_bytes=len(one) + 64, **setting).analyse(one, TIME)


@pytest.mark.parametrize(
    "special",
    [
        batch([(None, b"x")], producer_id=5, producer_epoch=0, base_sequence=0),
        batch([(None, b"x")], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True),
        _core.encode_end_transaction_marker(0, TIME, 0, 5, 0, commit=True, coordinator_epoch=0),
    ],
    ids=["idempotent", "transactional", "marker"],
)
def test_who_may_append_what(special):
    """[APP-32] control batches come from a coordinator, or another log; never from a client."""
    is_marker = special[ATTRIBUTES_AT + 1] & 0x20
    if is_marker:
        with pytest.raises(InvalidRecordError, match="no control records"):
            source().analyse(special, TIME)
    origin = AppendOrigin.COORDINATOR if is_marker else AppendOrigin.CLIENT
    assert source().analyse(special, TIME, origin).headers["producer_id"].tolist() == [5]
    kept = source().analyse_with_offsets(special, 5, AppendOrigin.REPLICATION)
    assert bytes(kept.data) == special


def test_a_legacy_batch_is_appended_as_magic_2():
    """[DIFF-10] built again for a leader, kept for a follower."""
    legacy = bytearray(34)
    legacy[8:12] = (22).to_bytes(4)
    legacy[16] = 1
    legacy[18:26] = TIME.to_bytes(8)
    legacy[26:30] = (-1).to_bytes(4, signed=True)
    legacy[30:34] = (0).to_bytes(4)
    legacy[12:16] = zlib.crc32(bytes(legacy[16:])).to_bytes(4)
    data, headers, _ = source().analyse(bytes(legacy), TIME)
    assert headers["magic"].tolist() == [2]
    assert [record.timestamp for record in _core.iterate_records(data, codec_table())] == [TIME]
    kept = source().analyse_with_offsets(bytes(legacy), 0, AppendOrigin.REPLICATION)
    assert bytes(kept.data) == legacy


def test_the_codec_of_the_topic_after_every_check():
    """[APP-30] what is recompressed was checked as it came."""
    to_zstd = source(compression_type="zstd", cleanup_policy="compact")
    with pytest.raises(InvalidRecordError, match="key"):
        to_zstd.analyse(singleton(), TIME)
    data, headers, _ = to_zstd.analyse(batch([(b"k", b"v" * 200)] * 3), TIME)
    assert headers["attributes"].tolist() == [4]
    records = list(_core.iterate_records(data, codec_table()))
    assert [(r.key, r.value, r.timestamp) for r in records] == [(b"k", b"v" * 200, TIME)] * 3
    same = batch([(b"k", b"v" * 200)] * 3, codec=4)
    data, _, _ = to_zstd.analyse(same, TIME)
    assert data[MAGIC_AT:] == same[MAGIC_AT:]  # the same codec: levels are not compared


def test_the_order_of_a_follower():
    """[APP-4.5] ascending; what is newer than its epoch is left out before it is looked at."""
    two = at(3, epoch=1) + at(5, epoch=1)
    replication = AppendOrigin.REPLICATION
    data, headers, _ = source().analyse_with_offsets(two + at(1, epoch=9), 1, replication)
    assert bytes(data) == two
    assert headers["base_offset"].tolist() == [3, 5]
    with pytest.raises(InvalidRecordError, match="ascend"):
        source().analyse_with_offsets(two + at(5, epoch=1), 1, replication)
