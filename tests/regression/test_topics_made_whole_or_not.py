"""A topic whose making failed was left half made, and could not be made again [DUR-11, DUR-121].

Looked for besides: Spark's sink had a mechanism of its own, by the order of the partitions; a topic
that was made again began at the log start of the deleted one; an append that failed at one
partition did not say what the others had got.
"""

from __future__ import annotations

import re
import uuid
from contextlib import closing

import pytest

import segstore
from segstore._core import Directory, crc32c
from segstore.errors import (
    AlreadyExistsError,
    CorruptCheckpointError,
    DiskFullError,
    IllegalStateError,
    ResourceError,
    UnknownTopicOrPartitionError,
    UnsupportedFormatError,
)
from segstore.log.files.partition_metadata_file import format_partition_metadata
from segstore.log.files.topics_file import (
    TopicEntry,
    TopicState,
    format_topics,
    parse_topics,
)
from segstore.manager import log_manager, topic_registry
from segstore.manager.partition_directories import partitions_with_logs
from segstore.manager.topic_registry import TopicRegistry
from segstore.records.partitioner import partition_for_key
from segstore.spark.sink_topics import SinkTopics

TOPIC_ID = uuid.UUID(int=5)


def fail_at(monkeypatch, count: int, error: BaseException) -> None:
    """Let the open of the log number *count* fail."""
    real, calls = log_manager.open_partition, []

    def open_one(*arguments):
        calls.append(arguments)
        if len(calls) == count:
            raise error
        return real(*arguments)

    monkeypatch.setattr(log_manager, "open_partition", open_one)


@pytest.mark.parametrize(
    "error", [ResourceError("no descriptors"), DiskFullError("full"), KeyboardInterrupt()]
)
def test_a_making_that_fails_leaves_nothing_and_can_be_repeated(tmp_path, monkeypatch, error):
    """[DUR-30, DUR-31] The error comes out as it is."""
    with segstore.open_dir(tmp_path / "logs") as manager:
        fail_at(monkeypatch, 3, error)
        with pytest.raises(type(error)) as caught:
            manager.create_topic("big", 4)
        assert caught.value is error
        assert manager.topics() == {}
        assert [path.name for path in (tmp_path / "logs").glob("big-*")] == []

        assert len(manager.create_topic("big", 4)) == 4
        assert manager.topics() == {"big": [0, 1, 2, 3]}
    with segstore.open_dir(tmp_path / "logs") as manager:
        assert manager.topics() == {"big": [0, 1, 2, 3]}


def half_made(path, *, records: bool = False) -> None:
    """What a process leaves that is killed behind the second of three logs."""
    segstore.open_dir(path).close()
    for number in range(2):
        with segstore.open(path / f"big-{number}", topic_id=TOPIC_ID) as log:
            if records:
                log.append([(None, b"v")])
        (path / f"big-{number}" / "partition.metadata").write_bytes(
            format_partition_metadata(TOPIC_ID)
        )
    (path / "topics.json").write_bytes(
        format_topics({"big": TopicEntry(TOPIC_ID, 3, TopicState.CREATING)})
    )


def test_a_topic_that_is_being_made_is_listed_nowhere(tmp_path):
    """Readers, Spark and the command line, which list directories by themselves."""
    half_made(tmp_path)

    with segstore.open_dir(tmp_path, read_only=True) as manager:
        assert manager.topics() == {}
        with pytest.raises(UnknownTopicOrPartitionError, match="not finished"):
            manager.log("big", 0)
    assert partitions_with_logs(str(tmp_path)) == []
    assert sorted(path.name for path in tmp_path.glob("big-*")) == ["big-0", "big-1"]


def test_the_next_open_for_writing_removes_it(tmp_path):
    half_made(tmp_path)

    with segstore.open_dir(tmp_path) as manager:
        assert manager.topics() == {}
        assert [*tmp_path.glob("big-*")] == []
        manager.create_topic("big", 2)
    with segstore.open_dir(tmp_path, read_only=True) as manager:
        assert manager.topics() == {"big": [0, 1]}


def test_records_that_somebody_put_there_are_kept(tmp_path):
    """[DUR-6] The topic is finished then: a partition opened alone took them meanwhile."""
    half_made(tmp_path, records=True)

    with segstore.open_dir(tmp_path) as manager:
        assert manager.topics() == {"big": [0, 1, 2]}
        assert [record.value for record in manager.log("big", 0).scan()] == [b"v"]
        assert manager.log("big", 2).topic_id == TOPIC_ID


@pytest.mark.parametrize("set_aside", ["deleted", "quarantined"])
def test_a_log_that_had_records_is_kept_too(tmp_path, set_aside):
    """[DUR-5, DUR-6] Its offsets do not begin again, and what recovery kept stays."""
    half_made(tmp_path)
    path = tmp_path / "big-1"
    if set_aside == "deleted":
        with segstore.open(path) as log:
            log.truncate_fully_and_start_at(7)
    else:
        (path / f"{0:020}.quarantine-1").write_bytes(b"what was a batch")

    with segstore.open_dir(tmp_path) as manager:
        assert manager.topics() == {"big": [0, 1, 2]}
        if set_aside == "deleted":
            assert manager.log("big", 1).log_end_offset == 7
        else:
            assert (path / f"{0:020}.quarantine-1").exists()


def test_records_in_a_topic_whose_undoing_was_cut_off_are_kept(tmp_path, monkeypatch):
    """[DUR-6] ``live`` was on the disk for a moment, and the removal did not come to pass.

    The undoing wrote ``deleting`` then, and the next open removed what was appended meanwhile.
    """
    with segstore.open_dir(tmp_path) as manager:
        interrupt_behind(monkeypatch, TopicState.LIVE)
        monkeypatch.setattr(topic_registry, "remove_trees", failing(DiskFullError("killed here")))
        with pytest.raises(KeyboardInterrupt) as caught:
            manager.create_topic("t", 2)
        assert "still there, unlisted" in caught.value.__notes__[0]
        monkeypatch.undo()
        assert manager.topics() == {}
    with segstore.open(tmp_path / "t-0") as log:
        log.append([(b"k", b"v")] * 10)

    with segstore.open_dir(tmp_path) as manager:
        assert manager.topics() == {"t": [0, 1]}
        assert manager.log("t", 0).log_end_offset == 10


def test_a_topic_whose_undoing_was_cut_off_goes_with_the_next_open(tmp_path, monkeypatch):
    with segstore.open_dir(tmp_path) as manager:
        interrupt_behind(monkeypatch, TopicState.LIVE)
        monkeypatch.setattr(topic_registry, "remove_trees", failing(DiskFullError("killed here")))
        with pytest.raises(KeyboardInterrupt):
            manager.create_topic("t", 2)
        monkeypatch.undo()
    with segstore.open_dir(tmp_path, read_only=True) as manager:
        assert manager.topics() == {}
    with segstore.open_dir(tmp_path) as manager:
        assert [*tmp_path.glob("t-*")] == []
        manager.create_topic("t", 3)


def interrupt_behind(monkeypatch, state: TopicState) -> None:
    """Raise Ctrl-C when the file with that state has its name, before anybody knows."""
    real = TopicRegistry._write

    def write(self, topics):
        real(self, topics)
        if any(entry.state is state for entry in topics.values()):
            self._is_in_doubt = True
            raise KeyboardInterrupt

    monkeypatch.setattr(TopicRegistry, "_write", write)


def failing(error: BaseException):
    def fail(*_):
        raise error

    return fail


def test_a_removal_that_was_begun_is_finished_and_touches_no_other_topic(tmp_path):
    half_made(tmp_path, records=True)
    with segstore.open(tmp_path / "big-2") as log:  # somebody else's, without the id
        log.append([(None, b"other")])
    (tmp_path / "topics.json").write_bytes(
        format_topics({"big": TopicEntry(TOPIC_ID, 3, TopicState.DELETING)})
    )

    with segstore.open_dir(tmp_path) as manager:
        assert manager.topics() == {"big": [2]}
    assert parse_topics((tmp_path / "topics.json").read_bytes()) == {}


def test_topics_of_others_need_no_file(tmp_path):
    """Made before it, or by a broker; also partitions that are added as directories."""
    segstore.open(tmp_path / "old-0").close()
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("new", 1)
        (tmp_path / "new-1").mkdir()
        manager.append("old", [(b"k", b"v")])

        assert manager.topics() == {"new": [0, 1], "old": [0]}
        assert manager.log("new", 1).log_end_offset == 0
        with pytest.raises(AlreadyExistsError, match="'old' exists, with 1 partitions"):
            manager.create_topic("old")


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda data: data[:-5], CorruptCheckpointError),
        (lambda data: data.replace(b'"partitions":1', b'"partitions":2'), CorruptCheckpointError),
        (lambda _: b"", CorruptCheckpointError),
        (lambda _: format_topics({}).replace(b"0", b"1", 1), CorruptCheckpointError),
    ],
)
def test_a_damaged_file_is_told_and_never_guessed(tmp_path, damage, error, caplog):
    """[DUR-7, DUR-128] Appends and reads go on; a topic is made when the file was moved away."""
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("t", 1)
    (tmp_path / "topics.json").write_bytes(damage((tmp_path / "topics.json").read_bytes()))

    with segstore.open_dir(tmp_path) as manager:
        manager.append("t", [(b"k", b"v")])
        assert "topics.json cannot be read" in caplog.text
        with pytest.raises(error, match="move the file away"):
            manager.create_topic("u")
        (tmp_path / "topics.json").unlink()
        manager.create_topic("u")
        assert manager.topics() == {"t": [0], "u": [0]}


def test_the_text_of_the_file():
    """docs/formats.md; a later version is refused by its number, with a right checksum."""
    text = format_topics({"a.b": TopicEntry(TOPIC_ID, 3, TopicState.LIVE)})

    assert text == (
        b'{"version":0,"topics":[\n'
        b'{"name":"a.b","id":"AAAAAAAAAAAAAAAAAAAABQ","partitions":3,"state":"live"}\n'
        b'],"crc32c":2927806347}\n'
    )
    assert parse_topics(text) == {"a.b": TopicEntry(TOPIC_ID, 3, TopicState.LIVE)}
    later = text.partition(b"]")[0].replace(b"0", b"1", 1)
    with pytest.raises(UnsupportedFormatError, match="later segstore"):
        parse_topics(later + b'],"crc32c":%d}\n' % crc32c(later))


def test_a_topic_made_again_does_not_begin_at_the_old_log_start(tmp_path):
    """[DUR-120, DUR-121] The lines of the deleted topic are gone before its name is used again."""
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("t")
        manager.append("t", [(b"k", b"v")] * 5)
        manager.log("t", 0).delete_records(3)
    with segstore.open_dir(tmp_path) as manager:
        manager.log("t", 0).delete()
        manager.create_topic("t")

        assert manager.log("t", 0).log_start_offset == 0
        assert manager.log("t", 0).append([(b"k", b"v")]).base_offset == 0


def test_an_append_that_fails_says_which_partitions_got_records(tmp_path, monkeypatch):
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("t", 3)
        broken = manager.log("t", (partition_for_key(b"k0", 3) + 1) % 3)  # not the first one
        monkeypatch.setattr(type(broken), "append", _failing_for(broken, DiskFullError("full")))
        with pytest.raises(DiskFullError) as caught:
            manager.append("t", [(b"k%d" % n, b"v") for n in range(30)])
        assert not broken.log_end_offset
        got = {n: manager.log("t", n).log_end_offset for n in range(3)}

    done = caught.value.appended
    assert {n: info.records_count for n, info in done.items()} == {
        n: c for n, c in got.items() if c
    }
    (note,) = caught.value.__notes__
    assert note == (
        f"{sum(got.values())} records of this append were appended to topic 't' before the error,"
        f" and stay there: in partitions {', '.join(map(str, sorted(done)))}"
    )


def _failing_for(broken, error):
    real = type(broken).append

    def append(self, *arguments, **options):
        if self is broken:
            raise error
        return real(self, *arguments, **options)

    return append


def test_all_logs_are_open_before_the_first_record_is_appended(tmp_path, monkeypatch):
    """[DUR-31] So no partition has records of an append that had no descriptor for another."""
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("t", 3)
    with segstore.open_dir(tmp_path) as manager:
        fail_at(monkeypatch, 3, ResourceError("no descriptors"))
        with pytest.raises(ResourceError) as caught:
            manager.append("t", [(b"k%d" % n, b"v") for n in range(30)])
        assert caught.value.appended == {}
        monkeypatch.undo()
        assert [manager.log("t", n).log_end_offset for n in range(3)] == [0, 0, 0]


def test_a_directory_that_is_not_ours_is_not_removed_with_a_making(tmp_path):
    """A file of somebody else stays: the topic is finished around it."""
    half_made(tmp_path)
    (tmp_path / "big-1" / "notes.txt").write_text("mine")

    with segstore.open_dir(tmp_path) as manager:
        assert manager.topics() == {"big": [0, 1, 2]}
    assert (tmp_path / "big-1" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("way", ["manager", "sink"])
def test_a_topic_that_lacks_its_first_partitions_says_how_to_make_them(tmp_path, way):
    """Spark's sink made topics from the last partition on, and the next write made the rest."""
    segstore.open_dir(tmp_path).close()
    for number in (2, 3):
        segstore.open(tmp_path / f"t-{number}").close()
    for number in (0, 1):
        with pytest.raises(IllegalStateError, match=r"only the partitions") as caught:
            count_of(tmp_path, way)
        advice = re.search(r"segstore\.open\('(.*)'\)\.close\(\)", caught.value.message)
        assert advice[1] == str(tmp_path / f"t-{number}")
        segstore.open(advice[1]).close()
    assert count_of(tmp_path, way) == 4


def count_of(path, way: str) -> int:
    if way == "sink":
        with closing(Directory(str(path))) as directory:
            return SinkTopics(directory, None).count_for_keys("t")
    with segstore.open_dir(path) as manager:
        manager.append("t", [(b"%d" % number, b"v") for number in range(100)])
        return len(manager.topics()["t"])
