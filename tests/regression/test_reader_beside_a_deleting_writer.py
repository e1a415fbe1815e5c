"""A reader opens a log whose writer deletes what the reader has just listed [DUR-71, DUR-78].

The loader looks several times: at the names, at the segments, at the small files. The writer takes
its turn at each of these looks, once, several times or always.
"""

from __future__ import annotations

from array import array

import pytest

import segstore
from segstore._core import SegmentListing
from segstore.errors import ResourceError
from segstore.log.files.checkpoint_store import CheckpointStore
from segstore.log.local.segment import Segment
from segstore.log.recovery import view
from segstore.log.recovery.view import LogView

LOOKS = {
    "names": (view, "Survey"),
    "places": (CheckpointStore, "read"),
    "epochs": (view, "find_epochs"),
    "state": (view, "state_of_last_writer"),
    "clean end": (view, "clean_end"),
    "end": (LogView, "_readable_end"),
    "gaps": (LogView, "_note_gaps"),
    "segments": (Segment, "scan_windows"),
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
def writer(new_log) -> Writer:
    log = new_log(file_delete_delay_ms=0)
    log.append([(None, b"%d" % number) for number in range(4)])
    made = Writer(log)
    made.turn()
    return made


def take_turns(monkeypatch, writer, look, count, *, after) -> None:
    """Let the writer take its turn beside each of the first *count* looks."""
    of, name = LOOKS[look]
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
@pytest.mark.parametrize("look", LOOKS)
def test_the_reader_follows_until_it_wins(monkeypatch, writer, look, count, after):
    """[DUR-78] what it sees is a log as it was at one moment, or is; nothing is called damaged."""
    take_turns(monkeypatch, writer, look, count, after=after)
    with segstore.open(writer.log.path, read_only=True) as log:
        monkeypatch.undo()
        assert [text for text in log.report.warnings if "missing" in text] == []
        assert log.report.damage is None
        assert writer.turns > 1 or look in {"clean end", "gaps"}
        log.refresh()
        offsets = [record.offset for record in log.scan()]
        values = [int(record.value) for record in log.scan()]
    end = writer.log.log_end_offset
    assert offsets == values == list(range(writer.log.log_start_offset, end))


def test_a_listing_that_missed_all_of_them(monkeypatch, writer):
    """[DUR-78] what is made and removed while a directory is read may be in no listing."""
    real, left = view.list_during_writes, iter(range(30))
    monkeypatch.setattr(
        view,
        "list_during_writes",
        lambda directory: (
            (SegmentListing(), array("q")) if next(left, None) is not None else real(directory)
        ),
    )
    with segstore.open(writer.log.path, read_only=True) as log:
        assert log.log_end_offset == writer.log.log_end_offset


@pytest.mark.parametrize("look", ["names", "epochs"])
def test_a_writer_that_is_always_faster(monkeypatch, writer, look):
    """[DUR-103] the reader gives up in the end, and says what it has met."""
    take_turns(monkeypatch, writer, look, MANY, after=look == "names")
    with pytest.raises(ResourceError, match="deletes its segments faster") as caught:
        segstore.open(writer.log.path, read_only=True)
    assert caught.value.file == writer.log.path
    assert 4 < writer.turns < 100
    monkeypatch.undo()
    with segstore.open(writer.log.path, read_only=True) as log:
        assert log.log_end_offset == writer.log.log_end_offset
