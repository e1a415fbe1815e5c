"""The object of one record: values, equality, pickling, headers."""

from __future__ import annotations

import gc
import pickle
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import Record, iterate_records
from segstore.errors import IllegalStateError, RecordTypeError
from segstore.records.compression import codec_table
from tests.kits.core_inputs import TIME, batch

texts = st.text(st.characters(codec="utf-8"), max_size=20)
headers = st.lists(st.tuples(texts, st.none() | st.binary(max_size=20)), max_size=4)
records = st.builds(
    Record,
    value=st.none() | st.binary(max_size=50),
    key=st.none() | st.binary(max_size=50),
    headers=headers,
    timestamp=st.none() | st.integers(-1, 2**62),
    offset=st.integers(-1, 2**62),
    timestamp_type=st.sampled_from([-1, 0, 1]),
    leader_epoch=st.integers(-1, 2**31 - 1),
    topic=texts,
    partition=st.integers(-1, 2**31 - 1),
)


@given(records)
def test_a_record_survives_pickling_and_equals_its_copy(record: Record):
    copy = pickle.loads(pickle.dumps(record))

    assert copy == record
    assert hash(copy) == hash(record)
    assert repr(copy) == repr(record)
    assert copy.headers == record.headers


@pytest.mark.parametrize(
    "change",
    [
        {"value": b"x"},
        {"key": None},
        {"headers": [("h", None)]},
        {"timestamp": 2},
        {"timestamp": None},
        {"offset": 1},
        {"timestamp_type": 1},
        {"leader_epoch": 4},
        {"topic": "t"},
        {"partition": 0},
    ],
)
def test_every_attribute_takes_part_in_equality(change):
    content = {"value": b"v", "key": b"k", "headers": [("h", b"x")], "timestamp": 1}

    assert Record(**content) == Record(**content)
    assert Record(**content) != Record(**(content | change))
    assert Record(**content) != "a record"


def test_what_was_not_given_reads_as_in_kafka_python():
    record = Record(value=b"v")

    assert (record.key, record.headers, record.timestamp) == (None, (), None)
    assert (record.offset, record.partition, record.leader_epoch, record.topic) == (-1, -1, -1, "")
    assert record.timestamp_type == 0


@pytest.mark.parametrize("make", [bytearray, memoryview])
def test_bytes_like_values_become_bytes(make):
    record = Record(key=make(b"k"), value=make(b"v"), headers=[("h", make(b"x"))])

    assert (record.value, record.key, record.headers) == (b"v", b"k", (("h", b"x"),))
    assert type(record.value) is bytes


@pytest.mark.parametrize(
    "arguments",
    [
        ("text",),
        (1,),
        (b"v", "text"),
        (b"v", b"k", [("h", "text")]),
        (b"v", b"k", [(b"h", b"x")]),
        (b"v", b"k", [("h",)]),
        (b"v", b"k", ["h"]),
        (b"v", b"k", [], 1.5),
        (b"v", b"k", [], "now"),
    ],
)
def test_wrong_types_are_refused(arguments):
    with pytest.raises(RecordTypeError) as caught:
        Record(**dict(zip(("value", "key", "headers", "timestamp"), arguments, strict=False)))
    assert isinstance(caught.value, TypeError)


def test_key_and_value_are_never_mixed_up():
    """Without names nobody can tell them apart."""
    with pytest.raises(TypeError, match="positional"):
        Record(b"k", b"v")
    record = Record(key=b"k", value=b"v")
    assert (record.key, record.value) == (b"k", b"v")


def test_text_is_refused_with_the_advice_to_encode_it():
    with pytest.raises(RecordTypeError, match="encode it"):
        Record(value="text")


def test_a_record_cannot_be_changed():
    record = Record(value=b"v")
    with pytest.raises(AttributeError):
        record.value = b"x"
    with pytest.raises(IllegalStateError):
        record.__init__(value=b"x")
    assert record.value == b"v"


def test_a_record_is_small_and_unknown_to_the_garbage_collector():
    assert sys.getsizeof(Record(value=b"v")) <= 112
    assert not gc.is_tracked(Record(value=b"v", headers=[("h", b"x")]))


def test_header_keys_that_are_no_utf8_read_as_in_java():
    """[format.md 18.2]: Java replaces an encoded surrogate whole, Python byte by byte."""
    raw = batch([Record(value=b"v", headers=[("123", b"x")])])
    for key, expected in (
        (b"\xed\xa0\x80", "\ufffd"),
        (b"a\xffb", "a\ufffdb"),
        (b"\xf0\x9f\x98", "\ufffd"),
    ):
        changed = raw.replace(b"123", key)

        (record,) = iterate_records(changed, codec_table(), check_crc=False)

        assert record.headers == ((expected, b"x"),)


@given(st.lists(records, max_size=6))
def test_records_come_back_from_a_batch_as_they_went_in(given_records: list[Record]):
    """[format.md 5]"""
    data = batch(given_records, base_offset=10, partition_leader_epoch=3) if given_records else b""

    found = list(iterate_records(data, codec_table(), topic="t", partition=4))

    assert found == [
        Record(
            value=record.value,
            key=record.key,
            headers=record.headers,
            timestamp=TIME if record.timestamp is None else record.timestamp,
            offset=10 + index,
            leader_epoch=3,
            topic="t",
            partition=4,
        )
        for index, record in enumerate(given_records)
    ]
