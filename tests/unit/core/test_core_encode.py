"""Batches from tuples and records: what is accepted, where batches end [format.md 10]."""

from __future__ import annotations

import array
import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import (
    BatchOptions,
    CodecTable,
    Record,
    batch_header_dtype,
    decode_tuples,
    encode_empty_batch,
    encode_end_transaction_marker,
    encode_records,
    iterate_raw_records,
    scan_batches,
)
from segstore.errors import CodecMissingError, IllegalArgumentError, RecordTypeError
from segstore.records.compression import codec_table
from tests.kits.core_inputs import MEGABYTE, TIME, batch, encoded

payloads = st.none() | st.binary(max_size=300)
pairs = st.tuples(payloads, payloads)
triples = st.tuples(st.none() | st.integers(-1, 2**62), payloads, payloads)
codecs = st.sampled_from([0, 1, 2, 3, 4])


def expanded(records) -> list[tuple]:
    """(timestamp, key, value) of what was given."""
    return [(TIME if len(r) == 2 or r[0] is None else r[0], *r[-2:]) for r in records]


@given(st.lists(pairs | triples, max_size=30), codecs, st.integers(100, 1000))
def test_what_is_encoded_decodes_to_the_same(records, codec: int, limit: int):
    batches = encoded(records, codec=codec, limit=limit)

    found = decode_tuples(batches, codec_table())

    assert [row[1:] for row in found] == expanded(records)
    assert batches.records_count == len(records)


@given(st.lists(pairs, min_size=1, max_size=30), st.integers(70, 400))
def test_batches_end_where_the_next_record_would_not_fit(records, limit: int):
    headers = encoded(records, limit=limit).headers

    for row in headers[headers["records_count"] > 1]:
        assert row["size_bytes"] <= limit
    sizes = [len(batch([record], timestamp=TIME)) - 61 for record in records]
    position = 0
    for row in headers[:-1]:  # one more would have been too large
        position += int(row["records_count"])
        assert row["size_bytes"] + sizes[position] > limit - 2  # an offset delta may grow by a byte


@given(st.lists(pairs | triples, min_size=1, max_size=20), codecs)
def test_the_table_is_what_a_scan_of_the_bytes_finds(records, codec: int):
    batches = encoded(records, codec=codec, limit=200, partition_leader_epoch=5)

    headers, result = scan_batches(batches)

    assert result.stop == "complete"
    assert headers.dtype == batch_header_dtype()
    np.testing.assert_array_equal(headers, batches.headers)
    assert batches.size_bytes == len(bytes(batches)) == result.valid_bytes


def test_the_bytes_of_an_uncompressed_batch_are_kafkas():
    """[format.md 5] from the vectors: MemoryRecordsBuilder of Kafka 4.3.1, records-0001."""
    record = Record(
        value=base64.b64decode(
            "e4rgnSuZongUpwoiiLMfIJtT5SoukuisK8of9P4tcPcNRYs5uiQQ6bWAwuWg7xPk+8CtzbNigCE="
        ),
        key=b"",
        headers=[
            ("\u00fc\u4e2d\U0001f600", None),
            ("trace", base64.b64decode("/jlXPhHY")),
            ("", None),
        ],
        timestamp=253402300799999,
    )
    expected = base64.b64decode(
        "AAAAAAAAAAAAAACLf////wLda43lAAAAAAAAAADmd9If2/8AAOZ30h/b////////////////////AAAAAbABAAAA"
        "AHB7iuCdK5mieBSnCiKIsx8gm1PlKi6S6Kwryh/0/i1w9w1Fizm6JBDptYDC5aDvE+T7wK3Ns2KAIQYSw7zkuK3w"
        "n5iAAQp0cmFjZQz+OVc+EdgAAQ=="
    )

    assert batch([record], partition_leader_epoch=2147483647) == expected


def test_a_record_larger_than_the_limit_makes_a_batch_of_its_own():
    headers = encoded([(None, b"a"), (None, b"b" * 500), (None, b"c")], limit=100).headers

    assert headers["records_count"].tolist() == [1, 1, 1]
    assert headers["size_bytes"][1] > 500


def test_each_batch_begins_at_the_base_offset_and_sequences_go_on():
    headers = encoded(
        [(None, b"x" * 40)] * 6,
        limit=170,
        base_offset=7,
        producer_id=1,
        producer_epoch=0,
        base_sequence=2**31 - 3,
    ).headers

    assert headers["base_offset"].tolist() == [7, 7, 7]
    assert headers["last_offset"].tolist() == [8, 8, 8]
    assert headers["base_sequence"].tolist() == [
        2**31 - 3,
        2**31 - 1,
        1,
    ]  # wraps to 0, not to negative


@pytest.mark.parametrize(
    "make",
    [
        bytearray,
        memoryview,
        lambda data: array.array("B", data),
        lambda data: np.frombuffer(data, np.uint8),
    ],
)
def test_anything_with_a_buffer_is_a_key_or_value(make):
    records = [(make(b"k"), make(b"value")), (None, make(b"")), (make(b""), None)]

    assert [row[2:] for row in decode_tuples(encoded(records), codec_table())] == [
        (b"k", b"value"),
        (None, b""),
        (b"", None),
    ]


@pytest.mark.parametrize(
    "container", [list, tuple, iter, lambda items: (item for item in items), dict.fromkeys]
)
def test_any_iterable_of_records_will_do(container):
    records = [(b"k%d" % i, b"v") for i in range(5)]

    assert [row[2] for row in decode_tuples(encoded(container(records)), codec_table())] == [
        k for k, _ in records
    ]


@pytest.mark.parametrize(
    ("item", "found"),
    [
        (b"value", "bytes"),
        ("text", "str"),
        ((b"v",), "a tuple of 1"),
        ((1, b"k", b"v", ()), "a tuple of 4"),
        ([b"k", b"v"], "list"),
        (None, "NoneType"),
        (5, "int"),
    ],
)
def test_what_is_no_record_is_named_with_its_index(item, found):
    with pytest.raises(RecordTypeError) as caught:
        encoded([(b"k", b"v"), item])
    assert "record 1" in str(caught.value)
    assert caught.value.found == found


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (("text", b"v"), "the key is str: encode it"),
        ((b"k", "text"), "the value is str: encode it"),
        ((b"k", 5), "the value is int"),
        ((b"k", memoryview(b"abcdef")[::2]), "the value is memoryview"),
        ((1.5, b"k", b"v"), "the timestamp is float"),
        (("now", b"k", b"v"), "the timestamp is str"),
    ],
)
def test_wrong_types_inside_a_record_are_named(item, text):
    with pytest.raises(RecordTypeError) as caught:
        encoded([(b"k", b"v"), item])
    assert f"record 1: {text}" in str(caught.value)


@pytest.mark.parametrize("timestamp", [-2, -(2**63), 2**63, -(2**63) - 1])
def test_timestamps_out_of_range_are_refused(timestamp: int):
    with pytest.raises(IllegalArgumentError):
        encoded([(timestamp, b"k", b"v")])


@pytest.mark.parametrize(
    "options",
    [
        {"base_offset": -1},
        {"codec": 5},
        {"codec": -1},
        {"transactional": True},
        {"producer_id": 1},
        {"producer_id": 1, "producer_epoch": 0},
        {"producer_id": -2},
        {"delete_horizon_ms": -2},
        {"base_offset": 2**63 - 1},
    ],
)
def test_options_that_kafka_refuses_are_refused(options):
    """[format.md 10]"""
    with pytest.raises(IllegalArgumentError):
        encoded([(b"k", b"v"), (b"k", b"v")], **options)


def test_a_codec_without_provider_is_named():
    with pytest.raises(CodecMissingError, match="zstd"):
        encode_records([(b"k", b"v")], BatchOptions(codec=4), CodecTable({}), 0, MEGABYTE)


def test_nothing_makes_no_batch():
    batches = encoded([])

    assert bytes(batches) == b""
    assert len(batches.headers) == 0
    assert batches.records_count == 0


def test_a_list_that_is_emptied_meanwhile_is_read_as_far_as_it_goes():
    records = [(b"k", b"x" * 50)] * 10

    def compress(data: bytes, _level: int) -> bytes:
        records.clear()  # other code runs while a batch is compressed
        return data

    table = CodecTable({1: ("meddling", compress, bytes)})

    assert (
        encode_records(records, BatchOptions(codec=1), table, TIME, 300).records_count == 5
    )  # the one at hand


def test_the_bytes_can_be_written_to_and_pin_their_memory():
    batches = encoded([(b"k", b"v")])
    view = memoryview(batches)
    del batches

    view[0] = 9

    assert not view.readonly
    assert view[0] == 9


def test_horizon_batches_keep_their_timestamps():
    """[format.md 4.4]: the deltas count from the horizon."""
    data = batch([(TIME, b"k", None), (TIME + 5, b"k", b"v")], delete_horizon_ms=TIME + 1000)

    headers, _ = scan_batches(data)

    assert headers["base_timestamp"][0] == TIME + 1000
    assert headers["attributes"][0] == 0x40
    assert [row[1] for row in decode_tuples(data, codec_table())] == [TIME, TIME + 5]


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_markers_have_78_bytes(commit):
    """[format.md 6.2]"""
    data = encode_end_transaction_marker(5, TIME, 3, 1000, 2, commit=commit, coordinator_epoch=9)

    (record,) = iterate_raw_records(data, codec_table(), check_crc=True)
    headers, _ = scan_batches(data)

    assert len(data) == 78
    assert record.key == bytes((0, 0, 0, commit))
    assert record.value == bytes((0, 0, 0, 0, 0, 9))
    assert headers["attributes"][0] == 0x30
    assert decode_tuples(data, codec_table()) == []  # markers are no data
    with pytest.raises(IllegalArgumentError):
        encode_end_transaction_marker(5, TIME, 3, -1, 2, commit=commit, coordinator_epoch=9)


def test_an_empty_batch_keeps_what_compaction_must_not_lose():
    """[format.md 4.5]"""
    source = encoded(
        [(b"k", b"v")] * 4,
        base_offset=10,
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
        codec=1,
    )

    data = encode_empty_batch(source.headers[0])
    (row,), result = scan_batches(data)

    assert (len(data), result.stop) == (61, "complete")
    assert (row["base_offset"], row["last_offset"], row["records_count"]) == (10, 13, 0)
    assert (row["producer_id"], row["base_sequence"], row["attributes"]) == (7, 3, 0)
    assert row["max_timestamp"] == TIME
    assert decode_tuples(data, codec_table()) == []
    with pytest.raises(IllegalArgumentError):
        encode_empty_batch(np.zeros(1, "i8")[0])
