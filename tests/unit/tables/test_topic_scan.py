"""A topic as a table: `LogManager.scan` and what stands on it."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import shutil
from typing import TYPE_CHECKING

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import segstore
from segstore.errors import (
    ArgumentTypeError,
    ClosedError,
    CorruptLogError,
    CorruptRecordError,
    IllegalArgumentError,
    IllegalStateError,
    LogDirectoryOfflineError,
    LogTruncatedError,
    NotALogError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from segstore.polars import scan_log, scan_topic
from segstore.tables.topic_scan import ORDERS
from tests.kits.transactions_kit import ABORT, COMMIT, NOW, Producer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from segstore import LogManager

Place = tuple[int, int]
"""Partition and offset."""


@pytest.fixture(params=["no threads", "threads"])
def threads(request, monkeypatch):
    """Whether threads read ahead, in parts of a few batches."""
    count = 3 if request.param == "threads" else 0
    monkeypatch.setattr("segstore.tables.topic_scan.threads_count", lambda: count)
    monkeypatch.setattr("segstore.tables.topic_scan.PART_BYTES", 250)
    return count


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogManager]:
    """Three partitions of 10, 20 and 30 records, each 1,000 ms behind the one before it."""
    with segstore.open_dir(
        tmp_path / "data", durability="none", internal_segment_bytes=500
    ) as manager:
        manager.create_topic("orders", partitions=3)
        for number, count in enumerate((10, 20, 30)):
            for n in range(count):
                record = (NOW + 1000 * n + number, b"k%d" % n, b"v%d" % n)
                manager.append("orders", [record], partition=number)
        yield manager


def places(scan: object) -> list[Place]:
    return [(record.partition, record.offset) for record in scan]


def places_of_table(table: pa.Table) -> list[Place]:
    table.validate(full=True)
    return list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def all_of(*ranges: tuple[int, int, int]) -> list[Place]:
    """The places from the second to below the third in each of some partitions."""
    return [(number, offset) for number, first, end in ranges for offset in range(first, end)]


EVERYTHING = all_of((0, 0, 10), (1, 0, 20), (2, 0, 30))
DOORS = {
    "records": places,
    "arrow": lambda scan: places_of_table(scan.to_arrow()),
    "arrow batches": lambda scan: places_of_table(
        pa.Table.from_batches([pa.record_batch(one) for one in scan.arrow_batches(rows=7)])
    ),
    "stream": lambda scan: places_of_table(pa.table(scan)),
    "polars": lambda scan: pl.DataFrame(scan).select("partition", "offset").rows(),
    "pandas": lambda scan: [
        tuple(map(int, row)) for row in scan.to_pandas()[["partition", "offset"]].to_numpy()
    ],
    "duckdb": lambda scan: (
        duckdb.connect().register("t", scan).sql('select "partition", "offset" from t').fetchall()
    ),
    "stored batches": lambda scan: [place for batch in scan.batches() for place in places(batch)],
}


@pytest.fixture(params=DOORS)
def read(request):
    """Each way to the records of a scan."""
    return DOORS[request.param]


# ---- what is read --------------------------------------------------------------------------------


@pytest.mark.usefixtures("threads")
def test_every_door_gives_partition_after_partition(logs, read):
    assert read(logs.scan("orders")) == EVERYTHING


def test_the_length_is_that_of_all_partitions(logs):
    assert len(logs.scan("orders")) == 60
    assert len(logs.scan("orders", start_timestamp=NOW + 18_001)) == 14
    assert logs.scan("orders")
    assert not logs.scan("orders", start_offset=99)


def test_what_is_asked_of_the_manager_is_that_of_a_scan(logs):
    assert places_of_table(logs.to_arrow("orders")) == EVERYTHING
    assert len(logs.to_pandas("orders", partitions=[1])) == 20
    assert logs.count("orders") == logs.count("orders", by_headers=True) == 60
    assert logs.count("orders", start_offset=15) == 20
    assert logs.to_arrow("orders", columns=["offset"]).column_names == ["offset"]


def test_the_columns_are_those_of_a_log_with_the_partition_as_int32(logs):
    scan = logs.scan("orders")
    table = scan.to_arrow()
    assert table.schema == logs.log("orders", 0).scan().to_arrow().schema
    assert table.schema.field("partition").type == pa.int32()
    assert scan.columns == tuple(table.column_names)
    assert scan.to_arrow(columns=["value", "partition"]).column_names == ["value", "partition"]
    assert logs.scan("orders", columns=["leaderEpoch"]).to_arrow().column_names == ["leaderEpoch"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"start_offset": 5}, all_of((0, 5, 10), (1, 5, 20), (2, 5, 30))),
        ({"end_offset": 5}, all_of((0, 0, 5), (1, 0, 5), (2, 0, 5))),
        ({"start_offset": 12, "end_offset": 25}, all_of((1, 12, 20), (2, 12, 25))),
        ({"start_offset": 99}, []),
        ({"start_offset": {1: 18}}, all_of((0, 0, 10), (1, 18, 20), (2, 0, 30))),
        ({"start_offset": {0: 10, 2: 30}}, all_of((1, 0, 20))),
        ({"end_offset": {0: 1, 1: 2, 2: 99}}, all_of((0, 0, 1), (1, 0, 2), (2, 0, 30))),
        ({"start_offset": 9, "end_offset": {1: 9, 2: 10}}, all_of((0, 9, 10), (2, 9, 10))),
        ({"partitions": [2, 0]}, all_of((0, 0, 10), (2, 0, 30))),
        ({"partitions": (1, 1)}, all_of((1, 0, 20))),
        ({"partitions": []}, []),
        ({"start_timestamp": NOW + 18_001}, all_of((1, 18, 20), (2, 18, 30))),
        ({"end_timestamp": NOW + 1_002}, all_of((0, 0, 2), (1, 0, 2), (2, 0, 1))),
        (
            {"start_timestamp": NOW + 8_000, "end_offset": 9},
            all_of((0, 8, 9), (1, 8, 9), (2, 8, 9)),
        ),
    ],
)
@pytest.mark.usefixtures("threads")
def test_ranges(logs, query, expected):
    scan = logs.scan("orders", **query)
    assert places(scan) == places_of_table(scan.to_arrow()) == expected
    assert scan.count() == scan.count(by_headers=True) == len(expected)


def test_numpy_integers_are_offsets_and_partitions(logs):
    import numpy as np

    scan = logs.scan("orders", start_offset={np.int32(1): np.int64(18)}, partitions=np.array([1]))
    assert places(scan) == all_of((1, 18, 20))


def test_what_the_scan_says_of_itself(logs):
    scan = logs.scan("orders", start_offset=12, partitions=[0, 1])
    assert (scan.topic, scan.partitions) == ("orders", (0, 1))
    assert scan.start_offsets == {0: 10, 1: 12}
    assert scan.end_offsets == {0: 10, 1: 20}
    assert repr(scan) == "TopicScan('orders', 2 partitions)"
    with pytest.raises(ArgumentTypeError, match="cannot be pickled"):
        pickle.dumps(scan)


def test_a_scan_can_be_read_again_and_does_not_grow(logs):
    scan = logs.scan("orders")
    logs.append("orders", [(None, b"later")], partition=0)
    assert places(scan) == places(scan) == EVERYTHING
    assert logs.count("orders") == 61


def test_a_reader_sees_what_was_written_since_its_last_scan(logs, tmp_path):
    with segstore.open_dir(tmp_path / "data", read_only=True) as reader:
        assert reader.count("orders") == 60
        logs.append("orders", [(None, b"later")], partition=2)
        assert reader.count("orders") == 61


def test_an_offset_for_all_partitions_heeds_what_was_deleted(logs):
    log = logs.log("orders", 1)
    log.delete_records(7)
    assert places(logs.scan("orders", start_offset=3, end_offset=8)) == all_of(
        (0, 3, 8), (1, 7, 8), (2, 3, 8)
    )
    assert places(logs.scan("orders", start_offset=3, end_offset=5)) == all_of((0, 3, 5), (2, 3, 5))
    with pytest.raises(OffsetOutOfRangeError):
        logs.scan("orders", start_offset={1: 3})


def test_aborted_and_open_transactions_are_left_out_by_isolation(logs):
    log = logs.log("orders", 0)
    first, second = Producer(log, 1), Producer(log, 2)
    for producer, end in ((first, ABORT), (second, COMMIT)):
        producer.write()
        producer.end(end)
    first.write()
    assert places(logs.scan("orders", partitions=[0]))[10:] == [(0, 10), (0, 12), (0, 14)]
    committed = logs.scan("orders", partitions=[0], isolation="read_committed")
    assert places(committed)[10:] == [(0, 12)]
    assert committed.count() == committed.count(by_headers=True) == 11


def test_a_scan_is_appended_to_another_topic_with_its_headers(logs):
    logs.append("orders", segstore.Record(key=b"k", headers=[("h", b"x")]), partition=0)
    logs.create_topic("copies")
    logs.append("copies", logs.scan("orders", start_offset={0: 9}, partitions=[0]))
    copied = [(one.timestamp, one.key, one.headers) for one in logs.scan("copies")]
    assert copied == [
        (one.timestamp, one.key, one.headers) for one in logs.log("orders", 0).scan(9)
    ]
    with pytest.raises(IllegalArgumentError, match="the columns leave the headers out"):
        logs.append("copies", logs.scan("orders", columns=["key", "value"]))


def test_a_topic_without_records(logs):
    logs.create_topic("nothing", partitions=2)
    scan = logs.scan("nothing")
    assert (scan.count(), list(scan), scan.to_arrow().num_rows) == (0, [], 0)
    assert scan.to_arrow().column_names == [*scan.columns]


# ---- what is wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ({"columns": ["val"]}, IllegalArgumentError, "no column 'val': there are key, value"),
        ({"columns": "value"}, IllegalArgumentError, "name them in a list"),
        ({"columns": 5}, ArgumentTypeError, "columns must be a sequence of names"),
        ({"columns": ["val"], "partitions": []}, IllegalArgumentError, "no column 'val'"),
        ({"start_offset": 5, "end_offset": 3}, IllegalArgumentError, "from 5 to 3 is reversed"),
        (
            {"start_offset": 5, "end_offset": {2: 3}},
            IllegalArgumentError,
            "from 5 to 3 is reversed",
        ),
        ({"start_timestamp": 5, "end_timestamp": 3}, IllegalArgumentError, "is reversed"),
        ({"start_offset": {7: 1}}, IllegalArgumentError, "names partition 7, which is not read"),
        ({"end_offset": {0: 1}, "partitions": [1]}, IllegalArgumentError, "partition 0, which is"),
        ({"start_offset": {0: 11}}, OffsetOutOfRangeError, "offset 11 is not in the log"),
        ({"start_offset": "5"}, ArgumentTypeError, "an integer, or a dict by partition, not '5'"),
        ({"start_offset": {0: "5"}}, ArgumentTypeError, "start_offset of partition 0 must be an"),
        ({"start_offset": {"0": 5}}, ArgumentTypeError, "a partition of start_offset must be an"),
        ({"partitions": [7]}, UnknownTopicOrPartitionError, "no partition orders-7 here"),
        ({"partitions": 1}, ArgumentTypeError, "partitions must be integers in a list, not 1"),
        ({"partitions": "12"}, ArgumentTypeError, "partitions must be integers in a list"),
        ({"partitions": [1.5]}, ArgumentTypeError, "must be an integer, not 1.5"),
        ({"isolation": "none"}, IllegalArgumentError, "isolation must be one of"),
    ],
)
def test_what_is_refused(logs, query, error, message):
    with pytest.raises(error, match=message):
        logs.scan("orders", **query)


def test_an_unknown_column_of_a_read_is_refused(logs):
    scan = logs.scan("orders")
    for read in (scan.to_arrow, scan.to_pandas):
        with pytest.raises(IllegalArgumentError, match="no column 'val'"):
            read(columns=["val"])


@pytest.mark.parametrize("call", ["scan", "to_arrow", "to_pandas", "count", "tail"])
def test_an_unknown_topic(logs, call):
    with pytest.raises(UnknownTopicOrPartitionError, match="no topic 'order' here"):
        getattr(logs, call)("order")


@pytest.mark.usefixtures("logs")
def test_what_is_no_log_directory(tmp_path):
    with pytest.raises(NotALogError):
        segstore.open_dir(tmp_path / "data" / "orders-0", read_only=True)
    (tmp_path / "empty").mkdir()
    with (
        segstore.open_dir(tmp_path / "empty", read_only=True) as other,
        pytest.raises(UnknownTopicOrPartitionError, match="no topic 'orders' here"),
    ):
        other.scan("orders")


@pytest.mark.usefixtures("threads")
def test_a_closed_manager(logs):
    scan = logs.scan("orders")
    logs.close()
    with pytest.raises(ClosedError):
        logs.scan("orders")
    with pytest.raises(ClosedError):
        list(scan)


def test_a_partition_that_is_not_here_is_missed(logs, tmp_path):
    logs.close()
    (tmp_path / "data" / "orders-1").rename(tmp_path / "away")
    with segstore.open_dir(tmp_path / "data", read_only=True) as others:
        with pytest.raises(IllegalStateError, match="some are missing") as caught:
            others.scan("orders")
        assert "partitions=logs.topics()['orders']" in str(caught.value)
        scan = others.scan("orders", partitions=others.topics()["orders"])
        assert scan.partitions == (0, 2)


def test_a_directory_that_is_offline_is_missed(tmp_path):
    paths = [tmp_path / "one", tmp_path / "two"]
    with segstore.open_dir(paths) as both:
        both.create_topic("orders", partitions=2)
    shutil.rmtree(tmp_path / "two")
    (tmp_path / "two").write_text("no directory")
    with segstore.open_dir(paths, read_only=True) as one:
        with pytest.raises(LogDirectoryOfflineError, match="is offline") as caught:
            one.scan("orders")
        assert "partitions=logs.topics()['orders']" in str(caught.value)
        here = one.topics()["orders"]
        assert one.scan("orders", partitions=here).partitions == tuple(here)


@pytest.mark.usefixtures("threads")
def test_damage_is_told_behind_the_records_before_it(logs, tmp_path):
    logs.close()
    first = tmp_path / "data" / "orders-1" / f"{0:020d}.log"
    content = bytearray(first.read_bytes())
    content[-5] ^= 1
    first.write_bytes(content)
    with segstore.open_dir(tmp_path / "data", read_only=True) as reader:
        scan = reader.scan("orders")
        found: list[Place] = []
        with pytest.raises(CorruptRecordError) as caught:
            found.extend((record.partition, record.offset) for record in scan)
        assert found == EVERYTHING[: len(found)]
        assert found[-1][0] == 1
        assert caught.value.file == str(first)
        rows: list[Place] = []
        batches = (
            pa.Table.from_batches([pa.record_batch(one)]) for one in scan.arrow_batches(rows=1)
        )
        with pytest.raises(CorruptRecordError) as caught:
            rows.extend(place for one in batches for place in places_of_table(one))
        assert rows == found
        assert caught.value.file == str(first)
        with pytest.raises(CorruptRecordError):
            scan.to_arrow()


@pytest.mark.usefixtures("threads")
def test_records_that_were_cut_off_are_an_error(logs):
    scan = logs.scan("orders")
    logs.log("orders", 2).truncate_to(5)
    with pytest.raises(LogTruncatedError):
        list(scan)
    with pytest.raises(LogTruncatedError):
        scan.to_arrow()


def test_without_pandas_there_is_a_sentence(logs, monkeypatch):
    monkeypatch.setattr("segstore.records.columns.find_spec", lambda _: None)
    with pytest.raises(ImportError, match="this needs pandas: pip install pandas"):
        logs.to_pandas("orders")


@pytest.fixture
def short(tmp_path: Path) -> Iterator[LogManager]:
    """Partition 1 was closed cleanly at offset 20, and then lost its second half."""
    with segstore.open_dir(tmp_path / "short") as manager:
        manager.create_topic("orders", partitions=3)
        for number in range(3):
            for n in range(20):
                manager.append("orders", [(NOW + n, b"k", b"v")], partition=number)
    file = tmp_path / "short" / "orders-1" / f"{0:020d}.log"
    os.truncate(file, file.stat().st_size // 2)
    with segstore.open_dir(tmp_path / "short", read_only=True) as reader:
        yield reader


QUERIES_OF_ALL = {
    "count": lambda logs, **more: logs.count("orders", **more),
    "arrow": lambda logs, **more: logs.to_arrow("orders", **more).num_rows,
    "pandas": lambda logs, **more: len(logs.to_pandas("orders", **more)),
    "dataset": lambda logs, **more: logs.dataset("orders", **more).count_rows(),
    "polars": lambda logs, **more: scan_topic(logs.paths[0], "orders", **more).collect().height,
}
ENDS = "the log ends at offset 10: records from there to 19 had been synced, and are missing"


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("query", QUERIES_OF_ALL.values(), ids=QUERIES_OF_ALL)
def test_a_query_of_a_log_that_was_cut_is_an_error(short, query):
    """It answered with the records that were left, and nothing said that some were missing."""
    with pytest.raises((CorruptLogError, pl.exceptions.ComputeError), match=ENDS):
        query(short)
    assert query(short, end_offset=10) == 30
    with pytest.warns(UserWarning, match="leaves out 1 range of offsets: .*offsets 10 to 19"):
        assert query(short, on_damage="skip") == 50


def test_a_lazy_frame_of_a_log_that_was_cut_is_an_error(short):
    path = short.log("orders", 1).path
    with pytest.raises((CorruptLogError, pl.exceptions.ComputeError), match=ENDS):
        scan_log(path).collect()
    assert scan_log(path).filter(pl.col("offset") < 9).collect().height == 9
    with pytest.warns(UserWarning, match="offsets 10 to 19"):
        assert scan_log(path, on_damage="skip").collect().height == 10


def test_a_scan_of_a_log_that_was_cut_gives_what_is_there_first(short):
    scan = short.scan("orders")
    found: list[Place] = []
    with pytest.raises(CorruptLogError, match=ENDS):
        found.extend((record.partition, record.offset) for record in scan)
    assert found == all_of((0, 0, 20), (1, 0, 10))
    for order in ORDERS:
        with pytest.raises(CorruptLogError, match=ENDS):
            short.to_arrow("orders", order=order)
        assert short.scan("orders", order=order, partitions=[0, 2]).to_arrow().num_rows == 40
    rest = short.scan("orders", on_damage="skip")
    assert len(places(rest)) == 50
    assert [(one.first_offset, one.next_offset) for one in rest.skipped] == [(10, 20)]
    assert len(short.log("orders", 1)) == 10  # its report says the rest


def test_a_filter_that_asks_for_what_is_there_is_answered(short):
    rows = short.dataset("orders")
    assert rows.scanner(filter=ds.field("partition") != 1).count_rows() == 40
    assert rows.scanner(filter=ds.field("offset") < 9).count_rows() == 27


@pytest.mark.parametrize("query", ["dataset", "polars"])
def test_what_an_engine_reads_has_no_order(short, query):
    """It was a TypeError of an internal function."""
    with pytest.raises(IllegalArgumentError, match="has no order: let the engine sort"):
        QUERIES_OF_ALL[query](short, order="timestamp")
    with pytest.raises(IllegalArgumentError, match="order must be"):
        QUERIES_OF_ALL[query](short, order="offset")
    with pytest.raises(IllegalArgumentError, match="on_damage must be"):
        QUERIES_OF_ALL[query](short, on_damage="ignore")
    assert QUERIES_OF_ALL[query](short, order="partition", partitions=[0]) == 20


def test_a_reversed_range_of_times_is_shown_as_it_was_given(short):
    start, end = (dt.datetime(2025, 3, day, tzinfo=dt.UTC) for day in (9, 1))
    text = r"the timestamp range from 2025-03-09 00:00:00\+00:00 to 2025-03-01 00:00:00\+00:00 is"
    with pytest.raises(IllegalArgumentError, match=text):
        short.scan("orders", start_timestamp=start, end_timestamp=end)


@pytest.fixture
def gapped(tmp_path: Path) -> Iterator[LogManager]:
    """Offsets 0 to 59 in segments of 20 records; the second was lost in a crash."""
    with segstore.open_dir(tmp_path / "data") as manager:
        manager.create_topic("orders", partitions=1)
        for first in range(0, 60, 20):
            for n in range(first, first + 20):
                manager.append("orders", [(NOW + n, b"k", b"v")], partition=0)
            if first < 40:
                manager.log("orders", 0).roll()
        manager.log("orders", 0).flush()
        shutil.copytree(tmp_path / "data", tmp_path / "gapped")  # as a crash leaves it
    (tmp_path / "gapped" / "orders-0" / f"{20:020d}.log").unlink()
    with segstore.open_dir(tmp_path / "gapped", read_only=True) as reader:
        yield reader


@pytest.mark.parametrize("query", QUERIES_OF_ALL.values(), ids=QUERIES_OF_ALL)
def test_a_query_behind_a_gap_is_answered(gapped, query):
    """It was refused: the log was said to end early, at its end."""
    assert "records 20 to 39 are missing" in gapped.log("orders", 0).report.damage
    assert query(gapped, start_offset=45) == 15
    assert query(gapped, start_offset=40, end_offset=100_000) == 20
    assert query(gapped, start_timestamp=NOW + 40) == 20


def test_a_dataset_of_a_log_behind_a_gap_is_answered(gapped):
    log = gapped.log("orders", 0)
    assert log.report.early_end is None
    assert log.dataset(start_offset=45).count_rows() == 15
    assert gapped.scan("orders", start_offset=45).count(by_headers=True) == 15


@pytest.mark.parametrize("query", QUERIES_OF_ALL.values(), ids=QUERIES_OF_ALL)
def test_a_query_across_a_gap_names_it(gapped, query):
    with pytest.raises((CorruptLogError, pl.exceptions.ComputeError)) as caught:
        query(gapped)
    assert "20" in str(caught.value)
    assert "an end at offset" not in str(caught.value)


def test_a_handle_that_reads_beyond_an_early_end_is_not_cut_off(tmp_path):
    """What looked like damage was a truncation of its writer: the log goes on there."""
    with segstore.open_dir(tmp_path / "data") as writer:
        writer.create_topic("orders", partitions=1)
        writer.append("orders", [(NOW + n, b"k", b"v") for n in range(10)], partition=0)
        with segstore.open_dir(tmp_path / "data", read_only=True) as reader:
            log = reader.log("orders", 0)
            log.report.early_end = log.report.damage = "damaged at offset 10: as it seemed"
            with pytest.raises(CorruptLogError, match="as it seemed"):
                reader.to_arrow("orders")
            writer.append("orders", [(NOW + 10, b"k", b"v")], partition=0)
            log.refresh()
            assert reader.to_arrow("orders").num_rows == 11
            assert log.dataset().count_rows() == 11
