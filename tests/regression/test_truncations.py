"""Truncations: inside a batch, of the whole log, refused or interrupted; the holes they leave."""

from __future__ import annotations

import errno
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore._core import Directory
from segstore.errors import (
    CorruptLogError,
    DiskFullError,
    LogReadOnlyError,
    SegstoreError,
    WriteError,
)
from segstore.log.files.checkpoints import LOG_STATE, LogState
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
from segstore.log.files.prepared_file import PreparedFile
from segstore.log.local.local_log import LocalLog
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.crash_check import Crash, check_crash, check_crashes, logs_behind_crashes
from tests.crash.crash_model import Operation
from tests.crash.crash_script import PATH, Settings, run_script
from tests.crash.failing_scenarios_of_damage import epochs
from tests.crash.failing_scenarios_of_opens import SETTINGS
from tests.crash.failing_watcher import place_of
from tests.kits.directory_kit import RECOVERY_POINT, disk_with, name_of, records, recovery_point
from tests.kits.log_kit import PATIENCE_SECONDS, TIME, at, offsets, values
from tests.kits.small_disk import small_disk
from tests.kits.transactions_kit import ABORT, COMMIT, Producer, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import SimulatedDisk

__all__ = ["small_disk"]


# ---- truncation inside a batch -------------------------------------------------------------------
# A truncation inside a batch left a recovery point in the hole: the next open was refused.
#
# The batch goes whole, the log end is in the middle of it [TRU-5]; after a crash the log ends where
# the data ends, which must not look as if records below the recovery point were missing [DUR-51].


@pytest.mark.parametrize("durability", ["none", "sync"])
@pytest.mark.parametrize("torn", [b"", b"\0\0\0\0\0\0\0\x0f\0\0\1\0torn"])
@pytest.mark.parametrize("appended", [0, 3])
def test_a_crash_behind_a_truncation_inside_a_batch(tmp_path, durability, torn, appended):
    path = tmp_path / "orders-0"
    log = segstore.open(path, durability=durability)
    log.append([(None, b"first")] * 10)
    log.append([(None, b"second")] * 10)
    log.truncate_to(15)
    assert log.log_end_offset == 15
    log.flush()
    for _ in range(appended):
        log.append([(None, b"third")])
    log.flush()
    log.close_quietly()
    with (path / "00000000000000000000.log").open("ab") as file:
        file.write(torn)

    with segstore.open(path) as log:
        assert log.log_end_offset == (15 + appended if appended else 10)
        values = [value for _, _, _, value in log.scan().tuples()]
        assert values == [b"first"] * 10 + [b"third"] * appended
        assert log.report.truncated_bytes == len(torn)


def test_the_recovery_point_goes_on_behind_the_hole(tmp_path):
    with segstore.open(tmp_path / "orders-0", durability="none") as log:
        log.append([(None, b"first")] * 10)
        log.truncate_to(5)
        log.flush()
        assert (log.recovery_point, log.durable_offset) == (0, 5)

        log.append([(None, b"second")])
        log.flush()

        assert (log.recovery_point, log.durable_offset) == (6, 6)


# ---- truncation to the log start -----------------------------------------------------------------
# A truncation to the log start, inside a batch, left a log whose next open forgot the log start.
#
# All data goes with the batch, and the clean marker said that the log ends below its log start.


def test_the_log_start_is_kept(new_log):
    """[DUR-19, TRU-5]"""
    log = new_log()
    log.append([(TIME, b"k", b"v")] * 2)
    log.delete_records(1)
    log.truncate_to(1)
    assert (log.log_start_offset, log.log_end_offset) == (1, 1)
    log.close()

    with segstore.open(log.path) as again:
        assert again.report.clean
        assert not again.report.warnings
        assert (again.log_start_offset, again.log_end_offset) == (1, 1)
        assert again.append([(TIME, b"k", b"w")]).base_offset == 1
        assert [record.value for record in again] == [b"w"]


# ---- truncation on a full disk -------------------------------------------------------------------
# A truncation on a full disk cut the log, could not write `.segstore` then, and ended writing.


PAGE = 4096


def filled(path, *, rolls):
    """Two aborted transactions, each with three records before it, then two of a new epoch.

    Without rolls in one segment, and no checkpoint is to be lowered; with them in three, and no
    thread writes beside the test.
    """
    log = segstore.open(path, durability="none", segment_index_bytes=PAGE)
    producer = Producer(log, 1)
    for _ in range(2):
        write(log, 3)
        producer.write(1)
        producer.end(ABORT)
        if rolls:
            log.roll()
    log.assign_epoch_start_offset(1, log.log_end_offset)
    log.append([(None, b"last")] * 2)
    if not rolls:
        return log
    log.close()
    log = segstore.open(path, durability="none", segment_index_bytes=PAGE)
    log.append([(None, b"gone")])  # the first change removes the clean marker: that makes room
    log.truncate_to(log.log_end_offset - 1)
    return log


WAYS = {
    "inside a batch": lambda log: log.truncate_to(11),
    "to a batch": lambda log: log.truncate_to(8),
    "to the first segment": lambda log: log.truncate_to(3),
    "below the log start": lambda log: log.truncate_to(2),
    "fully, behind": lambda log: log.truncate_fully_and_start_at(20),
    "fully, before": lambda log: log.truncate_fully_and_start_at(2),
}
DELETED_BEFORE = {"below the log start": 4, "fully, before": 7}


def shown(log):
    rows = [(record.offset, record.value) for record in log]
    committed = [record.offset for record in log.scan(isolation="read_committed")]
    return log.log_start_offset, log.log_end_offset, rows, committed


@pytest.mark.parametrize("rolls", [False, True], ids=["one segment", "three"])
@pytest.mark.parametrize("way", WAYS)
def test_it_is_refused_or_done(small_disk, way, rolls):
    """[DUR-16, DUR-18, DUR-30] However much is free; the log goes on, and is what it was."""
    refused = done = 0
    for pages in range(10):
        path = small_disk.path / f"a-{pages}"
        log = filled(path, rolls=rolls)
        log.delete_records(DELETED_BEFORE.get(way, 0))
        was = shown(log), log.latest_epoch
        small_disk.fill(leave=pages * PAGE)
        try:
            WAYS[way](log)
        except DiskFullError:
            refused += 1
            assert (shown(log), log.latest_epoch) == was
        else:
            done += 1
            assert log.log_end_offset != was[0][1]
        small_disk.free()
        log.append([(None, b"new")])
        now = shown(log)
        assert len(now[2]) > 0
        if pages % 2:
            log.close()
        else:
            log.flush()
            log.close_quietly()
        with segstore.open(path) as again:
            assert shown(again)[1:] == now[1:]
            assert again.verify().ok
            again.delete_records(again.log_end_offset)
    assert refused
    assert done


def test_lost_files_are_told_after_one_that_was_refused(small_disk):
    """[DUR-51] What said that the log is being emptied is taken back."""
    path = small_disk.path / "a-0"
    log = filled(path, rolls=True)
    small_disk.fill(leave=PAGE)
    with pytest.raises(DiskFullError):
        log.truncate_fully_and_start_at(20)
    small_disk.free()
    log.assign_epoch_start_offset(9, log.log_end_offset)
    log.close()

    assert "being_emptied" not in (path / ".segstore").read_text()


# ---- changes that end halfway --------------------------------------------------------------------
# Truncations and deletions that end between two steps: refused by a full disk, or interrupted.


def refuse(*_: object, **__: object) -> None:
    raise DiskFullError("no space left on the device")


def after_a_crash(log: segstore.UnifiedLog, tmp_path: Path) -> segstore.UnifiedLog:
    """Open what is on the disk now, with the log directory's checkpoints."""
    copy = shutil.copytree(Path(log.path).parent, tmp_path / "crashed")
    return segstore.open(copy / "t-0")


@pytest.fixture
def ten(tmp_path):
    """Offsets 0 to 9, durable, below a log directory of their own."""
    (tmp_path / "logs").mkdir()
    log = segstore.open(tmp_path / "logs" / "t-0", file_delete_delay_ms=0)
    for _ in range(10):
        log.append([(None, b"v")])
    yield log
    log.close_quietly()


def test_deleted_records_stay_deleted_behind_a_refused_truncation(ten, tmp_path, monkeypatch):
    """[DUR-5, DUR-19] The broker's log start above is the higher one: it is lowered last."""
    ten.delete_records(5)
    ten.close()
    above = tmp_path / "logs" / "log-start-offset-checkpoint"
    above.write_text("0\n1\nt 0 8\n")
    with segstore.open(tmp_path / "logs" / "t-0") as log:
        assert log.log_start_offset == 8
        monkeypatch.setattr(LocalLog, "begin_truncation", refuse)
        with pytest.raises(DiskFullError):
            log.truncate_to(6)
        monkeypatch.undo()
        assert log.log_start_offset == 8
        with after_a_crash(log, tmp_path) as crashed:
            assert crashed.log_start_offset == 8


def test_a_directory_that_a_shell_renamed_keeps_its_log_start(ten, tmp_path, monkeypatch):
    """[DUR-5] What its own checkpoint says under the old name is more than the one above says."""
    ten.delete_records(9)
    ten.close()
    (tmp_path / "logs" / "log-start-offset-checkpoint").write_text("0\n1\nu 0 8\n")
    (tmp_path / "logs" / "t-0").rename(tmp_path / "logs" / "u-0")
    with segstore.open(tmp_path / "logs" / "u-0") as log:
        assert log.log_start_offset == 9
        monkeypatch.setattr(LocalLog, "begin_truncation", refuse)
        with pytest.raises(DiskFullError):
            log.truncate_to(6)
        copy = shutil.copytree(tmp_path / "logs", tmp_path / "crashed")
    with segstore.open(copy / "u-0") as crashed:
        assert crashed.log_start_offset == 9


def test_an_interrupted_full_truncation_takes_no_appends(ten, tmp_path, monkeypatch):
    """[DUR-1, DUR-38] Where the log begins is on the disk already: what came now would be lost."""
    publish = PreparedFile.publish

    def publish_and_be_interrupted(file: PreparedFile) -> None:
        publish(file)
        raise KeyboardInterrupt

    monkeypatch.setattr(PreparedFile, "publish", publish_and_be_interrupted)
    with pytest.raises(KeyboardInterrupt):
        ten.truncate_fully_and_start_at(100)
    monkeypatch.undo()
    with pytest.raises(LogReadOnlyError):
        ten.append([(None, b"v")])
    with after_a_crash(ten, tmp_path) as crashed:
        assert (crashed.log_start_offset, crashed.log_end_offset) == (100, 100)


@pytest.mark.parametrize(
    ("truncate", "offset"), [("truncate_to", 6), ("truncate_fully_and_start_at", 100)]
)
def test_what_is_durable_is_still_shown_behind_a_refusal(ten, monkeypatch, truncate, offset):
    """[DUR-15, DUR-30] Nothing was cut, and all of it had been synced."""
    monkeypatch.setattr(LocalLog, "begin_truncation", refuse)
    with pytest.raises(DiskFullError):
        getattr(ten, truncate)(offset)
    assert ten.durable_offset == 10
    assert len(list(ten.scan(isolation="durable"))) == 10


def test_a_deletion_that_cannot_note_the_epochs_deletes(tmp_path, monkeypatch):
    """[LST-4, DUR-30] Once the log start is durable the files go, at once or at the next call."""
    with segstore.open(tmp_path / "t-0", file_delete_delay_ms=0) as log:
        for number in range(3):
            log.append_as_follower(at(10 * number, 10, epoch=number), number)
            log.roll()
        with monkeypatch.context() as patched:
            patched.setattr(LeaderEpochFileCache, "flush", refuse)
            assert log.delete_records(20) == 20
        assert [segment.base_offset for segment in log.segments()] == [20, 30]
        assert log.delete_records(20) == 20
    with segstore.open(tmp_path / "t-0") as log:
        assert (log.log_start_offset, log.log_end_offset) == (20, 30)


def test_an_index_without_a_checksum_does_not_tell_where_a_log_ends(tmp_path, new_log):
    """[DUR-52] One bit of its last offset, and the salvaged copy ended a million offsets later."""
    path = tmp_path / "topic-0"
    log = new_log(path)
    producer = Producer(log, 1)
    for end in (ABORT, COMMIT):
        producer.write(2)
        producer.end(end)
    log.flush()
    log.close_quietly()
    index = next(path.glob("*.txnindex"))
    data = bytearray(index.read_bytes())
    data[2 + 8 + 8 + 5] ^= 0x10
    index.write_bytes(data)
    assert segstore.salvage(path, tmp_path / "copy-0").log_end_offset == 6


# ---- append beside a truncation that fails -------------------------------------------------------
# An append was acknowledged because a truncation had begun, which then failed.
#
# What it waited for was neither synced nor gone: a power cut took records that were acknowledged
# and that nobody had truncated.


def test_it_is_told_or_its_records_are_synced(monkeypatch):
    """[DUR-15, DUR-38, TRU-1] Held where it has let go of the lock and looks at the sync."""
    disk = new_disk()
    log = open_log(disk, durability="sync")
    log.append([(None, b"first")] * 3)
    log.roll()
    log.append([(None, b"second")])
    log.roll()
    flusher, real = log._flusher, log._flusher.sync_if_due
    written, may_go_on = threading.Event(), threading.Event()

    def held(offset, generation):
        written.set()
        assert may_go_on.wait(PATIENCE_SECONDS)
        real(offset, generation)

    monkeypatch.setattr(flusher, "sync_if_due", held)

    def refuse(call: str, name: str) -> None:
        if call == "rename":
            disk.fail("rename", int(".log" in name), errno.EIO)

    with ThreadPoolExecutor(1) as elsewhere:
        appended = elsewhere.submit(log.append, iter([(None, b"waits")] * 2))
        assert written.wait(PATIENCE_SECONDS)
        disk.watch(refuse)
        with pytest.raises(WriteError):
            log.truncate_to(2)
        disk.watch(None)
        disk.fail("rename", 0, 0)
        may_go_on.set()
        error = appended.exception(PATIENCE_SECONDS)
    with open_log(disk.crash_image(fate="lost")) as found:
        assert isinstance(error, SegstoreError) or values(found)[-2:] == [b"waits"] * 2
    log.close_quietly()


# ---- crash in a full truncation ------------------------------------------------------------------
# What a crash in the midst of truncate_fully_and_start_at left [DUR-5, DUR-18].
#
# Found by tests/crash: its random scripts 5430 and 1569.


SCRIPTS = {
    "a log start that is lowered before the files are gone brings deleted records back": [
        Operation("append", 2),
        Operation("append", 2),
        Operation("delete_records", 4),
        Operation("truncate_fully_and_start_at", 2),
    ],
    "the renames of many segments may reach the disk in any order": [
        Operation("append", 3),
        Operation("append", 3),
        Operation("roll"),
        Operation("append", 3),
        Operation("roll"),
        Operation("append", 3),
        Operation("flush"),
        Operation("truncate_fully_and_start_at", 5),
    ],
}


@pytest.mark.parametrize("operations", SCRIPTS.values(), ids=SCRIPTS)
def test_a_prefix_of_the_old_log_or_the_new_one(operations: list[Operation]):
    run = run_script(operations, Settings(segment_bytes=100_000))
    last = run.steps[-1]

    check_crashes(run, last.begin, last.end, seeds=20)
    for effects in range(last.begin, last.end + 1):
        check_crash(run, Crash(effects, "lost"))
        check_crash(run, Crash(effects, "kept"))


# ---- crash around a hole -------------------------------------------------------------------------
# A truncation into a batch leaves a hole, and below it a log does not promise to have no other.
#
# The renames of another truncation may reach the disk in any order: a crash took segments out of
# the midst, and nobody noticed [DUR-1, DUR-16, DUR-54]. Found by tests/c/crash: `append(4,130)
# append(1,520) append(1,70) append(2,1100) append(4,520) truncate_to(10) append(4,70) append(3,90)
# truncate_to(11) truncate_to(3) delete_records(1)`, crash 75,seed,10266506299684445813. What
# empties such a log, or one that a broker began, renamed its segments in any order, too.


LARGE = Settings(segment_bytes=100_000)

OPERATIONS = (
    Operation("append", 3),
    Operation("append", 3),
    Operation("truncate_to", 5),
    Operation("roll"),
    Operation("append", 1),
    Operation("roll"),
    Operation("append", 1),
    Operation("roll"),
    Operation("append", 3),
    Operation("truncate_to", 8),
    Operation("truncate_to", 2),
)


def test_what_a_truncation_leaves_is_a_prefix(few_or_many):
    run = run_script(OPERATIONS, LARGE)
    last = run.steps[-1]

    check_crashes(run, last.begin, last.end, seeds=few_or_many(10, 40))


EMPTIED = (
    Operation("append", 3),
    Operation("roll"),
    Operation("append", 3),
    Operation("roll"),
    Operation("append", 3),
    Operation("roll"),
    Operation("append", 2),
    Operation("truncate_to", 10),
    Operation("flush"),
)


@pytest.mark.parametrize("offset", [0, 5])
def test_what_is_left_of_a_log_that_is_emptied_is_a_prefix(offset: int, few_or_many):
    """[DUR-2, DUR-18] Above a hole that a truncation into a batch left."""
    run = run_script((*EMPTIED, Operation("truncate_fully_and_start_at", offset)), LARGE)
    last = run.steps[-1]

    check_crashes(run, last.begin, last.end, seeds=few_or_many(15, 60))


def test_what_is_left_of_a_brokers_log_that_is_emptied_is_a_prefix(few_or_many):
    """[DUR-2, DUR-18] Nothing says that such a log has no holes."""
    files = {name_of(base): records(base, base + 3) for base in (0, 3, 6, 9)}
    disk = disk_with({**files, RECOVERY_POINT: recovery_point(12)})
    log = LARGE.open(disk)
    log.flush()
    begin = disk.effects
    log.truncate_fully_and_start_at(0)
    log.close_quietly()

    for crash, left in logs_behind_crashes(LARGE, disk, begin, seeds=few_or_many(15, 60)):
        found = offsets(left.scan())
        assert found == list(range(len(found))), crash


# ---- hole that a truncation took away ------------------------------------------------------------
# A truncation inside a batch leaves a hole; a second one below it takes the hole away again.
#
# ``.segstore`` went on to say that offsets may be missing there: a crash that lost a whole segment
# in that place, and kept the next one, was taken for the hole, and a log opened without its first
# records. Found by random crash scripts.


BEGIN = (Operation("append", 2), Operation("append", 3))
END = (Operation("append", 1), Operation("roll"), Operation("append", 1))


@pytest.mark.parametrize(("first", "second"), [(1, 0), (3, 2), (4, 0), (3, 1)])
def test_what_is_missing_there_is_missed(first: int, second: int, few_or_many):
    """[DUR-1, DUR-2, DUR-54, TRU-5]"""
    cuts = (Operation("truncate_to", first), Operation("truncate_to", second))
    run = run_script([*BEGIN, *cuts, *END], LARGE)

    check_crashes(run, run.steps[-2].begin, run.disk.effects, seeds=few_or_many(8, 30))


def test_the_log_is_contiguous_from_its_end_on_again():
    """[DUR-64] As after an open; the second truncation keeps another hole where it makes one."""
    for first, second, expected in ((1, 0, 0), (3, 2, 2), (4, 3, 3), (3, 3, 3)):
        run = run_script(
            [*BEGIN, Operation("truncate_to", first), Operation("truncate_to", second)], LARGE
        )
        state = LogState.read(Directory(PATH, run.disk))
        assert state is not None
        assert state.contiguous_from == expected


# ---- hole where none is missing ------------------------------------------------------------------
# An open took a hole where no offset is missing; what was appended behind it, the next refused.
#
# Found by ``csrc/fuzz/fuzz_directory.c``: the segment that begins where no offset is missing any
# more lies behind a gap that may be there, and its first batch does not begin where it does.


SYNCED_IN_ONE_SEGMENT = Settings("sync", segment_bytes=100_000)
STATE = b"version 0\ncontiguous_from 5\nepochs_ordered_from 5\nlatest_epoch 0 5\n"


def disk_with_a_batch_at(base_offset: int) -> SimulatedDisk:
    """Segments at 0, empty, and at 5, with one batch; from 5 on no offset is missing."""
    return disk_with(
        {
            name_of(0): b"",
            name_of(5): at(base_offset, 2, epoch=0),
            LOG_STATE: STATE,
            "leader-epoch-checkpoint": b"0\n1\n0 5\n",
        }
    )


def test_a_hole_where_no_offset_is_missing_is_refused_before_anything_is_appended():
    """[DUR-50, DUR-54, DUR-63]"""
    with pytest.raises(CorruptLogError, match="32769 where 5 is next"):
        SYNCED_IN_ONE_SEGMENT.open(disk_with_a_batch_at(32769))


def test_a_gap_below_it_is_none_of_its_business():
    """[DUR-54] What was appended is there when the power goes."""
    disk = disk_with_a_batch_at(5)
    log = SYNCED_IN_ONE_SEGMENT.open(disk)
    log.append([(None, b"y")])
    log.close_quietly()

    log = SYNCED_IN_ONE_SEGMENT.open(disk.crash_image(fate="lost"))

    assert (log.log_start_offset, log.log_end_offset) == (0, 8)
    log.close_quietly()


# ---- emptied log that cannot be read -------------------------------------------------------------
# A read that failed made an empty log one that had lost its beginning.
#
# Whether it holds a record decides that; where the disk did not say, it counted as one that does:
# the error named missing records, and no failed call. A single failing call was enough.


def fail_where_it_is_asked(disk: SimulatedDisk) -> list[str]:
    """Let the first call fail that is made to see whether there is a record, until it is healed.

    The kind of the call is put into the list that is returned.
    """
    failing: list[str] = []

    def watch(call: str, _name: str) -> None:
        place = place_of(sys._getframe(1))
        if place is not None and place.function == "Survey._look_for_end":
            disk.watch(None)
            disk.fail(call, 1, errno.EIO, for_ever=True)
            failing.append(call)

    disk.watch(watch)
    return failing


def test_the_failed_read_is_told():
    """[DUR-6, DUR-33, DUR-54] And once the disk gives it out, the log is opened.

    The file is a preallocated one: an open reads nothing of a file of 0 bytes.
    """
    disk = disk_with({name_of(9): bytes(200), **epochs()})
    failing = fail_where_it_is_asked(disk)

    with pytest.raises(SegstoreError) as caught:
        SETTINGS.open(disk)
    assert not isinstance(caught.value, CorruptLogError)
    assert caught.value.os_error == errno.EIO
    disk.fail(*failing, 0, 0)
    with closing(SETTINGS.open(disk)) as log:
        assert log.log_end_offset == 9


# ---- emptied log that was killed twice -----------------------------------------------------------
# A log being emptied could not be opened behind two kills, or failed syncs, and a power cut.
#
# An open that finds no ``.log`` makes the new segment. The sync that was to bring the removal of
# the old ones to the disk had not run, and the power brought one of them back beside the new one.
# Found by ``csrc/fuzz/fuzz_operations.c``: "segment 0 ends at 4, the next begins at 3".


def has_a_log_file(disk: SimulatedDisk) -> bool:
    return any(".log" in name for name in Directory(PATH, disk).names())


def disk_in_a_full_truncation() -> tuple[SimulatedDisk, int]:
    """Return a disk, and behind how many of its effects the log of two segments is emptied."""
    disk = new_disk()
    log = SYNCED_IN_ONE_SEGMENT.open(disk)
    log.append([(None, b"%d" % number) for number in range(4)])
    log.roll()
    log.append([(None, b"%d" % number) for number in range(4, 8)])
    begin = disk.effects
    log.truncate_fully_and_start_at(3)
    log.close_quietly()
    return disk, begin


def killed(disk: SimulatedDisk, begin: int) -> Iterator[SimulatedDisk]:
    """Yield what a kill behind each effect from *begin* on leaves."""
    for effects in range(begin, disk.effects + 1):
        yield disk.crash_image(effects, fate="killed")


def killed_in_an_open(disk: SimulatedDisk) -> Iterator[SimulatedDisk]:
    begin = disk.effects
    SYNCED_IN_ONE_SEGMENT.open(disk).close_quietly()
    yield from killed(disk, begin)


def test_the_new_segment_is_made_when_the_old_ones_are_gone(few_or_many):
    """[DUR-18, DUR-36, DUR-56] No open refuses: it is the new log, or the beginning of the old."""
    cuts = 0
    for truncated in killed(*disk_in_a_full_truncation()):
        names = Directory(PATH, truncated).names()
        if any(name.endswith(".log") for name in names) or not has_a_log_file(truncated):
            continue
        for cleared in killed_in_an_open(truncated):
            if has_a_log_file(cleared):
                continue
            for third in killed_in_an_open(cleared):
                for seed in range(few_or_many(2, 20)):
                    log = SYNCED_IN_ONE_SEGMENT.open(third.crash_image(fate="seed", seed=seed))
                    assert (log.log_start_offset, log.log_end_offset) in {(3, 3), (3, 4)}
                    log.close_quietly()
                    cuts += 1
    assert cuts > 0
