"""``flush()`` in one thread and ``close()`` in another wrote the same ``.tmp``, both at once.

The recovery point went to disk under the flusher's lock in one place and without it in the other:
one rename took the file away that the other was to rename, and the close was none.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import segstore
from segstore.log import recovery_point
from segstore.log.files import checkpoint_store

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class OneWriter:
    """Stands for ``write_offset``; the first call is slow, and no other may begin meanwhile."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.was_joined = threading.Event()
        self._write = recovery_point.write_offset
        self._running = 0

    def __call__(self, *arguments: Any) -> None:
        is_first = not self.has_begun.is_set()
        self._running += 1
        if self._running > 1:
            self.was_joined.set()
        self.has_begun.set()
        if is_first:
            self.was_joined.wait(0.3)
        try:
            self._write(*arguments)
        finally:
            self._running -= 1


def test_a_flush_beside_a_close_leaves_a_clean_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """[DUR-21, DUR-24] The close waits for the flush that writes the recovery point."""
    writer = OneWriter()
    monkeypatch.setattr(recovery_point, "write_offset", writer)
    monkeypatch.setattr(checkpoint_store, "write_offset", writer)
    log = segstore.open(tmp_path / "orders-0", durability="none")
    log.append([(b"key", b"value")])
    flushing = threading.Thread(target=log.flush)
    flushing.start()
    assert writer.has_begun.wait(10)
    log.close()
    flushing.join()

    assert not writer.was_joined.is_set()
    with segstore.open(tmp_path / "orders-0") as log:
        assert log.report.clean


def test_a_flush_that_comes_after_the_last_sync_writes_nothing(tmp_path: Path):
    """[DUR-24] The recovery point is the close's, from before it is marked clean."""
    log = segstore.open(tmp_path / "orders-0", durability="none")
    log.append([(b"key", b"value")])
    places = log._checkpoint_store
    mark_clean, late = places.mark_clean, []

    def mark_after_a_flush(*arguments: Any) -> None:
        try:
            log._flusher.write_recovery_point()
        except segstore.ClosedError as error:
            late.append(error)
        mark_clean(*arguments)

    places.mark_clean = mark_after_a_flush
    log.close()

    assert len(late) == 1
