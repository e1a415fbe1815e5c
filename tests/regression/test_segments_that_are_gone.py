"""A cleaner of /tmp removes files of an open log: they count as deleted [DUR-42, DUR-132]. Case 23.

The others of the pass are deleted, and the handle knows what there is.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.log.files.partition_directory import file_name

if TYPE_CHECKING:
    from pathlib import Path

DAY_MS = 86_400_000
KINDS = ("log", "index", "timeindex", "snapshot")
BASES = list(range(0, 30, 4))


def aged_log(path: Path, **settings: object) -> segstore.UnifiedLog:
    """Segments of four records that are thirty days old, and an active one."""
    log = segstore.open(
        path,
        **{
            "durability": "none",
            "internal_segment_bytes": 500,
            "segment_ms": None,
            "file_delete_delay_ms": 0,
            "checksum_sidecar": True,
            **settings,
        },
    )
    old = int(time.time() * 1000) - 30 * DAY_MS
    for number in range(log.log_end_offset, 30):
        log.append([(old + number, b"k", b"v" * 40)])
    log.flush(force_active_segment=True)
    return log


@pytest.fixture
def path(tmp_path: Path) -> Path:
    aged_log(tmp_path / "t-0").close()
    return tmp_path / "t-0"


def bases_of(log: segstore.UnifiedLog) -> list[int]:
    return [segment.base_offset for segment in log.segments()]


def remove(path: Path, bases: list[int], kinds: tuple[str, ...] = KINDS) -> None:
    for base in bases:
        for kind in kinds:
            (path / file_name(base, kind)).unlink(missing_ok=True)


def logs_in(path: Path) -> list[int]:
    return sorted(int(file.stem) for file in path.glob("*.log"))


@pytest.mark.parametrize("kinds", [("log",), ("index", "timeindex"), ("snapshot",), KINDS], ids=str)
@pytest.mark.parametrize("gone", [[4], [0], [0, 4, 8], [12, 16], BASES[:-1]], ids=str)
@pytest.mark.parametrize("was_read", [True, False])
def test_retention_deletes_the_others(
    path: Path, gone: list[int], kinds: tuple[str, ...], *, was_read: bool
):
    with aged_log(path, retention_ms=DAY_MS) as log:
        assert bases_of(log) == BASES
        if was_read:
            assert len(list(log.scan())) == 30
        remove(path, gone, kinds)

        assert log.delete_old_segments() == len(BASES)

        assert (log.log_start_offset, bases_of(log)) == (30, [30])
        assert log.delete_old_segments() == 0
        log.append([(None, b"new")])
        assert [record.value for record in log.scan()] == [b"new"]
    assert logs_in(path) == [30]
    with segstore.open(path) as log:
        assert (log.report.clean, log.log_start_offset, log.log_end_offset) == (True, 30, 31)


def test_what_is_gone_counts_for_no_size(path: Path):
    """[DUR-132, RET-6] Deleting goes on until only that much is there, not before."""
    with aged_log(path, retention_ms=None, retention_bytes=3 * 440) as log:
        sizes = {segment.base_offset: segment.size_bytes for segment in log.segments()}
        remove(path, [8, 12])

        log.delete_old_segments()

        there = sum(sizes[base] for base in logs_in(path))
        assert there >= 3 * 440 > there - sizes[logs_in(path)[0]]
        assert [base for base in bases_of(log) if base not in {8, 12}] == logs_in(path)


def test_without_a_limit_what_is_gone_is_no_deletion(path: Path):
    """[DUR-128] The file may be restored from a copy; its records are not deleted by defaults."""
    with aged_log(path, retention_ms=None) as log:
        remove(path, [0, 4])

        assert (log.delete_old_segments(), log.log_start_offset) == (0, 0)


def test_records_that_a_user_deletes(path: Path):
    """[DUR-132, LST-4]"""
    with aged_log(path) as log:
        remove(path, [4, 8])

        assert log.delete_records(14) == 14

        assert bases_of(log) == BASES[3:]
        assert [record.offset for record in log.scan()] == list(range(14, 30))
    assert logs_in(path) == BASES[3:]


@pytest.mark.parametrize("gone", [[20], [20, 24, 28], [28]], ids=str)
def test_a_truncation_takes_the_others_away(path: Path, gone: list[int]):
    """[DUR-132, DUR-16]"""
    with aged_log(path) as log:
        remove(path, gone)

        assert log.truncate_to(10)

        assert log.append([(None, b"new")]).base_offset == 10
        assert [record.offset for record in log.scan()] == list(range(11))
    assert logs_in(path) == [0, 4, 8]
    with segstore.open(path) as log:
        assert (log.report.clean, log.log_end_offset) == (True, 11)


def test_a_truncation_of_all_takes_the_others_away(path: Path):
    """[DUR-132, DUR-18]"""
    with aged_log(path) as log:
        remove(path, [0, 12])

        log.truncate_fully_and_start_at(50)

        assert log.append([(None, b"new")]).base_offset == 50
    assert logs_in(path) == [50]


def test_a_close_beside_what_is_gone(path: Path):
    """[DUR-8, DUR-7] Sidecars, snapshots and indexes may go; a lost record is told by the open."""
    log = aged_log(path)
    log.append([(None, b"new")])
    remove(path, [8], ("index", "timeindex", "segsum"))
    remove(path, [12])

    log.close()

    (path / file_name(8, "index")).unlink(missing_ok=True)
    with pytest.raises(segstore.errors.CorruptLogError):
        segstore.open(path)


def test_one_that_cannot_be_renamed_keeps_no_other(path: Path):
    """[DUR-42, DUR-132] A directory has the name: the error is raised behind the others."""
    with aged_log(path, retention_ms=DAY_MS) as log:
        (path / f"{file_name(4, 'log')}.deleted").mkdir()

        with pytest.raises(segstore.SegstoreError):
            log.delete_old_segments()

        assert (log.log_start_offset, bases_of(log)) == (30, [30])
        assert log.delete_old_segments() == 0
    assert logs_in(path) == [4, 30]
