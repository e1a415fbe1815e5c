"""Records as Arrow columns and back, through every library that people use [DESIGN D7]."""

from __future__ import annotations

import gc
import threading

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import (
    COLUMN_NAMES,
    ArrowStream,
    BatchOptions,
    ColumnDecoder,
    OffsetMap,
    Record,
    decode_tuples,
    encode_columns,
    iterate_records,
    scan_batches,
)
from segstore.errors import (
    CorruptRecordError,
    IllegalArgumentError,
    IllegalStateError,
    RecordTypeError,
)
from segstore.records.columns import decode_to_batches
from segstore.records.compression import codec_table
from tests.kits.core_inputs import MEGABYTE, TIME, batch, pandas_of, run_of_batches
from tests.unit.core.test_core_record import records

LARGE = pa.schema(
    {"key": pa.large_binary(), "value": pa.large_string(), "timestamp": pa.timestamp("us", "UTC")}
)


def decoder(columns=COLUMN_NAMES, **options) -> ColumnDecoder:
    return ColumnDecoder(codec_table(), columns, **options)


def table_of(data: bytes, columns=COLUMN_NAMES, **options) -> pa.Table:
    columns_of = decoder(columns, **options)
    columns_of.append(data)
    return pa.Table.from_batches([pa.record_batch(columns_of.finish())])


def from_arrow(data: object, **options):
    return encode_columns(data, BatchOptions(**options), codec_table(), TIME, MEGABYTE)


def test_the_schema_is_that_of_sparks_kafka_source():
    schema = pa.schema(decoder())

    assert schema.names == list(COLUMN_NAMES)
    assert schema.field("key").type == pa.binary()
    assert schema.field("topic").type == pa.string()
    assert schema.field("partition").type == pa.int32()
    assert schema.field("offset").type == pa.int64()
    assert schema.field("timestamp").type == pa.timestamp("ms", "UTC")
    assert schema.field("timestampType").type == pa.int32()
    assert schema.field("leaderEpoch").type == pa.int32()
    assert all(field.nullable for field in schema)
    assert pa.schema(decoder(microseconds=True)).field("timestamp").type == pa.timestamp(
        "us", "UTC"
    )


@given(st.lists(records, min_size=1, max_size=40), st.sampled_from([0, 1, 2, 3, 4]))
def test_the_last_value_of_each_key_takes_two_passes(given_records: list[Record], codec: int):
    """[CLN-52, CLN-84] the oracle is a dictionary: keys whose last record has no value are out."""
    data, last_offsets = batch(given_records, codec=codec), OffsetMap(24, b"0123456789abcdef")
    assert decoder(last_offsets=last_offsets, notes_last_offsets=True).append(data) == len(data)

    table = table_of(data, last_offsets=last_offsets)

    rows = [one for one in iterate_records(data, codec_table()) if one.key is not None]
    last = {one.key: one for one in rows}
    expected = [one for one in rows if last[one.key] is one and one.value is not None]
    assert last_offsets.size == len(last)
    table.validate(full=True)
    for name in ("offset", "key", "value", "timestamp"):
        found = table[name].cast(pa.int64()) if name == "timestamp" else table[name]
        assert found.to_pylist() == [getattr(one, name) for one in expected]


def test_a_map_without_a_secret_takes_no_columns():
    """[DUR-126] its keys can be chosen so that one loses its last value; it cannot grow either."""
    with pytest.raises(IllegalArgumentError):
        decoder(last_offsets=OffsetMap(24), notes_last_offsets=True)


@given(st.lists(records, min_size=1, max_size=8), st.sampled_from([0, 1, 2, 3, 4]))
def test_columns_hold_what_the_rows_hold(given_records: list[Record], codec: int):
    data = batch(given_records, codec=codec, base_offset=5, partition_leader_epoch=2)

    rows = list(iterate_records(data, codec_table()))
    table = table_of(data, topic="t", partition=3)
    table.validate(full=True)

    assert table["key"].to_pylist() == [r.key for r in rows]
    assert table["value"].to_pylist() == [r.value for r in rows]
    assert table["offset"].to_pylist() == [r.offset for r in rows]
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [r.timestamp for r in rows]
    assert table["topic"].to_pylist() == ["t"] * len(rows)
    assert table["partition"].to_pylist() == [3] * len(rows)
    assert table["leaderEpoch"].to_pylist() == [2] * len(rows)
    assert [
        tuple((h["key"], h["value"]) for h in headers or ())
        for headers in table["headers"].to_pylist()
    ] == [r.headers for r in rows]


@given(st.lists(records, min_size=1, max_size=8))
def test_columns_go_back_into_batches(given_records: list[Record]):
    data = batch(given_records)

    again = from_arrow(table_of(data, ["key", "value", "timestamp", "headers"]))

    assert bytes(again) == data


def test_a_projection_gives_its_columns_in_its_order():
    table = table_of(run_of_batches(2), ["offset", "value"])

    assert table.column_names == ["offset", "value"]
    for wrong in (["nothing"], ["key", "key"], "key"):
        with pytest.raises(IllegalArgumentError):
            decoder(wrong)
    with pytest.raises(IllegalArgumentError):
        decoder(topic="x" * 250)


def test_bounds_in_offsets_and_times_choose_rows():
    data = batch([(TIME + i, b"k", b"v") for i in range(10)])

    table = table_of(
        data,
        ["offset"],
        start_offset=2,
        end_offset=9,
        start_timestamp=TIME + 4,
        end_timestamp=TIME + 7,
    )

    assert table["offset"].to_pylist() == [4, 5, 6]


def test_empty_headers_are_null_or_empty_as_asked():
    data = batch([(b"k", b"v")])

    assert table_of(data, ["headers"])["headers"].to_pylist() == [None]
    assert table_of(data, ["headers"], null_headers_when_empty=False)["headers"].to_pylist() == [[]]


def test_append_stops_at_a_bound_between_batches():
    data = run_of_batches(10)
    ends = [*scan_batches(data)[0]["position"].tolist()[1:], len(data)]
    columns = decoder(["value"])

    assert columns.append(data, 5) == ends[1]
    assert columns.rows_count == 6
    assert columns.append(data[ends[1] :], -1, columns.bytes_count + 1) == ends[2] - ends[1]
    assert pa.record_batch(columns.finish()).num_rows == 9
    assert columns.rows_count == 0
    assert columns.append(data + data[:70]) == len(data)  # the cut batch is left out


def test_a_damaged_batch_raises_and_what_was_there_stays():
    data = bytearray(run_of_batches(3))
    data[-1] ^= 1
    columns = decoder()

    with pytest.raises(CorruptRecordError):
        columns.append(data)

    assert columns.finish().rows_count == 6


def test_a_batch_is_taken_once():
    columns = decoder()
    columns.append(run_of_batches(1))
    arrow_batch = columns.finish()

    pa.record_batch(arrow_batch)

    with pytest.raises(IllegalStateError):
        arrow_batch.__arrow_c_array__()


def test_batches_outlive_the_decoder_and_unused_ones_are_freed():
    columns = decoder()
    columns.append(run_of_batches(2))
    kept = columns.finish()
    columns.append(run_of_batches(2))
    unused = columns.finish()
    capsules = unused.__arrow_c_array__()
    del columns, unused, capsules
    gc.collect()

    assert pa.record_batch(kept).num_rows == 6


def stream_of(data: bytes, rows: int = 4) -> ArrowStream:
    columns = decoder()
    return ArrowStream(columns, decode_to_batches([data], columns, rows, MEGABYTE))


def test_a_stream_feeds_every_library():
    data = run_of_batches(5)
    offsets = list(range(15))
    duckdb = pytest.importorskip("duckdb")

    assert pa.table(stream_of(data))["offset"].to_pylist() == offsets
    assert pl.DataFrame(stream_of(data))["offset"].to_list() == offsets
    reader = pa.RecordBatchReader.from_stream(stream_of(data))
    assert duckdb.from_arrow(reader).fetchnumpy()["offset"].tolist() == offsets
    assert pandas_of(stream_of(data))["offset"].tolist() == offsets
    assert pa.schema(stream_of(data)) == pa.schema(decoder())


def test_a_stream_is_taken_once_and_may_be_dropped_half_way():
    stream = stream_of(run_of_batches(5))
    reader = pa.RecordBatchReader.from_stream(stream)
    assert reader.read_next_batch().num_rows == 6
    with pytest.raises(IllegalStateError):
        stream.__arrow_c_stream__()
    del reader, stream
    gc.collect()
    stream_of(run_of_batches(1)).__arrow_c_stream__()  # a capsule that nobody consumes


def test_errors_travel_through_a_stream_with_their_text():
    data = bytearray(run_of_batches(3))
    data[-1] ^= 1
    stream = stream_of(bytes(data), rows=100)
    reader = pa.RecordBatchReader.from_stream(stream)

    assert reader.read_next_batch().num_rows == 6
    with pytest.raises((pa.ArrowInvalid, OSError), match="CorruptRecordError"):
        reader.read_next_batch()
    assert isinstance(stream.error, CorruptRecordError)


@pytest.mark.parametrize(
    "make",
    [
        lambda table: table,
        lambda table: table.to_reader(max_chunksize=2),
        lambda table: table.combine_chunks().to_batches()[0],
        lambda table: table.cast(LARGE),
        lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
        lambda table: pytest.importorskip("duckdb").from_arrow(table),
    ],
    ids=["table", "reader", "record batch", "large", "pandas", "duckdb"],
)
def test_every_library_feeds_batches(make):
    table = pa.table(
        {
            "key": pa.array([b"a", None, b"c", b"", b"e"], pa.binary()),
            "value": pa.array(["one", "zwei", None, "", "fünf"]),
            "timestamp": pa.array(
                [TIME, TIME + 1, TIME + 2, TIME + 3, TIME + 4], pa.timestamp("ms", "UTC")
            ),
        }
    )

    batches = from_arrow(make(table))

    assert [row[1:] for row in decode_tuples(batches, codec_table())] == [
        (TIME, b"a", b"one"),
        (TIME + 1, None, b"zwei"),
        (TIME + 2, b"c", None),
        (TIME + 3, b"", b""),
        (TIME + 4, b"e", "fünf".encode()),
    ]
    assert batches.records_count == 5


def test_arrow_batches_end_at_the_limit_and_sequences_go_on():
    table = pa.table({"value": [b"x" * 40] * 6})

    batches = encode_columns(
        table,
        BatchOptions(producer_id=1, producer_epoch=0, base_sequence=0),
        codec_table(),
        TIME,
        170,
    )

    assert batches.headers["base_sequence"].tolist() == [0, 2, 4]


def test_missing_timestamps_get_the_default():
    table = pa.table({"value": [b"v", b"w"], "timestamp": pa.array([None, 5], pa.int64())})

    assert [row[1] for row in decode_tuples(from_arrow(table), codec_table())] == [TIME, 5]


def test_a_column_of_the_wrong_type_is_named():
    with pytest.raises(IllegalArgumentError, match="value"):
        from_arrow(pa.table({"value": [1, 2]}))
    with pytest.raises(RecordTypeError):
        from_arrow([(b"k", b"v")])


def test_a_producer_that_fails_is_an_error_here():
    def fail():
        yield pa.record_batch({"value": [b"v"]})
        raise ValueError("no more")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"value": pa.binary()}), fail())
    with pytest.raises(IllegalArgumentError, match="no more"):
        from_arrow(reader)


def test_one_decoder_in_two_threads_is_refused_not_broken():
    data = run_of_batches(400, codec=1)
    columns = decoder()
    refused: list[bool] = []
    unexpected: list[BaseException] = []

    def work() -> None:
        for _ in range(10):
            try:
                columns.append(data)
            except IllegalStateError:
                refused.append(True)
            except BaseException as error:  # noqa: BLE001 - shown below
                unexpected.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert unexpected == []
    assert columns.finish().rows_count == (30 - len(refused)) * 1200
