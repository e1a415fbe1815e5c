"""Truncations and deletions that end between two steps: refused by a full disk, or interrupted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import segstore
from segstore.errors import DiskFullError, LogReadOnlyError
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
from segstore.log.files.prepared_file import PreparedFile
from segstore.log.local.local_log import LocalLog
from tests.kits.log_kit import at
from tests.kits.transactions_kit import ABORT, COMMIT, Producer


def refuse(*_: object, **__: object) -> None:
    raise DiskFullError("no space left on the device")


def after_a_crash(log: segstore.UnifiedLog, tmp_path: Path) -> segstore.UnifiedLog:
    """Open what is on the disk now, with the log directory's checkpoints."""
    copy = shutil.copytree(Path(log.path).parent, tmp_path / "crashed")
    return segstore.open(copy / "t-0")


@pytest.fixture
def ten(tmp_path):
    """Offsets 0 to 9, durable, below a log directory of their own."""
    (tmp_path / "logs").mkdir()
    log = segstore.open(tmp_path / "logs" / "t-0", file_delete_delay_ms=0)
    for _ in range(10):
        log.append([(None, b"v")])
    yield log
    log.close_quietly()


def test_deleted_records_stay_deleted_behind_a_refused_truncation(ten, tmp_path, monkeypatch):
    """[DUR-5, DUR-19] The broker's log start above is the higher one: it is lowered last."""
    ten.delete_records(5)
    ten.close()
    above = tmp_path / "logs" / "log-start-offset-checkpoint"
    above.write_text("0\n1\nt 0 8\n")
    with segstore.open(tmp_path / "logs" / "t-0") as log:
        assert log.log_start_offset == 8
        monkeypatch.setattr(LocalLog, "begin_truncation", refuse)
        with pytest.raises(DiskFullError):
            log.truncate_to(6)
        monkeypatch.undo()
        assert log.log_start_offset == 8
        with after_a_crash(log, tmp_path) as crashed:
            assert crashed.log_start_offset == 8


def test_a_directory_that_a_shell_renamed_keeps_its_log_start(ten, tmp_path, monkeypatch):
    """[DUR-5] What its own checkpoint says under the old name is more than the one above says."""
    ten.delete_records(9)
    ten.close()
    (tmp_path / "logs" / "log-start-offset-checkpoint").write_text("0\n1\nu 0 8\n")
    (tmp_path / "logs" / "t-0").rename(tmp_path / "logs" / "u-0")
    with segstore.open(tmp_path / "logs" / "u-0") as log:
        assert log.log_start_offset == 9
        monkeypatch.setattr(LocalLog, "begin_truncation", refuse)
        with pytest.raises(DiskFullError):
            log.truncate_to(6)
        copy = shutil.copytree(tmp_path / "logs", tmp_path / "crashed")
    with segstore.open(copy / "u-0") as crashed:
        assert crashed.log_start_offset == 9


def test_an_interrupted_full_truncation_takes_no_appends(ten, tmp_path, monkeypatch):
    """[DUR-1, DUR-38] Where the log begins is on the disk already: what came now would be lost."""
    publish = PreparedFile.publish

    def publish_and_be_interrupted(file: PreparedFile) -> None:
        publish(file)
        raise KeyboardInterrupt

    monkeypatch.setattr(PreparedFile, "publish", publish_and_be_interrupted)
    with pytest.raises(KeyboardInterrupt):
        ten.truncate_fully_and_start_at(100)
    monkeypatch.undo()
    with pytest.raises(LogReadOnlyError):
        ten.append([(None, b"v")])
    with after_a_crash(ten, tmp_path) as crashed:
        assert (crashed.log_start_offset, crashed.log_end_offset) == (100, 100)


@pytest.mark.parametrize(
    ("truncate", "offset"), [("truncate_to", 6), ("truncate_fully_and_start_at", 100)]
)
def test_what_is_durable_is_still_shown_behind_a_refusal(ten, monkeypatch, truncate, offset):
    """[DUR-15, DUR-30] Nothing was cut, and all of it had been synced."""
    monkeypatch.setattr(LocalLog, "begin_truncation", refuse)
    with pytest.raises(DiskFullError):
        getattr(ten, truncate)(offset)
    assert ten.durable_offset == 10
    assert len(list(ten.scan(isolation="durable"))) == 10


def test_a_deletion_that_cannot_note_the_epochs_deletes(tmp_path, monkeypatch):
    """[LST-4, DUR-30] Once the log start is durable the files go, at once or at the next call."""
    with segstore.open(tmp_path / "t-0", file_delete_delay_ms=0) as log:
        for number in range(3):
            log.append_as_follower(at(10 * number, 10, epoch=number), number)
            log.roll()
        with monkeypatch.context() as patched:
            patched.setattr(LeaderEpochFileCache, "flush", refuse)
            assert log.delete_records(20) == 20
        assert [segment.base_offset for segment in log.segments()] == [20, 30]
        assert log.delete_records(20) == 20
    with segstore.open(tmp_path / "t-0") as log:
        assert (log.log_start_offset, log.log_end_offset) == (20, 30)


def test_an_index_without_a_checksum_does_not_tell_where_a_log_ends(tmp_path, new_log):
    """[DUR-52] One bit of its last offset, and the salvaged copy ended a million offsets later."""
    path = tmp_path / "topic-0"
    log = new_log(path)
    producer = Producer(log, 1)
    for end in (ABORT, COMMIT):
        producer.write(2)
        producer.end(end)
    log.flush()
    log.close_quietly()
    index = next(path.glob("*.txnindex"))
    data = bytearray(index.read_bytes())
    data[2 + 8 + 8 + 5] ^= 0x10
    index.write_bytes(data)
    assert segstore.salvage(path, tmp_path / "copy-0").log_end_offset == 6
