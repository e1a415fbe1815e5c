"""Making directories: the log directory, and those of a new topic's partitions [DUR-11, DUR-23]."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from segstore._core import Barrier, Directory
from segstore.log.directory.names_above import sync_names_above
from segstore.log.directory.partition_directory import directory_name
from segstore.log.directory.partition_lock import hint_at_read_only
from segstore.log.directory.partition_metadata_file import PartitionMetadataFile, topic_id_text
from segstore.log.directory.partition_path import make_directory

if TYPE_CHECKING:
    from segstore.types import TopicPartition


def make_log_directory(path: str) -> Directory:
    """Open the directory *path*; make it, and those above it, when it is missing.

    Whoever made them, and whatever is in it: all names on the way are on stable storage [DUR-11].
    """
    with hint_at_read_only():
        directory = make_directory(path)
        try:
            sync_names_above(path)
        except BaseException:
            directory.close()
            raise
    return directory


def create_partition_directory(
    log_directory: Directory, topic_partition: TopicPartition, topic_id: uuid.UUID
) -> None:
    """Make a partition's directory; its topic id is on stable storage before any batch can be."""
    name = directory_name(topic_partition)
    log_directory.make_directory(name)
    log_directory.sync(Barrier.NEW_DIRECTORY)
    directory = Directory(f"{log_directory.path}/{name}")
    try:
        metadata = PartitionMetadataFile(directory)
        metadata.record(topic_id)
        metadata.maybe_flush()
    finally:
        directory.close()


def new_topic_id() -> uuid.UUID:
    """Return a random uuid whose text does not begin with a dash, as Kafka's ``randomUuid``."""
    while True:
        topic_id = uuid.uuid4()
        if not topic_id_text(topic_id).startswith("-"):
            return topic_id
