"""Kafka's OffsetCheckpointFileWithFailureHandlerTest."""

from __future__ import annotations

import pytest

from segstore import _core
from segstore._core import FileBarrier
from segstore.errors import CorruptCheckpointError
from segstore.log.files.checkpoints import (
    RECOVERY_POINT_CHECKPOINT,
    format_offset_checkpoint,
    parse_offset_checkpoint,
)
from segstore.types import TopicPartition


@pytest.fixture
def directory(tmp_path):
    directory = _core.Directory(str(tmp_path))
    yield directory
    directory.close()


def test_should_handle_multiple_lines(directory):
    """OffsetCheckpointFileWithFailureHandlerTest.shouldHandleMultipleLines."""
    offsets = {TopicPartition("foo", n): 5 for n in range(1, 6)}
    offsets |= {TopicPartition("bar", n): 10 for n in range(6, 11)}

    directory.write_file_atomically(
        RECOVERY_POINT_CHECKPOINT, format_offset_checkpoint(offsets), FileBarrier.LOG_STATE
    )

    assert parse_offset_checkpoint(directory.read_file(RECOVERY_POINT_CHECKPOINT)) == offsets


def test_should_return_empty_map_for_empty_file():
    """OffsetCheckpointFileWithFailureHandlerTest.shouldReturnEmptyMapForEmptyFile."""
    assert parse_offset_checkpoint(b"") == {}
    assert format_offset_checkpoint({}) == b"0\n0\n"
    assert parse_offset_checkpoint(b"0\n0\n") == {}


def test_should_throw_if_version_is_not_recognised():
    """OffsetCheckpointFileWithFailureHandlerTest.shouldThrowIfVersionIsNotRecognised."""
    with pytest.raises(CorruptCheckpointError, match="version 0"):
        parse_offset_checkpoint(b"1\n1\nfoo 1 5\n")
