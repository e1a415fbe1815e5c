"""What a truncation cut must not come back behind what was written since, in a power cut [DUR-17].

Kafka's ``LogSegment.truncateTo`` cuts the file and does not force it (G8 of what its own log can
lose). Here both profiles do; what Kafka's disk may hold is this disk without that sync.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from segstore._core import SimulatedDisk
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from tests.crash.crash_script import PATH, ManualScheduler

if TYPE_CHECKING:
    from segstore import UnifiedLog

LOG = "00000000000000000000.log"
SEEDS = 200
LENGTH = 4096 - 70
"""Of a value: batches end where blocks end, each of which a power cut leaves old or new."""


def value_of(name: str, number: int) -> bytes:
    return f"{name} {number}".encode().ljust(LENGTH, b".")


def open_on(disk: SimulatedDisk) -> UnifiedLog:
    return open_partition(
        PATH,
        open_options(durability="none", segment_ms=None),
        LogEnvironment(environment=disk, background=lambda *_: ManualScheduler()),
    )


def truncated_and_written_again() -> tuple[SimulatedDisk, int]:
    """A disk behind a truncation and an append as large as what was cut, and the sync between."""
    disk = SimulatedDisk()
    log = open_on(disk)
    for number in range(3):
        log.append([(None, value_of("old", number))], timestamp=1)
    log.flush()
    before = disk.effects
    log.truncate_to(1)
    log.append([(None, value_of("new", 1))], timestamp=1)
    log.close_quietly()
    calls = [(disk.event(n).call, disk.event(n).name) for n in range(1, disk.effects + 1)]
    cut = calls.index(("truncate", LOG), before)
    return disk, calls.index(("sync_file", LOG), cut) + 1


def what_a_power_cut_leaves(
    disk: SimulatedDisk, ignored: tuple[int, ...]
) -> set[tuple[bytes, ...]]:
    """The values that an open finds."""
    found = set()
    for seed in range(SEEDS):
        image = disk.crash_image(disk.effects, fate="seed", seed=seed, ignored=ignored)
        with closing(open_on(image)) as opened:
            found.add(tuple(record.value.rstrip(b".") for record in opened))
    return found


def test_an_old_tail_comes_back_behind_new_records_without_the_sync_of_the_cut():
    """[DUR-2, DUR-5, DUR-17, DUR-117]"""
    disk, sync = truncated_and_written_again()
    mixed = (b"old 0", b"new 1", b"old 2")

    found = what_a_power_cut_leaves(disk, ())
    assert found == {(b"old 0",), (b"old 0", b"new 1")}
    without = what_a_power_cut_leaves(disk, (sync,))
    assert mixed in without
    assert (b"old 0", b"old 1", b"old 2") in without
