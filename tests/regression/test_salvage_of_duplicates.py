"""Files of another replica were copied over a log: salvage called what is there twice lost.

The records of the two replicas are the same, and the borders of their segments are not. Case 31.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli import main
from tests.kits.log_kit import batch

if TYPE_CHECKING:
    from pathlib import Path

RECORDS, EACH = 96, 3


def write(path: Path, segment_bytes: int, *, start: int = 0, value: bytes = b"value") -> None:
    """Write batches of three records each, from *start* on."""
    with segstore.open(path, internal_segment_bytes=segment_bytes) as log:
        if start:
            log.truncate_fully_and_start_at(start)
        for number in range(start // EACH, RECORDS // EACH):
            log.append_as_leader(batch([(None, value + b" %d" % number)] * EACH), 0)


def logs_of(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.glob("*.log")}


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other" / "o-0"
    write(path, 1700)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "o-0"
    write(path, 1000)
    return path


def salvaged(path: Path) -> segstore.SalvageReport:
    report = segstore.salvage(path, path.parent / "saved" / "o-0")
    with segstore.open(path.parent / "saved" / "o-0") as log:
        assert [record.offset for record in log] == list(range(RECORDS))
        assert log.verify().ok
    return report


def copy_over(other: Path, path: Path, *, has_state: bool) -> int:
    """Copy the segments that the log does not have; return their size."""
    own = logs_of(path)
    for file in other.glob("*.log"):
        shutil.copy(file, path)
    if not has_state:  # as in a broker's directory
        for name in (".segstore", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
            (path / name).unlink()
    left = sum(map(len, logs_of(path).values()))
    return left - sum(len(own[name]) for name in own if name not in logs_of(other))


@pytest.mark.parametrize("has_state", [True, False])
def test_what_is_there_twice_is_not_lost(path, other, capsys, has_state):
    """[DUR-62, DUR-63] Every record is copied once, and the exit code is 0."""
    written = sum(map(len, logs_of(path).values()))
    copy_over(other, path, has_state=has_state)
    there = sum(map(len, logs_of(path).values()))

    report = salvaged(path)

    assert (report.complete, report.lost, report.lost_bytes) == (True, [], 0)
    assert report.kept_bytes == written
    assert report.duplicate_bytes == there - written > 0
    assert report.duplicate_batches == report.duplicate_bytes * RECORDS // EACH // written
    assert main(["salvage", "-q", str(path), str(path.parent / "again" / "o-0")]) == 0
    assert "are in the source twice" in capsys.readouterr().out


@pytest.mark.parametrize("base", ["first", "last"])
def test_of_two_equal_batches_the_whole_one_is_copied(path, other, base):
    """[DUR-62] Damage in one of the two files costs nothing, and is told all the same."""
    copy_over(other, path, has_state=True)
    names = sorted(logs_of(path))
    file = path / (names[1] if base == "first" else names[-1])
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    size = len(batch([(None, b"value 10")] * EACH))

    report = segstore.salvage(path, path.parent / "saved" / "o-0")

    with segstore.open(path.parent / "saved" / "o-0", read_only=True) as log:
        kept = {record.offset for record in log}
    (lost,) = report.lost
    assert (lost.code, lost.file) == ("BATCH_CORRUPT", file.name)
    assert lost.size_bytes <= size
    missing = set(range(RECORDS)) - kept
    assert missing <= set(range(lost.first_offset, lost.next_offset or RECORDS))
    assert base == "last" or not missing


def test_other_records_at_the_same_offsets_are_lost(path, tmp_path):
    """[DUR-7] A replica that took another way: one of the two is copied, the other one told."""
    other = tmp_path / "other" / "o-0"
    write(other, 1700, value=b"other")
    copy_over(other, path, has_state=True)

    report = salvaged(path)

    assert not report.complete
    assert {lost.code for lost in report.lost} == {"SEGMENTS_OVERLAP"}
    assert report.duplicate_batches == 0


def test_a_segment_that_is_there_again_at_the_end_of_another(path):
    """[DUR-63] A copy of earlier batches is no record of its own; nothing is lost."""
    names = sorted(logs_of(path))
    first, last = path / names[0], path / names[-1]
    last.write_bytes(last.read_bytes() + first.read_bytes())

    report = salvaged(path)

    assert report.complete
    assert report.duplicate_bytes == len(first.read_bytes())
