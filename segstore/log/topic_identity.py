"""The id of the log's topic, and ``partition.metadata``, which holds it [UNI-5, UNI-8, DUR-23]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.errors import FsyncFailedError
from segstore.log.files.partition_metadata_file import (
    PartitionMetadataFile,
    inconsistent_topic_id,
)
from segstore.log.files.sibling_topic_ids import topic_id_of_siblings

if TYPE_CHECKING:
    import uuid

    from segstore._core import Directory
    from segstore.log.failure_mark import FailureMark
    from segstore.types import TopicPartition


class TopicIdentity:
    """The topic id of a log that is written.

    Attributes
    ----------
    topic_id : uuid.UUID or None
        None = the topic has no id.
    """

    __slots__ = ("_failure_mark", "_file", "topic_id")

    def __init__(
        self, directory: Directory, topic_id: uuid.UUID | None, failure_mark: FailureMark
    ) -> None:
        self.topic_id = topic_id
        self._file = PartitionMetadataFile(directory)
        self._failure_mark = failure_mark

    def assign(self, topic_id: uuid.UUID) -> bool:
        """Give the log an id, to be written by `flush`; returns whether it is a new one.

        Raises
        ------
        InconsistentTopicIdError
            The log has another one.
        """
        if self.topic_id == topic_id:
            return False
        if self.topic_id is not None:
            raise inconsistent_topic_id(self._file.path, self.topic_id, topic_id)
        self._file.record(topic_id)
        self.topic_id = topic_id
        return True

    def restore(self, log_directory: Directory, topic_partition: TopicPartition) -> bool:
        """Write a file that is missing, or cannot be read, with the id that is beside it.

        Returns whether it did: not where the log has an id, and not where nothing beside it has
        one. A clean stop stays one, since the file says nothing of the records.

        Raises
        ------
        InconsistentTopicIdError
            The other partitions, and ``topics.json``, contradict each other.
        """
        if self.topic_id is not None:
            return False
        topic_id = topic_id_of_siblings(log_directory, topic_partition)
        if topic_id is None:
            return False
        with self._failure_mark.poisoned_by(FsyncFailedError):
            self._file.write(topic_id)
        self.topic_id = topic_id
        return True

    def flush(self) -> None:
        """Write a recorded id before the first batch [APP-3, UNI-5, DUR-23]."""
        if self._file.is_dirty:
            with self._failure_mark.poisoned_by(FsyncFailedError):
                self._file.maybe_flush()
