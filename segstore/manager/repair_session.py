"""Partitions of one log directory that are repaired one after another [DUR-24, DUR-65].

Each is judged as it was found, whatever was done to the others: the log directory is held all the
while. Its clean marker stays where nothing changes, and comes back at the end where all logs are
clean then.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from segstore.errors import LogLockedError, LogPermissionError
from segstore.log.files.clean_shutdown_file_handler import (
    NO_BROKER_EPOCH,
    CleanShutdownFileHandler,
)
from segstore.log.files.parent_directory_sync import sync_parent_directories
from segstore.log.files.partition_directory import directory_name, parse_directory_name
from segstore.log.files.partition_lock import is_log_directory
from segstore.log.files.partition_path import absolute_path, open_parent_directory
from segstore.log.log_environment import STANDALONE
from segstore.log.log_opener import open_partition_to_write
from segstore.log.open_options import OpenKeywords, open_options
from segstore.manager.owned_log_directory import OwnedLogDirectory
from segstore.manager.partition_directories import has_unopened_logs, list_partition_directories

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Unpack

    from segstore._core import Directory
    from segstore.log.unified_log import UnifiedLog


class RepairSession:
    """Opens partitions of one log directory for writing.

    Parameters
    ----------
    owned : OwnedLogDirectory or None
        None where there is none to hold: each log is opened alone.
    """

    def __init__(self, owned: OwnedLogDirectory | None) -> None:
        self._owned = owned

    @property
    def holds_log_directory(self) -> bool:
        """Whether the ``.lock`` of the log directory is held: no other writer comes in."""
        return self._owned is not None

    def open(self, path: str, **settings: Unpack[OpenKeywords]) -> UnifiedLog:
        """Open a partition as `segstore.open` does, and as the log directory was found."""
        options, owned = open_options(**settings), self._owned
        if owned is None:
            return open_partition_to_write(path, options, STANDALONE)
        topic_partition = parse_directory_name(os.path.basename(absolute_path(path)))  # noqa: PTH119
        log = open_partition_to_write(path, options, owned.environment_of(topic_partition))
        owned.note_opened(topic_partition)
        return log


@contextmanager
def repair_session(path: str) -> Iterator[RepairSession]:
    """Hold the log directory of the partition at *path* while it, and its siblings, are repaired.

    Where the directory above is no log directory, or somebody else writes to one of its logs, each
    log is opened alone: then the open says which log is locked.
    """
    directory = open_parent_directory(absolute_path(path))
    try:
        owned = None if directory is None else _owned(directory)
        try:
            yield RepairSession(owned)
            if owned is not None:
                owned.write_checkpoints()
                owned.mark_clean(NO_BROKER_EPOCH)
        finally:
            if owned is not None:
                owned.release()
    finally:
        if directory is not None:
            directory.close()


def repairs_log_directory(paths: Iterable[str]) -> bool:
    """Whether a repair of *paths*, all in one directory, writes lost files of that one again.

    That takes the lines of all its logs: see `OwnedLogDirectory.write_checkpoints`.
    """
    full_paths = [absolute_path(path) for path in paths]
    directory = open_parent_directory(full_paths[0])
    if directory is None:
        return False
    with closing(directory):
        names = {directory_name(one) for one in list_partition_directories(directory)}
        return (
            _is_held(directory)
            and not has_unopened_logs(directory)
            and names.issubset(map(os.path.basename, full_paths))
        )


def _is_held(directory: Directory) -> bool:
    """Whether a repair takes the lock of *directory*."""
    return is_log_directory(directory) or CleanShutdownFileHandler(directory).exists


def _owned(directory: Directory) -> OwnedLogDirectory | None:
    if not _is_held(directory):
        return None
    try:
        owned = OwnedLogDirectory(directory)
    except (LogLockedError, LogPermissionError):
        return None
    try:
        sync_parent_directories(directory.path)
    except BaseException:
        owned.release()
        raise
    return owned
