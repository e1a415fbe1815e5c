"""Several log directories of one manager: where partitions lie, and what the failure of one ends.

The first directory is ``a``, the second ``b``, the third ``c``. What a kill leaves of changes over
several: tests/crash/test_killed_changes_of_topics.py.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import uuid
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore.errors import (
    AlreadyExistsError,
    ArgumentTypeError,
    DiskFullError,
    FsyncFailedError,
    IllegalArgumentError,
    IllegalStateError,
    InconsistentTopicIdError,
    LogDirectoryOfflineError,
    LogLockedError,
    LogNotFoundError,
    LogReadOnlyError,
    NotALogError,
    ReadIOError,
    SegstoreError,
    UnknownTopicOrPartitionError,
)
from segstore.log.files.topics_file import TopicEntry, TopicState, format_topics, parse_topics
from segstore.manager.current_logs import CurrentLogs
from segstore.manager.log_directory import LogDirectory
from segstore.manager.maintenance import Maintenance
from segstore.manager.partition_listing import PartitionListing
from segstore.manager.retention_schedule import RetentionSchedule
from segstore.manager.topic_registry import TopicRegistry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore import LogManager
    from segstore.manager.partition_listing import Listed

RECORDS = [(None, b"v")] * 3
ID = uuid.UUID(int=5)
MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in "abc"]


def names(path: Path) -> list[str]:
    """Return the directories of partitions in a log directory."""
    return sorted(one.name for one in path.iterdir() if one.is_dir())


def entries(path: Path) -> dict[str, TopicEntry]:
    return {**parse_topics((path / "topics.json").read_bytes()).topics}


def write_entries(path: Path, **topics: TopicEntry) -> None:
    (path / "topics.json").write_bytes(format_topics(topics))


def fail_disk(logs: LogManager, path: Path) -> FsyncFailedError:
    """Let a directory fail as if a sync of one of its logs had."""
    error = FsyncFailedError("the disk is broken")
    logs._failures.maybe_add_offline_log_dir(str(path), error)
    return error


# ---- opening -------------------------------------------------------------------------------------


def test_all_directories_are_one(paths):
    """[MGR-1, MGR-2, MGR-10] Topics, partitions, keys and records, also for a reader."""
    with segstore.open_dir(paths) as logs:
        logs.create_topic("t", 6)
        infos = logs.append("t", [(str(n).encode(), b"v") for n in range(60)])
        assert logs.paths == tuple(map(str, paths))
        assert logs.offline_directories() == {}
        assert all(logs.log("t", n).log_end_offset for n in infos)
    assert [names(path) for path in paths] == [["t-0", "t-3"], ["t-1", "t-4"], ["t-2", "t-5"]]
    assert all((path / MARKER).exists() for path in paths)
    with segstore.open_dir(paths, read_only=True) as logs:
        assert logs.topics() == {"t": [*range(6)]}
        assert sum(len([*logs.log(*one).scan()]) for one in logs.partitions()) == 60


def test_one_path_in_a_list_is_as_one_path(paths):
    with segstore.open_dir([paths[0]]) as logs:
        logs.create_topic("t")
        assert logs.path == str(paths[0])
        assert logs.paths == (str(paths[0]),)
    with pytest.raises(NotALogError):
        segstore.open_dir([paths[0] / "t-0"])


@pytest.mark.parametrize("given", [[], [3], 3])
def test_paths_that_are_none(given):
    with pytest.raises((IllegalArgumentError, ArgumentTypeError)):
        segstore.open_dir(given)


def test_the_same_directory_twice(tmp_path, paths):
    """[MGR-4] Also by a link."""
    paths[0].mkdir()
    (tmp_path / "link").symlink_to(paths[0])
    for twice in ([paths[0], f"{paths[0]}/"], [paths[0], tmp_path / "link"]):
        with pytest.raises(IllegalArgumentError, match="the same one"):
            segstore.open_dir(twice)
    assert names(paths[0]) == []


@pytest.mark.parametrize("kind", ["a file", "a partition"])
def test_one_that_cannot_be_opened_is_offline(paths, kind):
    """[MGR-2, MGR-3, MGR-6] The others work."""
    if kind == "a file":
        paths[1].write_bytes(b"")
    else:
        segstore.open(paths[1] / "t-0").close()
        paths[1] = paths[1] / "t-0"
    with segstore.open_dir(paths) as logs:
        assert [*logs.offline_directories()] == [str(paths[1])]
        assert isinstance(logs.offline_directories()[str(paths[1])], NotALogError)
        assert logs.last_broker_epoch is None
        (paths[2] / "t-0").mkdir()
        assert logs.append("t", RECORDS, partition=0)
    assert all((path / MARKER).exists() for path in (paths[0], paths[2]))


def test_a_missing_directory_of_a_reader_is_offline(paths):
    with segstore.open_dir(paths[0]) as logs:
        logs.create_topic("t")
    with segstore.open_dir(paths[:2], read_only=True) as logs:
        assert isinstance(logs.offline_directories()[str(paths[1])], LogNotFoundError)
        assert logs.topics() == {"t": [0]}


def test_none_that_can_be_opened(paths):
    """[MGR-5] The error of the first one, with what the others say."""
    for path in paths[:2]:
        path.write_bytes(b"")
    with pytest.raises(NotALogError) as refused:
        segstore.open_dir(paths[:2])
    assert str(paths[1]) in refused.value.__notes__[0]


def test_a_lock_of_another_ends_the_open_and_leaves_the_others(paths):
    """[MGR-6, MGR-7, MGR-8]"""
    with segstore.open_dir(paths[1]):
        with pytest.raises(LogLockedError):
            segstore.open_dir(paths)
        segstore.open_dir(paths[0]).close()


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [((5, 5), 5), ((5, 6), None), ((-1, 6), 6), ((-1, -1), -1), ((5, None), None)],
)
def test_the_broker_epoch_of_all(paths, epochs, expected):
    """[MGR-56]"""
    for path, epoch in zip(paths, epochs, strict=False):
        path.mkdir()
        if epoch is not None:
            (path / MARKER).write_text(f'{{"version":0,"brokerEpoch":{epoch}}}')
    with segstore.open_dir(paths[:2]) as logs:
        assert logs.last_broker_epoch == expected


# ---- where partitions go -------------------------------------------------------------------------


def test_the_directory_with_the_fewest_logs_comes_first(paths):
    """[MGR-78] Equal ones in their order; a copy that is being moved there counts."""
    for path in paths:
        path.mkdir()
    (paths[0] / f"x-0.{'1' * 32}-future").mkdir()
    segstore.open(paths[1] / "x-0").close()
    with segstore.open_dir(paths) as logs:
        logs.create_topic("t", 4)
        assert [names(path)[:3] for path in paths] == [["t-1", names(paths[0])[1]], ["t-2", "x-0"],
                                                      ["t-0", "t-3"]]  # fmt: skip


def test_cordoned_directories_get_no_partition_unless_they_are_named(paths):
    """[MGR-77, MGR-78]"""
    with segstore.open_dir(paths[:2]) as logs:
        logs.cordon([paths[0]])
        logs.create_topic("t", 2)
        assert (names(paths[0]), names(paths[1])) == ([], ["t-0", "t-1"])
        logs.create_topic("u", 2, directories={1: paths[0]})
        assert names(paths[0]) == ["u-1"]
        logs.alter_topic("t", partitions=4, directories={2: paths[0]})
        assert names(paths[0]) == ["t-2", "u-1"]
        logs.cordon(paths[:2])  # all: the first one alone counts
        logs.create_topic("v", 2)
        assert names(paths[0]) == ["t-2", "u-1", "v-0", "v-1"]
        logs.cordon([])
        logs.create_topic("w", 1)
        assert "w-0" in names(paths[0])
    with segstore.open_dir(paths[0]) as logs:
        logs.forget_directory(*logs.missing_directories())
        logs.cordon([paths[0]])
        assert logs.create_topic("x")


def test_a_metadata_log_is_none_of_the_logs_that_are_counted(paths):
    """[MGR-18, MGR-78]"""
    segstore.open(paths[0] / "__cluster_metadata-0").close()
    with segstore.open_dir(paths[:2]) as logs:
        assert [one.path for one in logs._placement.next_directories()] == [*map(str, paths[:2])]


def test_one_path_is_cordoned_as_it_is_opened(paths):
    """[MGR-78] Not taken letter by letter."""
    with segstore.open_dir(paths) as logs:
        for one in (paths[0], str(paths[0])):
            logs.cordon(one)
            assert [work.path for work in logs._placement.cordoned] == [str(paths[0])]
        with pytest.raises(ArgumentTypeError, match="directories"):
            logs.cordon(5)


def test_one_that_is_offline_may_be_cordoned(paths):
    paths[0].mkdir()
    paths[1].write_text("no directory")
    with segstore.open_dir(paths) as logs:
        logs.cordon(paths[1:])
        assert [one.path for one in logs._placement.next_directories()] == [str(paths[0])]


def test_a_directory_that_the_manager_does_not_have(paths):
    """[MGR-11]"""
    with segstore.open_dir(paths[:2]) as logs:
        for directories in ({0: paths[2]}, {5: paths[0]}):
            with pytest.raises(IllegalArgumentError):
                logs.create_topic("t", directories=directories)
        assert logs.topics() == {}


def test_a_name_that_another_directory_has(paths):
    segstore.open(paths[1] / "t-4").close()
    with segstore.open_dir(paths[:2]) as logs, pytest.raises(AlreadyExistsError):
        logs.create_topic("t")


def test_the_same_partition_in_two_directories(paths):
    """[MGR-22] Both are named, and neither is guessed; other partitions work."""
    for path in paths[:2]:
        with segstore.open(path / "t-0") as log:
            log.append([(None, path.name.encode())])
    segstore.open(paths[1] / "t-1").close()
    with segstore.open_dir(paths[:2]) as logs:
        assert logs.topics() == {"t": [0, 1]}
        with pytest.raises(IllegalStateError, match="several log directories") as refused:
            logs.log("t", 0)
        assert all(str(path) in refused.value.found for path in paths[:2])
        assert logs.log("t", 1).log_end_offset == 0
        with pytest.raises(IllegalStateError):
            logs.set_aside_partition("t", 0)
        with pytest.raises(IllegalStateError, match="several log directories"):
            logs.delete_partition("t", 0)
        aside = logs.set_aside_partition("t", 0, paths[0])
        assert [record.value for record in logs.log("t", 0).scan()] == [b"b"]
        assert logs.unopened_directories() == [aside]


# ---- directories that are no live partition ------------------------------------------------------


@pytest.mark.parametrize("suffix", ["stray", "future", "delete"])
def test_what_is_no_live_partition_gets_nothing_of_one(paths, caplog, suffix):
    """[MGR-20, MGR-21, DUR-122] The lines of the live partition delete nothing of it."""
    with segstore.open_dir(paths[0], internal_segment_bytes=200) as logs:
        logs.create_topic("t")
        for _ in range(5):
            logs.append("t", [(None, b"x" * 100)])
    other = paths[0] / f"t-0.{'1' * 32}-{suffix}"
    shutil.copytree(paths[0] / "t-0", other)
    with segstore.open_dir(paths[0], internal_segment_bytes=200) as logs:
        logs.log("t", 0).delete_records(4)
    before = {file.name: file.read_bytes() for file in other.iterdir()}
    with caplog.at_level(logging.WARNING), segstore.open_dir(paths[0]) as logs:
        assert logs.partitions() == [("t", 0)]
        is_kept = suffix != "delete"
        assert logs.unopened_directories() == [str(other)] * is_kept
        assert ("is not opened" in caplog.text) == is_kept
        assert logs.log("t", 0).log_start_offset == 4
    assert {file.name: file.read_bytes() for file in other.iterdir()} == before


def test_foreign_directories_are_ignored(paths):
    """[MGR-18, DUR-124] Also ``lost+found``, which a file system makes."""
    with segstore.open_dir(paths[0]) as logs:
        logs.create_topic("t")
    for name in ("lost+found", "notes", ".hidden", "-7", "a b-c", "remote-log-index-cache"):
        (paths[0] / name).mkdir()
    (paths[0] / "u-0").write_bytes(b"a file")
    with segstore.open_dir(paths[0]) as logs:
        assert logs.topics() == {"t": [0]}
        assert logs.unopened_directories() == []
    assert (paths[0] / MARKER).exists()


def test_a_log_that_cannot_be_opened_stops_no_other(paths):
    """[MGR-23, DUR-124]"""
    with segstore.open_dir(paths[0]) as logs:
        logs.create_topic("t", 3)
        for number in range(3):
            logs.append("t", RECORDS, partition=number)
    (file,) = (paths[0] / "t-1").glob("*.log")
    file.unlink()
    file.mkdir()
    with segstore.open_dir(paths[0]) as logs:
        with pytest.raises(SegstoreError):
            logs.log("t", 1)
        for number in (0, 2):
            assert logs.append("t", RECORDS, partition=number)


def test_a_partition_is_set_aside(paths):
    """[MGR-63, DUR-121] With its records; a new one of its name has none of them."""
    with segstore.open_dir(paths[:2]) as logs:
        logs.create_topic("t", 2)
        logs.append("t", RECORDS, partition=1)
        log = logs.log("t", 1)
        aside = logs.set_aside_partition("t", 1)
        assert logs.topics() == {"t": [0]}
        assert len([*log.scan()]) == 3
        with pytest.raises(IllegalStateError):
            log.append(RECORDS)
        with pytest.raises(UnknownTopicOrPartitionError):
            logs.set_aside_partition("t", 1)
        with pytest.raises(UnknownTopicOrPartitionError):
            logs.set_aside_partition("t", 0, paths[1])
    with segstore.open_dir(paths[:2]) as logs:
        assert logs.unopened_directories() == [aside]
    with segstore.open_dir(paths[1], read_only=True) as logs:
        assert logs.unopened_directories() == [aside]


# ---- topics over several directories -------------------------------------------------------------


def test_settings_are_in_each_directory(paths):
    """[CFG-50] So each is whole when it is opened alone."""
    with segstore.open_dir(paths[:2]) as logs:
        logs.create_topic("t", 3, config={"retention.ms": 5})
        logs.alter_topic("t", {"retention.bytes": 7}, partitions=4)
        open_log = logs.log("t", 3)
        assert (open_log.config.retention_ms, open_log.config.retention_bytes) == (5, 7)
    assert entries(paths[0]) == entries(paths[1])
    for path in paths[:2]:
        with segstore.open_dir(path) as logs:
            described = logs.describe_topic("t")
            given = {one.name: one.value for one in described.settings if one.value is not None}
            assert (given["retention.ms"], given["retention.bytes"]) == (5, 7)
            assert len(described.partitions) == 2
            with pytest.raises(LogDirectoryOfflineError, match="partitions"):
                logs.append("t", RECORDS)  # the number of partitions decides where a key belongs
            logs.forget_directory(*logs.missing_directories())
            with pytest.raises(IllegalStateError, match="partitions"):
                logs.append("t", RECORDS)


def test_settings_of_an_older_topic_count_in_no_directory(paths):
    """[DUR-120, DUR-128, MGR-96] New ones are given to all partitions."""
    with segstore.open_dir(paths[:2]) as logs:
        logs.create_topic("t", 2, config={"retention.ms": 1})
    for number, path in enumerate(paths[:2]):
        shutil.rmtree(path / f"t-{number}")
        segstore.open(path / f"t-{number}", topic_id=ID).close()
    with segstore.open_dir(paths[:2]) as logs:
        assert [logs.log("t", number).config.retention_ms for number in range(2)] == [None] * 2
        assert logs.alter_topic("t", {"retention.bytes": 5}).topic_id == ID
        for path in paths[:2]:
            assert entries(path)["t"].topic_id == ID
            assert entries(path)["t"].config == {"retention.bytes": "5"}
        assert [logs.log("t", number).config.retention_bytes for number in range(2)] == [5, 5]


def test_a_topic_is_deleted_in_all_directories(paths):
    """[MGR-63, MGR-65]"""
    with segstore.open_dir(paths) as logs:
        logs.create_topic("t", 3)
        logs.append("t", RECORDS, partition=2)
        logs.delete_topic("t")
        assert logs.topics() == {}
        logs.create_topic("t", 3)
        assert [logs.log("t", n).log_end_offset for n in range(3)] == [0, 0, 0]
        logs.delete_partition("t", 1)
        assert logs.topics() == {"t": [0, 2]}
    assert [names(path) for path in paths] == [["t-0"], [], ["t-2"]]


def test_partitions_of_several_topics_are_not_deleted_together(paths):
    for path, number in zip(paths, range(2), strict=False):
        segstore.open(path / f"t-{number}", topic_id=uuid.UUID(int=number + 1)).close()
    with segstore.open_dir(paths[:2]) as logs, pytest.raises(InconsistentTopicIdError):
        logs.delete_topic("t")
    assert (names(paths[0]), names(paths[1])) == (["t-0"], ["t-1"])


def failing_in(monkeypatch, path: Path, method: str, error: Exception, *, times: int = 1) -> None:
    """Let a step fail in one directory, so often."""
    real, left = getattr(TopicRegistry, method), [times]

    def step(self, *given):
        if self._directory.path == str(path) and left[0]:
            left[0] -= 1
            raise error
        return real(self, *given)

    monkeypatch.setattr(TopicRegistry, method, step)


@pytest.mark.parametrize("step", ["create", "make", "put"])
def test_a_creation_that_fails_in_one_directory_is_undone_in_all(paths, monkeypatch, step):
    """[DUR-11, MGR-80]"""
    with segstore.open_dir(paths[:2]) as logs:
        failing_in(monkeypatch, paths[1], step, DiskFullError("no room"))
        with pytest.raises(DiskFullError) as refused:
            logs.create_topic("t", 4)
        assert not hasattr(refused.value, "__notes__")
        assert logs.topics() == {}
        assert (names(paths[0]), names(paths[1])) == ([], [])
        logs.create_topic("t", 4)


def test_a_growth_that_fails_in_one_directory_is_undone_in_all(paths, monkeypatch):
    """[DUR-11] The new directory of the topic forgets it."""
    with segstore.open_dir(paths[:2]) as logs:
        logs.create_topic("t", 2, directories={0: paths[0], 1: paths[0]})
        failing_in(monkeypatch, paths[1], "make", DiskFullError("no room"))
        with pytest.raises(DiskFullError):
            logs.alter_topic("t", {"retention.ms": 5}, partitions=4)
        assert logs.topics() == {"t": [0, 1]}
        assert logs.log("t", 0).config.retention_ms is None
        assert entries(paths[1]) == {}
        logs.alter_topic("t", {"retention.ms": 5}, partitions=4)
        assert logs.topics() == {"t": [0, 1, 2, 3]}
        assert entries(paths[0]) == entries(paths[1])


@pytest.mark.parametrize("keeps_failing", [False, True])
def test_settings_that_one_directory_does_not_take(paths, monkeypatch, keeps_failing):
    """[CFG-50] The topic is as before, or the next open gives it to all of it."""
    with segstore.open_dir(paths[:2]) as logs:
        logs.create_topic("t", 2)
        if keeps_failing:
            monkeypatch.setattr(TopicRegistry, "keep", lambda *_: False)
        failing_in(monkeypatch, paths[1], "put", DiskFullError("no room"))
        with pytest.raises(DiskFullError) as refused:
            logs.alter_topic("t", {"retention.ms": 5})
        assert hasattr(refused.value, "__notes__") == keeps_failing
    with segstore.open_dir(paths[:2]) as logs:
        expected = 5 if keeps_failing else None
        assert [logs.log("t", n).config.retention_ms for n in range(2)] == [expected] * 2
    assert entries(paths[0]) == entries(paths[1])


@pytest.mark.parametrize("keeps_failing", [False, True])
def test_a_deletion_that_cannot_begin_in_one_directory(paths, monkeypatch, keeps_failing):
    """[MGR-63] The topic stays, or is deleted by the next open."""
    with segstore.open_dir(paths[:2]) as logs:
        logs.create_topic("t", 2)
        if keeps_failing:
            monkeypatch.setattr(TopicRegistry, "keep", lambda *_: False)
        failing_in(monkeypatch, paths[1], "put", DiskFullError("no room"))
        with pytest.raises(DiskFullError) as refused:
            logs.delete_topic("t")
        assert hasattr(refused.value, "__notes__") == keeps_failing
        assert logs.topics() == ({} if keeps_failing else {"t": [0, 1]})
    with segstore.open_dir(paths[:2]) as logs:
        assert logs.topics() == ({} if keeps_failing else {"t": [0, 1]})


@pytest.mark.parametrize("change", ["deleted", "altered"])
def test_a_killed_change_of_a_topic_that_no_file_named(paths, monkeypatch, change):
    """[DUR-6, DUR-11] Its part in the second directory stayed as it was, and was listed."""
    for path, number in ((paths[0], 0), (paths[1], 1)):
        segstore.open(path / f"t-{number}", topic_id=ID).close()
    put = TopicRegistry.put
    calls = {
        "deleted": lambda logs: logs.delete_topic("t"),
        "altered": lambda logs: logs.alter_topic("t", {"retention.ms": 12345}),
    }

    def put_until_kill(self: TopicRegistry, name: str, entry: TopicEntry) -> None:
        is_change = entry.state is TopicState.DELETING or entry.config
        if self._directory.path == str(paths[1]) and is_change:
            raise KeyboardInterrupt
        put(self, name, entry)

    with segstore.open_dir(paths[:2]) as logs, monkeypatch.context() as killing:
        killing.setattr(TopicRegistry, "put", put_until_kill)
        killing.setattr(TopicRegistry, "keep", lambda *_: False)
        with pytest.raises(KeyboardInterrupt):
            calls[change](logs)
    with segstore.open_dir(paths[:2]) as logs:
        if change == "deleted":
            assert logs.topics() == {}
        else:
            assert [logs.log("t", n).config.retention_ms for n in (0, 1)] == [12345, 12345]


LIVE = TopicEntry(ID, 2, TopicState.LIVE)
CREATING = TopicEntry(ID, 2, TopicState.CREATING)
GROWING = TopicEntry(ID, 1, TopicState.LIVE, {}, 1)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (CREATING._replace(here=(0,)), CREATING._replace(here=(1,)), {}),
        (CREATING._replace(here=(0,)), None, {"t": [1]}),
        (LIVE, CREATING._replace(here=(1,)), {"t": [0, 1]}),
        (CREATING._replace(here=(0,)), LIVE, {"t": [0, 1]}),
        (GROWING._replace(here=()), GROWING._replace(here=(1,)), {"t": [0]}),
        (TopicEntry(ID, 1, TopicState.LIVE), GROWING._replace(here=(1,)), {"t": [0]}),
        (LIVE._replace(change=1), GROWING._replace(here=(1,)), {"t": [0, 1]}),
        (GROWING._replace(here=()), LIVE._replace(change=1), {"t": [0, 1]}),
        (LIVE._replace(state=TopicState.DELETING), LIVE, {}),
        (LIVE, LIVE._replace(state=TopicState.DELETING), {}),
        (None, LIVE._replace(state=TopicState.DELETING), {"t": [0]}),
    ],
)
def test_directories_that_disagree_after_a_kill_agree_after_an_open(paths, first, second, expected):
    """[DUR-11, DUR-23] And a reader before it sees no part of what is not finished."""
    for path, number, entry in ((paths[0], 0, first), (paths[1], 1, second)):
        segstore.open(path / f"t-{number}", topic_id=ID).close()
        if entry is not None:
            write_entries(path, t=entry)
    with segstore.open_dir(paths[:2], read_only=True) as logs:
        assert logs.topics().get("t", [0, 1]) in ([0, 1], [0])
    with segstore.open_dir(paths[:2]) as logs:
        assert logs.topics() == expected
    left = [entries(path) for path in paths[:2] if (path / "topics.json").exists()]
    finished = [entry for one in left for entry in one.values()]
    assert all(entry.is_finished for entry in finished)
    assert len({entry.partitions for entry in finished}) <= 1


def test_what_a_program_has_used_is_finished_in_all_directories(paths):
    """[DUR-6] The partition that is missing is made where it belongs."""
    with segstore.open(paths[0] / "t-0", topic_id=ID) as log:
        log.append(RECORDS)
    paths[1].mkdir()
    write_entries(paths[0], t=CREATING._replace(here=(0,)))
    write_entries(paths[1], t=CREATING._replace(here=(1,)))
    with segstore.open_dir(paths[:2]) as logs:
        assert logs.topics() == {"t": [0, 1]}
        assert logs.log("t", 0).log_end_offset == 3
    assert (names(paths[0]), names(paths[1])) == (["t-0"], ["t-1"])


def test_two_topics_of_one_name_are_named(paths, caplog):
    for path, topic_id in ((paths[0], ID), (paths[1], uuid.UUID(int=6))):
        path.mkdir()
        write_entries(path, t=TopicEntry(topic_id, 1, TopicState.LIVE, {"retention.ms": "5"}))
    with caplog.at_level(logging.WARNING), segstore.open_dir(paths[:2]):
        pass
    assert "several topic ids" in caplog.text
    assert entries(paths[0])["t"].topic_id == ID


# ---- one that is offline, or fails ---------------------------------------------------------------


def test_topics_are_not_changed_while_one_is_offline(paths):
    """[MGR-64, MGR-76] The topic, or a part of it, may be there."""
    with segstore.open_dir(paths[:2]) as logs:
        logs.create_topic("t", 2)
    (paths[1]).rename(paths[2])
    paths[1].write_bytes(b"")
    with segstore.open_dir(paths[:2]) as logs:
        for change in (
            lambda: logs.create_topic("u"),
            lambda: logs.alter_topic("t", {"retention.ms": 5}),
            lambda: logs.delete_topic("t"),
            lambda: logs.delete_partition("t", 0),
            lambda: logs.log("t", 1),
            lambda: logs.describe_topic("u"),
            lambda: logs.append("t", [(b"k", b"v")]),
        ):
            with pytest.raises(LogDirectoryOfflineError):
                change()
        assert logs.append("t", RECORDS, partition=0)
    with segstore.open_dir([paths[0], paths[2]]) as logs:  # without it
        assert logs.topics() == {"t": [0, 1]}


def test_what_was_left_waits_until_all_are_there(paths):
    for path in paths[:2]:
        path.mkdir()
    write_entries(paths[0], t=CREATING._replace(here=(0,)))
    (paths[0] / "t-0").mkdir()
    paths[2].write_bytes(b"")
    with segstore.open_dir([paths[0], paths[2]]) as logs:
        assert logs.topics() == {}
        assert names(paths[0]) == ["t-0"]
    with segstore.open_dir(paths[:2]) as logs:
        assert names(paths[0]) == []


@pytest.mark.parametrize("count", [1, 2])
def test_one_that_is_removed_while_it_is_open_is_offline(paths, count: int):
    """[MGR-71, MGR-72] Its partitions stay known; the others take records."""
    with (
        contextlib.suppress(LogNotFoundError, LogReadOnlyError),
        segstore.open_dir(paths[:count]) as logs,
    ):
        logs.create_topic("t", 2 * count)
        logs.append("t", RECORDS, partition=0)
        shutil.rmtree(paths[0])
        if count == 1:
            with pytest.raises(ReadIOError, match="was removed"):
                logs.topics()
            return
        assert logs.topics() == {"t": [*range(4)]}
        assert [*logs.offline_directories()] == [str(paths[0])]
        with pytest.raises(LogReadOnlyError):
            logs.append("t", RECORDS, partition=0)
        logs.append("t", RECORDS, partition=1)
        with pytest.raises(SegstoreError):
            logs.create_topic("u")
    assert not paths[0].exists()


def test_the_failure_of_one_takes_no_other_with_it(paths):
    """[MGR-70, MGR-71, MGR-72] Its logs can be read; the others take records."""
    with segstore.open_dir(paths[:2]) as logs:
        logs.create_topic("t", 2)
        for number in range(2):
            logs.append("t", RECORDS, partition=number)
        log, other = logs.log("t", 0), logs.log("t", 1)
        error = fail_disk(logs, paths[0])
        assert logs.offline_directories() == {str(paths[0]): error}
        with pytest.raises(LogReadOnlyError):
            log.append(RECORDS)
        assert len([*log.scan()]) == 3
        other.append(RECORDS)
        assert logs.topics() == {"t": [0, 1]}
        with pytest.raises(LogReadOnlyError):
            logs.alter_topic("t", {"retention.ms": 5})
        logs.create_topic("u", 2)
        assert sorted(names(paths[1])) == ["t-1", "u-0", "u-1"]
        with pytest.raises(LogReadOnlyError):
            logs.create_topic("v", directories={0: paths[0]})
        assert logs.maintain().failed == ()
        with pytest.raises(LogReadOnlyError) as refused:
            logs.close()
        assert refused.value.__cause__ is error
    assert not (paths[0] / MARKER).exists()  # [DUR-129] it is opened as after an unclean stop
    assert (paths[1] / MARKER).exists()


def test_keys_wait_for_a_directory_that_has_failed_before_it_was_seen(paths, monkeypatch):
    """[DUR-131] The keys of its partitions went to those of the other directories."""
    for path, number in ((paths[0], 0), (paths[1], 1)):
        segstore.open(path / f"t-{number}").close()
    current = PartitionListing.current

    def fail(self: PartitionListing) -> Listed:
        if self._directory.path == str(paths[1]):
            raise ReadIOError("cannot be read")
        return current(self)

    monkeypatch.setattr(PartitionListing, "current", fail)
    with segstore.open_dir(paths[:2]) as logs:
        with pytest.raises(LogDirectoryOfflineError, match="decides where a key belongs"):
            logs.append("t", RECORDS)
        logs.append("t", RECORDS, partition=0)
        with pytest.raises(LogReadOnlyError):
            logs.close()


def test_a_partition_that_moves_between_two_looks_is_seen(paths, monkeypatch):
    """[DUR-127] By a reader in another process, which looks at one directory after another."""

    def moving(self: LogDirectory, before: Callable[..., object], *args: object) -> object:
        found = before(self, *args)
        if self.owned is None and targets:
            logs.move_partition("t", 0, targets.pop())
        return found

    with (
        segstore.open_dir(paths[:2]) as logs,
        segstore.open_dir(paths[:2], read_only=True) as reader,
    ):
        logs.create_topic("t", directories={0: paths[1]})
        logs.append("t", RECORDS)
        for name in ("holds", "listed_if_it_works"):
            before = getattr(LogDirectory, name)
            monkeypatch.setattr(
                LogDirectory, name, lambda self, *args, b=before: moving(self, b, *args)
            )
        targets = [paths[0]]
        assert reader.topics() == {"t": [0]}
        logs.move_partition("t", 0, paths[1])
        targets = [paths[0]]
        assert reader.log("t", 0).log_end_offset == 3
        assert not targets


def test_all_have_failed(paths):
    """[MGR-5]"""
    logs = segstore.open_dir(paths[:2])
    for path in paths[:2]:
        fail_disk(logs, path)
    for change in (lambda: logs.create_topic("t"), logs.maintain):
        with pytest.raises(LogReadOnlyError):
            change()
    with pytest.raises(LogReadOnlyError) as refused:
        logs.close()
    assert "another log directory" in refused.value.__notes__[0]


def test_an_error_of_an_open_ends_its_directory_alone(paths, monkeypatch):
    """[MGR-23, LOC-27]"""
    with segstore.open_dir(paths[:2]) as logs:
        logs.create_topic("t", 2)
    real = CurrentLogs._open

    def open_one(self, one, *given):
        if one.partition == 0:
            raise FsyncFailedError("broken")
        return real(self, one, *given)

    logs = segstore.open_dir(paths[:2])
    monkeypatch.setattr(CurrentLogs, "_open", open_one)
    with pytest.raises(FsyncFailedError):
        logs.log("t", 0)
    assert logs.log("t", 1).append(RECORDS)
    logs.close()


def test_unknown_partitions_of_healthy_directories(paths):
    with segstore.open_dir(paths[:2]) as logs:
        with pytest.raises(UnknownTopicOrPartitionError):
            logs.log("t", 0)
        with pytest.raises(UnknownTopicOrPartitionError):
            logs.describe_topic("t")


def test_maintenance_of_all(paths):
    """[MGR-30] One report; each directory keeps its own checkpoints."""
    with segstore.open_dir(paths[:2], internal_segment_bytes=200) as logs:
        logs.create_topic("t", 2, config={"retention.bytes": 200})
        for number in range(2):
            for _ in range(5):
                logs.append("t", [(None, b"x" * 100)], partition=number)
        report = logs.maintain()
        assert {one.topic_partition.partition for one in report.deleted} == {0, 1}
        assert report.failed == ()
    for path, number in zip(paths, range(2), strict=False):
        text = (path / "log-start-offset-checkpoint").read_text()
        assert f"t {number} " in text
        assert f"t {1 - number} " not in text


@pytest.mark.parametrize("fails_in", ["a job", "all of it"])
@pytest.mark.parametrize("failing", [0, 1])
def test_maintenance_that_fails_in_one_directory_delays_no_other(
    paths, monkeypatch, failing: int, fails_in: str
):
    """[DUR-131, MGR-72] The error is reported, and ends the directory where its disk has failed."""
    error = ReadIOError("cannot be read")
    owner, name = (RetentionSchedule, "run") if fails_in == "a job" else (Maintenance, "run_due")
    real = getattr(owner, name)

    def fail(self: Any, *args: Any) -> object:
        if self is failing_one:
            raise error
        return real(self, *args)

    logs = segstore.open_dir(paths[:2], internal_segment_bytes=200)
    logs.create_topic("t", 2, config={"retention.bytes": 200})
    for number in range(2):
        for _ in range(5):
            logs.append("t", [(None, b"x" * 100)], partition=number)
    maintenance = logs._directories[failing].maintenance
    failing_one = maintenance._schedule if fails_in == "a job" else maintenance
    monkeypatch.setattr(owner, name, fail)
    if fails_in == "a job":
        report = logs.maintain()
        assert report.failed[0].error is error
    else:
        with pytest.raises(ReadIOError):
            logs.maintain()
    assert logs.log("t", 1 - failing).log_start_offset > 0
    assert logs.log("t", failing).log_start_offset == 0
    assert logs.offline_directories() == {str(paths[failing]): error}
    with pytest.raises(LogReadOnlyError):
        logs.close()


def test_high_watermarks_are_in_each_directory(paths):
    """[MGR-47] Those of the partitions that lie there."""
    with segstore.open_dir(paths[:2], replicated=True) as logs:
        logs.create_topic("t", 2)
        for number in range(2):
            logs.append("t", RECORDS, partition=number)
            logs.log("t", number).update_high_watermark(number + 1)
    for path, number in zip(paths[:2], range(2), strict=True):
        text = (path / "replication-offset-checkpoint").read_text()
        assert text.splitlines()[2:] == [f"t {number} {number + 1}"]


def test_a_directory_that_has_failed_gets_no_checkpoints_of_a_broker(paths):
    """[MGR-50, MGR-53] In Kafka's profile; the other directory gets its own."""
    logs = segstore.open_dir(paths[:2], recovery="kafka")
    logs.create_topic("t", 2)
    for number in range(2):
        logs.append("t", RECORDS, partition=number)
    fail_disk(logs, paths[0])
    with pytest.raises(LogReadOnlyError):
        logs.close()
    written = [(path / "recovery-point-offset-checkpoint").read_text() for path in paths[:2]]
    assert written == ["", "0\n1\nt 1 3\n"]
