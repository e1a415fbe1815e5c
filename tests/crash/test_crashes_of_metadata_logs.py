"""Snapshots, deletions and truncations of a metadata log before a crash [DUR-145]."""

from __future__ import annotations

import random
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory, SimulatedDisk
from segstore.errors import DiskFullError, SegstoreError
from segstore.log.files.metadata_image_reader import read_metadata_image
from segstore.manager.log_manager import LogManager
from segstore.manager.metadata_writing import write_metadata_log
from segstore.raft.offset_and_epoch import OffsetAndEpoch
from tests.crash.barrier_scene import new_disk
from tests.crash.barrier_scenes_of_directories import SMALL_SEGMENTS, raft_environment
from tests.crash.crash_check import Crash, distinct
from tests.crash.crash_script import START_MS
from tests.crash.failing_scenarios_of_managers import living_on
from tests.kits.raft_kit import append_singly, check_covered, commit, open_raft, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.raft.metadata_log import MetadataLog

FATES = ("lost", "kept", "killed")
SETTINGS = {**SMALL_SEGMENTS, "metadata_max_retention_bytes": 700}


class History:
    """A metadata log that is driven at random, and what it has promised."""

    def __init__(self, seed: int, disk: SimulatedDisk | None = None) -> None:
        self.disk = SimulatedDisk() if disk is None else disk
        self.disk.wall_clock_ms = START_MS
        self.chance = random.Random(seed)
        self.epoch = 1
        self.log = self.open()
        self.promises: list[tuple[int, int]] = []
        """Effects, and what was flushed and committed then: all below is in log or snapshot."""

    def open(self) -> MetadataLog:
        return open_raft("/data", log_environment=raft_environment(self.disk), **SETTINGS)

    @property
    def end(self) -> int:
        return self.log.end_offset.message_offset

    def step(self) -> None:
        """Do one thing."""
        operation = self.chance.choice(
            [
                *2 * [self.append, self.commit, self.snapshot],
                *(self.clean, self.delete, self.new_epoch),
                *(self.truncate, self.leave, self.download),
            ]
        )
        operation()

    def append(self) -> None:
        append_singly(self.log, self.chance.randint(1, 3), self.epoch)

    def commit(self) -> None:
        self.log.flush()
        commit(self.log)
        self.promises.append((self.disk.effects, self.end))

    def snapshot(self) -> None:
        offset = self.chance.randint(self.log.start_offset, self.log.high_watermark.message_offset)
        epoch = self.log.end_offset_for_epoch(self.epoch).epoch
        try:
            snapshot(self.log, offset, epoch)
        except (SegstoreError, AssertionError):  # there is none of that epoch, or it exists
            return

    def leave(self) -> None:
        raw = self.log.create_new_snapshot_unchecked(OffsetAndEpoch(self.end + 5, self.epoch))
        if raw is not None:
            raw.append(b"half a snapshot")

    def clean(self) -> None:
        self.log.maybe_clean()

    def delete(self) -> None:
        for snapshot_id in self.log.snapshot_ids[-2:]:
            if snapshot_id.offset <= self.log.high_watermark.message_offset:
                self.log.delete_before_snapshot(snapshot_id)

    def new_epoch(self) -> None:
        self.epoch += 1
        self.log.initialize_leader_epoch(self.epoch)

    def truncate(self) -> None:
        self.log.truncate_to(self.chance.randint(self.log.high_watermark.message_offset, self.end))

    def download(self) -> None:
        """Take a snapshot of the leader that is ahead, and begin there."""
        if self.chance.random() < 0.5:
            self.epoch += 1
            snapshot(self.log, self.end + 3, self.epoch, unchecked=True)
            self.log.truncate_to_latest_snapshot()
            self.promises.append((self.disk.effects, self.end))

    def check(self, crash: Crash) -> None:
        """Open what a crash has left."""
        image = crash.image(self.disk)
        promised = max(
            (end for effects, end in self.promises if effects <= crash.effects), default=0
        )
        log = open_raft("/data", log_environment=raft_environment(image), **SETTINGS)
        try:
            check_covered(log)
            assert log.incomplete_snapshots == ()
            latest = log.latest_snapshot_id()
            known_to = max(log.end_offset.message_offset, 0 if latest is None else latest.offset)
            assert known_to >= promised
        finally:
            log.close_quietly()


@pytest.mark.parametrize("seed", range(12))
def test_what_is_below_the_log_start_is_in_a_whole_snapshot(
    seed: int, one_in: Callable[[int], int]
):
    """[DUR-145, RAFT-16, RAFT-17, RAFT-27, RAFT-31] At each crash point, with six draws of it."""
    history = History(seed)
    for _ in range(25):
        history.step()
    history.log.close_quietly()
    disk = history.disk
    for effects in range(1, disk.effects + 1, one_in(7)):
        drawn = [Crash(effects, "seed", number) for number in range(3)]
        for crash in distinct([*drawn, *(Crash(effects, fate) for fate in FATES)], disk):
            history.check(crash)


def test_a_full_disk_makes_no_snapshot():
    """[DUR-145, DUR-30] The snapshot that was begun is removed; the log is as before."""
    history = History(0)
    append_singly(history.log, 3, 1)
    history.commit()
    raw = history.log.create_new_snapshot(OffsetAndEpoch(3, 1))
    assert raw is not None
    history.disk.set_room(10)
    with raw, pytest.raises(DiskFullError):
        raw.append(bytes(100))
    history.disk.set_room(None)

    assert history.log.snapshot_ids == ()
    snapshot(history.log, 3, 1)
    check_covered(history.log)
    history.log.close_quietly()


def test_a_metadata_log_is_written_whole_or_not_at_all():
    """[DUR-145] After a crash anywhere: no part of it, and no ``meta.properties`` before it.

    A broker that finds less than all topics takes the partitions of the others for stray.
    """
    disk = new_disk()
    with living_on(disk), LogManager("/logs") as manager:
        for name in ("clicks", "orders"):
            manager.create_topic(name)
    before = disk.effects
    with living_on(disk):
        write_metadata_log("/logs", environment=disk)
    outcomes = set()
    for effects in range(before, disk.effects + 1):
        drawn = [Crash(effects, "seed", number) for number in range(3)]
        for crash in distinct([*drawn, *(Crash(effects, fate) for fate in FATES)], disk):
            image = crash.image(disk)
            with closing(Directory("/logs", image)) as directory:
                is_there = directory.exists("__cluster_metadata-0")
                has_properties = directory.exists("meta.properties")
            assert is_there or not has_properties
            if is_there:
                assert [*read_metadata_image("/logs", image).topics] == ["clicks", "orders"]
            elif effects % 5 == 0:
                with living_on(image):
                    again = write_metadata_log("/logs", environment=image)
                assert again.topics == ("clicks", "orders")
            outcomes.add((is_there, has_properties))
    assert outcomes == {(False, False), (True, False), (True, True)}


def test_a_power_cut_after_a_killed_process(one_in: Callable[[int], int]):
    """[DUR-145, RAFT-23, RAFT-27] What the next process relies on is on the disk before it does.

    A snapshot whose name was not synced by the process that was killed: the next one begins at it,
    and deletes what it has.
    """
    killed = History(0)
    killed.append()
    killed.commit()
    end = killed.end
    snapshot(killed.log, end, 1)
    snapshot(killed.log, end + 4, 2, unchecked=True)
    killed.log.truncate_to_latest_snapshot()
    killed.log.close_quietly()
    looked_at = 0
    for kill in range(1, killed.disk.effects + 1, one_in(11)):
        following = History(0, killed.disk.crash_image(kill, fate="killed"))
        began = following.disk.effects
        following.promises = [one for one in killed.promises if one[0] <= kill]
        commit(following.log)
        following.delete()
        append_singly(following.log, 1, 3)
        following.log.close_quietly()
        for effects in range(began, following.disk.effects + 1, one_in(3)):
            for fate in ("lost", "kept"):
                following.check(Crash(effects, fate))
                looked_at += 1
    assert looked_at > 50
