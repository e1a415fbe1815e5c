"""What a strict reader of the engine's wiring found: each lost, hid or brought back something."""

from __future__ import annotations

import os

import pytest

import segstore
from segstore import _core
from segstore.errors import (
    FsyncFailedError,
    IllegalStateError,
    LogReadOnlyError,
    LogTruncatedError,
)
from segstore.log import log_opener
from segstore.log.local.local_log import LocalLog
from segstore.log.local.transaction_index import TransactionIndex
from segstore.types import AppendOrigin
from tests.kits.log_kit import batch, offsets

ONE = [(None, b"x")]


def begin(log, producer_id: int, sequence: int = 0) -> None:
    """Append one record of a transaction."""
    log.append_as_leader(
        batch(
            [(None, b"t")],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
            timestamp=_core.wall_clock_ms(),
        )
    )


def end(log, producer_id: int, *, commit: bool) -> None:
    marker = _core.encode_end_transaction_marker(
        0, _core.wall_clock_ms(), 0, producer_id, 0, commit=commit, coordinator_epoch=0
    )
    log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=1)


def committed(log) -> list[int]:
    return offsets(log.scan(isolation="read_committed"))


def test_an_open_that_dies_before_the_transaction_indexes_are_made(tmp_path, monkeypatch):
    """[DUR-52, DUR-56] The recovery point moved first, and the aborted records came back."""
    path = tmp_path / "t-0"
    log = segstore.open(path, durability="none")
    begin(log, 1)
    end(log, 1, commit=False)
    log.roll()
    log.append(ONE)
    assert log._background.wait_until_idle()
    log.close_quietly()
    (path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)

    def dies(*_arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(log_opener, "recover_producers", dies)
        with pytest.raises(KeyboardInterrupt):
            segstore.open(path)
    for index in path.glob("*.txnindex"):
        index.unlink()
    with segstore.open(path) as log:
        assert committed(log) == [2]


def test_a_renamed_log_keeps_its_log_start(tmp_path):
    """[DUR-5, REN-1] The checkpoints said it of the old name only."""
    log = segstore.open(tmp_path / "orders-0")
    for number in range(10):
        log.append([(None, b"%d" % number)])
    log.maybe_increment_log_start_offset(7)
    log.rename_dir("other-0")
    assert str(log.topic_partition) == "other-0"
    log.append(ONE)
    log.close_quietly()

    with segstore.open(tmp_path / "other-0") as log:
        assert offsets(log) == [7, 8, 9, 10]


def test_delete_leaves_another_log_of_the_same_name(tmp_path):
    """[DEL-1] It went by the path, and took what somebody else had put there."""
    path = tmp_path / "orders-0"
    moved = segstore.open(path)
    moved.append(ONE)
    path.rename(tmp_path / "saved-0")
    with segstore.open(path) as other:
        other.append(ONE * 2)
        with pytest.raises(IllegalStateError, match="moved"):
            moved.delete()
        assert offsets(other) == [0, 1]
    assert (tmp_path / "saved-0" / f"{0:020d}.log").exists()


def test_delete_takes_the_whole_directory(tmp_path):
    """[DEL-1] Under another name first."""
    log = segstore.open(tmp_path / "orders-0")
    log.append(ONE)
    log.delete()
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - names


def test_the_lane_is_closed_by_a_rename_for_deletion(tmp_path):
    """[REN-1, D11] A record was acknowledged that went with the directory."""
    log = segstore.open(tmp_path / "t-0", durability="none")
    log.append(ONE)
    log.append(ONE)
    log.rename_dir(f"t-0.{'0' * 32}-delete", reinitialize=False)
    with pytest.raises(IllegalStateError, match="deletion"):
        log.append(ONE)
    log.close_quietly()


def test_the_lane_stamps_an_epoch_that_was_assigned(tmp_path):
    """[EPC-2, D11]"""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        log.append(ONE)
        log.append(ONE)
        log.assign_epoch_start_offset(5, 2)
        log.append(ONE)
        assert log.read(2, 1000).headers["partition_leader_epoch"].tolist() == [5]


def test_ctrl_c_behind_an_abort_marker_ends_writing(tmp_path, monkeypatch):
    """[APP-16, DUR-38] The marker was there, its line in the index was not: aborted data showed."""
    path = tmp_path / "t-0"
    log = segstore.open(path)
    begin(log, 1)

    def dies(*_arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LocalLog, "append_aborted", dies)
        with pytest.raises(KeyboardInterrupt):
            end(log, 1, commit=False)
    with pytest.raises(LogReadOnlyError):
        log.append(ONE)
    with pytest.raises(LogReadOnlyError):
        log.close()
    with segstore.open(path) as log:
        assert committed(log) == []
        log.append(ONE)
        assert committed(log) == [2]


def test_a_line_of_the_index_beside_a_sync_is_synced_by_the_next(tmp_path, monkeypatch):
    """[DUR-13] It was noted before it was written, and a running sync took the note away."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        begin(log, 1)
        end(log, 1, commit=False)
        begin(log, 2)
        indexes = log._local_log.transaction_indexes
        flush = TransactionIndex.flush

        def flush_with_another_line(index) -> None:
            flush(index)
            monkeypatch.undo()
            end(log, 2, commit=False)

        monkeypatch.setattr(TransactionIndex, "flush", flush_with_another_line)
        indexes.sync(0)
        assert 0 in indexes.unsynced
        indexes.sync(0)
        assert 0 not in indexes.unsynced


def test_new_flush_settings_have_a_timer(tmp_path):
    """[DUR-14, UNI-7] They were told, and nobody kept them."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        log.update_config(log.config.with_changes(flush_ms=20))
        log.append(ONE)
        deadline = _core.monotonic_ns() + 10_000_000_000
        while log.durable_offset < 1 and _core.monotonic_ns() < deadline:
            log._background.wait_until_idle(0.1)
        assert log.durable_offset == 1


def test_a_failed_sync_of_a_forced_flush_ends_writing(tmp_path, monkeypatch):
    """[DUR-35]"""
    log = segstore.open(tmp_path / "t-0", durability="none")
    log.append(ONE)
    log.flush()

    def fails(*_arguments, **_how):
        raise FsyncFailedError("cannot sync", file="0.log")

    with monkeypatch.context() as patch:
        patch.setattr(type(log.segments()[0]), "flush", fails, raising=False)
        with pytest.raises(FsyncFailedError):
            log.flush(force_active_segment=True)
    with pytest.raises(LogReadOnlyError):
        log.append(ONE)
    log.close_quietly()


def test_a_fetch_of_committed_data_across_a_truncation_says_so(tmp_path, monkeypatch):
    """[DUR-77] The bytes were of before, the aborted list of after."""
    with segstore.open(tmp_path / "t-0", durability="none", replicated=True) as log:
        begin(log, 1)
        end(log, 1, commit=False)
        log.append(ONE)
        log.update_high_watermark(3)
        fetch = LocalLog.fetch

        def cut_behind(local_log, *arguments, **how):
            found = fetch(local_log, *arguments, **how)
            monkeypatch.undo()
            log.truncate_to(1)
            return found

        monkeypatch.setattr(LocalLog, "fetch", cut_behind)
        with pytest.raises(LogTruncatedError):
            log.read(0, 1000, "read_committed")


def test_verifications_without_a_batch_are_forgotten(tmp_path):
    """[PSM-45] The task that does so began with the first producer."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        log.maybe_start_transaction_verification(1, 0, 0)
        assert log._expiration.is_running
