"""The wrapped builder of every field, edits in place, and iteration by Kafka's rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import (
    RecordsBuilder,
    base_offset_of,
    check_batch,
    decode_tuples,
    first_batch_size,
    iterate_raw_records,
    read_uvarint,
    read_varint,
    read_varlong,
    scan_batches,
    set_last_offset,
    set_max_timestamp,
    set_partition_leader_epoch,
    set_producer_state,
    write_uvarint,
    write_varint,
    write_varlong,
)
from segstore.errors import (
    CodecError,
    CorruptRecordError,
    IllegalArgumentError,
    IllegalStateError,
    InvalidRecordError,
    RecordTypeError,
)
from segstore.records.compression import codec_table
from tests.kits.core_inputs import TIME, resealed

CODECS = codec_table()


def build(magic: int = 2, codec: int = 0, count: int = 3, **options) -> bytes:
    options.setdefault("timestamp_type", 0 if magic else -1)
    builder = RecordsBuilder(CODECS, magic=magic, codec=codec, base_offset=40, **options)
    for i in range(count):
        builder.append(40 + 10 * i, TIME + i, b"k%d" % i, b"v" * 2000)
    return builder.build()


@given(
    st.integers(0, 2),
    st.integers(0, 3),
    st.lists(
        st.tuples(
            st.integers(1, 1000),
            st.integers(-1, 2**60),
            st.none() | st.binary(max_size=60),
            st.none() | st.binary(max_size=3000),
        ),
        max_size=8,
    ),
)
def test_what_is_built_is_read(magic: int, codec: int, rows):
    """[format.md 4, 5, 7] Every format and codec."""
    builder = RecordsBuilder(CODECS, magic=magic, codec=codec, timestamp_type=0 if magic else -1)
    expected = []
    offset = 0
    for step, timestamp, key, value in rows:
        offset += step
        builder.append(offset, timestamp, key, value)
        expected.append((offset, timestamp if magic else -1, key, value))

    data = builder.build()

    assert decode_tuples(data, CODECS) == expected
    _, scan = scan_batches(data)
    assert scan.stop == "complete"
    assert (len(data) == 0) == (not rows)
    if rows and codec:
        raw = list(iterate_raw_records(data, CODECS, check_crc=True))
        assert [(r.offset, r.timestamp, r.key, r.value) for r in raw] == expected
        assert all(record.is_valid in {None, True} for record in raw)
        assert base_offset_of(data, CODECS) == (expected[0][0] if magic < 2 else 0)


@pytest.mark.parametrize(
    "options",
    [
        {"magic": 3},
        {"magic": 0, "timestamp_type": 0},
        {"magic": 1, "timestamp_type": -1},
        {"magic": 2, "timestamp_type": -1},
        {"magic": 1, "codec": 4},
        {"magic": 1, "transactional": True, "producer_id": 1, "producer_epoch": 0},
        {"magic": 0, "timestamp_type": -1, "control": True},
        {"magic": 1, "delete_horizon_ms": 5},
        {"magic": 2, "codec": 7},
        {"transactional": True},
        {"producer_id": 5},
        {"producer_id": 5, "producer_epoch": 1},
    ],
)
def test_a_builder_refuses_what_kafkas_does(options):
    """[format.md 10] MemoryRecordsBuilderTest."""
    with pytest.raises(IllegalArgumentError):
        RecordsBuilder(CODECS, **options)


def test_appends_are_checked():
    builder = RecordsBuilder(CODECS, magic=1)
    with pytest.raises(IllegalArgumentError):
        builder.append(0, TIME, b"", b"", [("h", b"")])
    with pytest.raises(RecordTypeError):
        builder.append(0, TIME, "text", b"")
    builder.append(0, TIME, None, None)
    with pytest.raises(IllegalArgumentError):
        builder.append(0, TIME, None, None)
    assert len(builder.build()) == 34
    with pytest.raises(IllegalStateError):
        builder.build()


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("kept", [0.5, 0.9])
def test_a_broken_stream_gives_the_records_before_the_break(codec: int, kept: float):
    """Kafka's streaming iterator gives as much."""
    builder = RecordsBuilder(CODECS, codec=codec)
    for i in range(200):
        builder.append(i, TIME, None, b"%d" % (i**5) * 400)
    whole = builder.build()
    size = 61 + int((len(whole) - 61) * kept)
    cut = resealed(whole[:8] + (size - 12).to_bytes(4) + whole[12:size])

    records = []
    with pytest.raises((CodecError, InvalidRecordError)):
        records.extend(iterate_raw_records(cut, CODECS))

    assert 0 < len(records) < 200
    assert [record.offset for record in records] == list(range(len(records)))
    with pytest.raises((CodecError, InvalidRecordError)):
        iterate_raw_records(cut, CODECS, iteration="whole")


def test_skipping_leaves_contents_out():
    skipped = list(iterate_raw_records(build(codec=1), CODECS, iteration="skip_key_value"))

    assert [record.offset for record in skipped] == [40, 50, 60]
    assert {(record.key, record.value, record.headers) for record in skipped} == {(None, None, ())}
    with pytest.raises(IllegalArgumentError):
        iterate_raw_records(build(), CODECS, iteration="backwards")


def test_edits_in_place_keep_the_batch_valid():
    """[format.md 4.6]"""
    data = bytearray(build())
    set_last_offset(data, 1020)
    set_partition_leader_epoch(data, 7)
    set_max_timestamp(data, 1, TIME + 500)
    set_producer_state(data, 77, 3, 2**31 - 1)

    check_batch(data)
    headers, _ = scan_batches(data)
    assert (headers["base_offset"][0], headers["last_offset"][0]) == (1000, 1020)
    assert headers["partition_leader_epoch"][0] == 7
    assert [row[1] for row in decode_tuples(data, CODECS)] == [TIME + 500] * 3
    fields = ("producer_id", "producer_epoch", "base_sequence")
    assert [headers[name][0] for name in fields] == [77, 3, 2**31 - 1]

    with pytest.raises(IllegalArgumentError):
        set_max_timestamp(data, -1, TIME)
    with pytest.raises(IllegalArgumentError):
        set_partition_leader_epoch(bytearray(build(1)), 3)
    with pytest.raises(IllegalArgumentError, match="knows no producers"):
        set_producer_state(bytearray(build(1)), 77, 3, 0)
    with pytest.raises(IllegalArgumentError):
        set_max_timestamp(bytearray(build(0)), 0, TIME)
    with pytest.raises(CorruptRecordError):
        set_last_offset(data[:20], 5)
    with pytest.raises(BufferError):
        set_last_offset(bytes(data), 5)


def test_the_size_of_the_first_batch_needs_its_prefix_only():
    """[format.md 9.1] Kafka: MemoryRecordsTest.testNextBatchSize."""
    data = build()
    assert first_batch_size(data[:16]) is None
    assert first_batch_size(data[:17]) == len(data)
    for damaged in (
        data[:16] + b"\3",
        data[:8] + bytes(9),
        data[:8] + b"\x7f\xff\xff\xff" + data[12:],
    ):
        with pytest.raises(CorruptRecordError):
            first_batch_size(damaged)


def test_a_batch_that_is_not_valid_is_refused():
    """[format.md 9.2]"""
    with pytest.raises(CorruptRecordError):
        check_batch(build()[:-1] + b"?")
    with pytest.raises(CorruptRecordError):
        check_batch(b"")


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
def test_numbers_of_variable_length_come_back(small: int, large: int, rest: bytes):
    """[format.md 2.1]"""
    unsigned = small & 0xFFFFFFFF
    assert read_varint(write_varint(small) + rest)[0] == small
    assert read_varlong(write_varlong(large) + rest) == (large, len(write_varlong(large)))
    assert read_uvarint(write_uvarint(unsigned) + rest) == (unsigned, len(write_uvarint(unsigned)))
    with pytest.raises(InvalidRecordError):
        read_varlong(write_varlong(large)[:-1])


@pytest.mark.parametrize("read", [read_varint, read_uvarint, read_varlong])
def test_numbers_that_do_not_end_are_refused(read):
    """[DUR-88]"""
    with pytest.raises(IllegalArgumentError):
        read(b"\xff" * 11)
    with pytest.raises(InvalidRecordError):
        read(b"")
