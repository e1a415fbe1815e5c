"""`segstore.polars` and topics as datasets: what the engines' plans show, and what is read."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import polars as pl
import pytest
from pyarrow import compute

import segstore
import segstore.polars
from segstore.errors import (
    ArgumentTypeError,
    ClosedError,
    CorruptRecordError,
    IllegalArgumentError,
    LogNotFoundError,
    NotALogError,
    UnknownTopicOrPartitionError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore import LogManager

NOW = datetime(2025, 1, 1, tzinfo=UTC)
COUNTS = (600, 300, 900)
OFFSET, KEY, TIMESTAMP, PARTITION = map(pl.col, ("offset", "key", "timestamp", "partition"))
ENGINES = ("in-memory", "streaming")


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogManager]:
    """Three partitions in segments of 100 records; each record is a second later."""
    with segstore.open_dir(
        tmp_path / "data", durability="none", internal_segment_bytes=1000
    ) as manager:
        manager.create_topic("orders", partitions=3)
        for number, count in enumerate(COUNTS):
            for first in range(0, count, 10):
                rows = [
                    (NOW + timedelta(seconds=n), b"k%d" % (n % 7), b"%d" % n)
                    for n in range(first, first + 10)
                ]
                manager.append("orders", rows, partition=number)
        yield manager


@pytest.fixture
def directory(logs: LogManager) -> Path:
    return Path(logs.path)


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], int]:
    """The bytes that were read of each segment, by the name of its partition and base offset."""
    from segstore.log import chunk_reader

    found: dict[tuple[str, int], int] = {}
    read = chunk_reader._read

    def noted(segment, *arguments):
        fetched = read(segment, *arguments)
        place = Path(segment.directory_path).name, segment.base_offset
        found[place] = found.get(place, 0) + (0 if fetched is None else fetched.size_bytes)
        return fetched

    monkeypatch.setattr(chunk_reader, "_read", noted)
    return found


def whole_size(logs: LogManager) -> int:
    return sum(logs.log("orders", number).stats()["size"] for number in range(3))


# ---- polars --------------------------------------------------------------------------------------


def test_nothing_is_read_or_open_before_collect(tmp_path):
    """The log need not even be there."""
    frame = segstore.polars.scan_log(tmp_path / "orders-0")
    topic = segstore.polars.scan_topic(tmp_path, "orders")
    schema = {
        "key": pl.Binary,
        "value": pl.Binary,
        "topic": pl.String,
        "partition": pl.Int32,
        "offset": pl.Int64,
        "timestamp": pl.Datetime("ms", "UTC"),
        "timestampType": pl.Int32,
        "headers": pl.List(pl.Struct({"key": pl.String, "value": pl.Binary})),
    }
    assert frame.collect_schema() == topic.collect_schema() == pl.Schema(schema)
    chosen = segstore.polars.scan_log(tmp_path / "orders-0", columns=["leaderEpoch", "offset"])
    assert chosen.collect_schema() == pl.Schema({"leaderEpoch": pl.Int32, "offset": pl.Int64})


def test_the_plan_shows_what_is_pushed_down(tmp_path):
    frame = segstore.polars.scan_topic(tmp_path, "orders")
    plan = (
        frame.filter(OFFSET.is_between(10, 20), PARTITION == 1, KEY == b"a")
        .select("value")
        .explain()
    )
    assert "PROJECT 4/8 COLUMNS" in plan
    (selection,) = [line for line in plan.splitlines() if "SELECTION: " in line]
    for part in (
        'col("offset").is_between([10, 20])',
        'col("partition") == 1',
        'col("key") == b"a"',
    ):
        assert part in selection
    assert "FILTER" not in plan
    assert "SLICE: Positive { offset: 0, len: 5 }" in frame.head(5).explain()


@pytest.mark.parametrize("engine", ENGINES)
def test_only_the_segments_that_must_be_are_read(directory, logs, read_bytes, engine):
    """A thousandth of the bytes for two records, of two partitions."""
    frame = segstore.polars.scan_topic(directory, "orders")
    found = (
        frame.filter((OFFSET == 5) | (OFFSET == 899))
        .select("partition", "offset")
        .collect(engine=engine)
    )
    assert found.rows() == [(0, 5), (1, 5), (2, 5), (2, 899)]
    assert {base // 100 for _, base in read_bytes} == {0, 8}
    assert sum(read_bytes.values()) < whole_size(logs) / 10
    read_bytes.clear()
    found = frame.filter(PARTITION == 1, OFFSET >= 250).collect(engine=engine)
    assert found["offset"].to_list() == [*range(250, 300)]
    assert {name for name, _ in read_bytes} == {"orders-1"}
    assert min(base for _, base in read_bytes) >= 200
    read_bytes.clear()
    late = frame.filter(NOW + timedelta(seconds=890) <= TIMESTAMP).select(pl.len())
    assert late.collect(engine=engine).item() == 10
    assert {name for name, _ in read_bytes} == {"orders-2"}
    read_bytes.clear()
    assert frame.filter(OFFSET < 0).collect(engine=engine).height == 0
    assert frame.filter(PARTITION == 7).collect(engine=engine).height == 0
    assert read_bytes == {}


def test_a_part_of_a_predicate_is_enough(directory, read_bytes):
    """What polars cannot hand to Arrow is applied to the rows."""
    frame = segstore.polars.scan_log(directory / "orders-2")
    strange = KEY.bin.starts_with(b"k3") & (OFFSET < 50) & (OFFSET % 2 == 0)
    found = frame.filter(strange).select("offset").collect()
    assert found["offset"].to_list() == [10, 24, 38]
    assert max(base for _, base in read_bytes) < 100
    found = frame.filter(OFFSET.rank() <= 3).select("offset").collect()
    assert found["offset"].to_list() == [0, 1, 2]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_limit_ends_the_reading(directory, read_bytes, engine):
    frame = segstore.polars.scan_log(directory / "orders-2")
    assert frame.head(3).collect(engine=engine)["offset"].to_list() == [0, 1, 2]
    assert {base for _, base in read_bytes} == {0}
    read_bytes.clear()
    assert frame.head(0).collect(engine=engine).height == 0
    assert read_bytes == {}
    assert frame.slice(500, 2).collect(engine=engine)["offset"].to_list() == [500, 501]
    first = frame.head(30).filter(KEY == b"k3").select("offset").collect(engine=engine)
    assert first["offset"].to_list() == [3, 10, 17, 24]
    later = frame.filter(OFFSET >= 400).head(2).collect(engine=engine)
    assert later["offset"].to_list() == [400, 401]
    assert frame.tail(1).collect(engine=engine)["offset"].item() == 899
    assert frame.select(pl.len()).collect(engine=engine).item() == 900


def test_each_collect_sees_what_there_is_then(directory, logs):
    frame = segstore.polars.scan_topic(directory, "orders").select(pl.len())
    assert frame.collect().item() == sum(COUNTS)
    logs.append("orders", [(b"k", b"later")], partition=0)
    assert frame.collect().item() == sum(COUNTS) + 1


def test_one_source_twice_in_a_query_is_read_once(directory, logs, read_bytes):
    frame = segstore.polars.scan_log(directory / "orders-1")
    joined = frame.join(frame, on="offset").select(pl.len())
    assert joined.collect(engine="in-memory").item() == COUNTS[1]
    assert sum(read_bytes.values()) <= logs.log("orders", 1).stats()["size"]


def test_bounds_and_partitions_of_the_scan_hold_too(directory):
    options = {"start_offset": 10, "end_offset": 20, "partitions": [2, 0], "columns": ["offset"]}
    frame = segstore.polars.scan_topic(directory, "orders", **options)
    assert frame.collect()["offset"].to_list() == [*range(10, 20)] * 2
    frame = segstore.polars.scan_topic(directory, "orders", start_offset={0: 599, 1: 299, 2: 899})
    assert frame.collect()["partition"].to_list() == [0, 1, 2]
    frame = segstore.polars.scan_log(
        directory / "orders-1", end_timestamp=NOW + timedelta(seconds=3)
    )
    assert frame.filter(OFFSET > 0).collect().height == 2


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda _: segstore.polars.scan_log(5), ArgumentTypeError, "path must be a path"),
        (
            lambda _: segstore.polars.scan_topic(5, "t"),
            ArgumentTypeError,
            "directory must be a path",
        ),
        (
            lambda at: segstore.polars.scan_log(at, columns=["nope"]),
            IllegalArgumentError,
            "no column 'nope'",
        ),
        (
            lambda at: segstore.polars.scan_topic(at, "t", columns=["nope"]),
            IllegalArgumentError,
            "no column 'nope'",
        ),
        (
            lambda at: segstore.polars.scan_log(at, start_offset=2, end_offset=1),
            IllegalArgumentError,
            "range from 2 to 1 is reversed",
        ),
        (
            lambda at: segstore.polars.scan_topic(at, "t", start_timestamp=2, end_timestamp=1),
            IllegalArgumentError,
            "range from 2 to 1 is reversed",
        ),
        (
            lambda at: segstore.polars.scan_topic(at, "t", start_offset={3: 2}, end_offset={3: 1}),
            IllegalArgumentError,
            "range from 2 to 1 is reversed",
        ),
        (
            lambda at: segstore.polars.scan_topic(at, "t", partitions=3),
            ArgumentTypeError,
            "partitions must be integers in a list",
        ),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(tmp_path, call, kind, message):
    with pytest.raises(kind, match=message):
        call(tmp_path)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_of_a_log_comes_out_of_collect_as_itself(directory, logs, engine):
    def collect(frame):
        return frame.collect(engine=engine)

    with pytest.raises(LogNotFoundError, match="beside it are orders-0, orders-1, orders-2"):
        collect(segstore.polars.scan_log(directory / "orders-9"))
    with pytest.raises(NotALogError, match=r"or all with segstore\.open_dir"):
        collect(segstore.polars.scan_log(directory))
    with pytest.raises(UnknownTopicOrPartitionError, match="no topic 'others' here"):
        collect(segstore.polars.scan_topic(directory, "others"))
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition orders-7 here"):
        collect(segstore.polars.scan_topic(directory, "orders", partitions=[7]))
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="nope"):
        collect(segstore.polars.scan_topic(directory, "orders").filter(pl.col("nope") == 1))
    damaged = directory / "orders-0" / logs.log("orders", 0).segments()[1].name
    data = bytearray(damaged.read_bytes())
    data[70] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(CorruptRecordError, match=r"checksum|CRC") as caught:
        collect(segstore.polars.scan_topic(directory, "orders"))
    assert caught.value.file == str(damaged)


@pytest.mark.parametrize("engine", [*ENGINES, "duckdb", "arrow"])
def test_control_c_in_the_middle_leaves_nothing_open(directory, monkeypatch, engine):
    """It comes out as itself, or as DuckDB's error; the log is closed, and can be read again."""
    from segstore.log import chunk_reader

    read, left = chunk_reader._read, iter(range(4))

    def interrupted(*arguments):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return read(*arguments)

    frame = segstore.polars.scan_topic(directory, "orders", columns=["offset", "value"])
    whole = frame.collect()
    with segstore.open_dir(directory, read_only=True) as logs, duckdb.connect() as connection:
        orders = logs.dataset("orders", columns=["offset", "value"])
        connection.register("orders", orders)
        monkeypatch.setattr(chunk_reader, "_read", interrupted)
        asks = {
            "duckdb": lambda: connection.execute("select * from orders").fetchall(),
            "arrow": orders.to_table,
        }
        ask = asks.get(engine, lambda: frame.collect(engine=engine))
        with pytest.raises((KeyboardInterrupt, duckdb.Error, pl.exceptions.PolarsError)):
            ask()
        assert next(left, None) is None
        monkeypatch.undo()
        assert orders.count_rows() == len(whole)
    assert frame.collect().equals(whole)


def test_without_polars_there_is_a_sentence():
    code = "import sys; sys.modules['polars'] = None\nimport segstore.polars"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "lazy frames need polars and pyarrow: pip install 'segstore[polars]'" in done.stderr


def test_without_pyarrow_there_is_a_sentence(tmp_path):
    code = (
        "import sys; sys.modules['pyarrow'] = None\nimport segstore\n"
        f"segstore.open({str(tmp_path / 'orders-0')!r}).dataset()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "a dataset needs pyarrow: pip install 'segstore[arrow]'" in done.stderr


# ---- DuckDB --------------------------------------------------------------------------------------


def test_the_plan_of_duckdb_shows_what_is_pushed_down(logs):
    orders = logs.dataset("orders")
    query = """SELECT value FROM orders WHERE "offset" >= 10 AND "partition" = 1 AND key = 'k3'"""
    with duckdb.connect() as connection:
        connection.register("orders", orders)
        ((_, plan),) = connection.sql(f"EXPLAIN {query}").fetchall()
        for part in ("Filters", "Projections", "offset", "value", "partition", "key"):
            assert part in plan
        assert "headers" not in plan
        assert [row[0] for row in connection.sql(query).fetchall()][:2] == [b"10", b"17"]


def test_duckdb_reads_only_the_segments_that_it_must(logs, read_bytes):
    with duckdb.connect() as connection:
        connection.register("orders", logs.dataset("orders"))

        def ask(query):
            read_bytes.clear()
            return connection.execute(query).fetchall()

        where = "\"offset\" BETWEEN 898 AND 899 AND key <> from_hex('00')"
        assert ask(f'SELECT "partition", value FROM orders WHERE {where}') == [
            (2, b"898"),
            (2, b"899"),
        ]
        assert {base // 100 for _, base in read_bytes} == {8}
        assert sum(read_bytes.values()) < whole_size(logs) / 10
        late = "TIMESTAMPTZ '2025-01-01 00:14:50+00'"
        assert ask(f'SELECT count(*) FROM orders WHERE "timestamp" >= {late}') == [(10,)]
        assert {name for name, _ in read_bytes} == {"orders-2"}
        assert ask('SELECT count(*) FROM orders WHERE "partition" = 1') == [(300,)]
        assert {name for name, _ in read_bytes} == {"orders-1"}
        assert ask("SELECT count(*) FROM orders WHERE topic = 'others'") == [(0,)]
        assert read_bytes == {}
        assert ask("SELECT count(*), count(DISTINCT key) FROM orders") == [(sum(COUNTS), 7)]
        assert len(ask("SELECT * FROM orders LIMIT 3")) == 3


# ---- topics as datasets --------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [0, 3])
def test_a_topic_is_a_dataset(logs, monkeypatch, threads):
    monkeypatch.setattr("segstore.tables.topic_scan.threads_count", lambda: threads)
    monkeypatch.setattr("segstore.tables.topic_scan.PART_BYTES", 250)
    dataset = logs.dataset("orders")
    assert dataset.to_table() == logs.to_arrow("orders")
    assert dataset.count_rows() == sum(COUNTS)
    table = dataset.to_table(
        filter=(compute.field("offset") > 595) & (compute.field("key") == b"k3")
    )
    assert table.select(["partition", "offset"]).to_pydict() == {
        "partition": [0] + [2] * 44,
        "offset": [598, *range(598, 900, 7)],
    }
    assert dataset.head(2)["offset"].to_pylist() == [0, 1]


def test_a_dataset_of_a_topic_takes_what_a_scan_takes(logs):
    options = {"columns": ["offset"], "partitions": [1], "start_offset": {1: 290}}
    assert logs.dataset("orders", **options).count_rows() == 10
    scan = logs.scan("orders", end_offset=10)
    assert scan.dataset().count_rows() == 30
    with pytest.raises(IllegalArgumentError, match="a dataset has no order"):
        logs.scan("orders", order="timestamp").dataset()
    with pytest.raises(IllegalArgumentError, match="has no order"):
        logs.dataset("orders", order="timestamp")


def test_wrong_arguments_of_a_dataset_are_refused_at_the_call(logs):
    with pytest.raises(UnknownTopicOrPartitionError, match="no topic 'others' here"):
        logs.dataset("others")
    with pytest.raises(IllegalArgumentError, match="no column 'nope'"):
        logs.dataset("orders", columns=["nope"])
    with pytest.raises(IllegalArgumentError, match="range from 2 to 1 is reversed"):
        logs.dataset("orders", start_offset=2, end_offset=1)
    with pytest.raises(IllegalArgumentError, match="names partition 9, which is not read"):
        logs.dataset("orders", end_offset={9: 1})
    dataset = logs.dataset("orders")
    logs.close()
    with pytest.raises(ClosedError):
        logs.dataset("orders")
    with pytest.raises(ClosedError):
        dataset.to_table()


def test_a_folder_of_files_names_the_pattern(tmp_path):
    """Its name is no partition's, and `scan_log` has no ``as_``."""
    with segstore.open(tmp_path / "orders-0") as log:
        log.append([(b"k", b"v")])
    folder = tmp_path / "fetched"
    folder.mkdir()
    (name,) = (tmp_path / "orders-0").glob("*.log")
    name.rename(folder / name.name)

    with pytest.raises((NotALogError, pl.exceptions.ComputeError), match=r"fetched/\*\.log'"):
        segstore.polars.scan_log(folder).collect()
    assert segstore.polars.scan_log(folder / "*.log").collect().height == 1
