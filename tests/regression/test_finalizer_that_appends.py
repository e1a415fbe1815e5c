"""A finalizer that appended hung the log: the append in whose midst it ran had no owner.

What shows readers the new log end may allocate, and with that start the collector, in any append
that goes by the lane. Who appends from there waits for himself, unless the lock knows whose it is.
"""

from __future__ import annotations

import gc
import threading

import pytest

import segstore
from tests.kits.log_kit import PATIENCE_SECONDS

ONE = [(None, b"x")]


class Audit:
    """Only the collector frees it, and it keeps a record of its end."""

    told: list[BaseException | None]

    def __init__(self, log: segstore.UnifiedLog, told: list[BaseException | None]) -> None:
        self.itself, self.log, self.told = self, log, told

    def __del__(self) -> None:
        try:
            self.log.append([(None, b"finalized")])
        except RuntimeError as error:
            self.told.append(error)
        else:
            self.told.append(None)


@pytest.mark.parametrize("durability", ["none", "messages=5", "seconds=5", "sync"])
def test_it_is_told_that_it_would_wait_for_itself(durability: str, tmp_path):
    """[CON-4] Wherever the collector runs, the log goes on."""
    told, ends = [], []
    with segstore.open(tmp_path / "audited-0", durability=durability) as log:
        log.append(ONE)

        def append_beside_the_collector() -> None:
            for number in range(300):
                ends.append(log._local_log.log_end)  # which the next append cannot use again
                Audit(log, told)
                gc.set_threshold(number % 30 + 1, 1000, 1000)
                gc.enable()
                log.append(ONE)
                gc.disable()

        thresholds = gc.get_threshold()
        gc.disable()
        try:
            appending = threading.Thread(target=append_beside_the_collector, daemon=True)
            appending.start()
            appending.join(PATIENCE_SECONDS)
        finally:
            gc.set_threshold(*thresholds)
            gc.enable()
        assert not appending.is_alive()
        gc.collect()
        assert len(told) == 300
        assert 301 + told.count(None) <= log.log_end_offset <= 601
