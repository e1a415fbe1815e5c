"""A reader beside a writer that truncates and writes again, in files of the same names and sizes.

The reader kept its open segments, and served records that did not exist any more for ever; where
the last segment was empty, or gone, it was not even told.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import (
    CorruptLogError,
    CorruptRecordError,
    LogTruncatedError,
    OffsetOutOfRangeError,
)
from segstore._core import Directory
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER
from segstore.log.local.segment import Segment
from tests.kits.log_kit import TIME
from tests.kits.refilled_log import SETTINGS, fill, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore import UnifiedLog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a-0"


@pytest.fixture
def writer(path: Path) -> Iterator[UnifiedLog]:
    with segstore.open(path, **SETTINGS) as log:
        yield log


@pytest.fixture
def reader(writer: UnifiedLog, path: Path) -> Iterator[Callable[[], UnifiedLog]]:
    """Open the log to read it, once; what it is opened beside is the writer's of that moment."""
    opened: list[UnifiedLog] = []

    def open_reader() -> UnifiedLog:
        opened.append(segstore.open(path, read_only=True))
        return opened[-1]

    assert not writer.closed
    yield open_reader
    for log in opened:
        log.close()


# ---- other records in files of the same names and sizes ------------------------------------------


@pytest.mark.parametrize("end", [30, 35])
@pytest.mark.parametrize("cut", [0, 5, 10, 19, 29])
@pytest.mark.parametrize("has_read", [False, True])
def test_a_reader_of_a_log_that_was_cut_and_filled_again(
    writer: UnifiedLog, reader: Callable[[], UnifiedLog], end: int, cut: int, *, has_read: bool
):
    """[DUR-77, DUR-79] Told once; then it is the new log, by all ways. 30: the last is empty."""
    fill(writer, b"A", end)
    log = reader()
    if has_read:
        assert values(log) == values(writer)
    writer.truncate_to(cut)
    fill(writer, b"B", end)

    with pytest.raises(LogTruncatedError):
        log.refresh()

    assert log.refresh() == end
    assert values(log) == values(writer)
    for offset in range(end):
        (mine, *_), (theirs, *_) = log.read(offset, 1), writer.read(offset, 1)
        assert (mine.offset, mine.value) == (theirs.offset, theirs.value)
    assert log.verify().ok


def test_a_tail_behind_an_empty_segment(writer: UnifiedLog, reader: Callable[[], UnifiedLog]):
    """[DUR-77] It went on with the records behind those that it had not seen."""
    fill(writer, b"A", 30)
    tail = reader().tail(0, timeout=0.2)
    assert [next(tail).offset for _ in range(30)] == list(range(30))
    writer.truncate_to(5)
    fill(writer, b"B", 31)

    with pytest.raises(LogTruncatedError):
        next(tail)


def test_other_records_before_a_last_one_that_is_the_same(
    writer: UnifiedLog, reader: Callable[[], UnifiedLog]
):
    """[DUR-77] A replay: the header of the last batch tells nothing, those before it do."""
    fill(writer, b"A", 9)
    log = reader()
    writer.truncate_to(7)
    fill(writer, b"B", 8)
    fill(writer, b"A", 9)

    with pytest.raises(LogTruncatedError):
        log.refresh()
    assert values(log) == values(writer)


def test_damage_before_the_last_batch_is_no_truncation(
    writer: UnifiedLog, reader: Callable[[], UnifiedLog], path: Path
):
    """[DUR-79]"""
    fill(writer, b"A", 9)
    log = reader()
    file = path / f"{0:020d}.log"
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
    writer: UnifiedLog,
    reader: Callable[[], UnifiedLog],
    monkeypatch: pytest.MonkeyPatch,
    end: int,
    cut: int,
):
    """[DUR-76, DUR-77] It was a CorruptRecordError, or a LogNotFoundError, out of the refresh."""
    fill(writer, b"A", 15)
    log = reader()
    fill(writer, b"A", 28)

    def change() -> None:
        writer.truncate_to(cut)
        fill(writer, b"B", end)

    before_next(monkeypatch, "scan", change)
    if cut < 15:
        with pytest.raises(LogTruncatedError):
            log.refresh()

    log.refresh()  # names that came since the files were listed are of the next look
    assert log.refresh() == end
    assert values(log) == values(writer)


@pytest.mark.parametrize("is_refreshed", [False, True])
@pytest.mark.parametrize("cut", [3, 12, 20])
def test_a_scan_under_way_while_the_log_is_cut(
    writer: UnifiedLog,
    reader: Callable[[], UnifiedLog],
    monkeypatch: pytest.MonkeyPatch,
    cut: int,
    *,
    is_refreshed: bool,
):
    """[DUR-77] Another thread may look again meanwhile; no scan mixes what was and what is."""
    fill(writer, b"A", 25)
    log = reader()

    def change() -> None:
        writer.truncate_to(cut)
        fill(writer, b"B", 25)
        if is_refreshed:
            with pytest.raises(LogTruncatedError):
                log.refresh()

    before_next(monkeypatch, "read", change)
    with pytest.raises(LogTruncatedError):
        values(log)


def test_a_look_up_by_timestamp_while_the_log_is_cut(
    writer: UnifiedLog, reader: Callable[[], UnifiedLog]
):
    """[DUR-77] The time of a file that had just been renamed was a LogNotFoundError."""
    fill(writer, b"A", 30)
    log = reader()
    writer.truncate_to(5)

    with pytest.raises(LogTruncatedError):
        log.offset_for_timestamp(TIME + 1000)


@pytest.mark.parametrize(
    "read",
    [values, lambda log: log.read(0, 100), lambda log: log.offset_for_timestamp(TIME)],
    ids=["scan", "read", "timestamp"],
)
def test_records_that_were_deleted_before_they_were_read(
    writer: UnifiedLog,
    reader: Callable[[], UnifiedLog],
    read: Callable[[UnifiedLog], object],
):
    """[DUR-78] Out of range, and no file that is missing; behind a refresh it is the new log."""
    fill(writer, b"A", 45)
    log = reader()
    writer.truncate_to(44)
    with pytest.raises(LogTruncatedError):
        log.refresh()  # it has no segment open from here on
    writer.delete_records(30)
    writer._background.wait_until_idle()

    with pytest.raises(OffsetOutOfRangeError, match="deleted by its writer"):
        read(log)
    assert log.refresh() == 44
    assert values(log) == values(writer)


@pytest.mark.parametrize("look", ["scan", "translate_offset"])
def test_an_open_while_the_log_is_cut(
    writer: UnifiedLog,
    reader: Callable[[], UnifiedLog],
    monkeypatch: pytest.MonkeyPatch,
    look: str,
):
    """[DUR-71, DUR-77] It was a CorruptRecordError: the file was shorter than it had been."""
    fill(writer, b"A", 8)
    writer.flush()
    fill(writer, b"A", 28)

    def change() -> None:
        writer.truncate_to(3)
        fill(writer, b"B", 15)

    before_next(monkeypatch, look, change)
    log = reader()

    with contextlib.suppress(LogTruncatedError):
        log.refresh()
    assert log.refresh() == 15
    assert values(log) == values(writer)


def test_an_open_while_the_marker_is_taken_away(
    writer: UnifiedLog, path: Path, monkeypatch: pytest.MonkeyPatch
):
    """[DUR-71] A writer that opened between the look for it and the reading: there is none."""
    fill(writer, b"A", 5)
    exists = Directory.exists
    monkeypatch.setattr(
        segstore.log.files.checkpoint_store.CleanShutdownMarker,
        "parse",
        lambda _: pytest.fail("a marker"),
    )
    with segstore.open(path, read_only=True) as log:
        home = Hiding(log._checkpoint_store.directory, exists)
        monkeypatch.setattr(log._checkpoint_store, "_home", home)
        assert log._checkpoint_store.read_own_marker() is None
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
