"""Commits that are interrupted, at any of their calls, are finished once."""

from __future__ import annotations

import random
import shutil
from datetime import UTC, datetime

import pytest

pytest.importorskip("pyspark")

import segstore
from segstore.errors import (
    IllegalStateError,
)
from segstore.spark.commit_log import producer_id_of
from tests.kits.commit_kit import (
    SMALL,
    all_values,
    assert_once_and_in_order,
    fail_at_append,
    run_in_a_process_that_dies,
    state_of,
    wrapped_batch,
)
from tests.kits.sink_kit import (
    QUERY,
    Stream,
    hidden_files,
    make_topic,
    numbered,
    write_batch,
)

LONG_AGO = datetime(2013, 1, 1, tzinfo=UTC)


@pytest.fixture
def directory(tmp_path):
    make_topic(tmp_path / "logs")
    return tmp_path / "logs"


@pytest.fixture
def stream(directory):
    return Stream(directory, topic="t", **SMALL)


def with_timestamps(batch, moment):
    import pyarrow as pa

    times = pa.array([moment] * batch.num_rows, pa.timestamp("us", "UTC"))
    return batch.append_column("timestamp", times)


@pytest.mark.filterwarnings("ignore:nothing was written:UserWarning")  # he died when all was done
@pytest.mark.parametrize("moment", [None, LONG_AGO], ids=["now", "long-ago"])
@pytest.mark.parametrize("deaths", [1, 2])
def test_a_commit_that_dies_anywhere_is_finished_once(tmp_path, pytestconfig, moment, deaths):
    """Killed at calls all over the commit; the next driver stages anew and commits again.

    Records of long ago: their producer is expired whenever a log is opened [PSM-45].
    """

    def task(first, count):
        batch = numbered(first, count)
        return batch if moment is None else with_timestamps(batch, moment)

    start = tmp_path / "start"
    make_topic(start)
    Stream(start, topic="t", **SMALL).run(0, task(0, 20))
    counted = tmp_path / "counted"
    shutil.copytree(start, counted)
    stream = Stream(counted, topic="t", **SMALL)
    messages = stream.stage(task(20, 30), task(50, 20))
    calls = run_in_a_process_that_dies(lambda: stream.commit(messages, 1))
    assert calls > 1000
    seen = set()
    chance = random.Random(20)

    for number in range(40 if pytestconfig.getoption("--slow") else 8):
        path = tmp_path / f"run{number}"
        shutil.copytree(start, path)
        stream = Stream(path, topic="t", **SMALL)
        for _ in range(deaths):
            messages = stream.stage(task(20, 30), task(50, 20))
            at = chance.randrange(1, calls) if number else 1  # one dies before it has begun
            run_in_a_process_that_dies(lambda: stream.commit(messages, 1), at)  # noqa: B023
        seen.add(state_of(path))
        stream.run(1, task(20, 30), task(50, 20))
        stream.run(2, task(70, 10))

        assert_once_and_in_order(path, 80)
        assert state_of(path) == (2, "done")
        assert hidden_files(path, "staged") == []
        shutil.rmtree(path)
    assert {(0, "done"), (1, "committing")} <= seen


def test_a_commit_that_fails_is_finished_by_the_next_one(directory, stream, monkeypatch):
    """No process dies: Spark aborts what failed, and the staged files have to outlive that."""
    stream.run(0, numbered(0, 10))
    messages = stream.stage(numbered(10, 20))
    fail_at_append(monkeypatch, 5)
    with pytest.raises(OSError, match="as asked"):
        stream.commit(messages, 1)
    monkeypatch.undo()
    stream.abort(messages, 1)

    assert state_of(directory) == (1, "committing")
    assert len(hidden_files(directory, "staged")) == 1
    stream.run(2, numbered(30, 10))
    assert_once_and_in_order(directory, 40)
    assert hidden_files(directory, "staged") == []


def test_an_empty_micro_batch_finishes_what_was_interrupted(directory, stream, monkeypatch):
    fail_at_append(monkeypatch, 3)
    with pytest.raises(OSError, match="as asked"):
        stream.run(0, numbered(0, 20))
    monkeypatch.undo()
    nameless = Stream(directory, None, topic="t", txnAppId=QUERY)
    nameless.commit([], 0)

    assert_once_and_in_order(directory, 20)
    assert state_of(directory) == (0, "done")


def test_others_may_write_between_a_death_and_the_next_commit(directory, stream, monkeypatch):
    """Batches of the producer count, wherever they are behind the noted end."""
    messages = stream.stage(numbered(0, 60))
    fail_at_append(monkeypatch, 20)
    with pytest.raises(OSError, match="as asked"):
        stream.commit(messages, 0)
    monkeypatch.undo()
    there = all_values(directory)
    assert 0 < len(there) < 60
    write_batch(directory, numbered(1000, 30), topic="t")
    stream.run(0, numbered(0, 60))

    assert all_values(directory) == [*range(60), *range(1000, 1030)]


def test_other_batches_of_the_producer_are_an_error(directory, stream, monkeypatch):
    """Somebody used the producer id: nothing is guessed."""
    fail_at_append(monkeypatch, 3)
    with pytest.raises(OSError, match="as asked"):
        stream.run(0, numbered(0, 20))
    monkeypatch.undo()
    with segstore.open_dir(directory, durability="none") as manager:
        for number in range(3):
            log = manager.log("t", number)
            strange = wrapped_batch(producer_id_of(QUERY), 5000, log.log_end_offset)
            log.append_as_follower(strange, 0)

    with pytest.raises(IllegalStateError, match="other batches of producer"):
        stream.run(0, numbered(0, 20))
