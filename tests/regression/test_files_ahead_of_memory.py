"""Ctrl-C behind a call that wrote a small file: the file was ahead of memory, which decides.

A truncation lowered no log start and no recovery point that only the disk knew: acknowledged
records were gone behind a crash, or the log could not be opened. A permitted gap that nobody had
filled hid lost records, and a snapshot that nobody knew outlived its records. The other way round,
segments that only memory had taken out lay where a truncation made new ones.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from typing import NamedTuple

import pytest

from segstore import UnifiedLog
from segstore._core import Directory, SimulatedDisk
from segstore.errors import DiskFullError, LogReadOnlyError
from segstore.log.files.checkpoints import LogState
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
from segstore.log.files.log_state_file import LogStateFile
from segstore.log.producers.snapshot_file import SnapshotFile
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.interrupts import interrupts
from tests.kits.log_kit import at, bases, offsets, singleton
from tests.kits.remote_kit import TIERED, RemoteRecords

Act = Callable[[UnifiedLog], object]

ACTS: dict[str, Act] = {
    "delete_records": lambda log: log.delete_records(4),
    "delete_records of two segments": lambda log: log.delete_records(5),
    "flush": lambda log: log.flush(),
    "gap": lambda log: log.append_as_follower(at(log.log_end_offset + 9), 0),
    "epoch": lambda log: log.append_as_follower(at(log.log_end_offset, epoch=3), 3),
    "assign epoch": lambda log: log.assign_epoch_start_offset(3, log.log_end_offset),
    "truncate_to": lambda log: log.truncate_to(5),
    "truncate_fully_and_start_at, ahead": lambda log: log.truncate_fully_and_start_at(12),
    "truncate_fully_and_start_at, back": lambda log: log.truncate_fully_and_start_at(1),
    "roll": lambda log: log.roll(),
}
ONE = [(None, b"acknowledged")]


def truncate_and_append(log: UnifiedLog) -> None:
    log.truncate_to(4)
    for _ in range(2):
        log.append(ONE)


def append_and_roll(log: UnifiedLog) -> None:
    log.append(ONE)
    log.roll()
    log.append(ONE)


def truncate_at_the_end(log: UnifiedLog) -> None:
    """Only what is said of epochs can change."""
    log.truncate_to(log.log_end_offset)
    log.append(ONE)


FOLLOWING = [truncate_and_append, append_and_roll, truncate_at_the_end]


def write_three_segments(log: UnifiedLog) -> None:
    for number in range(6):
        if number in {2, 4}:
            log.roll()
        log.append([(None, b"%d" % number)] if number else [(None, b"0")] * 2)


class Scene:
    """A log on a disk of its own, made anew for each interrupt of *act*."""

    def __init__(self, act: Act, write: Act = write_three_segments, **settings: object) -> None:
        self._act = act
        self._write = write
        self._settings = {"durability": "sync", **settings}

    def places(self) -> Iterator[str]:
        """Yield where *act* was interrupted, behind each call in turn."""
        for place in interrupts(self.begin):
            yield place
            self.log.close_quietly()
        self.log.close_quietly()

    def begin(self) -> Callable[[], object]:
        """Make it anew; returns what is to be interrupted."""
        self.disk = new_disk()
        self.log = log = open_log(self.disk, **self._settings)
        self._write(log)
        return lambda: self._act(log)

    def opened(self, fate: str = "killed", seed: int = 0) -> AbstractContextManager[UnifiedLog]:
        """Open what a crash leaves."""
        return closing(open_log(self.disk.crash_image(fate=fate, seed=seed), **self._settings))


class Contents(NamedTuple):
    """What a user of a log sees."""

    records: list[tuple[int, bytes | None]]
    log_start_offset: int
    log_end_offset: int
    latest_epoch: int | None


def contents(log: UnifiedLog) -> Contents:
    records = [(record.offset, record.value) for record in log]
    return Contents(records, log.log_start_offset, log.log_end_offset, log.latest_epoch)


def producers_of(log: UnifiedLog) -> list[tuple[int, int]]:
    return [(one.producer_id, one.last_sequence) for one in log.active_producers()]


def is_tied(disk: SimulatedDisk, path: str) -> bool:
    """Whether ``.segstore`` counts, by the epochs of the same disk."""
    directory = Directory(path, disk)
    state = LogState.read(directory)
    epochs = LeaderEpochFileCache.read(directory, writable=False)
    return state is not None and state.fits(None if epochs is None else epochs.latest_entry)


@pytest.mark.parametrize("follow", FOLLOWING, ids=lambda follow: follow.__name__)
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_what_comes_behind_an_interrupt_is_kept(act, follow):
    """[DUR-1, DUR-5, DUR-16, DUR-18, DUR-19] Acknowledged is what a crash leaves, and it opens."""
    scene, writable = Scene(act), 0
    for place in scene.places():
        expected = None
        with suppress(LogReadOnlyError):  # a truncation that had begun to cut
            follow(scene.log)
            expected = contents(scene.log)
            writable += 1
        for fate in ("killed", "lost"):
            assert is_tied(scene.disk.crash_image(fate=fate), scene.log.path), place
            with scene.opened(fate) as found:
                assert expected is None or contents(found) == expected, place
    assert writable


def test_a_permitted_gap_that_nobody_filled_hides_none():
    """[DUR-1, DUR-2, DUR-64] Lost records are noticed, whatever the crash has left."""
    scene = Scene(ACTS["gap"], durability="none")
    for place in scene.places():
        for _ in range(2):
            append_and_roll(scene.log)
        expected = offsets(scene.log)
        for seed in range(12):
            with scene.opened("seed", seed) as found:
                assert offsets(found) == expected[: len(offsets(found))], (place, seed)


@pytest.mark.parametrize("act", ["delete_records", "gap", "epoch"])
def test_a_close_behind_an_interrupt_marks_what_is_there(act):
    """[DUR-24] The next open finds what this handle has shown, and nothing that never came."""
    scene = Scene(ACTS[act])
    for place in scene.places():
        expected = contents(scene.log)
        scene.log.close()
        state = LogState.read(Directory(scene.log.path, scene.disk))
        assert state is not None
        assert state.contiguous_from <= expected.log_end_offset, place
        with scene.opened() as found:
            assert found.report.clean, place
            assert contents(found)[:3] == expected[:3], place  # of an epoch are records, or none is


def test_a_full_disk_that_keeps_a_file_ahead_refuses_records_alone(monkeypatch):
    """[DUR-30] What makes room is done; records come when there is some."""

    def refuse(*_: object) -> None:
        raise DiskFullError("no space left on the device")

    scene, doubts = Scene(ACTS["gap"]), 0
    for place in scene.places():
        log = scene.log
        if log._metadata.state_file.is_in_doubt:
            doubts += 1
            with monkeypatch.context() as patched:
                patched.setattr(LogStateFile, "_write", refuse)
                assert log.delete_records(4) == 4, place
                with pytest.raises(DiskFullError):
                    log.append(ONE)
                with pytest.raises(DiskFullError):
                    log.truncate_to(5)
            assert (log.append(ONE).base_offset, log.truncate_to(5)) == (7, True), place
    assert doubts


def test_what_a_full_disk_refuses_leaves_no_file_in_doubt():
    """[DUR-30] The old content is there: nothing is to be written again before a truncation."""
    scene = Scene(ACTS["flush"])
    scene.begin()
    log, disk = scene.log, scene.disk
    disk.fail("write_at", 1, errno.ENOSPC, for_ever=True)
    assert (log.flush(), log.recovery_point) == (7, 0)
    for act in ("delete_records", "gap"):
        with pytest.raises(DiskFullError):
            ACTS[act](log)

    assert log.truncate_to(5)
    disk.fail("write_at", 0, errno.ENOSPC)
    assert log.append(ONE).durable_offset == 6
    with scene.opened() as found:
        assert contents(found) == contents(log)
    log.close_quietly()


def test_a_snapshot_that_an_interrupt_left_goes_with_its_records(monkeypatch):
    """[DUR-22, PSM-57, PSM-60] It was not known, stayed, and told of producers that were cut.

    A roll to the same offset writes over it, unless the disk is full then.
    """

    def write(log: UnifiedLog, producer_id: int = 1, count: int = 4) -> None:
        for sequence in range(count):
            batch = singleton(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            log.append_as_leader(batch)

    def refuse(*_: object, **__: object) -> None:
        raise DiskFullError("no space left on the device")

    scene = Scene(ACTS["roll"], write)
    for place in scene.places():
        log = scene.log
        log.truncate_to(1)
        write(log, producer_id=2, count=3)
        with monkeypatch.context() as patched:
            patched.setattr(SnapshotFile, "write", refuse)
            log.roll()
        log.append(ONE)
        log.flush()
        with scene.opened() as found:
            assert producers_of(found) == producers_of(log) == [(1, 0), (2, 2)], place


def test_a_local_log_start_that_no_deletion_followed_takes_none_away():
    """[DUR-26, RET-4] Segments were to go that are in remote storage; others are there by now."""

    def write(log: UnifiedLog) -> None:
        for _ in range(4):
            log.append(ONE)
            log.roll()
        log.update_highest_offset_in_remote_storage(3)

    settings = {"local_retention_bytes": 1, "remote_offset_reader": RemoteRecords(), **TIERED}
    scene = Scene(lambda log: log.delete_old_segments(), write, **settings)
    for place in scene.places():
        log = scene.log
        log.truncate_to(1)
        for _ in range(2):
            append_and_roll(log)
        expected = bases(log), offsets(log)
        with scene.opened() as found:
            assert (bases(found), offsets(found)) == expected, place
