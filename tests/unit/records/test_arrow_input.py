"""Appending what other Arrow libraries make: every layout of binary and string, slices, chunks."""

from __future__ import annotations

import datetime as dt

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import segstore
from segstore._core import COLUMN_NAMES
from segstore.errors import IllegalArgumentError
from tests.kits.core_inputs import pandas_of

WORDS = [None if n % 4 == 0 else f"key-{n % 5}-of-14-b"[: 14 if n % 2 else 9] for n in range(24)]
FIXED = [None if n % 4 == 0 else f"key-{n % 5:010}" for n in range(24)]
PLAIN = [
    pa.binary(),
    pa.string(),
    pa.large_binary(),
    pa.large_string(),
    pa.binary_view(),
    pa.string_view(),
    pa.binary(14),
]
INDICES = [pa.int8(), pa.uint16(), pa.int32(), pa.uint64()]
TYPES = PLAIN + [pa.dictionary(index, kind) for kind in PLAIN for index in INDICES]


def column_of(kind: pa.DataType) -> tuple[pa.Array, list[bytes | None]]:
    """An array of type *kind*, and what it holds."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    words = FIXED if plain == pa.binary(14) else WORDS
    expected = [None if word is None else word.encode() for word in words]
    if plain is kind:
        return pa.array(expected).cast(kind), expected
    distinct = sorted(set(expected) - {None})
    places = [None if word is None else distinct.index(word) for word in expected]
    dictionary = pa.array(distinct).cast(plain)
    return pa.DictionaryArray.from_arrays(pa.array(places, kind.index_type), dictionary), expected


@pytest.fixture
def log(tmp_path):
    with segstore.open(tmp_path / "log" / "orders-0", durability="none") as log:
        yield log


@pytest.fixture
def manager(tmp_path):
    with segstore.open_dir(tmp_path / "topic", durability="none") as manager:
        manager.create_topic("orders", 3)
        yield manager


def appended(log, data) -> list[segstore.Record]:
    info = log.append(data)
    return list(log.scan(info.base_offset))


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_every_layout_is_read(log, manager, kind):
    """Null masks, slices, several chunks with an empty one among them; whole and by key."""
    array, expected = column_of(kind)
    chunks = pa.chunked_array([array[3:9], array[9:9], array[9:]])
    table = pa.table({"key": chunks, "value": pa.chunked_array([array[3:]])})

    assert [(r.key, r.value) for r in appended(log, table)] == [(w, w) for w in expected[3:]]
    manager.append("orders", table)
    manager.append("orders", table.to_batches()[-1].to_struct_array())
    ours = {
        n: [r.key for r in manager.log("orders", n).scan() if r.key is not None] for n in range(3)
    }
    by_key = [(w, w) for w in expected[3:]] + [(w, w) for w in expected[9:]]
    for record in by_key:
        if record[0] is not None:
            number = segstore.partition_for_key(record[0], 3)
            assert ours[number].pop(0) == record[0]
    assert not any(ours.values())


HEADERS = [[("h", b"1"), ("i", None)], [], None, [("a header with a long name", b"v" * 40)]]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (pa.string(), pa.binary()),
        (pa.string_view(), pa.binary_view()),
        (pa.large_string(), pa.large_string()),
        (pa.binary(), pa.string()),
    ],
    ids=str,
)
@pytest.mark.parametrize("list_of", [pa.list_, pa.large_list])
def test_headers_in_every_layout(log, manager, list_of, key, value):
    entry = pa.struct([("key", key), ("value", value)])
    rows = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in HEADERS]
    array = pa.array(rows, list_of(entry))
    table = pa.table({"value": ["a", "b", "c", "d"], "headers": array}).slice(0, 4)

    expected = [tuple(row or ()) for row in HEADERS]
    assert [tuple(r.headers) for r in appended(log, table)] == expected
    assert [tuple(r.headers) for r in appended(log, table[2:])] == expected[2:]
    manager.append("orders", table)
    found = [tuple(r.headers) for n in range(3) for r in manager.log("orders", n).scan()]
    assert found == expected


@pytest.mark.parametrize(
    "kind", [pa.timestamp(unit, tz) for unit in ("s", "ms", "us", "ns") for tz in (None, "UTC")]
)
def test_timestamps_of_every_unit(log, kind):
    times = pa.array(
        [dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.UTC), None], pa.timestamp("s", "UTC")
    ).cast(kind)
    given, default = appended(log, pa.table({"value": ["a", "b"], "timestamp": times}))

    assert given.timestamp == 1_714_979_289_000
    assert default.timestamp > given.timestamp


@pytest.mark.parametrize(
    "carry",
    [
        pa.table,
        pl.DataFrame,
        pandas_of,
        lambda scan: duckdb.from_arrow(pa.table(scan)),
        lambda scan: pl.DataFrame(scan).lazy().tail(9).collect(),
        lambda scan: scan,
    ],
    ids=["pyarrow", "polars", "pandas", "duckdb", "polars, lazy", "as it is"],
)
@pytest.mark.parametrize(
    "names",
    [("key", "value", "headers"), ("key", "value", "timestamp", "headers"), COLUMN_NAMES],
    ids=str,
)
def test_a_log_goes_through_every_library_and_back(log, tmp_path, carry, names):
    log.append(
        [
            segstore.Record(value=b"v", key=b"k", headers=[("h", b"1"), ("i", None)], timestamp=5),
            segstore.Record(value=b"x" * 30, key=b"long" * 9, timestamp=6),
            segstore.Record(value=None, key=b"", timestamp=7),
        ]
    )
    with segstore.open(tmp_path / "copy-0", durability="none") as copy:
        records = appended(copy, carry(log.select(*names)))

    assert [(r.key, r.value) for r in records] == [(r.key, r.value) for r in log.scan()]
    assert [r.headers for r in records] == [r.headers for r in log.scan()]
    if "timestamp" in names:
        assert [r.timestamp for r in records] == [5, 6, 7]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"key": ["a", "b"]}).astype({"key": "category"}),
        pd.DataFrame({"key": ["a", "b"], "value": [1, 2]}).set_index("key")[[]].reset_index(),
        pl.DataFrame({"key": ["a", "b"]}, schema={"key": pl.Categorical}),
        pl.DataFrame({"key": ["a", "b"]}, schema={"key": pl.Enum(["b", "a"])}),
        pl.DataFrame({"key": ["a", "b"], "value": [None, None], "headers": [[], []]}),
        duckdb.sql("select unnest(['a', 'b']::enum('b', 'a')[]) as key"),
    ],
    ids=["category", "index", "Categorical", "Enum", "null columns", "duckdb enum"],
)
def test_each_librarys_own_types(log, manager, frame):
    assert [(r.key, r.value) for r in appended(log, frame)] == [(b"a", None), (b"b", None)]
    infos = manager.append("orders", frame)
    assert sum(info.records_count for info in infos.values()) == 2


@pytest.mark.parametrize(
    ("data", "column", "found"),
    [
        (pa.table({"value": [1]}), "value", "int64"),
        (pa.table({"value": pa.array([1.5]).dictionary_encode()}), "value", "dictionary<"),
        (pl.DataFrame({"key": [["a"]]}), "key", "large_list<string_view>"),
        (pa.table({"value": ["a"], "timestamp": ["b"]}), "timestamp", "string"),
        (pl.DataFrame({"value": ["a"], "headers": ["b"]}), "headers", "string_view"),
        (pl.DataFrame({"value": ["a"], "timestamp": [dt.date(2024, 1, 1)]}), "timestamp", "date32"),
    ],
    ids=["int64", "dictionary", "list", "timestamp", "headers", "date"],
)
def test_wrong_types_are_named_as_arrow_names_them(log, data, column, found):
    with pytest.raises(IllegalArgumentError, match=f"column {column} has the Arrow type") as caught:
        log.append(data)

    assert caught.value.found.startswith(found)
    assert caught.value.expected
    assert log.log_end_offset == 0


@pytest.mark.parametrize("data", [pa.array([1]), pl.Series("key", ["a"])])
def test_a_column_alone_is_no_table(log, manager, data):
    for append in (log.append, lambda data: manager.append("orders", data)):
        with pytest.raises(IllegalArgumentError, match="struct"):
            append(data)
