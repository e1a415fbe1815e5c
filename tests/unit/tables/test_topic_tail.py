"""Following all partitions of a topic: `LogManager.tail`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import (
    ArgumentTypeError,
    ClosedError,
    IllegalArgumentError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from tests.kits.transactions_kit import ABORT, COMMIT, Producer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from segstore import LogManager, Record


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogManager]:
    """A topic of three partitions of three records each."""
    paths = [tmp_path / "one", tmp_path / "two"]
    with segstore.open_dir(paths, durability="none") as manager:
        manager.create_topic("orders", partitions=3, directories=dict.fromkeys(range(3), paths[0]))
        for number in range(3):
            append(manager, number, 3)
        yield manager


def append(logs: LogManager, partition: int, count: int = 1) -> None:
    logs.append("orders", [(None, b"x")] * count, partition=partition)


def places(records: Iterable[Record]) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in records]


def test_only_new_records_by_default(logs):
    records = logs.tail("orders", timeout=0)
    append(logs, 2)
    append(logs, 0, 2)
    assert places(records) == [(0, 3), (0, 4), (2, 3)]


def test_from_an_offset_on(logs):
    assert places(logs.tail("orders", 2, timeout=0)) == [(0, 2), (1, 2), (2, 2)]
    assert places(logs.tail("orders", 99, timeout=0)) == []
    assert places(logs.tail("orders", {1: 1}, timeout=0)) == [(1, 1), (1, 2)]
    chosen = logs.tail("orders", 0, partitions=[2], timeout=0)
    assert places(chosen) == [(2, 0), (2, 1), (2, 2)]
    logs.log("orders", 0).delete_records(2)
    assert places(logs.tail("orders", 0, partitions=[0], timeout=0)) == [(0, 2)]


def test_a_partition_has_its_turn(logs):
    """One that is written faster than it is read does not keep the others back."""
    found = []
    for record in logs.tail("orders", 0, timeout=0):
        found.append((record.partition, record.offset))
        if record.partition == 0 and record.offset < 10:
            append(logs, 0)
    assert found[3:9] == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
    assert found[9:] == [(0, offset) for offset in range(3, 13)]


def test_another_process_writes(logs, tmp_path):
    with segstore.open_dir(tmp_path / "one", read_only=True) as reader:
        records = reader.tail("orders", timeout=20, poll_interval=0.01)
        append(logs, 1)
        assert places([next(records)]) == [(1, 3)]
        writer = threading.Timer(0.05, append, (logs, 2))
        writer.start()
        assert places([next(records)]) == [(2, 3)]
        writer.join()


def test_a_partition_that_is_added_is_read_from_its_start(logs):
    records = logs.tail("orders", timeout=0)
    logs.alter_topic("orders", partitions=4)
    append(logs, 3, 2)
    append(logs, 0)
    assert places(records) == [(0, 3), (3, 0), (3, 1)]


def test_a_partition_that_moves_is_followed_there(logs, tmp_path):
    records = logs.tail("orders", 0, partitions=[1], timeout=0)
    assert places([next(records)]) == [(1, 0)]
    logs.move_partition("orders", 1, tmp_path / "two")
    append(logs, 1)
    assert places(records) == [(1, 1), (1, 2), (1, 3)]


def test_committed_records_come_when_their_transaction_ends(logs):
    records = logs.tail("orders", timeout=0, isolation="read_committed")
    producer = Producer(logs.log("orders", 0), 1)
    producer.write()
    append(logs, 1)
    assert places([next(records)]) == [(1, 3)]
    producer.end(COMMIT)
    assert places([next(records)]) == [(0, 3)]
    producer.write()
    producer.end(ABORT)
    assert places(records) == []


def test_what_is_refused_at_the_call(logs):
    for query, error in (
        ({"offset": {0: 9}}, OffsetOutOfRangeError),
        ({"offset": {7: 0}}, IllegalArgumentError),
        ({"offset": "0"}, ArgumentTypeError),
        ({"partitions": [7]}, UnknownTopicOrPartitionError),
        ({"timeout": -1}, IllegalArgumentError),
        ({"poll_interval": "1"}, ArgumentTypeError),
        ({"isolation": "none"}, IllegalArgumentError),
    ):
        with pytest.raises(error):
            logs.tail("orders", **query)


def test_the_end_of_a_topic_or_of_the_manager(logs):
    records = logs.tail("orders", 0)
    next(records)
    logs.log("orders", 2).truncate_to(1)
    logs.delete_topic("orders")
    with pytest.raises((UnknownTopicOrPartitionError, ClosedError, LogTruncatedError)):
        list(records)
    logs.close()
    with pytest.raises(ClosedError):
        logs.tail("orders")
