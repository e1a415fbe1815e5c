"""Random queries over a broker's topics, against a full scan of their logs one by one.

The oracle is a list of rows that `Log.scan` gave of the whole log, filtered in Python.
"""

from __future__ import annotations

import random
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import segstore
from segstore.records.columns import KAFKA_COLUMNS
from tests.kits.golden import packed_root

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from segstore import LogManager

QUERIES = 200
COLUMNS = (*KAFKA_COLUMNS, "leaderEpoch")
HIDDEN = ("plain",)
"""Topics with records that the header of their batch counts and no reader sees."""
ISOLATIONS = ("log_end", "read_committed")
Row = dict[str, Any]


class Topic(NamedTuple):
    """A topic of one case, and all rows of it."""

    directory: Path
    name: str
    rows: dict[str, dict[int, list[Row]]]
    """By isolation and partition."""


def rows_of(table: Any) -> list[Row]:
    table.validate(full=True)
    return table.to_pylist()


@pytest.fixture(scope="module")
def topics(pytestconfig: pytest.Config) -> list[Topic]:
    """Every topic of the packed directories that can be read to its end."""
    return [
        Topic(directory, name, _all_rows(directory, name, numbers))
        for directory in sorted(packed_root(pytestconfig).glob("*/data*"))
        for name, numbers in _topics_in(directory)
    ]


def _topics_in(directory: Path) -> Iterator[tuple[str, list[int]]]:
    with segstore.open_dir(directory, read_only=True) as logs:
        yield from logs.topics().items()


def _all_rows(directory: Path, name: str, numbers: list[int]) -> dict[str, dict[int, list[Row]]]:
    rows: dict[str, dict[int, list[Row]]] = {isolation: {} for isolation in ISOLATIONS}
    for number in numbers:
        with segstore.open(directory / f"{name}-{number}", read_only=True) as log:
            for isolation in ISOLATIONS:
                scan = log.scan(columns=COLUMNS, isolation=isolation)
                rows[isolation][number] = rows_of(scan.to_arrow())
    return rows


class Query:
    """A random query, and which rows it selects."""

    def __init__(self, topic: Topic, chance: random.Random) -> None:
        self._chance = chance
        self.isolation = chance.choice(ISOLATIONS)
        by_partition = topic.rows[self.isolation]
        self.numbers = sorted(chance.sample([*by_partition], chance.randint(1, len(by_partition))))
        self.arguments: dict[str, Any] = {"isolation": self.isolation}
        if self.numbers != [*by_partition]:
            self.arguments["partitions"] = self.numbers
        if chance.random() < 0.5:
            self.arguments["columns"] = chance.sample(COLUMNS, chance.randint(1, len(COLUMNS)))
        every = [row for number in self.numbers for row in by_partition[number]]
        self.order = chance.choice(["partition", "timestamp"])
        if self.order == "timestamp":
            self.arguments["order"] = self.order
        self._bound("offset", [row["offset"] for row in every])
        self._bound("timestamp", [row["timestamp"] for row in every])
        self.expected = {
            number: [row for row in by_partition[number] if self._selects(row)]
            for number in self.numbers
        }

    def _bound(self, what: str, values: list[Any]) -> None:
        """Choose none, one or both bounds among *values*, by partition too."""
        chance = self._chance
        kinds = chance.choice([(), (), ("start",), ("end",), ("start", "end")])
        if not values or not kinds:
            return
        low, high = sorted(chance.choices(values, k=2))
        for kind, value in (("start", low), ("end", high)):
            if kind in kinds:
                self.arguments[f"{kind}_{what}"] = value
        if what == "offset" and kinds == ("end",) and chance.random() < 0.5:
            some = chance.sample(self.numbers, chance.randint(1, len(self.numbers)))
            self.arguments["end_offset"] = dict.fromkeys(some, high)

    def _selects(self, row: Row) -> bool:
        for what in ("offset", "timestamp"):
            start = self.arguments.get(f"start_{what}")
            end = self.arguments.get(f"end_{what}")
            if isinstance(end, dict):
                end = end.get(row["partition"])
            if (start is not None and row[what] < start) or (end is not None and row[what] >= end):
                return False
        return True

    @property
    def every(self) -> list[Row]:
        """What is selected, with all columns and in order."""
        if self.order == "timestamp":
            return [*merge(*self.expected.values(), key=itemgetter("timestamp"))]
        return [row for rows in self.expected.values() for row in rows]

    @property
    def expected_rows(self) -> list[Row]:
        columns = self.arguments.get("columns", COLUMNS[:-1])
        return [{name: row[name] for name in columns} for row in self.every]

    def check(self, logs: LogManager, name: str) -> None:
        scan = logs.scan(name, **self.arguments)
        places = [(row["partition"], row["offset"]) for row in self.every]
        assert rows_of(scan.to_arrow()) == self.expected_rows
        assert [(record.partition, record.offset) for record in scan] == places
        assert scan.count() == len(places)
        if name not in HIDDEN:
            assert len(scan) == len(places)
        assert bool(scan) == bool(places)


@pytest.mark.parametrize("threads", [0, 3])
def test_random_queries_give_what_a_full_scan_has(topics, monkeypatch, threads):
    """Columns, partitions, offsets for all or by partition, timestamps, isolation, order."""
    monkeypatch.setattr("segstore.tables.topic_scan.threads_count", lambda: threads)
    monkeypatch.setattr("segstore.tables.topic_scan.PART_BYTES", 2000)
    chance = random.Random(33 + threads)
    rows = 0
    for number in range(QUERIES):
        topic = topics[number % len(topics)] if number < len(topics) else chance.choice(topics)
        query = Query(topic, chance)
        with segstore.open_dir(topic.directory, read_only=True) as logs:
            query.check(logs, topic.name)
        rows += len(query.expected_rows)
    assert len(topics) > 50
    assert rows > 10_000
