"""Removing checkpoint lines and state of a partition whose directory is gone.

It goes before a directory of that name is made: a new log would begin at the log start of the old
one [DUR-120, DUR-121].
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from segstore._core import Directory
from segstore.errors import LogNotFoundError
from segstore.log.files.checkpoints import LOCK
from segstore.log.files.clean_shutdown_file_handler import CleanShutdownFileHandler
from segstore.log.files.log_directory_checkpoints import LogDirectoryCheckpoints, merge_lock
from segstore.log.files.partition_lock import lock_out_owners
from segstore.log.files.partition_path import open_parent_directory

if TYPE_CHECKING:
    from segstore._core import Environment
    from segstore.types import TopicPartition


def remove_stale_checkpoints(
    path: str, topic_partition: TopicPartition, environment: Environment | None
) -> None:
    """Remove the lines of a partition, to be made at *path*, from the log directory's checkpoints.

    Raises
    ------
    LogLockedError
        There are such lines, and a broker or a manager has the log directory open for writing.
    """
    try:
        parent = open_parent_directory(path, environment)
    except LogNotFoundError:
        return
    if parent is None:
        return
    with closing(parent):
        checkpoints = LogDirectoryCheckpoints(parent)
        if checkpoints.has_lines_of(topic_partition):
            with lock_out_owners(parent), merge_lock(parent):
                checkpoints.forget([topic_partition])


def remove_stale_state(
    path: str, topic_partition: TopicPartition, environment: Environment | None = None
) -> None:
    """Remove what a log kept of itself in its state directory *path*, but for the lock.

    Raises
    ------
    LogLockedError
        There is something, and an open log has its state there.
    """
    try:
        home = Directory(path, environment)
    except LogNotFoundError:
        return
    with closing(home):
        checkpoints = LogDirectoryCheckpoints(home)
        if checkpoints.has_lines_of(topic_partition):
            lock = home.lock(LOCK, exclusive=True)
            try:
                CleanShutdownFileHandler(home).delete()
                checkpoints.forget([topic_partition])
            finally:
                lock.release()
