"""Kafka's TransactionIndexTest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory
from segstore.errors import CorruptIndexError, IllegalArgumentError
from segstore.log.local.transaction_index import AbortedTransaction, TransactionIndex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ABORTED = [
    AbortedTransaction(0, 0, 10, 11),
    AbortedTransaction(1, 5, 15, 13),
    AbortedTransaction(2, 18, 35, 25),
    AbortedTransaction(3, 32, 50, 40),
]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    opened = Directory(str(tmp_path))
    yield opened
    opened.close()


@pytest.fixture
def index(directory: Directory) -> TransactionIndex:
    return TransactionIndex(directory, 0)


@pytest.fixture
def filled(index: TransactionIndex) -> TransactionIndex:
    for entry in ABORTED:
        index.append(entry)
    return index


def test_position_set_correctly_when_opened(directory: Directory, filled: TransactionIndex):
    """[TXX-1] TransactionIndexTest.testPositionSetCorrectlyWhenOpened."""
    filled.close()

    reopened = TransactionIndex(directory, 0)
    another = AbortedTransaction(3, 50, 60, 55)
    reopened.append(another)

    assert list(reopened) == [*ABORTED, another]


def test_sanity_check(directory: Directory, filled: TransactionIndex):
    """[TXX-6] TransactionIndexTest.testSanityCheck: markers below the segment's first offset."""
    filled.sanity_check()
    filled.close()
    filled.rename_to(f"{100:020}.txnindex")

    with pytest.raises(CorruptIndexError):
        TransactionIndex(directory, 100).sanity_check()


def test_last_offset_must_increase(index: TransactionIndex):
    """[TXX-2] TransactionIndexTest.testLastOffsetMustIncrease."""
    index.append(AbortedTransaction(1, 5, 15, 13))

    with pytest.raises(IllegalArgumentError) as caught:
        index.append(AbortedTransaction(0, 0, 15, 11))
    assert (caught.value.found, caught.value.expected) == ("15", "above 15")
    assert caught.value.file == index.path


def test_last_offset_cannot_decrease(index: TransactionIndex):
    """[TXX-2] TransactionIndexTest.testLastOffsetCannotDecrease."""
    index.append(AbortedTransaction(1, 5, 15, 13))

    with pytest.raises(IllegalArgumentError):
        index.append(AbortedTransaction(0, 0, 10, 11))
    assert list(index) == [AbortedTransaction(1, 5, 15, 13)]


@pytest.mark.parametrize(
    ("fetch_offset", "upper_bound_offset", "found", "is_complete"),
    [
        (0, 100, ABORTED, False),
        (0, 32, ABORTED[:3], True),
        (0, 35, ABORTED, True),
        (10, 35, ABORTED, True),
        (11, 35, ABORTED[1:], True),
        (20, 41, ABORTED[2:], False),
    ],
)
def test_collect_aborted_transactions(
    filled: TransactionIndex,
    fetch_offset: int,
    upper_bound_offset: int,
    found: list[AbortedTransaction],
    is_complete: bool,  # noqa: FBT001 - a column of the table
):
    """[TXX-4] TransactionIndexTest.testCollectAbortedTransactions."""
    result = filled.collect_aborted_transactions(fetch_offset, upper_bound_offset)

    assert result == (found, is_complete)


def test_truncate(filled: TransactionIndex):
    """[TXX-5, TXX-6] TransactionIndexTest.testTruncate."""
    assert filled.truncate_to(51) is False
    assert list(filled) == ABORTED

    assert filled.truncate_to(50) is True
    assert list(filled) == ABORTED[:3]
    filled.append(ABORTED[3])  # the order is what is left: 35 came last

    filled.reset()
    assert list(filled) == []
    assert filled.is_empty


def test_aborted_transaction_serde():
    """[format.md 13.6] TransactionIndexTest.testAbortedTxnSerde."""
    entry = AbortedTransaction(983493, 137, 299, 200).format()

    assert (len(entry), entry[:2]) == (34, b"\0\0")
    assert [int.from_bytes(entry[at : at + 8]) for at in range(2, 34, 8)] == [983493, 137, 299, 200]


def test_rename_index(tmp_path: Path, index: TransactionIndex):
    """[TXX-6] TransactionIndexTest.testRenameIndex: the index works on under its new name."""
    index.append(ABORTED[0])

    renamed = f"{0:020}.txnindex.renamed"
    index.rename_to(renamed)
    index.append(ABORTED[1])

    assert (index.name, index.path) == (renamed, f"{tmp_path}/{renamed}")
    assert list(index) == ABORTED[:2]
    assert [path.name for path in tmp_path.iterdir()] == [renamed]


def test_update_parent_dir(tmp_path: Path, index: TransactionIndex):
    """[REN-1] TransactionIndexTest.testUpdateParentDir: the path, and nothing else."""
    other = tmp_path / "other"
    other.mkdir()
    directory = Directory(str(other))

    index.update_parent_directory(directory)

    assert (index.name, index.path) == (f"{0:020}.txnindex", f"{other}/{0:020}.txnindex")
    assert list(other.iterdir()) == []
    directory.close()


def test_flush(tmp_path: Path, filled: TransactionIndex):
    """[TXX-6] TransactionIndexTest.testFlush: the entries are what the file holds."""
    filled.flush()

    data = (tmp_path / filled.name).read_bytes()
    assert data == b"".join(entry.format() for entry in ABORTED)


def test_delete_if_exists(directory: Directory, filled: TransactionIndex):
    """[TXX-6] TransactionIndexTest.testDeleteIfExists."""
    assert directory.exists(filled.name)
    assert filled.delete_if_exists() is True

    assert not directory.exists(filled.name)
    assert filled.delete_if_exists() is False
