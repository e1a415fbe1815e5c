"""Power cuts under threads that append, roll and flush: what had returned is there [DUR-3, DUR-15].

The real background thread and group commit, on a simulated disk. Where a script of one thread runs
step by step, here syncs, rolls and recovery points fall between each other.
"""

from __future__ import annotations

import random
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from segstore._core import SimulatedDisk
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from tests.crash.crash_script import PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore import UnifiedLog

APPENDS = 40
CRASHES = 25
RUNS_FEW, RUNS_MANY = 3, 12


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Threads change places a hundred times as often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(before)


def open_log(disk: SimulatedDisk, segment_bytes: int = 100_000) -> UnifiedLog:
    options = open_options(durability="sync", internal_segment_bytes=segment_bytes)
    return open_partition(PATH, options, LogEnvironment(environment=disk))


class Run:
    """Threads at one log; notes after which effect of the disk each append had returned."""

    def __init__(self, seed: int) -> None:
        self.chooser = random.Random(seed)
        self.disk = SimulatedDisk()
        self.acknowledged: list[tuple[int, int]] = []
        self._errors: list[BaseException] = []
        self._log = open_log(self.disk, self.chooser.choice([1500, 4000, 20_000]))
        appenders = self.chooser.choice([1, 2, 4, 8])
        threads = [
            threading.Thread(target=self._append, args=(number, self.chooser.getrandbits(32)))
            for number in range(appenders)
        ]
        self._is_over = threading.Event()
        flushing = [
            threading.Thread(target=self._flush) for _ in range(self.chooser.choice([0, 2]))
        ]
        for thread in (*threads, *flushing):
            thread.start()
        for thread in threads:
            thread.join()
        self._is_over.set()
        for thread in flushing:
            thread.join()
        self.effects = self.disk.effects
        self._log.close()
        assert self._errors == []
        assert len(self.acknowledged) == appenders * APPENDS

    def _append(self, thread: int, seed: int) -> None:
        chooser = random.Random(seed)
        for number in range(APPENDS):
            info = self._log.append([(b"%d" % thread, b"%d" % number)])
            self.acknowledged.append((self.disk.effects, info.last_offset))
            if chooser.random() < 0.3:
                self._log.roll()

    def _flush(self) -> None:
        try:
            while not self._is_over.is_set():
                self._log.flush()
        except BaseException as error:
            self._errors.append(error)
            raise

    def check_a_crash(self) -> None:
        """Open what a power cut behind an acknowledgement leaves, or soon after one."""
        at, _ = self.chooser.choice(self.acknowledged)
        effects = min(self.effects, at + self.chooser.choice([0, 0, 1, 2, 5, 20]))
        fate = self.chooser.choice(["lost", "lost", "seed"])
        image = self.disk.crash_image(effects, fate=fate, seed=self.chooser.getrandbits(60))
        needed = max((last for at, last in self.acknowledged if at <= effects), default=-1)
        with open_log(image) as found:
            assert found.log_end_offset > needed, f"acknowledged {needed}, cut at effect {effects}"
            assert [record.offset for record in found] == list(range(found.log_end_offset))
            numbers: dict[bytes, list[int]] = {}
            for record in found:
                numbers.setdefault(record.key, []).append(int(record.value))
            assert all(each == list(range(len(each))) for each in numbers.values())


def test_a_power_cut_under_threads(few_or_many: Callable[[int, int], int]):
    """[DUR-1, DUR-2, DUR-3, DUR-11, DUR-15] All that had returned, in order, once."""
    for seed in range(few_or_many(RUNS_FEW, RUNS_MANY)):
        run = Run(seed)
        for _ in range(CRASHES):
            run.check_a_crash()
