"""Options and columns of a write: Spark's Kafka sink's names, rules and words."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from segstore.config.log_config import LogConfig
from segstore.errors import IllegalArgumentError
from segstore.spark.datasource import SegstoreDataSource
from segstore.spark.sink_options import parse_sink_options
from segstore.spark.sink_schema import HEADERS_TYPE, sink_columns
from segstore.types import Codec
from tests.kits.sink_kit import HEADER, refused, schema_of

PATH = {"path": "/logs"}


def struct(**types):
    return StructType([StructField(name, kind) for name, kind in types.items()])


def test_defaults():
    options = parse_sink_options({"PATH": "file:/logs/a%20b", "Topic": "  t "})

    assert (options.path, options.topic) == ("/logs/a b", "t")
    assert options.codec is Codec.NONE
    assert (options.batch_bytes, options.max_request_bytes) == (262144, 1048576)
    assert options.lock_timeout_ms == 60_000
    assert options.config == LogConfig()
    assert options.partitions_count is options.application_id is options.version is None
    assert options.warnings == ()


def test_a_relative_path_is_that_of_the_driver(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    assert parse_sink_options({"path": "logs"}).path == str(tmp_path / "logs")


def test_options_of_the_producer_come_with_kafka_before_their_name_or_without():
    given = {
        "kafka.Compression.Type": "ZSTD".lower(),
        "kafka.compression.zstd.level": "7",
        "kafka.batch.size": "1000",
        "batch.size": "2000",
        "kafka.max.request.size": "5000",
        "kafka.partitioner.ignore.keys": "true",
    }
    options = parse_sink_options({**PATH, **given})

    assert options.codec is Codec.ZSTD
    assert options.config.compression_zstd_level == 7
    assert (options.batch_bytes, options.max_request_bytes) == (2000, 5000)
    assert options.ignore_keys
    assert options.warnings == ()


def test_settings_of_the_topic_are_given_with_the_write():
    given = {"segment.bytes": "2097152", "segment.ms": "5000", "max.message.bytes": "100000"}
    options = parse_sink_options({**PATH, **given})

    expected = {"segment_bytes": 2097152, "segment_ms": 5000, "max_message_bytes": 100000}
    assert options.config == LogConfig(**expected)
    assert options.batch_bytes == 100000


def test_what_has_no_meaning_without_a_broker_is_said():
    given = {"kafka.bootstrap.servers": "a:1", "kafka.acks": "all", "kafka.linger.ms": "5"}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        SegstoreDataSource({**PATH, "topic": "t", **given}).writer(schema_of("value"), overwrite=0)

    assert [str(one.message) for one in said] == [
        "option kafka.bootstrap.servers is ignored: records are written to the directory in 'path'",
        "options of Kafka's producer are ignored: kafka.acks, kafka.linger.ms",
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"path": ""}, "Option 'path' must be specified"),
        ({"kafka.key.serializer": "x"}, "keys are serialized with ByteArraySerializer"),
        ({"kafka.value.serializer": "x"}, "value are serialized with ByteArraySerializer"),
        ({"compression.type": "brotli"}, "Invalid value brotli for configuration compression.type"),
        ({"kafka.compression.type": "GZIP"}, "Invalid value GZIP"),
        ({"compression.zstd.level": "99"}, "it must be -131072 to 22"),
        ({"batch.size": "0"}, "batch.size must be positive"),
        ({"batch.size": "many"}, 'For input string: "many"'),
        ({"numPartitions": "-1"}, "numPartitions must be positive"),
        ({"segment.bytes": "12"}, "it must be 1048576 or more"),
        ({"segment.bytes": "x"}, "it must be a whole number"),
        ({"lockTimeoutMs": "-1"}, "0 or more"),
        ({"txnAppId": " ", "txnVersion": "1"}, "txnAppId is empty"),
        ({"txnAppId": "a"}, "give both or neither"),
        ({"txnVersion": "1"}, "give both or neither"),
        ({"txnAppId": "a", "txnVersion": "one"}, 'For input string: "one"'),
        ({"topic": "no such/topic"}, "'no such/topic' is no topic name"),
        ({"kafka.partitioner.ignore.keys": "yes"}, "true or false"),
    ],
)
def test_options_that_cannot_be(given, words):
    assert words in refused({"topic": "t", **given})


def test_a_stream_numbers_its_writes_itself():
    source = SegstoreDataSource({**PATH, "topic": "t", "txnVersion": "1"})

    with pytest.raises(IllegalArgumentError, match="for batch writes"):
        source.streamWriter(schema_of("value"), overwrite=False)


def test_overwrite_is_refused_and_complete_appends():
    source = SegstoreDataSource({**PATH, "topic": "t"})

    with pytest.raises(IllegalArgumentError, match="Save mode Overwrite not allowed for Kafka"):
        source.writer(schema_of("value"), overwrite=True)
    source.streamWriter(schema_of("value"), overwrite=True)


# ---- columns -----------------------------------------------------------------------------------


def test_columns_are_chosen_by_their_exact_names():
    schema = struct(
        extra=LongType(),
        value=BinaryType(),
        VALUE=LongType(),
        headers=ArrayType(HEADER, containsNull=False),
        key=StringType(),
        partition=IntegerType(),
        timestamp=TimestampType(),
    )

    columns, said = sink_columns(schema, "t")
    assert columns == ("key", "value", "headers", "partition", "timestamp")
    assert said == ()


def test_the_topic_option_wins_over_the_column_which_is_not_looked_at():
    schema = struct(topic=LongType(), value=StringType())

    assert sink_columns(schema, "t")[0] == ("value",)
    with pytest.raises(IllegalArgumentError, match="topic attribute unsupported type bigint"):
        sink_columns(schema, None)
    assert sink_columns(struct(topic=StringType(), value=StringType()), None)[0] == (
        "topic",
        "value",
    )


def test_a_timestamp_of_another_type_is_ignored_as_by_the_connector_but_said():
    columns, said = sink_columns(struct(value=StringType(), timestamp=LongType()), "t")

    assert columns == ("value",)
    assert "its type is bigint" in said[0]


@pytest.mark.parametrize(
    ("types", "words"),
    [
        ({"key": StringType()}, "Required attribute 'value' not found"),
        (
            {"value": LongType()},
            "value attribute unsupported type bigint. value must be a(n) string",
        ),
        ({"value": NullType()}, "value attribute unsupported type void. value must be a(n) string"),
        (
            {"value": StringType(), "key": IntegerType()},
            "key attribute unsupported type int. key must be a(n) string or binary",
        ),
        (
            {"value": StringType(), "partition": LongType()},
            "partition attribute unsupported type bigint. partition must be a(n) int",
        ),
        (
            {"value": StringType(), "headers": ArrayType(StringType())},
            f"unsupported type array<string>. headers must be a(n) {HEADERS_TYPE}",
        ),
    ],
)
def test_columns_that_cannot_be(types, words):
    assert words in refused({"topic": "t"}, schema=struct(**types))


def test_without_a_topic_nothing_is_written():
    assert "topic option required when no 'topic' attribute is present" in refused({})
