"""A roll and an append by the layers, in the midst of a round that the layers lead for the lane.

The lane is armed anew behind them: its next round may not take for settled what came meanwhile, or
it would sync its own segment alone and tell of records that lie unsynced in the one before.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from tests.crash.barrier_scene import new_disk, open_log
from tests.kits.log_kit import PATIENCE_SECONDS

ONE = [(None, b"x")]


def held_once(real):
    """Return a stand-in that waits in its first call behind *real*, and the two events of that."""
    begun, may_end, calls = threading.Event(), threading.Event(), []

    def hold(*arguments, **options):
        real(*arguments, **options)
        calls.append(1)
        if len(calls) == 1:
            begun.set()
            assert may_end.wait(PATIENCE_SECONDS)

    return hold, begun, may_end


def test_what_was_acknowledged_is_durable(monkeypatch):
    """[DUR-1, DUR-13, DUR-15]"""
    disk = new_disk()
    log = open_log(disk, durability="sync")
    flusher = log._flusher
    monkeypatch.setattr(flusher, "segment_was_sealed", lambda *_: None)  # the background is late
    log.append(ONE)
    hold_sync, syncs, may_sync = held_once(flusher._sync_segment)
    monkeypatch.setattr(flusher, "_sync_segment", hold_sync)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(log.append, ONE)
        assert syncs.wait(PATIENCE_SECONDS)
        log.roll()
        hold_wait, waits, may_wait = held_once(lambda *_: None)
        real = flusher.sync_if_due

        def late(*arguments):
            hold_wait()
            real(*arguments)

        monkeypatch.setattr(flusher, "sync_if_due", late)
        second = threads.submit(log.append, iter(ONE))
        assert waits.wait(PATIENCE_SECONDS)
        monkeypatch.setattr(flusher, "sync_if_due", real)
        may_sync.set()
        first.result(PATIENCE_SECONDS)
        third = log.append(ONE)
        may_wait.set()
        second.result(PATIENCE_SECONDS)

    assert (third.last_offset, third.durable_offset) == (3, 4)
    with open_log(disk.crash_image(fate="lost")) as found:
        assert found.log_end_offset == 4
    log.close_quietly()
