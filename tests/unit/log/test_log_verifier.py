"""verify: every batch, every index entry; nothing is changed [DUR-50, DUR-53, DUR-54]."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from tests.log_kit import TIME

RECORD = b"x" * 20


@pytest.fixture
def path(new_log, tmp_path):
    log = new_log(internal_segment_bytes=600, index_interval_bytes=0)
    for number in range(15):
        log.append([(TIME + number, None, RECORD)])
    assert len(log.segments()) == 3
    log.close()
    return tmp_path / "topic-0"


def verified(new_log, path):
    """The report of a reader; no byte of the directory changes."""
    before = {f.name: hashlib.sha256(f.read_bytes()).digest() for f in Path(path).iterdir()}
    log = new_log(path, read_only=True)
    steps = []
    report = log.verify(lambda *step: steps.append(step))
    log.close()
    assert {f.name: hashlib.sha256(f.read_bytes()).digest() for f in Path(path).iterdir()} == before
    assert steps[-1][0] == "verify"
    assert steps[-1][1] == steps[-1][2] == report.size_bytes
    return report


def change(file: Path, position: int, new: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(position)
        opened.write(new)


def test_a_good_log(new_log, path):
    report = verified(new_log, path)
    assert report.ok
    assert (report.batches, report.records, len(report.segments)) == (15, 15, 3)
    assert report.size_bytes == sum(f.stat().st_size for f in path.glob("*.log"))
    assert [check.next_offset for check in report.segments] == [6, 12, 15]
    assert "all good" in str(report)
    as_values = report.to_dict()
    assert (as_values["ok"], as_values["problems"]) == (True, [])
    assert as_values["segments"][0]["valid_bytes"] == report.segments[0].size_bytes


@pytest.mark.parametrize("at_byte", [0, 8, 16, 17, 21, 61, 87])
def test_a_damaged_batch(new_log, path, at_byte):
    """[DUR-50] the problem names the segment; what is good before it is counted."""
    size = (path / f"{0:020d}.log").stat().st_size // 6
    change(path / f"{0:020d}.log", 2 * size + at_byte, b"\x7e")
    report = verified(new_log, path)
    assert not report.ok
    assert report.problems[0].startswith(f"{0:020d}: ")
    assert report.segments[0].batches == 2
    assert report.segments[0].valid_bytes == 2 * size
    assert report.batches == 11
    assert "1 problems" in str(report)


def test_bytes_behind_the_last_batch(new_log, path):
    """[DUR-79]"""
    with (path / f"{0:020d}.log").open("ab") as file:
        file.write(bytes(40))
    (problem,) = verified(new_log, path).problems
    assert "40 bytes behind the last good batch" in problem


@pytest.mark.parametrize(
    ("kind", "change_entry", "what"),
    [
        ("index", (1, (9).to_bytes(4) + (0).to_bytes(4)), "offset index entry 1"),
        ("index", (2, (1).to_bytes(4) + (88).to_bytes(4)), "bytes from 16 on are no entries"),
        ("index", (1, (2).to_bytes(4) + (100).to_bytes(4)), "no batch begins"),
        (
            "timeindex",
            (1, (TIME + 1).to_bytes(8) + (4).to_bytes(4)),
            "bytes from 12 on are no entries",
        ),
        ("timeindex", (1, (TIME + 9).to_bytes(8) + (2).to_bytes(4)), "time index entry 1"),
    ],
)
def test_an_index_entry_that_is_not_true(new_log, path, kind, change_entry, what):
    """[DUR-53, OFX-1, TMX-1]"""
    entry, new = change_entry
    change(path / f"{0:020d}.{kind}", entry * len(new), new)
    report = verified(new_log, path)
    assert any(what in problem for problem in report.problems), report.problems


def test_a_segment_that_reaches_into_the_next(new_log, path):
    """[DUR-54]"""
    os.rename(path / f"{6:020d}.log", path / f"{4:020d}.log")  # noqa: PTH104
    report = verified(new_log, path)
    assert any("reaches to offset 5" in problem for problem in report.problems)


def test_a_writer_verifies_what_it_has_written(new_log):
    """Also the active segment, whose indexes are not trimmed yet."""
    log = new_log(index_interval_bytes=0)
    for number in range(10):
        log.append([(TIME - number, None, RECORD)])
        assert log.verify().ok
    assert log.verify().records == 10
