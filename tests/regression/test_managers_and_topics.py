"""Log directories: managers, topics that are made and made again, topic ids."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import uuid
from contextlib import closing
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import segstore
from segstore import cli
from segstore._core import Directory, FileBarrier, crc32c
from segstore.cli.partition_paths import partitions_of
from segstore.errors import (
    AlreadyExistsError,
    CorruptCheckpointError,
    CorruptLogError,
    DiskFullError,
    IllegalStateError,
    InconsistentTopicIdError,
    LogLockedError,
    LogNotFoundError,
    RecordTooLargeError,
    ResourceError,
    UnknownTopicOrPartitionError,
    UnsupportedFormatError,
)
from segstore.log.check.partition_check import check_partition
from segstore.log.files import checkpoints, log_directory_checkpoints
from segstore.log.files.background import BackgroundWorker
from segstore.log.files.checkpoints import parse_offset_checkpoint
from segstore.log.files.parsed_file import SETTLED_NS
from segstore.log.files.partition_metadata_file import format_partition_metadata, topic_id_text
from segstore.log.files.topics_file import (
    TOPICS_FILE,
    TopicEntry,
    TopicState,
    format_topics,
    parse_topics,
)
from segstore.log.findings.finding import Action, FindingCode
from segstore.log.unified_log import UnifiedLog
from segstore.manager import (
    current_logs,
    partition_directories,
    partition_listing,
    topic_registry,
)
from segstore.manager.log_manager import LogManager
from segstore.manager.partition_directories import partitions_with_logs
from segstore.manager.partition_listing import PartitionListing
from segstore.manager.partition_records import AppendedRecords
from segstore.manager.topic_appends import TopicAppends
from segstore.manager.topic_registry import TopicRegistry
from segstore.records.partitioner import partition_for_key
from segstore.spark.sink_topics import SinkTopics
from segstore.types import TopicPartition
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.crash_script import PATH, make_log_directory
from tests.kits.interrupted_at import InterruptedAt
from tests.kits.log_kit import at

# ---- manager and renamed logs --------------------------------------------------------------------
# A log that `UnifiedLog.rename_dir` moved stayed known to its manager by the old name.
#
# Appends to the old name went to the new one without a word, and the new name was "already open".


GONE = segstore.UnknownTopicOrPartitionError


def test_a_renamed_log_goes_by_its_new_name(tmp_path):
    """[REN-1, DUR-65]"""
    with segstore.open_dir(tmp_path / "logs") as manager:
        manager.create_topic("x")
        log = manager.log("x", 0)
        log.rename_dir("y-0")
        with pytest.raises(GONE):
            manager.append("x", [(None, b"lost")], partition=0)
        with pytest.raises(GONE):
            manager.log("x", 0)
        assert manager.log("y", 0) is log
        manager.append("y", [(None, b"1")])
        manager.create_topic("x")
        manager.append("x", [(None, b"2")])
        assert manager.topics() == {"x": [0], "y": [0]}
    with segstore.open_dir(tmp_path / "logs") as manager:
        for topic, value in (("x", b"2"), ("y", b"1")):
            assert manager.log(topic, 0).report.clean
            assert [record.value for record in manager.log(topic, 0)] == [value]


def test_two_logs_that_changed_names(tmp_path):
    """[REN-1]"""
    with segstore.open_dir(tmp_path / "logs") as manager:
        manager.create_topic("x", partitions=2)
        first, second = manager.log("x", 0), manager.log("x", 1)
        first.rename_dir("z-0")
        second.rename_dir("x-0")
        first.rename_dir("x-1")
        assert (manager.log("x", 0), manager.log("x", 1)) == (second, first)


def test_a_log_renamed_for_deletion_is_nobodys(tmp_path):
    """[REN-1] It is closed with the manager all the same."""
    with segstore.open_dir(tmp_path / "logs") as manager:
        manager.create_topic("x")
        log = manager.log("x", 0)
        log.rename_dir(f"x-0.{'0' * 32}-delete", reinitialize=False)
        with pytest.raises(GONE):
            manager.log("x", 0)
        assert not log.closed
    assert log.closed


# ---- manager of many logs ------------------------------------------------------------------------
# Each first open made the list of all open logs anew; of several errors only one was told.


def test_a_first_open_makes_no_new_list_of_logs(tmp_path):
    """[REN-1] Only where one was renamed, or closed."""
    with segstore.open_dir(tmp_path / "logs") as manager:
        manager.create_topic("x", partitions=4)
    with segstore.open_dir(tmp_path / "logs") as manager:
        known = manager._directories[0].logs.by_name
        logs = [manager.log("x", number) for number in range(4)]
        assert manager._directories[0].logs.by_name is known
        logs[1].rename_dir("y-1")
        assert manager.log("y", 1) is logs[1]
        assert manager._directories[0].logs.by_name is not known
        logs[2].close()
        assert manager.log("x", 2) is not logs[2]


def test_all_errors_of_a_close_are_told(tmp_path, monkeypatch):
    """[DUR-34] The first is raised, the others are notes of it."""
    manager = segstore.open_dir(tmp_path / "logs")
    manager.create_topic("x", partitions=3)
    real = UnifiedLog.close

    def close(log):
        real(log)
        if log.topic_partition.partition:
            raise CorruptLogError(f"partition {log.topic_partition.partition}")

    monkeypatch.setattr(UnifiedLog, "close", close)
    with pytest.raises(CorruptLogError, match="partition 1") as caught:
        manager.close()
    assert caught.value.__notes__ == ["another log could not be closed: partition 2"]


def test_a_damaged_epoch_checkpoint_is_named_with_its_directory(tmp_path):
    """[DUR-7] Of a hundred partitions nobody would know which."""
    path = tmp_path / "x-0"
    segstore.open(path, recovery="kafka").close()
    (path / "leader-epoch-checkpoint").write_text("0\nx\n")
    with pytest.raises(CorruptCheckpointError) as caught:
        segstore.open(path, recovery="kafka")
    assert caught.value.file == str(path / "leader-epoch-checkpoint")


def test_a_setting_that_comes_and_goes_leaves_one_timer(tmp_path, monkeypatch):
    """[DUR-14, UNI-7] Each change back to ``flush_ms`` added another one, for ever."""
    periods = []
    real = BackgroundWorker.repeat

    def repeat(self, method, seconds, **how):
        periods.append(seconds)
        real(self, method, seconds, **how)

    monkeypatch.setattr(BackgroundWorker, "repeat", repeat)
    with segstore.open(tmp_path / "x-0", durability="none") as log:
        for _ in range(20):
            for flush_ms in (60_000, 90_000, 2**63 - 1):
                log.update_config(log.config.with_changes(flush_ms=flush_ms))
    assert sorted(periods) == [60.0, 90.0]


# ---- listing beside a making ---------------------------------------------------------------------
# A listing beside a process that makes a topic showed a part of it [DUR-11, MGR-18].
#
# ``topics.json`` was read once, before the names: a creation that began in between was not in it.
# Spark's sink then spread keys over the partitions that it had seen. Looked for in everything that
# lists: a manager, Spark's sources and sink, the command line (which read the file after the names,
# where a creation may end in between), and `LogManager.log`, which opens one partition.


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


# ---- topics made whole or not --------------------------------------------------------------------
# A topic whose making failed was left half made, and could not be made again [DUR-11, DUR-121].
#
# Looked for besides: Spark's sink had a mechanism of its own, by the order of the partitions; a
# topic that was made again began at the log start of the deleted one; an append that failed at one
# partition did not say what the others had got.


ID_OF_THE_NEW_TOPIC = uuid.UUID(int=5)


def fail_at(monkeypatch, count: int, error: BaseException) -> None:
    """Let the open of the log number *count* fail."""
    real, calls = current_logs.open_partition, []

    def open_one(*arguments):
        calls.append(arguments)
        if len(calls) == count:
            raise error
        return real(*arguments)

    monkeypatch.setattr(current_logs, "open_partition", open_one)


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
        with segstore.open(path / f"big-{number}", topic_id=ID_OF_THE_NEW_TOPIC) as log:
            if records:
                log.append([(None, b"v")])
        (path / f"big-{number}" / "partition.metadata").write_bytes(
            format_partition_metadata(ID_OF_THE_NEW_TOPIC)
        )
    (path / "topics.json").write_bytes(
        format_topics({"big": TopicEntry(ID_OF_THE_NEW_TOPIC, 3, TopicState.CREATING)})
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
        assert manager.log("big", 2).topic_id == ID_OF_THE_NEW_TOPIC


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
        monkeypatch.setattr(topic_registry, "remove_tree", failing(DiskFullError("killed here")))
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
        monkeypatch.setattr(topic_registry, "remove_tree", failing(DiskFullError("killed here")))
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
        format_topics({"big": TopicEntry(ID_OF_THE_NEW_TOPIC, 3, TopicState.DELETING)})
    )

    with segstore.open_dir(tmp_path) as manager:
        assert manager.topics() == {"big": [2]}
    assert parse_topics((tmp_path / "topics.json").read_bytes()).topics == {}


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
        (lambda _: format_topics({}).replace(b"1", b"2", 1), CorruptCheckpointError),
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
    text = format_topics({"a.b": TopicEntry(ID_OF_THE_NEW_TOPIC, 3, TopicState.LIVE)})

    assert text == (
        b'{"version":1,"topics":[\n'
        b'{"name":"a.b","id":"AAAAAAAAAAAAAAAAAAAABQ","partitions":3,"adding":0,"state":"live",'
        b'"config":{}}\n'
        b'],"crc32c":3006690531}\n'
    )
    assert parse_topics(text).topics == {"a.b": TopicEntry(ID_OF_THE_NEW_TOPIC, 3, TopicState.LIVE)}
    later = text.partition(b"]")[0].replace(b"1", b"2", 1)
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


def test_a_directory_that_is_not_there_is_one_error(tmp_path, caplog):
    """The same text came on stderr too."""
    with pytest.raises(LogNotFoundError):
        segstore.open_dir(tmp_path / "nope", read_only=True)

    assert caplog.records == []


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


@pytest.mark.parametrize("records", ["list", "iterator", "frame", "one partition"])
@pytest.mark.parametrize("comes", ["before", "after"])
def test_ctrl_c_says_all_that_stayed(tmp_path, monkeypatch, records, comes):
    """It came when the records of a partition were stored and its call had not returned.

    The note counted 100138 of 200150 records that stayed, or was absent.
    """
    rows = [(b"k%d" % n, b"v") for n in range(30)]
    place = {"partition": 1} if records == "one partition" else {}
    name = "_append_built" if records == "frame" else "append"
    if records == "iterator":
        rows = iter(rows)
    if records == "frame":
        rows = pa.table({"key": [key for key, _ in rows], "value": [value for _, value in rows]})
    with segstore.open_dir(tmp_path) as manager:
        manager.create_topic("t", 3)
        manager.append("t", [(b"earlier %d" % n, b"v") for n in range(30)])
        earlier = manager.count("t")
        handle = type(manager.log("t", 0))
        monkeypatch.setattr(handle, name, _interrupted(getattr(handle, name), comes))
        with pytest.raises(KeyboardInterrupt) as caught:
            manager.append("t", rows, **place)
        monkeypatch.undo()
        stayed = manager.count("t") - earlier

    assert (stayed > 0) == (comes == "after" or records != "one partition")
    notes = getattr(caught.value, "__notes__", [])
    counts = [int(note.removeprefix("up to ").split()[0]) for note in notes]
    assert counts == [stayed][: bool(stayed)]


def _interrupted(real, comes):
    """Return the method; its second call, or one for all records, is interrupted."""
    calls = []

    def call(self, records, *arguments, **options):
        calls.append(records)
        ends = len(calls) == 2 or (isinstance(records, list) and len(records) == 30)
        if ends and comes == "before":
            raise KeyboardInterrupt
        result = real(self, records, *arguments, **options)
        if ends:
            raise KeyboardInterrupt
        return result

    return call


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


# ---- lost topic id -------------------------------------------------------------------------------
# A ``partition.metadata`` that is missing, empty, cut or zeros: the id stands beside it [UNI-5].
#
# A broker takes a log without a topic id for a stray one and begins an empty log. Case 10: the
# advice was to delete the file.


METADATA = "partition.metadata"
ID_OF_THE_LOST_TOPIC, OTHER_ID = uuid.UUID(int=0x1234567890), uuid.UUID(int=2)
WHOLE = format_partition_metadata(ID_OF_THE_LOST_TOPIC)
LOST = {"missing": None, "empty": b"", "zeros": b"\0" * len(WHOLE), "cut": WHOLE[:20]}
lost = pytest.mark.parametrize("content", LOST.values(), ids=LOST)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three partitions of a topic, and one of another, as a broker leaves them."""
    for name, topic_id in (("orders", ID_OF_THE_LOST_TOPIC), ("orders-eu", OTHER_ID)):
        for number in range(3):
            with segstore.open(tmp_path / f"{name}-{number}", topic_id=topic_id) as log:
                log.append([(None, b"value")])
    return tmp_path


def lose(path: Path, content: bytes | None) -> None:
    if content is None:
        (path / METADATA).unlink()
    else:
        (path / METADATA).write_bytes(content)


@lost
def test_no_open_makes_an_id_up(data: Path, content: bytes | None):
    """[UNI-5] What cannot be read is told, and stays; appends go on."""
    lose(data / "orders-0", content)

    with segstore.open(data / "orders-0") as log:
        assert log.topic_id is None
        assert len(log.report.warnings) == (content is not None)
        log.append([(None, b"more")])

    found = data / "orders-0" / METADATA
    assert (found.read_bytes() if found.exists() else None) == content


@lost
def test_the_id_comes_from_the_other_partitions(data: Path, content: bytes | None):
    """[UNI-5] Of this topic alone; one that cannot be read says nothing, and no clean stop ends."""
    lose(data / "orders-0", content)
    lose(data / "orders-1", b"garbage")
    marker = (data / "orders-0" / ".kafka_cleanshutdown").stat().st_ino

    with segstore.open(data / "orders-0") as log:
        assert log.restore_topic_id()
        assert log.topic_id == ID_OF_THE_LOST_TOPIC
        assert not log.restore_topic_id()

    assert (data / "orders-0" / METADATA).read_bytes() == WHOLE
    assert (data / "orders-0" / ".kafka_cleanshutdown").stat().st_ino == marker
    with segstore.open(data / "orders-0", topic_id=ID_OF_THE_LOST_TOPIC) as log:
        log.append([(None, b"more")])


@lost
def test_topics_json_alone_is_no_source(tmp_path: Path, content: bytes | None):
    """[UNI-5] A broker removes a topic and makes it again: the file still has the old id."""
    path = tmp_path / "orders-0"
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders", 1)
    shutil.rmtree(path)
    with segstore.open(path, topic_id=OTHER_ID) as log:
        log.append([(None, b"value")])
    lose(path, content)

    with segstore.open(path) as log:
        assert not log.restore_topic_id()
        assert log.topic_id is None
    assert found(path) == [(FindingCode.TOPIC_ID_MISSING, Action.WRITE_TOPIC_ID, False)]
    assert cli.main(["recover", "-q", str(path)]) == 1
    assert (path / METADATA).exists() == (content is not None)


@pytest.mark.parametrize("is_same", [True, False])
def test_topics_json_may_contradict_the_other_partitions(tmp_path: Path, *, is_same: bool):
    """[UNI-5] Then nothing shows which id is right."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders", 2)
        topic_id = logs.log("orders", 0).topic_id
    lose(tmp_path / "orders-0", None)
    if not is_same:
        (tmp_path / "orders-1" / METADATA).write_bytes(format_partition_metadata(OTHER_ID))

    with segstore.open(tmp_path / "orders-0") as log:
        if is_same:
            assert log.restore_topic_id()
            assert log.topic_id == topic_id
        else:
            with pytest.raises(InconsistentTopicIdError):
                log.restore_topic_id()


@lost
def test_others_that_contradict_each_other_say_nothing(data: Path, content: bytes | None):
    """[UNI-5] One may be left of an older topic of that name: nothing tells which."""
    lose(data / "orders-0", content)
    (data / "orders-2" / METADATA).write_bytes(format_partition_metadata(OTHER_ID))

    with segstore.open(data / "orders-0") as log:
        with pytest.raises(InconsistentTopicIdError) as caught:
            log.restore_topic_id()
        assert log.topic_id is None

    assert "orders-1" in str(caught.value)
    assert "orders-2" in str(caught.value)


def test_an_id_that_can_be_read_stays(data: Path):
    """[UNI-5] Whatever the others say."""
    (data / "orders-0" / METADATA).write_bytes(format_partition_metadata(OTHER_ID))

    with segstore.open(data / "orders-0") as log:
        assert not log.restore_topic_id()
        assert log.topic_id == OTHER_ID


def test_a_log_whose_topic_has_no_id_gets_none(tmp_path: Path):
    """[UNI-5] As of an embedded log, or an old broker's; what is being deleted does not count."""
    for number in range(2):
        segstore.open(tmp_path / f"orders-{number}").close()
    deleted = tmp_path / f"orders-2.{'0' * 32}-delete"
    deleted.mkdir()
    (deleted / METADATA).write_bytes(WHOLE)

    with segstore.open(tmp_path / "orders-0") as log:
        assert not log.restore_topic_id()
        assert log.topic_id is None


# ---- what verify finds, recover repairs ----------------------------------------------------------


def found(path: Path) -> list[tuple[FindingCode, Action, bool]]:
    return [(one.code, one.action, one.repaired) for one in check_partition(str(path)).findings]


@lost
def test_recover_writes_it_again(data: Path, content: bytes | None):
    """[UNI-5] As the dry run says, and behind it nothing is found."""
    path = data / "orders-0"
    lose(path, content)

    assert found(path) == [(FindingCode.TOPIC_ID_MISSING, Action.RECOVER, True)]
    assert cli.main(["verify", "-q", str(path)]) == 1
    assert cli.main(["recover", "-q", "--dry-run", str(path)]) == 0
    assert cli.main(["recover", "-q", str(path)]) == 0
    assert found(path) == []
    assert (path / METADATA).read_bytes() == WHOLE


@lost
def test_recover_guesses_nothing(data: Path, content: bytes | None):
    """[UNI-5] The other partitions contradict each other."""
    path = data / "orders-0"
    lose(path, content)
    (data / "orders-2" / METADATA).write_bytes(format_partition_metadata(OTHER_ID))
    expected = [(FindingCode.TOPIC_ID_MISSING, Action.WRITE_TOPIC_ID, False)]

    assert found(path) == expected
    assert cli.main(["recover", "-q", "--dry-run", str(path)]) == 1
    assert cli.main(["recover", "-q", str(path)]) == 1
    assert found(path) == expected
    assert (path / METADATA).exists() == (content is not None)


@lost
@pytest.mark.parametrize("is_of_broker", [True, False])
def test_a_broker_s_partition_has_a_topic_id(
    tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str], *, is_of_broker: bool
):
    """[UNI-5] Without it the broker calls the log a stray one, also one that segstore made.

    The topic's only other partition has lost its file too. What the advice says to type works.
    """
    if is_of_broker:
        (tmp_path / "meta.properties").write_text("version=1\n")
    for number in range(2):
        with segstore.open(tmp_path / f"orders-{number}") as log:
            log.append([(None, b"value")])
    path, other = tmp_path / "orders-0", tmp_path / "orders-1"
    if content is not None:
        lose(path, content)
    expected = [(FindingCode.TOPIC_ID_MISSING, Action.WRITE_TOPIC_ID, False)]

    assert found(path) == (expected if is_of_broker or content is not None else [])
    assert found(other) == (expected if is_of_broker else [])
    if is_of_broker:
        assert cli.main(["scrub", "-q", str(tmp_path)]) == 1
        assert cli.main(["recover", "-q", "--dry-run", str(tmp_path)]) == 1
        assert cli.main(["recover", "-q", str(tmp_path)]) == 1
        capsys.readouterr()
        assert cli.main(["verify", "-q", str(tmp_path)]) == 1
        printed = capsys.readouterr().out
        assert printed.count("no record is lost") == 2
        commands = re.findall("`(printf .*)`, with", printed)
        for command in commands:
            typed = command.replace(": ID", f": {topic_id_text(ID_OF_THE_LOST_TOPIC)}")
            subprocess.run(["sh", "-c", typed], check=True)
        assert cli.main(["verify", "-q", str(tmp_path)]) == 0
        with segstore.open(path, topic_id=ID_OF_THE_LOST_TOPIC) as log:
            log.append([(None, b"more")])


def test_the_log_of_the_quorum_has_no_topic_id(tmp_path: Path):
    """[UNI-5] A broker keeps no such file in it."""
    (tmp_path / "meta.properties").write_text("version=1\n")
    with segstore.open(tmp_path / "__cluster_metadata-0") as log:
        log.append([(None, b"value")])

    assert found(tmp_path / "__cluster_metadata-0") == []


def test_a_topic_without_an_id_has_no_finding(tmp_path: Path):
    """[UNI-5] As embedded logs have none."""
    for number in range(2):
        segstore.open(tmp_path / f"orders-{number}").close()

    assert found(tmp_path / "orders-0") == []


# ---- open of many partitions ---------------------------------------------------------------------
# Opening and closing a log directory was quadratic: its checkpoints were parsed for each log.
#
# [DUR-21, DUR-65, CKP-10] 2,000 partitions took 35 s to open and 21 s to close. Looked for besides:
# each append listed the directory; each first open looked through all open logs; each close wrote
# the lines of all logs; readers (a read-only manager, ``segstore ls``, Spark's driver) parsed as
# writers.


TOPIC = "a-topic-with-a-rather-long-name-so-that-its-lines-are-long"
COUNTS = [80, 160]
"""The lines of 80 are more than the 4 KiB below which a file is parsed each time."""
START, POINT = "log-start-offset-checkpoint", "recovery-point-offset-checkpoint"


@pytest.fixture
def parses(monkeypatch):
    """The names of the log directory's checkpoints, one for each time that one was parsed."""
    found = []
    real = checkpoints.parse_checkpoint

    def parse(data, fields, name):
        if len(data) > 4096:
            found.append(name)
        return real(data, fields, name)

    monkeypatch.setattr(checkpoints, "parse_checkpoint", parse)
    return found


def filled(path, count: int) -> None:
    """A closed directory whose checkpoints have a line for each partition."""
    with segstore.open_dir(path, durability="none") as manager:
        manager.create_topic(TOPIC, count)
        for number in range(count):
            manager.log(TOPIC, number).append([(None, b"a"), (None, b"b")])
            manager.log(TOPIC, number).delete_records(1)
    time.sleep(2 * SETTLED_NS / 1e9)


@pytest.mark.parametrize("count", COUNTS)
def test_a_writer_parses_each_file_once_and_writes_it_once(tmp_path, parses, monkeypatch, count):
    filled(tmp_path, count)
    parses.clear()
    written = []
    real = checkpoints.format_offset_checkpoint

    def formatted(offsets):
        written.append(len(offsets))
        return real(offsets)

    monkeypatch.setattr(log_directory_checkpoints, "format_offset_checkpoint", formatted)
    with segstore.open_dir(tmp_path, durability="none") as manager:
        for number in range(count):
            manager.log(TOPIC, number).append([(None, b"c")])
    assert sorted(parses) == [START, POINT]
    assert written == [count]  # the recovery points; no log start has moved

    lines = checkpoints.parse_offset_checkpoint((tmp_path / POINT).read_bytes())
    assert lines == {TopicPartition(TOPIC, n): 3 for n in range(count)}


def test_a_log_that_is_closed_by_itself_leaves_its_log_start_above(tmp_path, monkeypatch):
    """[DUR-19, DUR-65] A manager that is killed then does not bring deleted records back.

    A broker knows no other place. Where the log start is the old one, nothing is written: a process
    that closes its logs one by one does not write the lines of all logs for each.
    """
    filled(tmp_path, 3)
    written = []
    real = checkpoints.format_offset_checkpoint

    def formatted(offsets):
        written.append(len(offsets))
        return real(offsets)

    manager = segstore.open_dir(tmp_path, durability="none")
    for number in range(3):
        manager.log(TOPIC, number).append([(None, b"c")])
    manager.log(TOPIC, 1).delete_records(2)
    monkeypatch.setattr(log_directory_checkpoints, "format_offset_checkpoint", formatted)
    for number in range(3):
        manager.log(TOPIC, number).close()

    lines = checkpoints.parse_offset_checkpoint((tmp_path / START).read_bytes())
    assert [lines[TopicPartition(TOPIC, n)] for n in range(3)] == [1, 2, 1]
    assert written == [3]
    manager.log(TOPIC, 0).delete_records(2)
    manager.log(TOPIC, 2).delete_records(3)
    manager.close()
    lines = checkpoints.parse_offset_checkpoint((tmp_path / START).read_bytes())
    assert [lines[TopicPartition(TOPIC, n)] for n in range(3)] == [2, 2, 3]
    assert written == [3, 3, 3]  # one file each


@pytest.mark.parametrize("count", COUNTS)
def test_readers_parse_each_file_once(tmp_path, parses, count):
    filled(tmp_path, count)
    parses.clear()

    for number in range(count):
        with segstore.open(tmp_path / f"{TOPIC}-{number}", read_only=True) as log:
            assert log.log_start_offset == 1
    with segstore.open_dir(tmp_path, read_only=True) as manager:
        assert {manager.log(TOPIC, n).log_end_offset for n in range(count)} == {2}
    # at most: what this process parsed when it wrote it may be known yet
    assert sorted(set(parses)) == sorted(parses)
    assert {START, POINT}.issuperset(parses)


def test_a_reader_sees_a_change_at_once(tmp_path):
    """[DUR-65] Also one that leaves the size as it is, and comes right behind the look."""
    filled(tmp_path, 100)
    path = tmp_path / f"{TOPIC}-7"
    (path / START).unlink()
    (path / ".kafka_cleanshutdown").unlink()
    data = (tmp_path / START).read_bytes()
    for start in (1, 2, 1, 2, 1):
        line = f"{TOPIC} 7 1\n".encode()
        (tmp_path / START).write_bytes(data.replace(line, f"{TOPIC} 7 {start}\n".encode()))
        with segstore.open(path, read_only=True) as log:
            assert log.log_start_offset == start


def test_an_append_does_not_list_a_directory_that_did_not_change(tmp_path, monkeypatch):
    filled(tmp_path, 100)
    listings = []
    real = partition_listing.PartitionListing._listed

    def listed(self):
        listings.append(1)
        return real(self)

    monkeypatch.setattr(partition_listing.PartitionListing, "_listed", listed)
    with segstore.open_dir(tmp_path, durability="none") as manager:
        manager.append(TOPIC, [(b"k", b"the first change removes the clean marker")])
        time.sleep(2 * SETTLED_NS / 1e9)
        for n in range(50):
            manager.append(TOPIC, [(b"k", b"%d" % n)])
        assert len(listings) <= 2

        (tmp_path / "new-0").mkdir()
        assert manager.topics()["new"] == [0]
        (tmp_path / "new-0").rmdir()
        assert "new" not in manager.topics()


def test_lines_of_logs_that_closed_well_are_written_beside_one_that_did_not(tmp_path, monkeypatch):
    """[DUR-24, DUR-65] No marker then; the next open, also a broker's, knows the log starts."""
    filled(tmp_path, 3)
    manager = segstore.open_dir(tmp_path, durability="none")
    for number in range(3):
        manager.log(TOPIC, number).append([(None, b"c")] * (number + 1))
    broken = manager.log(TOPIC, 1)
    real = type(broken).close

    def close(self):
        if self is broken:
            self.close_quietly()
            raise segstore.errors.CloseError("cannot close")
        real(self)

    monkeypatch.setattr(type(broken), "close", close)
    with pytest.raises(segstore.errors.CloseError):
        manager.close()

    lines = checkpoints.parse_offset_checkpoint((tmp_path / POINT).read_bytes())
    assert [lines[TopicPartition(TOPIC, n)] for n in range(3)] == [3, 2, 5]
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert (tmp_path / TOPICS_FILE).exists()


# ---- partition whose directory is gone -----------------------------------------------------------
# A new partition began at the log start of an older one of its name [DUR-120, DUR-121].
#
# What checkpoints say of a partition goes before its directory is made again. ``create_topic`` did
# that for the log directory's checkpoints alone. Looked for: those in ``state_dir``; a partition
# that is opened alone, in each profile; a handle of the old directory that the manager still had.
# Where the directory is there, whatever is in it, the lines count as before [DUR-19].


KAFKA = {"recovery": "kafka", "replicated": False}


def fill(log) -> None:
    log.append([(b"k", b"v")] * 100)
    log.delete_records(50)


def offsets_of(log) -> tuple[int, int, int]:
    """Log start, log end, and the offset of the next record."""
    return log.log_start_offset, log.log_end_offset, log.append([(b"k", b"v")]).base_offset


def lines_of(path) -> dict[TopicPartition, int]:
    return parse_offset_checkpoint(path.read_bytes())


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def logs(tmp_path):
    return tmp_path / "logs"


@pytest.mark.parametrize("profile", ["safe", "kafka", "kafka with state"])
def test_a_topic_that_is_made_again(logs, state, profile):
    settings = {} if profile == "safe" else KAFKA
    if profile == "kafka with state":
        settings = {**KAFKA, "state_dir": state}
    with segstore.open_dir(logs, **settings) as manager:
        manager.create_topic("t", 2)
        for number in range(2):
            fill(manager.log("t", number))
        manager.create_topic("u", 1)
        fill(manager.log("u", 0))
    for number in range(2):
        shutil.rmtree(logs / f"t-{number}")

    with segstore.open_dir(logs, **settings) as manager:
        manager.create_topic("t", 1)
        assert offsets_of(manager.log("t", 0)) == (0, 0, 0)
        if profile != "kafka":  # where it is written down
            assert manager.log("u", 0).log_start_offset == 50


@pytest.mark.parametrize("profile", ["safe", "kafka", "kafka with state"])
def test_a_partition_that_is_opened_alone(logs, state, profile):
    with segstore.open_dir(logs) as manager:
        manager.create_topic("t", 2)
        for number in range(2):
            fill(manager.log("t", number))
    settings = {} if profile == "safe" else KAFKA
    if profile == "kafka with state":
        settings = {**KAFKA, "state_dir": state}
        with segstore.open(logs / "t-0", **settings) as log:
            log.delete_records(60)
        assert lines_of(state / START) == {TopicPartition("t", 0): 60}
    shutil.rmtree(logs / "t-0")

    with segstore.open(logs / "t-0", **settings) as log:
        assert offsets_of(log) == (0, 0, 0)
    assert lines_of(logs / START)[TopicPartition("t", 1)] == 50
    with segstore.open(logs / "t-1", **settings) as log:
        assert offsets_of(log) == (50, 100, 100)


def test_the_lines_go_before_there_is_a_directory(logs, monkeypatch):
    """A crash between leaves a directory whose lines are gone, not one with lines of another."""
    with segstore.open_dir(logs) as manager:
        manager.create_topic("t", 1)
        fill(manager.log("t", 0))
    shutil.rmtree(logs / "t-0")

    def make(*_):
        assert TopicPartition("t", 0) not in lines_of(logs / START) | lines_of(logs / POINT)
        raise KeyboardInterrupt

    monkeypatch.setattr("segstore.log.files.partition_path.make_directory", make)
    with pytest.raises(KeyboardInterrupt):
        segstore.open(logs / "t-0")


@pytest.mark.parametrize("fate", ["lost", "kept", "seed"])
def test_no_crash_brings_the_lines_back(fate):
    """[DUR-121] Whatever reached the disk, the partition begins at 0, with what was synced."""
    disk = new_disk()
    make_log_directory(disk)
    above = Directory(os.path.dirname(PATH), disk)  # noqa: PTH120 - not a real one
    for name in (START, POINT):
        above.write_file_atomically(name, b"0\n1\ntopic 0 7\n", FileBarrier.SHARED_CHECKPOINT)
    begin = disk.effects
    with closing(open_log(disk)) as log:
        log.append_as_leader(at(0), 0)
        log.flush()
        acked = disk.effects

    for effects in range(begin, disk.effects + 1):
        with closing(open_log(disk.crash_image(effects, fate=fate, seed=effects))) as found:
            assert found.log_start_offset == 0, effects
            assert found.log_end_offset == 1 or effects < acked


def test_an_owner_of_the_log_directory_keeps_its_lines(logs):
    """[DUR-65] Nothing is written, and nothing made, beside who has them in memory."""
    with segstore.open_dir(logs) as manager:
        manager.create_topic("t", 1)
        fill(manager.log("t", 0))
    with segstore.open_dir(logs):
        shutil.rmtree(logs / "t-0")
        before = (logs / START).read_bytes()
        with pytest.raises(LogLockedError):
            segstore.open(logs / "t-0")
        assert (logs / START).read_bytes() == before
        assert not (logs / "t-0").exists()


def test_a_state_directory_of_an_open_log_is_left(logs, state):
    with segstore.open(logs / "t-0", state_dir=state, **KAFKA) as log:
        fill(log)
        shutil.rmtree(logs / "t-0")
        with pytest.raises(LogLockedError):
            segstore.open(logs / "t-0", state_dir=state, **KAFKA)
        assert lines_of(state / START) == {TopicPartition("t", 0): 50}
        log.close_quietly()


def test_a_directory_that_is_there_keeps_its_lines(logs):
    """[DUR-19] Its files may have been lost; no offset is given twice."""
    with segstore.open_dir(logs) as manager:
        manager.create_topic("t", 1)
        fill(manager.log("t", 0))
    shutil.rmtree(logs / "t-0")
    (logs / "t-0").mkdir()
    with segstore.open(logs / "t-0") as log:
        assert log.log_start_offset == 50


def test_a_manager_does_not_go_on_with_its_handle_of_the_old_directory(logs):
    with segstore.open_dir(logs) as manager:
        manager.create_topic("t", 1)
        old = manager.log("t", 0)
        fill(old)
        shutil.rmtree(logs / "t-0")

        manager.create_topic("t", 1)
        assert old.closed
        assert offsets_of(manager.log("t", 0)) == (0, 0, 0)
        assert (logs / "t-0" / f"{0:020}.log").stat().st_size > 0
    with segstore.open(logs / "t-0") as log:
        assert offsets_of(log) == (0, 1, 1)


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (RecordTooLargeError("refused"), None),
        (KeyboardInterrupt(), "up to 2 records of this append were appended"),
    ],
)
def test_a_refused_append_does_not_count_records_of_others(
    tmp_path: Path, error: BaseException, note: str | None
):
    """[DUR-131] An error says that its partition got nothing; Ctrl-C may come behind the write."""
    with segstore.open(tmp_path / "t-0") as log:
        appended = AppendedRecords()
        appended.begin(0, log)
        log.append([(None, b"of another"), (None, b"thread")])
        appended.note(error, "t")

    notes = getattr(error, "__notes__", [])
    assert [one.partition(" to topic")[0] for one in notes] == ([] if note is None else [note])
    assert getattr(error, "appended", None) in (None, {})


def test_a_partition_that_has_its_result_is_not_asked_again(tmp_path: Path):
    """Records that others append behind it are not of this append."""
    with segstore.open(tmp_path / "t-0") as log:
        appended = AppendedRecords()
        appended.begin(0, log)
        appended.add(0, log.append([(None, b"ours")]))
        log.append([(None, b"of another")])
        error = KeyboardInterrupt()
        appended.note(error, "t")

    assert error.__notes__[0].startswith("1 records of this append")


RETURNING = (LogManager.append, TopicAppends.append)
INTERRUPTED = (*RETURNING, TopicAppends._call, AppendedRecords.begin, AppendedRecords.add)


@pytest.mark.parametrize("step", INTERRUPTED, ids=lambda step: step.__qualname__)
@pytest.mark.parametrize("partition", [None, 1], ids=["by key", "one"])
def test_ctrl_c_in_an_append_says_how_many_records_stay(tmp_path: Path, step, partition):
    """[DUR-131] Before each instruction but the last one, where Python looks for no signal.

    It came as the call returned, and no note said so; or in `add`, and records counted twice.
    """
    with segstore.open_dir(tmp_path, durability="none") as manager:
        manager.create_topic("t", 3)
        logs = [manager.log("t", number) for number in range(3)]
        wrong = []
        for nth in range(1, 1000):
            before = sum(log.log_end_offset for log in logs)
            error: BaseException | None = None
            with InterruptedAt(step, nth) as interrupt:
                try:
                    manager.append("t", [(b"k%d" % n, b"v") for n in range(9)], partition=partition)
                except KeyboardInterrupt as caught:
                    error = caught
            if not interrupt.came:
                break
            stored = sum(log.log_end_offset for log in logs) - before
            if _said(error) != stored:
                wrong.append(nth)
        assert nth < 1000
        assert wrong in ([], [nth - 1] if step in RETURNING else [])


def _said(error: BaseException) -> int:
    notes = getattr(error, "__notes__", [])
    return int(notes[0].removeprefix("up to ").partition(" ")[0]) if notes else 0


def test_ctrl_c_after_a_move_asks_the_log_that_has_the_records(tmp_path: Path, monkeypatch):
    """The handle that the append began with was closed by the move, and ended before them."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with segstore.open_dir([tmp_path / "one", tmp_path / "two"], durability="none") as manager:
        manager.create_topic("t")
        manager.append("t", [(b"k", b"v")])
        before = manager.log("t", 0)
        real = type(before).append

        def interrupted(log, *arguments, **options):
            if log is before and not log.closed:
                where = {str(tmp_path / "one"), str(tmp_path / "two")}
                (target,) = where - {str(Path(log.path).parent)}
                manager.move_partition("t", 0, target)
            real(log, *arguments, **options)
            raise KeyboardInterrupt

        monkeypatch.setattr(type(before), "append", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            manager.append("t", [(b"k", b"v")] * 5)
        assert before.closed
        assert manager.log("t", 0).log_end_offset == 6
    assert _said(caught.value) == 5
