"""Readers of a log that its writer truncates, deletes or writes again meanwhile."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import subprocess
import sys
import threading
import time
import uuid
from array import array
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import (
    CorruptLogError,
    CorruptRecordError,
    InconsistentTopicIdError,
    OffsetOutOfRangeError,
    _core,
)
from segstore._core import Directory, SegmentListing, is_any_replaced
from segstore.errors import (
    IllegalArgumentError,
    LogNotFoundError,
    LogTruncatedError,
    NotALogError,
    ResourceError,
)
from segstore.log.cleaning.cleaner import Cleaner
from segstore.log.files.checkpoint_store import CheckpointStore
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LOG_START_OFFSET_CHECKPOINT,
    RESTART_MARKER,
)
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.local.batch_transactions import TransactionEnds
from segstore.log.local.observed_end import ObservedEnd
from segstore.log.local.segment import Segment
from segstore.log.recovery import view
from segstore.log.recovery.view import LogView
from segstore.types import SpecialTimestamp
from tests.kits.log_kit import TIME, note_being_emptied, offsets
from tests.kits.refilled_log import SETTINGS, fill, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore import UnifiedLog


# ---- reader and entries of a truncation ----------------------------------------------------------
# A handle that only reads believed an index entry of a live log that a truncation had cut off.


@pytest.mark.parametrize("preallocate", [False, True])
@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_entries_that_a_truncation_left_behind_lead_a_reader_nowhere(
    new_log: Callable[..., UnifiedLog], recovery: str, *, preallocate: bool
):
    """[OFX-5, TMX-7, DUR-53, DUR-62] Kafka lowers a count in memory; the bytes stay in the file.

    The count is the writer's alone, and the batch behind the truncation has no entry yet.
    """
    writer = new_log(
        recovery=recovery,
        index_interval_bytes=0,
        segment_index_bytes=4096,
        internal_segment_bytes=2000,
        preallocate=preallocate,
    )
    for number in range(5):
        writer.append([(TIME + number, None, b"before")])
    writer.truncate_to(0)
    writer.append([(TIME + number, None, b"longer than that") for number in range(5)])

    reader = new_log(recovery=recovery, read_only=True)

    assert reader.log_end_offset == 5
    for offset in range(5):
        assert offsets(reader.scan(offset)) == list(range(offset, 5))
        assert offsets(reader.read(offset, 100)) == list(range(offset, 5))
        assert reader.offset_for_timestamp(TIME + offset) == offset
    assert reader.offset_for_timestamp(TIME + 5) is None


@pytest.mark.parametrize("tail", [b"", b"\0" * 7 + b"\x63\0\0\0\x60torn", bytes(500)], ids=len)
@pytest.mark.parametrize("counts", [(0, 0), (0, 2), (2, 0), (5, 1), (5, 3)])
@pytest.mark.parametrize("preallocate", [False, True])
@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_the_largest_timestamp_is_one_that_is_there(
    new_log: Callable[..., UnifiedLog],
    recovery: str,
    counts: tuple[int, int],
    tail: bytes,
    *,
    preallocate: bool,
):
    """[TS-3, DUR-76, DUR-77] Behind the end stands half a batch, or room that was allocated ahead.

    The last entry of the index, one of those that were cut off, was taken for what is known of it.
    """
    kept, appended = counts
    writer = new_log(
        recovery=recovery,
        index_interval_bytes=0,
        segment_index_bytes=4096,
        internal_segment_bytes=4000,
        preallocate=preallocate,
    )
    for number in range(10):
        writer.append([(TIME + 1000 + number, None, b"before")])
    writer.truncate_to(kept)
    for number in range(appended):
        writer.append([(TIME + number, None, b"behind")])
    with Path(writer.path, writer.segments()[0].name).open("ab") as file:
        file.write(tail)

    reader = new_log(recovery=recovery, read_only=True)

    times = [record.timestamp for record in reader]
    assert len(times) == kept + appended
    largest = max(times, default=-1)
    found = reader.fetch_offset_by_timestamp(SpecialTimestamp.MAX)
    assert (found.timestamp, found.offset) == (largest, times.index(largest) if times else -1)


def test_an_index_that_a_truncation_emptied_has_no_entry(new_log: Callable[..., UnifiedLog]):
    """[DUR-53, DUR-80] Of a sealed segment it was one entry long, and became one of zeros."""
    writer = new_log(index_interval_bytes=100, internal_segment_bytes=400)
    for number in range(12):
        writer.append([(TIME + number, None, b"x" * 80)])
    sealed = writer.segments()[1]
    index = Path(writer.path, sealed.name).with_suffix(".index")
    assert index.stat().st_size == 8

    writer.truncate_to(sealed.base_offset)
    writer.append([(TIME, None, b"a batch"), (TIME, None, b"of two")])

    reader = new_log(read_only=True)
    assert reader.verify().ok, str(reader.verify())


# ---- reader beside a deleting writer -------------------------------------------------------------
# A reader opens a log whose writer deletes what the reader has just listed [DUR-71, DUR-78].
#
# The loader looks several times: at the names, at the segments, at the small files. The writer
# takes its turn at each of these looks, once, several times or always.


LOOKS_AT_DELETIONS = {
    "names": (view, "Survey"),
    "places": (CheckpointStore, "read"),
    "epochs": (view, "find_epochs"),
    "state": (view, "state_of_last_writer"),
    "clean end": (view, "clean_end"),
    "end": (LogView, "_readable_end"),
    "gaps": (LogView, "_note_gaps"),
    "segments": (Segment, "scan_tables"),
    "ends": (Segment, "read_next_offset"),
}
MANY = 10**9


class Writer:
    """Fills three segments at each turn, and deletes all that were there before."""

    def __init__(self, log) -> None:
        self.log = log
        self.turns = 0

    def turn(self) -> None:
        self.turns += 1
        log = self.log
        first = log.roll().base_offset
        for _ in range(3):
            log.append([(None, b"%d" % (log.log_end_offset + number)) for number in range(4)])
            log.roll()
        log.append([(None, b"%d" % log.log_end_offset)])
        log.flush()
        log.delete_records(first)
        log.delete_old_segments()
        assert log._background.wait_until_idle()
        assert log.segments()[0].base_offset >= first


@pytest.fixture
def deleting_writer(new_log) -> Writer:
    log = new_log(file_delete_delay_ms=0)
    log.append([(None, b"%d" % number) for number in range(4)])
    made = Writer(log)
    made.turn()
    return made


def take_turns_at_deleting(monkeypatch, writer, look, count, *, after) -> None:
    """Let the writer take its turn beside each of the first *count* looks."""
    of, name = LOOKS_AT_DELETIONS[look]
    real = getattr(of, name)
    left, is_inside = count, False

    def beside(*arguments, **options):
        nonlocal left, is_inside
        if left <= 0 or is_inside:  # what the writer does looks, too
            return real(*arguments, **options)
        left -= 1
        is_inside = True
        try:
            if after:
                found = real(*arguments, **options)
            writer.turn()
        finally:
            is_inside = False
        return found if after else real(*arguments, **options)

    monkeypatch.setattr(of, name, beside)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("count", [1, 2, 5, 20])
@pytest.mark.parametrize("look", LOOKS_AT_DELETIONS)
def test_the_reader_follows_until_it_wins(monkeypatch, deleting_writer, look, count, after):
    """[DUR-78] what it sees is a log as it was at one moment, or is; nothing is called damaged."""
    take_turns_at_deleting(monkeypatch, deleting_writer, look, count, after=after)
    with segstore.open(deleting_writer.log.path, read_only=True) as log:
        monkeypatch.undo()
        assert [text for text in log.report.warnings if "missing" in text] == []
        assert log.report.damage is None
        assert deleting_writer.turns > 1 or look in {"clean end", "gaps"}
        log.refresh()
        offsets = [record.offset for record in log.scan()]
        values = [int(record.value) for record in log.scan()]
    end = deleting_writer.log.log_end_offset
    assert offsets == values == list(range(deleting_writer.log.log_start_offset, end))


def test_a_listing_that_missed_all_of_them(monkeypatch, deleting_writer):
    """[DUR-78] what is made and removed while a directory is read may be in no listing."""
    real, left = view.list_during_writes, iter(range(30))
    monkeypatch.setattr(
        view,
        "list_during_writes",
        lambda directory: (
            (SegmentListing(), array("q")) if next(left, None) is not None else real(directory)
        ),
    )
    with segstore.open(deleting_writer.log.path, read_only=True) as log:
        assert log.log_end_offset == deleting_writer.log.log_end_offset


@pytest.mark.parametrize("look", ["names", "epochs"])
def test_a_writer_that_is_always_faster(monkeypatch, deleting_writer, look):
    """[DUR-103] the reader gives up in the end, and says what it has met."""
    take_turns_at_deleting(monkeypatch, deleting_writer, look, MANY, after=look == "names")
    with pytest.raises(ResourceError, match="deletes its segments faster") as caught:
        segstore.open(deleting_writer.log.path, read_only=True)
    assert caught.value.file == deleting_writer.log.path
    assert 4 < deleting_writer.turns < 100
    monkeypatch.undo()
    with segstore.open(deleting_writer.log.path, read_only=True) as log:
        assert log.log_end_offset == deleting_writer.log.log_end_offset


@pytest.mark.parametrize("spoil", [Path.mkdir, Path.touch])
def test_a_log_start_that_cannot_be_read_any_more_brings_nothing_back(new_log, spoil):
    """[DUR-5, DUR-21] A refresh took it for a missing one, and showed deleted records."""
    writer = new_log()
    for number in range(10):
        writer.append([(TIME + number, None, b"value")])
    writer.delete_records(4)
    with new_log(read_only=True) as reader:
        checkpoint = Path(reader.path, LOG_START_OFFSET_CHECKPOINT)
        checkpoint.unlink()
        spoil(checkpoint)
        assert reader.refresh() == 10
        assert reader.log_start_offset == 4
        assert offsets(reader.scan()) == [*range(4, 10)]


# ---- reader beside a truncating writer -----------------------------------------------------------
# A reader opens a log while its writer cuts it: records that were cut are not missing [DUR-78].
#
# It had read the recovery point, the writer lowered it and cut, and the reader then found a log
# that ended below what had been synced. The writer takes its turn at each of the looks.


LOOKS_AT_CUTS = {
    "names": (view, "Survey"),
    "places": (CheckpointStore, "read"),
    "epochs": (view, "find_epochs"),
    "state": (view, "state_of_last_writer"),
    "segments": (Segment, "scan_tables"),
}


@pytest.fixture
def truncating_writer(new_log):
    log = new_log()
    for _ in range(10):
        log.append([(None, b"x")])
    log.roll()
    for _ in range(110):
        log.append([(None, b"x")])
    log.flush()
    assert log.durable_offset == 120
    return log


def take_turns_at_cutting(monkeypatch, look, count, turn) -> list[int]:
    """Let *turn* happen behind each of the first *count* looks; returns which did."""
    of, name = LOOKS_AT_CUTS[look]
    real, turns, is_inside = getattr(of, name), [], False

    def beside(*arguments, **options):
        nonlocal is_inside
        found = real(*arguments, **options)
        if len(turns) < count and not is_inside:
            turns.append(len(turns))
            is_inside = True
            try:
                turn()
            finally:
                is_inside = False
        return found

    monkeypatch.setattr(of, name, beside)
    return turns


def cut_five(writer) -> None:
    writer.truncate_to(writer.log_end_offset - 5)


def cut_and_write(writer) -> None:
    """The recovery point goes down, and then to where it was."""
    cut_five(writer)
    for _ in range(5):
        writer.append([(None, b"y")])
    writer.flush()


def cut_within_a_batch(writer) -> None:
    """It comes down to the first offset of the batch."""
    writer.append([(None, b"z")] * 4)
    writer.flush()
    writer.truncate_to(writer.log_end_offset - 2)


@pytest.mark.parametrize("change", [cut_five, cut_and_write, cut_within_a_batch])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("look", LOOKS_AT_CUTS)
def test_what_was_cut_is_not_missing(monkeypatch, truncating_writer, look, count, change):
    """[DUR-16, DUR-78] what the reader sees is the log as it was at one moment."""
    turns = take_turns_at_cutting(monkeypatch, look, count, lambda: change(truncating_writer))
    with segstore.open(truncating_writer.path, read_only=True) as log:
        monkeypatch.undo()
        assert turns
        assert log.report.damage is None
        assert log.report.warnings == []
        log.refresh()
        assert offsets(log) == offsets(truncating_writer)


def test_written_again_before_the_end_is_judged(monkeypatch, truncating_writer):
    """[DUR-16, DUR-78] the recovery point is the same again when the reader could compare it."""
    scan, written = Segment.scan_tables, []

    def then_written(*arguments, **options):
        yield from scan(*arguments, **options)
        if written == [False]:
            written.append(True)
            for _ in range(5):
                truncating_writer.append([(None, b"y")])
            truncating_writer.flush()

    def cut_first():
        cut_five(truncating_writer)  # which scans, too
        written.append(False)

    turns = take_turns_at_cutting(monkeypatch, "places", 1, cut_first)
    monkeypatch.setattr(Segment, "scan_tables", then_written)
    with segstore.open(truncating_writer.path, read_only=True) as log:
        assert (len(turns), written) == (1, [False, True])
        assert log.report.damage is None
        assert log.log_end_offset == truncating_writer.durable_offset == 120


def test_a_writer_that_cuts_at_every_look(monkeypatch, truncating_writer):
    """[DUR-103] the reader gives up, and says why: that is no damage."""
    turns = take_turns_at_cutting(monkeypatch, "places", MANY, lambda: cut_five(truncating_writer))
    with pytest.raises(LogTruncatedError, match="writer truncates it while it is opened"):
        segstore.open(truncating_writer.path, read_only=True)
    assert 1 < len(turns) < 20


@pytest.mark.parametrize("missing", [1, 100])
def test_what_is_missing_is_told(truncating_writer, missing):
    """[DUR-51] a log that lost its end is as damaged at the second look."""
    truncating_writer.close_quietly()
    last = Path(truncating_writer.path, f"{10:020d}.log")
    size = last.stat().st_size
    os.truncate(last, size - missing * (size // 110))
    with segstore.open(truncating_writer.path, read_only=True) as log:
        assert log.report.damage is not None
        assert len(log.report.warnings) == 1
        assert log.log_end_offset == 120 - missing
        assert "records from there to 119 had been synced" in log.report.damage


@pytest.mark.parametrize("deleted", [1, 4, 10, 40])
def test_a_loss_behind_deletions_is_looked_at_twice_too(monkeypatch, truncating_writer, deleted):
    """[DUR-51, DUR-78] Looks that the writer's deletions had cost were counted as its cuts."""
    truncating_writer.close_quietly()
    last = Path(truncating_writer.path, f"{10:020d}.log")
    os.truncate(last, last.stat().st_size // 2)
    look, looks = LogView._look, []

    def beside_deletions(loader: LogView) -> object:
        looks.append(loader)
        if len(looks) <= deleted:
            raise LogNotFoundError("deleted", file="x")
        return look(loader)

    monkeypatch.setattr(LogView, "_look", beside_deletions)
    with segstore.open(truncating_writer.path, read_only=True) as log:
        assert "had been synced, and are missing" in log.report.damage
    assert len(looks) == deleted + 2


# ---- reader beside an emptying writer ------------------------------------------------------------
# A reader opened a log during a full truncation, and was told that there is none.
#
# Between the last ``.log`` that goes and the new one the writer syncs the directory. The reader
# looked fifty times, and was done in less time than a sync takes. Then it waited for half a second,
# and was told the same of a writer that was held up for longer.


STATE = ".segstore"


@pytest.fixture
def segment(new_log) -> Path:
    """Return the only segment of a log of five records."""
    log = new_log()
    log.append([(None, b"x")] * 5)
    log.close()
    return Path(log.path, f"{0:020d}.log")


def sleep_with(monkeypatch: pytest.MonkeyPatch, pause: Callable[[float], None]) -> None:
    """Call *pause* where this thread sleeps; threads that other tests left go on to sleep."""
    here, sleep = threading.get_ident(), time.sleep

    def choose(seconds: float) -> None:
        (pause if threading.get_ident() == here else sleep)(seconds)

    monkeypatch.setattr(time, "sleep", choose)


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    made: list[float] = []
    sleep_with(monkeypatch, made.append)
    return made


def test_a_reader_waits_for_the_new_segment(monkeypatch, segment):
    """[DUR-18, DUR-71] for as long as a slow sync takes."""
    away, waited = segment.with_suffix(".away"), []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if sum(waited) > 0.3 and away.exists():
            away.rename(segment)

    segment.rename(away)
    sleep_with(monkeypatch, sleep)
    with segstore.open(segment.parent, read_only=True) as log:
        assert log.log_end_offset == 5
        assert log.report.damage is None
    assert waited[0] <= 0.001
    assert max(waited) <= 0.01


def test_it_does_not_wait_for_ever(segment, pauses):
    """[DUR-103] a truncation that a crash broke off leaves no segment either."""
    segment.unlink()
    with pytest.raises(NotALogError):
        segstore.open(segment.parent, read_only=True)
    assert 0.3 < sum(pauses) < 1


def test_it_does_not_wait_where_there_is_no_log(segment, pauses):
    """[DUR-71] Nobody is writing where nothing says that a log was there."""
    segment.unlink()
    (segment.parent / STATE).unlink()
    with pytest.raises(NotALogError):
        segstore.open(segment.parent, read_only=True)
    assert pauses == []


def mark(path: Path) -> None:
    """Say what an open says that sets all aside; there may be no state yet."""
    (path / RESTART_MARKER).write_text("7\n")
    (path / STATE).unlink()


@pytest.fixture(params=[note_being_emptied, mark], ids=["truncation", "open"])
def emptied(request, segment) -> Path:
    """Return where the segment was, of a log that somebody is emptying."""
    request.param(segment.parent)
    away = segment.with_suffix(".away")
    segment.rename(away)
    return away


@pytest.fixture
def emptying_writer(new_log, segment):
    return new_log(segment.parent)


@pytest.mark.usefixtures("emptying_writer")
@pytest.mark.parametrize("seconds", [1.5, 4])
def test_it_waits_for_a_writer_that_is_held_up(monkeypatch, segment, emptied, seconds):
    """[DUR-18, DUR-71]"""
    waited = []

    def sleep(pause: float) -> None:
        waited.append(pause)
        if sum(waited) > seconds and emptied.exists():
            emptied.rename(segment)

    sleep_with(monkeypatch, sleep)
    with segstore.open(segment.parent, read_only=True) as log:
        assert log.log_end_offset == 5
    assert max(waited) <= 0.01


@pytest.mark.usefixtures("emptying_writer", "emptied")
def test_it_does_not_wait_for_ever_for_a_writer(segment, pauses):
    """[DUR-103] But it does not say that there is no log: it is being made."""
    with pytest.raises(ResourceError, match="open the log again") as told:
        segstore.open(segment.parent, read_only=True)
    assert 4 < sum(pauses) < 10
    assert told.value.file == str(segment.parent)


def test_a_writer_that_dies_meanwhile(monkeypatch, emptying_writer, segment, emptied):
    """[DUR-71] Nobody makes the new segment."""
    waited = []

    def sleep(pause: float) -> None:
        waited.append(pause)
        if len(waited) == 100:
            emptying_writer.close_quietly()

    sleep_with(monkeypatch, sleep)
    with pytest.raises(NotALogError):
        segstore.open(emptied.parent, read_only=True)
    assert len(waited) == 100
    assert not segment.exists()


@pytest.mark.usefixtures("emptied")
def test_a_crash_is_not_waited_for(segment, pauses):
    """[DUR-71] What it says stands, and nobody is writing."""
    with pytest.raises(NotALogError):
        segstore.open(segment.parent, read_only=True)
    assert sum(pauses) < 1


@pytest.mark.usefixtures("emptying_writer")
def test_the_new_segment_comes_before_the_note_goes(monkeypatch, segment):
    """[DUR-18] Who sees that it is gone finds the segment, and looks for it then."""
    note_being_emptied(segment.parent)
    away = segment.with_suffix(".away")
    segment.rename(away)
    sleep_with(monkeypatch, lambda _: None)
    asked = view.list_during_writes
    looks = []

    def look(directory: Directory) -> object:
        found = asked(directory)
        looks.append(found)
        if len(looks) == 70:
            away.rename(segment)
            note_being_emptied(segment.parent, is_being_emptied=False)
        return found

    monkeypatch.setattr(view, "list_during_writes", look)
    with segstore.open(segment.parent, read_only=True) as log:
        assert log.log_end_offset == 5
    assert len(looks) == 71


# ---- reader of a log cut while it looks ----------------------------------------------------------
# A writer cuts a log and fills it again while a read-only handle looks at it.
#
# In files of the same names and sizes: the handle went on with those that had no name any more, for
# ever, and was not told.


@pytest.fixture
def refilled_path(tmp_path: Path) -> Path:
    return tmp_path / "a-0"


@pytest.fixture
def refilling_writer(refilled_path: Path) -> Iterator[UnifiedLog]:
    with segstore.open(refilled_path, **SETTINGS) as log:
        yield log


def behind(
    monkeypatch: pytest.MonkeyPatch, name: str, base_offset: int, change: Callable[[], object]
) -> list[int]:
    """Let *change* happen once, behind that method of the segment; returns when it did."""
    method, happened = getattr(Segment, name), []

    def changed(self: Segment, *args: object, **options: object) -> object:
        answer = method(self, *args, **options)
        if self.base_offset == base_offset and not happened:
            happened.append(base_offset)
            change()
        return answer

    monkeypatch.setattr(Segment, name, changed)
    return happened


@pytest.mark.parametrize("cut", [9, 12, 25])
@pytest.mark.parametrize("base_offset", [0, 10, 20, 30])
def test_a_cut_above_what_was_seen_during_a_refresh(
    refilling_writer: UnifiedLog,
    refilled_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cut: int,
    base_offset: int,
):
    """[DUR-77] Nothing that was shown is gone: nothing is told, and it is the log as it is."""
    fill(refilling_writer, b"A", 8)
    with segstore.open(refilled_path, read_only=True) as log:
        fill(refilling_writer, b"A", 31)

        def change() -> None:
            refilling_writer.truncate_to(cut)
            fill(refilling_writer, b"B", 31)

        assert log.log_end_offset == 8
        happened = behind(monkeypatch, "scan_table", base_offset, change)
        assert log.refresh() == 31
        assert happened
        assert values(log) == values(refilling_writer)
        assert log.verify().ok


@pytest.mark.parametrize("cut", [5, 12])
@pytest.mark.parametrize("base_offset", [10, 20])
def test_a_cut_during_an_open(
    refilling_writer: UnifiedLog,
    refilled_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cut: int,
    base_offset: int,
):
    """[DUR-71, DUR-77] The reader looks at all of it, whatever was synced behind the rolls."""
    fill(refilling_writer, b"A", 31)
    refilling_writer.flush()
    (refilled_path / "recovery-point-offset-checkpoint").write_text("0\n1\na 0 0\n")

    def change() -> None:
        refilling_writer.truncate_to(cut)
        fill(refilling_writer, b"B", 31)

    happened = behind(monkeypatch, "scan_table", base_offset, change)
    with segstore.open(refilled_path, read_only=True) as log:
        assert happened
        assert values(log) == values(refilling_writer)
        assert log.refresh() == 31


@pytest.mark.parametrize("cut", [11, 15, 19])
def test_what_grows_behind_a_cut_is_no_damage(
    new_log: Callable[..., UnifiedLog], monkeypatch: pytest.MonkeyPatch, cut: int
):
    """[DUR-16, DUR-71] A segment ended in part of a batch, and others were listed behind it.

    That end was not below the recovery point: one look decided that it was damage.
    """
    writer = new_log()
    for _ in range(3):
        fill_between(writer, writer.log_end_offset, writer.log_end_offset + 10)
        writer.roll()
    writer.flush()

    def change() -> None:
        writer.truncate_to(cut)
        for _ in range(12):  # larger batches: within the size that was listed are more offsets
            writer.append([(TIME, None, VALUE)] * 4)
        writer.flush()

    (Path(writer.path) / "recovery-point-offset-checkpoint").write_text("0\n1\ntopic 0 0\n")
    happened = behind(monkeypatch, "scan_tables", 0, change)
    with new_log(read_only=True) as log:
        assert happened
        assert (log.report.damage, log.report.early_end) == (None, None)
        assert log.log_end_offset == cut + 48


def test_a_cut_during_the_look_behind_a_cut(
    refilling_writer: UnifiedLog, refilled_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """[DUR-77] Told once, and of the log behind the second one."""
    fill(refilling_writer, b"A", 18)
    with segstore.open(refilled_path, read_only=True) as log:
        refilling_writer.truncate_to(5)
        fill(refilling_writer, b"B", 41)

        def change() -> None:
            refilling_writer.truncate_to(15)
            fill(refilling_writer, b"C", 41)

        happened = behind(monkeypatch, "scan_table", 20, change)
        with pytest.raises(LogTruncatedError):
            log.refresh()
        assert happened
        assert values(log) == values(refilling_writer)
        assert log.refresh() == 41


def test_a_cut_before_the_new_end_is_read(
    refilling_writer: UnifiedLog, refilled_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """[DUR-77] The old end was asked before that: what was cut in between was never told."""
    fill(refilling_writer, b"A", 5)
    with segstore.open(refilled_path, read_only=True) as log:
        fill(refilling_writer, b"A", 9)
        method, happened = ObservedEnd.__init__, []

        def changed(self: ObservedEnd, *args: object) -> None:
            if not happened:
                happened.append(True)
                refilling_writer.truncate_to(2)
                fill(refilling_writer, b"B", 9)
            method(self, *args)

        monkeypatch.setattr(ObservedEnd, "__init__", changed)
        with pytest.raises(LogTruncatedError):
            log.refresh()
        assert happened
        assert values(log) == values(refilling_writer)


@pytest.mark.parametrize("end", [310, 315])
@pytest.mark.parametrize("is_read", [False, True])
def test_a_repair_that_writes_the_same_end_again(
    refilling_writer: UnifiedLog, refilled_path: Path, end: int, *, is_read: bool
):
    """[DUR-77] The bytes before the end are the same, one before them is not: it is told."""
    fill(refilling_writer, b"A", end)
    with segstore.open(refilled_path, read_only=True) as log:
        if is_read:
            values(log)
        refilling_writer.truncate_to(50)
        fill(refilling_writer, b"A", end, other=150)

        with pytest.raises(LogTruncatedError):
            log.refresh()
        assert log.refresh() == end
        assert values(log)[150] == b"X00150"


def test_a_scan_under_way_beside_such_a_repair(refilling_writer: UnifiedLog, refilled_path: Path):
    """[DUR-77]"""
    fill(refilling_writer, b"A", 315)
    with segstore.open(refilled_path, read_only=True) as log:
        records = iter(log.scan())
        assert next(records).value == b"A00000"
        refilling_writer.truncate_to(50)
        fill(refilling_writer, b"A", 315, other=150)

        with pytest.raises(LogTruncatedError):
            list(records)


def test_a_truncation_below_a_log_whose_records_were_all_deleted(
    refilling_writer: UnifiedLog, refilled_path: Path
):
    """[DUR-77] No batch was left to tell by: the log begins before what was seen."""
    fill(refilling_writer, b"A", 30)
    with segstore.open(refilled_path, read_only=True) as log:
        tail = log.tail(0, timeout=0.2)
        assert [next(tail).offset for _ in range(30)] == list(range(30))
        refilling_writer.delete_records(30)
        assert log.refresh() == 30
        assert log.log_start_offset == 30
        refilling_writer.truncate_to(5)
        fill(refilling_writer, b"B", 40)

        with pytest.raises(LogTruncatedError):
            log.refresh()
        assert log.refresh() == 40
        assert log.log_start_offset == 5
        assert values(log) == values(refilling_writer)


def test_a_scan_without_a_descriptor_left(refilling_writer: UnifiedLog, refilled_path: Path):
    """[DUR-6, DUR-31] It could not be told whether the log was cut, and it went on."""
    for number in range(60):
        refilling_writer.append([(TIME, None, b"A%05d" % number + bytes(100_000))])
    with segstore.open(refilled_path, read_only=True) as log:
        records = iter(log.scan())
        next(records)
        refilling_writer.truncate_to(5)
        for number in range(5, 60):
            refilling_writer.append([(TIME, None, b"B%05d" % number + bytes(100_000))])
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            with pytest.raises(ResourceError):
                list(records)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("position", [-45, -3], ids=["header", "payload"])
def test_a_bit_that_rots_in_the_last_batch(
    refilling_writer: UnifiedLog, refilled_path: Path, position: int
):
    """[DUR-7, DUR-79] In its header it was told as a truncation, and the record was gone then."""
    fill(refilling_writer, b"A", 9)
    with segstore.open(refilled_path, read_only=True) as log:
        assert len(values(log)) == 9
        with (refilled_path / f"{0:020d}.log").open("r+b") as file:
            file.seek(position, os.SEEK_END)
            (byte,) = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))

        for _ in range(2):
            assert log.refresh() == 9
            with pytest.raises(CorruptRecordError):
                values(log)


def test_what_counts_as_replaced(refilling_writer: UnifiedLog, refilled_path: Path):
    """Only what is open can be another file than the one of its name."""
    fill(refilling_writer, b"A", 25)
    with segstore.open(refilled_path, read_only=True) as log:
        values(log)
        segments = log._local_log.segments
        assert not is_any_replaced(segments)
        name = refilled_path / f"{10:020d}.log"
        content = name.read_bytes()
        name.unlink()
        assert not is_any_replaced(segments)
        name.write_bytes(content)
        assert is_any_replaced(segments)
        assert not is_any_replaced([segments.first_segment])
    assert not is_any_replaced(segments)


# ---- reader of a preallocated log ----------------------------------------------------------------
# A handle that only reads took the preallocated zeros of a live log for a batch, as Kafka's.


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_a_reader_begins_inside_the_last_batch_of_a_preallocated_log(tmp_path: Path, recovery: str):
    """[SEG-18, DUR-76] Kafka looks at the batch behind the one with the offset: there is none."""
    path = tmp_path / "orders-0"
    with segstore.open(
        path, recovery=recovery, preallocate=True, internal_segment_bytes=4000
    ) as log:
        log.append([(None, b"value")] * 10)
        assert (path / log.segments()[0].name).stat().st_size == 4000

        with segstore.open(path, recovery=recovery, read_only=True) as reader:
            assert offsets(reader.scan(5)) == [5, 6, 7, 8, 9]
            assert offsets(reader.read(5)) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_a_reader_looks_for_times_in_an_empty_preallocated_log(tmp_path: Path, recovery: str):
    """[TS-1, TS-3, DUR-76] What is behind the end is no damage."""
    path = tmp_path / "orders-0"
    with (
        segstore.open(
            path, recovery=recovery, preallocate=True, internal_segment_bytes=4000
        ) as log,
        segstore.open(path, recovery=recovery, read_only=True) as reader,
    ):
        assert (path / log.segments()[0].name).stat().st_size == 4000
        for handle in (log, reader):
            assert handle.offset_for_timestamp(TIME) is None
            assert handle.offset_for_timestamp(-1) is None
            assert handle.fetch_offset_by_timestamp(SpecialTimestamp.MAX).offset == -1


# ---- reader of a rewritten log -------------------------------------------------------------------
# A reader beside a writer that cut the log and wrote it again, or deleted it.
#
# The reader spoke of corruption where nothing was damaged, went on behind records that were others
# by now, or waited for ever for records of a log that was gone.


@pytest.fixture
def rewritten_path(tmp_path):
    return tmp_path / "a-0"


def _stale(path):
    """Return a writer, and a reader that has not seen that the log was cut and written again."""
    writer = segstore.open(path)
    for _ in range(3):
        writer.append([(None, b"abc")])
    reader = segstore.open(path, read_only=True)
    writer.truncate_to(0)
    writer.append([(None, b"n%d" % number) for number in range(20)])
    return writer, reader


WAYS = {
    "iterate": list,
    "read": lambda log: list(log.read(0, 10**6)),
    "arrow": lambda log: log.to_arrow(),
    "slice": lambda log: list(log.slice(0, 10**6).records()),
    "committed": lambda log: list(log.scan(isolation="read_committed")),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_damage_is_called_a_truncation(rewritten_path, way):
    """[DUR-77]"""
    writer, reader = _stale(rewritten_path)
    with writer, reader:
        with pytest.raises(LogTruncatedError):
            WAYS[way](reader)
        with pytest.raises(LogTruncatedError):
            reader.refresh()
        assert [record.offset for record in reader] == list(range(20))
        assert reader.verify().ok


def test_damage_stays_damage(rewritten_path):
    """[DUR-79] Beside a writer that did not cut."""
    with segstore.open(rewritten_path) as writer:
        for number in range(3):
            writer.append([(None, b"abc%d" % number)])
        reader = segstore.open(rewritten_path, read_only=True)
        file = rewritten_path / f"{0:020d}.log"
        content = bytearray(file.read_bytes())
        content[len(content) // 3 + 11] ^= 0xFF  # the length of the second batch
        file.write_bytes(content)
        with pytest.raises(CorruptLogError):
            list(reader)
        reader.close()


@pytest.mark.parametrize("more", [0, 1, 5])
def test_a_tail_over_other_records_up_to_the_same_end_or_beyond(rewritten_path, more):
    """[DUR-77] The last batch that was read is another one now."""
    with segstore.open(rewritten_path) as writer:
        writer.append([(None, b"a")])
        writer.append([(None, b"b")])
        with segstore.open(rewritten_path, read_only=True) as reader:
            tail = reader.tail(0, timeout=0.2)
            assert [next(tail).value, next(tail).value] == [b"a", b"b"]
            writer.truncate_to(1)
            for number in range(1 + more):
                writer.append([(None, b"%d" % number)])
            with pytest.raises(LogTruncatedError):
                list(tail)
            assert reader.log_end_offset == 2 + more
            assert [record.value for record in reader.scan(1)] == [
                b"%d" % number for number in range(1 + more)
            ]
            assert reader.refresh() == 2 + more
            writer.append([(None, b"new")])
            assert [record.value for record in reader.tail(2 + more, timeout=0.1)] == [b"new"]


def test_a_log_that_was_emptied_and_written_again(rewritten_path):
    """[DUR-77, TRU-4] Its file is another one."""
    with segstore.open(rewritten_path) as writer:
        writer.append([(None, b"a")])
        with segstore.open(rewritten_path, read_only=True) as reader:
            writer.truncate_fully_and_start_at(0)
            writer.append([(None, b"b")])
            with pytest.raises(LogTruncatedError):
                reader.refresh()
            assert [record.value for record in reader] == [b"b"]


def test_a_writer_that_only_appends_is_followed(rewritten_path):
    """[DUR-76, DUR-77] Over rolls, too."""
    with (
        segstore.open(rewritten_path) as writer,
        segstore.open(rewritten_path, read_only=True) as reader,
    ):
        for number in range(10):
            writer.append([(None, b"%d" % number)])
            if number % 3 == 2:
                writer.roll()
            if number % 2:
                assert reader.refresh() == number + 1
        writer.delete_records(5)
        assert reader.refresh() == 10
        assert [record.offset for record in reader] == list(range(5, 10))


@pytest.mark.parametrize("anew", [False, True])
def test_a_log_that_was_deleted(rewritten_path, anew):
    """[DUR-77, DEL-1] Who follows it is told; another log of that name is another log."""
    writer = segstore.open(rewritten_path)
    writer.append([(None, b"a")])
    reader = segstore.open(rewritten_path, read_only=True)
    tail = reader.tail(0)
    assert next(tail).value == b"a"
    writer.delete()
    if anew:
        writer = segstore.open(rewritten_path)
        writer.append([(None, b"n1")])
        writer.append([(None, b"n2")])
        writer.close()
    with pytest.raises(LogNotFoundError):
        next(tail)
    with pytest.raises(LogNotFoundError):
        reader.refresh()
    reader.close()


# ---- reader of a topic made again ----------------------------------------------------------------
# A reader followed a topic that was deleted and made again in the same directory.
#
# Where no record of the old topic had been seen, nothing but ``partition.metadata`` shows it.
# Looked for in what follows a log: `refresh`, `tail` before and while it waits, and a read between.
# In a directory that was made again, as ``rm -r`` and `create_topic` do, readers spoke of lost
# records and named no id, and a read-only manager gave the dead handle for ever.


OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.fixture
def topic_path(tmp_path):
    return tmp_path / "t-0"


def make(path, topic_id, count=0):
    with segstore.open(path, topic_id=topic_id, durability="none") as log:
        if count:
            log.append([(None, b"%d" % number) for number in range(count)])


def remake(path, topic_id, count):
    for file in path.iterdir():
        file.unlink()
    make(path, topic_id, count)


def names_both(error):
    return topic_id_text(OLD) in str(error) and topic_id_text(NEW) in str(error)


@pytest.mark.parametrize("count", [0, 10])
@pytest.mark.parametrize("new_count", [1, 10, 15])
def test_a_handle_does_not_follow_another_topic(topic_path, count, new_count):
    """[UNI-5, DUR-77] Every look says so, and what was seen stays."""
    make(topic_path, OLD, count)
    with segstore.open(topic_path, read_only=True) as reader:
        reader.refresh()
        remake(topic_path, NEW, new_count)

        for _ in range(2):
            with pytest.raises(InconsistentTopicIdError, match="deleted and made again") as caught:
                reader.refresh()
            assert names_both(caught.value)
        assert reader.log_end_offset == count
        assert reader.topic_id == OLD


def test_a_tail_ends_where_the_topic_does(topic_path):
    make(topic_path, OLD, 3)
    with segstore.open(topic_path, read_only=True) as reader:
        tail = reader.tail(0, timeout=5, poll_interval=0.001)
        assert [next(tail).offset for _ in range(3)] == [0, 1, 2]
        remake(topic_path, NEW, 10)

        with pytest.raises(InconsistentTopicIdError) as caught:
            next(tail)
        assert names_both(caught.value)
        with pytest.raises(InconsistentTopicIdError):
            reader.tail(0, timeout=0)


def test_an_id_that_comes_later_is_that_of_the_log(topic_path):
    """A log that was made without one gets it from its writer; only a change of it is one."""
    with segstore.open(topic_path, durability="none") as writer:
        writer.append([(None, b"a")])
        with segstore.open(topic_path, read_only=True) as reader:
            writer.assign_topic_id(OLD)
            writer.append([(None, b"b")])

            assert reader.refresh() == 2
            remake_metadata(topic_path, NEW)
            with pytest.raises(InconsistentTopicIdError) as caught:
                reader.refresh()
    assert names_both(caught.value)


def remake_metadata(path, topic_id):
    text = f"version: 0\ntopic_id: {topic_id_text(topic_id)}"
    (path / "new").write_text(text)
    (path / "new").rename(path / "partition.metadata")


def test_an_id_that_cannot_be_read_is_no_other_topic(topic_path):
    """[UNI-5] As for an open: the log is what it was."""
    make(topic_path, OLD, 3)
    with segstore.open(topic_path, read_only=True) as reader:
        for zeros in (40, 100_000):  # more than a file of this kind can have
            (topic_path / "partition.metadata").write_bytes(bytes(zeros))
            assert reader.refresh() == 3
        (topic_path / "partition.metadata").unlink()
        assert reader.refresh() == 3


def remake_directory(path, topic_id, count):
    path.rename(path.parent / "old")  # else the new one may get its inode
    make(path, topic_id, count)
    shutil.rmtree(path.parent / "old")


@pytest.fixture(params=["held", "closed"])
def descriptors(request):
    """Whether the pool closes the descriptor of the directory behind each call."""
    if request.param == "closed":
        _core.limit_descriptors(1)
    yield
    _core.limit_descriptors(0)


@pytest.mark.usefixtures("descriptors")
@pytest.mark.parametrize("count", [0, 10])
@pytest.mark.parametrize("new_count", [1, 10, 15])
def test_a_handle_names_both_topics_of_a_directory_that_was_made_again(
    topic_path, count, new_count
):
    """[UNI-5, DUR-78] docs/decisions/topic-ids-in-offsets.md promises it."""
    make(topic_path, OLD, count)
    with segstore.open(topic_path, read_only=True) as reader:
        remake_directory(topic_path, NEW, new_count)
        for _ in range(2):
            _core.Directory("/").close()
            with pytest.raises(InconsistentTopicIdError, match="deleted and made again") as caught:
                reader.refresh()
            assert names_both(caught.value)
            with pytest.raises(InconsistentTopicIdError):
                reader.tail(0, timeout=0)
        assert reader.log_end_offset == count
        assert reader.topic_id == OLD


def test_a_tail_ends_where_the_directory_was_made_again(topic_path):
    make(topic_path, OLD, 3)
    with segstore.open(topic_path, read_only=True) as reader:
        tail = reader.tail(0, timeout=5, poll_interval=0.001)
        assert [next(tail).offset for _ in range(3)] == [0, 1, 2]
        remake_directory(topic_path, NEW, 10)

        with pytest.raises(InconsistentTopicIdError) as caught:
            next(tail)
        assert names_both(caught.value)
        assert [record.value for record in reader] == [b"0", b"1", b"2"]


@pytest.mark.usefixtures("descriptors")
def test_a_directory_of_no_known_topic_that_was_made_again(topic_path):
    """No id was read before: the error says what there is, and speaks of no lost records."""
    make(topic_path, None, 3)
    with segstore.open(topic_path, read_only=True) as reader:
        remake_directory(topic_path, NEW, 10)
        _core.Directory("/").close()
        with pytest.raises(LogNotFoundError, match="another one is at its path") as caught:
            reader.refresh()
        assert topic_id_text(NEW) in str(caught.value)
        shutil.rmtree(topic_path)
        with pytest.raises(LogNotFoundError, match="the log was deleted"):
            reader.refresh()


@pytest.mark.parametrize("remake_it", [remake, remake_directory])
def test_a_read_only_manager_opens_the_new_log(topic_path, remake_it):
    """The old handle stays with its user, until the manager closes it."""
    make(topic_path, OLD, 3)
    with segstore.open_dir(topic_path.parent, read_only=True) as manager:
        old = manager.log("t", 0)
        assert manager.log("t", 0) is old
        remake_it(topic_path, NEW, 10)

        new = manager.log("t", 0)
        assert new is manager.log("t", 0)
        assert [record.value for record in new] == [b"%d" % number for number in range(10)]
        assert new.topic_id == NEW
        assert not old.closed
        with pytest.raises(InconsistentTopicIdError):
            old.refresh()
    assert old.closed
    assert new.closed


def test_a_read_only_manager_of_a_removed_partition(topic_path):
    make(topic_path, OLD, 3)
    with segstore.open_dir(topic_path.parent, read_only=True) as manager:
        old = manager.log("t", 0)
        shutil.rmtree(topic_path)
        with pytest.raises(segstore.UnknownTopicOrPartitionError):
            manager.log("t", 0)
    assert old.closed


# ---- reader of replaced segments -----------------------------------------------------------------
# A reader beside a writer that truncates and writes again, in files of the same names and sizes.
#
# The reader kept its open segments, and served records that did not exist any more for ever; where
# the last segment was empty, or gone, it was not even told.


@pytest.fixture
def reader(refilling_writer: UnifiedLog, refilled_path: Path) -> Iterator[Callable[[], UnifiedLog]]:
    """Open the log to read it, once; what it is opened beside is the writer's of that moment."""
    opened: list[UnifiedLog] = []

    def open_reader() -> UnifiedLog:
        opened.append(segstore.open(refilled_path, read_only=True))
        return opened[-1]

    assert not refilling_writer.closed
    yield open_reader
    for log in opened:
        log.close()


# ---- other records in files of the same names and sizes ------------------------------------------


@pytest.mark.parametrize("end", [30, 35])
@pytest.mark.parametrize("cut", [0, 5, 10, 19, 29])
@pytest.mark.parametrize("has_read", [False, True])
def test_a_reader_of_a_log_that_was_cut_and_filled_again(
    refilling_writer: UnifiedLog,
    reader: Callable[[], UnifiedLog],
    end: int,
    cut: int,
    *,
    has_read: bool,
):
    """[DUR-77, DUR-79] Told once; then it is the new log, by all ways. 30: the last is empty."""
    fill(refilling_writer, b"A", end)
    log = reader()
    if has_read:
        assert values(log) == values(refilling_writer)
    refilling_writer.truncate_to(cut)
    fill(refilling_writer, b"B", end)

    with pytest.raises(LogTruncatedError):
        log.refresh()

    assert log.refresh() == end
    assert values(log) == values(refilling_writer)
    for offset in range(end):
        (mine, *_), (theirs, *_) = log.read(offset, 1), refilling_writer.read(offset, 1)
        assert (mine.offset, mine.value) == (theirs.offset, theirs.value)
    assert log.verify().ok


def test_a_tail_behind_an_empty_segment(
    refilling_writer: UnifiedLog, reader: Callable[[], UnifiedLog]
):
    """[DUR-77] It went on with the records behind those that it had not seen."""
    fill(refilling_writer, b"A", 30)
    tail = reader().tail(0, timeout=0.2)
    assert [next(tail).offset for _ in range(30)] == list(range(30))
    refilling_writer.truncate_to(5)
    fill(refilling_writer, b"B", 31)

    with pytest.raises(LogTruncatedError):
        next(tail)


def test_other_records_before_a_last_one_that_is_the_same(
    refilling_writer: UnifiedLog, reader: Callable[[], UnifiedLog]
):
    """[DUR-77] A replay: the header of the last batch tells nothing, those before it do."""
    fill(refilling_writer, b"A", 9)
    log = reader()
    refilling_writer.truncate_to(7)
    fill(refilling_writer, b"B", 8)
    fill(refilling_writer, b"A", 9)

    with pytest.raises(LogTruncatedError):
        log.refresh()
    assert values(log) == values(refilling_writer)


def test_damage_before_the_last_batch_is_no_truncation(
    refilling_writer: UnifiedLog, reader: Callable[[], UnifiedLog], refilled_path: Path
):
    """[DUR-79]"""
    fill(refilling_writer, b"A", 9)
    log = reader()
    file = refilled_path / f"{0:020d}.log"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)

    assert log.refresh() == 9
    with pytest.raises((CorruptLogError, CorruptRecordError)):
        values(log)


# ---- what changes while it is looked at ----------------------------------------------------------


def before_next(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[], object]) -> None:
    """Let *change* happen once, before the next call of that method of a segment."""
    method = getattr(Segment, name)

    def changed(self: Segment, *args: object, **options: object) -> object:
        monkeypatch.setattr(Segment, name, method)
        change()
        return method(self, *args, **options)

    monkeypatch.setattr(Segment, name, changed)


@pytest.mark.parametrize("end", [17, 20, 25, 40])
@pytest.mark.parametrize("cut", [3, 12, 16])
def test_a_cut_while_new_records_are_looked_at(
    refilling_writer: UnifiedLog,
    reader: Callable[[], UnifiedLog],
    monkeypatch: pytest.MonkeyPatch,
    end: int,
    cut: int,
):
    """[DUR-76, DUR-77] It was a CorruptRecordError, or a LogNotFoundError, out of the refresh."""
    fill(refilling_writer, b"A", 15)
    log = reader()
    fill(refilling_writer, b"A", 28)

    def change() -> None:
        refilling_writer.truncate_to(cut)
        fill(refilling_writer, b"B", end)

    before_next(monkeypatch, "scan_table", change)
    if cut < 15:
        with pytest.raises(LogTruncatedError):
            log.refresh()

    log.refresh()  # names that came since the files were listed are of the next look
    assert log.refresh() == end
    assert values(log) == values(refilling_writer)


@pytest.mark.parametrize("is_refreshed", [False, True])
@pytest.mark.parametrize("cut", [3, 12, 20])
def test_a_scan_under_way_while_the_log_is_cut(
    refilling_writer: UnifiedLog,
    reader: Callable[[], UnifiedLog],
    monkeypatch: pytest.MonkeyPatch,
    cut: int,
    *,
    is_refreshed: bool,
):
    """[DUR-77] Another thread may look again meanwhile; no scan mixes what was and what is."""
    fill(refilling_writer, b"A", 25)
    log = reader()

    def change() -> None:
        refilling_writer.truncate_to(cut)
        fill(refilling_writer, b"B", 25)
        if is_refreshed:
            with pytest.raises(LogTruncatedError):
                log.refresh()

    before_next(monkeypatch, "read", change)
    with pytest.raises(LogTruncatedError):
        values(log)


def test_a_look_up_by_timestamp_while_the_log_is_cut(
    refilling_writer: UnifiedLog, reader: Callable[[], UnifiedLog]
):
    """[DUR-77] The time of a file that had just been renamed was a LogNotFoundError."""
    fill(refilling_writer, b"A", 30)
    log = reader()
    refilling_writer.truncate_to(5)

    with pytest.raises(LogTruncatedError):
        log.offset_for_timestamp(TIME + 1000)


@pytest.mark.parametrize(
    "read",
    [values, lambda log: log.read(0, 100), lambda log: log.offset_for_timestamp(TIME)],
    ids=["scan", "read", "timestamp"],
)
def test_records_that_were_deleted_before_they_were_read(
    refilling_writer: UnifiedLog,
    reader: Callable[[], UnifiedLog],
    read: Callable[[UnifiedLog], object],
):
    """[DUR-78] Out of range, and no file that is missing; behind a refresh it is the new log."""
    fill(refilling_writer, b"A", 45)
    log = reader()
    refilling_writer.truncate_to(44)
    with pytest.raises(LogTruncatedError):
        log.refresh()  # it has no segment open from here on
    refilling_writer.delete_records(30)
    refilling_writer._background.wait_until_idle()

    with pytest.raises(OffsetOutOfRangeError, match="writer deleted what was read"):
        read(log)
    assert log.refresh() == 44
    assert values(log) == values(refilling_writer)


@pytest.mark.parametrize("look", ["scan_table", "translate_offset"])
def test_an_open_while_the_log_is_cut(
    refilling_writer: UnifiedLog,
    reader: Callable[[], UnifiedLog],
    monkeypatch: pytest.MonkeyPatch,
    look: str,
):
    """[DUR-71, DUR-77] It was a CorruptRecordError: the file was shorter than it had been."""
    fill(refilling_writer, b"A", 8)
    refilling_writer.flush()
    fill(refilling_writer, b"A", 28)

    def change() -> None:
        refilling_writer.truncate_to(3)
        fill(refilling_writer, b"B", 15)

    before_next(monkeypatch, look, change)
    log = reader()

    with contextlib.suppress(LogTruncatedError):
        log.refresh()
    assert log.refresh() == 15
    assert values(log) == values(refilling_writer)


def test_an_open_while_the_marker_is_taken_away(
    refilling_writer: UnifiedLog, refilled_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """[DUR-71] A writer that opened between the look for it and the reading: there is none."""
    fill(refilling_writer, b"A", 5)
    exists = Directory.exists
    monkeypatch.setattr(
        segstore.log.files.checkpoint_store.CleanShutdownMarker,
        "parse",
        lambda _: pytest.fail("a marker"),
    )
    with segstore.open(refilled_path, read_only=True) as log:
        home = Hiding(log._checkpoint_store.directory, exists)
        monkeypatch.setattr(log._checkpoint_store, "_home", home)
        assert log._checkpoint_store._read_own_marker([]) is None
        assert log.refresh() == 5


class Hiding:
    """A directory in which there seems to be a clean marker, until it is read."""

    def __init__(self, directory: Directory, exists: Callable[..., bool]) -> None:
        self._directory = directory
        self._exists = exists

    def exists(self, name: str) -> bool:
        return name == CLEAN_SHUTDOWN_MARKER or self._exists(self._directory, name)

    def __getattr__(self, name: str) -> object:
        return getattr(self._directory, name)


# ---- reader step by step -------------------------------------------------------------------------
# Scripts of a writer and readers in one process, with a look in between; short ones, random ones.
#
# After some of them a reader was not told of a truncation, and held records that were gone.


SETTINGS_OF_THE_STEPS = {"durability": "none", "file_delete_delay_ms": 0, "segment_ms": None}
SEEDS = range(8)


def values_of_offsets(log: UnifiedLog) -> dict[int, bytes]:
    return {record.offset: record.value for record in log}


class Steps:
    """A writer and readers of one process; every record says of which generation it is.

    ``a`` appends a record, ``A`` three in one batch, ``r`` rolls, ``t2`` truncates by two, ``F2``
    empties the log to go on two before its end, ``d2`` deletes two records, ``c`` closes the
    writer and opens it again, ``L`` looks with every reader, and compares.
    """

    def __init__(self, path: Path, readers_count: int = 1) -> None:
        self.path = path
        self.writer = segstore.open(path, **SETTINGS_OF_THE_STEPS)
        self.readers = [segstore.open(path, read_only=True) for _ in range(readers_count)]
        self.held: list[dict[int, bytes]] = [{} for _ in self.readers]
        self.number = 0

    def do(self, step: str) -> None:
        log, size = self.writer, int(step[1:] or 0)
        end = log.log_end_offset
        self.number += 1
        value = b"%05d" % self.number
        match step[0]:
            case "a":
                log.append([(None, value)])
            case "A":
                log.append([(None, value)] * 3)
            case "r":
                log.roll()
            case "t":
                log.truncate_to(max(log.log_start_offset, end - size))
            case "F":
                log.truncate_fully_and_start_at(max(0, end - size))
            case "d":
                log.delete_records(min(end, log.log_start_offset + size))
            case "c":
                log.close()
                self.writer = segstore.open(self.path, **SETTINGS_OF_THE_STEPS)
            case "L":
                for index in range(len(self.readers)):
                    self.look(index)

    def look(self, index: int) -> None:
        """Whoever is told of no truncation holds no record that is gone, or another."""
        reader, held = self.readers[index], self.held[index]
        try:
            reader.refresh()
        except LogTruncatedError:
            held.clear()
            reader.refresh()  # it is told once
        there = values_of_offsets(self.writer)
        assert values_of_offsets(reader) == there
        for offset, value in held.items():
            assert there.get(offset, value) == value
            assert offset < self.writer.log_end_offset
        self.held[index] = there

    def close(self) -> None:
        self.writer.close()
        for reader in self.readers:
            reader.close()


@pytest.mark.parametrize(
    "script",
    ["a r L t1 a L", "A L F2 A L", "a r L F2 A L", "A r a L t2 a a L", "a L d1 a L t1 a L"],
)
def test_whoever_was_not_told_holds_what_is_there(refilled_path: Path, script: str):
    """[DUR-77] The shortest scripts after which a reader was told nothing."""
    steps = Steps(refilled_path)
    try:
        for step in script.split():
            steps.do(step)
    finally:
        steps.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_random_steps_of_a_writer(refilled_path: Path, seed: int):
    """[DUR-76..DUR-78]"""
    numbers = random.Random(seed)
    steps = Steps(refilled_path, readers_count=2)
    choices = ["a", "a", "a", "A", "r", "t1", "t2", "t9", "d1", "d2", "F0", "F2", "c"]
    try:
        for _ in range(120):
            steps.do(numbers.choice(choices))
            if numbers.random() < 0.3:
                steps.look(numbers.randrange(2))
        steps.do("L")
    finally:
        steps.close()


# ---- scans beside a truncation -------------------------------------------------------------------
# A reader beside `truncate_to` was told that a healthy log is corrupt [DUR-77].
#
# A scan keeps the bound and the segments of the moment it was made.


@pytest.fixture
def log(tmp_path):
    """Records 0 to 399 of some 5 kB, four megabyte chunks in two segments."""
    with segstore.open(tmp_path / "a-0", durability="none", segment_bytes=1024 * 1024) as log:
        for number in range(400):
            log.append([(b"%d" % number, b"v" * 5000)])
        yield log


@pytest.mark.parametrize("goes_on", [0, 300])
@pytest.mark.parametrize(
    "read",
    [lambda scan: scan.tuples(), list, lambda scan: scan.count(), lambda scan: scan.to_arrow()],
)
def test_a_scan_made_before_a_truncation_says_so(log, read, goes_on):
    scan = log.scan()
    log.truncate_to(150)
    for _ in range(goes_on):
        log.append([(b"new", b"w" * 4000)])

    with pytest.raises(LogTruncatedError, match="truncated to 150"):
        read(scan)
    assert len(log.scan().tuples()) == 150 + goes_on
    assert log.verify().ok


def test_what_is_below_the_cut_can_be_read_on(log):
    below = log.scan(0, 150)
    across = iter(log.scan())
    first = next(across)
    log.truncate_to(150)

    assert below.count() == 150
    assert [record.offset for record in below] == list(range(150))
    seen = [first.offset]
    with pytest.raises(LogTruncatedError):
        seen.extend(record.offset for record in across)
    assert seen == list(range(len(seen)))


def test_a_scan_before_everything_went(log):
    scan = log.scan()
    log.truncate_fully_and_start_at(1000)
    with pytest.raises(LogTruncatedError):
        scan.tuples()


def test_a_fetch_with_an_old_bound(log, monkeypatch):
    """The truncation falls between the bound and the read, by the layers: they know the name."""
    fetch = log._local_log.fetch

    def fetch_later(*args, **options):
        log.truncate_to(200)
        return fetch(*args, **options)

    monkeypatch.setattr(log._local_log, "fetch", fetch_later)
    with pytest.raises(LogTruncatedError):
        log.read(350, 100, "log_end")


def test_a_scan_made_during_a_truncation(log, monkeypatch):
    """The old end was seen, and the truncation had begun: segments and bytes go meanwhile."""
    scans = []
    local_log = log._local_log
    take_out = local_log._take_out

    def look_first(segments, **how):
        bound = before
        scan = log.scan()
        scan._chunks._bound, scan._chunks._end_offset = bound, bound.message_offset
        scans.append(scan)
        take_out(segments, **how)

    before = local_log.log_end
    monkeypatch.setattr(local_log, "_take_out", look_first)
    log.truncate_to(150)

    with pytest.raises(LogTruncatedError):
        scans[0].tuples()


# ---- index cut under a writer --------------------------------------------------------------------
# Another process cut the index of a live writer, and SIGBUS ended the writer at its next append.
#
# [DUR-25, DUR-27] The indexes of a writer are in memory and are written to their files, as a
# reader's were in memory already. What else of the kind was looked for: both indexes, a cut before
# appends, look-ups, a truncation, a roll and a close; files that are removed or overwritten; sealed
# segments; Kafka's profile. The records stay, and the files are right after the close.


FIRST = "0" * 20
KINDS = ("index", "timeindex")
VALUE = b"x" * 3000


def fill_between(log: segstore.UnifiedLog, begin: int, end: int) -> None:
    for number in range(begin, end):
        log.append([(TIME + number, None, VALUE)])


def check(log: segstore.UnifiedLog, end: int) -> None:
    assert [record.offset for record in log.read(0)] == list(range(end))
    assert [log.offset_for_timestamp(TIME + number) for number in range(end)] == list(range(end))


def cut_file(file: Path) -> None:
    os.truncate(file, 0)


def overwrite(file: Path) -> None:
    file.write_bytes(b"\xff" * 100)


@pytest.fixture(params=["safe", "kafka"])
def profile(request):
    return request.param


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("harm", [cut_file, overwrite, os.unlink])
def test_the_writer_goes_on(tmp_path, profile, kind, harm):
    """Appends, look-ups and a truncation behind it; then a close, and an open that reads all."""
    path = tmp_path / "topic-0"
    with segstore.open(path, durability="none", recovery=profile, index_mode="heap") as log:
        fill_between(log, 0, 200)
        harm(path / f"{FIRST}.{kind}")
        check(log, 200)
        fill_between(log, 200, 400)
        log.truncate_to(300)
        check(log, 300)
        fill_between(log, 300, 310)
    with segstore.open(path, durability="none") as log:
        check(log, 310)


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_are_right_after_the_close(tmp_path, kind):
    """[DUR-52] the bytes are those of a log whose files nobody touched."""
    written = []
    for harmed in (False, True):
        path = tmp_path / f"topic-{harmed:d}"
        with segstore.open(path, durability="none") as log:
            fill_between(log, 0, 200)
            if harmed:
                cut_file(path / f"{FIRST}.{kind}")
            fill_between(log, 200, 400)
        written.append((path / f"{FIRST}.{kind}").read_bytes())
    assert written[0] == written[1]
    assert len(written[0]) > 1000


def test_behind_a_roll(tmp_path):
    """The index of a sealed segment is cut before it is synced, and before it is asked."""
    path = tmp_path / "topic-0"
    with segstore.open(path, durability="none", internal_segment_bytes=300_000) as log:
        fill_between(log, 0, 150)
        for kind in KINDS:
            cut_file(path / f"{FIRST}.{kind}")
        check(log, 150)
        log.flush()
    with segstore.open(path) as log:
        check(log, 150)


def test_another_process_reads_beside_the_writer(tmp_path):
    """[DUR-53, DUR-76] entries reach the file in pieces; a reader without the last ones scans."""
    path = tmp_path / "topic-0"
    script = (
        "import segstore, sys\n"
        "with segstore.open(sys.argv[1], read_only=True) as log:\n"
        "    print([log.offset_for_timestamp(int(t)) for t in sys.argv[2:]])\n"
    )
    with segstore.open(path, durability="none") as log:
        fill_between(log, 0, 400)
        assert 0 < (path / f"{FIRST}.index").stat().st_size < 8 * 400
        asked = (0, 199, 399)
        times = [str(TIME + number) for number in asked]
        command = [sys.executable, "-c", script, str(path), *times]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        assert found.stdout.strip() == str(list(asked))


@pytest.mark.parametrize("mode", ["heap", None])
def test_kafkas_profile_keeps_kafkas_sizes(tmp_path, mode):
    """[IDX-2, DUR-62] preallocated while it is active, trimmed by the close."""
    path = tmp_path / "topic-0"
    settings = {"recovery": "kafka", "index_mode": mode, "segment_index_bytes": 4096}
    with segstore.open(path, durability="none", **settings) as log:
        fill_between(log, 0, 20)
        sizes = [(path / f"{FIRST}.{kind}").stat().st_size for kind in KINDS]
        assert sizes == [4096, 4092]
    entries = [(path / f"{FIRST}.{kind}").stat().st_size for kind in KINDS]
    assert 0 < entries[0] < 200
    assert entries[0] % 8 == 0


@pytest.mark.parametrize("mode", ["heap", "mmap"])
def test_both_modes_write_the_same_files(tmp_path, mode):
    """[DUR-25] the mode is one of the handle alone."""
    path = tmp_path / "topic-0"
    for other in ("mmap", mode):
        with segstore.open(path, durability="none", index_mode=other) as log:
            begin = log.log_end_offset
            fill_between(log, begin, begin + 50)
            check(log, begin + 50)
    with segstore.open(tmp_path / "other-0", durability="none") as log:
        fill_between(log, 0, 50)
    with segstore.open(tmp_path / "other-0", durability="none") as log:
        fill_between(log, 50, 100)
    for kind in KINDS:
        name = f"{FIRST}.{kind}"
        assert (path / name).read_bytes() == (tmp_path / "other-0" / name).read_bytes()


def test_a_mode_that_does_not_exist(tmp_path):
    """Both names are said."""
    with pytest.raises(IllegalArgumentError, match="'heap' or 'mmap'"):
        segstore.open(tmp_path / "topic-0", index_mode="map")


@pytest.mark.parametrize("to", [0, 1, 7])
@pytest.mark.parametrize("mode", ["heap", "mmap"])
@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_what_was_cut_off_is_no_entry(tmp_path, recovery, mode, to):
    """[DUR-53] Kafka's files have room for more entries, and what was cut off lies in it."""
    settings = {"recovery": recovery, "index_mode": mode, "durability": "none"}
    with segstore.open(tmp_path / "topic-0", index_interval_bytes=0, **settings) as log:
        fill_between(log, 0, 20)
        log.truncate_to(to)
        assert log.verify().problems == []
        fill_between(log, to, 9)
        assert log.verify().problems == []


# ---- transactions of a segment that was compacted ------------------------------------------------
# A reader in another process knew the transactions of the last segment up to a byte. After a roll
# and a compaction it went on at that byte of the new file: damage that was none, or aborted records
# that looked committed.


def test_committed_records_of_the_last_segment_after_its_compaction(tmp_path):
    """[DUR-76, TXX-1, CLN-84] What was the last segment has its batches elsewhere now."""
    path = tmp_path / "topic-0"
    with segstore.open(path, cleanup_policy="compact", durability="none") as log:
        log.append([(b"a", b"a value that goes")])
        log.append([(b"b", b"1")])
        with segstore.open(path, read_only=True) as reader:
            assert offsets(reader.scan(isolation="read_committed")) == [0, 1]
            log.append([(b"a", b"2" * 500)])
            log.append([(b"c", b"3" * 500)])
            log.roll()
            log.append([(b"d", b"4")])
            log.compact()
            reader.refresh()
            assert offsets(reader.scan(isolation="read_committed")) == [1, 2, 3, 4]
            assert reader.last_stable_offset == 5


def test_committed_records_of_a_segment_that_was_the_last_one_two_looks_ago(tmp_path):
    """[DUR-76, TXX-1, CLN-84] It was compacted alone, so the newest segments are those known."""
    path = tmp_path / "topic-0"
    with segstore.open(path, cleanup_policy="compact", durability="none") as log:
        log.append([(b"a", b"a value that goes")])
        log.append([(b"b", b"1")])
        with segstore.open(path, read_only=True) as reader:
            assert offsets(reader.scan(isolation="read_committed")) == [0, 1]
            log.append([(b"a", b"2" * 500)])
            log.append([(b"c", b"3" * 500)])
            for number in range(4, 10):
                log.roll()
                log.append([(b"%d" % number, b"v")])
            reader.refresh()
            log.clean(Cleaner(offset_map_bytes=4800), 0, 4)
            log.append([(b"d", b"v")])
            reader.refresh()
            assert offsets(reader.scan(isolation="read_committed")) == [*range(1, 11)]
            assert reader.last_stable_offset == 11


def test_a_bound_in_a_segment_that_was_compacted_alone(tmp_path):
    """[DUR-76, CLN-84] A scan ends at a place of the old file; all of the new one is below it."""
    path = tmp_path / "topic-0"
    with segstore.open(path, cleanup_policy="compact", durability="none") as log:
        for number in range(4):
            log.append([(b"%d" % (number % 3), b"v" * 100 * number)])
        with segstore.open(path, read_only=True) as reader:
            bounded = reader.scan()
            log.append([(b"0", b"v" * 500)])
            log.append([(b"d", b"v" * 500)])
            for number in range(6, 12):
                log.roll()
                log.append([(b"%d" % number, b"v")])
            reader.refresh()
            log.clean(Cleaner(offset_map_bytes=4800), 0, 6)
            log.append([(b"e", b"v")])
            reader.refresh()
            assert offsets(bounded) == [1, 2]


def test_committed_records_behind_those_that_were_read_are_looked_at_alone(tmp_path, monkeypatch):
    """[DUR-76, TXX-1] A reader that opens its last segment again knows what was read of it."""
    path = tmp_path / "topic-0"
    begun = []
    go_through = TransactionEnds.go_through

    def noted(self, *rest, **more):
        begun.append(self.position)
        return go_through(self, *rest, **more)

    with segstore.open(path, durability="none") as log:
        log.append([(None, b"1")])
        with segstore.open(path, read_only=True) as reader:
            assert reader.last_stable_offset == 1
            size = reader.segments()[0].size_bytes
            log.append([(None, b"2")])
            reader.refresh()
            monkeypatch.setattr(TransactionEnds, "go_through", noted)
            assert offsets(reader.scan(isolation="read_committed")) == [0, 1]
    assert size in begun
