"""Random filters, columns and limits over a broker's topics: the same engine reads all rows first.

The oracle is a table in memory of all rows of the topic, queried by the same engine.
"""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import compute
from pyarrow import dataset as arrow_dataset

import segstore
import segstore.polars
from segstore.errors import SegstoreError
from segstore.records.columns import KAFKA_COLUMNS
from tests.kits.golden import golden_root, packed_root

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COLUMNS = (*KAFKA_COLUMNS, "leaderEpoch")
ISOLATIONS = ("log_end", "read_committed")
SHIPPED_QUERIES = 240
QUERIES = 500
"""Over a folder that ``--golden`` names."""
MOST_ROWS = 100_000
"""Of a topic that is queried again and again."""


class Topic(NamedTuple):
    """A topic of one case, and all rows of it by isolation."""

    directory: Path
    name: str
    numbers: list[int]
    rows: dict[str, pa.Table]


@pytest.fixture(scope="module")
def topics(pytestconfig: pytest.Config) -> list[Topic]:
    """Every topic that can be read to its end."""
    root = golden_root(pytestconfig)
    return [topic for directory in sorted(root.glob("*/data*")) for topic in _topics_in(directory)]


def _topics_in(directory: Path) -> Iterator[Topic]:
    try:
        logs = segstore.open_dir(directory, read_only=True)
    except SegstoreError:
        return
    with logs:
        for name, numbers in logs.topics().items():
            try:
                rows = {
                    one: logs.to_arrow(name, columns=COLUMNS, isolation=one) for one in ISOLATIONS
                }
            except SegstoreError:  # damaged, or not all is here
                continue
            if len(rows["log_end"]) <= MOST_ROWS:
                yield Topic(directory, name, numbers, rows)


# ---- filters, in three languages -----------------------------------------------------------------


class Filter(NamedTuple):
    """The same filter for each engine."""

    sql: str
    polars: pl.Expr
    arrow: Any


def random_filter(chance: random.Random, table: pa.Table, depth: int = 0) -> Filter:
    """Return a filter whose constants are near values of the table."""
    kind = chance.choice(["and", "or", "not", "leaf", "leaf"] if depth < 3 else ["leaf"])
    if kind == "leaf":
        return _leaf(chance, table)
    first = random_filter(chance, table, depth + 1)
    if kind == "not":
        return Filter(f"NOT ({first.sql})", ~first.polars, ~first.arrow)
    second = random_filter(chance, table, depth + 1)
    sql = f"(({first.sql}) {kind.upper()} ({second.sql}))"
    if kind == "and":
        return Filter(sql, first.polars & second.polars, first.arrow & second.arrow)
    return Filter(sql, first.polars | second.polars, first.arrow | second.arrow)


def _leaf(chance: random.Random, table: pa.Table) -> Filter:
    name = chance.choice(["offset"] * 4 + ["timestamp"] * 3 + ["partition", "key", "topic"])
    values = [_value(chance, table, name) for _ in range(3)]
    kind = chance.choice(["compare", "compare", "between", "in", "null", "other"])
    if kind == "between":
        low, high = sorted(values[:2])
        return Filter(
            f'"{name}" BETWEEN {_sql(low)} AND {_sql(high)}',
            pl.col(name).is_between(_polars(low), _polars(high)),
            (compute.field(name) >= _arrow(low)) & (compute.field(name) <= _arrow(high)),
        )
    if kind == "in":
        return Filter(
            f'"{name}" IN ({", ".join(map(_sql, values))})',
            pl.any_horizontal(*(pl.col(name) == _polars(one) for one in values)),
            compute.field(name).isin(pa.array(values, table.schema.field(name).type)),
        )
    if kind == "null":
        return Filter(f'"{name}" IS NULL', pl.col(name).is_null(), compute.field(name).is_null())
    if kind == "other" and name in ("offset", "partition"):
        rest = chance.randint(0, 2)
        return Filter(
            f'"{name}" % 3 = {rest}',
            pl.col(name) % 3 == rest,
            compute.subtract(
                compute.field(name),
                compute.multiply(compute.divide(compute.field(name), 3), 3),
            )
            == rest,
        )
    sign = chance.choice(["<", "<=", ">", ">=", "=", "!="])
    method = {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}[sign]
    compared = f"__{method}__"
    return Filter(
        f'"{name}" {sign} {_sql(values[0])}',
        getattr(pl.col(name), compared)(_polars(values[0])),
        getattr(compute.field(name), compared)(_arrow(values[0])),
    )


def _value(chance: random.Random, table: pa.Table, name: str) -> Any:
    """Return a value of a column, or one beside it."""
    found = table[name][chance.randrange(len(table))].as_py()
    if name == "key":
        return b"no key" if found is None else found
    if name == "topic":
        return chance.choice([found, "another"])
    near = chance.choice([-1, 0, 0, 1])
    if name == "timestamp":
        return found + timedelta(milliseconds=near)
    return found + near


def _sql(value: Any) -> str:
    if isinstance(value, bytes):
        return f"from_hex('{value.hex()}')"
    if isinstance(value, datetime):
        return f"TIMESTAMPTZ '{value.astimezone(UTC).isoformat(sep=' ')}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


def _polars(value: Any) -> Any:
    return pl.lit(value)


def _arrow(value: Any) -> Any:
    return pa.scalar(value)


# ---- the engines ---------------------------------------------------------------------------------


class Query(NamedTuple):
    """What is asked of a topic."""

    topic: Topic
    isolation: str
    partition: int | None
    columns: list[str]
    filter: Filter | None
    limit: int | None

    @property
    def rows(self) -> pa.Table:
        """All rows."""
        rows = self.topic.rows[self.isolation]
        if self.partition is None:
            return rows
        return rows.filter(compute.field("partition") == self.partition)


def ask_duckdb(query: Query, source: Any) -> list[Any]:
    names = ", ".join(f'"{name}"' for name in query.columns)
    where = "" if query.filter is None else f" WHERE {query.filter.sql}"
    limit = "" if query.limit is None else f" LIMIT {query.limit}"
    connection = duckdb.connect(config={"threads": 2})
    connection.register("source", source)
    with connection:
        return connection.execute(f"SELECT {names} FROM source{where}{limit}").fetchall()


def ask_polars(query: Query, frame: pl.LazyFrame, engine: str) -> list[Any]:
    if query.filter is not None:
        frame = frame.filter(query.filter.polars)
    if query.limit is not None:
        frame = frame.head(query.limit)
    return frame.select(query.columns).collect(engine=engine).rows()


def ask_arrow(query: Query, source: Any) -> list[Any]:
    where = None if query.filter is None else query.filter.arrow
    if query.limit is not None:
        found = source.head(query.limit, columns=query.columns, filter=where)
    else:
        found = source.to_table(columns=query.columns, filter=where)
    found.validate(full=True)
    return found.to_pylist()


def check_query(query: Query, engine: str) -> int:
    directory, name = query.topic.directory, query.topic.name
    options: dict[str, Any] = {"columns": COLUMNS, "isolation": query.isolation}
    if engine == "duckdb":
        expected = ask_duckdb(query, query.rows)
    elif engine == "arrow":
        expected = ask_arrow(query, arrow_dataset.dataset(query.rows))
    else:
        expected = ask_polars(query, pl.DataFrame(query.rows).lazy(), engine)
        if query.partition is None:
            frame = segstore.polars.scan_topic(directory, name, **options)
        else:
            frame = segstore.polars.scan_log(directory / f"{name}-{query.partition}", **options)
        assert ask_polars(query, frame, engine) == expected
        return len(expected)
    with segstore.open_dir(directory, read_only=True) as logs:
        if query.partition is None:
            source = logs.dataset(name, **options)
        else:
            source = logs.log(name, query.partition).dataset(**options)
        found = ask_duckdb(query, source) if engine == "duckdb" else ask_arrow(query, source)
    if engine == "duckdb":  # in any order, and any rows where there is a limit
        whole = ask_duckdb(query._replace(limit=None), query.rows)
        assert len(found) == len(expected)
        assert not Counter(map(repr, found)) - Counter(map(repr, whole))
    else:
        assert found == expected
    return len(expected)


@pytest.mark.parametrize("threads", [0, 3])
def test_random_lazy_queries_give_what_a_full_scan_has(topics, pytestconfig, monkeypatch, threads):
    """Filters of five columns, with and, or, not; projections and limits."""
    monkeypatch.setattr("segstore.tables.topic_scan.threads_count", lambda: threads)
    monkeypatch.setattr("segstore.tables.topic_scan.PART_BYTES", 2000)
    monkeypatch.setattr("segstore.log.late_columns.LEAST_RECORDS", 1)
    for module in ("segstore.log.record_dataset", "segstore.polars"):
        monkeypatch.setattr(f"{module}.MAX_BATCH_ROWS", 20)
    chance = random.Random(3300 + threads)
    with_rows = [topic for topic in topics if len(topic.rows["log_end"])]
    is_shipped = golden_root(pytestconfig) == packed_root(pytestconfig)
    rows = 0
    for _ in range((SHIPPED_QUERIES if is_shipped else QUERIES) // 2):
        topic = chance.choice(with_rows)
        isolation = chance.choice(ISOLATIONS)
        partition = chance.choice([None, chance.choice(topic.numbers)])
        query = Query(topic, isolation, partition, [], None, None)
        if not len(query.rows):
            continue
        query = query._replace(
            columns=chance.sample(COLUMNS, chance.randint(1, len(COLUMNS))),
            filter=random_filter(chance, query.rows) if chance.random() < 0.9 else None,
            limit=chance.choice([None, None, chance.randint(0, 40)]),
        )
        rows += check_query(query, chance.choice(["duckdb", "in-memory", "streaming", "arrow"]))
    assert rows > 1000
