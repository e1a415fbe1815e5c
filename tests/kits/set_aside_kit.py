"""A log that an open sets aside as a whole, and that open is not done with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli import main
from segstore.errors import CorruptLogError
from segstore.log.files.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    RESTART_MARKER,
)
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
from segstore.log.recovery import repair
from segstore.log.recovery.repair import Repair
from segstore.log.recovery.restart_marker import RestartMarker
from tests.kits.log_kit import in_a_child

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


def make_log(tmp_path) -> Path:
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


def before_the_mark_goes(monkeypatch) -> None:
    _end_at(monkeypatch, RestartMarker, "remove", 1)


def _end_at(monkeypatch, owner: object, method: str, number: int) -> None:
    real, calls = getattr(owner, method), []

    def end(*arguments, **named):
        calls.append(arguments)
        if len(calls) == number:
            raise Ended
        return real(*arguments, **named)

    monkeypatch.setattr(owner, method, end)


ENDS = (
    before_the_first,
    midway,
    before_the_new_segment,
    with_the_new_segment,
    before_the_mark_goes,
)
SET_ASIDE = {before_the_first: (), midway: NAMES[1:]}


def begin_and_end(path, end, monkeypatch) -> None:
    with monkeypatch.context() as patched:
        end(patched)
        with pytest.raises(Ended):
            segstore.open(path)
    assert (path / RESTART_MARKER).exists()


def follow(path, advice: str) -> list[str]:
    """Do what *advice* says; returns what was renamed."""
    renamed = re.findall(r"(\S+\.quarantine-\d+) to (\d{20}\.log)", advice)
    if f"that {RESTART_MARKER} lists" in advice:
        text = (path / RESTART_MARKER).read_text()
        renamed = [(name, f"{name[:20]}.log") for name in re.findall(r"\S+\.quarantine-\d+", text)]
    assert (not renamed) == ("No segment is in quarantine" in advice)
    for old, new in renamed:
        assert not (path / new).exists()
        (path / old).rename(path / new)
    assert f"remove {RESTART_MARKER}" in advice
    (path / RESTART_MARKER).unlink()
    return [old for old, _ in renamed]


def refusal(path) -> str:
    with pytest.raises(CorruptLogError) as refused:
        segstore.open(path)
    return refused.value.message


def verified(path, capsys) -> str:
    assert main(["verify", str(path)]) == 1
    return " ".join(capsys.readouterr().out.split())
