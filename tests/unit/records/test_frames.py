"""Frames whose columns have any names, and values that are made of several columns."""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
import sys
from functools import partial
from itertools import chain
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import segstore
from segstore import AppendOrigin, MemoryRecords, Record
from segstore.errors import (
    ArgumentTypeError,
    CorruptRecordError,
    IllegalArgumentError,
    RecordTypeError,
    UnknownTopicOrPartitionError,
)
from segstore.records import record_builder

TIME = dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.UTC)
TIME_MS = 1_714_979_289_000
ORDERS = pa.table(
    {
        "user_id": ["ada", "bob", None],
        "payload": [b"1", None, b"3"],
        "created_at": pa.array([TIME, None, TIME], pa.timestamp("us", "UTC")),
        "tags": pa.array(
            [[{"key": "a", "value": b"1"}], None, []],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
    }
)
NAMES = {"key": "user_id", "value": "payload", "timestamp": "created_at", "headers": "tags"}
LIBRARIES = {
    "pyarrow": lambda table: table,
    "chunks": lambda table: pa.concat_tables([table[:1], table[1:1], table[1:]]),
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "struct": lambda table: table.combine_chunks().to_batches()[0].to_struct_array(),
    "reader": lambda table: table.to_reader(1),
    "polars": pl.DataFrame,
    "pandas": lambda table: table.to_pandas(),
    "duckdb": duckdb.from_arrow,
}


@pytest.fixture
def log(tmp_path):
    with segstore.open(tmp_path / "log" / "orders-0", durability="none") as log:
        yield log


@pytest.fixture
def logs(tmp_path):
    with segstore.open_dir(tmp_path / "topics", durability="none") as logs:
        logs.create_topic("orders", 3)
        yield logs


def rows(records):
    """What was stored of each record; times apart from that of now."""
    return [
        (r.key, r.value, r.timestamp if r.timestamp <= TIME_MS else None, tuple(r.headers))
        for r in records
    ]


def values(log):
    return [json.loads(record.value) for record in log]


EXPECTED = [
    (b"ada", b"1", TIME_MS, (("a", b"1"),)),
    (b"bob", None, None, ()),
    (None, b"3", TIME_MS, ()),
]


@pytest.mark.parametrize("library", LIBRARIES)
def test_columns_are_named(log, logs, library):
    log.append(LIBRARIES[library](ORDERS), **NAMES)
    assert rows(log) == EXPECTED

    logs.append("orders", LIBRARIES[library](ORDERS), **NAMES)
    found = {number: rows(logs.log("orders", number)) for number in range(3)}
    assert sorted(chain(*found.values()), key=repr) == sorted(EXPECTED, key=repr)
    for name in (b"ada", b"bob"):
        home = segstore.partition_for_key(name, 3)
        assert name in [row[0] for row in found[home]]


def test_one_partition_takes_named_columns_too(logs):
    logs.append("orders", ORDERS, partition=2, **NAMES)

    assert rows(logs.log("orders", 2)) == EXPECTED


def test_a_time_without_a_zone_is_utc_and_a_default_fills_what_is_null(log):
    naive = ORDERS.set_column(2, "created_at", ORDERS["created_at"].cast(pa.timestamp("ms")))
    log.append(naive, **NAMES)
    log.append(pa.table({"value": ["x"], "timestamp": pa.nulls(1)}), timestamp=TIME)

    assert [record.timestamp for record in log][::2] == [TIME_MS, TIME_MS]
    assert log[3].timestamp == TIME_MS


def test_one_column_may_be_two_parts(log):
    log.append(pa.table({"id": ["a"]}), key="id", value="id")

    assert rows(log)[0][:2] == (b"a", b"a")


def test_a_column_that_is_named_is_no_other_part_by_its_own_name(log):
    """``timestamp`` is a key here, and ``key`` a value."""
    frame = pa.table({"timestamp": ["monday"], "key": ["k"]})
    log.append(frame, key="timestamp", value="key")
    log.append(frame, value="key", headers=None, timestamp=5, key="timestamp")

    assert [(r.key, r.value) for r in log] == [(b"monday", b"k")] * 2
    assert log[1].timestamp == 5


# ---- values of several columns -------------------------------------------------------------------

CLICKS = pl.DataFrame(
    {
        "user": ["ada", "bob"],
        "page": ['/a"b', None],
        "seconds": [1.5, 2.0],
        "at": [TIME, TIME],
    }
)


@pytest.mark.parametrize("library", [pl.DataFrame, lambda f: f.to_arrow(), lambda f: f.to_pandas()])
def test_a_list_of_columns_becomes_a_json_object(log, logs, library):
    frame = library(CLICKS)
    log.append(frame, key="user", value=["user", "page", "seconds"], timestamp="at")

    assert values(log) == [
        {"user": "ada", "page": '/a"b', "seconds": 1.5},
        {"user": "bob", "page": None, "seconds": 2.0},
    ]
    assert [(record.key, record.timestamp) for record in log] == [
        (b"ada", TIME_MS),
        (b"bob", TIME_MS),
    ]
    logs.append("orders", frame, key="user", value=["page", "seconds"], timestamp="at")
    home = segstore.partition_for_key(b"ada", 3)
    assert {"page": '/a"b', "seconds": 1.5} in values(logs.log("orders", home))


@pytest.mark.parametrize("columns", [("n", "x"), pd.DataFrame(columns=["n", "x"]).columns])
def test_the_names_of_a_value_may_be_any_sequence(log, columns):
    """Such as a part of a frame's own ``columns``."""
    log.append(pa.table({"n": [1], "x": ["y"]}), value=columns)

    assert values(log) == [{"n": 1, "x": "y"}]


def test_a_star_takes_the_columns_that_are_left(log):
    log.append(CLICKS, key="user", value="*")

    assert values(log)[0] == {"page": '/a"b', "seconds": 1.5, "at": "2024-05-06T07:08:09.000000Z"}


def test_a_star_leaves_the_columns_of_a_record_to_the_record(log):
    """``timestamp`` is the record's time by its name, as without the star."""
    log.append(pa.table({"timestamp": [5], "key": ["k"], "a": [1], "value": ["v"]}), value="*")

    assert [(r.key, r.timestamp, r.value) for r in log] == [(b"k", 5, b'{"a":1,"value":"v"}')]


def test_row_labels_of_pandas_go_in_by_their_name_alone(log):
    frame = pd.DataFrame({"user": ["ada", "bob"], "n": [1, 2]})
    log.append(frame[frame["n"] > 1], key="user", value="*")
    log.append(frame.set_index("user"), key="user", value=["n"])

    assert [(r.key, r.value) for r in log] == [
        (b"bob", b'{"n":2}'),
        (b"ada", b'{"n":1}'),
        (b"bob", b'{"n":2}'),
    ]


def test_many_batches_of_values(log):
    """Each batch is made for itself; a row of an error is that of the frame."""
    table = pa.table({"n": list(range(10)), "x": [float(n) for n in range(10)]})
    log.append(table.to_reader(3), value="*")
    assert [value["n"] for value in values(log)] == list(range(10))

    bad = table.set_column(1, "x", pa.array([0.0] * 7 + [float("nan")] * 3))
    with pytest.raises(IllegalArgumentError, match="row 7: column x holds nan"):
        log.append(bad.to_reader(3), value="*")
    assert log.log_end_offset == 10


# ---- partitions by column ------------------------------------------------------------------------


def test_a_copy_of_a_topic_keeps_partitions(logs, tmp_path):
    headers = [("h", b"1")]
    logs.append("orders", [Record(key=b"%d" % n, value=b"v", headers=headers) for n in range(20)])
    with segstore.open_dir(tmp_path / "copies", durability="none") as copies:
        copies.create_topic("orders", 3)
        copies.append("orders", logs.scan("orders"), partition="partition")
        copies.append("orders", pl.DataFrame(logs.scan("orders")), partition="partition")
        for number in range(3):
            expected = rows(logs.log("orders", number))
            assert rows(copies.log("orders", number)) == expected * 2


def test_a_null_in_the_column_of_partitions_leaves_it_to_the_key(logs):
    frame = pa.table({"key": ["ada", "ada"], "value": ["1", "2"], "where": [0, None]})
    logs.append("orders", frame, partition="where")

    home = segstore.partition_for_key(b"ada", 3)
    assert next(iter(logs.log("orders", 0))).value == b"1"
    assert [r.value for r in logs.log("orders", home)][-1] == b"2"


@pytest.mark.parametrize("number", [-1, 3])
def test_a_partition_that_does_not_exist_is_named(logs, number):
    frame = pa.table({"value": ["1", "2"], "where": [0, number]})
    with pytest.raises(UnknownTopicOrPartitionError, match=f"row 1: .* partition {number}"):
        logs.append("orders", frame, partition="where")

    assert logs.count("orders") == 0


# ---- what is refused -----------------------------------------------------------------------------

SOME = pa.table({"user_id": ["a"], "payload": ["b"], "city": ["c"], "n": [1]})


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ({"key": "userid", "value": "*"}, "key='userid': .*did you mean 'user_id'"),
        ({"key": "USER_ID", "value": "*"}, "did you mean 'user_id'"),
        ({"value": "zzz"}, "value='zzz': .*there are user_id, payload, city, n"),
        ({"value": ["city", "paylod"]}, "value='paylod': .*did you mean 'payload'"),
        (
            {"key": "user_id", "value": "payload"},
            "columns 'city', 'n' would be lost: .*value='\\*'",
        ),
        ({"key": "user_id", "value": ["payload", "n"]}, "column 'city' would be lost"),
        ({}, "'user_id', 'payload', 'city', 'n' would be lost"),
        (
            {"key": "n", "value": "*"},
            "column n has the Arrow type int64, expected binary or string",
        ),
        (
            {"value": "*", "timestamp": "city"},
            "column city has the Arrow type string, expected timestamp",
        ),
        ({"value": "*", "headers": "city"}, "column city has the Arrow type string, expected list"),
        (
            {"value": "*", "partition": "city"},
            "column city has the Arrow type string, expected int",
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("how", ["log", "topic", "empty"])
def test_columns_are_refused_by_their_names(log, logs, names, text, how):
    append, frame = (lambda *given, **names: logs.append("orders", *given, **names)), SOME
    if how == "log" and "partition" not in names:
        append = log.append
    if how == "empty" and "partition" not in names:
        frame = SOME[:0]
    with pytest.raises(IllegalArgumentError, match=text):
        append(frame, **names)

    assert log.log_end_offset == logs.count("orders") == 0


@pytest.mark.parametrize(
    "names",
    [
        {"key": b"a"},
        {"value": 5},
        {"value": [1]},
        {"headers": ["tags"]},
        {"value": {"a": 1}},
        {"value": {"n"}},
    ],
    ids=str,
)
def test_what_is_no_name_is_refused(log, names):
    with pytest.raises(ArgumentTypeError, match="must be the name of a column"):
        log.append(SOME, **names)


@pytest.mark.parametrize("value", [[], ["n", "n"]])
def test_a_list_of_names_must_be_one(log, value):
    with pytest.raises(IllegalArgumentError, match="at least one column, and none twice"):
        log.append(SOME, value=value)


def test_names_need_a_frame(log, logs):
    for append in (log.append, lambda *given, **names: logs.append("orders", *given, **names)):
        for records in ([(b"k", b"v")], [{"user_id": "a"}], iter([])):
            with pytest.raises(ArgumentTypeError, match="must be a frame, for key='user_id'"):
                append(records, key="user_id")


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (pl.DataFrame({"key": ["a"]}).lazy(), r"polars LazyFrame has no rows yet: .*collect\(\)"),
        (ds.dataset(SOME), r"has no rows yet: .*to_reader\(\)"),
        (pd.DataFrame({"key": ["a"]}).to_numpy(), r"is no frame: .*pandas\.DataFrame"),
    ],
    ids=["lazy", "dataset", "numpy"],
)
def test_what_has_no_rows_says_how_to_get_them(log, logs, frame, text):
    for append in (log.append, lambda data: logs.append("orders", data)):
        with pytest.raises(RecordTypeError, match=text):
            append(frame)


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([{"user": "ada"}], r"record 0 is dict: pyarrow\.Table\.from_pylist\(\)"),
        ({"user": ["ada"]}, r"dict cannot be appended: pyarrow\.table\(\)"),
        (pa.table({"key": [1], "value": ["a"]}), "int64, .*: convert it first"),
    ],
    ids=["rows", "columns", "integers"],
)
def test_what_is_nearly_a_frame_says_how_to_make_it_one(log, logs, records, text):
    for append in (log.append, lambda data: logs.append("orders", data)):
        with pytest.raises(segstore.SegstoreError, match=text):
            append(records)


def test_values_that_arrow_has_no_type_for_are_named(log, logs):
    """pandas keeps any objects in a column."""
    frame = pd.DataFrame({"key": ["a", 5], "value": ["1", "2"]})
    for append in (log.append, lambda data: logs.append("orders", data)):
        with pytest.raises(IllegalArgumentError, match=r"cannot be read.*key"):
            append(frame)


def test_a_column_of_pandas_with_two_types_is_refused_in_a_sentence(log):
    """It was the text of a tuple, cut within a word."""
    with pytest.raises(IllegalArgumentError) as caught:
        log.append(pd.DataFrame({"key": ["a", "b"], "value": ["x", 3]}))

    assert "read: Expected bytes, got a 'int' object. Conversion failed" in str(caught.value)
    assert caught.value.found == "Expected bytes, got a 'int' object"


def test_an_old_pandas_is_converted(log, monkeypatch):
    """Before 2.2 it has no ``__arrow_c_stream__``."""
    frame = ORDERS.to_pandas()
    monkeypatch.delattr(pd.DataFrame, "__arrow_c_stream__")
    log.append(frame, **NAMES)
    assert rows(log) == EXPECTED

    with pytest.raises(IllegalArgumentError, match=r"cannot be read.*key"):
        log.append(pd.DataFrame({"key": ["a", 5]}))


def test_an_empty_frame_appends_nothing(log, logs):
    assert log.append(ORDERS[:0], **NAMES).records_count == 0
    assert log.append(CLICKS.clear(), value="*").records_count == 0
    assert logs.append("orders", ORDERS[:0], **NAMES) == {}


def typed(**kinds):
    """An empty table of these columns."""
    return pa.schema({"value": pa.string()} | kinds).empty_table()


@pytest.mark.parametrize("library", ["pyarrow", "reader", "polars", "duckdb", "no batches"])
@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (typed(key=pa.int64()), "column key has the Arrow type int64"),
        (typed(value=pa.list_(pa.string())), "column value has the Arrow type (large_)?list"),
        (typed(timestamp=pa.time64("us")), "column timestamp has the Arrow type time64"),
        (typed(headers=pa.list_(pa.int8())), "column headers has the Arrow type (large_)?list"),
        (
            typed(headers=pa.list_(pa.struct([("key", pa.string()), ("value", pa.int8())]))),
            r"column headers\.element\.value has the Arrow type int8",
        ),
    ],
    ids=["key", "value", "timestamp", "headers", "header value"],
)
def test_types_are_checked_where_there_are_no_rows(log, logs, frame, text, library):
    make = LIBRARIES.get(library, lambda table: table.schema.empty_table().to_reader())
    for append in (log.append, lambda frame: logs.append("orders", frame)):
        with pytest.raises(IllegalArgumentError, match=text):
            append(make(frame))


@pytest.mark.parametrize("names", [("key", "value", "sent"), ("key", "value", "value")])
@pytest.mark.parametrize("rows", [0, 1])
def test_no_field_of_a_header_is_lost(log, logs, names, rows):
    fields = [pa.array([cell]) for cell in ("h", b"1", b"2")]
    header = pa.StructArray.from_arrays(fields, names=list(names))
    headers = pa.ListArray.from_arrays([0, 1], header)
    frame = pa.table({"value": ["x"], "headers": headers})[:rows]
    text = f"column headers has elements with a field {names[2]} besides .* would be lost"
    for append in (log.append, lambda frame: logs.append("orders", frame)):
        with pytest.raises(IllegalArgumentError, match=text):
            append(frame)

    assert log.log_end_offset == logs.count("orders") == 0


@pytest.mark.parametrize("frame", [pa.table({"key": ["a"]}), pd.DataFrame({"key": ["a"]}, [7])])
@pytest.mark.parametrize("rows", [0, 1])
def test_a_star_needs_a_column_that_is_left(log, logs, frame, rows):
    for append in (log.append, lambda frame, **names: logs.append("orders", frame, **names)):
        with pytest.raises(IllegalArgumentError, match=r"value='\*': no column is left"):
            append(frame[:rows], value="*")

    assert log.log_end_offset == logs.count("orders") == 0


@pytest.mark.parametrize("names", [["topic"], ["partition"], ["topic", "partition"]])
def test_topic_and_partition_of_a_users_frame_are_not_lost(log, logs, names):
    """A log's table has them too, and other columns by which it is known."""
    frame = pa.table({"value": ["x"], **{name: pa.array([1]) for name in names}})
    shown = ", ".join(map(repr, names))
    for append in (log.append, lambda frame: logs.append("orders", frame)):
        with pytest.raises(IllegalArgumentError, match=f"{shown} would be lost"):
            append(frame)
    assert log.log_end_offset == logs.count("orders") == 0
    log.append(frame.select(["value"]))
    log.append(log.scan().to_arrow())
    assert log.log_end_offset == 2


def bad_row(name, array):
    """Many rows in several chunks, of which one in the middle cannot be stored."""
    good = pa.table(
        {"key": [f"k{n}" for n in range(300)], "value": ["v"] * 300, "timestamp": [5] * 300}
    )
    place = good.column_names.index(name) if name in good.column_names else 3
    parts = [good[:200], good[200:]]
    if place < 3:
        parts[1] = parts[1].set_column(place, name, array)
    return pa.concat_tables(parts)


@pytest.mark.parametrize(
    ("settings", "frame", "text"),
    [
        ({}, bad_row("timestamp", pa.array([5] * 99 + [-7])), "-7"),
        (
            {"max.message.bytes": 1000},
            bad_row("value", pa.array(["v"] * 99 + ["x" * 2000])),
            "1000",
        ),
        ({"cleanup.policy": "compact"}, bad_row("key", pa.array(["k"] * 99 + [None])), "key"),
        (
            {"message.timestamp.after.max.ms": 1000},
            bad_row("timestamp", pa.array([5] * 99 + [2**42])),
            "timestamp",
        ),
    ],
    ids=["before 1970", "too large", "without a key", "too late"],
)
@pytest.mark.parametrize("library", ["chunks", "polars", "pandas", "duckdb"])
def test_nothing_is_half_appended(logs, settings, frame, text, library):
    """A row in the last chunk is refused: no partition got one of the rows before it."""
    logs.create_topic("strict", 3, config=settings)
    with pytest.raises(segstore.SegstoreError, match=text) as caught:
        logs.append("strict", LIBRARIES[library](frame))

    assert logs.count("strict") == 0
    assert not caught.value.appended
    if "max.message.bytes" not in settings:
        assert re.search(r"(row|record) 299\b", caught.value.message)


def test_a_stream_says_what_was_appended_before_its_error(logs):
    frame = bad_row("timestamp", pa.array([5] * 99 + [-7]))
    with pytest.raises(IllegalArgumentError, match="-7") as caught:
        logs.append("orders", frame.to_reader())

    assert sum(info.records_count for info in caught.value.appended.values()) == 200


def test_damage_of_a_source_comes_as_itself_through_names(log, logs, tmp_path):
    """Also where values are made of its columns."""
    log.append([(b"k", b"v" * 50)])
    path = log.segments()[0].path
    log.flush()
    with open(path, "r+b") as file:  # noqa: PTH123
        file.seek(-1, 2)
        file.write(b"\x7f")
    with segstore.open(tmp_path / "copy-0", durability="none") as copy:
        with pytest.raises(CorruptRecordError):
            logs.append("orders", log, partition="partition")
        with pytest.raises(CorruptRecordError):
            copy.append(log.select("offset", "topic"), value=["offset"], key="topic")


WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None  # as if it were not installed
import polars as pl, segstore
frame = pl.DataFrame({"user": ["ada"], "page": ["/"]})
with segstore.open("t-0") as log, segstore.open_dir("topics") as logs:
    logs.create_topic("t")
    print(log.append(frame, key="user", value="page").records_count)
    for call in (lambda: log.append(frame, value="*"), lambda: logs.append("t", frame, value="*")):
        try:
            call()
        except ImportError as error:
            print(error)
"""


def test_named_columns_need_no_pyarrow(tmp_path):
    """The rest says what to install."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYARROW],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == [
        "1",
        *["this needs pyarrow: pip install 'segstore[arrow]'"] * 2,
    ]


def test_no_object_for_each_record(log, monkeypatch):
    """The hot path of bytes and text: the core reads the columns itself."""
    monkeypatch.setattr(record_builder, "FrameReader", None)
    log.append(ORDERS, **NAMES)

    assert log.log_end_offset == 3


# ---- transactions --------------------------------------------------------------------------------
# A copy of a topic by a scan committed the records of aborted and open transactions: 687 of 402.


@pytest.fixture
def paid(tmp_path):
    """A topic with a committed, an aborted and an open transaction, and records of none."""
    with segstore.open_dir(tmp_path / "paid") as paid:
        paid.create_topic("orders", 2)
        log = paid.log("orders", 1)
        log.append([(b"k", b"plain")])
        for sequence, value, commits in [(0, b"yes", True), (1, b"no", False), (2, b"open", None)]:
            batch = MemoryRecords.with_records(
                [(b"k", value)],
                producer_id=7,
                producer_epoch=0,
                base_sequence=sequence,
                transactional=True,
            )
            log.append_as_leader(batch.data)
            if commits is not None:
                marker = MemoryRecords.with_end_transaction_marker(7, 0, commit=commits)
                log.append_as_leader(
                    marker.data, origin=AppendOrigin.COORDINATOR, transaction_version=1
                )
        yield paid


@pytest.mark.parametrize(
    "source",
    [
        lambda paid: paid.scan("orders"),
        lambda paid: paid.scan("orders", order="timestamp"),
        lambda paid: paid.log("orders", 1),
        lambda paid: paid.log("orders", 1).scan(),
        lambda paid: paid.log("orders", 1).scan(3, 4, columns=["offset", "value", "headers"]),
        lambda paid: paid.log("orders", 1).read(0),
        lambda paid: paid.dataset("orders"),
        lambda paid: paid.scan("orders").dataset(),
        lambda paid: paid.log("orders", 1).dataset(),
        lambda paid: paid.log("orders", 1).scan().dataset(),
        lambda paid: paid.dataset("orders").filter(ds.field("offset") == 3),
        lambda paid: paid.dataset("orders").scanner(["value", "headers"]),
        lambda paid: segstore.open_segment(f"{paid.log('orders', 1).path}/*.log"),
        lambda paid: segstore.open_segment(f"{paid.log('orders', 1).path}/*.log").dataset(),
    ],
    ids=[
        "topic",
        "by time",
        "log",
        "scan",
        "of the aborted one",
        "fetch",
        "dataset of a topic",
        "dataset of a scan of a topic",
        "dataset of a log",
        "dataset of a scan",
        "filter for the aborted one",
        "scanner",
        "files",
        "dataset of files",
    ],
)
def test_a_copy_does_not_commit_aborted_records(paid, log, logs, source):
    for target in (log.append, partial(logs.append, "orders")):
        with pytest.raises(IllegalArgumentError, match=r"read_committed.*import_parquet"):
            target(source(paid))

    assert len(log) == logs.count("orders") == 0


def test_what_is_committed_is_copied(paid, log, logs):
    logs.append("orders", paid.scan("orders", isolation="read_committed"), partition="partition")
    log.append(paid.log("orders", 1).read(0, isolation="read_committed"))
    log.append(paid.log("orders", 1).scan(0, 1))
    log.append(paid.log("orders", 1).scan(2, 3))  # a marker
    log.append(paid.dataset("orders", isolation="read_committed"))
    log.append(paid.dataset("orders").filter(ds.field("offset") == 0))

    assert [one.value for one in logs.scan("orders")] == [b"plain", b"yes"]
    assert [one.value for one in log] == [b"plain", b"yes", b"plain", b"plain", b"yes", b"plain"]


def test_a_dataset_is_appended_with_headers_or_not_at_all(logs, log):
    """As a scan: it left them out without a word."""
    logs.append("orders", [Record(value=b"v", headers=[("h", b"1")])])
    whole = logs.dataset("orders")
    log.append(whole)
    for cut in (
        logs.dataset("orders", columns=["value", "timestamp"]),
        whole.scanner(["value"]),
        whole.scanner({"value": ds.field("value")}),
    ):
        with pytest.raises(IllegalArgumentError, match="the columns leave the headers out"):
            log.append(cut)
    made = {name: ds.field(name) for name in ("value", "headers")}
    with pytest.raises(IllegalArgumentError, match="double"):
        log.append(whole.scanner({**made, "double": ds.field("offset")}))
    named = {"payload": ds.field("value"), "headers": ds.field("headers")}
    log.append(whole.scanner(named), value="payload")

    assert [(one.value, one.headers) for one in log] == [(b"v", (("h", b"1"),))] * 2


def test_a_damaged_log_ends_the_append_of_its_dataset(logs, log):
    """With the error of the log, as of a scan."""
    logs.append("orders", [(b"k", b"v" * 100)], partition=0)
    (file,) = Path(logs.log("orders", 0).path).glob("*.log")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(CorruptRecordError):
        log.append(logs.dataset("orders"))


def test_all_records_are_copied_as_a_table(paid, log):
    """A table has no transactions."""
    log.append(paid.to_arrow("orders", columns=["key", "value", "timestamp", "headers"]))

    assert [one.value for one in log] == [b"plain", b"yes", b"no", b"open"]
