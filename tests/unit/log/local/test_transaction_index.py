"""What a broker's transactions left behind, kept true when the log is cut [TXX-*, TRU-6].

Kafka's own cases: conformance.
"""

from __future__ import annotations

import struct

import pytest

from segstore._core import Directory
from segstore.errors import LogNotFoundError, UnsupportedFormatError
from segstore.log.local.transaction_index import (
    AbortedTransaction,
    TransactionIndex,
    truncate_transaction_index,
)
from segstore.log.producers.snapshot_files import remove_snapshots_at

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


def test_snapshots_of_removed_segments_go(directory, tmp_path):
    """[LDR-30] Other names stay."""
    names = [f"{offset:020d}.snapshot" for offset in (0, 5, 10)]
    others = [f"{7:020d}.log", f"{7:020d}.snapshot.deleted", "notes.snapshot"]
    for name in names + others:
        (tmp_path / name).write_bytes(b"")
    assert remove_snapshots_at(directory, {0, 7}) == [names[0]]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names[1:], *others])


# ---- the class -----------------------------------------------------------------------------------


def transaction(last: int) -> AbortedTransaction:
    return AbortedTransaction(7, last - 5, last, last - 9)


def test_the_first_append_makes_the_file(directory, tmp_path):
    """[TXX-1]"""
    index = TransactionIndex(directory, 100)
    index.flush()
    index.reset()
    assert index.is_empty
    assert list(tmp_path.iterdir()) == []

    index.append(transaction(110))
    index.flush()
    assert (tmp_path / NAME).read_bytes() == transaction(110).format()


@pytest.mark.parametrize(("cut", "expected"), [(True, [110, 120]), (False, [110])])
def test_what_a_crash_left_of_an_entry(directory, tmp_path, cut, expected):
    """[13.6] it is not seen, and goes before the next append; Kafka appends behind it."""
    torn = transaction(110).format() + transaction(115).format()[:20]
    (tmp_path / NAME).write_bytes(torn)
    index = TransactionIndex(directory, 100, cut_torn_entry=cut)
    assert list(index) == [transaction(110)]

    index.append(transaction(120))

    size = len(expected) * 34 if cut else len(torn) + 34
    assert (tmp_path / NAME).stat().st_size == size
    assert next(iter(index)) == transaction(110)
    assert (list(index) == [transaction(n) for n in (110, 120)]) == cut


def test_the_order_is_known_from_this_object_only(directory):
    """[TXX-2] the last entry of a file that was there is not read."""
    TransactionIndex(directory, 100).append(transaction(120))
    index = TransactionIndex(directory, 100)
    index.append(transaction(110))
    assert [entry.last_offset for entry in list(index)] == [120, 110]


def test_a_truncation_learns_the_order(directory):
    """[TXX-5] and forgets it where nothing is left."""
    index = TransactionIndex(directory, 100)
    for last in LAST_OFFSETS:
        index.append(transaction(last))
    reopened = TransactionIndex(directory, 100)
    assert reopened.truncate_to(125)
    with pytest.raises(ValueError, match="must increase"):
        reopened.append(transaction(120))
    assert reopened.truncate_to(0)
    reopened.append(transaction(101))
    assert list(reopened) == [transaction(101)]


def test_a_closed_index_is_left_alone_until_an_append(directory, tmp_path):
    """[TXX-8]"""
    index = TransactionIndex(directory, 100)
    index.append(transaction(110))
    index.close()

    assert list(index) == []
    assert index.is_empty
    assert not index.truncate_to(0)
    index.reset()
    index.flush()
    assert (tmp_path / NAME).stat().st_size == 34

    index.append(transaction(120))
    assert list(index) == [transaction(110), transaction(120)]


@pytest.mark.parametrize("version", [1, 256, -1])
def test_another_version_is_refused_and_nothing_changed(directory, tmp_path, version):
    """[TXX-3] both bytes count, as in Kafka 4.4."""
    data = transaction(110).format() + struct.pack(">h", version) + transaction(120).format()[2:]
    (tmp_path / NAME).write_bytes(data)
    index = TransactionIndex(directory, 100)
    for call in (
        lambda: list(index),
        index.sanity_check,
        lambda: index.truncate_to(120),
        lambda: index.collect_aborted_transactions(0, 1000),
    ):
        with pytest.raises(UnsupportedFormatError) as caught:
            call()
        assert (caught.value.file, caught.value.position) == (str(tmp_path / NAME), 34)
    assert not index.is_empty
    assert (tmp_path / NAME).read_bytes() == data


def test_another_name(directory, tmp_path):
    """[TXX-6] a name is recorded, also without a file."""
    index = TransactionIndex(directory, 100, name=f"{NAME}.cleaned")
    assert index.name == f"{NAME}.cleaned"
    index.rename_to(f"{NAME}.swap")
    index.append(transaction(110))
    assert [path.name for path in tmp_path.iterdir()] == [f"{NAME}.swap"]


def test_a_file_that_somebody_took_away_is_an_error(directory, tmp_path):
    index = TransactionIndex(directory, 100)
    index.append(transaction(110))
    (tmp_path / NAME).unlink()
    with pytest.raises(LogNotFoundError):
        list(index)
    assert index.delete_if_exists() is False


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("torn", [b"", b"\0" * 33, b"torn"])
def test_room_for_an_entry_is_seen_by_no_reader(directory, tmp_path, before, torn):
    """[TXX-3, DUR-30] 33 of its 34 bytes: the last one lies in the same block, at an odd place."""
    index = TransactionIndex(directory, 100)
    there = [transaction(100 + number) for number in range(before)]
    for one in there:
        index.append(one)
    with (tmp_path / NAME).open("ab") as file:
        file.write(torn)

    for _ in range(2):
        index.reserve()
        assert (tmp_path / NAME).stat().st_size == before * 34 + 33
        assert list(index) == there
    index.append(transaction(150))
    assert list(index) == [*there, transaction(150)]
    index.reserve()
    index.give_back()
    index.give_back()
    assert (tmp_path / NAME).stat().st_size == (before + 1) * 34
    assert list(index) == [*there, transaction(150)]
