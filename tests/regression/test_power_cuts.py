"""What a power cut leaves: names and bytes reach the disk in any order."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore._core import Barrier, DataFile, Directory, RecordsBuilder, SimulatedDisk
from segstore.errors import (
    CorruptLogError,
    DiskFullError,
    FsyncFailedError,
    LogNotFoundError,
    LogPermissionError,
    LogReadOnlyError,
)
from segstore.log.files import parent_directory_sync
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_STATE,
    LogState,
)
from segstore.log.files.topic_directories import make_log_directory
from segstore.log.local import local_log
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.manager.log_manager import LogManager
from segstore.records.compression import codec_table
from segstore.types import EpochEntry
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.crash_check import Crash, check_crash, check_crashes, look
from tests.crash.crash_model import Operation
from tests.crash.crash_script import PATH, ManualScheduler, Run, Settings, run_script
from tests.crash.failing_scenarios_of_managers import living_on
from tests.kits.directory_kit import RECOVERY_POINT, disk_with, name_of, records
from tests.kits.log_kit import PATIENCE_SECONDS, TIME, at, batch, offsets, values
from tests.kits.manager_kit import close_logs_quietly

if TYPE_CHECKING:
    from segstore import UnifiedLog


# ---- crash before names are synced ---------------------------------------------------------------
# The name of a new segment was not on the disk when something that relied on it was.
#
# A log lost nothing, and yet could not be opened any more, or began behind its records [DUR-13,
# DUR-19, DUR-54]. Found by tests/c/crash: `flush flush kill truncate_to(0) append(4,70)
# truncate_to(1) roll close`, crash 41,seed,6821954031457973091; `flush append(4,520) roll flush
# background append(3,1100) background new_epoch append(2,70) append(3,130) truncate_to(11)
# append(2,520) new_epoch truncate_to(11) background`, crash 63,seed,10614315259177753262;
# `background roll append(3,1100) close delete_records(3) append(4,1100) append(1,200) kill`, crash
# 54,seed,2596151849194968605.


SCRIPTS_OF_NAMES = {
    "the recovery point of a clean stop, behind a hole and a roll": [
        Operation("append", 3),
        Operation("truncate_to", 1),
        Operation("roll"),
        Operation("close"),
    ],
    "the recovery point of the background, behind a segment that was emptied": [
        Operation("append", 3),
        Operation("append", 3),
        Operation("truncate_to", 4),
        Operation("roll"),
        Operation("append", 1),
        Operation("truncate_to", 4),
        Operation("background"),
    ],
    "an open takes away what was deleted": [
        Operation("append", 3),
        Operation("delete_records", 3),
        Operation("roll"),
        Operation("append", 3),
        Operation("roll"),
        Operation("append", 1),
        Operation("kill"),
    ],
    "a deletion takes away the only segment before a new one": [
        Operation("append", 3),
        Operation("delete_records", 3),
        Operation("roll"),
        Operation("delete_records", 3),
    ],
}


@pytest.mark.parametrize("operations", SCRIPTS_OF_NAMES.values(), ids=SCRIPTS_OF_NAMES)
def test_the_log_opens_with_what_it_held(operations: list[Operation]):
    run = run_script(operations, Settings(segment_bytes=100_000))
    last = run.steps[-1]

    check_crashes(run, last.begin, last.end, seeds=60)


# ---- crash behind a preallocated segment ---------------------------------------------------------
# A sealed segment that was preallocated, whose trim a crash undid, ended the log [DUR-1].
#
# What had been acknowledged in the next segment was set aside, or the log was refused as damaged.
# Found by tests/crash: its random script 1112.


SYNCED_AND_PREALLOCATED = Settings("sync", segment_bytes=600, preallocate=True)
FILLING = [Operation("append", 3)] * 4


@pytest.mark.parametrize(
    "behind",
    [
        [Operation("roll"), Operation("append", 1)],
        [Operation("roll"), Operation("flush")],
        [Operation("roll"), Operation("append", 1), Operation("flush"), Operation("append", 1)],
    ],
    ids=["append", "flush", "recovery point"],
)
def test_the_next_segment_goes_on(behind: list[Operation]):
    run = run_script([*FILLING, *behind], SYNCED_AND_PREALLOCATED)
    begin = run.steps[len(FILLING) - 1].end

    check_crashes(run, begin, run.disk.effects, seeds=20)
    for effects in range(begin, run.disk.effects + 1):
        check_crash(run, Crash(effects, "lost"), thoroughly=True)


def test_bytes_that_are_not_zero_are_damage_all_the_same():
    """[DUR-51] Nothing else is taken for padding."""
    run = run_script([*FILLING, Operation("roll"), Operation("flush")], SYNCED_AND_PREALLOCATED)
    image = Crash(run.disk.effects, "kept").image(run.disk)
    directory = Directory(PATH, image)
    name = min(name for name in directory.names() if name.endswith(".log"))
    with DataFile(directory, name) as file:
        file.write(file.size, bytes(90) + b"!")

    with pytest.raises(CorruptLogError, match="no batch"):
        look(image, run.settings)


# ---- crash between epoch and state ---------------------------------------------------------------
# Records that were missing in the midst of a log went unnoticed after a crash [DUR-2, DUR-64].
#
# ``.segstore`` says from where on no offset is missing, and counts only while it fits the epoch
# checkpoint. A crash between the two made it look as if a broker had written the log, and a later
# segment was kept behind lost ones. So it did where the missing records began at the hole that a
# truncation had left. Found by tests/crash: its random scripts 10698 and 19182.


SCRIPTS_OF_EPOCHS = {
    "log start in the epoch checkpoint": [
        Operation("append", 1),
        Operation("append", 2),
        Operation("roll"),
        Operation("append", 2),
        Operation("delete_records", 1),
    ],
    "a new epoch": [
        Operation("append", 2),
        Operation("append", 1),
        Operation("roll"),
        Operation("new_epoch"),
        Operation("append", 1),
    ],
    "hole of a truncation": [
        Operation("append", 2),
        Operation("truncate_to", 1),
        Operation("append", 2),
        Operation("append", 1),
        Operation("roll"),
        Operation("append", 1),
    ],
}


@pytest.mark.parametrize("operations", SCRIPTS_OF_EPOCHS.values(), ids=SCRIPTS_OF_EPOCHS)
def test_no_records_are_missing_in_the_midst(operations: list[Operation]):
    run = run_script(operations, Settings(segment_bytes=100_000))

    check_crashes(run, 0, run.disk.effects, seeds=40)


def test_the_state_fits_the_checkpoint_before_and_after():
    old, new, other = EpochEntry(1, 5), EpochEntry(2, 9), EpochEntry(3, 9)
    state = LogState(0, 0, new, (old,))

    assert LogState.parse(state.format()) == state
    assert [state.fits(entry) for entry in (old, new, other, None)] == [True, True, False, False]
    assert LogState(0, 0, None, ()).fits(None)
    first = LogState(0, 0, new, (None,))
    assert LogState.parse(first.format()) == first
    assert first.fits(None)


# ---- names synced beside a roll ------------------------------------------------------------------
# A sync of names beside a roll counted the name of a segment that was not made yet.
#
# No later sync brought it to stable storage: appends to that segment were acknowledged, and a power
# cut took them.


DURABLE = Settings("sync")  # and no background, which syncs names, too


def test_a_recovery_point_that_is_written_while_a_segment_is_made(monkeypatch):
    """[DUR-3, DUR-11, DUR-13]"""
    disk = SimulatedDisk()
    log = DURABLE.open(disk)
    log.append([(None, b"before")])
    real, started, write = local_log.Segment, [], log._flusher.write_recovery_point
    write()  # else the next one would sync names, too

    def make(*arguments, **options):
        started.append(threading.Thread(target=write))
        started[-1].start()
        started[-1].join(0.2)  # before the name is there, if nothing holds it up
        return real(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(local_log, "Segment", make)
        log.roll()
    started[0].join(PATIENCE_SECONDS)
    assert not started[0].is_alive()
    info = log.append([(None, b"acknowledged")])
    assert info.durable_offset == 2
    image = disk.crash_image(disk.effects, fate="lost")
    log.close()

    with DURABLE.open(image) as found:
        assert [record.value for record in found] == [b"before", b"acknowledged"]


# ---- new segment before the state ----------------------------------------------------------------
# .segstore said no more that a log is being emptied, before the new segment's name was durable.
#
# Of a log without epochs, which no other file syncs: a power cut between left neither, but an old
# index, and every open behind it was refused.


START = 50


def test_the_name_is_synced_before():
    """[DUR-11, DUR-18, DUR-54]"""
    disk = disk_with(
        {
            LOG_STATE: LogState(0, 0, None, is_being_emptied=True).format(),
            name_of(0).replace(".log", ".index"): b"\0\0\0\5\0\0\1\0",
            LOG_START_OFFSET_CHECKPOINT: b"0\n1\ntopic 0 %d\n" % START,
            RECOVERY_POINT: b"0\n1\ntopic 0 0\n",
            LEADER_EPOCH_CHECKPOINT: b"0\n0\n",
        }
    )
    before = disk.effects
    open_log(disk).close_quietly()

    events = [disk.event(number) for number in range(before + 1, disk.effects + 1)]
    made = next(n for n, one in enumerate(events) if one.name == name_of(START))
    # the first one tells readers of the cut, and says still that the log is being emptied
    said = max(n for n, one in enumerate(events) if one.to == LOG_STATE)
    assert "sync_directory" in [one.call for one in events[made:said]]
    for effects in range(before, disk.effects + 1):
        for seed in range(20):
            image = disk.crash_image(effects=effects, fate="seed", seed=seed)
            with open_log(image) as log:
                assert (log.log_start_offset, log.log_end_offset) == (START, START)


# ---- gap above unsynced segments -----------------------------------------------------------------
# A permitted gap in a follower's append hid that records before it were lost in a crash.
#
# From the gap on a log counts as contiguous: whether records are missing between earlier segments
# nobody looks any more. Those were not synced before, and of a gap whose append failed the note
# stayed, above the log end.


ONE = [(None, b"one")]
SEEDS_OF_GAPS = 150


def require_prefixes_of_segments_without_a_gap(disk, log):
    """Append two segments and one record behind the first, and look what crashes leave."""
    for _ in range(2):
        log.append(ONE)
        log.roll()
    log.append(ONE)
    records = [b"one"] * 4
    for seed in range(SEEDS_OF_GAPS):
        with open_log(disk.crash_image(fate="seed", seed=seed)) as found:
            assert values(found) == records[: found.log_end_offset], seed


@pytest.mark.parametrize("gap", [0, 5])
def test_what_was_appended_before_the_gap(gap):
    """[DUR-1, DUR-2, APP-9]"""
    disk = new_disk()
    log = open_log(disk, durability="none")
    for value in (b"synced", b"not synced", b"nor this"):
        log.append([(None, value)])
        if value == b"synced":
            log.flush()
    log.roll()
    log.append_as_follower(at(3 + gap, value=b"behind"), 0)

    found_whole = 0
    for seed in range(SEEDS_OF_GAPS):
        with open_log(disk.crash_image(fate="seed", seed=seed)) as found:
            shown = values(found)
        assert shown == [b"synced", b"not synced", b"nor this", b"behind"][: len(shown)], seed
        found_whole += len(shown) == 4
    assert found_whole > 0
    log.close_quietly()


def test_what_is_appended_when_the_append_of_the_gap_failed():
    """[DUR-1, DUR-30, APP-9]"""
    disk = new_disk()
    log = open_log(disk, durability="none")
    log.append(ONE)

    def refuse(call: str, name: str) -> None:
        if call == "write_at" and name.endswith(".log"):
            disk.fail("write_at", 1, errno.ENOSPC)

    disk.watch(refuse)
    with pytest.raises(DiskFullError):
        log.append_as_follower(at(1000), 0)
    disk.watch(None)
    disk.fail("write_at", 0, 0)

    require_prefixes_of_segments_without_a_gap(disk, log)
    log.close_quietly()


def test_what_is_appended_when_a_truncation_took_the_gap():
    """[DUR-1, TRU-1]"""
    disk = new_disk()
    log = open_log(disk, durability="none")
    log.append(ONE)
    log.append_as_follower(at(1000), 0)
    log.truncate_to(1)

    require_prefixes_of_segments_without_a_gap(disk, log)
    log.close_quietly()


# ---- gap inside a followers append ---------------------------------------------------------------
# Offsets missing between two batches of one follower append: a crash cut the log there.


def test_the_batches_behind_the_gap_are_kept(tmp_path):
    """[DUR-64, DUR-1] The log is contiguous from behind the gap only, whatever the recovery."""
    path = tmp_path / "t-0"
    log = segstore.open(path)
    log.append_as_follower(at(0) + at(5) + at(6), 0)
    log.append_as_follower(at(7) + at(9, 2) + at(20), 0)
    log.close_quietly()
    for name in ("recovery-point-offset-checkpoint",):
        (path / name).unlink(missing_ok=True)

    with segstore.open(path) as log:
        assert log.report.truncated_bytes == 0
        assert offsets(log) == [0, 5, 6, 7, 9, 10, 20]
        assert log.log_end_offset == 21


# ---- legacy gap and power cut --------------------------------------------------------------------
# Messages of magic 1 permit gaps, but not behind bytes that are not synced yet.


WRITTEN = [b"first", b"old", b"new 0", b"new 1"]


def test_a_legacy_message_of_a_follower_leaves_no_hole():
    """[DUR-1, DUR-5, DUR-64] The next segment reached the disk, the message before it did not."""
    builder = RecordsBuilder(codec_table(), magic=1)
    builder.append(1, TIME, None, WRITTEN[1])
    disk = new_disk()
    log = open_log(disk, durability="none")
    log.append([(None, WRITTEN[0])])
    log.flush()
    log.append_as_follower(builder.build(), 0)
    log.roll()
    for value in WRITTEN[2:]:
        log.append([(None, value)])
    ends = set()
    for seed in range(60):
        with open_log(disk.crash_image(fate="seed", seed=seed)) as found:
            left = values(found)
        assert left == WRITTEN[: len(left)], seed
        ends.add(len(left))
    assert ends >= {1, 2}
    log.close_quietly()


# ---- roll of an empty segment --------------------------------------------------------------------
# The roll of an empty active segment renamed the only file that said where the log ends.
#
# Neither a rename nor the new file is on the disk before a sync of the directory, and the recovery
# point is there already: a crash left an intact log that was refused, or one that ended lower.


ONE_LARGE_SEGMENT = Settings(segment_bytes=100_000)
WAYS = ("clean", "killed", "open")


def end_inside_a_batch(log: UnifiedLog) -> None:
    """Leave an empty segment at 1 behind an empty one at 0 [TRU-5]."""
    log.append([(None, b"x")] * 3)
    log.truncate_to(1)
    log.roll()


def begin_below_the_log_end(log: UnifiedLog) -> None:
    """Leave an empty segment at 50 in a log that begins at 30 [TRU-4]."""
    log.append([(None, b"x")] * 3)
    log.truncate_fully_and_start_at(50, 30)


def end_in_an_empty_segment(log: UnifiedLog) -> None:
    log.append([(None, b"x")] * 3)
    log.flush()
    log.roll()


STATES = {
    "truncated inside a batch": (end_inside_a_batch, 0),
    "begins below its end": (begin_below_the_log_end, 50),
    "rolled before": (end_in_an_empty_segment, 3),
}
"""And the lowest end that a crash may leave: a hole behind the data may close."""


@pytest.mark.parametrize("preallocate", [False, True], ids=["", "preallocated"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", STATES)
def test_a_crash_takes_nothing_durable(name, way, preallocate):
    """[LOC-11, DUR-1, DUR-51, DUR-56] Every image opens, and nothing below D is gone."""
    settings = ONE_LARGE_SEGMENT._replace(preallocate=preallocate)
    disk = SimulatedDisk()
    log = settings.open(disk, ManualScheduler())
    prepare, lowest_end = STATES[name]
    prepare(log)
    if way != "open":
        log.close() if way == "clean" else log.close_quietly()
        log = settings.open(disk, ManualScheduler())
    start, end = log.log_start_offset, log.log_end_offset
    held = [record.offset for record in log.scan()]
    before = disk.effects

    log.roll()

    assert (log.log_start_offset, log.log_end_offset) == (start, end)
    last = disk.effects
    log.close_quietly()
    for effects in range(before, last + 1):
        fates = [("lost", 0), ("kept", 0), *(("seed", seed) for seed in range(16))]
        for fate, seed in fates:
            image = Crash(effects, fate, seed).image(disk)
            again = settings.open(image)
            assert again.log_start_offset in {start, lowest_end}, (effects, fate, seed)
            assert lowest_end <= again.log_end_offset <= end, (effects, fate, seed)
            assert [record.offset for record in again.scan()] == held, (effects, fate, seed)
            again.close_quietly()


def test_it_is_ready_for_appends_again():
    """[LOC-11] It is the segment that begins there, and takes what comes."""
    disk = SimulatedDisk()
    log = ONE_LARGE_SEGMENT.open(disk, ManualScheduler())
    segment = log.segments()[0]

    assert log.roll() is segment
    assert [each.base_offset for each in log.segments()] == [0]
    assert log.append([(None, b"x")]).base_offset == 0
    log.close()
    with ONE_LARGE_SEGMENT.open(disk, ManualScheduler()) as again:
        assert again.report.clean
        assert [record.value for record in again.scan()] == [b"x"]


# ---- roll snapshot is synced ---------------------------------------------------------------------
# The producer snapshot of a roll was still unsynced when something relied on it.
#
# The background thread syncs it. A close that came before dropped that task, found the snapshot
# taken and called the log clean; deleting records took away the older snapshot, and what it told.


LARGE = Settings(segment_bytes=100_000)
SEEDS_OF_ROLLS = 30
FIRST = [
    Operation("idempotent", 3),
    Operation("roll"),
    Operation("background", 0),
    Operation("append", 1),
]
ROLL = Operation("roll")
DELETE = Operation("delete_records", 2)


def marker_is_durable(run: Run) -> int:
    """Number of the effect with which the clean marker of the script's close survives."""
    events = [run.disk.event(number) for number in range(1, run.disk.effects + 1)]
    created = max(
        number
        for number, event in enumerate(events)
        if event.call == "sync_file" and event.name.endswith(".kafka_cleanshutdown")
    )
    assert events[created + 1].call == "sync_directory"
    return created + 2


def producers_behind(run: Run, effects: int) -> set[tuple[bool, tuple[int, ...], bool]]:
    """Return what opens behind a crash say: clean or not, producers, warned or not."""
    found = set()
    for seed in range(SEEDS_OF_ROLLS):
        with closing(LARGE.open(Crash(effects, "seed", seed).image(run.disk))) as log:
            ids = tuple(sorted(one.producer_id for one in log.active_producers()))
            found.add((log.report.clean, ids, bool(log.report.warnings)))
    return found


CLOSED = {
    "roll, close": [Operation("idempotent", 3), ROLL],
    "roll, append, close": [Operation("idempotent", 3), ROLL, Operation("append", 1)],
    "deleted before": [*FIRST, ROLL, DELETE],
    "rolled by another process": [
        Operation("idempotent", 3),
        ROLL,
        Operation("flush"),
        Operation("kill"),
    ],
}


@pytest.mark.parametrize("operations", CLOSED.values(), ids=CLOSED)
def test_a_clean_log_has_its_producers(operations: list[Operation]):
    """[DUR-22, DUR-24] The marker is not durable before what it vouches for."""
    run = run_script([*operations, Operation("close")], LARGE)

    assert producers_behind(run, marker_is_durable(run)) == {(True, (3,), False)}


DELETED = {
    "the newest": [*FIRST, ROLL],
    "its name too": [*FIRST, Operation("flush"), ROLL, Operation("background", 0)],
    "two": [*FIRST, ROLL, Operation("append", 1), ROLL],
}


@pytest.mark.parametrize("operations", DELETED.values(), ids=DELETED)
def test_deleted_records_do_not_take_their_producers_along(operations: list[Operation]):
    """[DUR-22, DUR-29] At no moment of the deletion, nor behind it."""
    run = run_script([*operations, Operation("flush"), DELETE], LARGE)

    for effects in range(run.steps[-1].begin, run.steps[-1].end + 1):
        assert {ids for _, ids, _ in producers_behind(run, effects)} == {(3,)}


def test_a_snapshot_whose_sync_failed_is_not_called_clean():
    """[DUR-35] Nor is it synced once more: that would prove nothing."""
    run = run_script([], LARGE)
    log = LARGE.open(run.disk)
    log.append([(None, b"x")])
    log.roll()
    run.disk.fail("sync_file", 1, errno.EIO)
    with pytest.raises(FsyncFailedError):
        log.delete_records(1)
    run.disk.fail("sync_file", 0, 0)

    assert log.log_start_offset == 0
    with pytest.raises(Exception, match="takes no changes"):
        log.close()


# ---- roll that was undone ------------------------------------------------------------------------
# A roll failed, its file went, and came back with a power cut beside what was appended instead.
#
# The file was unlinked and the directory not synced; no open went on then: the segment before it
# "reaches into the next segment". Found by ``csrc/fuzz/fuzz_operations.c``.


UNSYNCED_AND_PREALLOCATED = Settings("none", segment_bytes=500, preallocate=True)


def log_behind_a_recovery_point():
    disk = new_disk()
    log = UNSYNCED_AND_PREALLOCATED.open(disk)
    log.append([(None, b"synced")])
    log.flush()
    return disk, log


@pytest.mark.parametrize("call", ["roll", "append"])
def test_the_next_open_goes_on(call: str):
    """[DUR-30, DUR-53] The disk has no room for a new segment, and then for a small record."""
    disk, log = log_behind_a_recovery_point()
    disk.fail("allocate_space", 1, errno.ENOSPC)
    with pytest.raises(DiskFullError):
        log.roll() if call == "roll" else log.append([(None, bytes(400))])
    log.append([(None, b"behind it")])
    log.close_quietly()

    for seed in range(50):
        found = UNSYNCED_AND_PREALLOCATED.open(disk.crash_image(fate="seed", seed=seed))
        assert found.log_end_offset in {1, 2}, seed
        found.close_quietly()


def test_a_sync_that_fails_ends_writing():
    """[DUR-30, DUR-35] Whether it comes back nobody knows; a second sync would prove nothing."""
    disk, log = log_behind_a_recovery_point()
    disk.fail("allocate_space", 1, errno.ENOSPC)
    disk.fail("sync_directory", 1, errno.EIO)
    with pytest.raises(FsyncFailedError):
        log.append([(None, bytes(400))])

    with pytest.raises(LogReadOnlyError, match="a sync failed"):
        log.append([(None, b"behind it")])
    log.close_quietly()
    with closing(UNSYNCED_AND_PREALLOCATED.open(disk)) as found:
        assert [record.value for record in found.scan()] == [b"synced"]


# ---- snapshot that was not finished --------------------------------------------------------------
# A crash in a full truncation could leave a directory that was taken for no partition [DUR-55].
#
# No ``.log`` was left in it, but the temporary file of a producer snapshot. Found by tests/crash:
# its random script 103304.


def test_it_is_a_file_of_ours(new_log, tmp_path):
    path = tmp_path / "topic-0"
    path.mkdir()
    (path / f"{5:020d}.snapshot.tmp").write_bytes(b"half")

    log = new_log(path)

    assert log.log_end_offset == 0
    assert not list(path.glob("*.tmp"))


@pytest.mark.parametrize("name", ["5.snapshot.tmp", f"{5:020d}.snapshot.tmp.txt", "snapshot.tmp"])
def test_other_files_are_not(new_log, tmp_path, name):
    path = tmp_path / "topic-0"
    path.mkdir()
    (path / name).write_bytes(b"")

    with pytest.raises(segstore.NotALogError, match=r"holds no \.log file"):
        new_log(path)


# ---- torn base offset ----------------------------------------------------------------------------
# A new log could not be opened after a crash that tore a batch inside its base offset.
#
# The CRC does not cover that field: the batch looked whole and out of order, which is damage where
# there is no recovery point yet [DUR-63]. Found by tests/crash: its random script 10953.


SECTOR_BYTES = 512
FIRST_VALUE_BYTES = 200


def torn_log(new_log, tmp_path, *, position: int, zeros: int, offset: int = 300):
    """Make a log of two batches, the second at *position*; its first bytes become zero.

    Nothing says up to where it was safe.
    """
    path = tmp_path / "topic-0"
    log = new_log()
    log.truncate_fully_and_start_at(offset)
    empty = len(batch([(None, bytes(FIRST_VALUE_BYTES))]))
    log.append_as_leader(batch([(None, bytes(FIRST_VALUE_BYTES + position - empty))]))
    log.append_as_leader(batch([(None, b"second")]))
    log.close_quietly()
    (file,) = path.glob("*.log")
    content = bytearray(file.read_bytes())
    assert int.from_bytes(content[position : position + 8]) == offset + 1
    content[position : position + zeros] = bytes(zeros)
    file.write_bytes(content)
    (path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    return path


@pytest.mark.parametrize(("position", "zeros"), [(504, 8), (505, 7)])
def test_a_batch_torn_inside_its_base_offset_is_the_tail(new_log, tmp_path, position, zeros):
    path = torn_log(new_log, tmp_path, position=position, zeros=zeros)

    log = new_log(path)

    assert log.log_end_offset == 301
    assert log.report.quarantined


@pytest.mark.parametrize(("position", "zeros"), [(503, 8), (512, 8), (400, 8)])
def test_zeros_that_no_sector_explains_are_damage(new_log, tmp_path, position, zeros):
    """[DUR-63] A whole batch in the wrong place is nothing that a crash leaves."""
    path = torn_log(new_log, tmp_path, position=position, zeros=zeros)

    with pytest.raises(segstore.CorruptLogError, match="no recovery point"):
        new_log(path)


# ---- directory that was not synced ---------------------------------------------------------------
# A new log in a directory whose name was not on the disk was lost with all that was acknowledged.
#
# The directory was there already: made by a process that was killed before its sync, or by the
# user; or its sync had failed, after which no other sync brings the name to the disk.


def empty_disk() -> SimulatedDisk:
    disk = new_disk()
    Directory("/data", disk, create=True)
    return disk.crash_image(fate="lost")


def records_of_one_behind_a_power_cut(disk: SimulatedDisk) -> int:
    """How many are left of one that was acknowledged."""
    log = open_log(disk, durability="sync")
    log.append([(None, b"acknowledged")])
    log.close_quietly()
    with closing(open_log(disk.crash_image(fate="lost"))) as found:
        return found.log_end_offset


def test_a_process_was_killed_before_it_synced_the_name():
    """[DUR-1, DUR-11] Anywhere in its open."""
    disk = empty_disk()
    open_log(disk).close_quietly()
    for effects in range(disk.effects + 1):
        killed = disk.crash_image(effects, fate="killed")

        assert records_of_one_behind_a_power_cut(killed) == 1, effects


def test_the_user_made_the_directory():
    """[DUR-1, DUR-11]"""
    disk = empty_disk()
    Directory("/data", disk).make_directory("topic-0")

    assert records_of_one_behind_a_power_cut(disk) == 1


def test_the_sync_of_the_name_failed():
    """[DUR-11, DUR-35] The directory goes again, so that the next one brings its name."""
    disk = empty_disk()
    disk.fail("sync_directory", 1, errno.EIO)
    with pytest.raises(FsyncFailedError):
        open_log(disk)

    with pytest.raises(LogNotFoundError):
        Directory(PATH, disk)
    assert records_of_one_behind_a_power_cut(disk) == 1


# ---- parent directories of a new log -------------------------------------------------------------
# A new log was lost with a directory above it that a killed process had made and not synced.
#
# Only the directory right above the partition was synced. Later, all, but not where a log directory
# seemed to hold logs, nor those that a link leads to, nor those above a log that was copied.


PATH_BELOW_NEW_DIRECTORIES = "/above/further/topic-0"
MADE = (("/", "above"), ("/above", "further"), ("/above/further", "topic-0"))


def make_directories(disk, names) -> None:
    """As a program that syncs nothing."""
    for path, name in names:
        Directory(path, disk).make_directory(name)


def open_there(disk):
    return open_partition(
        PATH_BELOW_NEW_DIRECTORIES,
        open_options(durability="sync"),
        LogEnvironment(environment=disk),
    )


def records_there_behind_a_power_cut(disk) -> int:
    log = open_there(disk)
    log.append([(None, b"acknowledged")])
    log.close_quietly()
    with open_there(disk.crash_image(fate="lost")) as found:
        return found.log_end_offset


def test_a_process_was_killed_anywhere_in_its_open():
    """[DUR-1, DUR-3, DUR-11]"""
    disk = new_disk()
    open_there(disk).close_quietly()
    for effects in range(disk.effects + 1):
        killed = disk.crash_image(effects, fate="killed")

        assert records_there_behind_a_power_cut(killed) == 1, effects


def test_somebody_else_made_the_directories():
    """[DUR-1, DUR-11]"""
    disk = new_disk()
    make_directories(disk, MADE)

    assert records_there_behind_a_power_cut(disk) == 1


@pytest.mark.parametrize("made", [(), ("topic-0",), ("backup-2024",)])
def test_somebody_else_made_the_directories_of_a_manager(made):
    """[DUR-1, DUR-11] Whatever is in the log directory says nothing of who made it."""
    disk = new_disk()
    make_directories(disk, (("/", "above"), ("/above", "logs")))
    make_directories(disk, [("/above/logs", name) for name in made])
    with living_on(disk):
        manager = LogManager("/above/logs", durability="sync", segment_ms=None)
        if "topic-0" not in made:
            manager.create_topic("topic", 1)
        manager.append("topic", [(None, b"acknowledged")], partition=0)
        close_logs_quietly(manager)

    with living_on(disk.crash_image(fate="lost")):
        found = LogManager("/above/logs", read_only=True)
        assert found.log("topic", 0).log_end_offset == 1
        found.close()


def test_a_log_directory_is_synced_up_to_the_root_whatever_is_in_it(tmp_path, monkeypatch):
    """[DUR-11] Once for all logs in it."""
    asked = []
    monkeypatch.setattr(
        "segstore.log.files.topic_directories.sync_parent_directories", asked.append
    )
    path = str(tmp_path / "logs")
    make_log_directory(path).close()
    (tmp_path / "logs" / "topic-0").mkdir()
    make_log_directory(path).close()

    assert asked == [path, path]


def copy_records(disk, names=MADE) -> None:
    """Put a ``.log`` of three records there, as who restores a backup: nothing is synced."""
    make_directories(disk, names)
    with DataFile(Directory(PATH_BELOW_NEW_DIRECTORIES, disk), name_of(0), create=True) as file:
        file.write(0, records(0, 3))


def test_a_log_that_was_copied():
    """[DUR-1, DUR-11, DUR-36] It has records, and none of the names above is on the disk."""
    disk = new_disk()
    copy_records(disk)

    assert records_there_behind_a_power_cut(disk) == 4


def test_a_log_that_was_copied_into_a_log_directory():
    """[DUR-1, DUR-11] Its owner has synced the names above, but not that of the copy."""
    disk = new_disk()
    make_directories(disk, MADE[:2])
    with living_on(disk):
        manager = LogManager("/above/further", durability="sync", segment_ms=None)
        copy_records(disk, MADE[2:])
        manager.append("topic", [(None, b"acknowledged")], partition=0)
        manager.log("topic", 0).close_quietly()

    with open_there(disk.crash_image(fate="lost")) as found:
        assert found.log_end_offset == 4


def copy_of_a_closed_log(disk, without=()) -> None:
    """Copy all that a log has left, its clean marker too: nothing is synced."""
    with open_there(disk) as log:
        for _ in range(2):
            log.append([(None, b"v")])
            log.roll()
        log.append([(None, b"v")])
        log.delete_records(1)
    make_directories(disk, [("/", "copy"), ("/copy", "topic-0")])
    there, copy = Directory(PATH_BELOW_NEW_DIRECTORIES, disk), Directory("/copy/topic-0", disk)
    for name in there.names():
        if name not in {".lock", *without}:
            with DataFile(copy, name, create=True) as file:
                file.write(0, there.read_file(name))


def open_copy(disk, **log_environment):
    return open_partition(
        "/copy/topic-0",
        open_options(durability="sync"),
        LogEnvironment(environment=disk, **log_environment),
    )


def test_a_log_that_was_copied_with_its_clean_marker():
    """[DUR-1, DUR-5, DUR-24] Sealed segments too, and the log start; its open may be killed."""
    disk = new_disk()
    copy_of_a_closed_log(disk)
    copied = disk.effects
    log = open_copy(disk)
    assert log.report.clean
    opened = disk.effects
    log.append([(None, b"acknowledged")])
    log.close_quietly()
    with open_copy(disk.crash_image(fate="lost")) as found:
        assert [record.offset for record in found.scan()] == [1, 2, 3]

    for effects in range(copied, opened + 1):
        killed = disk.crash_image(effects, fate="killed")
        log = open_copy(killed)
        log.append([(None, b"acknowledged")])
        log.close_quietly()
        with open_copy(killed.crash_image(fate="lost")) as found:
            assert [record.offset for record in found.scan()] == [1, 2, 3], effects


def test_a_copy_whose_sync_fails_is_written_again():
    """[DUR-35, DUR-36] The next sync proves nothing; the core's mark makes the next open do it."""
    disk = new_disk()
    copy_of_a_closed_log(disk)
    disk.fail("sync_file", 1, errno.EIO)
    with pytest.raises(FsyncFailedError):
        open_copy(disk)
    disk.fail("sync_file", 0, 0)

    with open_copy(disk) as again:
        assert again.report.rewritten
        assert not again.report.clean
        assert [record.offset for record in again.scan()] == [1, 2]


def test_the_names_of_a_copy_cannot_be_synced():
    """[DUR-35, DUR-36] As of its files: a second sync of its directory proves nothing either."""
    disk = new_disk()
    copy_of_a_closed_log(disk)
    disk.fail("sync_directory", 1, errno.EIO)
    with pytest.raises(FsyncFailedError):
        open_copy(disk)
    disk.fail("sync_directory", 0, 0)

    with open_copy(disk) as again:
        assert again.report.rewritten
        assert [record.offset for record in again.scan()] == [1, 2]


def test_a_copy_that_was_put_into_the_same_directory():
    """[DUR-1, DUR-24] It has the inode that the clean marker tells, as a new one may have too."""
    disk = new_disk()
    copy_of_a_closed_log(disk)
    there, copy = Directory(PATH_BELOW_NEW_DIRECTORIES, disk), Directory("/copy/topic-0", disk)
    for name in there.names():
        there.unlink(name)
    there.sync(Barrier.NEW_DIRECTORY)
    for name in copy.names():
        with DataFile(there, name, create=True) as file:
            file.write(0, copy.read_file(name))

    log = open_there(disk)
    assert log.report.clean
    log.append([(None, b"acknowledged")])
    log.close_quietly()
    with open_there(disk.crash_image(fate="lost")) as found:
        assert [record.offset for record in found.scan()] == [1, 2, 3]


def test_a_log_that_was_copied_with_the_clean_marker_above():
    """[DUR-1, DUR-11] The names of its files are synced too, not only that of its directory."""
    disk = new_disk()
    copy_of_a_closed_log(disk, without=[CLEAN_SHUTDOWN_MARKER])
    copy = open_copy(disk, parent_was_clean=True)
    assert copy.report.clean
    copy.append([(None, b"acknowledged")])
    copy.close_quietly()

    image = Directory("/copy/topic-0", disk.crash_image(fate="lost"))
    assert {name_of(1), name_of(2)} <= set(image.names())


def test_a_log_that_we_have_closed_cleanly_costs_nothing(monkeypatch):
    """[DUR-11, DUR-24] Whoever wrote its marker has synced the names before."""
    disk, asked = new_disk(), []
    with open_there(disk) as log:
        log.append([(None, b"v")])
    monkeypatch.setattr(
        parent_directory_sync, "sync_parent_directories", lambda *_: asked.append(1)
    )
    with open_there(disk):
        pass
    assert not asked

    changed = open_there(disk)
    changed.append([(None, b"w")])
    changed.close_quietly()
    open_there(disk).close_quietly()
    assert asked == [1]


def test_the_way_leads_through_a_link(tmp_path, monkeypatch):
    """[DUR-11] Synced is what really holds the new directory, and what holds the link."""
    (tmp_path / "real" / "new").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "link").symlink_to(tmp_path / "real" / "new")
    synced = note_synced(monkeypatch)
    segstore.open(tmp_path / "other" / "link" / "topic-0", durability="sync").close()

    for holds in (tmp_path / "real" / "new", tmp_path / "real", tmp_path / "other", tmp_path):
        assert synced.count(os.path.realpath(holds)) == 1, holds


def note_synced(monkeypatch) -> list[str]:
    """Note which directories are opened to sync the names in them."""
    synced: list[str] = []
    real = parent_directory_sync._core.Directory

    class Noted:
        def __init__(self, path, environment=None):
            self._directory = real(path, environment)

        def __getattr__(self, name):
            return getattr(self._directory, name)

        def sync(self, barrier):
            synced.append(os.path.realpath(self._directory.path))
            self._directory.sync(barrier)

    class Core:
        Directory = Noted
        Barrier = parent_directory_sync._core.Barrier

    monkeypatch.setattr(parent_directory_sync, "_core", Core)
    return synced


def test_what_may_not_be_read_is_passed_over(tmp_path, monkeypatch):
    """[DUR-11, DUR-34] Who may not read a directory above did not make it."""
    (tmp_path / "topic-0").mkdir()
    real, opened = parent_directory_sync._core.Directory, []

    def refuse(path, environment=None, **options):
        opened.append(path)
        if path == os.path.dirname(tmp_path):  # noqa: PTH120 - as it is asked for
            raise LogPermissionError("not yours", file=path)
        return real(path, environment, **options)

    monkeypatch.setattr(parent_directory_sync._core, "Directory", refuse)
    parent_directory_sync.sync_parent_directories(str(tmp_path / "topic-0"))

    above = os.path.dirname(tmp_path)  # noqa: PTH120
    assert opened == [str(tmp_path / "topic-0"), str(tmp_path), above]


def mount(monkeypatch) -> None:
    """Let what is below a directory called ``mounted`` be another file system."""

    def identity(self) -> tuple[int, int]:
        is_there = "mounted" in os.path.realpath(self._directory.path)
        return int(is_there), self._directory.identity[1]

    there = parent_directory_sync._core.Directory
    monkeypatch.setattr(there, "identity", property(identity), raising=False)


def test_the_log_directory_is_another_file_system(tmp_path, monkeypatch):
    """[DUR-11] Its name is none of its own, and what holds it may refuse to be synced."""
    synced = note_synced(monkeypatch)
    (tmp_path / "mounted" / "topic-0").mkdir(parents=True)
    mount(monkeypatch)
    parent_directory_sync.sync_parent_directories(str(tmp_path / "mounted"))
    assert not synced
    parent_directory_sync.sync_parent_directories(str(tmp_path / "mounted" / "topic-0"))
    assert synced == [str(tmp_path / "mounted")]


def test_a_link_leads_to_another_file_system(tmp_path, monkeypatch):
    """[DUR-11] What holds the link is synced."""
    synced = note_synced(monkeypatch)
    (tmp_path / "mounted" / "topic-0").mkdir(parents=True)
    (tmp_path / "topic-0").symlink_to(tmp_path / "mounted" / "topic-0")
    mount(monkeypatch)
    parent_directory_sync.sync_parent_directories(str(tmp_path / "topic-0"))
    assert synced[:2] == [str(tmp_path / "mounted"), str(tmp_path)]
