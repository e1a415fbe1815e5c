"""Writers that were let go too early: by close_quietly, by a truncation, by the collector.

And failures of the background thread, of which nobody heard [DUR-13, DUR-15, DUR-39, DUR-65..70].
"""

from __future__ import annotations

import threading
import time

import pytest

import segstore
from segstore.errors import ClosedError, LogLockedError, LogReadOnlyError
from segstore.log.flusher import Flusher
from segstore.log.local.segment import Segment
from tests.kits.log_kit import offsets, wait_for

ONE = [(None, b"x")]


def test_close_quietly_waits_for_an_append_that_is_inside(tmp_path, monkeypatch):
    """[DUR-65, DUR-70] A second writer was let in while the first was still in its write."""
    log = segstore.open(tmp_path / "topic-0", durability="none")
    inside, may_write = threading.Event(), threading.Event()
    real = Segment.append

    def slow(segment, batches, headers):
        inside.set()
        assert may_write.wait(20)
        real(segment, batches, headers)

    monkeypatch.setattr(Segment, "append", slow)
    appending = threading.Thread(target=log.append, args=(ONE,))
    appending.start()
    assert inside.wait(20)
    closing = threading.Thread(target=log.close_quietly)
    closing.start()
    time.sleep(0.05)
    with pytest.raises(LogLockedError):
        segstore.open(tmp_path / "topic-0")
    may_write.set()
    appending.join(20)
    closing.join(20)
    monkeypatch.undo()

    with segstore.open(tmp_path / "topic-0") as again:
        assert again.append(ONE).base_offset == 1
        assert offsets(again) == [0, 1]


def test_close_quietly_waits_for_a_sync_and_refuses_later_ones(tmp_path, monkeypatch):
    """[DUR-15] What was not synced is not acknowledged, and writes no checkpoint any more."""
    log = segstore.open(tmp_path / "topic-0", durability="sync")
    syncing, may_sync = threading.Event(), threading.Event()
    real = Flusher._sync_segment

    def slow(flusher, segment, *, indexes):
        syncing.set()
        assert may_sync.wait(20)
        real(flusher, segment, indexes=indexes)

    monkeypatch.setattr(Flusher, "_sync_segment", slow)
    answers = []

    def write() -> None:
        try:
            answers.append(log.append(ONE).base_offset)
        except ClosedError as error:
            answers.append(type(error))

    threads = [threading.Thread(target=write) for _ in range(2)]
    threads[0].start()
    assert syncing.wait(20)
    threads[1].start()
    wait_for(lambda: log._lane_switch.lane.next_offset == 2)  # readers see it when its sync begins
    threads.append(threading.Thread(target=log.close_quietly))
    threads[2].start()
    while not log._flusher._directory_sync.has_ended:
        time.sleep(0.001)
    with pytest.raises(LogLockedError):
        segstore.open(tmp_path / "topic-0")
    may_sync.set()
    for thread in threads:
        thread.join(20)

    assert answers == [0, ClosedError]


def test_a_truncation_lets_nobody_go_without_a_sync(new_log, monkeypatch):
    """[DUR-13, DUR-15] An append that waited was acknowledged unsynced when others truncated."""
    log = new_log(durability="sync")
    log.append(ONE)
    synced: list[int] = []
    leading, may_lead = threading.Event(), threading.Event()
    real = Segment.flush

    def flush(segment, barrier, *, indexes=False):
        size = segment.size_bytes
        if threading.current_thread() is threads[0]:
            leading.set()
            assert may_lead.wait(20)
        real(segment, barrier, indexes=indexes)
        synced.append(size)

    infos = []
    threads = [
        threading.Thread(target=lambda: infos.append((log.append(ONE).base_offset, max(synced))))
        for _ in range(2)
    ]
    monkeypatch.setattr(Segment, "flush", flush)
    threads[0].start()
    assert leading.wait(20)
    threads[1].start()
    wait_for(lambda: log._lane_switch.lane.next_offset == 3)
    size = log.segments()[0].size_bytes
    monkeypatch.setattr(log._flusher, "segment_was_sealed", lambda *_: None)
    log.roll()
    with log._append_lock:
        log._truncation._truncate(3)
    assert max(synced) == size  # before anybody is let go
    may_lead.set()
    for thread in threads:
        thread.join(20)
    assert sorted(offset for offset, _ in infos) == [1, 2]
    assert all(reached == size for _, reached in infos)


def test_an_unexpected_failure_behind_the_scenes_is_told(new_log, monkeypatch):
    """[DUR-39] By the next change, and by close."""
    log = new_log()
    log.append(ONE)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("unexpected")

    monkeypatch.setattr(log._flusher, "_sync_segment", fail)
    log.roll()
    assert log._background.wait_until_idle()
    with pytest.raises(LogReadOnlyError, match="unexpected"):
        log.append(ONE)
    with pytest.raises(LogReadOnlyError, match="unexpected"):
        log.close()


@pytest.mark.filterwarnings("ignore:the log:ResourceWarning")
def test_a_dropped_log_keeps_its_lock_while_its_thread_writes(tmp_path):
    """[DUR-65]"""
    path = tmp_path / "topic-0"
    log = segstore.open(path, durability="none")
    running, may_end = threading.Event(), threading.Event()

    def task() -> None:
        running.set()
        assert may_end.wait(20)

    log._background.submit(task)
    assert running.wait(20)
    del log
    with pytest.raises(LogLockedError):
        segstore.open(path)
    may_end.set()
    deadline = time.monotonic() + 20
    while True:
        try:
            segstore.open(path).close()
            break
        except LogLockedError:
            assert time.monotonic() < deadline
            time.sleep(0.005)
