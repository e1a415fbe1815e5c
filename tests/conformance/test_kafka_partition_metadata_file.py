"""Kafka's PartitionMetadataFileTest."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory
from segstore.errors import InconsistentTopicIdError
from segstore.log.files.partition_metadata_file import PartitionMetadataFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def metadata(tmp_path: Path) -> Iterator[PartitionMetadataFile]:
    directory = Directory(str(tmp_path))
    yield PartitionMetadataFile(directory)
    directory.close()


def test_set_record_with_different_topic_id(metadata: PartitionMetadataFile):
    """[CKP-26, UNI-5] PartitionMetadataFileTest.testSetRecordWithDifferentTopicId."""
    metadata.record(uuid.uuid4())

    with pytest.raises(InconsistentTopicIdError) as caught:
        metadata.record(uuid.uuid4())
    assert caught.value.file == metadata.path


def test_set_record_with_same_topic_id(metadata: PartitionMetadataFile):
    """[UNI-5] PartitionMetadataFileTest.testSetRecordWithSameTopicId: equal, not identical."""
    topic_id = uuid.uuid4()
    metadata.record(topic_id)

    metadata.record(topic_id)
    metadata.record(uuid.UUID(str(topic_id)))

    assert metadata.maybe_flush()
    assert metadata.read() == topic_id
