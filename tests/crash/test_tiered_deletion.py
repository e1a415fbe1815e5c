"""Segments that are in remote storage are deleted here; a crash leaves all or a suffix of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory, SimulatedDisk
from segstore.log.findings.finding import Records
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from tests.crash.crash_script import PATH, START_MS, ManualScheduler
from tests.kits.log_kit import offsets, singleton
from tests.kits.remote_kit import TIERED, RemoteRecords

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import UnifiedLog

COUNT = 9
SIZE = len(singleton())


def open_log(disk: SimulatedDisk, *, tiered: bool = True) -> tuple[UnifiedLog, ManualScheduler]:
    """Open the log of one-record segments, of which the newest two are to stay here."""
    scheduler = ManualScheduler()
    options = open_options(
        durability="none",
        internal_segment_bytes=SIZE,
        segment_ms=None,
        retention_ms=None,
        local_retention_bytes=2 * SIZE,
        remote_log_reader=RemoteRecords() if tiered else None,
        remote_log_delete_on_disable=not tiered,
        **TIERED,
    )
    log_environment = LogEnvironment(environment=disk, background=lambda *_: scheduler)
    return open_partition(PATH, options, log_environment), scheduler


@pytest.fixture(scope="module")
def run() -> tuple[SimulatedDisk, list[tuple[int, int, int]]]:
    """A disk, and (effects, uploaded up to, begins here) behind each deletion."""
    disk = SimulatedDisk()
    disk.wall_clock_ms = START_MS
    log, scheduler = open_log(disk)
    for _ in range(COUNT):
        log.append_as_leader(singleton(), 0)
    log.flush()
    promises = [(disk.effects, -1, 0)]
    for uploaded in (3, 5, 8):
        log.update_highest_offset_in_remote_storage(uploaded)
        assert len(log.delete_old_segments()) > 0
        promises.append((disk.effects, uploaded, log.local_log_start_offset))
    assert [begin for _, _, begin in promises] == [0, 4, 6, 7]
    scheduler.run(3600)
    log.close_quietly()
    return disk, promises


@pytest.fixture
def seeds(one_in: Callable[[int], int]) -> range:
    """What is lost is drawn so many times at each effect."""
    return range(0, 8, one_in(4))


def images(disk: SimulatedDisk, begin: int, seeds: range):
    for effects in range(begin, disk.effects + 1):
        yield effects, disk.crash_image(effects, fate="lost")
        for seed in seeds:
            yield effects, disk.crash_image(effects, fate="seed", seed=seed)


def begins(disk: SimulatedDisk) -> list[int]:
    """Base offsets of the files that the crash has left."""
    names = Directory(PATH, disk).names()
    return sorted(int(name.partition(".")[0]) for name in names if name.endswith(".log"))


def test_what_is_here_is_whole(run, seeds):
    """[DUR-19, LDR-9, LST-5] nothing is missing in the midst, and nothing that was not uploaded."""
    disk, promises = run
    holes = 0
    for effects, image in images(disk, promises[0][0], seeds):
        done = max(number for number, one in enumerate(promises) if one[0] <= effects)
        least = promises[done][2]
        most = promises[min(done + 1, len(promises) - 1)][2]
        there = begins(image)
        holes += there != list(range(there[0], COUNT))
        for _ in range(2):
            log, _ = open_log(image)
            begin = log.local_log_start_offset
            assert least <= begin <= most, effects
            assert (log.log_start_offset, log.log_end_offset) == (0, COUNT)
            assert offsets(log.scan(begin)) == list(range(begin, COUNT))
            found = log.verify()
            # a snapshot that nobody needed may be torn
            assert {one.records for one in found.findings} <= {Records.NONE}, effects
            log.close_quietly()
    assert holes  # a crash between the renames: only `.segstore` tells what is to go


def test_who_reads_shows_no_hole(run, seeds):
    """[DUR-19, DUR-71]"""
    disk, promises = run
    for _, image in images(disk, promises[0][0], seeds):
        options = open_options(read_only=True)
        log = open_partition(PATH, options, LogEnvironment(environment=image))
        found = offsets(log)
        assert found == list(range(found[0], COUNT))
        assert log.log_start_offset == found[0]
        assert all("are in remote storage" in one for one in log.report.warnings)
        log.close()


def test_an_ordinary_open_gives_nothing_up(run, seeds):
    """[DUR-26, LDR-9] whatever a crash has left."""
    disk, promises = run
    for _, image in images(disk, promises[-1][0], seeds):
        log = open_partition(PATH, open_options(retention_ms=0), LogEnvironment(environment=image))
        assert (log.log_start_offset, log.local_log_start_offset) == (0, promises[-1][2])
        assert len(log.delete_old_segments()) == 0
        log.close()
        log, _ = open_log(image)
        assert (log.log_start_offset, log.log_end_offset) == (0, COUNT)
        log.close_quietly()


def test_a_log_without_its_remote_part_begins_where_it_does_here(run, seeds):
    """[LDR-9, UNI-2] where that is said to be given up."""
    disk, promises = run
    for _, image in images(disk, promises[-1][0], seeds):
        log, _ = open_log(image, tiered=False)
        assert log.log_start_offset == log.local_log_start_offset == promises[-1][2]
        assert offsets(log) == list(range(log.log_start_offset, COUNT))
        log.close_quietly()
