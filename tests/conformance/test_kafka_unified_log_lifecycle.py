"""Kafka's UnifiedLogTest: topic ids, settings, flushes, close, rename and delete."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

import segstore
from segstore.errors import (
    ClosedError,
    IllegalStateError,
    InconsistentTopicIdError,
    LogNotFoundError,
)
from segstore.log.files.checkpoints import read_topic_id
from tests.kits.log_kit import at, bases, batch, offsets
from tests.kits.unified_log_kit import write_plain

PROFILES = ["safe", "kafka"]
ID = uuid.UUID("57fb1eca-20c2-4bbf-8232-5d5613e3b069")
RENAMED = "topic-0.0123456789abcdef0123456789abcdef-delete"
MOVED = "moved-5"


@pytest.fixture(params=PROFILES)
def open_log(new_log, request):
    """Open a log of either profile."""

    def open_one(path: Path | None = None, **settings: object):
        return new_log(path, recovery=request.param, **settings)

    return open_one


def topic_id_file(log) -> Path:
    return Path(log.path) / "partition.metadata"


# ---- topic id ------------------------------------------------------------------------------------


def test_topic_id_is_flushed_by_the_next_append(open_log, scheduler):
    """[CKP-26, APP-3, UNI-5, UNI-8] UnifiedLogTest.testLogFlushesPartitionMetadataOnAppend."""
    log = open_log()
    log.assign_topic_id(ID)
    assert not topic_id_file(log).exists()
    assert len(scheduler.tasks) > 0
    write_plain(log)
    assert read_topic_id(log._directory) == ID


def test_topic_id_is_flushed_soon_by_itself(open_log, scheduler):
    """[CKP-26, UNI-5, UNI-8] the task is there once."""
    log = open_log()
    log.assign_topic_id(ID)
    scheduler.sleep(0)
    assert read_topic_id(log._directory) == ID
    before = topic_id_file(log).stat().st_mtime_ns
    write_plain(log)
    assert topic_id_file(log).stat().st_mtime_ns == before


@pytest.mark.usefixtures("scheduler")
def test_topic_id_is_flushed_by_close(open_log):
    """[CKP-26, CLO-1, UNI-5] UnifiedLogTest.testLogFlushesPartitionMetadataOnClose."""
    log = open_log()
    log.assign_topic_id(ID)
    log.close()
    assert topic_id_file(log).exists()
    assert open_log(topic_id=ID).topic_id == ID


def test_log_recovers_topic_id(open_log):
    """[UNI-5] UnifiedLogTest.testLogRecoversTopicId."""
    log = open_log()
    log.assign_topic_id(ID)
    log.close()
    assert open_log().topic_id == ID


def test_another_topic_id_is_refused(open_log):
    """[UNI-5, UNI-8, DIFF-17] by an open and by an assignment; the same one is nothing new."""
    log = open_log(topic_id=ID)
    log.assign_topic_id(ID)
    with pytest.raises(InconsistentTopicIdError):
        log.assign_topic_id(uuid.uuid4())
    log.close()
    with pytest.raises(InconsistentTopicIdError):
        open_log(topic_id=uuid.uuid4())
    assert topic_id_file(log).read_text() == "version: 0\ntopic_id: V_seyiDCS7-CMl1WE-OwaQ"


# ---- rename --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("scheduler")
def test_epochs_move_with_the_directory(open_log, tmp_path):
    """[REN-1] UnifiedLogTest.testWriteLeaderEpochCheckpointAfterDirectoryRename."""
    log = open_log(internal_segment_bytes=1000)
    log.append_as_leader(batch([(None, b"hello")]), 5)
    assert log.latest_epoch == 5
    assert log.rename_dir(MOVED)
    log.append_as_leader(batch([(None, b"hello")]), 10)
    assert log.latest_epoch == 10
    assert (tmp_path / MOVED / "leader-epoch-checkpoint").read_text() == "0\n2\n5 0\n10 1\n"
    assert not (tmp_path / "topic-0").exists()


@pytest.mark.usefixtures("scheduler")
def test_topic_id_moves_with_the_directory(open_log, tmp_path):
    """[REN-1] UnifiedLogTest.testTopicIdTransfersAfterDirectoryRename."""
    log = open_log()
    log.assign_topic_id(ID)
    write_plain(log)
    log.rename_dir(MOVED)
    write_plain(log)
    assert log.topic_id == read_topic_id(log._directory) == ID
    assert topic_id_file(log) == tmp_path / MOVED / "partition.metadata"


@pytest.mark.usefixtures("scheduler")
def test_topic_id_is_flushed_before_a_rename(open_log, tmp_path):
    """[CKP-26, REN-1, UNI-5] UnifiedLogTest.testTopicIdFlushesBeforeDirectoryRename."""
    log = open_log()
    log.assign_topic_id(ID)
    log.rename_dir(MOVED)
    assert (tmp_path / MOVED / "partition.metadata").exists()
    assert read_topic_id(log._directory) == ID


def test_rename_for_deletion(open_log, tmp_path):
    """[REN-1, DIFF-24, DEL-1] UnifiedLogTest.testRenamingDirWithoutReinitialization: the port.

    Kafka's append takes the directory offline there; ours is refused, and the log goes on to be
    read and deleted.
    """
    log = open_log()
    log.append_as_leader(batch([(None, b"v")]), 3)
    assert log.rename_dir(RENAMED, reinitialize=False)
    assert log.latest_epoch is None
    for change in (lambda: write_plain(log), log.roll, lambda: log.truncate_to(0)):
        with pytest.raises(IllegalStateError):
            change()
    assert (log.log_end_offset, offsets(log.scan())) == (1, [0])
    log.delete()
    assert list(tmp_path.glob("topic-0*")) == []


def test_a_rename_to_the_same_name_is_none(open_log):
    """[REN-1, LOC-23]"""
    log = open_log()
    write_plain(log)
    assert not log.rename_dir("topic-0", reinitialize=False)
    write_plain(log)
    assert log.log_end_offset == 2


def test_readers_go_on_over_a_rename(open_log):
    """[LOC-23] descriptors and mappings stay, and everything speaks of the new name."""
    log = open_log(internal_segment_bytes=150)
    for _ in range(6):
        write_plain(log)
    found = log.slice(2, 10_000)
    log.rename_dir(MOVED)
    assert offsets(found.read())[0] == 2
    for _ in range(6):
        write_plain(log)
    assert offsets(log.scan()) == list(range(12))
    log.close()
    assert offsets(open_log(Path(log.path)).scan()) == list(range(12))


# ---- close, delete -------------------------------------------------------------------------------


def test_log_deletion_after_close(open_log, tmp_path):
    """[DEL-1, CLO-2, DIFF-25] UnifiedLogTest.testLogDeletionAfterClose."""
    log = open_log()
    log.append_as_leader(batch([(b"test", b"test")]), 0)
    assert (len(bases(log)), len(log._epochs.entries)) == (1, 1)
    log.close()
    log.delete()
    assert not (tmp_path / "topic-0").exists()
    with pytest.raises(LogNotFoundError):
        segstore.open(tmp_path / "topic-0", read_only=True)


def test_a_delete_takes_everything(open_log, tmp_path):
    """[DEL-1] snapshots, checkpoints, files awaiting deletion, and what is not the log's."""
    log = open_log(internal_segment_bytes=150)
    for _ in range(6):
        write_plain(log)
    log.truncate_to(3)
    (Path(log.path) / "of-others").mkdir()
    (Path(log.path) / "of-others" / "file").write_bytes(b"x")
    log.delete()
    assert not (tmp_path / "topic-0").exists()
    assert log.closed


@pytest.mark.parametrize("how", ["close", "close_quietly"])
def test_use_after_close(open_log, how):
    """[CLO-2, CLO-3, DIFF-25, LOC-22, T-26] refused by what the log knows, whatever the call."""
    log = open_log()
    write_plain(log)
    getattr(log, how)()
    for call in (
        lambda: log.append([(None, b"v")]),
        lambda: write_plain(log),
        lambda: log.append_as_follower(at(1), 0),
        log.roll,
        log.flush,
        lambda: log.truncate_to(0),
        lambda: log.update_high_watermark(1),
        lambda: log.maybe_increment_log_start_offset(1),
        lambda: log.read(0, 10),
    ):
        with pytest.raises(ClosedError):
            call()
    getattr(log, how)()  # Kafka's newest version throws; here twice is harmless
    log.delete()


def test_close_leaves_a_snapshot_and_no_open_files(open_log):
    """[CLO-1, PSM-51, T-19] one at the log end, kept by the next open."""
    log = open_log()
    for _ in range(2):
        write_plain(log)
        log.roll()
    write_plain(log)
    write_plain(log)
    log.close()
    path = Path(log.path)
    assert sorted(int(file.stem) for file in path.glob("*.snapshot")) == [1, 2, 4]
    (path / f"{3:020}.snapshot").write_bytes((path / f"{4:020}.snapshot").read_bytes())
    again = open_log()
    assert sorted(int(file.stem) for file in path.glob("*.snapshot")) in ([1, 2, 4], [2, 4])
    assert again.log_end_offset == 4


# ---- settings ------------------------------------------------------------------------------------


def test_settings_act_at_the_next_decision(open_log):
    """[UNI-7, LOC-1] the old ones are returned."""
    log = open_log(internal_segment_bytes=10_000)
    for _ in range(3):
        write_plain(log)
    size = log.segments()[0].size_bytes // 3
    old = log.config
    assert log.update_config(old.with_changes(internal_segment_bytes=3 * size)) == old
    assert bases(log) == [0]
    for _ in range(4):
        write_plain(log)
    assert bases(log) == [0, 3, 6]
    assert log.config.internal_segment_bytes == 3 * size


# ---- flush, roll ---------------------------------------------------------------------------------


def test_flushes_move_the_recovery_point(open_log):
    """[FLU-1, FLU-2, FLU-4, LOC-16, LOC-17, LOC-18] what is behind it is not flushed."""
    log = open_log()
    for _ in range(4):
        write_plain(log)
    assert log.log_end_offset - log.recovery_point == 4
    log.flush()
    assert log.log_end_offset - log.recovery_point == 0
    write_plain(log)
    log.flush_up_to_offset_exclusive(3)
    assert log.recovery_point >= 3
    log.truncate_to(2)
    assert log.recovery_point <= 2


def test_a_flush_of_an_empty_active_segment(open_log):
    """[FLU-3]"""
    log = open_log()
    write_plain(log)
    log.roll()
    log.flush(force_active_segment=True)
    assert log.recovery_point == 1
    assert (Path(log.path) / f"{1:020}.log").exists()
    assert (Path(log.path) / f"{1:020}.index").exists()


def test_a_roll_flushes_what_it_sealed(open_log, scheduler):
    """[MGR-43, ROL-1, ROL-2] behind it, outside the lock; the recovery point is the new base."""
    log = open_log(durability="messages=1000")
    for _ in range(3):
        write_plain(log)
    log.roll()
    assert log.recovery_point == 0
    scheduler.sleep(0)
    assert log.recovery_point == 3
    assert log.durable_offset == 3


def test_a_snapshot_that_cannot_be_synced_ends_the_flush(new_log, scheduler):
    """[ROL-2] Kafka's task does it first; the recovery point does not move."""
    log = new_log(recovery="kafka")
    write_plain(log)
    log.roll()
    snapshot = Path(log.path) / f"{1:020}.snapshot"
    snapshot.unlink()
    snapshot.mkdir()
    scheduler.sleep(0)
    assert log.recovery_point == 0
    snapshot.rmdir()
    write_plain(log)
    log.roll()
    scheduler.sleep(0)
    assert log.recovery_point == 2


def test_a_roll_is_above_or_at_the_log_end(open_log):
    """[LOC-11, ROL-1] and an empty active segment goes on."""
    log = open_log()
    write_plain(log)
    assert log.roll(0).base_offset == 1
    assert bases(log) == [0, 1]
    assert log.roll().base_offset == 1
    assert bases(log) == [0, 1]
    assert log.log_end_offset == 1
