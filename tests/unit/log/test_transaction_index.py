"""What a broker's transactions left behind, kept true when the log is cut [TXX-3, TXX-5, TRU-6]."""

from __future__ import annotations

import struct

import pytest

from segstore._core import Directory
from segstore.log.transaction_index import (
    remove_snapshots_above,
    remove_snapshots_at,
    truncate_transaction_index,
)

NAME = f"{100:020d}.txnindex"
LAST_OFFSETS = [110, 120, 130]


def entries(last_offsets: list[int]) -> bytes:
    """Aborted transactions of a producer each: format.md 13.1."""
    rows = [(0, number, last - 5, last, last - 9) for number, last in enumerate(last_offsets)]
    return b"".join(struct.pack(">hqqqq", *row) for row in rows)


@pytest.fixture
def directory(tmp_path):
    opened = Directory(str(tmp_path))
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("offset", "kept"),
    [(100, 0), (110, 0), (111, 1), (120, 1), (121, 2), (130, 2), (131, 3), (999, 3)],
)
def test_entries_whose_marker_goes_go(directory, tmp_path, offset, kept):
    """[TXX-5] the file ends at the first entry whose last offset is at or above."""
    (tmp_path / NAME).write_bytes(entries(LAST_OFFSETS))
    assert truncate_transaction_index(directory, 100, offset) == (kept < 3)
    assert (tmp_path / NAME).read_bytes() == entries(LAST_OFFSETS[:kept])


def test_a_partial_entry_at_the_end_is_no_entry(directory, tmp_path):
    """[TXX-3] it goes with what is before it, or stays where nothing goes."""
    torn = entries(LAST_OFFSETS) + entries([140])[:-1]
    (tmp_path / NAME).write_bytes(torn)
    assert not truncate_transaction_index(directory, 100, 135)
    assert (tmp_path / NAME).read_bytes() == torn
    assert truncate_transaction_index(directory, 100, 125)
    assert (tmp_path / NAME).read_bytes() == entries(LAST_OFFSETS[:2])


def test_without_a_file_nothing_is_made(directory, tmp_path):
    """[TXX-1]"""
    assert not truncate_transaction_index(directory, 100, 0)
    assert list(tmp_path.iterdir()) == []


def test_snapshots(directory, tmp_path):
    """[DUR-16, LST-2] of offsets above the end, or of removed segments; other names stay."""
    names = [f"{offset:020d}.snapshot" for offset in (0, 5, 10)]
    others = [f"{7:020d}.log", f"{7:020d}.snapshot.deleted", "notes.snapshot"]
    for name in names + others:
        (tmp_path / name).write_bytes(b"")
    assert remove_snapshots_above(directory, 5) == [names[2]]
    assert remove_snapshots_at(directory, {0, 7}) == [names[0]]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([names[1], *others])
