"""Readers of committed data: damage hid markers, each append cost a walk, deletions an error."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore._core import DataFile, Directory, crc32c
from segstore.errors import CorruptLogError, LogNotFoundError, OffsetOutOfRangeError
from segstore.log.local import transaction_index
from segstore.log.local.segment import Segment
from segstore.log.local.transaction_index import AbortedTransaction, TransactionIndex
from tests.unit.log.test_committed_view import PLAIN, data, forget_producers, marker

if TYPE_CHECKING:
    from pathlib import Path

FIRST = [data(11, 0, 2), data(PLAIN, 2, 1), marker(11, 3, "commit"), data(PLAIN, 4, 1)]
SECOND = [data(11, 5, 2), marker(11, 7, "abort"), data(PLAIN, 8, 1)]
MARKER_POSITION = len(FIRST[0]) + len(FIRST[1])
MAGIC = 16
LENGTH = 11
KEY_TYPE = 69


def segment_file(path: Path, base_offset: int) -> Path:
    return path / f"{base_offset:020}.log"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of two segments that was closed."""
    path = tmp_path / "t-0"
    path.mkdir()
    segment_file(path, 0).write_bytes(b"".join(FIRST))
    segment_file(path, 5).write_bytes(b"".join(SECOND))
    with segstore.open(path):
        pass
    forget_producers(path)
    return path


def damage(path: Path, position: int, value: int) -> None:
    with segment_file(path, 0).open("r+b") as file:
        file.seek(position)
        file.write(bytes([value]))


@pytest.mark.parametrize("inside", [MAGIC, LENGTH, KEY_TYPE])
def test_where_a_marker_is_lost_nothing_is_guessed(path: Path, inside: int):
    """[DUR-7] The file and its position are named, by everything that reads on."""
    damage(path, MARKER_POSITION + inside, 0x77)
    with segstore.open(path, read_only=True) as log:
        assert log.last_stable_offset == 0
        for read in (
            lambda: list(log.scan(0, 3, isolation="read_committed")),
            lambda: log.scan(0, 3, isolation="read_committed").count(),
            lambda: log.to_arrow(isolation="read_committed"),
            lambda: log.read(0, 1000, "read_committed"),
            lambda: list(log.tail(0, timeout=0, isolation="read_committed")),
        ):
            with pytest.raises(CorruptLogError) as caught:
                read()
            assert caught.value.file == str(segment_file(path, 0))
            assert caught.value.position == MARKER_POSITION
        assert log.scan(0, 0, isolation="read_committed").tuples() == []
        assert [one.offset for one in log.scan(0, 3)] == [0, 1, 2]


def test_a_data_batch_whose_checksum_is_wrong_begins_no_transaction(path: Path):
    """Bits are believed behind a checksum only: this one has another producer id."""
    damage(path, 50, 0x01)
    with segstore.open(path, read_only=True) as log:
        assert log.last_stable_offset == 0
        with pytest.raises(CorruptLogError, match="cannot be told"):
            log.scan(isolation="read_committed").tuples()


@pytest.mark.parametrize("kind", ["commit", "abort"])
def test_following_transactions_walks_each_batch_about_once(tmp_path: Path, monkeypatch, kind):
    """[DUR-61] Header rows of N transactions one by one: a multiple of N."""
    path = tmp_path / "t-0"
    path.mkdir()
    file = segment_file(path, 0)
    file.write_bytes(data(11, 0, 1) + marker(11, 1, kind))
    rows, scan = 0, Segment.scan

    def counted(self, **how):
        nonlocal rows
        headers, result = scan(self, **how)
        rows += max(len(headers), result.batches_count)
        return headers, result

    monkeypatch.setattr(Segment, "scan", counted)
    seen = []
    counts = []
    with segstore.open(path, read_only=True) as log:
        for number in range(1, 201):
            with file.open("ab") as writer:
                writer.write(data(11, 2 * number, 1) + marker(11, 2 * number + 1, kind))
            follow = log.tail(2 * number, timeout=0, isolation="read_committed")
            seen += [one.offset for one in follow]
            counts.append(rows)

    assert seen == ([2 * number for number in range(1, 201)] if kind == "commit" else [])
    assert counts[199] - counts[99] < 1.1 * (counts[99] - counts[19]) * 100 / 80
    assert counts[199] < 200 * 60


def test_a_view_is_computed_once_for_each_state_of_the_log(path: Path, monkeypatch):
    """Nothing is read when nothing changed."""
    with segstore.open(path, read_only=True) as log:
        assert log.last_stable_offset == 9

        def refused(*_args, **_how):
            raise AssertionError

        monkeypatch.setattr(Segment, "scan", refused)
        monkeypatch.setattr(Segment, "read", refused)
        assert log.last_stable_offset == 9


def test_a_segment_that_goes_while_its_transactions_are_looked_for(path: Path, monkeypatch):
    """[DUR-19, DUR-78] Retention beside a reader of committed data: LogNotFoundError."""
    header = struct.pack(">i", 0)
    snapshot = struct.pack(">hI", 1, crc32c(header)) + header
    scan_transactions = Segment.scan_transactions
    is_deleted = False
    with segstore.open(path, file_delete_delay_ms=0) as log:
        log.flush()
        (path / f"{8:020}.snapshot").write_bytes(snapshot)

        def beside_a_deletion(self, **how):
            nonlocal is_deleted
            if not is_deleted:
                is_deleted = True
                log.delete_records(5)
                while segment_file(path, 0).exists():
                    time.sleep(0.01)
                raise LogNotFoundError("gone")
            return scan_transactions(self, **how)

        monkeypatch.setattr(Segment, "scan_transactions", beside_a_deletion)
        assert log.last_stable_offset == 9
        with pytest.raises(OffsetOutOfRangeError):
            log.scan(0, isolation="read_committed")
        assert is_deleted
        assert [row[0] for row in log.scan(isolation="read_committed").tuples()] == [8]
        assert len(log.segments()) == 1


def test_an_index_of_several_pieces(tmp_path: Path, monkeypatch):
    """[TXX-3] One above 64 MiB was refused; part of an entry at the end is not seen."""
    directory = Directory(str(tmp_path))
    monkeypatch.setattr(transaction_index, "_PIECE_BYTES", 68)
    for count in (1, 2, 3, 4, 5):
        entries = [AbortedTransaction(1, at, at, at) for at in range(count)]
        file = tmp_path / f"{0:020}.txnindex"
        for torn in (0, 5):
            file.write_bytes(b"".join(entry.format() for entry in entries) + bytes(torn))
            assert list(TransactionIndex(directory, 0)) == entries
    directory.close()


def test_an_append_that_failed_may_be_tried_again(tmp_path: Path, monkeypatch):
    """[TXX-2, DUR-32] The last offset was noted before the write."""
    directory = Directory(str(tmp_path))
    index = TransactionIndex(directory, 0)
    entry = AbortedTransaction(1, 0, 10, 11)

    class FullDisk:
        def __init__(self, *args, **how) -> None:
            self.file = DataFile(*args, **how)
            self.size = 0

        def __enter__(self):
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, *_: object) -> None:
            raise OSError

    with monkeypatch.context() as patched:
        patched.setattr(transaction_index, "DataFile", FullDisk)
        with pytest.raises(OSError):
            index.append(entry)
    index.append(entry)

    assert list(index) == [entry]
    directory.close()


def test_arrow_takes_an_isolation(path: Path):
    """What takes none shows everything."""
    with segstore.open(path, read_only=True) as log:
        committed = [0, 1, 2, 4, 8]
        assert log.to_arrow(isolation="read_committed")["offset"].to_pylist() == committed
        selected = log.select("offset", isolation="read_committed")
        assert selected.to_arrow()["offset"].to_pylist() == committed
        assert [one.offset for one in log] == [0, 1, 2, 4, 5, 6, 8]
        assert log.select("offset").to_arrow().num_rows == 7
        with pytest.raises(OffsetOutOfRangeError):
            log.to_arrow(10, isolation="read_committed")
