"""What an index or a note proves to be missing between two segments, and what proves nothing."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import segstore
from segstore.log.files.missing_records_file import note_ranges
from segstore.log.local import local_log
from segstore.log.local.missing_records import MissingRecords, lone_index_bases, missing_between

BASE, END, NEXT = 100, 130, 140
INDEX, TIME_INDEX, NOTE = f"{BASE:020d}.index", f"{BASE:020d}.timeindex", ".segstore.missing"


def offsets(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def times(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def found(directory, end=END, following=NEXT):
    missing = missing_between(directory, BASE, end, following)
    assert len(missing) <= 1
    return missing[0] if missing else None


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (INDEX, offsets((10, 500), (30, 1500))),
        (INDEX, offsets((39, 1500)) + bytes(800)),
        (INDEX, offsets((10, 500), (39, 1500)) + b"torn"),
        (TIME_INDEX, times((1000, 29), (1001, 39))),
        (TIME_INDEX, times((1000, 35)) + bytes(1200)),
    ],
)
def test_an_entry_in_the_gap_is_proof(directory, tmp_path, name, data):
    """[DUR-7] All of the gap is missing: the next segment begins where this one had ended."""
    (tmp_path / name).write_bytes(data)

    assert found(directory) == MissingRecords(END, NEXT, name)
    assert found(directory, end=NEXT) is None


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (INDEX, b""),
        (INDEX, bytes(8)),
        (INDEX, bytes(800)),
        (INDEX, offsets((10, 500), (29, 1500))),
        (INDEX, offsets((10, 500), (40, 1500))),
        (INDEX, offsets((10, 500), (-5, 1500))),
        (INDEX, offsets((39, 500), (35, 1500))),
        (INDEX, b"torn"),
        (TIME_INDEX, b""),
        (TIME_INDEX, bytes(12)),
        (TIME_INDEX, times((1000, 29))),
    ],
)
def test_other_entries_prove_nothing(directory, tmp_path, name, data):
    """[DUR-53] Compaction makes indexes of what it keeps; a flipped bit names other offsets."""
    (tmp_path / name).write_bytes(data)

    assert found(directory) is None


def test_the_time_of_an_emptied_segments_first_record_is_proof(directory, tmp_path):
    (tmp_path / TIME_INDEX).write_bytes(times((1000, 0)))

    assert found(directory, end=BASE) == MissingRecords(BASE, NEXT, TIME_INDEX)


@pytest.mark.parametrize(
    ("noted", "missing"),
    [
        ([(130, 140)], (130, 140)),
        ([(0, 1000)], (130, 140)),
        ([(0, 10), (132, 135), (500, 600)], (132, 135)),
        ([(100, 130), (140, 150)], None),
    ],
)
def test_a_note_counts_where_the_log_has_a_gap(directory, noted, missing):
    """[DUR-64] So what was deleted since, or written again, is not reported."""
    note_ranges(directory, noted)

    assert found(directory) == (None if missing is None else MissingRecords(*missing, NOTE))


def test_each_range_in_a_gap_is_reported(directory):
    """[DUR-7] Not the first one alone."""
    note_ranges(directory, [(120, 132), (134, 135), (138, 150)])

    missing = missing_between(directory, BASE, END, NEXT)
    assert [one[:2] for one in missing] == [(130, 132), (134, 135), (138, 140)]


def test_an_index_that_cannot_be_read_proves_nothing(directory, tmp_path):
    """[DUR-8]"""
    (tmp_path / INDEX).mkdir()

    assert found(directory) is None


@pytest.mark.parametrize("swapped", [BASE, END])
@pytest.mark.parametrize("base", [BASE, END])
def test_an_index_beside_a_pending_swap_proves_nothing(directory, tmp_path, swapped, base):
    """[LDR-3] It is that of a segment in whose place the ``.swap`` file comes."""
    (tmp_path / f"{base:020d}.index").write_bytes(offsets((END + 5 - base, 1500)))
    assert found(directory) is not None

    (tmp_path / f"{swapped:020d}.log.swap").touch()

    is_other = (swapped, base) == (END, BASE)
    assert (found(directory) is not None) == is_other


def test_a_whole_log_lacks_nothing(partition):
    with segstore.open(partition, read_only=True) as log:
        assert log.missing_records() == []


def test_lone_indexes_are_looked_for_once(new_log, monkeypatch):
    """A compacted log has a gap after each segment, and each look lists the directory."""
    log = new_log()
    for _ in range(20):
        log.append([(None, b"kept")])
        kept_bytes = log.segments()[-1].size_bytes
        log.append([(None, b"compacted away")])
        log.roll()
    log.close()
    directory = Path(log.path)
    for file in directory.glob("*.log"):
        with file.open("r+b") as content:
            content.truncate(min(kept_bytes, file.stat().st_size))
    for file in directory.iterdir():
        if file.suffix != ".log":
            file.unlink()
    looks = []
    monkeypatch.setattr(
        local_log, "lone_index_bases", lambda names: looks.append(names) or lone_index_bases(names)
    )

    with segstore.open(directory, read_only=True) as reader:
        opened = len(looks)
        assert [record.offset for record in reader] == list(range(0, 40, 2))
    assert len(looks) - opened <= 1
