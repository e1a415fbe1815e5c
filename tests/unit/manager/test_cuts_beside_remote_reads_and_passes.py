"""Truncations beside passes of remote storage, and beside what a lane is taught."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.remote.log_manager.copy_task import CopyTask
from segstore.types import AppendOrigin, Isolation
from tests.kits.records_kit import build
from tests.kits.transactions_kit import ABORT, COMMIT, NOW, Producer

if TYPE_CHECKING:
    from pathlib import Path

    from segstore.manager.log_manager import LogManager

TIERED = {"remote.storage.enable": "true", "local.retention.bytes": "0"}


def later(n: int) -> int:
    return int(time.time() * 1000) + n * 400_000


def opened(path: Path, **options) -> LogManager:
    return segstore.open_dir(path / "data", remote=str(path / "tier"), **options)


def write(log, count: int, value: bytes = b"v") -> None:
    epoch = log.leader_epochs[-1].epoch if log.leader_epochs else 0
    log.append_as_leader(build([(n, NOW, b"%d" % n, value) for n in range(count)]), epoch)


def mark(producer: Producer, kind: int) -> None:
    """End a transaction of which the log knows nothing any more."""
    log, key, value = producer.log, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0)
    marker = build([(0, NOW, key, value)], control=True, **producer._options)
    epoch = log.leader_epochs[-1].epoch
    log.append_as_leader(marker, epoch, origin=AppendOrigin.COORDINATOR, transaction_version=0)
    show_all(log)


def show_all(log) -> None:
    """Raise the high watermark to the end, in Kafka's profile."""
    if log.high_watermark < log.log_end_offset:
        log.update_high_watermark(log.log_end_offset)


def committed_then_tiered(logs):
    """0 to 2 of a transaction, 3 to 5, and here 6, the marker of its commit, and 7 to 8."""
    logs.create_topic("t", 1, config=TIERED)
    log = logs.log("t", 0)
    producer = Producer(log, 1)
    producer.write(3)
    log.roll()
    write(log, 3)
    log.roll()
    producer.end(COMMIT)
    write(log, 2)
    show_all(log)
    assert logs.maintain().failed == ()
    assert log.local_log_start_offset == 6
    return log, producer


def offsets(records) -> list[int]:
    return [one.offset for one in records]


def test_a_pass_keeps_what_was_written_between_its_steps(tmp_path, monkeypatch):
    """[DUR-140, TIER-44] A pass that knew the end of the copies left out what came in its place."""
    with opened(tmp_path) as logs:
        logs.create_topic("t", 1, config={**TIERED, "local.retention.bytes": "-2"})
        log = logs.log("t", 0)
        for _ in range(3):
            write(log, 3, b"old")
            log.roll()
        write(log, 1, b"old")
        assert logs.maintain().failed == ()
        logs.alter_topic("t", {"local.retention.bytes": "0"})
        step, cut = CopyTask._delete_wrong_copies, []

        def racing(self, log):
            if not cut:  # another thread
                cut.append(log.truncate_to(3))
                for count in (3, 6):
                    write(log, count, b"new")
                    log.roll()
                write(log, 1, b"new")
            return step(self, log)

        monkeypatch.setattr(CopyTask, "_delete_wrong_copies", racing)
        for n in range(3):
            assert logs.maintain(later(n + 1)).failed == ()
        assert cut
        assert offsets(log.scan(0)) == [*range(13)]


def test_a_cut_beside_the_read_that_teaches(tmp_path):
    """[TIER-69, DUR-77] The read knew a commit marker that was cut, and the lane learned of it."""
    with opened(tmp_path) as logs:
        log, producer = committed_then_tiered(logs)
        reader = log._reader
        visible, cut = reader.visible, []

        def racing(*arguments):
            found = visible(*arguments)
            if not cut:  # another thread
                cut.append(log.truncate_to(6))
            return found

        reader.visible = racing
        reader.fetch(0, 1000, Isolation.READ_COMMITTED, min_one_message=True)
        reader.visible = visible
        assert cut
        mark(producer, ABORT)
        assert offsets(log.read(0, 1000, "read_committed")) == []


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_a_marker_that_was_cut_decides_nothing(tmp_path, recovery):
    """[TIER-69] The leader epochs may be the same after a cut."""
    with opened(tmp_path, recovery=recovery) as logs:
        log, producer = committed_then_tiered(logs)
        for _ in range(2):
            assert offsets(log.read(0, 1000, "read_committed")) == [0, 1, 2]
        log.truncate_to(6)
        mark(producer, ABORT)
        assert offsets(log.read(0, 1000, "read_committed")) == []
