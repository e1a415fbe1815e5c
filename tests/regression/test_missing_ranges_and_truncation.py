"""``.segstore.missing`` was cut before the truncation that it was cut for.

A truncation that a full disk then refused had removed the only proof that records are missing: the
log read on over the gap.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import CorruptLogError, DiskFullError
from segstore.log.local.local_log import LocalLog
from tests.kits.damaged_logs import batches_of

if TYPE_CHECKING:
    from pathlib import Path

NOTE = ".segstore.missing"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Segments at 0, 20 and 40; the records from 30 to 39 are missing, and only a note says so."""
    path = tmp_path / "data" / "orders-0"
    path.parent.mkdir()
    with segstore.open(path, durability="none", index_interval_bytes=200) as log:
        for number in range(60):
            if number in (20, 40):
                log.roll()
            log.append([(number, b"key", b"value %d" % number)])
    file = path / f"{20:020d}.log"
    os.truncate(file, batches_of(file)[10].position)
    (path / ".segstore").unlink()
    file.with_suffix(".index").unlink()
    segstore.open(path).close()
    assert b"missing 30 40" in (path / NOTE).read_bytes()
    return path


def noted(path: Path) -> list[bytes]:
    """Return the ranges in the note."""
    file = path / NOTE
    return file.read_bytes().splitlines()[1:-1] if file.exists() else []


@pytest.mark.parametrize(
    ("call", "offset"),
    [("truncate_to", 25), ("truncate_to", 35), ("truncate_fully_and_start_at", 100)],
)
def test_a_refused_truncation_keeps_the_proof(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str, offset: int
) -> None:
    """[DUR-7, DUR-30] Nothing has changed, in this handle and in the next one."""
    before = noted(path)

    def refuse(*_: object) -> None:
        raise DiskFullError("no space")

    with segstore.open(path) as log:
        with monkeypatch.context() as patched:
            patched.setattr(LocalLog, "begin_truncation", refuse)
            with pytest.raises(DiskFullError):
                getattr(log, call)(offset)
        assert noted(path) == before
        assert not list(path.glob("*.tmp"))
        assert [one[:2] for one in log.missing_records()] == [(30, 40)]
        with pytest.raises(CorruptLogError, match="30 to 39"):
            list(log.scan())


@pytest.mark.parametrize(("offset", "left"), [(25, 0), (30, 0), (35, 1), (45, 1)])
def test_a_truncation_forgets_what_it_removes(path: Path, offset: int, left: int) -> None:
    """[TRU-1, DUR-7]"""
    with segstore.open(path) as log:
        log.truncate_to(offset)
    assert len(noted(path)) == left


@pytest.mark.parametrize(
    ("call", "offset"), [("truncate_to", 25), ("truncate_fully_and_start_at", 25)]
)
def test_a_crash_before_the_note_is_cut_leaves_no_stale_range(
    path: Path, call: str, offset: int
) -> None:
    """[TRU-1, DUR-36] The next open for writing removes the ranges above the log end."""
    before = (path / NOTE).read_bytes()
    with segstore.open(path) as log:
        getattr(log, call)(offset)
        crashed = shutil.copytree(path, path.parent.parent / "crashed" / "orders-0")
    (crashed / NOTE).write_bytes(before)

    with segstore.open(crashed) as log:
        assert log.log_end_offset == offset
        assert noted(crashed) == []
        assert log.missing_records() == []


def test_a_clean_open_keeps_the_ranges_below_the_log_end(path: Path) -> None:
    """[DUR-7]"""
    before = noted(path)
    for _ in range(2):
        segstore.open(path).close()
    assert noted(path) == before
