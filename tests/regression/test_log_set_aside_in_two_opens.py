"""An open that sets a whole log aside may be interrupted; the next one does the rest.

It once told nobody of what had been set aside; and where somebody had put the wrong log start right
in between, it made a new log in the place of synced records, without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli import main
from segstore.errors import CorruptLogError
from segstore.log.files.checkpoints import LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
from segstore.log.recovery import repair
from segstore.log.recovery.repair import Repair
from tests.log_kit import in_a_child

if TYPE_CHECKING:
    from pathlib import Path

BASES = (0, 3, 6)
NAMES = tuple(f"{base:020d}.quarantine-1" for base in BASES)
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
def path(tmp_path) -> Path:
    """Return records 0 to 8, synced and not closed; the log start was changed to 1000."""
    path = tmp_path / "topic-0"
    assert in_a_child(lambda: write(path)) == 0
    (path / RECOVERY_POINT_CHECKPOINT).write_text(f"0\n1\ntopic 0 {END}\n")
    put_log_start(path, 1000)
    return path


class Ended(BaseException):
    """The process is gone."""


def before_the_first(monkeypatch) -> None:
    _end_at(monkeypatch, repair, "set_aside", 1)


def midway(monkeypatch) -> None:
    _end_at(monkeypatch, repair, "set_aside", 3)


def before_the_new_segment(monkeypatch) -> None:
    _end_at(monkeypatch, Repair, "_make_segment", 1)


def with_the_new_segment(monkeypatch) -> None:
    _end_at(monkeypatch, LeaderEpochFileCache, "clear_and_flush", 1)


def _end_at(monkeypatch, owner: object, method: str, number: int) -> None:
    real, calls = getattr(owner, method), []

    def end(*arguments, **named):
        calls.append(arguments)
        if len(calls) == number:
            raise Ended
        return real(*arguments, **named)

    monkeypatch.setattr(owner, method, end)


WHILE_RENAMING = (before_the_first, midway, before_the_new_segment)
ENDS = (*WHILE_RENAMING, with_the_new_segment)


def begin_and_end(path, end, monkeypatch) -> None:
    with monkeypatch.context() as patched:
        end(patched)
        with pytest.raises(Ended):
            segstore.open(path)


def content(path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}


@pytest.mark.parametrize("end", ENDS)
def test_the_next_open_sets_the_rest_aside(path, end, monkeypatch):
    """[DUR-54, DUR-56, DUR-58] No segment is deleted."""
    logs = {name[:20]: (path / f"{name[:20]}.log").read_bytes() for name in NAMES}
    begin_and_end(path, end, monkeypatch)

    with segstore.open(path) as log:
        assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
        assert not log.report.created
        assert not log.report.removed
    assert {name[:20]: (path / name).read_bytes() for name in NAMES} == logs
    with segstore.open(path) as log:
        assert log.report.clean
        assert not log.report.warnings


@pytest.mark.parametrize("end", WHILE_RENAMING)
def test_the_next_open_names_what_is_set_aside(path, end, monkeypatch):
    """[DUR-7, DUR-58] Where no segment was left it names all quarantine files."""
    begin_and_end(path, end, monkeypatch)

    with segstore.open(path) as log:
        (warning,) = [text for text in log.report.warnings if "is set aside as" in text]
    assert NAMES[0] in warning


@pytest.mark.parametrize("end", ENDS)
def test_another_log_start_does_not_count_what_was_set_aside_as_gone(path, end, monkeypatch):
    """[DUR-1, DUR-54] The open is refused; renamed, the segments are the log again."""
    begin_and_end(path, end, monkeypatch)
    put_log_start(path, 0)
    before = content(path)

    for _ in range(2) if end is not before_the_first else ():
        with pytest.raises(CorruptLogError):
            segstore.open(path)
    assert content(path) == before

    for name in NAMES:
        if (path / name).exists():
            (path / name).rename(path / f"{name[:20]}.log")
    (path / f"{1000:020d}.log").unlink(missing_ok=True)
    with segstore.open(path) as log:
        assert log.log_end_offset == END


@pytest.mark.parametrize("log_start", [0, 1000])
@pytest.mark.parametrize("end", ENDS)
def test_verify_names_the_records_that_were_set_aside(path, end, log_start, monkeypatch, capsys):
    """[DUR-7, DUR-58]"""
    begin_and_end(path, end, monkeypatch)
    put_log_start(path, log_start)

    main(["verify", str(path)])
    out = capsys.readouterr().out
    assert all(name in out for name in NAMES if (path / name).exists())


def test_a_later_log_start_is_one_too(path, monkeypatch):
    """[DUR-54] What was set aside lies below any later log start."""
    begin_and_end(path, before_the_new_segment, monkeypatch)
    put_log_start(path, 1005)

    with segstore.open(path) as log:
        assert log.log_end_offset == 1005


def test_a_name_that_was_given_away_is_not_used(path, monkeypatch):
    """[DUR-56, DUR-59] Quarantine files of other incidents are not overwritten."""
    for base, number in ((BASES[0], 2), (BASES[1], 9), (BASES[1], 10)):
        (path / f"{base:020d}.quarantine-{number}").write_bytes(b"garbage")
    begin_and_end(path, midway, monkeypatch)
    with segstore.open(path) as log:
        assert log.report.set_aside == [f"{BASES[0]:020d}.quarantine-3"]

    assert (path / f"{BASES[1]:020d}.quarantine-11").stat().st_size > 0
    assert (path / NAMES[2]).stat().st_size > 0
    assert (path / f"{BASES[1]:020d}.quarantine-9").read_bytes() == b"garbage"


def test_without_its_files_and_without_quarantine_it_is_no_log_that_was_set_aside(path):
    """[DUR-21] All .log files are gone: nothing says that an open had taken them out."""
    for file in path.glob("*.log"):
        file.unlink()

    with pytest.raises(CorruptLogError, match=r"there is no \.log file"):
        segstore.open(path)
