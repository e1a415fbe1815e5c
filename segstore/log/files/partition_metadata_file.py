"""``partition.metadata``: the topic of a partition directory (Kafka ``PartitionMetadataFile``).

Source: [UNI-5, CKP-25], [format.md 15.2].
"""

from __future__ import annotations

import base64
import uuid
from functools import lru_cache
from typing import TYPE_CHECKING

from segstore._core import FileBarrier
from segstore.arguments import instance
from segstore.errors import IllegalArgumentError, InconsistentTopicIdError
from segstore.log.files.checkpoints import PARTITION_METADATA, read_topic_id

if TYPE_CHECKING:
    from segstore._core import Directory


class PartitionMetadataFile:
    """The file of one partition, and the topic id that will be written to it.

    A recorded id is on stable storage after `maybe_flush`: before the first byte of the log. One
    thread at a time; the owner of the log's append lock.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._dirty_topic_id: uuid.UUID | None = None

    @property
    def path(self) -> str:
        """Directory and name."""
        return f"{self._directory.path}/{PARTITION_METADATA}"

    @property
    def is_dirty(self) -> bool:
        """Whether an id was recorded that `maybe_flush` has yet to write."""
        return self._dirty_topic_id is not None

    @property
    def exists(self) -> bool:
        """Whether the file is there; a recorded id alone makes none."""
        return self._directory.exists(PARTITION_METADATA)

    def record(self, topic_id: uuid.UUID) -> None:
        """Remember *topic_id* for the next `maybe_flush`.

        Raises
        ------
        InconsistentTopicIdError
            Another id was recorded and is not written yet.
        """
        recorded = self._dirty_topic_id
        if recorded is not None and recorded != topic_id:
            raise inconsistent_topic_id(self.path, recorded, topic_id)
        self._dirty_topic_id = topic_id

    def maybe_flush(self) -> bool:
        """Write the recorded id, if there is one, to stable storage; once. Says whether it did.

        Raises
        ------
        InconsistentTopicIdError
            The file is there and holds another id.
        CorruptCheckpointError
            The file is there and cannot be read.
        """
        topic_id = self._dirty_topic_id
        if topic_id is None:
            return False
        written = self.read()
        if written is not None and written != topic_id:
            raise inconsistent_topic_id(self.path, written, topic_id)
        if written is None:
            self.write(topic_id)
        self._dirty_topic_id = None
        return written is None

    def write(self, topic_id: uuid.UUID) -> None:
        """Put the file of *topic_id* in the place of what is there, on stable storage."""
        self._directory.write_file_atomically(
            PARTITION_METADATA,
            format_partition_metadata(topic_id),
            FileBarrier.PARTITION_METADATA,
        )

    def read(self) -> uuid.UUID | None:
        """Return the id in the file, None without one.

        Raises
        ------
        CorruptCheckpointError
            The file cannot be read as what it should be.
        """
        return read_topic_id(self._directory)

    def delete(self) -> None:
        """Remove the file, if it is there; the directory is not synced."""
        self._directory.unlink(PARTITION_METADATA, missing_ok=True)


def format_partition_metadata(topic_id: uuid.UUID) -> bytes:
    """Return the file's text: two lines, no newline at the end."""
    return f"version: 0\ntopic_id: {topic_id_text(topic_id)}".encode()


@lru_cache(maxsize=1024)  # names of remote files have two
def topic_id_text(topic_id: uuid.UUID) -> str:
    """Return the 22 characters that Kafka writes for a uuid."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode("ascii")


def check_topic_id(topic_id: object) -> None:
    """Refuse what cannot be the id of a topic: zero stands for none [UNI-5]."""
    instance("topic_id", topic_id, uuid.UUID, "a uuid.UUID")
    if topic_id == uuid.UUID(int=0):
        raise IllegalArgumentError(
            "a topic id of zero stands for none", found=str(topic_id), expected="another uuid"
        )


def check_same_topic(path: str, known: uuid.UUID | None, found: uuid.UUID | None) -> None:
    """Raise when the directory *path* is of another topic than the one that was read there.

    A directory without an id says nothing when none was *known*; where one was, no deletion but
    that of the whole topic takes the file away.

    Raises
    ------
    InconsistentTopicIdError
        The topic was deleted, and one of its name was made.
    """
    if known is None or found == known:
        return
    raise InconsistentTopicIdError(
        f"the topic was deleted and made again: {made_again(known, found)}",
        file=path,
        found=topic_id_words(found),
        expected=topic_id_words(known),
    )


def made_again(known: uuid.UUID, found: uuid.UUID | None) -> str:
    """Name both ids of a topic that was deleted and made again."""
    return f"{topic_id_words(known)} was read before, the directory has {topic_id_words(found)} now"


def topic_id_words(topic_id: uuid.UUID | None) -> str:
    """Return what an error calls an id."""
    return "no topic id" if topic_id is None else f"topic id {topic_id_text(topic_id)}"


def inconsistent_topic_id(
    path: str, found: uuid.UUID, expected: uuid.UUID
) -> InconsistentTopicIdError:
    """Return the error for a directory of another topic than was asked for."""
    return InconsistentTopicIdError(
        f"the directory is of topic {topic_id_text(found)}, not of {topic_id_text(expected)}",
        file=path,
        found=topic_id_text(found),
        expected=topic_id_text(expected),
    )
