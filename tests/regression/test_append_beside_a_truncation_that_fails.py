"""An append was acknowledged because a truncation had begun, which then failed.

What it waited for was neither synced nor gone: a power cut took records that were acknowledged and
that nobody had truncated.
"""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from segstore.errors import SegstoreError, WriteError
from tests.crash.barrier_scene import new_disk, open_log
from tests.kits.log_kit import PATIENCE_SECONDS, values


def test_it_is_told_or_its_records_are_synced(monkeypatch):
    """[DUR-15, DUR-38, TRU-1] Held where it has let go of the lock and looks at the sync."""
    disk = new_disk()
    log = open_log(disk, durability="sync")
    log.append([(None, b"first")] * 3)
    log.roll()
    log.append([(None, b"second")])
    log.roll()
    flusher, real = log._flusher, log._flusher.sync_if_due
    written, may_go_on = threading.Event(), threading.Event()

    def held(offset, generation):
        written.set()
        assert may_go_on.wait(PATIENCE_SECONDS)
        real(offset, generation)

    monkeypatch.setattr(flusher, "sync_if_due", held)

    def refuse(call: str, name: str) -> None:
        if call == "rename":
            disk.fail("rename", int(".log" in name), errno.EIO)

    with ThreadPoolExecutor(1) as elsewhere:
        appended = elsewhere.submit(log.append, iter([(None, b"waits")] * 2))
        assert written.wait(PATIENCE_SECONDS)
        disk.watch(refuse)
        with pytest.raises(WriteError):
            log.truncate_to(2)
        disk.watch(None)
        disk.fail("rename", 0, 0)
        may_go_on.set()
        error = appended.exception(PATIENCE_SECONDS)
    with open_log(disk.crash_image(fate="lost")) as found:
        assert isinstance(error, SegstoreError) or values(found)[-2:] == [b"waits"] * 2
    log.close_quietly()
