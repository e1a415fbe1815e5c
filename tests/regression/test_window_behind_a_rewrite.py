"""The first append behind an unclean stop wrote again what that had left, and was counted as late.

The window of the timed sync began before that rewrite: the appends right behind a slow one were
refused, though nothing of theirs waited for a sync.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore.errors import WriteError
from segstore.log import flusher

if TYPE_CHECKING:
    from pathlib import Path

ONE = [(None, b"x")]
SECOND = 1_000_000_000


def test_a_slow_rewrite_is_no_late_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """[DUR-14, DUR-36] The window begins behind it, and ends as ever."""
    path = tmp_path / "orders-0"
    log = segstore.open(path, durability="none")
    log.append(ONE * 5)
    log.close_quietly()
    clock = SimpleNamespace(now=SECOND, rewrites=0)
    rewrite_from = flusher.rewrite_from

    def slow_rewrite(*arguments: Any) -> None:
        rewrite_from(*arguments)
        clock.now += 201 * SECOND
        clock.rewrites += 1

    monkeypatch.setattr(flusher, "rewrite_from", slow_rewrite)
    monkeypatch.setattr(flusher, "_core", SimpleNamespace(monotonic_ns=lambda: clock.now))
    with segstore.open(path, durability="seconds=100") as log:
        assert [log.append(ONE).base_offset for _ in range(3)] == [5, 6, 7]
        assert clock.rewrites == 1
        clock.now += 201 * SECOND
        with pytest.raises(WriteError, match="every 100 s"):
            log.append(ONE)
