"""What can be appended, and what is refused with advice."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from segstore._core import Record, decode_tuples
from segstore.config.log_config import LogConfig
from segstore.errors import IllegalArgumentError, LimitExceededError, RecordTypeError
from segstore.records.compression import codec_table
from segstore.records.memory_records import MemoryRecords
from segstore.records.record_builder import build_batches, codec_of
from segstore.types import Codec

TIME = 1_700_000_000_000
CONFIG = LogConfig()


def built(records, config=CONFIG, **options):
    return build_batches(records, config=config, default_timestamp=TIME, **options)


def contents(batches) -> list[tuple]:
    return [row[1:] for row in decode_tuples(batches, codec_table())]


def test_rows_of_every_kind_go_in_together():
    records = [
        (b"k", b"v"),
        (TIME + 1, b"k", None),
        Record(value=b"r", timestamp=TIME + 2),
        Record(value=b"s"),
    ]

    assert contents(built(records)) == [
        (TIME, b"k", b"v"),
        (TIME + 1, b"k", None),
        (TIME + 2, None, b"r"),
        (TIME, None, b"s"),
    ]
    assert contents(built(iter(records))) == contents(built(records))
    assert contents(built(Record(value=b"one"))) == [(TIME, None, b"one")]
    assert built([]).records_count == 0


@pytest.mark.parametrize("make", [pa.table, pl.DataFrame, pd.DataFrame, pa.RecordBatch.from_pydict])
def test_frames_go_in_as_they_are(make):
    data = {"key": [b"a", b"b"], "value": [b"1", b"2"]}

    assert contents(built(make(data))) == [(TIME, b"a", b"1"), (TIME, b"b", b"2")]


@pytest.mark.parametrize(
    "records",
    [
        "text",
        b"bytes",
        bytearray(b"x"),
        memoryview(b"x"),
        {"key": b"value"},
        None,
        5,
        object(),
        (b"k", b"v"),
    ],
)
def test_what_is_no_collection_of_records_is_refused(records):
    with pytest.raises(RecordTypeError) as caught:
        built(records)
    assert isinstance(caught.value, TypeError)
    assert caught.value.expected


def test_text_comes_with_advice():
    for records in ("text", [("k", b"v")], [(b"k", "v")]):
        with pytest.raises(RecordTypeError, match="encode it"):
            built(records)


@pytest.mark.parametrize(
    ("setting", "codec"),
    [
        ("producer", Codec.NONE),
        ("uncompressed", Codec.NONE),
        ("gzip", Codec.GZIP),
        ("snappy", Codec.SNAPPY),
        ("lz4", Codec.LZ4),
        ("zstd", Codec.ZSTD),
    ],
)
def test_the_codec_follows_the_setting_unless_one_is_given(setting: str, codec: Codec):
    config = LogConfig(compression_type=setting)

    assert codec_of(config) is codec
    assert built([(b"k", b"v")], config).headers["attributes"][0] == codec
    assert built([(b"k", b"v")], config, codec=Codec.GZIP).headers["attributes"][0] == 1


def test_batches_are_bounded_by_max_message_bytes():
    config = LogConfig(max_message_bytes=1000)

    sizes = built([(None, b"x" * 300)] * 10, config).headers["size_bytes"]

    assert len(sizes) == 4
    assert max(sizes) <= 1000


def test_leader_epoch_and_limit_are_used():
    batches = built([(b"k", bytes(10_000))], codec=Codec.ZSTD, leader_epoch=7)
    assert batches.headers["partition_leader_epoch"][0] == 7
    with pytest.raises(LimitExceededError):
        decode_tuples(batches, codec_table(5000))
    with pytest.raises(IllegalArgumentError):
        built([(-5, b"k", b"v")])


def test_what_is_built_is_what_a_producer_sends():
    records = MemoryRecords(built([(b"k", b"v")] * 3))
    (batch,) = records.batches()

    assert (batch.base_offset, batch.last_offset, batch.count, batch.producer_id) == (0, 2, 3, -1)
    assert [record.value for record in records] == [b"v"] * 3
