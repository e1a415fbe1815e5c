"""A listing beside a process that makes a topic showed a part of it [DUR-11, MGR-18].

``topics.json`` was read once, before the names: a creation that began in between was not in it.
Spark's sink then spread keys over the partitions that it had seen. Looked for in everything that
lists: a manager, Spark's sources and sink, the command line (which read the file after the names,
where a creation may end in between), and `LogManager.log`, which opens one partition.
"""

from __future__ import annotations

import time
import uuid
from contextlib import closing
from functools import partial

import pytest

import segstore
from segstore._core import Directory
from segstore.cli.partition_paths import partitions_of
from segstore.errors import UnknownTopicOrPartitionError
from segstore.log.files.topics_file import TopicEntry, TopicState, format_topics
from segstore.manager import partition_directories
from segstore.manager.partition_listing import PartitionListing
from segstore.spark.sink_topics import SinkTopics

COUNT = 5


class Making:
    """A process that makes topics of five partitions; each is done in two halves."""

    def __init__(self, path) -> None:
        self._path = path
        self._topics: dict[str, TopicEntry] = {}

    def begin(self, name: str) -> None:
        self._write(name, TopicEntry(uuid.uuid4(), COUNT, TopicState.CREATING))
        self._make_directories(name, range(3))

    def finish(self, name: str) -> None:
        self._make_directories(name, range(3, COUNT))
        self._write(name, self._topics[name]._replace(state=TopicState.LIVE))

    def undo(self, name: str) -> None:
        for number in range(3):
            (self._path / f"{name}-{number}" / "00000000000000000000.log").unlink()
            (self._path / f"{name}-{number}").rmdir()
        del self._topics[name]
        self._replace()

    def is_live(self, name: str) -> bool:
        return self._topics[name].state is TopicState.LIVE

    def _make_directories(self, name, numbers) -> None:
        for number in numbers:
            (self._path / f"{name}-{number}").mkdir()
            (self._path / f"{name}-{number}" / "00000000000000000000.log").touch()

    def _write(self, name, entry) -> None:
        self._topics[name] = entry
        self._replace()

    def _replace(self) -> None:
        (self._path / "new").write_bytes(format_topics(self._topics))
        (self._path / "new").rename(self._path / "topics.json")


def by_manager(path):
    with segstore.open_dir(path, read_only=True) as manager:
        return manager.topics()


def by_a_known_listing(path):
    with closing(Directory(str(path))) as directory:
        return PartitionListing(directory).current().topics


def by_spark(path):
    return grouped(partition_directories.partitions_with_logs(str(path)))


def by_command_line(path):
    return grouped((topic, number) for topic, number, _ in sorted(partitions_of(str(path))))


def by_sink(path):
    with closing(Directory(str(path))) as directory:
        topics = SinkTopics(directory, 1)
        counts = {name: topics.count_for_keys(name) for name in ("t", "u")}
        return {name: [*range(counts[name])] for name in counts if name not in topics.missing}


def grouped(found):
    topics = {}
    for topic, number in found:
        topics.setdefault(topic, []).append(number)
    return topics


WAYS = [by_manager, by_a_known_listing, by_spark, by_command_line, by_sink]


@pytest.fixture
def making(tmp_path):
    segstore.open_dir(tmp_path).close()
    return Making(tmp_path)


@pytest.fixture
def between(monkeypatch):
    """Run the given steps, each after one reading of the topics, before the names are listed."""
    steps = []
    real = partition_directories.read_topics

    def read(directory):
        found = real(directory)
        if steps:
            steps.pop(0)()
        return found

    monkeypatch.setattr(partition_directories, "read_topics", read)
    return steps


@pytest.mark.parametrize("list_topics", WAYS)
def test_a_topic_whose_making_begins_in_between_is_not_listed(
    tmp_path, making, between, list_topics
):
    between.append(lambda: making.begin("t"))
    assert list_topics(tmp_path) == {}

    making.finish("t")
    assert list_topics(tmp_path) == {"t": [*range(COUNT)]}


def at_look(monkeypatch, number, action):
    """Do something before a look at ``topics.json``; returns a list that grows by each look."""
    real, looks = partition_directories._signature, []

    def signature(directory):
        looks.append(1)
        if len(looks) == number:
            action()
        return real(directory)

    monkeypatch.setattr(partition_directories, "_signature", signature)
    return looks


@pytest.mark.parametrize("list_topics", WAYS)
def test_a_topic_whose_making_ends_behind_the_names_is_listed_whole(
    tmp_path, making, monkeypatch, list_topics
):
    """It is live in a file that is read after the names, of which some were not there yet."""
    making.begin("t")
    looks = at_look(monkeypatch, 2, lambda: making.finish("t"))
    assert list_topics(tmp_path) == {"t": [*range(COUNT)]}
    assert len(looks) == 3


@pytest.mark.parametrize("list_topics", WAYS)
def test_a_making_that_was_undone_meanwhile_is_not_listed(
    tmp_path, making, between, monkeypatch, list_topics
):
    """The file has the same text before and after."""
    looks = at_look(monkeypatch, 2, lambda: making.undo("t"))
    making.begin("u")
    making.undo("u")
    time.sleep(0.02)  # a step of the file system's clock
    between.append(lambda: making.begin("t"))
    assert list_topics(tmp_path) == {}
    assert len(looks) == 3


@pytest.mark.parametrize("list_topics", WAYS)
def test_topics_that_come_during_each_look_are_never_listed_in_part(
    tmp_path, making, between, monkeypatch, list_topics
):
    """The looks end then. The last topic is live in the last file that is read."""
    looks = at_look(monkeypatch, partition_directories.MOST_LOOKS + 1, lambda: making.finish("t"))
    making.begin("u")
    making.finish("u")
    others = [f"t{number}" for number in range(partition_directories.MOST_LOOKS - 1)]
    between += [partial(making.begin, name) for name in (*others, "t")]

    assert list_topics(tmp_path) == {"u": [*range(COUNT)]}
    assert len(looks) == partition_directories.MOST_LOOKS + 1
    assert making.is_live("t")


def test_a_partition_of_a_topic_in_the_making_is_not_opened(tmp_path, making):
    """The topic was not there when the manager listed it last, a moment ago."""
    with segstore.open_dir(tmp_path, read_only=True) as manager:
        assert manager.topics() == {}
        making.begin("t")
        with pytest.raises(UnknownTopicOrPartitionError, match="not finished"):
            manager.log("t", 0)


def test_a_listing_costs_two_more_looks_at_one_file(tmp_path, making, monkeypatch):
    """And no second list of names, where nothing changes."""
    for name in ("t", "u"):
        making.begin(name)
        making.finish(name)
    calls = []
    for name in ("_signature", "read_topics"):
        real = getattr(partition_directories, name)
        monkeypatch.setattr(
            partition_directories, name, lambda d, n=name, r=real: (calls.append(n), r(d))[1]
        )
    assert by_a_known_listing(tmp_path) == {"t": [*range(COUNT)], "u": [*range(COUNT)]}
    assert calls == ["_signature", "read_topics", "_signature"]
