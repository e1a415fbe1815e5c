"""A run on a simulated disk, what a crash of it may leave, and whether a sync of it is missed."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from segstore._core import Directory, SimulatedDisk
from segstore.errors import SegstoreError
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from tests.crash.crash_check import (
    Crash,
    Looked,
    check_crash,
    check_found,
    distinct,
    look,
    possible_states,
)
from tests.crash.crash_model import Operation
from tests.crash.crash_script import PATH, START_MS, ManualScheduler, Settings, run_script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore import UnifiedLog
    from tests.crash.crash_script import Run

SYNCED = Settings("sync", segment_bytes=100_000)
LAZY = Settings("none", segment_bytes=100_000)
SEEDS = 400
"""Where none of so many crashes at each point shows that a sync is missing, none is said to."""
FEW_SEEDS = 5


class Scene(NamedTuple):
    """A run that is over.

    Attributes
    ----------
    disk : SimulatedDisk
        Where it was.
    check : callable
        Looks at what a crash leaves; raises where a promise is broken, and says how much work there
        was for the next open, where that is asked for.
    end : int or None
        The last crash point that is of interest; None = the end of the run.
    """

    disk: SimulatedDisk
    check: Callable[[Crash], object]
    end: int | None = None

    def syncs(self, barrier: str) -> tuple[int, ...]:
        """Numbers of the effects that are syncs of that name."""
        numbers = range(1, self.disk.effects + 1)
        return tuple(number for number in numbers if self.disk.event(number).barrier == barrier)

    def crashes(self, barrier: str, seeds: int) -> Iterator[Crash]:
        """Crashes behind the first of these syncs, with none of them done; seed by seed."""
        ignored = self.syncs(barrier)
        crashes = (
            Crash(effects, "seed" if seed else "lost", seed, ignored)
            for seed in range(seeds)
            for effects in range(min(ignored), (self.end or self.disk.effects) + 1)
        )
        return distinct(crashes, self.disk)

    def is_missed(self, barrier: str) -> bool:
        """Whether some crash breaks a promise when syncs of that name do nothing."""
        for crash in self.crashes(barrier, SEEDS):
            try:
                self.check(crash)
            # an open that fails breaks a promise too, and so does what is looked up and not there
            except (AssertionError, SegstoreError, LookupError):
                self.check(crash._replace(ignored=()))  # which the syncs prevent
                return True
        return False

    def saves_work(self, barrier: str) -> bool:
        """Whether some crash makes more work without, and none breaks a promise."""
        more = False
        for crash in self.crashes(barrier, SEEDS):
            if more and crash.seed >= FEW_SEEDS:
                break
            with_sync = self.check(crash._replace(ignored=()))
            without = self.check(crash)
            assert isinstance(with_sync, int)
            assert isinstance(without, int)
            more |= without > with_sync
        return more


def operations(*kinds: str | tuple[str, int]) -> list[Operation]:
    return [Operation(kind) if isinstance(kind, str) else Operation(*kind) for kind in kinds]


def script(settings: Settings, *kinds: str | tuple[str, int]) -> Scene:
    """Return the scene of a script; the model says what a crash may leave of the log."""
    run = run_script(operations(*kinds), settings)
    return Scene(run.disk, partial(check_crash, run))


def working(settings: Settings, *kinds: str | tuple[str, int]) -> Scene:
    """Return the scene of a script whose check counts what the next open has to do."""
    run = run_script(operations(*kinds), settings)

    def check(crash: Crash) -> int:
        check_crash(run, crash)
        return work_of_open(crash.image(run.disk), settings)

    return Scene(run.disk, check)


def leaving(endings: tuple[str, ...], settings: Settings, *kinds: str | tuple[str, int]) -> Scene:
    """Return the scene of a script whose check counts files that a crash leaves."""
    run = run_script(operations(*kinds), settings)

    def check(crash: Crash) -> int:
        check_crash(run, crash)
        return files_left(crash.image(run.disk), endings)

    return Scene(run.disk, check)


def files_left(disk: SimulatedDisk, endings: tuple[str, ...]) -> int:
    """Count the files whose names end so."""
    return sum(name.endswith(endings) for name in Directory(PATH, disk).names())


def work_of_open(disk: SimulatedDisk, settings: Settings) -> int:
    """Count what an open reads, makes anew and removes, and what it warns of.

    And the transaction indexes that are to be made anew behind it.
    """
    with closing(settings.open(disk)) as log:
        report = log.report
        report.rebuilt += log.rebuild_transaction_indexes()
        work = report.scanned_bytes + report.truncated_bytes + (not report.clean)
        return work + len(report.rebuilt) + len(report.removed) + len(report.warnings)


def opened_again(run: Run, crash: Crash) -> Scene:
    """Return the scene of an open behind a crash: what it has found stays."""
    disk = crash.image(run.disk)
    return opening(disk, run.settings, possible_states(run, crash.effects))


def opening(disk: SimulatedDisk, settings: Settings, states: list | None = None) -> Scene:
    """Return the scene of an open: when it has returned, what it has found is on the disk.

    *states*: what a crash within it may leave; None = what it finds in the end.
    """
    looked: Looked = look(disk, settings)

    def check(crash: Crash) -> None:
        found = look(crash.image(disk), settings).found
        if crash.effects >= looked.effects or states is None:
            assert found == looked.found
        else:
            check_found(found, states)

    return Scene(disk, check)


def new_disk() -> SimulatedDisk:
    """Return an empty disk, at the time of the records."""
    disk = SimulatedDisk()
    disk.wall_clock_ms = START_MS
    return disk


def open_log(
    disk: SimulatedDisk, path: str = PATH, scheduler: ManualScheduler | None = None, **settings
) -> UnifiedLog:
    """Open a log of a disk with other settings than those of scripts."""
    chosen = scheduler or ManualScheduler()
    usual = {"durability": "none", "segment_ms": None, "segment_index_bytes": 4096}
    options = open_options(**usual | settings)
    return open_partition(
        path, options, LogEnvironment(environment=disk, background=lambda *_: chosen)
    )
