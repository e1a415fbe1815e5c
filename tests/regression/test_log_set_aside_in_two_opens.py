"""An open that set a whole log aside and was not done left a mark, which the next one only obeyed.

It told nobody of what had been set aside; and where somebody had put the wrong log start right in
between, as a warning advised, it made a new log in the place of synced records, without a word.
"""

from __future__ import annotations

import re

import pytest

import segstore
from segstore.cli import main
from segstore.errors import CorruptLogError
from segstore.log.directory.checkpoints import (
    BEGINS_ANEW_MARK,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from segstore.log.loader.begins_anew_mark import BeginsAnewMark
from segstore.log.loader.log_loader import LogLoader
from segstore.log.loader.quarantine import Quarantine
from segstore.log.loader.quarantined_file import set_aside_names
from tests.log_kit import in_a_child, offsets

BASES = (0, 3, 6)
END = 9


def write(path) -> bool:
    log = segstore.open(path)
    for base in BASES:
        log.append([(None, b"v%d" % offset) for offset in range(base, base + 3)])
        if base < BASES[-1]:
            log.roll()
    log.flush()
    return True


def put_log_start(path, offset: int) -> None:
    (path / LOG_START_OFFSET_CHECKPOINT).write_text(f"0\n1\ntopic 0 {offset}\n")


@pytest.fixture
def path(tmp_path):
    """Records 0 to 8, synced and not closed; the log start was changed to 1000."""
    path = tmp_path / "topic-0"
    assert in_a_child(lambda: write(path)) == 0
    (path / RECOVERY_POINT_CHECKPOINT).write_text(f"0\n1\ntopic 0 {END}\n")
    put_log_start(path, 1000)
    return path


class Ended(BaseException):
    """The process is gone."""


def before_the_first(monkeypatch) -> None:
    _end_at(monkeypatch, Quarantine, "set_aside", 1)


def midway(monkeypatch) -> None:
    _end_at(monkeypatch, Quarantine, "set_aside", 3)


def before_the_new_segment(monkeypatch) -> None:
    _end_at(monkeypatch, LogLoader, "_make_segment", 1)


def before_the_mark_goes(monkeypatch) -> None:
    _end_at(monkeypatch, BeginsAnewMark, "remove", 1)


def _end_at(monkeypatch, owner: type, method: str, number: int) -> None:
    real, calls = getattr(owner, method), []

    def end(self, *arguments):
        calls.append(arguments)
        if len(calls) == number:
            raise Ended
        return real(self, *arguments)

    monkeypatch.setattr(owner, method, end)


ENDS = (before_the_first, midway, before_the_new_segment, before_the_mark_goes)


def begin_and_end(path, end, monkeypatch) -> None:
    with monkeypatch.context() as patched:
        end(patched)
        with pytest.raises(Ended):
            segstore.open(path)
    assert (path / BEGINS_ANEW_MARK).exists()


@pytest.mark.parametrize("end", ENDS)
def test_the_next_open_tells_of_all_that_is_set_aside(path, end, monkeypatch):
    """[DUR-7, DUR-58]"""
    begin_and_end(path, end, monkeypatch)

    with segstore.open(path) as log:
        assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
        assert not log.report.created
        assert not log.report.clean
        (warning,) = [text for text in log.report.warnings if "is set aside as" in text]
    assert f"{BASES[0]:020d}.quarantine-1 and 2 more" in warning
    assert not (path / BEGINS_ANEW_MARK).exists()
    with segstore.open(path) as log:
        assert log.report.clean
        assert not log.report.warnings


def follow(path, advice: str) -> bool:
    """Do what *advice* says; whether that was to rename anything."""
    rename = re.search(r"Rename (\S+) to (\S+?\.log)(, and the \d+ others)?", advice)
    assert (rename is None) == ("No segment stands aside" in advice)
    if rename is not None:
        number = rename[1].partition(".")[2]
        (path / rename[1]).rename(path / rename[2])
        if rename[3]:
            for file in path.glob(f"*.{number}"):
                file.rename(file.with_suffix(".log"))
    assert f"remove {BEGINS_ANEW_MARK}" in advice
    (path / BEGINS_ANEW_MARK).unlink()
    return rename is not None


@pytest.mark.parametrize("has_point", [True, False])
@pytest.mark.parametrize("end", ENDS[:3])
def test_another_log_start_does_not_count_what_was_set_aside_as_gone(
    path, end, has_point, monkeypatch
):
    """[DUR-1, DUR-54] The open is refused, and what the refusal advises brings all of it back."""
    begin_and_end(path, end, monkeypatch)
    put_log_start(path, 0)
    if not has_point:
        (path / RECOVERY_POINT_CHECKPOINT).unlink()
    before = {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}

    for _ in range(2):
        with pytest.raises(CorruptLogError, match="aside for the log start 1000") as refused:
            segstore.open(path)
    after = {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}
    assert before == after

    renamed = follow(path, refused.value.message)
    assert renamed == (end is not before_the_first)
    with segstore.open(path) as log:
        assert offsets(log) == [*range(END)]


@pytest.mark.parametrize("content", [b"", b"x\n", b"9" * 30, b"-1\n"])
def test_a_mark_that_cannot_be_read_is_no_leave(path, content, monkeypatch):
    """[DUR-7, DUR-97]"""
    begin_and_end(path, midway, monkeypatch)
    (path / BEGINS_ANEW_MARK).write_bytes(content)

    with pytest.raises(CorruptLogError, match=BEGINS_ANEW_MARK):
        segstore.open(path)


def test_deleting_more_behind_a_broker_keeps_the_leave(path, monkeypatch):
    """[DUR-54] What was set aside lies below any later log start too."""
    begin_and_end(path, before_the_new_segment, monkeypatch)
    put_log_start(path, 1005)

    with segstore.open(path) as log:
        assert log.log_end_offset == 1005


def test_an_older_cut_is_not_renamed(path, monkeypatch):
    """[DUR-59] A quarantine file of the same base offset, garbage, has the lower number."""
    (path / f"{BASES[0]:020d}.quarantine-1").write_bytes(b"garbage")
    (path / f"{BASES[-1]:020d}.quarantine-1").write_bytes(b"garbage")
    begin_and_end(path, midway, monkeypatch)
    (path / f"{BASES[0]:020d}.log").rename(path / f"{BASES[0]:020d}.quarantine-2")
    put_log_start(path, 0)

    with pytest.raises(CorruptLogError) as refused:
        segstore.open(path)
    advice = refused.value.message
    assert f"Rename {BASES[0]:020d}.quarantine-2 to {BASES[0]:020d}.log, and the 2 others" in advice


@pytest.mark.parametrize("end", ENDS[:3])
@pytest.mark.parametrize("log_start", [0, 1000])
def test_verify_tells_of_the_mark(path, end, log_start, monkeypatch, capsys):
    """[DUR-7, DUR-58] And does not send for a copy: nothing is lost."""
    begin_and_end(path, end, monkeypatch)
    put_log_start(path, log_start)

    assert main(["verify", str(path)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert f"remove {BEGINS_ANEW_MARK}" in out
    assert "restore the directory" not in out


@pytest.mark.parametrize("log_start", [0, 1000])
def test_what_was_set_aside_and_taken_away_is_lost(path, log_start, monkeypatch, capsys):
    """[DUR-7, DUR-58] Nobody says that it is there."""
    begin_and_end(path, before_the_new_segment, monkeypatch)
    put_log_start(path, log_start)
    for file in path.glob("*.quarantine-*"):
        file.unlink()

    if log_start == 0:
        with pytest.raises(CorruptLogError, match="Nothing of it is here any more"):
            segstore.open(path)
    assert main(["verify", str(path)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "records 0 to 8 are missing" in out
    assert "restore the directory from a copy" in out


def test_the_tenth_quarantine_file_is_newer_than_the_ninth():
    """[DUR-59]"""
    names = [f"{base:020d}.quarantine-{number}" for base in (3, 0) for number in (10, 9)]
    assert set_aside_names(names) == [names[2], names[0]]
