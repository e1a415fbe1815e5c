"""Profiles, seeds, temporary directories, and the one way in which a ratio is measured.

SEGSTORE_BENCHMARK_PROFILE chooses how much is done: ``smoke`` (runs in the tests, so that no
benchmark can rot), ``regular`` (the default) or ``large``.
"""

from __future__ import annotations

import gc
import os
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import segstore

if TYPE_CHECKING:
    from collections.abc import Callable

SEED: Final = 20130101


@dataclass(frozen=True)
class Profile:
    """How much a benchmark does."""

    log_bytes: int
    """Bytes of records in a log that is appended, scanned or recovered."""
    rounds: int
    lookups: int
    slow_peer_records: int
    """Records given to a peer that is a hundred times slower."""


PROFILES: Final = {
    "smoke": Profile(log_bytes=400_000, rounds=1, lookups=200, slow_peer_records=500),
    "regular": Profile(log_bytes=64_000_000, rounds=7, lookups=20_000, slow_peer_records=20_000),
    "large": Profile(log_bytes=512_000_000, rounds=9, lookups=200_000, slow_peer_records=50_000),
}
PROFILE: Final = PROFILES[os.environ.get("SEGSTORE_BENCHMARK_PROFILE", "regular")]


def seconds_per_unit(action: Callable[[], float]) -> float:
    """CPU seconds of one call of *action*, per unit of work that it says it did."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    units = action()
    seconds = time.process_time() - start
    gc.enable()
    return seconds / units


def speed_ratio(ours: Callable[[], float], theirs: Callable[[], float]) -> float:
    """Speed of *ours* over the speed of *theirs*: above 1 means that ours is faster.

    The two run in turn, so that a busy neighbour hits both alike; the medians of their CPU time
    per unit are compared, after one round that does not count.
    """
    measured = [
        (seconds_per_unit(ours), seconds_per_unit(theirs)) for _ in range(PROFILE.rounds + 1)
    ]
    counted = measured[1:]
    our_median = statistics.median(ours_seconds for ours_seconds, _ in counted)
    their_median = statistics.median(theirs_seconds for _, theirs_seconds in counted)
    return their_median / our_median if our_median > 0 else 0.0


class ScratchDirectory:
    """A directory of its own for each benchmark, removed in teardown."""

    path: Path

    def make_scratch(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="segstore-bench-"))

    def teardown(self, *_: object) -> None:
        """Remove what the benchmark wrote (called by asv)."""
        shutil.rmtree(self.path, ignore_errors=True)


class LogBesideFile(ScratchDirectory):
    """A log, and a plain file that takes the same bytes without one."""

    log: segstore.UnifiedLog
    batches: list[bytes]
    descriptor: int

    def open_both(self, **settings: object) -> None:
        self.make_scratch()
        self.log = segstore.open(
            self.path / "bench-0", durability="none", segment_ms=None, **settings
        )
        self.descriptor = os.open(self.path / "raw", os.O_RDWR | os.O_CREAT)

    def pwrite_batches(self) -> float:
        """Write the batches by ``os.pwrite``; returns their bytes."""
        position = 0
        for batch in self.batches:
            position += os.pwrite(self.descriptor, batch, position)
        os.ftruncate(self.descriptor, 0)
        return position

    def teardown(self, *parameters: object) -> None:
        """Close both (called by asv)."""
        self.log.close()
        os.close(self.descriptor)
        super().teardown(*parameters)
