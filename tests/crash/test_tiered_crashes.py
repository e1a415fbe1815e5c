"""Crashes of a log, its remote metadata and a remote store that fails, all at one instant.

`python -m tests.crash.tiered_history FIRST LAST` explores more seeds.
"""

from __future__ import annotations

import random

import pytest

from segstore._core import Directory, SimulatedDisk
from tests.crash.crash_script import START_MS
from tests.crash.tiered_history import LOGS, Explored, History, Tiered, explore
from tests.kits.simulated_remote_store import SimulatedRemoteStore

PARTS = 4
SEEDS_OF_A_PART = 6


@pytest.mark.parametrize("part", range(PARTS))
def test_copies_expiration_and_local_deletion_before_a_crash(part: int):
    """[DUR-140, DUR-142, DUR-143, DUR-144, TIER-38] All that was acknowledged is read, once."""
    seeds = range(part * SEEDS_OF_A_PART, (part + 1) * SEEDS_OF_A_PART)
    found = [explore(seed, steps=40, crashes=12) for seed in seeds]
    came_to = Explored(*map(sum, zip(*found, strict=True)))
    assert came_to.faults
    assert came_to.remote > 5
    assert came_to.interrupted


def test_a_kill_at_every_step_of_a_copy_and_what_follows():
    """[DUR-142] A copy, a deletion of local segments, an expiration: each effect is a crash."""
    history = History(1, fault_rate=0)
    for _ in range(4):
        history.append()
        history.roll()
        history.note()
    begin = history.disk.effects
    for operation in (history.copy, history.delete_local, history.wait, history.wait):
        operation()
        history.note()
    history.expire()
    history.note()
    end = history.disk.effects
    history.tiered.close()
    for effects in range(begin, end + 1):
        for fate in ("lost", "killed", "seed"):
            history.check_crash(effects, fate, effects)
    assert history.remote
    assert history.interrupted


@pytest.mark.parametrize("durability", ["none", "messages=100", "seconds=1000"])
def test_no_copy_has_records_that_a_power_cut_takes(durability: str):
    """[DUR-4, DUR-140] The segment is durable before its copy begins, whatever syncs it else."""
    disk = SimulatedDisk()
    disk.wall_clock_ms = START_MS
    Directory(LOGS, disk, create=True).close()
    store = SimulatedRemoteStore(disk, random.Random(1), fault_rate=0)
    tiered = Tiered(disk, store, durability)
    for number in range(4):
        tiered.log.append([(disk.wall_clock_ms, None, b"old%d" % number)])
    tiered.log.roll()
    assert tiered.log.durable_offset < 4
    assert tiered.manager.copy(tiered.log) is None
    assert tiered.log.highest_offset_in_remote_storage == 3
    assert tiered.log.durable_offset == 4
    image = disk.crash_image(disk.effects, fate="lost")
    image.wall_clock_ms = disk.wall_clock_ms
    left = store.after_crash(disk.effects, image, random.Random(2))
    tiered.close()

    tiered = Tiered(image, left, durability)

    assert [record.value for record in tiered.log.scan()] == [b"old%d" % n for n in range(4)]
    tiered.close()


@pytest.mark.parametrize("is_full", [False, True])
def test_a_power_cut_during_a_truncation_leaves_no_copy_for_what_comes_next(*, is_full: bool):
    """[DUR-18, DUR-141] A log that is shorter has begun another leader epoch, at each effect."""
    disk = SimulatedDisk()
    disk.wall_clock_ms = START_MS
    Directory(LOGS, disk, create=True).close()
    store = SimulatedRemoteStore(disk, random.Random(1), fault_rate=0)
    tiered = Tiered(disk, store)
    for number in range(4):
        tiered.log.append([(disk.wall_clock_ms, None, b"old%d" % number)])
        tiered.log.roll()
        tiered.scheduler.run(60)
    assert tiered.manager.copy(tiered.log) is None
    tiered.scheduler.run(60)
    begin = disk.effects
    if is_full:
        tiered.log.truncate_fully_and_start_at(2)
    else:
        tiered.log.truncate_to(1)
    end = disk.effects
    tiered.close()
    shorter = 0
    for effects in range(begin, end + 1):
        for fate in ("lost", "killed", "seed"):
            image = disk.crash_image(effects, fate=fate)
            image.wall_clock_ms = disk.wall_clock_ms
            tiered = Tiered(image, store.after_crash(effects, image, random.Random(2)))
            log = tiered.log
            if log.log_end_offset < 4:
                shorter += 1
                latest = log.leader_epochs[-1]
                assert latest.epoch > 0, (effects, fate)
                assert latest.start_offset <= log.log_end_offset, (effects, fate)
            tiered.close()
    assert shorter > 3
