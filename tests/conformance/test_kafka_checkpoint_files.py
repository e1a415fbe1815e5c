"""Kafka's tests of checkpoint files, and the entries of transaction indexes."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory, FileBarrier
from segstore.errors import CorruptCheckpointError, UnsupportedFormatError
from segstore.log.files.checkpoints import (
    RECOVERY_POINT_CHECKPOINT,
    EpochEntry,
    format_leader_epoch_checkpoint,
    format_offset_checkpoint,
    parse_leader_epoch_checkpoint,
    parse_offset_checkpoint,
    read_offset,
    write_offset,
)
from segstore.log.local.transaction_index import AbortedTransaction, TransactionIndex
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path


def test_several_lines():
    """[format.md 15.1] OffsetCheckpointFileWithFailureHandlerTest.shouldHandleMultipleLines."""
    offsets = {TopicPartition("foo", n): n for n in range(1, 6)}
    offsets |= {TopicPartition("bar", n): n for n in range(6, 11)}

    assert parse_offset_checkpoint(format_offset_checkpoint(offsets)) == offsets


def test_nothing():
    """OffsetCheckpointFileWithFailureHandlerTest.shouldReturnEmptyMapForEmptyFile.

    [format.md 15.1]
    """
    assert parse_offset_checkpoint(b"") == {}
    assert format_offset_checkpoint({}) == b"0\n0\n"
    assert parse_offset_checkpoint(b"0\n0\n") == {}


def test_another_version():
    """[15.1] OffsetCheckpointFileWithFailureHandlerTest.shouldThrowIfVersionIsNotRecognised."""
    with pytest.raises(CorruptCheckpointError):
        parse_offset_checkpoint(b"1\n1\nfoo 0 1\n")


def test_an_offset_is_read_when_it_is_asked_for(tmp_path: Path):
    """[15.1] OffsetCheckpointFileWithFailureHandlerTest.testLazyOffsetCheckpoint.

    Nothing is kept: an answer is what the file holds at that moment.
    """
    directory = Directory(str(tmp_path))
    name = RECOVERY_POINT_CHECKPOINT
    offsets = {TopicPartition("foo", 0): 1000, TopicPartition("foo", 1): 2000}
    directory.write_file_atomically(name, format_offset_checkpoint(offsets), FileBarrier.LOG_STATE)

    found = [read_offset(directory, name, TopicPartition("foo", n)) for n in range(3)]
    assert found == [1000, 2000, None]
    directory.close()


def test_a_directory_that_was_renamed_away_is_written_to_all_the_same(tmp_path: Path):
    """OffsetCheckpointFileWithFailureHandlerTest.testWriteIfDirExistsShouldNotThrowWhenDirNotExists.

    [15.1]

    The handle is the directory, not its name: nothing appears under the old name.
    """
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    directory = Directory(str(old))
    shutil.move(old, new)

    write_offset(directory, RECOVERY_POINT_CHECKPOINT, TopicPartition("foo", 1), 42)

    assert not old.exists()
    assert parse_offset_checkpoint((new / RECOVERY_POINT_CHECKPOINT).read_bytes()) == {
        TopicPartition("foo", 1): 42
    }
    directory.close()


def test_leader_epochs_are_kept_and_replaced(tmp_path: Path):
    """LeaderEpochCheckpointFileWithFailureHandlerTest.shouldPersistAndOverwriteAndReloadFile.

    [15.1]
    """
    directory = Directory(str(tmp_path))
    for entries in ([(0, 1), (1, 2), (2, 3)], [(3, 4), (4, 5)]):
        expected = [EpochEntry(*entry) for entry in entries]
        directory.write_file_atomically(
            "epochs", format_leader_epoch_checkpoint(expected), FileBarrier.LOG_STATE
        )
        assert parse_leader_epoch_checkpoint(directory.read_file("epochs")) == expected
    directory.close()


def test_entries_of_a_transaction_index(tmp_path: Path):
    """[format.md 13.6] TransactionIndexTest.testAbortedTxnSerde: 34 bytes, version 0."""
    entry = struct.pack(">hqqqq", 0, 983493, 137, 299, 200)
    (tmp_path / f"{0:020}.txnindex").write_bytes(entry + entry[:33])
    directory = Directory(str(tmp_path))

    assert len(entry) == 34
    index = TransactionIndex(directory, 0)
    assert list(index) == [AbortedTransaction(983493, 137, 299, 200)]
    assert list(TransactionIndex(directory, 300)) == []
    (tmp_path / f"{0:020}.txnindex").write_bytes(b"\0\1" + entry[2:])
    with pytest.raises(UnsupportedFormatError):
        list(index)
    directory.close()
