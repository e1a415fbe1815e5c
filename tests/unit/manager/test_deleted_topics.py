"""Topics and partitions are deleted, and added, whole or not at all."""

from __future__ import annotations

import gc
import logging
import threading
import time
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore._core import wall_clock_ms
from segstore.errors import (
    AlreadyExistsError,
    ClosedError,
    CorruptCheckpointError,
    DiskFullError,
    IllegalArgumentError,
    IllegalStateError,
    InconsistentTopicIdError,
    LogPermissionError,
    LogReadOnlyError,
    NotALogError,
    UnknownTopicOrPartitionError,
)
from segstore.log.files.checkpoints import PARTITION_METADATA, parse_offset_checkpoint
from segstore.log.files.log_directory_checkpoints import CHECKPOINTS
from segstore.log.files.topics_file import TOPICS_FILE, parse_topics
from segstore.manager import current_logs, deleted_partitions
from segstore.manager.current_logs import CurrentLogs
from segstore.manager.maintenance_report import Findings
from segstore.manager.topic_registry import TopicRegistry
from segstore.types import TopicPartition
from tests.kits.open_files import unlinked_files

if TYPE_CHECKING:
    from pathlib import Path

    from segstore.manager.log_manager import LogManager

RECORDS = [(b"k", b"v")] * 5
HOUR_MS = 3600 * 1000


def names(path: Path, ending: str = "") -> list[str]:
    return sorted(one.name for one in path.iterdir() if one.is_dir() and one.name.endswith(ending))


def fill(path: Path, partitions: int = 2) -> None:
    with segstore.open_dir(path) as logs:
        logs.create_topic("t", partitions)
        for number in range(partitions):
            logs.append("t", RECORDS, partition=number)


def failing(error: BaseException):
    def fail(*_, **__):
        raise error

    return fail


# ---- deleting ------------------------------------------------------------------------------------


def test_a_deleted_topic_is_gone_and_its_directories_go_later(tmp_path: Path):
    """[MGR-60, MGR-63, MGR-66] The delay is that of the directory."""
    with segstore.open_dir(tmp_path, file_delete_delay_ms=HOUR_MS) as logs:
        logs.create_topic("t", 2)
        logs.create_topic("u")
        logs.append("t", RECORDS)
        logs.delete_topic("t")
        assert logs.topics() == {"u": [0]}
        assert [*parse_topics((tmp_path / TOPICS_FILE).read_bytes()).topics] == ["u"]
        with pytest.raises(UnknownTopicOrPartitionError):
            logs.log("t", 0)
        with pytest.raises(UnknownTopicOrPartitionError):
            logs.delete_topic("t")
        doomed = names(tmp_path, "-delete")
        assert [name.partition(".")[0] for name in doomed] == ["t-0", "t-1"]

        deleted = logs._directories[0].deleted
        due = max(deleted.waiting.values()) + HOUR_MS
        assert deleted.delete_due(due - HOUR_MS) == []
        assert sorted(deleted.delete_due(due)) == doomed
        assert deleted.next_due_ms is None
        assert names(tmp_path) == ["u-0"]


def test_close_removes_what_the_manager_has_deleted(tmp_path: Path):
    """[MGR-66] No handle of this process is left; the stop is a clean one."""
    fill(tmp_path)
    with segstore.open_dir(tmp_path) as logs:
        log = logs.log("t", 1)
        logs.delete_topic("t")
        assert len(names(tmp_path, "-delete")) == 2
    assert names(tmp_path) == []
    assert log.closed
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert "t " not in (tmp_path / "recovery-point-offset-checkpoint").read_text()


def test_in_kafkas_profile_the_next_open_removes_them(tmp_path: Path):
    """[MGR-21, MGR-52] As a broker does: a close leaves what waits."""
    fill(tmp_path)
    with segstore.open_dir(tmp_path, recovery="kafka", state_dir=tmp_path / "state") as logs:
        logs.log("t", 0)
        logs.delete_topic("t")
    assert len(names(tmp_path, "-delete")) == 2
    with segstore.open_dir(tmp_path, file_delete_delay_ms=0) as logs:
        assert sorted(logs._directories[0].deleted.waiting) == names(tmp_path, "-delete")
    assert names(tmp_path) == ["state"]


@pytest.mark.parametrize(
    "name",
    [
        "archive-do-not-delete",
        "t-0-delete",
        "t-0.backup-delete",
        f"notes.{'0' * 32}-delete",
        f"t-0.{'0' * 31}x-delete",
        f"t-0.{'0' * 32}-stray",
        f"a b-0.{'0' * 32}-delete",
    ],
)
def test_a_directory_of_another_name_is_not_removed(tmp_path: Path, name: str):
    """[DUR-124, MGR-60] It may be anyone's, whatever its name ends in."""
    fill(tmp_path)
    (tmp_path / name).mkdir()
    (tmp_path / name / "file").write_bytes(b"mine")
    with segstore.open_dir(tmp_path, file_delete_delay_ms=0) as logs:
        logs.maintain(2**50)
        logs.delete_topic("t")
    assert (tmp_path / name / "file").read_bytes() == b"mine"


def test_a_handle_of_a_deleted_topic_reads_and_takes_no_changes(tmp_path: Path):
    """[MGR-69, REN-1] Until the directory is removed; after that the log is closed."""
    fill(tmp_path)
    with segstore.open_dir(tmp_path) as logs:
        log = logs.log("t", 0)
        logs.delete_topic("t")
        assert [record.value for record in log.read(0)] == [b"v"] * 5
        with pytest.raises(IllegalStateError, match="the partition was deleted"):
            log.append(RECORDS)
        logs._directories[0].deleted.delete_due(2**62)
        for call in (lambda: log.read(0), lambda: log.append(RECORDS)):
            with pytest.raises(ClosedError, match="the log t-0 was deleted"):
                call()


def test_a_topic_made_again_has_another_id_and_none_of_the_records(tmp_path: Path):
    """[DUR-120, DUR-121] Also while the older directories wait, and with an old log start."""
    fill(tmp_path)
    with segstore.open_dir(tmp_path) as logs:
        old = logs.log("t", 0)
        old.delete_records(3)
        logs.delete_topic("t")
        logs.create_topic("t", 1)
        log = logs.log("t", 0)
        assert log.topic_id != old.topic_id
        assert (log.log_start_offset, log.log_end_offset) == (0, 0)
        log.append(RECORDS)
    with segstore.open_dir(tmp_path) as logs:
        assert logs.topics() == {"t": [0]}
        log = logs.log("t", 0)
        assert (log.log_start_offset, log.log_end_offset) == (0, 5)


def test_topics_without_ids_are_deleted_too(tmp_path: Path):
    """[MGR-63] Made by other programs: they get an id first, by which a deletion finds them."""
    for number in range(2):
        with segstore.open(tmp_path / f"t-{number}") as log:
            log.append(RECORDS)
    (tmp_path / "t-1" / PARTITION_METADATA).write_text("what is that?")
    with segstore.open_dir(tmp_path) as logs:
        logs.delete_topic("t")
        assert logs.topics() == {}
    assert names(tmp_path) == []


def test_partitions_of_several_topics_are_not_deleted_together(tmp_path: Path):
    """[UNI-5] It cannot be said which was meant."""
    fill(tmp_path, 1)
    fill(tmp_path / "other", 2)
    (tmp_path / "other" / "t-1").rename(tmp_path / "t-1")
    with segstore.open_dir(tmp_path) as logs:
        with pytest.raises(InconsistentTopicIdError, match="delete_partition"):
            logs.delete_topic("t")
        assert logs.topics() == {"t": [0, 1]}
        logs.delete_partition("t", 1)
        assert logs.topics() == {"t": [0]}
        logs.delete_topic("t")
        assert logs.topics() == {}


def test_a_stale_file_does_not_keep_a_topic(tmp_path: Path):
    """[UNI-5] A broker that makes a topic again leaves topics.json with the old id."""
    fill(tmp_path, 1)
    fill(tmp_path / "other", 1)
    (tmp_path / "t-0").rename(tmp_path / "old")
    (tmp_path / "other" / "t-0").rename(tmp_path / "t-0")
    with segstore.open_dir(tmp_path) as logs:
        logs.delete_topic("t")
        assert logs.topics() == {}


def test_one_partition_is_deleted(tmp_path: Path):
    """[MGR-63] The others stay, with the settings; keys have no home until it is there again."""
    fill(tmp_path, 3)
    with segstore.open_dir(tmp_path) as logs:
        logs.delete_partition("t", 1)
        assert logs.topics() == {"t": [0, 2]}
        with pytest.raises(UnknownTopicOrPartitionError):
            logs.delete_partition("t", 1)
        with pytest.raises(IllegalStateError, match="only the partitions"):
            logs.append("t", RECORDS)
        with pytest.raises(IllegalStateError):
            logs.alter_topic("t", partitions=5)
        assert logs.log("t", 2).log_end_offset == 5


def test_a_reader_deletes_nothing(tmp_path: Path):
    fill(tmp_path)
    with segstore.open_dir(tmp_path, read_only=True) as logs:
        for call in (lambda: logs.delete_topic("t"), lambda: logs.delete_partition("t", 0)):
            with pytest.raises(LogReadOnlyError):
                call()


def test_a_reader_that_goes_on_gives_deleted_files_back(tmp_path: Path):
    """[DUR-78] The disk has them as long as somebody has them open."""
    with (
        segstore.open_dir(tmp_path, file_delete_delay_ms=0) as logs,
        segstore.open_dir(tmp_path, read_only=True) as reader,
    ):
        for number in range(20):
            logs.create_topic(f"t{number}", 2)
            for partition in range(2):
                logs.append(f"t{number}", RECORDS, partition=partition)
                assert len([*reader.log(f"t{number}", partition)]) == len(RECORDS)
            if number == 10:
                kept = reader.log("t10", 0)
            logs.delete_topic(f"t{number}")
        logs.create_topic("last")
        logs.maintain(wall_clock_ms() + HOUR_MS)
        assert names(tmp_path) == ["last-0"]
        reader.log("last", 0)
        gc.collect()
        left = unlinked_files(tmp_path)
        assert left
        assert [one for one in left if "/t10-0." not in one] == []
        assert len([*kept]) == len(RECORDS)
    assert kept.closed
    assert unlinked_files(tmp_path) == []


def test_a_damaged_file_deletes_nothing(tmp_path: Path):
    """[DUR-7, DUR-128]"""
    fill(tmp_path)
    (tmp_path / TOPICS_FILE).write_bytes(b"?")
    with segstore.open_dir(tmp_path) as logs:
        with pytest.raises(CorruptCheckpointError):
            logs.delete_topic("t")
        assert logs.topics() == {"t": [0, 1]}


@pytest.mark.parametrize("how", ["again", "create", "reopen"])
def test_a_deletion_that_failed_is_finished(tmp_path: Path, monkeypatch, how: str):
    """[DUR-6, MGR-63] The topic is unlisted from the first moment on; its logs are closed."""
    fill(tmp_path, 3)
    with segstore.open_dir(tmp_path) as logs:
        log = logs.log("t", 2)
        real, calls = CurrentLogs.rename_for_deletion, []

        def rename(self, one):
            calls.append(one)
            if len(calls) == 2:
                raise DiskFullError("no room")
            return real(self, one)

        monkeypatch.setattr(CurrentLogs, "rename_for_deletion", rename)
        with pytest.raises(DiskFullError) as caught:
            logs.delete_topic("t")
        assert "is deleted by the next open" in caught.value.__notes__[0]
        assert logs.topics() == {}
        with pytest.raises(UnknownTopicOrPartitionError, match="not finished"):
            logs.log("t", 2)
        assert log.closed
        if how == "again":
            logs.delete_topic("t")
        elif how == "create":
            logs.create_topic("t")
    expected = {"t": [0]} if how == "create" else {}
    with segstore.open_dir(tmp_path) as logs:
        assert logs.topics() == expected
        assert all(logs.log("t", 0).log_end_offset == 0 for _ in expected)
    assert len(names(tmp_path, "-0")) == len(expected)


def test_what_another_program_made_meanwhile_is_kept(tmp_path: Path, monkeypatch):
    """[DUR-6] A deletion was interrupted, and a log of that name was made: it has no such id."""
    fill(tmp_path)
    with segstore.open_dir(tmp_path) as logs:
        monkeypatch.setattr(TopicRegistry, "finish_deletion", failing(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            logs.delete_topic("t")
        monkeypatch.undo()
    (tmp_path / "t-1").rename(tmp_path / "away")
    with segstore.open(tmp_path / "t-1") as log:
        log.append(RECORDS)
    with segstore.open_dir(tmp_path) as logs:
        assert logs.topics() == {"t": [1]}
        assert logs.log("t", 1).log_end_offset == 5


def test_an_interrupt_after_the_file_has_its_name_is_undone(tmp_path: Path, monkeypatch):
    """[MGR-63] Nothing was renamed: the topic stays, and so do its handles."""
    fill(tmp_path)
    with segstore.open_dir(tmp_path) as logs:
        log = logs.log("t", 0)
        real, calls = TopicRegistry._write, []

        def write(self, topics):
            calls.append(topics)
            if len(calls) == 1:
                before = self._file
                real(self, topics)
                self._file, self._is_in_doubt = before, True
                raise KeyboardInterrupt
            real(self, topics)

        monkeypatch.setattr(TopicRegistry, "_write", write)
        with pytest.raises(KeyboardInterrupt) as caught:
            logs.delete_topic("t")
        assert not hasattr(caught.value, "__notes__")
        assert logs.topics() == {"t": [0, 1]}
        log.append(RECORDS)


def test_a_directory_that_cannot_be_removed_keeps_no_other(tmp_path: Path, monkeypatch, caplog):
    """[MGR-67, DUR-131] It is tried again after the delay."""
    fill(tmp_path, 3)
    with segstore.open_dir(tmp_path) as logs:
        logs.delete_topic("t")
        real = deleted_partitions.remove_tree

        def remove(parent, name):
            if name.startswith("t-1"):
                raise LogPermissionError("not yours")
            real(parent, name)

        monkeypatch.setattr(deleted_partitions, "remove_tree", remove)
        with pytest.raises(LogPermissionError):
            logs._directories[0].deleted.delete_due(2**62)
        assert len(names(tmp_path, "-delete")) == 1
        with caplog.at_level(logging.WARNING):
            logs.close()
        assert "is not removed yet" in caplog.text
    monkeypatch.undo()
    with segstore.open_dir(tmp_path) as logs:
        (left,) = logs._directories[0].deleted.waiting
        (tmp_path / left).rename(tmp_path / "away")
        assert logs._directories[0].deleted.delete_due(2**62) == []
        assert logs._directories[0].deleted.waiting == {}


@pytest.mark.parametrize("settings", [{}, {"recovery": "kafka", "replicated": True}])
@pytest.mark.parametrize("what", ["checkpoints", "truncation", "close"])
def test_nothing_brings_lines_of_a_deleted_partition_back(
    tmp_path: Path, monkeypatch, what: str, settings
):
    """[DUR-121] What a job, another thread or a user does before the new name of the directory."""
    logs = segstore.open_dir(tmp_path, **settings)
    logs.create_topic("t", 2)
    for number in range(2):
        log = logs.log("t", number)
        log.append(RECORDS)
        if settings:
            log.update_high_watermark(5)
        log.delete_records(2)
        log.flush()
    run_jobs(logs)
    assert lines_of(tmp_path) == {TopicPartition("t", 0), TopicPartition("t", 1)}
    real = CurrentLogs.rename_for_deletion

    def rename(current: CurrentLogs, topic_partition: TopicPartition) -> str:
        log = current.by_name[f"t-{topic_partition.partition}"]
        log.append(RECORDS)
        log.flush()
        if what == "truncation":
            log.truncate_to(4)
        if what == "close":
            log.close()
        run_jobs(logs)
        return real(current, topic_partition)

    monkeypatch.setattr(CurrentLogs, "rename_for_deletion", rename)
    logs.delete_topic("t")
    assert lines_of(tmp_path) == set()
    run_jobs(logs)
    logs.close()
    assert lines_of(tmp_path) == set()


def test_a_partition_that_was_not_deleted_has_its_lines(tmp_path: Path, monkeypatch):
    """[DUR-121] The deletion failed when its lines were gone."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("t")
        logs.append("t", RECORDS)
        with monkeypatch.context() as patched:
            error = LogPermissionError("it is not permitted")
            patched.setattr(CurrentLogs, "rename_for_deletion", failing(error))
            with pytest.raises(LogPermissionError):
                logs.delete_partition("t", 0)
        logs.append("t", RECORDS)
        logs.log("t", 0).flush()
        run_jobs(logs)
        assert lines_of(tmp_path) == {TopicPartition("t", 0)}


@pytest.mark.parametrize("error", [None, NotALogError("the directory holds no .log file")])
def test_a_reader_that_comes_during_a_removal_finds_no_partition(
    tmp_path: Path, monkeypatch, error: segstore.SegstoreError | None
):
    """[DUR-132] It had opened the directory, whose files then went: no log with a fault."""
    fill(tmp_path)
    real = current_logs.open_partition

    def remove_first(path: str, *given: object) -> object:
        monkeypatch.undo()
        with segstore.open_dir(tmp_path) as logs:
            logs.delete_topic("t")
        if error is not None:
            raise error
        return real(path, *given)

    with segstore.open_dir(tmp_path, read_only=True) as reader:
        monkeypatch.setattr(current_logs, "open_partition", remove_first)
        with pytest.raises(UnknownTopicOrPartitionError, match="no partition t-0 here"):
            reader.log("t", 0)
    (tmp_path / "u-0").mkdir()
    (tmp_path / "u-0" / "notes.txt").touch()
    with segstore.open_dir(tmp_path, read_only=True) as reader, pytest.raises(NotALogError):
        reader.log("u", 0)


def run_jobs(logs: LogManager) -> None:
    """In a thread, as with ``background=True``: the caller has the manager's mutex."""
    maintenance = logs._directories[0].maintenance
    jobs = [one for one in maintenance._jobs if one.name in {"recovery points", "log starts"}]
    for job in jobs:
        job.next_ms = 0
    findings = Findings()
    for job in jobs:
        thread = threading.Thread(target=maintenance._run_job, args=(job, None, findings))
        thread.start()
        thread.join(60)
    assert findings.failed == []


def lines_of(path: Path) -> set[TopicPartition]:
    found: set[TopicPartition] = set()
    for name in CHECKPOINTS:
        file = path / name
        if file.exists() and (data := file.read_bytes()):
            found |= {*parse_offset_checkpoint(data)}
    return found


# ---- adding --------------------------------------------------------------------------------------


def test_partitions_are_added(tmp_path: Path):
    """[MGR-75] With the id and the settings of the topic."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("t", 2)
        described = logs.alter_topic("t", {"retention.ms": 5}, partitions=4)
        assert described.partitions == (0, 1, 2, 3)
        assert logs.log("t", 3).config.retention_ms == 5
        assert len({logs.log("t", number).topic_id for number in range(4)}) == 1
        assert set(logs.append("t", [(b"%d" % n, b"v") for n in range(99)])) == {0, 1, 2, 3}
        logs.alter_topic("t", partitions=4)
        with pytest.raises(IllegalArgumentError, match="cannot have fewer"):
            logs.alter_topic("t", partitions=3)
        with pytest.raises(AlreadyExistsError):
            logs.create_topic("t", 9)
    with segstore.open_dir(tmp_path) as logs:
        assert logs.topics() == {"t": [0, 1, 2, 3]}


def test_adding_that_fails_leaves_the_topic_as_it_was(tmp_path: Path, monkeypatch):
    """[DUR-11] Settings too, and no directory is left."""
    fill(tmp_path)
    with segstore.open_dir(tmp_path) as logs:
        real = CurrentLogs._open

        def open_one(self, one, *given):
            if one.partition == 4:
                raise DiskFullError("no room")
            return real(self, one, *given)

        monkeypatch.setattr(CurrentLogs, "_open", open_one)
        with pytest.raises(DiskFullError):
            logs.alter_topic("t", {"retention.ms": 5}, partitions=6)
        assert logs.topics() == {"t": [0, 1]}
        assert names(tmp_path) == ["t-0", "t-1"]
        assert logs.log("t", 0).config.retention_ms is None
        monkeypatch.undo()
        logs.alter_topic("t", partitions=6)


@pytest.mark.parametrize("used", [False, True])
def test_adding_that_was_killed(tmp_path: Path, monkeypatch, used):
    """[DUR-6, DUR-11] The new partitions are not listed, and go; with records they stay."""
    fill(tmp_path)
    with segstore.open_dir(tmp_path) as logs:
        monkeypatch.setattr(TopicRegistry, "undo", failing(DiskFullError("killed here")))
        real = CurrentLogs._open

        def open_one(self, one, *given):
            if one.partition == 3:
                raise DiskFullError("no room")
            return real(self, one, *given)

        monkeypatch.setattr(CurrentLogs, "_open", open_one)
        with pytest.raises(DiskFullError):
            logs.alter_topic("t", partitions=4)
        monkeypatch.undo()
        assert logs.topics() == {"t": [0, 1]}
        with pytest.raises(UnknownTopicOrPartitionError, match="not finished"):
            logs.log("t", 3)
        assert logs.append("t", RECORDS, partition=0)
    with segstore.open_dir(tmp_path, read_only=True) as logs:
        assert logs.partitions() == [("t", 0), ("t", 1)]
    if used:
        with segstore.open(tmp_path / "t-2") as log:
            log.append(RECORDS)
    with segstore.open_dir(tmp_path) as logs:
        assert logs.topics() == {"t": [0, 1, 2, 3] if used else [0, 1]}
        assert logs.log("t", 0).log_end_offset == 10


def test_a_pass_of_maintenance_removes_what_is_due(tmp_path):
    """[MGR-66, MGR-67] The delay is over by the time of the pass; before it, nothing goes."""
    with segstore.open_dir(tmp_path, file_delete_delay_ms=600_000) as manager:
        manager.create_topic("clicks", 2)
        manager.delete_topic("clicks")
        now = time.time_ns() // 1_000_000

        assert manager.maintain(now + 300_000).removed == ()
        removed = manager.maintain(now + 700_000).removed

        assert len(removed) == 2
        assert all(name.endswith("-delete") for name in removed)
        assert not [one for one in tmp_path.iterdir() if one.name.endswith("-delete")]
