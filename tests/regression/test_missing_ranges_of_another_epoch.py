"""A range in ``.segstore.missing`` was tied to nothing.

A broker that took the directory over could truncate the log, fetch the records again from another
leader and compact them: the range was stale, and no read went past the gap of a healthy log.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.log.files.missing_records_file import note_ranges
from tests.kits.damaged_logs import batches_of
from tests.kits.log_kit import singleton

if TYPE_CHECKING:
    from pathlib import Path

NOTE = ".segstore.missing"


def write_compacted(path: Path, epochs: tuple[int, int, int]) -> None:
    """Write segments at 0, 20 and 40; only an index says that 30 to 39 are missing.

    The records have the first epoch below 25, then the second one, and from 40 on the third.
    """
    with segstore.open(path, durability="none", index_interval_bytes=200) as log:
        for number in range(60):
            if number in (20, 40):
                log.roll()
            epoch = epochs[(number >= 25) + (number >= 40)]
            log.append_as_leader(singleton(b"value %d" % number), leader_epoch=epoch)
    file = path / f"{20:020d}.log"
    os.truncate(file, batches_of(file)[10].position)
    (path / ".segstore").unlink()
    file.with_suffix(".timeindex").unlink()


@pytest.fixture
def note(tmp_path: Path) -> bytes:
    """Return the note of a log whose records from 30 to 39 a time index proves to be missing."""
    path = tmp_path / "noted" / "orders-0"
    write_compacted(path, (0, 3, 3))
    segstore.open(path).close()
    data = (path / NOTE).read_bytes()
    assert b"missing 30 40 3\n" in data
    return data


@pytest.mark.parametrize(
    ("epochs", "missing"),
    [
        ((0, 3, 3), [(30, 40)]),
        ((0, 3, 5), [(30, 40)]),
        ((0, 0, 3), [(30, 40)]),
        ((0, 5, 5), []),
    ],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_a_range_counts_up_to_its_epoch(
    tmp_path: Path,
    note: bytes,
    epochs: tuple[int, int, int],
    missing: list[tuple[int, int]],
    *,
    read_only: bool,
) -> None:
    """[DUR-7, DUR-64] Compaction leaves an earlier epoch before the gap, another leader a later."""
    path = tmp_path / "data" / "orders-0"
    write_compacted(path, epochs)
    (path / f"{20:020d}.index").unlink()
    (path / NOTE).write_bytes(note)

    with segstore.open(path, read_only=read_only) as log:
        assert [one[:2] for one in log.missing_records()] == missing
        if not missing:
            assert [one.offset for one in log.scan()] == [*range(30), *range(40, 60)]
    report = segstore.salvage(path, tmp_path / "salvaged" / path.name)
    assert [(one.first_offset, one.next_offset) for one in report.lost] == missing


def test_a_new_proof_counts_beside_a_stale_range(tmp_path: Path, note: bytes) -> None:
    """[DUR-7] The range has the later epoch then."""
    path = tmp_path / "data" / "orders-0"
    write_compacted(path, (0, 5, 5))
    (path / NOTE).write_bytes(note)

    for _ in range(2):
        with segstore.open(path) as log:
            assert [one[:2] for one in log.missing_records()] == [(30, 40)]
    assert b"missing 30 40 5\n" in (path / NOTE).read_bytes()


def test_each_range_in_a_gap_is_a_loss(tmp_path: Path) -> None:
    """[DUR-7] The first one alone was reported."""
    path = tmp_path / "data" / "orders-0"
    write_compacted(path, (0, 0, 0))
    (path / f"{20:020d}.index").unlink()
    with segstore.open(path) as log:
        note_ranges(log._local_log.directory, [(31, 32), (35, 36)])
        assert [one[:2] for one in log.missing_records()] == [(31, 32), (35, 36)]
        found = [one for one in log.verify().findings if one.code.value == "RECORDS_MISSING"]
        assert [one.lost for one in found] == [((31, 31), (35, 35))]
