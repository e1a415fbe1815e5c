"""A reader opened a log during a full truncation, and was told that there is none.

Between the last ``.log`` that goes and the new one the writer syncs the directory. The reader
looked fifty times, and was done in less time than a sync takes.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import segstore
from segstore.errors import NotALogError

STATE = ".segstore"


@pytest.fixture
def segment(new_log) -> Path:
    """Return the only segment of a log of five records."""
    log = new_log()
    log.append([(None, b"x")] * 5)
    log.close()
    return Path(log.path, f"{0:020d}.log")


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    made: list[float] = []
    monkeypatch.setattr(time, "sleep", made.append)
    return made


def test_a_reader_waits_for_the_new_segment(monkeypatch, segment):
    """[DUR-18, DUR-71] for as long as a slow sync takes."""
    away, waited = segment.with_suffix(".away"), []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if sum(waited) > 0.3 and away.exists():
            away.rename(segment)

    segment.rename(away)
    monkeypatch.setattr(time, "sleep", sleep)
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
