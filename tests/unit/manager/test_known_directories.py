"""Log directories that were used together: one that is missing is no new one [MGR-9, DUR-124].

The first directory is ``a``, the second ``b``, the third ``c``.
"""

from __future__ import annotations

import shutil
import uuid
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli import main
from segstore.errors import (
    DiskFullError,
    IllegalArgumentError,
    LogDirectoryOfflineError,
    UnknownTopicOrPartitionError,
)
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.files.topics_file import format_topics, parse_topics
from segstore.manager.topic_registry import TopicRegistry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from segstore import LogManager

RECORDS = [(None, b"v")] * 3
KAFKAS_ID = "AAAAAAAAAAAAAAAAAAAACQ"


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in "abc"]


@pytest.fixture
def unmounted(paths) -> list[Path]:
    """Two directories with a topic; of the second one, only an empty mount point is left."""
    with segstore.open_dir(paths[:2]) as logs:
        logs.create_topic("t", 2)
        for number in range(2):
            logs.append("t", RECORDS, partition=number)
    paths[1].rename(paths[1].with_name("disk"))
    paths[1].mkdir()
    (paths[1] / "lost+found").mkdir()
    return paths


def mount(path: Path) -> None:
    shutil.rmtree(path)
    path.with_name("disk").rename(path)


def listed(path: Path) -> Mapping[uuid.UUID, str]:
    return parse_topics((path / "topics.json").read_bytes()).directories


def id_of(path: Path) -> uuid.UUID:
    return next(iter(listed(path)))


def refused_changes(logs: LogManager, target: Path) -> list[str]:
    """Return what the errors of all changes of topics say."""
    found = []
    for change in (
        lambda: logs.create_topic("u"),
        lambda: logs.alter_topic("t", {"retention.ms": 5}),
        lambda: logs.alter_topic("t", partitions=4),
        lambda: logs.delete_topic("t"),
        lambda: logs.delete_partition("t", 0),
        lambda: logs.move_partition("t", 0, target),
        lambda: logs.log("t", 1),
        lambda: logs.append("t", [(b"k", b"v")]),
    ):
        with pytest.raises(LogDirectoryOfflineError) as caught:
            change()
        found.append(str(caught.value))
    return found


def test_each_lists_all(paths):
    """[MGR-9] Its own id comes first; an open that changes nothing writes nothing."""
    segstore.open_dir(paths[:2]).close()
    ids = [id_of(path) for path in paths[:2]]
    both = {ids[0]: str(paths[0]), ids[1]: str(paths[1])}
    assert [listed(path) for path in paths[:2]] == [both] * 2
    before = (paths[0] / "topics.json").stat()
    segstore.open_dir(paths[1::-1]).close()
    assert (paths[0] / "topics.json").stat() == before
    segstore.open_dir(paths).close()
    assert listed(paths[0]) == {**both, id_of(paths[2]): str(paths[2])}


def test_one_directory_alone_has_no_list(paths):
    with segstore.open_dir(paths[0]) as logs:
        logs.create_topic("t")
        assert logs.missing_directories() == {}
    assert not listed(paths[0])


def test_the_id_of_a_broker_is_taken(paths):
    """[MGR-9] ``directory.id`` of meta.properties; without the file, the list still has it."""
    for path in paths[:2]:
        path.mkdir()
    broker = f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={KAFKAS_ID}\n"
    (paths[0] / "meta.properties").write_text(broker)
    segstore.open_dir(paths[:2]).close()
    assert topic_id_text(id_of(paths[0])) == KAFKAS_ID
    (paths[0] / "meta.properties").unlink()
    with segstore.open_dir(paths[:2]) as logs:
        assert logs.missing_directories() == {}


def test_kafkas_profile_lists_nothing(paths):
    """A broker takes an empty directory for a new one."""
    segstore.open_dir(paths[:2], recovery="kafka").close()
    assert not (paths[0] / "topics.json").exists()


@pytest.mark.parametrize("read_only", [False, True])
def test_an_empty_mount_point_is_no_new_directory(unmounted, read_only):
    """[DUR-124] Nothing is made in it; reads and appends go on in the other directory."""
    missing = id_of(unmounted[1].with_name("disk"))
    with segstore.open_dir(unmounted[:2], read_only=read_only) as logs:
        assert logs.missing_directories() == {missing: str(unmounted[1])}
        assert [*logs.offline_directories()] == [str(unmounted[1])]
        offline = f'kafka_log_logmanager_logdirectoryoffline{{logDirectory="{unmounted[1]}"}} 1'
        assert offline in logs.stats().prometheus_text()
        assert len([*logs.log("t", 0).scan()]) == 3
        if not read_only:
            logs.append("t", RECORDS, partition=0)
            for text in refused_changes(logs, unmounted[1]):
                assert topic_id_text(missing) in text or "offline" in text
            with pytest.raises(LogDirectoryOfflineError, match=r"Mount .*forget_directory"):
                logs.create_topic("u")
    assert [one.name for one in unmounted[1].iterdir()] == ["lost+found"]
    mount(unmounted[1])
    with segstore.open_dir(unmounted[:2]) as logs:
        assert logs.missing_directories() == {}
        logs.alter_topic("t", {"retention.ms": 5})
        assert len([*logs.log("t", 1).scan()]) == 3


@pytest.mark.parametrize("given", [[0], [0, 2]])
def test_one_that_is_not_named_is_missing(unmounted, given):
    """[DUR-124] A new directory beside the others does not take its place."""
    with segstore.open_dir([unmounted[n] for n in given]) as logs:
        assert [*logs.missing_directories().values()] == [str(unmounted[1])]
        with pytest.raises(LogDirectoryOfflineError, match="is missing"):
            logs.create_topic("u")
        with pytest.raises(LogDirectoryOfflineError):  # keys: a partition is elsewhere
            logs.append("t", [(b"k", b"v")])
    assert not unmounted[2].exists()


def test_one_that_is_gone_for_good(unmounted):
    """[DUR-124] The user says so: topics are changed again, and the next open takes a new one."""
    missing = id_of(unmounted[1].with_name("disk"))
    with segstore.open_dir([unmounted[0]]) as logs:
        with pytest.raises(IllegalArgumentError):
            logs.forget_directory(uuid.UUID(int=5))
        with pytest.raises(IllegalArgumentError):
            logs.forget_directory("x")
        logs.forget_directory(topic_id_text(missing))
        assert logs.missing_directories() == {}
        logs.delete_topic("t")
        with pytest.raises(UnknownTopicOrPartitionError):
            logs.log("t", 1)
    with segstore.open_dir(unmounted[:2]) as logs:
        assert logs.offline_directories() == {}
        logs.create_topic("t", 2)
    assert missing not in listed(unmounted[0])


def test_a_new_one_that_waits_is_taken_by_the_next_open(unmounted):
    with segstore.open_dir(unmounted[:2]) as logs:
        logs.forget_directory(*logs.missing_directories())
        assert [*logs.offline_directories()] == [str(unmounted[1])]
    with segstore.open_dir(unmounted[:2]) as logs:
        assert logs.offline_directories() == {}


def test_one_that_is_back_is_told(unmounted, caplog):
    """It was given up: what was deleted meanwhile may be back."""
    with segstore.open_dir([unmounted[0], unmounted[2]], recovery="kafka"):
        pass
    with segstore.open_dir([unmounted[0]]) as logs:
        logs.forget_directory(*logs.missing_directories())
    segstore.open_dir([unmounted[0], unmounted[2]]).close()
    mount(unmounted[1])
    assert "is back" not in caplog.text
    segstore.open_dir(unmounted).close()
    assert f"{unmounted[1]} is back" in caplog.text


def test_a_directory_under_another_path_is_there(unmounted):
    disk = unmounted[1].with_name("disk")
    with segstore.open_dir([unmounted[0], disk]) as logs:
        assert logs.missing_directories() == {}
        logs.create_topic("u")
    assert str(disk) in listed(unmounted[0]).values()


def test_a_full_disk_writes_no_list(paths, monkeypatch):
    """[DUR-30] The open succeeds, and the next one lists them."""

    def full(*_: object, **__: object) -> None:
        raise DiskFullError("full")

    with monkeypatch.context() as patch:
        patch.setattr(TopicRegistry, "_write", full)
        segstore.open_dir(paths[:2]).close()
    assert not (paths[0] / "topics.json").exists()
    segstore.open_dir(paths[:2]).close()
    assert len(listed(paths[0])) == 2


def test_a_kill_between_two_writes_leaves_no_unknown_id(paths, monkeypatch):
    """An id is listed by another directory only once it is durable in its own."""
    write, calls = TopicRegistry._write, []

    def killed(registry: TopicRegistry, *given: object, **named: object) -> None:
        calls.append(registry)
        if len(calls) > limit:
            raise KeyboardInterrupt
        write(registry, *given, **named)

    for limit in range(5):
        calls.clear()
        for path in paths[:2]:
            shutil.rmtree(path, ignore_errors=True)
        with monkeypatch.context() as patch:
            patch.setattr(TopicRegistry, "_write", killed)
            if limit < 4:
                with pytest.raises(KeyboardInterrupt):
                    segstore.open_dir(paths[:2])
            else:
                segstore.open_dir(paths[:2]).close()
        with segstore.open_dir(paths[:2]) as logs:
            assert logs.missing_directories() == {}
            logs.create_topic("t")


def test_a_damaged_file_is_reported_first(unmounted):
    """[DUR-97] What lists a directory as missing cannot be read in all of them."""
    segstore.open_dir([unmounted[0]]).close()
    unmounted[2].mkdir()
    (unmounted[2] / "t-7").mkdir()
    (unmounted[2] / "topics.json").write_bytes(format_topics({})[:-3])
    with segstore.open_dir([unmounted[0], unmounted[2]]) as logs:
        assert logs.missing_directories()
        with pytest.raises(segstore.CorruptCheckpointError):
            logs.create_topic("u")
    assert (unmounted[2] / "topics.json").read_bytes() == format_topics({})[:-3]


def test_an_empty_one_waits_while_a_list_cannot_be_read(unmounted):
    """[DUR-97, DUR-124] The damaged file may say that a disk is not mounted."""
    file = unmounted[0] / "topics.json"
    whole = file.read_bytes()
    file.write_bytes(b"{}")
    with segstore.open_dir(unmounted[:2]) as logs:
        assert [*logs.offline_directories()] == [str(unmounted[1])]
        error = logs.offline_directories()[str(unmounted[1])]
        assert f"topics.json of {unmounted[0]}" in str(error)
        assert "Mount the disks" in str(error)
        with pytest.raises(segstore.CorruptCheckpointError):
            logs.create_topic("u")
        logs.append("t", RECORDS, partition=0)
    assert [one.name for one in unmounted[1].iterdir()] == ["lost+found"]
    mount(unmounted[1])
    file.write_bytes(whole)
    with segstore.open_dir(unmounted[:2]) as logs:
        assert (logs.offline_directories(), logs.missing_directories()) == ({}, {})
        assert [len([*logs.log("t", number).scan()]) for number in range(2)] == [6, 3]


def test_one_whose_list_was_lost_is_the_same(unmounted):
    """[DUR-124] The error says so, and the call that it names lets topics be changed again."""
    mount(unmounted[1])
    old = id_of(unmounted[1])
    (unmounted[1] / "topics.json").unlink()
    with segstore.open_dir(unmounted[:2]) as logs:
        assert logs.missing_directories() == {old: str(unmounted[1])}
        with pytest.raises(LogDirectoryOfflineError, match=r"lost or moved away, no record is"):
            logs.create_topic("u")
        logs.forget_directory(topic_id_text(old))
        logs.create_topic("u", 2)
        assert [len([*logs.log("t", number).scan()]) for number in range(2)] == [3, 3]


def test_the_command_gives_one_up(unmounted, capsys):
    """[DUR-124] The command that the error names."""
    directory, missing = str(unmounted[0]), id_of(unmounted[1].with_name("disk"))
    assert main(["topics", "create", directory, "u"]) == 1
    assert "segstore topics forget-directory" in capsys.readouterr().err
    assert main(["topics", "forget-directory", directory, topic_id_text(missing)]) == 0
    assert main(["topics", "create", directory, "u"]) == 0


def test_the_command_names_all(unmounted):
    """[DUR-124] With ``--log-dir``, topics of several log directories are changed whole."""
    mount(unmounted[1])
    directory, other = map(str, unmounted[:2])
    assert main(["topics", "delete", directory, "t", "--log-dir", other]) == 0
    with segstore.open_dir(unmounted[:2]) as logs:
        assert logs.topics() == {}
