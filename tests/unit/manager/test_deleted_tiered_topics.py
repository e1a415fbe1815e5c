"""When the remote part of a partition goes with it: nothing goes on ignorance."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

import segstore
from segstore.errors import (
    IllegalStateError,
    InconsistentTopicIdError,
    RemoteStorageError,
    RetriableRemoteStorageError,
    UnknownTopicOrPartitionError,
)
from segstore.manager.metadata_writing import write_metadata_log
from segstore.manager.tiered_topics import TieredTopics
from segstore.manager.topic_changes import TopicChanges
from segstore.manager.topic_registry import TopicRegistry
from segstore.remote.log_manager.remote_log_task import RemoteLogParts
from segstore.remote.metadata.remote_log_metadata_serde import parse_event
from segstore.remote.metadata.segment_metadata import RemotePartitionDeleteMetadata
from segstore.remote.storage.tiered_storage import TieredStorage
from segstore.remote.storage.writable_folder import WritableFolder

METADATA = "__remote_log_metadata"
TIERED = {"remote.storage.enable": "true", "local.retention.bytes": "0"}
DISABLED = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}


def opened(tmp_path: Path, **options):
    return segstore.open_dir(tmp_path / "data", remote=tmp_path / "tier", **options)


def fill(logs, partition: int = 0, count: int = 4) -> None:
    log = logs.log("orders", partition)
    for _ in range(count):
        logs.append("orders", [(None, b"v%d" % log.log_end_offset)], partition=partition)
        log.roll()


def copied(tmp_path: Path, partitions: int = 1) -> None:
    """Make a topic; what is sealed of it is remote alone."""
    with opened(tmp_path) as logs:
        logs.create_topic("orders", partitions, config=TIERED)
        for partition in range(partitions):
            fill(logs, partition)
        assert logs.maintain().failed == ()


def remote_logs(tmp_path: Path) -> int:
    return len([*(tmp_path / "tier").rglob("*.log")])


def remote_files(tmp_path: Path) -> int:
    return sum(path.is_file() for path in (tmp_path / "tier").rglob("*"))


def deletions(tmp_path: Path) -> list[RemotePartitionDeleteMetadata]:
    with segstore.open_dir(tmp_path / "data", read_only=True) as logs:
        events = [parse_event(record.value) for record in logs.log(METADATA, 0)]
    return [one for one in events if isinstance(one, RemotePartitionDeleteMetadata)]


class Killed(BaseException):
    """The process is killed here."""


def mark(tmp_path: Path, monkeypatch, error: type[BaseException] = Killed) -> None:
    """Begin a deletion that ends after its mark: the topic lives."""

    def away(*_):
        raise error("the disk is away")

    with monkeypatch.context() as patch, opened(tmp_path) as logs:
        patch.setattr(TopicChanges, "delete", away)
        with pytest.raises(error, match="away"):
            logs.delete_topic("orders")
    assert len(deletions(tmp_path)) == 1


def moved_away(tmp_path: Path) -> list[bytes]:
    """Move the directory away for one open; return the records as they are read afterwards."""
    here, there = tmp_path / "data" / "orders-0", tmp_path / "away"
    here.rename(there)
    with opened(tmp_path) as logs:
        assert logs.maintain().expired == ()
    there.rename(here)
    with opened(tmp_path) as logs:
        return [one.value for one in logs.log("orders", 0).scan(0)]


@pytest.mark.parametrize("error", [OSError, Killed])
def test_the_mark_goes_of_a_deletion_that_did_not_take_place(tmp_path: Path, monkeypatch, error):
    """[TIER-90, DUR-140] At once, or by the next pass: it took the copies with the directory."""
    copied(tmp_path)
    mark(tmp_path, monkeypatch, error)
    if error is Killed:
        with opened(tmp_path) as logs:
            assert logs.maintain().failed == ()
    assert moved_away(tmp_path) == [b"v%d" % n for n in range(4)]
    assert remote_logs(tmp_path) == 4
    with opened(tmp_path) as logs:  # it is withdrawn once
        end = logs.log(METADATA, 0).log_end_offset
        assert logs.maintain().failed == ()
        assert logs.log(METADATA, 0).log_end_offset == end


def test_a_topic_is_deleted_after_a_deletion_that_failed(tmp_path: Path, monkeypatch):
    """[TIER-24, TIER-90] It is marked again; a crash comes before its copies are deleted."""
    copied(tmp_path)
    with opened(tmp_path) as logs:
        with monkeypatch.context() as patch:
            patch.setattr(TopicChanges, "delete", lambda *_: (_ for _ in ()).throw(OSError("away")))
            with pytest.raises(OSError, match="away"):
                logs.delete_topic("orders")
        with monkeypatch.context() as patch:
            patch.setattr(TieredTopics, "finish_deletions", lambda *_: None)
            logs.delete_topic("orders")
    assert [one.state for one in deletions(tmp_path)] == [0, 0, 1]
    with opened(tmp_path) as logs:
        assert len(logs.maintain().expired) == 1
    assert remote_logs(tmp_path) == 0


def test_the_mark_stays_of_a_deletion_that_goes_on(tmp_path: Path, monkeypatch):
    """[TIER-90, DUR-121] It failed after ``topics.json`` said so: the next open goes on with it."""
    copied(tmp_path)
    with monkeypatch.context() as patch, opened(tmp_path) as logs:
        patch.setattr(
            TopicRegistry, "finish_deletion", lambda *_: (_ for _ in ()).throw(OSError("away"))
        )
        with pytest.raises(OSError, match="away"):
            logs.delete_topic("orders")
        assert logs.maintain().failed == ()
    with opened(tmp_path) as logs:
        assert len(logs.maintain().expired) == 1
    assert remote_logs(tmp_path) == 0


def test_a_pass_beside_a_deletion_does_not_withdraw_its_mark(tmp_path: Path, monkeypatch):
    """[TIER-90] The topic is listed until the deletion says otherwise."""
    copied(tmp_path)
    delete = TopicChanges.delete

    with opened(tmp_path) as logs:

        def beside(*arguments):
            logs._tiered.withdraw_marks(logs.partitions())
            delete(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(TopicChanges, "delete", beside)
            patch.setattr(TieredTopics, "finish_deletions", lambda *_: None)
            logs.delete_topic("orders")
    with opened(tmp_path) as logs:
        assert len(logs.maintain().expired) == 1
    assert remote_logs(tmp_path) == 0


def test_a_deletion_that_the_cluster_refuses_is_not_marked(tmp_path: Path):
    """[TIER-90] What can refuse is asked before the mark."""
    copied(tmp_path)
    write_metadata_log(tmp_path / "data", node_id=1)
    with opened(tmp_path) as logs, pytest.raises(IllegalStateError, match="belongs to the cluster"):
        logs.delete_topic("orders")
    with (
        opened(tmp_path) as logs,
        pytest.raises(IllegalStateError, match="belongs to the cluster"),
    ):
        logs.delete_partition("orders", 0)
    assert deletions(tmp_path) == []


def test_a_deletion_of_partitions_of_two_topics_is_not_marked(tmp_path: Path):
    """[TIER-90] Partitions with two topic ids: nothing is deleted, and nothing is marked."""
    copied(tmp_path, 2)
    file = tmp_path / "data" / "orders-1" / "partition.metadata"
    file.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAQg")
    with opened(tmp_path) as logs, pytest.raises(InconsistentTopicIdError):
        logs.delete_topic("orders")
    assert deletions(tmp_path) == []


@pytest.mark.parametrize("damage", ["empty", "missing", "topics.json", "stray"])
def test_nothing_remote_is_deleted_on_ignorance(tmp_path: Path, monkeypatch, damage):
    """[TIER-90, DUR-128] A mark counts only where it is known that the partition is gone."""
    copied(tmp_path)
    mark(tmp_path, monkeypatch)
    data = tmp_path / "data"
    if damage == "stray":
        with opened(tmp_path) as logs:
            logs.set_aside_partition("orders", 0)
    else:
        file = data / ("topics.json" if damage == "topics.json" else "orders-0/partition.metadata")
        before = file.read_bytes()
        file.unlink() if damage == "missing" else file.write_bytes(b"")
        if damage == "topics.json":
            (data / "orders-0").rename(tmp_path / "away")
    with opened(tmp_path) as logs:
        assert logs.maintain().expired == ()
        if damage in {"empty", "missing"}:
            with pytest.raises(IllegalStateError, match="topic id"):
                logs.delete_topic("orders")
    assert remote_logs(tmp_path) == 4
    if damage in {"empty", "missing"}:
        file.write_bytes(before)
        with opened(tmp_path) as logs:
            assert [one.value for one in logs.log("orders", 0).scan(0)] == [
                b"v%d" % n for n in range(4)
            ]
            logs.delete_topic("orders")
        assert remote_logs(tmp_path) == 0


def test_what_is_moved_away_after_the_mark_is_not_deleted_there(tmp_path: Path, monkeypatch):
    """[TIER-90, DUR-140] A crash ended the deletion, and no file says that it took place."""
    copied(tmp_path)
    mark(tmp_path, monkeypatch)
    here, there = tmp_path / "data" / "orders-0", tmp_path / "away"
    here.rename(there)
    for _ in range(2):
        with opened(tmp_path) as logs:
            (failed,) = logs.maintain().failed
            assert failed.topic_partition == ("orders", 0)
            assert "was moved away" in str(failed.error)
            with pytest.raises(UnknownTopicOrPartitionError):
                logs.delete_topic("orders")
        assert remote_logs(tmp_path) == 4
    there.rename(here)
    with opened(tmp_path) as logs:
        assert logs.maintain().failed == ()
    assert moved_away(tmp_path) == [b"v%d" % n for n in range(4)]


def test_what_is_moved_away_after_the_mark_is_deleted_where_its_user_says_so(tmp_path, monkeypatch):
    """[TIER-90] A directory of the name that the error says is enough."""
    copied(tmp_path)
    mark(tmp_path, monkeypatch)
    (tmp_path / "data" / "orders-0").rename(tmp_path / "away")
    with opened(tmp_path) as logs:
        (failed,) = logs.maintain().failed
        Path(failed.error.file).mkdir()
        report = logs.maintain(time.time_ns() // 1_000_000 + 60_000)
        assert (report.failed, len(report.expired)) == ((), 1)
    assert remote_logs(tmp_path) == 0


@pytest.mark.parametrize("how", ["delete_topic", "delete_partition"])
def test_a_deletion_goes_on_after_a_crash_behind_the_directories(tmp_path, monkeypatch, how):
    """[TIER-90, DUR-121] The topic is in ``topics.json`` no more, or the directory waits for it."""
    copied(tmp_path, 2)
    with opened(tmp_path) as logs:
        with monkeypatch.context() as patch:
            patch.setattr(
                TieredTopics, "finish_deletions", lambda *_: (_ for _ in ()).throw(Killed)
            )
            with pytest.raises(Killed):
                logs.delete_topic("orders") if how == "delete_topic" else logs.delete_partition(
                    "orders", 1
                )
        killed = tmp_path / "killed"
        shutil.copytree(tmp_path / "data", killed / "data")
        (tmp_path / "tier").rename(killed / "tier")
    with opened(killed) as logs:
        report = logs.maintain()
        assert (report.failed, len(report.expired)) == ((), 2 if how == "delete_topic" else 1)
    assert remote_logs(killed) == (0 if how == "delete_topic" else 4)


def test_a_partition_that_is_made_again_is_copied_after_its_deletion(tmp_path, monkeypatch):
    """[TIER-90, DUR-142] While the old remote part is being deleted, no new one is begun."""
    copied(tmp_path, 2)

    def away(*_):
        raise RemoteStorageError("the store is away")

    with opened(tmp_path) as logs:
        with monkeypatch.context() as patch:
            patch.setattr(TieredStorage, "delete_log_segment_data", away)
            with pytest.raises(RemoteStorageError, match="away"):
                logs.delete_partition("orders", 1)
            logs.alter_topic("orders", partitions=2)
            fill(logs, 1, count=2)
            report = logs.maintain()
            assert report.copied == report.deleted == ()
            assert len(report.failed) == 1
        assert logs.maintain(time.time_ns() // 1_000_000 + 60_000).failed == ()
        assert remote_logs(tmp_path) == 6
    with opened(tmp_path) as logs:
        assert [one.value for one in logs.log("orders", 1).scan(0)] == [b"v0", b"v1"]


def test_what_is_noted_is_not_read_for_a_topic_that_is_not_tiered(tmp_path: Path):
    """[DUR-131] A record that is no event keeps no other topic from its deletion."""
    copied(tmp_path)
    with segstore.open_dir(tmp_path / "data") as logs:
        logs.create_topic("plain")
        logs.log(METADATA, 0).append([(None, b"no event")])
    with opened(tmp_path) as logs:
        logs.delete_topic("plain")
        assert logs.topics() == {"orders": [0]}


def failing_last(
    monkeypatch: pytest.MonkeyPatch, step: str, error: type[BaseException], count: int
) -> None:
    """Let the last step of a deletion of *count* copies fail; each has two deletions, two notes."""
    owner = WritableFolder if step == "delete" else RemoteLogParts
    method, calls = getattr(owner, step), []

    def call(self, *arguments):
        calls.append(arguments)
        is_last = len(calls) == 2 * count
        if step == "delete" or not is_last:
            method(self, *arguments)
        if is_last:
            raise error(step)

    monkeypatch.setattr(owner, step, call)


def end_remote_part(logs, how: str) -> None:
    if how == "delete_topic":
        logs.delete_topic("orders")
    else:
        logs.alter_topic("orders", DISABLED)


@pytest.mark.parametrize("how", ["delete_topic", "disable"])
@pytest.mark.parametrize(("profile", "count"), [("safe", 1), ("safe", 3), ("kafka", 3)])
@pytest.mark.parametrize(
    "last_step",
    [
        ("delete", RetriableRemoteStorageError),  # the answer is lost
        ("delete", Killed),
        ("publish", OSError),  # the disk is full
    ],
)
def test_a_deletion_whose_last_step_failed_ends(  # noqa: PLR0913 - what may be otherwise
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    profile: str,
    count: int,
    last_step: tuple,
):
    """[TIER-90, DUR-142] The objects of the newest copy are gone, and its end is not noted."""
    with opened(tmp_path, recovery=profile) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs, count=count)
        log = logs.log("orders", 0)
        log.update_high_watermark(log.log_end_offset) if profile == "kafka" else None
        assert logs.maintain().failed == ()
    step, error = last_step
    is_killed = error is Killed
    with opened(tmp_path, recovery=profile) as logs:
        with monkeypatch.context() as patch:
            failing_last(patch, step, error, count)
            with pytest.raises(error, match=step):
                end_remote_part(logs, how)
        assert remote_files(tmp_path) == 0
        if not is_killed:
            report = logs.maintain(time.time_ns() // 1_000_000 + 60_000)
            assert (report.failed, len(report.expired)) == ((), 1)
    with opened(tmp_path, recovery=profile) as logs:
        report = logs.maintain()
        assert (report.failed, len(report.expired)) == ((), int(is_killed))
        if how == "disable":
            logs.delete_topic("orders")
        assert logs.topics() == {}
