"""A truncation left the log directory's recovery point above the end, and the own one was lost.

The log was whole, and refused for ever: the line of the last clean stop said that records were
missing. Where the log had grown past it again, it said that unsynced records had been synced.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import segstore
from segstore.log.files.checkpoints import RECOVERY_POINT_CHECKPOINT
from segstore.log.files.log_directory_checkpoints import LogDirectoryCheckpoints
from segstore.log.local.local_log import LocalLog


@pytest.fixture
def path(tmp_path):
    """Return a partition of sixty records, closed, whose log directory has a line of it."""
    (tmp_path / "meta.properties").write_text("version=1\n")
    (tmp_path / RECOVERY_POINT_CHECKPOINT).write_text("0\n1\nother 0 7\n")
    with segstore.open(tmp_path / "orders-0") as log:
        for _ in range(2):
            log.append([(None, b"x")] * 30)
            log.roll()
    assert above(log) == {"other": 7, "orders": 60}
    return log.path


def above(log) -> dict[str, int]:
    """Return what the log directory says of each topic."""
    lines = Path(log.path).with_name(RECOVERY_POINT_CHECKPOINT).read_text().splitlines()
    return {topic: int(offset) for topic, _, offset in map(str.split, lines[2:])}


def lose_own_point(log) -> None:
    log.close_quietly()
    Path(log.path, RECOVERY_POINT_CHECKPOINT).unlink()


CUTS = {
    "to": (lambda log: log.truncate_to(30), 30),
    "within a batch": (lambda log: log.truncate_to(40), 30),
    "fully": (lambda log: log.truncate_fully_and_start_at(20), 0),
    "below the start": (lambda log: (log.delete_records(35), log.truncate_to(20)), 20),
}


@pytest.mark.parametrize("cut", CUTS)
def test_the_own_recovery_point_is_lost_behind_a_truncation(path, cut):
    """[DUR-16, DUR-65] no record is missing."""
    change, point = CUTS[cut]
    log = segstore.open(path)
    change(log)
    assert above(log) == {"other": 7, "orders": point}
    log.append([(None, b"new")] * 5)
    log.flush()
    end = log.log_end_offset
    assert end < 60
    lose_own_point(log)

    with segstore.open(path) as log:
        assert log.log_end_offset == end
    assert above(log) == {"other": 7, "orders": end}


def test_the_log_grows_past_the_old_line(path):
    """[DUR-4, DUR-16] what was not synced is not called durable."""
    log = segstore.open(path, durability="none")
    log.truncate_to(30)
    for _ in range(40):
        log.append([(None, b"new")])
    lose_own_point(log)

    with segstore.open(path, read_only=True) as log:
        assert log.log_end_offset == 70
        assert log.recovery_point == 30


def test_the_line_comes_down_before_anything_is_cut(path, monkeypatch):
    """[DUR-16] a crash in between leaves a log that is whole."""
    seen, real = [], LocalLog.begin_truncation

    def looked_at(self, offset):
        seen.append((above(log), log.log_end_offset))
        return real(self, offset)

    monkeypatch.setattr(LocalLog, "begin_truncation", looked_at)
    with segstore.open(path) as log:
        log.truncate_to(30)
    assert seen == [({"other": 7, "orders": 30}, 60)]


def test_a_line_that_is_low_enough_is_left(path, monkeypatch):
    """[DUR-65] nothing is merged that says no more than the truncation."""
    merged = []
    with segstore.open(path) as log:
        log.append([(None, b"x")] * 5)
        log.append([(None, b"x")] * 5)
        monkeypatch.setattr(LogDirectoryCheckpoints, "lower", lambda *what: merged.append(what))
        log.truncate_to(65)
        assert merged == []
        monkeypatch.undo()
