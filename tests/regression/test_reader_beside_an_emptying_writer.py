"""A reader opened a log during a full truncation, and was told that there is none.

Between the last ``.log`` that goes and the new one the writer syncs the directory. The reader
looked fifty times, and was done in less time than a sync takes. Then it waited for half a second,
and was told the same of a writer that was held up for longer.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import NotALogError, ResourceError
from segstore.log.files.checkpoints import RESTART_MARKER
from segstore.log.recovery import view
from tests.kits.log_kit import note_being_emptied

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import Directory

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
def writer(new_log, segment):
    return new_log(segment.parent)


@pytest.mark.usefixtures("writer")
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


@pytest.mark.usefixtures("writer", "emptied")
def test_it_does_not_wait_for_ever_for_a_writer(segment, pauses):
    """[DUR-103] But it does not say that there is no log: it is being made."""
    with pytest.raises(ResourceError, match="opening the log again may work") as told:
        segstore.open(segment.parent, read_only=True)
    assert 4 < sum(pauses) < 10
    assert told.value.file == str(segment.parent)


def test_a_writer_that_dies_meanwhile(monkeypatch, writer, segment, emptied):
    """[DUR-71] Nobody makes the new segment."""
    waited = []

    def sleep(pause: float) -> None:
        waited.append(pause)
        if len(waited) == 100:
            writer.close_quietly()

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


@pytest.mark.usefixtures("writer")
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
