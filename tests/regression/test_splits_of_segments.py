"""Segments whose offsets do not fit are split: what a crash or a failure within that leaves."""

from __future__ import annotations

import errno
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import SegstoreError
from segstore.log.files.partition_directory import file_name
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from tests.crash.barrier_scene import open_log
from tests.crash.barrier_scenes_of_opens import FAR
from tests.crash.crash_check import Crash, distinct, logs_behind_crashes
from tests.crash.crash_script import PATH, ManualScheduler, Settings
from tests.kits.directory_kit import (
    RECOVERY_POINT,
    disk_with,
    far_record,
    name_of,
    records,
    recovery_point,
)
from tests.kits.kafka_loading import close_quietly, load_as_kafka
from tests.kits.log_kit import offsets
from tests.kits.overflow_kit import MAX_INT, SETTINGS, bases, keys
from tests.kits.records_kit import build

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import SimulatedDisk


# ---- batch across the last offset of a segment ---------------------------------------------------
# An overflowed segment whose first batch too far begins where offsets still fit.
#
# Kafka splits it. Here only batches counted as overflow that begin behind what fits: good batches
# were cut as a torn tail, or refused as damage below a recovery point. A mutation run found it: no
# test noticed where the first of them has to begin.


ACROSS = [MAX_INT - 1, MAX_INT + 1]
END = MAX_INT + 6


def batch(*offsets: int) -> bytes:
    return build([(offset, 0, b"%d" % offset, b"") for offset in offsets])


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "topic-0"
    made.mkdir()
    content = batch(0) + batch(*ACROSS) + batch(END - 1)
    (made / file_name(0, "log")).write_bytes(content)
    return made


@pytest.mark.parametrize("point", [None, 0, END])
def test_it_is_split_before_that_batch(folder, new_log, point):
    """[LDR-31, LOC-25, DUR-6, DUR-51] With all records, wherever the recovery point is."""
    written = keys(folder)
    if point is not None:
        checkpoint = folder / "recovery-point-offset-checkpoint"
        checkpoint.write_text(f"0\n1\ntopic 0 {point}\n")

    log = new_log(folder)

    assert bases(folder) == [0, ACROSS[0]]
    assert keys(folder) == written
    assert (log.log_end_offset, log.report.truncated_bytes) == (END, 0)
    assert [record.key for record in log] == written
    assert log.verify().ok


def test_kafka_splits_it_there_too(folder):
    """[LDR-31, LOC-25, DUR-117]"""
    written = keys(folder)

    close_quietly(load_as_kafka(folder, clean=False, settings=SETTINGS))

    assert (bases(folder), keys(folder)) == ([0, ACROSS[0]], written)


# ---- crash within a split ------------------------------------------------------------------------
# A crash may bring any of the renames to the disk that came since the last sync of the directory.
#
# Where a segment is split, the first new segment could be there as ``.swap`` while a later one
# still was ``.cleaned``: the next open took the first for the whole result, put it in the place of
# the old segment, and removed the later one with its records. And where an incomplete set was
# removed, the ``.cleaned`` file that showed it to be incomplete could go first: the open after that
# took the rest for complete, and found segments that reach into each other. Both came up when each
# sync of the engine got a name, and the question what a crash takes without it.
#
# With three new segments the last rename of the middle one could be on the disk alone: between the
# ``.swap`` files of its neighbours it was taken for a segment that they replace, and removed.


LARGE = Settings(segment_bytes=100_000)
FAR_OFFSET = 2**31 + 10
SEEDS_OF_SPLITS = 12


@pytest.mark.parametrize("synced", [0, 2])
def test_no_record_of_a_split_segment_goes(synced: int):
    """[DUR-1, DUR-20] Whatever of the split is there."""
    content = far_record(0) + far_record(1) + far_record(FAR_OFFSET) + far_record(FAR_OFFSET + 1)
    disk = disk_with({name_of(0): content, RECOVERY_POINT: recovery_point(synced)})
    begin = disk.effects
    log = LARGE.open(disk)
    assert [segment.base_offset for segment in log.segments()] == [0, FAR_OFFSET]
    log.close_quietly()

    for crash, found in logs_behind_crashes(LARGE, disk, begin, SEEDS_OF_SPLITS):
        assert offsets(found.scan()) == [0, 1, FAR_OFFSET, FAR_OFFSET + 1], crash


def replaced(count: int) -> SimulatedDisk:
    """Return a disk with a segment of three batches a new one, and those that replace it."""
    return disk_with(
        {
            name_of(0): records(0, 3 * count),
            **{name_of(3 * k, "log.swap"): records(3 * k, 3 * k + 3) for k in range(count)},
            RECOVERY_POINT: recovery_point(3 * count),
        }
    )


def overflowing(count: int) -> SimulatedDisk:
    """Return a disk with a segment that is split in so many."""
    content = b"".join(
        far_record(k * FAR_OFFSET) + far_record(k * FAR_OFFSET + 1) for k in range(count)
    )
    end = (count - 1) * FAR_OFFSET + 2
    return disk_with({name_of(0): content, RECOVERY_POINT: recovery_point(end)})


@pytest.mark.parametrize("disk_of", [replaced, overflowing])
def test_no_new_segment_is_taken_for_an_old_one(disk_of: Callable[[int], SimulatedDisk]):
    """[DUR-1, DUR-20, DUR-55] Its last name may be on the disk before those of its neighbours."""
    disk = disk_of(3)
    begin = disk.effects
    log = LARGE.open(disk)
    expected = offsets(log.scan())
    log.close_quietly()
    assert len(expected) >= 6

    for crash, found in logs_behind_crashes(LARGE, disk, begin, SEEDS_OF_SPLITS):
        assert offsets(found.scan()) == expected, crash


def test_a_reader_takes_no_new_segment_for_an_old_one():
    """[DUR-55, DUR-71] Of three of a set, the one in the middle has its last name."""
    files = {
        name_of(0, "log.swap"): records(0, 3),
        name_of(3): records(3, 6),
        name_of(6, "log.swap"): records(6, 9),
        name_of(9): records(9, 10),
    }
    with closing(LARGE.open(disk_with(files), read_only=True)) as log:
        assert offsets(log.scan()) == list(range(10))


@pytest.mark.parametrize("synced", [0, 6])
def test_an_incomplete_set_stays_incomplete(synced: int):
    """[DUR-20, DUR-55, DUR-56] Also when a crash takes part of what removed it."""
    disk = disk_with(
        {
            name_of(0): records(0, 6),
            name_of(0, "log.cleaned"): records(0, 3),
            name_of(3, "log.swap"): records(3, 6),
            RECOVERY_POINT: recovery_point(synced),
        }
    )
    begin = disk.effects
    LARGE.open(disk).close_quietly()

    for crash, found in logs_behind_crashes(LARGE, disk, begin, SEEDS_OF_SPLITS):
        sizes = [(one.base_offset, one.size_bytes) for one in found.segments()]
        assert offsets(found.scan()) == list(range(6)), crash
        assert sizes == [(0, len(records(0, 6)))], crash


# ---- split of a segment that begins behind its name ----------------------------------------------
# A split whose first new segment has another name than the old one could not be broken off.
#
# Offsets of a segment that begins with a gap, as compaction leaves them, are above its name; the
# first new one has that of the first batch. Until the old one is gone it lies before them all: the
# next open took neither for what the other replaces, found segments that reach into each other, and
# refused the log. A failing call at the last renames was enough.


SEEDS_OF_GAPS = 4
SPLITS = [
    (10, FAR_OFFSET + 10),
    (10, 11, FAR_OFFSET + 10, 2 * FAR_OFFSET + 10),
    (FAR_OFFSET + 10, 2 * FAR_OFFSET + 20),
]


@pytest.mark.parametrize("synced", [0, 3 * FAR_OFFSET])
@pytest.mark.parametrize("split", SPLITS)
def test_it_is_there_whatever_of_the_split_is(split: tuple[int, ...], synced: int):
    """[DUR-1, DUR-20, DUR-56] For a reader, for the next writer, and for a reader behind him."""
    expected = [1, *split, 3 * FAR_OFFSET]
    files = {
        name_of(1): far_record(1),
        name_of(5): b"".join(far_record(offset) for offset in split),
        name_of(3 * FAR_OFFSET): far_record(3 * FAR_OFFSET),
    }
    point = {RECOVERY_POINT: recovery_point(synced)} if synced else {}
    disk = disk_with({**files, **point})
    begin = disk.effects
    with closing(LARGE.open(disk)) as log:
        assert offsets(log.scan()) == expected

    crashes = [
        Crash(number, "seed" if seed else "lost", seed)
        for number in range(begin, disk.effects + 1)
        for seed in range(2)
    ]
    for crash in distinct(crashes, disk):
        with closing(LARGE.open(crash.image(disk), read_only=True)) as reader:
            shown = offsets(reader.scan())
            assert shown == expected[: len(shown)], crash
    for crash, found in logs_behind_crashes(LARGE, disk, begin, SEEDS_OF_GAPS):
        assert offsets(found.scan()) == expected, crash


# ---- split that fails ----------------------------------------------------------------------------
# A split that failed behind its commit took back the new segments, which were in place already.
#
# The old one was gone by then: a rename or a sync that failed once, and all of its records were
# deleted, in both profiles (Kafka's ``splitOverflowedSegment`` does the same).


OFFSETS = [0, 1, FAR, FAR + 1]
SMALL_INDEXES = {"segment_index_bytes": 4096}


def offsets_behind(call: str, nth: int, recovery: str) -> list[int] | None:
    """What a log has whose split met a failure and was tried again; None = it met none."""
    content = b"".join(far_record(offset) for offset in OFFSETS)
    disk = disk_with({name_of(0): content, RECOVERY_POINT: recovery_point(FAR + 2)})
    disk.fail(call, nth, errno.EIO)
    try:
        open_log(disk, recovery=recovery, **SMALL_INDEXES).close_quietly()
    except SegstoreError:
        disk.fail(call, 0, 0)
        with closing(open_log(disk, recovery=recovery, **SMALL_INDEXES)) as log:
            return [record.offset for record in log.scan()]
    return None


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
@pytest.mark.parametrize("call", ["rename", "sync_directory", "open_file", "write_at", "sync_data"])
def test_the_records_are_there_when_the_split_is_tried_again(call: str, recovery: str):
    """[DUR-6, DUR-20, DUR-56]"""
    failed = 0
    for nth in range(1, 40):
        offsets = offsets_behind(call, nth, recovery)
        if offsets is not None:
            failed += 1
            assert offsets == OFFSETS, nth

    assert failed > 0


# ---- reader of swap files ------------------------------------------------------------------------
# A reader of a log whose compaction was interrupted: some segments are ``.swap`` files still.
#
# Where the last one was, every read failed: the log had been cut by its writer. And a refresh
# forgot all that was in such files.


swap_of = partial(name_of, ending="log.swap")
HALF_RENAMED = {
    swap_of(0): records(0, 3),
    name_of(3): records(3, 6),
    swap_of(6): records(6, 9),
    name_of(9): records(9, 10),
}
ONE_MADE_TWO = {
    name_of(0): records(0, 6),
    swap_of(0): records(0, 3),
    swap_of(3): records(3, 6),
    name_of(6): records(6, 9),
}
LAST = {name_of(0): records(0, 3), swap_of(3): records(3, 6)}
LAST_BESIDE_THE_OLD = {**LAST, name_of(3): records(3, 9)}


def open_swap_log(disk, *, read_only):
    log_environment = LogEnvironment(environment=disk, background=lambda *_: ManualScheduler())
    return open_partition(PATH, open_options(read_only=read_only, segment_ms=None), log_environment)


def offsets_in(log):
    return [record.offset for record in log.scan()]


@pytest.mark.parametrize(
    "files",
    [HALF_RENAMED, ONE_MADE_TWO, LAST, LAST_BESIDE_THE_OLD],
    ids=["half renamed", "one made two", "the last", "the last, beside the old one"],
)
def test_a_reader_of_swap_files_sees_what_a_writer_will(files):
    """[DUR-71, DUR-77] Before that comes, and behind it."""
    first = max(map(int, (name[:20] for name in files)))
    disk = disk_with({**files, RECOVERY_POINT: recovery_point(first)})
    twin = open_swap_log(disk.crash_image(fate="kept"), read_only=False)
    expected = offsets_in(twin)
    twin.close()

    reader = open_swap_log(disk, read_only=True)
    assert offsets_in(reader) == expected
    reader.refresh()
    assert offsets_in(reader) == expected
    with open_swap_log(disk, read_only=False) as writer:
        assert offsets_in(reader) == expected
        assert offsets_in(writer) == expected
        writer.append([(None, b"more")])
        assert reader.refresh() == expected[-1] + 2
        assert offsets_in(reader) == [*expected, expected[-1] + 1]
        assert not any(segment.suffix for segment in reader.segments())
        assert writer.truncate_to(expected[-1])
        with pytest.raises(segstore.LogTruncatedError):
            reader.refresh()
        assert offsets_in(reader) == expected[:-1]
    reader.close()
