"""Making the log directory [DUR-11], and the ids of new topics."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from segstore.log.files.parent_directory_sync import sync_parent_directories
from segstore.log.files.partition_lock import hint_at_read_only
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.files.partition_path import make_directory

if TYPE_CHECKING:
    from segstore._core import Directory


def make_log_directory(path: str) -> Directory:
    """Open the directory *path*; make it, and those above it, when it is missing.

    Whoever made them, and whatever is in it: all names on the way are on stable storage [DUR-11].
    """
    with hint_at_read_only():
        directory = make_directory(path)
        try:
            sync_parent_directories(path)
        except BaseException:
            directory.close()
            raise
    return directory


def new_topic_id() -> uuid.UUID:
    """Return a random uuid whose text does not begin with a dash, as Kafka's ``randomUuid``."""
    while True:
        topic_id = uuid.uuid4()
        if not topic_id_text(topic_id).startswith("-"):
            return topic_id
