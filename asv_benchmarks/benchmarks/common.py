"""Profiles, seeds, temporary directories, and the one way in which a ratio is measured.

SEGSTORE_BENCHMARK_PROFILE chooses how much is done: ``smoke`` (runs in the tests, so that no
benchmark can rot), ``regular`` (the default) or ``large``; ``price`` is for `compare_builds`, which
begins anew for each round.
"""

from __future__ import annotations

import gc
import mmap
import os
import shutil
import statistics
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import segstore

if TYPE_CHECKING:
    from collections.abc import Callable

SEED: Final = 20130101
CLEAN_SHUTDOWN_MARKER: Final = ".kafka_cleanshutdown"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
"""Kafka's names: a build from before a module moved has them too."""


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
    "price": Profile(log_bytes=16_000_000, rounds=2, lookups=20_000, slow_peer_records=500),
    "regular": Profile(log_bytes=64_000_000, rounds=7, lookups=20_000, slow_peer_records=20_000),
    "large": Profile(log_bytes=512_000_000, rounds=9, lookups=200_000, slow_peer_records=50_000),
}
PROFILE: Final = PROFILES[os.environ.get("SEGSTORE_BENCHMARK_PROFILE", "regular")]


class Cost(NamedTuple):
    """Seconds per unit of work."""

    cpu: float
    wall: float


ONE_CALL: Final = (1, (3, 7, 30.0), 1, 0.0)
"""asv's ``number, repeat, rounds, warmup_time``: each sample is one call, after a new setup."""

_measured: Final = [0.0]


def measured_seconds() -> float:
    """CPU seconds that `cost_of` and other processes have measured: a clock for asv.

    What a round does before and after the measured part does not count.
    """
    return _measured[0]


def note_measured(seconds: float) -> None:
    """Let that clock go on."""
    _measured[0] += seconds


class TimedAlone:
    """``time_`` methods in CPU seconds of this process, a call for each sample."""

    number, repeat, rounds, warmup_time = ONE_CALL
    timer = staticmethod(time.process_time)


def _nothing() -> None:
    pass


def cost_of(
    action: Callable[[], float],
    *,
    before: Callable[[], object] = _nothing,
    after: Callable[[], object] = _nothing,
) -> Cost:
    """Cost of one call of *action*, per unit of work that it says it did.

    What comes *before* and *after* it is not measured.
    """
    before()
    gc.collect()
    gc.disable()
    wall, cpu = time.perf_counter(), time.process_time()
    units = action()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    gc.enable()
    note_measured(cpu)
    after()
    return Cost(cpu / units, wall / units)


def touch_memory(size_bytes: int) -> None:
    """Write to so much memory, page by page, and give it back.

    A virtual machine gets memory from its host when it first writes there, and gives back what has
    been free for seconds. That can take longer than what is measured, of one side and not of the
    other: the files that both write after this call lie in memory that the machine has.
    """
    with closing(mmap.mmap(-1, size_bytes)) as memory:
        for at in range(0, size_bytes, mmap.PAGESIZE):
            memory[at] = 1


def seconds_per_unit(action: Callable[[], float]) -> float:
    """CPU seconds of one call of *action*, per unit of work that it says it did."""
    return cost_of(action).cpu


def speed_ratios(
    ours: Callable[[], Cost], theirs: Callable[[], Cost], *, warm_up_rounds: int = 1
) -> Cost:
    """Speed of *ours* over the speed of *theirs*: above 1 means that ours is faster.

    The two run in turn, so that a busy neighbour hits both alike; the medians of their costs are
    compared, after some rounds that do not count.
    """
    for _ in range(warm_up_rounds if PROFILE.rounds > 1 else 0):
        ours()
        theirs()
    measured = [(ours(), theirs()) for _ in range(PROFILE.rounds)]

    def ratio(clock: int) -> float:
        our_median = statistics.median(cost[clock] for cost, _ in measured)
        their_median = statistics.median(cost[clock] for _, cost in measured)
        return their_median / our_median if our_median > 0 else 0.0

    return Cost(ratio(0), ratio(1))


def speed_ratio(ours: Callable[[], float], theirs: Callable[[], float]) -> float:
    """Ratio of the CPU times alone, of actions that need nothing before and after."""
    return speed_ratios(lambda: cost_of(ours), lambda: cost_of(theirs)).cpu


class ScratchDirectory:
    """A directory of its own for each benchmark, removed in teardown."""

    path: Path

    def make_scratch(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="segstore-bench-"))

    def teardown(self, *_: object) -> None:
        """Remove what the benchmark wrote (called by asv)."""
        shutil.rmtree(self.path, ignore_errors=True)


class _Comparison(ScratchDirectory):
    """What is measured once by two clocks: speed of `ours` over that of `theirs`.

    ``time_ours`` is absolute, so that a slower build shows also where the peer is slower that day.
    asv finds benchmarks by the names in a module: a base has a name with an underscore.
    """

    unit = "ratio"
    number, repeat, rounds, warmup_time = ONE_CALL
    timer = staticmethod(measured_seconds)
    timeout = 1200
    warm_up_rounds = 1
    _ratios: Cost | None = None

    def ours(self) -> Cost:
        """One round of this library."""
        raise NotImplementedError

    def theirs(self) -> Cost:
        """One round of the peer."""
        raise NotImplementedError

    def _measure(self) -> Cost:
        if self._ratios is None:
            self._ratios = speed_ratios(self.ours, self.theirs, warm_up_rounds=self.warm_up_rounds)
        return self._ratios

    def time_ours(self, *_: object) -> None:
        """CPU seconds of one round: only what `cost_of` or the other process measures of it."""
        self.ours()

    def track_cpu_ratio(self, *_: object) -> float:
        return self._measure().cpu

    def track_wall_ratio(self, *_: object) -> float:
        return self._measure().wall


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
