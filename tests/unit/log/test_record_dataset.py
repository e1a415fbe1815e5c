"""A log as a dataset of pyarrow: what an engine may call, and what is read for it."""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import compute
from pyarrow import dataset as arrow_dataset

import segstore
from segstore.errors import ArgumentTypeError, ClosedError, CorruptRecordError, IllegalArgumentError
from segstore.log.scan import LogScan
from tests.kits.transactions_kit import ABORT, NOW, Producer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore import UnifiedLog

OFFSET, KEY, TIMESTAMP = map(compute.field, ("offset", "key", "timestamp"))
COUNT = 1000


@pytest.fixture
def log(tmp_path: Path) -> Iterator[UnifiedLog]:
    """A thousand records in a hundred segments; each record is a second later."""
    with segstore.open(
        tmp_path / "orders-1", durability="none", internal_segment_bytes=500
    ) as found:
        for first in range(0, COUNT, 10):
            found.append(
                [(NOW + 1000 * n, b"k%d" % (n % 7), b"%d" % n) for n in range(first, first + 10)]
            )
        yield found


@pytest.fixture
def read_ranges(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The base offset of each segment of which bytes were read, as often as they were."""
    from segstore.log import chunk_reader

    found: list[int] = []
    read = chunk_reader._read

    def noted(segment, *arguments):
        found.append(segment.base_offset)
        return read(segment, *arguments)

    monkeypatch.setattr(chunk_reader, "_read", noted)
    return found


def offsets(table: pa.Table) -> list[int]:
    return table["offset"].to_pylist()


def test_a_dataset_is_one_of_pyarrow(log):
    dataset = log.dataset()
    assert isinstance(dataset, arrow_dataset.Dataset)
    assert dataset.schema == log.scan().to_arrow().schema
    assert repr(dataset).startswith("RecordDataset(key, value, topic")
    dataset.to_table().validate(full=True)
    assert dataset.to_table() == log.to_arrow()
    assert dataset.count_rows() == COUNT
    assert offsets(dataset.head(3)) == [0, 1, 2]
    assert dataset.head(0).num_rows == 0
    assert offsets(dataset.take([5, 900], columns=["offset"])) == [5, 900]
    assert sum(batch.num_rows for batch in dataset.to_batches()) == COUNT


def test_columns_are_names_or_expressions(log):
    dataset = log.dataset(columns=["offset", "leaderEpoch", "value"])
    assert dataset.schema.names == ["offset", "leaderEpoch", "value"]
    table = dataset.to_table(columns=["value", "offset"], filter=OFFSET == 5)
    assert table.to_pylist() == [{"value": b"5", "offset": 5}]
    table = dataset.to_table(columns={"twice": OFFSET * 2}, filter=OFFSET < 3)
    assert table.to_pydict() == {"twice": [0, 2, 4]}
    assert dataset.to_table(columns=[], filter=OFFSET < 3).num_rows == 3
    assert dataset.scanner(columns={}).to_table().num_rows == COUNT


def test_a_filter_reads_only_the_segments_that_it_must(log, read_ranges):
    """Nothing is read before the first row is asked for."""
    bases = [segment.base_offset for segment in log.segments()]
    assert len(bases) > 30
    scanner = log.dataset().scanner(filter=(bases[7] <= OFFSET) & (bases[9] > OFFSET))
    reader = scanner.to_reader()
    assert read_ranges == []
    assert offsets(reader.read_all()) == [*range(bases[7], bases[9])]
    assert {*read_ranges} == {bases[7], bases[8]}
    read_ranges.clear()
    table = log.dataset().to_table(filter=OFFSET.isin([3, 998]) & (KEY == b"k3"))
    assert offsets(table) == [3]
    assert {*read_ranges} == {bases[0], bases[-1]}
    read_ranges.clear()
    late = pa.scalar(NOW + 990_000, pa.timestamp("ms", "UTC"))
    assert log.dataset().count_rows(filter=late <= TIMESTAMP) == 10
    assert len({*read_ranges}) <= 2
    read_ranges.clear()
    for impossible in (OFFSET > COUNT, OFFSET.is_null(), compute.field("partition") == 2):
        assert log.dataset().count_rows(filter=impossible) == 0
    assert read_ranges == []


NAN = float("nan")
PARTITION = compute.field("partition")


@pytest.mark.parametrize(
    "where",
    [
        OFFSET < NAN,
        OFFSET >= NAN,
        OFFSET != NAN,
        ~(OFFSET < NAN),
        ~(OFFSET >= NAN),
        ~(OFFSET == NAN),
        pa.scalar(NAN, pa.float32()) > OFFSET,
        OFFSET.isin(pa.array([NAN])),
        (OFFSET < 30) & ~(PARTITION > NAN),
        ~(compute.sqrt(compute.scalar(-1.0)) > OFFSET),
        compute.sqrt(PARTITION - 1) <= OFFSET,
        ~(compute.divide(compute.scalar(0.0), compute.scalar(0.0)) > OFFSET),
        ~(compute.scalar("nan").cast(pa.float64()) > OFFSET),
        compute.if_else(OFFSET > 5, compute.ln(compute.scalar(-1)), 3.0) != OFFSET,
    ],
    ids=str,
)
def test_what_is_compared_with_nan_is_as_over_a_table(log, where):
    """pyarrow takes `offset < nan` for proven where the least offset is known, also after it has
    made the NaN itself."""
    wanted = log.to_arrow().filter(where)
    assert offsets(log.dataset().to_table(filter=where)) == offsets(wanted)
    assert log.dataset().count_rows(filter=where) == len(wanted)


@pytest.mark.parametrize(
    ("first", "second"), [(compute.field(1), compute.field("leaderEpoch")), (compute.field(0), 1)]
)
def test_a_column_by_its_number_is_that_of_the_dataset(log, first, second):
    """Whatever else is read, and in which order."""
    columns = ["partition", "offset", "leaderEpoch"]
    table = log.scan(columns=columns).to_arrow()
    dataset = log.dataset(columns=columns)
    for where in (first < 30, (first == second) | (OFFSET == 70), ~(first < 990)):
        wanted = table.filter(where)
        assert dataset.count_rows(filter=where) == len(wanted)
        for query in (None, ["leaderEpoch", "offset"], ["offset"]):
            assert dataset.to_table(query, filter=where) == wanted.select(query or columns)
        found = dataset.to_table({"made": first, "offset": OFFSET}, filter=where)
        made = arrow_dataset.dataset(wanted).to_table({"made": first, "offset": OFFSET})
        assert found == made
    with pytest.raises(IllegalArgumentError, match="does not fit the columns: No match"):
        dataset.count_rows(filter=compute.field(9) == 1)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each batch that was decoded."""
    found: list[int] = []
    read = LogScan._arrow_batches

    def noted(scan, *arguments, **options):
        for batch in read(scan, *arguments, **options):
            found.append(batch.rows_count)
            yield batch

    monkeypatch.setattr(LogScan, "_arrow_batches", noted)
    return found


def test_a_limit_ends_the_reading(log, read_ranges):
    bases = [segment.base_offset for segment in log.segments()]
    dataset = log.dataset()
    assert offsets(dataset.head(5)) == [*range(5)]
    assert {*read_ranges} == {0}
    read_ranges.clear()
    batches = dataset.to_batches(filter=bases[3] <= OFFSET, batch_size=4)
    assert next(batches).num_rows == 4
    assert {*read_ranges} == {bases[3]}
    batches.close()


def test_few_rows_are_decoded_first(tmp_path, decoded):
    """`LIMIT 3` in DuckDB decoded 20,000."""
    with segstore.open(tmp_path / "many-0", durability="none") as log:
        for first in range(0, 60_000, 100):
            log.append([(b"k%d" % n, b"v") for n in range(first, first + 100)])
        dataset = log.dataset()
        decoded.clear()
        table = dataset.to_table()
        assert len(table) == 60_000
        assert decoded == [1000, 4000, 16_000, 20_000, 19_000]
        for query in (
            "SELECT * FROM dataset LIMIT 3",
            'SELECT "offset" FROM dataset WHERE "offset" > 7 LIMIT 3',
            "SELECT * FROM dataset WHERE key <> 'k3' LIMIT 3",
        ):
            decoded.clear()
            assert len(duckdb.sql(query).fetchall()) == 3
            assert sum(decoded) <= 5000, query


def test_few_rows_of_a_topic_are_decoded_first(tmp_path, decoded, monkeypatch):
    """No thread reads ahead before they were not enough."""
    monkeypatch.setattr("segstore.tables.topic_scan.threads_count", lambda: 2)
    monkeypatch.setattr("segstore.tables.topic_scan.PART_BYTES", 50_000)
    with segstore.open_dir(tmp_path, durability="none") as logs:
        logs.create_topic("orders", 2)
        for number in range(2):
            for _ in range(100):
                logs.append("orders", [(b"k", b"v")] * 100, partition=number)
        dataset = logs.dataset("orders")
        assert dataset.head(3).num_rows == 3
        assert sum(decoded) <= 1000
        assert dataset.to_table().num_rows == 20_000
        assert len(duckdb.sql("SELECT * FROM dataset LIMIT 3").fetchall()) == 3


def test_a_batch_has_no_more_rows_than_were_asked_for(log):
    sizes = [batch.num_rows for batch in log.dataset().to_batches(batch_size=7)]
    assert max(sizes) == 7
    assert sum(sizes) == COUNT
    with pytest.raises(IllegalArgumentError, match="batch_size must be above 0, not 0"):
        log.dataset().scanner(batch_size=0)


def test_each_query_sees_what_there_is_then(log):
    dataset, scan = log.dataset(), log.scan().dataset()
    log.append([(NOW, b"k", b"later")])
    assert dataset.count_rows() == COUNT + 1
    assert scan.count_rows() == COUNT
    assert dataset.count_rows(filter=OFFSET >= COUNT) == 1


def test_a_dataset_of_a_scan_has_its_range_and_columns(log):
    dataset = log.scan(100, 200, columns=["offset"], start_timestamp=NOW + 150_000).dataset()
    assert offsets(dataset.to_table()) == [*range(150, 200)]
    assert offsets(dataset.to_table(filter=OFFSET >= 190)) == [*range(190, 200)]
    assert offsets(log.dataset(start_offset=990).to_table()) == [*range(990, COUNT)]
    assert offsets(log[5:8].dataset().to_table()) == [5, 6, 7]


def test_read_only_and_damaged_logs_have_datasets_too(log, tmp_path):
    with segstore.open(tmp_path / "orders-1", read_only=True) as reader:
        assert reader.dataset().count_rows(filter=OFFSET < 30) == 30
    path = tmp_path / "orders-1" / log.segments()[3].name
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    first = log.segments()[3].base_offset
    assert log.dataset().count_rows(filter=first > OFFSET) == first
    with pytest.raises(CorruptRecordError) as caught:
        log.dataset().to_table()
    assert caught.value.file == str(path)
    with pytest.warns(UserWarning, match=f"offsets {first} to "):
        rest = log.dataset(on_damage="skip").count_rows()
    assert first < rest < COUNT


def damaged(log: UnifiedLog, *numbers: int) -> list[int]:
    """Flip a bit in segments; returns their base offsets."""
    for number in numbers:
        path = Path(log.path) / log.segments()[number].name
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(data)
    return [log.segments()[number].base_offset for number in numbers]


@pytest.mark.parametrize("where", [None, KEY == b"k3", OFFSET >= 10, KEY != b"none"], ids=str)
def test_a_query_warns_of_what_it_leaves_out(log, where):
    """Once, with the ranges; nothing else would tell, as a dataset has no `skipped`."""
    bases = damaged(log, 5, 9, 20, 30, 31)
    with pytest.warns(UserWarning, match="leaves out") as caught:
        log.dataset(on_damage="skip").to_table(filter=where)
    assert len(caught) == 1
    text = str(caught[0].message)
    assert text.startswith("the query leaves out 5 ranges of offsets: ")
    assert [f"offsets {base} to " in text for base in bases] == [True, True, True, False, False]
    assert text.endswith("after a pass over a scan, its `skipped` lists them all")


def test_a_filter_that_leaves_out_the_damage_warns_of_none(log):
    (base,) = damaged(log, 30)
    with warnings.catch_warnings(action="error"):
        assert log.dataset(on_damage="skip").count_rows(filter=base > OFFSET) == base
        assert log.dataset(on_damage="skip").head(5).num_rows == 5


def test_only_committed_records(log):
    producer = Producer(log, 7)
    producer.write(1)
    producer.end(ABORT)
    assert log.dataset().count_rows() == COUNT + 1
    assert log.dataset(isolation="read_committed").count_rows() == COUNT
    where = OFFSET >= COUNT
    assert log.dataset(isolation="read_committed").count_rows(filter=where) == 0


def test_filters_add_up(log):
    dataset = log.dataset().filter(OFFSET >= 10).filter(OFFSET < 20)
    assert offsets(dataset.to_table()) == [*range(10, 20)]
    assert offsets(dataset.to_table(filter=OFFSET > 17)) == [18, 19]
    assert dataset.count_rows() == 10


def test_what_pyarrow_does_with_a_dataset_works(log, tmp_path):
    """It sorts and joins in memory; files of any format are written from the stream."""
    dataset = log.dataset(columns=["offset", "value"])
    assert dataset.sort_by([("offset", "descending")]).head(1)["offset"].to_pylist() == [COUNT - 1]
    other = arrow_dataset.dataset(pa.table({"offset": pa.array([5, 6]), "name": ["a", "b"]}))
    joined = dataset.join(other, keys="offset", join_type="inner").to_table()
    assert sorted(joined["name"].to_pylist()) == ["a", "b"]
    nearest = dataset.join_asof(other, on="offset", by=[], tolerance=0)
    assert nearest.count_rows() == COUNT
    arrow_dataset.write_dataset(dataset, tmp_path / "out", format="ipc")
    assert arrow_dataset.dataset(tmp_path / "out", format="ipc").count_rows() == COUNT
    tagged = [one.record_batch.num_rows for one in dataset.scanner().scan_batches()]
    assert sum(tagged) == COUNT


def test_what_a_dataset_cannot_do_is_refused(log):
    """Also what pyarrow does by itself, past the methods of this class: there are no files."""
    dataset = log.dataset()
    with pytest.raises(IllegalArgumentError, match="no get_fragments: use scanner"):
        dataset.get_fragments()
    with pytest.raises(IllegalArgumentError, match="no replace_schema: use to_table"):
        dataset.replace_schema(dataset.schema)
    for take_along in (pickle.dumps, copy.copy):
        with pytest.raises(ArgumentTypeError, match="open the log there"):
            take_along(dataset)
    of_pyarrow = arrow_dataset.dataset(pa.table({"offset": [1]}))
    with pytest.raises(OSError, match="is read with scanner"):
        of_pyarrow.join(log.dataset(columns=["offset", "value"]), keys="offset")


def test_any_arrow_consumer_reads_it(log):
    dataset = log.dataset(columns=["offset", "key"])
    assert pl.DataFrame(dataset).height == COUNT
    assert pa.table(dataset.scanner(filter=OFFSET < 5)).num_rows == 5
    assert isinstance(dataset.to_table().to_pandas(), pd.DataFrame)
    frame = pl.scan_pyarrow_dataset(dataset).filter(pl.col("offset") < 5).select("key")
    assert frame.collect().height == 5


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"columns": ["nope"]}, "does not fit the columns: .*nope"),
        ({"filter": compute.field("nope") == 1}, "does not fit the columns: No match.*nope"),
        ({"filter": KEY > 5}, "does not fit the columns: Function 'greater' has no kernel"),
        ({"columns": {"a": compute.field("nope")}}, "does not fit the columns: No match.*nope"),
    ],
)
def test_a_query_that_does_not_fit_is_an_error(log, query, message):
    """One line, without pyarrow's list of the schema."""
    with pytest.raises(IllegalArgumentError, match=message) as caught:
        log.dataset().scanner(**query)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("query", [{"filter": "offset > 5"}, {"columns": {"a": "offset"}}])
def test_text_is_no_expression(log, query):
    with pytest.raises(ArgumentTypeError, match="must be an expression of pyarrow, not 'offset"):
        log.dataset().scanner(**query)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"columns": ["nope"]}, "no column 'nope'"),
        ({"columns": "offset"}, "columns is the text 'offset'"),
        ({"start_offset": 5, "end_offset": 4}, "the offset range from 5 to 4 is reversed"),
        ({"start_timestamp": 5, "end_timestamp": 4}, "the timestamp range from 5 to 4"),
        ({"isolation": "dirty"}, "isolation must be one of"),
        ({"on_damage": "ignore"}, "on_damage must be"),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(log, query, message):
    with pytest.raises(IllegalArgumentError, match=message):
        log.dataset(**query)


def test_a_closed_log_is_an_error(log):
    """For who asks for a dataset, and for who has one."""
    dataset, begun = log.dataset(), log.dataset().to_batches(batch_size=5)
    next(begun)
    log.close()
    with pytest.raises(ClosedError, match="the log orders-1 is closed"):
        log.dataset()
    with pytest.raises(ClosedError, match="the log orders-1 is closed"):
        dataset.to_table()
    with pytest.raises(duckdb.Error, match="the log orders-1 is closed"):
        duckdb.sql("select * from dataset").fetchall()


def test_an_offset_that_the_log_does_not_have_is_an_error_of_the_query(log):
    dataset = log.dataset(start_offset=COUNT + 5)
    with pytest.raises(segstore.OffsetOutOfRangeError):
        dataset.to_table()
