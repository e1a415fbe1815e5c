"""A reader opens a log while its writer cuts it: records that were cut are not missing [DUR-78].

It had read the recovery point, the writer lowered it and cut, and the reader then found a log that
ended below what had been synced. The writer takes its turn at each of the looks.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import segstore
from segstore.errors import LogNotFoundError, LogTruncatedError
from segstore.log.files.checkpoint_store import CheckpointStore
from segstore.log.local.segment import Segment
from segstore.log.recovery import view
from segstore.log.recovery.view import LogView
from tests.kits.log_kit import offsets

LOOKS = {
    "names": (view, "Survey"),
    "places": (CheckpointStore, "read"),
    "epochs": (view, "find_epochs"),
    "state": (view, "state_of_last_writer"),
    "segments": (Segment, "scan_windows"),
}
MANY = 10**9


@pytest.fixture
def writer(new_log):
    log = new_log()
    for _ in range(10):
        log.append([(None, b"x")])
    log.roll()
    for _ in range(110):
        log.append([(None, b"x")])
    log.flush()
    assert log.durable_offset == 120
    return log


def take_turns(monkeypatch, look, count, turn) -> list[int]:
    """Let *turn* happen behind each of the first *count* looks; returns which did."""
    of, name = LOOKS[look]
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


def cut(writer) -> None:
    writer.truncate_to(writer.log_end_offset - 5)


def cut_and_write(writer) -> None:
    """The recovery point goes down, and then to where it was."""
    cut(writer)
    for _ in range(5):
        writer.append([(None, b"y")])
    writer.flush()


def cut_within_a_batch(writer) -> None:
    """It comes down to the first offset of the batch."""
    writer.append([(None, b"z")] * 4)
    writer.flush()
    writer.truncate_to(writer.log_end_offset - 2)


@pytest.mark.parametrize("change", [cut, cut_and_write, cut_within_a_batch])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("look", LOOKS)
def test_what_was_cut_is_not_missing(monkeypatch, writer, look, count, change):
    """[DUR-16, DUR-78] what the reader sees is the log as it was at one moment."""
    turns = take_turns(monkeypatch, look, count, lambda: change(writer))
    with segstore.open(writer.path, read_only=True) as log:
        monkeypatch.undo()
        assert turns
        assert log.report.damage is None
        assert log.report.warnings == []
        log.refresh()
        assert offsets(log) == offsets(writer)


def test_written_again_before_the_end_is_judged(monkeypatch, writer):
    """[DUR-16, DUR-78] the recovery point is the same again when the reader could compare it."""
    scan, written = Segment.scan_windows, []

    def then_written(*arguments, **options):
        yield from scan(*arguments, **options)
        if written == [False]:
            written.append(True)
            for _ in range(5):
                writer.append([(None, b"y")])
            writer.flush()

    def cut_first():
        cut(writer)  # which scans, too
        written.append(False)

    turns = take_turns(monkeypatch, "places", 1, cut_first)
    monkeypatch.setattr(Segment, "scan_windows", then_written)
    with segstore.open(writer.path, read_only=True) as log:
        assert (len(turns), written) == (1, [False, True])
        assert log.report.damage is None
        assert log.log_end_offset == writer.durable_offset == 120


def test_a_writer_that_cuts_at_every_look(monkeypatch, writer):
    """[DUR-103] the reader gives up, and says why: that is no damage."""
    turns = take_turns(monkeypatch, "places", MANY, lambda: cut(writer))
    with pytest.raises(LogTruncatedError, match="cut by its writer while it is opened"):
        segstore.open(writer.path, read_only=True)
    assert 1 < len(turns) < 20


@pytest.mark.parametrize("missing", [1, 100])
def test_what_is_missing_is_told(writer, missing):
    """[DUR-51] a log that lost its end is as damaged at the second look."""
    writer.close_quietly()
    last = Path(writer.path, f"{10:020d}.log")
    size = last.stat().st_size
    os.truncate(last, size - missing * (size // 110))
    with segstore.open(writer.path, read_only=True) as log:
        assert log.report.damage is not None
        assert len(log.report.warnings) == 1
        assert log.log_end_offset == 120 - missing
        assert "records from there to 119 had been synced" in log.report.damage


@pytest.mark.parametrize("deleted", [1, 4, 10, 40])
def test_a_loss_behind_deletions_is_looked_at_twice_too(monkeypatch, writer, deleted):
    """[DUR-51, DUR-78] Looks that the writer's deletions had cost were counted as its cuts."""
    writer.close_quietly()
    last = Path(writer.path, f"{10:020d}.log")
    os.truncate(last, last.stat().st_size // 2)
    look, looks = LogView._look, []

    def beside_deletions(loader: LogView) -> object:
        looks.append(loader)
        if len(looks) <= deleted:
            raise LogNotFoundError("deleted", file="x")
        return look(loader)

    monkeypatch.setattr(LogView, "_look", beside_deletions)
    with segstore.open(writer.path, read_only=True) as log:
        assert "had been synced, and are missing" in log.report.damage
    assert len(looks) == deleted + 2
