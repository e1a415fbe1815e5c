"""Partitions merged by timestamp: ``order="timestamp"`` of `LogManager.scan`.

The oracle is `heapq.merge` of the records of each log.
"""

from __future__ import annotations

import random
import sys
from heapq import merge
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest

import segstore
from segstore.errors import CorruptRecordError, IllegalArgumentError, InvalidRecordError
from tests.kits.log_kit import TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from segstore import LogManager

Place = tuple[int, int]


@pytest.fixture(params=[0, 3], ids=["no threads", "threads"], autouse=True)
def threads(request, monkeypatch):
    """How many threads read ahead."""
    monkeypatch.setattr("segstore.tables.topic_scan.threads_count", lambda: request.param)
    return request.param


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., LogManager]]:
    """Make the topic ``t`` of partitions with records of these timestamps, so many in a batch."""
    opened: list[LogManager] = []

    def make_topic(*partitions: Sequence[int], of_batch: int = 3) -> LogManager:
        logs = segstore.open_dir(tmp_path / f"data{len(opened)}", durability="none")
        opened.append(logs)
        logs.create_topic("t", partitions=len(partitions))
        for number, times in enumerate(partitions):
            for first in range(0, len(times), of_batch):
                records = [
                    segstore.Record(
                        timestamp=TIME + time,
                        value=b"%d %d" % (number, time),
                        headers=[("h", b"x")],
                    )
                    for time in times[first : first + of_batch]
                ]
                logs.append("t", records, partition=number)
        return logs

    yield make_topic
    for logs in opened:
        logs.close()


def expected(logs: LogManager, **query: object) -> list[Place]:
    partitions = [logs.log("t", number).scan(**query) for number in logs.topics()["t"]]
    found = merge(*partitions, key=lambda record: record.timestamp)
    return [(record.partition, record.offset) for record in found]


def places(table: pa.Table) -> list[Place]:
    table.validate(full=True)
    return list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def check(logs: LogManager, **sizes: int) -> None:
    scan = logs.scan("t", order="timestamp")
    right = expected(logs)
    assert [(record.partition, record.offset) for record in scan] == right
    batches = [*scan.arrow_batches(**sizes)]
    table = pa.Table.from_batches(batches, batches[0].schema) if batches else scan.to_arrow()
    assert places(table) == right
    values = [b"%d %d" % (number, time) for number, time in _times(logs, right)]
    assert table["value"].to_pylist() == values
    assert all(one == [{"key": "h", "value": b"x"}] for one in table["headers"].to_pylist())
    assert scan.count() == len(scan) == len(right)


def _times(logs: LogManager, found: list[Place]) -> list[Place]:
    return [(number, logs.log("t", number)[offset].timestamp - TIME) for number, offset in found]


@pytest.mark.parametrize(
    "partitions",
    [
        ([1, 4, 7], [2, 5, 8], [3, 6, 9]),
        ([1, 2, 3], [4, 5, 6], [7, 8, 9]),
        ([7, 8, 9], [4, 5, 6], [1, 2, 3]),
        ([5, 5, 5, 5], [5, 5], [5, 5, 5, 5, 5, 5, 5]),
        ([], [1, 2], []),
        ([], []),
        ([3, 1, 2],),
        ([5, 1, 7], [3, 6]),
        ([9, 1, 1, 1], [2, 2, 2], [9, 9, 9]),
        ([1] * 3 + [5] * 3, [1, 1, 1, 5, 5, 5]),
        (range(0, 3000, 2), range(1, 3000, 2)),
        ([*range(500), *range(1000, 1500)], range(400, 1100)),
    ],
    ids=str,
)
@pytest.mark.parametrize("sizes", [{}, {"rows": 1}, {"rows": 4, "max_bytes": 50}], ids=str)
def test_records_and_rows_are_merged(make, partitions, sizes):
    check(make(*partitions), **sizes)


@pytest.mark.parametrize("seed", range(30))
def test_random_partitions_sorted_or_not(make, seed, monkeypatch):
    chance = random.Random(seed)
    partitions = []
    for _ in range(chance.randint(1, 6)):
        times = [
            chance.randrange(chance.choice([3, 50, 5000])) for _ in range(chance.randrange(300))
        ]
        partitions.append(sorted(times) if chance.random() < 0.6 else times)
    monkeypatch.setattr("segstore.tables.topic_scan.LEAST_BATCH_BYTES", 100)
    monkeypatch.setattr("segstore.tables.timestamp_order._LONG_RUN", chance.choice([1, 4, 128]))
    logs = make(*partitions, of_batch=chance.choice([1, 7, 100]))
    check(logs, rows=chance.choice([1, 10, 1000]), max_bytes=chance.choice([100, 10_000]))


def test_sorted_partitions_give_sorted_rows(make):
    logs = make(*(sorted(random.Random(n).choices(range(9999), k=2000)) for n in range(5)))
    times = logs.scan("t", order="timestamp").to_arrow()["timestamp"].cast("int64").to_pylist()
    assert times == sorted(times)


def test_columns_without_the_timestamp(make):
    logs = make([1, 4], [2, 3])
    scan = logs.scan("t", columns=["value"], order="timestamp")
    assert scan.to_arrow().to_pydict() == {"value": [b"0 1", b"1 2", b"1 3", b"0 4"]}
    assert pl.DataFrame(scan).columns == ["value"]
    assert scan.to_arrow(columns=["offset", "timestamp"]).column_names == ["offset", "timestamp"]
    assert scan.to_arrow(columns=[]).column_names == []


def test_every_door(make):
    logs = make([1, 4], [2, 3])
    right = [(0, 0), (1, 0), (1, 1), (0, 1)]
    assert places(logs.to_arrow("t", order="timestamp")) == right
    frame = logs.to_pandas("t", order="timestamp")
    assert [*zip(frame["partition"], frame["offset"], strict=True)] == right
    frame = pl.DataFrame(logs.scan("t", order="timestamp"))
    assert frame.select("partition", "offset").rows() == right
    stored = [batch.base_offset for batch in logs.scan("t", order="timestamp").batches()]
    assert stored == [0, 0]
    logs.create_topic("copy")
    logs.append("copy", logs.scan("t", order="timestamp"))
    copied = [(one.value, one.headers) for one in logs.scan("copy")]
    assert copied[0] == (b"0 1", (("h", b"x"),))
    assert [value for value, _ in copied] == [b"0 1", b"1 2", b"1 3", b"0 4"]


def test_a_range(make):
    logs = make(range(0, 100, 3), range(0, 100, 2), range(50))
    query = {"start_timestamp": TIME + 20, "end_timestamp": TIME + 70}
    scan = logs.scan("t", order="timestamp", **query)
    assert places(scan.to_arrow()) == expected(logs, **query)


def test_microseconds(make):
    scan = make([1, 4], [2, 3]).scan("t", order="timestamp")
    batches = [*scan.arrow_batches(timestamp_unit="us")]
    assert batches[0].schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert places(pa.Table.from_batches(batches)) == [(0, 0), (1, 0), (1, 1), (0, 1)]


def test_one_batch_of_a_partition_is_in_memory(make, monkeypatch, threads):
    """What is decoded and not given out yet is less than two batches of each partition.

    Threads have read one more.
    """
    monkeypatch.setattr("segstore.tables.topic_scan.LEAST_BATCH_BYTES", 1)
    logs = make(range(0, 3000, 3), range(1, 3000, 3), range(2000), of_batch=10)
    decoded = 0
    original = segstore.LogScan._arrow_batches

    def counted(self, *arguments, **options):
        nonlocal decoded
        for batch in original(self, *arguments, **options):
            decoded += batch.rows_count
            yield batch

    monkeypatch.setattr(segstore.LogScan, "_arrow_batches", counted)
    given = 0
    for batch in logs.scan("t", order="timestamp").arrow_batches(rows=10):
        assert decoded - given <= 3 * (3 if threads else 2) * 10
        given += batch.num_rows
    assert given == decoded == 4000


def test_damage_comes_behind_what_is_before_it(make, tmp_path):
    logs = make(range(0, 60, 2), range(1, 60, 2))
    logs.close()
    file = tmp_path / "data0" / "t-1" / f"{0:020d}.log"
    content = bytearray(file.read_bytes())
    content[len(content) // 10 * 6 - 2] ^= 1  # of ten batches
    file.write_bytes(content)
    with segstore.open_dir(tmp_path / "data0", read_only=True) as reader:
        found: list[int] = []
        batches = reader.scan("t", order="timestamp").arrow_batches(rows=1)
        with pytest.raises(CorruptRecordError):
            found.extend(n for one in batches for n in one["timestamp"].cast("int64").to_pylist())
        assert found
        assert found == [TIME + n for n in range(len(found))]
        with pytest.raises(CorruptRecordError):
            reader.to_arrow("t", order="timestamp")


def test_a_timestamp_that_does_not_fit_microseconds(make):
    logs = make([1])
    logs.create_topic("late", partitions=2)
    logs.log("late", 0).update_config(segstore.LogConfig(message_timestamp_after_max_ms=2**63 - 1))
    logs.append("late", [(2**62, None, b"x")], partition=0)
    logs.append("late", [(1, None, b"x")], partition=1)
    scan = logs.scan("late", order="timestamp")
    assert places(scan.to_arrow(columns=["partition", "offset"])) == [(1, 0), (0, 0)]
    with pytest.raises(InvalidRecordError):
        list(scan.arrow_batches(timestamp_unit="us"))


@pytest.mark.parametrize("order", ["offset", "", None, ["timestamp"]])
def test_another_order_is_refused(make, order):
    with pytest.raises(IllegalArgumentError, match="order must be 'partition' or 'timestamp', not"):
        make([1]).scan("t", order=order)


def test_without_pyarrow_there_is_a_sentence(make, monkeypatch):
    scan = make([1, 4], [2, 3]).scan("t", order="timestamp")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="order='timestamp' needs pyarrow"):
        next(scan.arrow_batches())
    assert [record.value for record in scan] == [b"0 1", b"1 2", b"1 3", b"0 4"]
