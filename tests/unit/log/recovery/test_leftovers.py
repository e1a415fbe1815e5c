"""What interrupted operations left is finished or undone [LDR-1..LDR-6, LDR-11, DUR-55, DUR-20]."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import segstore
from tests.kits.log_kit import at, bases, offsets, values

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("log", "index", "timeindex")


def name(base: int, kind: str = "log", suffix: str = "") -> str:
    return f"{base:020d}.{kind}{suffix}"


@pytest.fixture
def path(new_log, tmp_path) -> Path:
    """Segments 0-4, 5-9 and 10-; nothing above the recovery point."""
    log = new_log()
    for number in range(12):
        if number in {5, 10}:
            log.roll()
        log.append([(None, b"old %d" % number)])
    log.flush()
    log.close()
    return tmp_path / "topic-0"


def segment_files(tmp_path, base: int, end: int) -> dict[str, bytes]:
    """The files of a segment with every second record, as a compaction writes them."""
    made = tmp_path / f"made-{base}" / "topic-0"
    with segstore.open(made, durability="none") as log:
        log.truncate_fully_and_start_at(base)
        for number in range(base, end):
            if number % 2 == 0 or number == end - 1:
                log.append_as_follower(at(number, value=b"new %d" % number), 0)
    return {kind: (made / name(base, kind)).read_bytes() for kind in KINDS}


@pytest.fixture
def put(path, tmp_path):
    """Put such a segment into the log under a suffix."""

    def write(base: int, end: int, suffix: str) -> None:
        for kind, content in segment_files(tmp_path, base, end).items():
            (path / name(base, kind, suffix)).write_bytes(content)
        shutil.rmtree(tmp_path / f"made-{base}")

    return write


def suffixed(path) -> list[str]:
    return sorted(f.name for f in path.iterdir() if f.suffix in {".swap", ".cleaned", ".deleted"})


OLD = [b"old %d" % number for number in range(12)]


def test_deleted_and_cleaned_files_are_worthless(new_log, path, put):
    """[LDR-1, LDR-3] table T-10: the original is kept."""
    put(0, 5, ".cleaned")
    put(5, 10, ".deleted")
    log = new_log()
    assert values(log) == OLD
    assert suffixed(path) == []
    assert set(log.report.removed) >= {name(0, "log", ".cleaned"), name(5, "log", ".deleted")}


def test_an_incomplete_swap_set_is_undone(new_log, path, put):
    """[LDR-3] table T-10: a .cleaned file at or below shows that renames are missing."""
    put(10, 12, ".swap")
    put(0, 5, ".cleaned")
    log = new_log()
    assert values(log) == OLD
    assert suffixed(path) == []


def test_a_complete_swap_replaces_what_it_covers(new_log, path, put):
    """[LDR-4..LDR-6] table T-10: 0 and 5 lie in [0, 10), with their snapshots."""
    for offset in (0, 5, 10):
        (path / name(offset, "snapshot")).write_bytes(b"")
    put(0, 10, ".swap")
    reader = new_log(read_only=True)  # sees the same, and changes nothing [DUR-71]
    assert offsets(reader) == [0, 2, 4, 6, 8, 9, 10, 11]
    reader.close()
    assert len(suffixed(path)) == 3
    log = new_log()
    assert bases(log) == [0, 10]
    assert offsets(log) == [0, 2, 4, 6, 8, 9, 10, 11]
    assert values(log)[:2] == [b"new 0", b"new 2"]
    assert suffixed(path) == []
    assert not (path / name(5, "snapshot")).exists()
    assert log.append([(None, b"x")]).base_offset == 12


def test_two_swaps(new_log, put):
    """[LDR-6] table T-10: both are renamed."""
    put(0, 5, ".swap")
    put(5, 10, ".swap")
    log = new_log()
    assert bases(log) == [0, 5, 10]
    assert offsets(log) == [0, 2, 4, 6, 8, 9, 10, 11]


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    ("ranges", "left"),
    [
        ([(0, 10)], [0, 2, 4, 6, 8, 9]),
        ([(0, 5), (5, 10)], [0, 2, 4, 6, 8, 9]),
        ([(5, 10)], [0, 1, 2, 3, 4, 6, 8, 9]),
    ],
)
def test_a_broker_that_compacted_leaves_no_damage(new_log, put, read_only, ranges, left):
    """[LDR-6, DUR-64] Its clean marker was ours: the log had no gap when we closed it."""
    for begin, end in ranges:
        put(begin, end, ".swap")
    log = new_log(read_only=read_only)
    assert offsets(log) == [*left, 10, 11]
    assert log.verify().ok
    log.close()
    with new_log() as again:
        assert [*offsets(again), again.verify().ok] == [*left, 10, 11, True]


def test_a_swap_whose_indexes_are_lost(new_log, path, put):
    """[LDR-4] no index is created under a name that would then be believed to be full."""
    put(0, 10, ".swap")
    for kind in ("index", "timeindex"):
        (path / name(0, kind, ".swap")).unlink()
    log = new_log()
    assert offsets(log) == [0, 2, 4, 6, 8, 9, 10, 11]
    assert log.verify().ok


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_index_files_of_a_swap_alone_are_no_segment(new_log, path, kind):
    """A swap without its .log was not complete."""
    (path / name(0, kind, ".swap")).write_bytes(b"\1" * 24)
    log = new_log()
    assert values(log) == OLD
    assert suffixed(path) == []


def test_a_damaged_swap_is_set_aside(new_log, path, put):
    """[DUR-59] the old segments are the better copy."""
    put(0, 10, ".swap")
    file = path / name(0, "log", ".swap")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    log = new_log()
    assert values(log) == OLD
    assert any("damaged .swap" in warning for warning in log.report.warnings)
    (kept,) = [f for f in path.iterdir() if "quarantine" in f.name and f.stat().st_size > 60]
    assert kept.read_bytes() == bytes(content)


def test_indexes_without_a_log_go(new_log, path):
    """[LDR-11] table T-10."""
    for kind in ("index", "timeindex", "txnindex"):
        (path / name(7, kind)).write_bytes(bytes(24))
    log = new_log()
    assert values(log) == OLD
    assert not [f for f in path.iterdir() if f.name.startswith(f"{7:020d}")]


def test_temporary_files_go(new_log, path):
    """[DUR-55]"""
    names = ["leader-epoch-checkpoint.tmp", "recovery-point-offset-checkpoint.tmp", ".segstore.tmp"]
    names.append(name(5, "snapshot") + ".tmp")
    for temporary in names:
        (path / temporary).write_bytes(b"half")
    log = new_log()
    assert values(log) == OLD
    assert [n for n in names if (path / n).exists()] == []


FOREIGN = ["notes.txt", "x.deleted", "5.log.swap", "5.log.cleaned", "a.tmp", "00000.index.swap"]


def test_names_that_are_not_ours_stay(new_log, path):
    """[DUR-55, LDR-2] Kafka fails on some, or deletes them."""
    for foreign in FOREIGN:
        (path / foreign).write_bytes(b"mine")
    log = new_log()
    assert values(log) == OLD
    assert [(path / foreign).read_bytes() for foreign in FOREIGN] == [b"mine"] * len(FOREIGN)


def test_twice_is_once(new_log, path, put):
    """[DUR-56] a second open finds nothing to do."""
    put(0, 10, ".swap")
    new_log().close()
    before = {f.name: f.read_bytes() for f in path.iterdir()}
    log = new_log()
    assert log.report.removed == []
    log.close()
    assert {f.name: f.read_bytes() for f in path.iterdir()} == before
