"""Kafka's LeaderEpochCheckpointFileWithFailureHandlerTest."""

from __future__ import annotations

import pytest

from segstore import _core
from segstore._core import FileBarrier
from segstore.log.files.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    format_leader_epoch_checkpoint,
    parse_leader_epoch_checkpoint,
)
from segstore.types import EpochEntry


@pytest.fixture
def directory(tmp_path):
    directory = _core.Directory(str(tmp_path))
    yield directory
    directory.close()


def test_should_persist_and_overwrite_and_reload_file(directory):
    """[DUR-21]

    LeaderEpochCheckpointFileWithFailureHandlerTest.shouldPersistAndOverwriteAndReloadFile.
    """
    for entries in ([(0, 1), (1, 2), (2, 3)], [(3, 4), (4, 5)]):
        epochs = [EpochEntry(*entry) for entry in entries]
        data = format_leader_epoch_checkpoint(epochs)
        directory.write_file_atomically(LEADER_EPOCH_CHECKPOINT, data, FileBarrier.LOG_STATE)

        found = directory.read_file(LEADER_EPOCH_CHECKPOINT)
        assert parse_leader_epoch_checkpoint(found) == epochs
