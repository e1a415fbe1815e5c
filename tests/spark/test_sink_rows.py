"""What a task does: rows to partitions, partitions to batches, batches to a file."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from itertools import chain

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql import Row

import segstore
from segstore.errors import (
    IllegalArgumentError,
    IllegalStateError,
    InvalidTimestampError,
    InvalidTopicError,
    LogNotFoundError,
    NotALogError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    UnknownTopicOrPartitionError,
)
from segstore.records.partitioner import partition_for_key
from segstore.spark import staged_file
from segstore.spark.conditions import ConnectorConditionError
from segstore.spark.sink_rows import batches_of_rows
from segstore.types import Codec, TimestampType
from tests.kits.sink_kit import (
    QUERY,
    Stream,
    batch_of,
    hidden_files,
    make_topic,
    numbered,
    records_of,
    schema_of,
    values_of,
    write_batch,
)


@pytest.fixture
def directory(tmp_path):
    make_topic(tmp_path / "logs")
    return tmp_path / "logs"


def batches_in(path, topic="t"):
    with segstore.open_dir(path, read_only=True) as manager:
        return [
            (number, batch.codec, batch.count, batch.size_bytes)
            for number in manager.topics()[topic]
            for batch in manager.log(topic, number).scan().batches()
        ]


# ---- partitions --------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=5), min_size=1, max_size=40), st.integers(1, 9))
def test_keys_go_where_kafkas_clients_put_them(tmp_path_factory, keys, partitions_count):
    path = tmp_path_factory.mktemp("keys")
    make_topic(path, "t", partitions_count)
    batch = pa.record_batch(
        {"key": pa.array(keys, pa.binary()), "value": pa.array(["v"] * len(keys))}
    )
    messages = Stream(path, topic="t").stage(batch)

    staged = {
        p.partition: sum(b.records_count for b in bs) for p, bs in messages[0].batches.items()
    }
    expected = [partition_for_key(key, partitions_count) for key in keys]
    assert staged == {number: expected.count(number) for number in set(expected)}


def test_the_partition_column_wins_and_null_leaves_it_to_the_key(directory):
    keys = ["a", "b", "c", "d"]
    write_batch(
        directory,
        batch_of(key=keys, value=keys, partition=[2, None, 0, None]),
        topic="t",
    )

    found = {(p, r.value.decode()) for p, rs in records_of(directory).items() for r in rs}
    by_key = {key: partition_for_key(key.encode(), 3) for key in "bd"}
    assert found == {(2, "a"), (0, "c"), (by_key["b"], "b"), (by_key["d"], "d")}


def test_records_without_a_key_fill_batches_one_partition_after_the_other(directory):
    values = ["x" * 100] * 1000
    write_batch(directory, batch_of(value=values), topic="t", **{"batch.size": "20000"})

    counts = {p: len(rs) for p, rs in records_of(directory).items()}
    assert sum(counts.values()) == 1000
    assert all(count > 150 for count in counts.values())


def test_ignored_keys_are_written_and_do_not_choose(directory):
    batch = batch_of(key=["same"] * 900, value=["x" * 100] * 900)
    options = {"kafka.partitioner.ignore.keys": "true", "batch.size": "10000"}
    write_batch(directory, batch, topic="t", **options)

    records = records_of(directory)
    assert all(len(found) > 100 for found in records.values())
    assert {r.key for found in records.values() for r in found} == {b"same"}


def test_rows_of_many_topics_keep_their_order(directory):
    make_topic(directory, "u", 1)
    topics = ["t" if n % 3 else "u" for n in range(60)]
    write_batch(directory, batch_of(topic=topics, value=[str(n) for n in range(60)]))

    assert values_of(directory, "u") == {0: [n for n in range(60) if not n % 3]}
    found = values_of(directory, "t")
    assert sorted(chain.from_iterable(found.values())) == [n for n in range(60) if n % 3]
    assert all(numbers == sorted(numbers) for numbers in found.values())


@pytest.mark.parametrize(
    ("columns", "options", "kind", "words"),
    [
        (
            {"topic": ["t", None]},
            {},
            ConnectorConditionError,
            r"\[KAFKA_NULL_TOPIC_IN_DATA\] The Kafka message data",
        ),
        ({"topic": ["t", ""]}, {}, InvalidTopicError, "'' is no topic name"),
        (
            {"topic": ["t", "u"]},
            {},
            UnknownTopicOrPartitionError,
            "This server does not host this topic-partition.*numPartitions",
        ),
        (
            {"partition": [0, -1]},
            {"topic": "t"},
            IllegalArgumentError,
            "Invalid partition: -1. Partition number should always be non-negative or null.",
        ),
        (
            {"partition": [0, 3]},
            {"topic": "t"},
            UnknownTopicOrPartitionError,
            "Partition 3 of topic t with partition count 3 is not present in metadata",
        ),
        (
            {"headers": [None, [{"key": None, "value": b""}]]},
            {"topic": "t"},
            IllegalArgumentError,
            "a null header key",
        ),
        ({"headers": [[None], None]}, {"topic": "t"}, IllegalArgumentError, "null header"),
    ],
)
def test_a_row_that_cannot_be_written_leaves_nothing(directory, columns, options, kind, words):
    """The rows before it neither: unlike the connector, which has sent them."""
    with pytest.raises(kind, match=words):
        write_batch(directory, batch_of(value=["1", "2"], **columns), **options)

    assert values_of(directory) == {0: [], 1: [], 2: []}
    assert hidden_files(directory) == []


def test_a_topic_with_partitions_elsewhere_needs_the_partition_column(directory):
    """How many partitions there are in all decides where a key belongs."""
    (directory / "t-0").rename(directory / "t-9")

    with pytest.raises(IllegalStateError, match="only the partitions"):
        write_batch(directory, batch_of(key=["a"], value=["1"]), topic="t")
    write_batch(directory, batch_of(key=["a"], value=["1"], partition=[2]), topic="t")
    assert values_of(directory)[2] == [1]


def test_the_path_must_be_a_log_directory(directory, tmp_path):
    with pytest.raises(LogNotFoundError):
        write_batch(tmp_path / "nowhere", numbered(0, 1), topic="t")
    with pytest.raises(NotALogError, match="directory of one partition"):
        write_batch(directory / "t-0", numbered(0, 1), topic="t")


# ---- records -----------------------------------------------------------------------------------


def test_records_come_back_as_they_were_written(directory):
    moment = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
    headers = [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], [], None]
    begun = int(time.time() * 1000)
    write_batch(
        directory,
        batch_of(
            key=["k", None, ""],
            value=["v", None, ""],
            headers=headers,
            timestamp=[moment, None, moment],
            partition=[1, 1, 1],
        ),
        topic="t",
    )

    first, second, third = records_of(directory)[1]
    assert (first.key, first.value) == (b"k", b"v")
    assert first.headers == (("a", b"1"), ("a", None))
    assert first.timestamp == 1714979289123
    assert (second.key, second.value, second.headers) == (None, None, ())
    assert begun <= second.timestamp <= time.time() * 1000
    assert (third.key, third.value, third.headers) == (b"", b"", ())
    assert first.timestamp_type == TimestampType.CREATE_TIME


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_have_the_codec_and_the_size_that_were_asked_for(directory, codec):
    """A broker appends what a producer compressed as it is."""
    values = [f"{n:04d} " * 20 for n in range(2000)]
    options = {"compression.type": codec.name.lower(), "kafka.batch.size": "20000"}
    write_batch(directory, batch_of(value=values), topic="t", **options)

    found = batches_in(directory)
    assert {batch[1] for batch in found} == {codec}
    assert sum(batch[2] for batch in found) == 2000
    assert 10 <= len(found) <= 30
    assert max(batch[3] for batch in found) <= 20000
    records = records_of(directory)
    assert sorted(r.value.decode() for found in records.values() for r in found) == values


def test_small_pieces_become_large_batches(directory):
    """Spark hands over ten thousand rows at a time, for all partitions together."""
    stream = Stream(directory, topic="t")
    sink = stream.writer(schema_of("key", "value"))._sink
    message = sink.stage((numbered(n * 50, 50) for n in range(200)), None)

    assert all(len(batches) == 1 for batches in message.batches.values())
    assert sum(b.records_count for bs in message.batches.values() for b in bs) == 10_000


def test_many_partitions_share_the_memory(directory, monkeypatch):
    monkeypatch.setattr(staged_file, "MAX_BUFFERED_BYTES", 1000)
    stream = Stream(directory, topic="t")
    sink = stream.writer(schema_of("key", "value"))._sink
    message = sink.stage((numbered(n * 50, 50) for n in range(20)), QUERY)
    stream.commit([message], 0)

    assert all(len(batches) > 5 for batches in message.batches.values())
    assert sorted(chain.from_iterable(values_of(directory).values())) == list(range(1000))


def test_a_record_that_a_producer_refuses_is_refused_in_its_words(directory):
    """It counts before compression, overhead included."""
    batch = batch_of(key=["k", "k"], value=["x", "x" * 2_000_000])

    with pytest.raises(RecordTooLargeError, match="The message is 2000089 bytes when serialized"):
        write_batch(directory, batch, topic="t", **{"compression.type": "gzip"})
    options = {"max.request.size": "3000000", "max.message.bytes": "3000000"}
    write_batch(directory, batch, topic="t", **options)
    assert sum(map(len, records_of(directory).values())) == 2


def test_what_the_log_would_refuse_is_refused_by_the_task(directory):
    """Behind the redo log there is no way back."""
    large = batch_of(value=["x" * 900_000])
    with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes"):
        write_batch(directory, large, topic="t", **{"max.message.bytes": "100000"})
    wide = batch_of(value=["x" * 1_048_560])
    options = {"segment.bytes": "1048576", "max.message.bytes": "3000000"}
    options["max.request.size"] = "3000000"
    with pytest.raises(RecordBatchTooLargeError, match=r"segment\.bytes"):
        write_batch(directory, wide, topic="t", **options)
    soon = datetime.fromtimestamp(time.time() + 7200, UTC)
    with pytest.raises(InvalidTimestampError, match="in the future"):
        write_batch(directory, batch_of(value=["x"], timestamp=[soon]), topic="t")

    assert hidden_files(directory) == []


def test_segments_roll_as_the_options_say(directory):
    values = [str(n).rjust(1000, "x") for n in range(5000)]
    options = {"segment.bytes": "1048576", "batch.size": "100000"}
    write_batch(directory, batch_of(value=values), topic="t", **options)

    assert len(list((directory / "t-0").glob("*.log"))) > 1
    assert sum(map(len, records_of(directory).values())) == 5000


# ---- rows of Spark 4.0 -------------------------------------------------------------------------


def test_rows_of_python_objects_become_the_same_batches(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    names = ("key", "value", "partition", "timestamp", "headers")
    schema = schema_of(*names)
    moment = datetime(2024, 5, 6, 7, 8, 9, 5, tzinfo=UTC)
    header = Row(key="a", value=b"1")
    rows = [
        Row("k", "v", 2, moment.astimezone().replace(tzinfo=None), [header, None]),
        Row(None, None, None, None, None),
    ]

    (batch,) = batches_of_rows(iter(rows), schema, names)
    monkeypatch.undo()
    time.tzset()
    assert batch.to_pylist() == [
        {
            "key": "k",
            "value": "v",
            "partition": 2,
            "timestamp": moment,
            "headers": [{"key": "a", "value": b"1"}, None],
        },
        dict.fromkeys(names),
    ]
    many = list(batches_of_rows(iter(rows * 8000), schema, ("value",)))
    assert [batch.num_rows for batch in many] == [10_000, 6_000]
