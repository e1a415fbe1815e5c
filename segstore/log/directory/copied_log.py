"""Whether a log was closed cleanly where it lies, or is a copy of one that was.

A copy has all files, the clean marker too, and none of them need be on the disk: what is
acknowledged in it would be lost with them. Source: [DUR-1, DUR-3, DUR-24].
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from segstore._core import Barrier, DataFile
from segstore.config import MAX_LONG
from segstore.errors import (
    FsyncFailedError,
    LimitExceededError,
    LogNotFoundError,
    LogPermissionError,
    NotALogError,
)
from segstore.log.directory.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LOCK,
    LOG_STATE,
    MAX_MARKER_BYTES,
    SYNC_FAILED_MARK,
)
from segstore.log.directory.clean_shutdown_marker import CleanShutdownMarker

if TYPE_CHECKING:
    from segstore._core import Directory

_DERIVED = (".index", ".timeindex")


def inode_of(directory: Directory) -> int:
    """Return what tells a directory from its copies, as a number of a clean marker."""
    return directory.identity[1] & MAX_LONG


def sync_copy(directory: Directory) -> bool:
    """Sync all files of a log that was copied with its clean marker.

    That goes behind it: an open that is killed meanwhile leaves it to the next one. Of a copy that
    has the inode of a log which was deleted before nobody knows that it is one.

    Returns
    -------
    bool
        The log was closed cleanly in this very place: there was nothing to sync.
    """
    if not directory.exists(CLEAN_SHUTDOWN_MARKER):
        return False
    if directory.exists(LOG_STATE) and _marked_inode(directory) == inode_of(directory):
        return True
    for name in directory.names(ordered=False):
        if name == LOCK or name.endswith(_DERIVED):
            continue
        # what this process may not open it does not write from here on; a stranger's file may go
        with contextlib.suppress(LogPermissionError, LogNotFoundError):
            if directory.info(name).is_regular:
                _sync(directory, name)
    directory.sync(Barrier.RECOVERY_NAMES)
    return False


def _marked_inode(directory: Directory) -> int | None:
    try:
        data = directory.read_file(CLEAN_SHUTDOWN_MARKER, MAX_MARKER_BYTES)
    except (NotALogError, LimitExceededError):
        return None
    marker = CleanShutdownMarker.parse(data)
    return None if marker is None else marker.directory_inode


def _sync(directory: Directory, name: str) -> None:
    with DataFile(directory, name) as file:
        try:
            file.sync(Barrier.RECOVERY_RECORDS)
        except FsyncFailedError:
            directory.make_file(SYNC_FAILED_MARK)  # the next open writes all of it again [DUR-36]
            raise
