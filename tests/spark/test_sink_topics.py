"""Topics that a write makes, also when making them is interrupted."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from segstore.errors import (
    IllegalArgumentError,
    IllegalStateError,
    LogNotFoundError,
)
from segstore.spark import sink_topics
from segstore.spark.sink_options import parse_sink_options
from segstore.spark.sink_topics import open_sink_directory
from tests.kits.commit_kit import (
    SMALL,
    assert_once_and_in_order,
    run_in_a_process_that_dies,
)
from tests.kits.sink_kit import (
    Stream,
    make_topic,
    numbered,
    records_of,
    values_of,
)


@pytest.fixture
def directory(tmp_path):
    make_topic(tmp_path / "logs")
    return tmp_path / "logs"


@pytest.fixture
def stream(directory):
    return Stream(directory, topic="t", **SMALL)


def test_a_missing_topic_is_made_with_the_partitions_asked_for(tmp_path):
    path = tmp_path / "deep" / "logs"
    stream = Stream(path, topic="t", numPartitions="4")
    stream.run(0, numbered(0, 40))
    stream.run(1, numbered(40, 40))

    assert_once_and_in_order(path, 80)
    assert sorted(records_of(path)) == [0, 1, 2, 3]


def test_a_missing_directory_is_an_error_that_says_what_makes_it(tmp_path):
    stream = Stream(tmp_path / "logs", topic="t")
    with pytest.raises(LogNotFoundError, match=r'logs.*option\("numPartitions", n\) makes it'):
        stream.run(0, numbered(0, 4))
    assert not (tmp_path / "logs").exists()


def test_a_topic_that_is_there_keeps_its_partitions(directory):
    Stream(directory, topic="t", numPartitions="9").run(0, numbered(0, 40))

    assert sorted(records_of(directory)) == [0, 1, 2]


def test_a_topic_whose_making_was_interrupted_is_finished(tmp_path, pytestconfig):
    """Partition 0 comes last: without it a topic is not finished, and keys belong elsewhere."""
    counted = Stream(tmp_path / "counted", topic="t", numPartitions="4")
    messages = counted.stage(numbered(0, 30))
    calls = run_in_a_process_that_dies(lambda: counted.commit(messages, 0))
    found, deaths = set(), 30 if pytestconfig.getoption("--slow") else 6
    for number in range(deaths):
        path = tmp_path / f"run{number}"
        stream = Stream(path, topic="t", numPartitions="4")
        messages = stream.stage(numbered(0, 30))
        at = calls * (number + 1) // (deaths * 3)  # it is made at the beginning
        run_in_a_process_that_dies(lambda: stream.commit(messages, 0), at)  # noqa: B023
        found.add(len(list(path.glob("t-*"))))
        stream.run(0, numbered(0, 30))

        assert_once_and_in_order(path, 30)
        assert values_of(path) == values_of(tmp_path / "counted")
        ids = {(path / f"t-{n}" / "partition.metadata").read_text() for n in range(4)}
        assert len(ids) == 1
    assert len(found) > 1


def test_a_topic_that_somebody_else_made_meanwhile_is_an_error(directory):
    stream = Stream(directory, topic="new", numPartitions="4")
    messages = stream.stage(numbered(0, 10))
    make_topic(directory, "new", 2)

    with pytest.raises(IllegalStateError, match="another process made topic"):
        stream.commit(messages, 0)
    stream.run(0, numbered(0, 10))
    assert sorted(records_of(directory, "new")) == [0, 1]


def test_a_network_file_system_needs_a_word(directory, monkeypatch):
    """[DUR-72] Locks and syncs may not hold there: said by the task, before anything is written."""
    options = parse_sink_options({"path": str(directory), "topic": "t"})
    there = SimpleNamespace(
        path=str(directory),
        is_network_file_system=lambda: True,
        has_segments=lambda: False,
        close=lambda: None,
    )
    monkeypatch.setattr(sink_topics, "Directory", lambda _: there)

    with pytest.raises(IllegalArgumentError, match="allowNetworkFs"):
        open_sink_directory(options)
    allowed = replace(options, allow_network_fs=True)
    assert open_sink_directory(allowed) is there
