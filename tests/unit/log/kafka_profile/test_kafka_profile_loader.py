"""Where a log of Kafka's profile finds what it was closed with, and what it leaves [DUR-62]."""

from __future__ import annotations

import pytest

import segstore
from segstore.errors import CorruptIndexError
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    format_offset_checkpoint,
)
from segstore.log.local.transaction_index import TransactionIndex
from segstore.types import TopicPartition

KAFKAS = {".log", ".index", ".timeindex", ".snapshot", ""}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "logs" / "orders-0"


def open_log(folder, **options):
    folder.parent.mkdir(exist_ok=True)
    return segstore.open(folder, recovery="kafka", segment_ms=None, **options)


def fill(folder, **options):
    with open_log(folder, **options) as log:
        log.append([(b"k", b"v")] * 5)
        log.roll()
        log.append([(b"k", b"v")])
        log.flush()


def test_no_file_but_kafkas_appears(folder):
    """[DUR-62] Neither beside the segments nor above them."""
    fill(folder)

    assert {path.suffix for path in folder.iterdir()} <= KAFKAS
    assert [path.name for path in folder.parent.iterdir()] == ["orders-0"]


def test_without_a_marker_everything_is_recovered(folder):
    """[LDR-20] A handle alone writes no checkpoint: all is checked again."""
    fill(folder)

    with open_log(folder) as log:
        assert not log.report.clean
        assert log.report.scanned_bytes == sum(one.size_bytes for one in log.segments())
        assert log.log_end_offset == 6


def test_a_brokers_checkpoints_and_marker_are_read_and_the_marker_goes(folder):
    """[LDR-27, DUR-24] Else the next start would believe what is not true any more."""
    fill(folder)
    partition = TopicPartition("orders", 0)
    for name, offset in ((RECOVERY_POINT_CHECKPOINT, 6), (LOG_START_OFFSET_CHECKPOINT, 2)):
        (folder.parent / name).write_bytes(format_offset_checkpoint({partition: offset}))
    (folder.parent / CLEAN_SHUTDOWN_MARKER).touch()

    with open_log(folder) as log:
        assert log.report.clean
        assert log.report.scanned_bytes == 0
        assert (log.log_start_offset, log.recovery_point) == (2, 6)
        assert not (folder.parent / CLEAN_SHUTDOWN_MARKER).exists()


def test_a_state_directory_holds_what_would_lie_beside_the_segments(folder, tmp_path):
    """[DUR-62] With it a clean stop is known to the next open, once."""
    state_dir = tmp_path / "state"
    fill(folder, state_dir=state_dir)
    assert (state_dir / CLEAN_SHUTDOWN_MARKER).exists()

    log = open_log(folder, state_dir=state_dir)
    assert log.report.clean
    log.close_quietly()

    with open_log(folder, state_dir=state_dir) as log:
        assert not log.report.clean
    assert {path.suffix for path in folder.iterdir()} <= KAFKAS


def test_a_damaged_transaction_index_is_made_anew(folder, monkeypatch):
    """[LDR-14, TXX-6] Also after a clean stop."""
    fill(folder)
    (folder.parent / CLEAN_SHUTDOWN_MARKER).touch()

    def refuse(index, _versions):
        raise CorruptIndexError("below the base offset", file=index.path)

    monkeypatch.setattr(TransactionIndex, "sanity_check", refuse)

    with open_log(folder) as log:
        assert log.report.scanned_bytes == sum(one.size_bytes for one in log.segments())
