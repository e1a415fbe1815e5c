"""From memory to stable storage: modes, group commit, failed syncs [DUR-13..15, DUR-35, FLU-*]."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from segstore._core import Directory
from segstore.errors import FsyncFailedError, LogReadOnlyError, SegstoreError, WriteError
from segstore.log.flusher import Flusher
from segstore.log.local.segment import Segment
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.manual_scheduler import ManualScheduler
from tests.kits.log_kit import bases, lead_rounds_by_layers, offsets, wait_for

ONE = [(None, b"x")]


class Syncs:
    """Counts the syncs of segments; may hold them up, or let them fail."""

    def __init__(self, monkeypatch) -> None:
        self.started: list[int] = []
        self.error: SegstoreError | None = None
        self.may_end = threading.Event()
        self.may_end.set()
        real = Flusher._sync_segment

        def sync(flusher, segment, *, indexes):
            self.started.append(segment.base_offset)
            assert self.may_end.wait(20)
            if self.error is not None:
                raise self.error
            real(flusher, segment, indexes=indexes)

        monkeypatch.setattr(Flusher, "_sync_segment", sync)
        lead_rounds_by_layers(monkeypatch)


@pytest.fixture
def syncs(monkeypatch):
    made = Syncs(monkeypatch)
    yield made
    made.may_end.set()
    made.error = None


# ---- modes ---------------------------------------------------------------------------------------


def test_none(new_log, syncs):
    """[DUR-3] an append returns after the write; D stays behind [DUR-4]."""
    log = new_log(durability="none")
    info = log.append(ONE * 5)
    assert (info.durable_offset, log.durable_offset, syncs.started) == (0, 0, [])


def test_sync(new_log, syncs):
    """[DUR-3]"""
    log = new_log(durability="sync")
    for number in range(1, 4):
        assert log.append(ONE).durable_offset == log.durable_offset == number
    assert syncs.started == [0, 0, 0]


def test_messages(new_log, syncs):
    """[DUR-3, APP-17] the append that reaches M unsynced records syncs; LEO - RP counts."""
    log = new_log(durability="messages=3")
    durable = [log.append(ONE).durable_offset for _ in range(7)]
    assert durable == [0, 0, 3, 3, 3, 6, 6]
    assert log.append(ONE * 10).durable_offset == 17
    assert syncs.started == [0, 0, 0]


def test_flush_messages_of_the_topic(new_log):
    """[APP-17]"""
    log = new_log(durability="none", flush_messages=2)
    assert [log.append(ONE).durable_offset for _ in range(4)] == [0, 2, 2, 4]


def test_seconds(new_log):
    """[DUR-3] a thread syncs."""
    log = new_log(durability="seconds=0.02")
    log.append(ONE * 4)
    wait_for(lambda: log.durable_offset == 4)


def test_a_timed_sync_that_is_late_stops_appends(new_log, syncs, monkeypatch):
    """[DUR-14] the window is never widened silently; when the sync is done appends go on."""
    clock = SimpleNamespace(now_ns=1)  # the flusher's; the thread that calls it has a real one
    core = SimpleNamespace(monotonic_ns=lambda: clock.now_ns)
    monkeypatch.setattr("segstore.log.flusher._core", core)
    log = new_log(durability="seconds=0.05")
    syncs.may_end.clear()
    log.append(ONE)
    wait_for(lambda: syncs.started)
    clock.now_ns += 100_000_000
    assert log.append(ONE).base_offset == 1  # not later than was promised
    clock.now_ns += 1
    with pytest.raises(WriteError, match=r"every 0\.05 s is 0\.1 s late") as caught:
        log.append(ONE)
    assert caught.value.file == log.path
    assert log.log_end_offset == 2
    syncs.may_end.set()
    wait_for(lambda: log.durable_offset == 2)
    assert log.append(ONE).base_offset == 2


def test_an_idle_log_is_not_late(new_log):
    """[DUR-14] the window begins with the first unsynced append, not with the last sync."""
    log = new_log(durability="seconds=0.02")
    log.append(ONE)
    wait_for(lambda: log.durable_offset == 1)
    time.sleep(0.1)
    assert log.append(ONE).base_offset == 1


# ---- group commit --------------------------------------------------------------------------------


def test_many_writers_share_a_sync(new_log, syncs):
    """[DUR-15] who wrote while a sync ran waits for the next one, all together."""
    log = new_log(durability="sync")
    syncs.may_end.clear()
    infos = []
    threads = [threading.Thread(target=lambda: infos.append(log.append(ONE))) for _ in range(8)]
    threads[0].start()
    wait_for(lambda: syncs.started)
    for thread in threads[1:]:
        thread.start()
    wait_for(lambda: log._lane_switch.lane.next_offset == 8)  # readers see it when its round begins
    assert infos == []
    assert log.durable_offset == 0
    syncs.may_end.set()
    for thread in threads:
        thread.join()
    assert len(syncs.started) == 2
    assert all(info.durable_offset > info.last_offset for info in infos)
    assert sorted(info.base_offset for info in infos) == list(range(8))


def test_one_failed_sync_fails_every_waiter(new_log, syncs):
    """[DUR-15, DUR-35]"""
    log = new_log(durability="sync")
    log.append(ONE)
    syncs.may_end.clear()
    errors = []

    def write() -> None:
        try:
            log.append(ONE)
        except SegstoreError as error:
            errors.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_for(lambda: log._lane_switch.lane.next_offset == 5)
    syncs.error = FsyncFailedError("the disk is gone", file="0.log", os_error=5)
    syncs.may_end.set()
    for thread in threads:
        thread.join()
    assert len(errors) == 4
    assert {type(error) for error in errors} <= {FsyncFailedError, LogReadOnlyError}
    assert len(syncs.started) == 2  # the first append's, and one that is not tried again
    assert log.durable_offset == 1


# ---- flush ---------------------------------------------------------------------------------------


def test_flush(new_log, syncs):
    """[FLU-1, FLU-2, FLU-4, DUR-13] ascending, from the segment of D on; RP follows D."""
    log = new_log()
    log.append(ONE)
    assert log.flush() == log.durable_offset == log.recovery_point == 1
    for _ in range(2):
        log.append(ONE)
        log._local_log.roll()
    log.append(ONE)
    syncs.started.clear()
    assert log.flush() == 4
    assert syncs.started == [0, 2, 3]
    assert log.recovery_point == 4
    syncs.started.clear()
    assert log.flush() == 4
    assert syncs.started == []


def test_a_sealed_segment_is_synced_behind_the_scenes(new_log):
    """[DUR-29, ROL-1] D and RP reach the new segment's base."""
    log = new_log()
    log.append(ONE * 3)
    log.roll()
    log.append(ONE)
    wait_for(lambda: log.recovery_point == 3)
    assert log.durable_offset == 3
    assert (bases(log), log.log_end_offset) == ([0, 3], 4)


def test_the_indexes_of_a_sealed_segment_are_synced_behind_the_scenes():
    """[DUR-29, DUR-8] No round knew that it is sealed: all its records were durable before."""
    disk, behind, name = new_disk(), ManualScheduler(), f"{0:020d}.timeindex"
    with open_log(disk, scheduler=behind, durability="sync") as log:
        log.append(ONE * 3)
        log.roll()
        behind.run()
        assert log.recovery_point == 3
        kept = Directory(log.path, disk.crash_image(fate="lost")).read_file(name)
        assert kept == Directory(log.path, disk).read_file(name) != b""


def test_a_truncation_meanwhile(new_log, syncs):
    """[DUR-13, FLU-5] a sync that began before a truncation says nothing about what came after."""
    log = new_log()
    log.append(ONE * 10)
    syncs.may_end.clear()
    flushed = []
    thread = threading.Thread(target=lambda: flushed.append(log.flush()))
    thread.start()
    wait_for(lambda: syncs.started)
    log.truncate_to(4)
    log.append(ONE)
    assert log.durable_offset <= 4
    syncs.may_end.set()
    thread.join()
    assert log.durable_offset <= 4
    assert log.recovery_point <= 4


def test_more_segments_than_the_thread_can_sync(new_log, monkeypatch):
    """The roll syncs itself, so that the process has descriptors left."""
    log = new_log()
    monkeypatch.setattr(log._background, "submit", lambda _: None)
    flushed = []
    real = Segment.flush

    def flush(segment, barrier, **how):
        flushed.append(segment.base_offset)
        real(segment, barrier, **how)

    monkeypatch.setattr(Segment, "flush", flush)
    for _ in range(20):
        log.append(ONE)
        log.roll()
    assert flushed == [16, 17, 18, 19]


# ---- after a failed sync -------------------------------------------------------------------------


@pytest.fixture
def failed(new_log, syncs):
    """A log whose third record could not be synced."""
    log = new_log()
    log.append(ONE * 2)
    log.flush()
    log.append(ONE)
    syncs.error = FsyncFailedError("cannot sync the file", file="0.log", os_error=5)
    with pytest.raises(FsyncFailedError) as caught:
        log.flush()
    assert (caught.value.file, caught.value.os_error) == ("0.log", 5)
    syncs.started.clear()
    return log


def test_the_log_is_read_only_and_reads_go_on(failed):
    """[DUR-35, DUR-38] the first cause is told each time."""
    assert (failed.durable_offset, failed.recovery_point) == (2, 2)
    assert offsets(failed) == [0, 1, 2]
    assert failed.stats()["read_only"] is True
    for change in (
        lambda: failed.append(ONE),
        failed.flush,
        failed.roll,
        lambda: failed.truncate_to(0),
        lambda: failed.delete_records(1),
        lambda: failed.truncate_fully_and_start_at(5),
    ):
        with pytest.raises(LogReadOnlyError, match="cannot sync the file") as caught:
            change()
        assert isinstance(caught.value.__cause__, FsyncFailedError)
        assert caught.value.file == failed.path
    assert offsets(failed) == [0, 1, 2]


def test_the_sync_is_not_tried_again(failed, syncs, new_log):
    """[DUR-35, DUR-24] close says so and leaves no clean marker."""
    syncs.error = None
    with pytest.raises(LogReadOnlyError):
        failed.close()
    assert syncs.started == []
    assert failed.closed
    again = new_log()
    assert not again.report.clean
    assert again.log_end_offset == 3
    assert offsets(again) == [0, 1, 2]


def test_a_timed_sync_that_failed_is_told_by_the_next_change(new_log, syncs):
    """[DUR-39]"""
    syncs.error = FsyncFailedError("cannot sync the file")
    log = new_log(durability="seconds=0.01")
    log.append(ONE)
    wait_for(lambda: log.stats()["read_only"])
    with pytest.raises(LogReadOnlyError, match="cannot sync"):
        log.append(ONE)
    with pytest.raises(LogReadOnlyError, match="cannot sync"):
        log.close()


def test_a_sync_that_could_not_be_tried_is_tried_again(new_log, syncs):
    """[DUR-31] without a descriptor nothing was lost."""
    log = new_log()
    log.append(ONE)
    syncs.error = SegstoreError("no descriptor")
    with pytest.raises(SegstoreError, match="no descriptor"):
        log.flush()
    assert log.durable_offset == 0
    syncs.error = None
    assert log.flush() == 1
