"""Arrow data and JSON lines with a misspelt column: its values were lost, records were null."""

from __future__ import annotations

import subprocess
import sys

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import segstore
from segstore.errors import IllegalArgumentError

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
        with pytest.warns(UserWarning, match="without the column headers"):
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
