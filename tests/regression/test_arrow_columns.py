"""Arrow tables, JSON lines and pandas in, Arrow tables out: no column is lost."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import segstore
from segstore import Record
from segstore.errors import CorruptRecordError, IllegalArgumentError

# ---- arrow columns of other names ----------------------------------------------------------------
# Arrow data and JSON lines with a misspelt column: its values were lost, records were null.


KNOWN = "key, value, timestamp, headers"


@pytest.fixture(params=["log", "topic"])
def target(request, tmp_path):
    """Both ways to append: to one partition, and by key to a topic."""
    if request.param == "log":
        with segstore.open(tmp_path / "orders-0", durability="none") as log:
            yield log.append, lambda: log.log_end_offset
    else:
        with segstore.open_dir(tmp_path, durability="none") as manager:
            manager.create_topic("orders", 1)
            log = manager.log("orders", 0)
            yield lambda data: manager.append("orders", data), lambda: log.log_end_offset


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (pa.table({"Key": ["a"], "value": ["b"]}), "Key"),
        (pd.DataFrame({"flight": [1, 2, 3]}), "flight"),
        (pl.DataFrame({"key": ["a"], "vale": [b"b"]}), "vale"),
        (pl.DataFrame({"key": ["a"], "vale": [b"b"]}).clear(), "vale"),
        (pa.schema([("keys", pa.binary())]).empty_table().to_reader(), "keys"),
        (pa.record_batch({"value": ["a"], "": ["b"]}), ""),
    ],
    ids=["pyarrow", "pandas", "polars", "no rows", "no batches", "no name"],
)
def test_a_column_that_no_record_has_is_refused(target, data, name):
    append, end_offset = target
    with pytest.raises(IllegalArgumentError, match=rf"'{name}'.*{KNOWN}") as caught:
        append(data)

    assert (caught.value.found or "", caught.value.expected) == (name, KNOWN)
    assert end_offset() == 0


@pytest.mark.parametrize("names", [["timestamp"], ["offset", "topic"], []])
def test_a_table_without_key_and_value_is_refused(target, names):
    append, end_offset = target
    with pytest.raises(IllegalArgumentError, match="key or value"):
        append(pa.table({name: pa.array([1], pa.int64()) for name in names}))

    assert end_offset() == 0


def test_columns_of_our_own_tables_are_given_anew(target):
    """What ``scan()`` and ``select()`` give goes back in, whoever carried it."""
    append, end_offset = target
    append([segstore.Record(value=b"v" * 20, key=b"k", headers=[("h", b"1")], timestamp=7)])
    names = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    headers = [[{"key": "h", "value": b"1"}]]
    log = pa.table(
        {
            "key": pa.array([b"k"]),
            "value": pa.array([b"v" * 20]),
            "topic": ["t"],
            "partition": [9],
            "offset": [40],
            "timestamp": [7],
            "timestampType": [0],
        }
    ).select(names)
    for data in (log, pl.DataFrame(log), log.to_pandas(), duckdb.sql("select * from log")):
        with pytest.raises(IllegalArgumentError, match="drop offset, timestampType too"):
            append(data)
    log = log.append_column("headers", pa.array(headers))
    for data in (log, pl.DataFrame(log), log.to_pandas(), duckdb.sql("select * from log")):
        append(data)

    assert end_offset() == 5


def test_row_labels_of_pandas_are_no_column(target):
    """A filtered frame offers its index as ``__index_level_0__``."""
    append, end_offset = target
    frame = pd.DataFrame({"key": ["a", "b", "c"], "value": ["1", "2", "3"]})
    append(frame[frame["key"] > "a"])

    assert end_offset() == 2


@pytest.mark.parametrize(
    ("line", "text"),
    [(b'{"foo":1}', b"'foo'"), (b'{"timestamp":1}', b"key or value"), (b"{}", b"key or value")],
)
def test_json_lines_as_well(tmp_path, line, text):
    done = subprocess.run(
        [sys.executable, "-m", "segstore", "append", tmp_path / "notes-0", "--format", "jsonl"],
        input=line + b"\n",
        capture_output=True,
        check=False,
    )

    assert done.returncode != 0
    assert text in done.stderr
    assert KNOWN.encode() in done.stderr or b"key or value" in text
    with segstore.open(tmp_path / "notes-0", read_only=True) as log:
        assert log.log_end_offset == 0


# ---- headers of copied logs ----------------------------------------------------------------------
# A log that was copied by its scan lost the headers of its records, without a word.
#
# The default columns of a scan had no ``headers``, and an append looks for Arrow before it
# iterates.


RECORDS = [
    Record(key=b"k", value=b"v", headers=[("trace", b"1"), ("trace", b"2")], timestamp=1000),
    Record(key=b"k", value=None, headers=[("why", None), ("", b"")], timestamp=1001),
    Record(key=None, value=b"v", headers=[("ü", b"\xff\0")], timestamp=0),
    Record(key=None, value=b"", headers=(), timestamp=1003),
    Record(key=b"", value=b"x" * 70_000, headers=[("h", b"y" * 70_000)], timestamp=1004),
]


def content(*logs) -> list[tuple]:
    return sorted(
        ((one.key, one.value, one.headers, one.timestamp) for log in logs for one in log), key=repr
    )


@pytest.fixture(params=[RECORDS, [Record(key=b"k", value=None, timestamp=7)]], ids=["with", "no"])
def source(request, tmp_path):
    """Yield a log with headers of every kind, and one without any: its column is null."""
    with segstore.open(tmp_path / "source-0", durability="none") as log:
        for record in request.param:  # a batch each: the first chunks of a scan have few rows
            log.append([record])
        yield log


@pytest.fixture(params=["log", "topic", "partition of a topic"])
def copy_of(request, tmp_path):
    """Return what appends something, by each of the ways that there are, and reads everything."""
    with (
        segstore.open(tmp_path / "copy-0", durability="none") as log,
        segstore.open_dir(tmp_path / "copies", durability="none") as manager,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        manager.create_topic("copy", 2)

        def copied(data):
            if request.param == "log":
                log.append(data)
            else:
                manager.append("copy", data, partition=None if request.param == "topic" else 1)
            return content(log, manager.log("copy", 0), manager.log("copy", 1))

        yield copied


WAYS = {
    "log": lambda log: log,
    "scan": lambda log: log.scan(),
    "committed": lambda log: log.scan(isolation="read_committed"),
    "every column": lambda log: log.scan(
        columns=["leaderEpoch", "headers", "value", "timestamp", "offset", "key"]
    ),
    "read": lambda log: log.read(0),
    "fetch": lambda log: log.read(0, 1 << 20),
    "slice": lambda log: log.slice(0, 1 << 20),
    "slice in memory": lambda log: log.slice(0, 1 << 20).read(),
    "bytes": lambda log: segstore.MemoryRecords(log.read(0, 1 << 20).records),
    "records": list,
    "iterator": iter,
    "tail": lambda log: log.tail(0, timeout=0),
    "batches": lambda log: [record for batch in log.scan().batches() for record in batch],
    "to_arrow": lambda log: log.to_arrow(),
    "fetch to_arrow": lambda log: log.read(0, 1 << 20).to_arrow(),
    "pyarrow": lambda log: pa.table(log.scan()),
    "pyarrow, sliced": lambda log: pa.concat_tables([log.to_arrow(), log.to_arrow()])[
        log.log_end_offset :
    ],
    "reader": pa.RecordBatchReader.from_stream,
    "polars": pl.DataFrame,
    "polars, filtered": lambda log: pl.DataFrame(log).filter(pl.col("offset") >= 0),
    "pandas": lambda log: log.to_arrow().to_pandas(),
    "pandas of pyarrow": lambda log: log.to_arrow().to_pandas(types_mapper=pd.ArrowDtype),
    "duckdb": lambda log: duckdb.from_arrow(pa.table(log)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_of_a_log_has_its_headers(source, copy_of, way):
    """Looked for beside it: null keys and values, tombstones, timestamps, headers that repeat.

    Also header values that are null or empty, and what a topic does, which divides Arrow by key.
    Salvage, splits and compaction copy batches, not records; export and import name their columns,
    and `test_jobs` compares them. ``tuples()`` and ``cat`` without ``--format jsonl`` show parts of
    a record by design, and say so.
    """
    assert copy_of(WAYS[way](source)) == content(source)


@pytest.mark.parametrize("columns", [["key", "value"], ["offset", "timestamp", "value"]])
def test_a_scan_without_headers_is_refused_where_it_would_be_copied(source, copy_of, columns):
    with pytest.raises(IllegalArgumentError, match=r"headers.*to_arrow") as caught:
        copy_of(source.select(*columns))

    assert caught.value.expected == ", ".join([*columns, "headers"])
    assert copy_of([]) == []  # nothing was appended


def test_a_scan_whose_columns_have_headers_is_appended_without_the_rest(source, copy_of):
    rows = copy_of(source.select("value", "headers"))

    expected = [(None, value, headers) for _, value, headers, _ in content(source)]
    assert [row[:3] for row in rows] == sorted(expected, key=repr)


def test_a_scan_without_key_and_value_is_refused_as_any_table_is(source, copy_of):
    for columns in (["offset"], ["headers"]):
        with pytest.raises(IllegalArgumentError, match="key or value"):
            copy_of(source.select(*columns))


@pytest.mark.parametrize("to_frame", [pa.table, pl.DataFrame, lambda scan: scan.to_arrow()])
@pytest.mark.parametrize("column", ["offset", "timestampType", "leaderEpoch"])
def test_a_table_of_a_log_without_headers_is_refused(source, tmp_path, to_frame, column):
    """A table has no memory of its scan, but these columns are a log's alone."""
    frame = to_frame(source.select("key", "value", column))
    with segstore.open_dir(tmp_path / "copies", durability="none") as manager:
        manager.create_topic("copy", 2)
        for append in (
            lambda: manager.log("copy", 0).append(frame),
            lambda: manager.append("copy", frame),
        ):
            with pytest.raises(IllegalArgumentError, match=f"headers.* drop {column} too"):
                append()
        assert manager.log("copy", 0).log_end_offset == 0


def test_a_table_of_key_and_value_is_an_ordinary_one(source, copy_of):
    """What the error names as the way to leave headers out."""
    rows = copy_of(source.select("key", "value", "timestamp").to_arrow())

    assert [row[2] for row in rows] == [()] * source.log_end_offset


def test_damage_of_the_source_comes_as_itself(tmp_path, copy_of):
    """It was an IllegalArgumentError of Arrow data that cannot be read."""
    with segstore.open(tmp_path / "damaged-0") as log:
        log.append(RECORDS)
        path = log.segments()[0].path
    with Path(path).open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    with segstore.open(tmp_path / "damaged-0", read_only=True) as log:
        for data in (log, log.scan(), log.read(0, 1 << 20)):
            with pytest.raises(CorruptRecordError):
                copy_of(data)


def test_cat_and_append_keep_headers_as_json_lines(source, tmp_path):
    """The other formats of ``cat`` are for the eye: ``append`` reads back values, or keys too."""
    command = [sys.executable, "-m", "segstore"]
    printed = subprocess.run(
        [*command, "cat", source.path, "--format", "jsonl"], capture_output=True, check=True
    )
    subprocess.run(
        [*command, "append", tmp_path / "copy-0", "--format", "jsonl"],
        input=printed.stdout,
        capture_output=True,
        check=True,
    )

    with segstore.open(tmp_path / "copy-0", read_only=True) as log:
        assert content(log) == content(source)
