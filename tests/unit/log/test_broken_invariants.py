"""An invariant of our own that does not hold ends writing: nobody knows what would come of it."""

from __future__ import annotations

import gc
import weakref

import pytest

from segstore._core import AppendLock
from segstore.errors import InternalError, LogReadOnlyError
from segstore.log.local.local_log import LocalLog
from segstore.log.local.segment import Segment
from tests.kits.log_kit import offsets

BROKEN = InternalError("an invariant of segstore is broken in keep: entries <= before")


def breaks(*_, **__):
    raise BROKEN


CHANGES = {
    "append": (LocalLog, "append", lambda log: log.append_as_leader(bytes(log.read(0, 1).records))),
    "roll": (LocalLog, "_roll_at", lambda log: log.roll()),
    "flush": (Segment, "flush", lambda log: log.flush()),
    "truncate_to": (Segment, "truncate_to", lambda log: log.truncate_to(1)),
    "delete_old_segments": (LocalLog, "reconcile", lambda log: log.delete_old_segments()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_log_takes_no_more(new_log, monkeypatch, name):
    """[DUR-38, DUR-44] Its handle is read-only; another one begins with what is on the disk."""
    log = new_log(durability="none")
    log.append([(None, b"v")] * 2)
    log._lane_switch.reconcile()
    of, method, change = CHANGES[name]
    monkeypatch.setattr(of, method, breaks)
    with pytest.raises(InternalError) as first:
        change(log)
    monkeypatch.undo()
    assert first.value is BROKEN

    for later in (lambda: log.append([(None, b"v")]), log.roll, log.flush):
        with pytest.raises(LogReadOnlyError) as refused:
            later()
        assert refused.value.__cause__ is BROKEN
    if name != "truncate_to":  # which had begun
        assert offsets(log) == [0, 1]
    log.close_quietly()
    again = new_log(log.path)
    assert again.append([(None, b"v")]).base_offset == again.log_end_offset - 1


class Mark:
    def __init__(self):
        self.errors = []

    def poison(self, error):
        self.errors.append((error, self.lock.locked()))


def test_who_is_told_is_told_under_the_lock():
    """[DUR-44] Of nothing else; who is told may go before the lock does."""
    lock, mark, error = AppendLock(), Mark(), InternalError("broken")
    with pytest.raises(InternalError), lock:
        raise error
    mark.lock = lock
    lock.tell_of_broken_invariants(mark)
    with pytest.raises(ValueError, match="no"), lock:
        raise ValueError("no")
    with lock:
        pass
    with pytest.raises(InternalError), lock:
        raise error
    assert mark.errors == [(error, True)]
    assert not lock.locked()
    gone = weakref.ref(mark)
    del mark
    gc.collect()
    assert gone() is None
    with pytest.raises(InternalError), lock:
        raise error
    assert not lock.locked()
