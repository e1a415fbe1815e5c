"""A topic id recorded, written once, and never replaced by another [UNI-5]."""

from __future__ import annotations

import uuid

import pytest

from segstore._core import Directory
from segstore.errors import CorruptCheckpointError, InconsistentTopicIdError
from segstore.log.files.partition_metadata_file import PartitionMetadataFile

NAME = "partition.metadata"
TOPIC_ID = uuid.UUID(bytes=bytes(range(16)))


@pytest.fixture
def metadata(tmp_path):
    directory = Directory(str(tmp_path))
    yield PartitionMetadataFile(directory)
    directory.close()


def test_a_recorded_id_is_written_at_the_next_flush_and_once(metadata, tmp_path):
    """[UNI-5], [format.md 15.2, 19.8]"""
    assert metadata.maybe_flush() is False
    metadata.record(TOPIC_ID)
    assert not metadata.exists
    assert metadata.read() is None

    assert metadata.maybe_flush() is True
    assert (tmp_path / NAME).read_bytes() == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert metadata.read() == TOPIC_ID
    written = (tmp_path / NAME).stat().st_ino
    assert metadata.maybe_flush() is False
    metadata.record(TOPIC_ID)
    assert metadata.maybe_flush() is False
    assert (tmp_path / NAME).stat().st_ino == written


def test_another_id_in_the_file_is_an_error(metadata, tmp_path):
    metadata.record(TOPIC_ID)
    metadata.maybe_flush()
    before = (tmp_path / NAME).read_bytes()

    metadata.record(uuid.uuid4())
    with pytest.raises(InconsistentTopicIdError) as caught:
        metadata.maybe_flush()

    assert caught.value.found == "AAECAwQFBgcICQoLDA0ODw"
    assert (tmp_path / NAME).read_bytes() == before


def test_a_file_that_cannot_be_read_is_not_replaced(metadata, tmp_path):
    (tmp_path / NAME).write_bytes(b"version: 0")
    metadata.record(TOPIC_ID)
    with pytest.raises(CorruptCheckpointError):
        metadata.maybe_flush()
    assert (tmp_path / NAME).read_bytes() == b"version: 0"

    metadata.delete()
    metadata.delete()
    assert metadata.maybe_flush() is True
