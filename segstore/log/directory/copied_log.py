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
from segstore.log.directory.partition_directory import LOG_FILE_SUFFIX, file_name

if TYPE_CHECKING:
    from segstore._core import Directory

_DERIVED = (".index", ".timeindex")


def place_of(directory: Directory, active_base_offset: int) -> tuple[int, int]:
    """Return what tells a log from its copies, as two numbers of a clean marker.

    The inode of its directory, and when its active ``.log`` was changed last: who empties the
    directory and puts a copy there keeps the inode, and a new directory may get it again.
    """
    active = directory.info(file_name(active_base_offset, LOG_FILE_SUFFIX))
    return directory.identity[1] & MAX_LONG, active.changed_ns & MAX_LONG


def sync_copy(directory: Directory) -> bool:
    """Sync all files of a log that was copied with its clean marker.

    That goes behind it: an open that is killed meanwhile leaves it to the next one.

    Returns
    -------
    bool
        The log was closed cleanly in this very place: there was nothing to sync.
    """
    if not directory.exists(CLEAN_SHUTDOWN_MARKER):
        return False
    if directory.exists(LOG_STATE) and _is_where_it_was_closed(directory):
        return True
    try:
        for name in directory.names(ordered=False):
            if name == LOCK or name.endswith(_DERIVED):
                continue
            # what this process may not open it does not write; a stranger's file may go
            with contextlib.suppress(LogPermissionError, LogNotFoundError):
                if directory.info(name).is_regular:
                    _sync(directory, name)
        directory.sync(Barrier.RECOVERY_NAMES)
    except FsyncFailedError:
        directory.make_file(SYNC_FAILED_MARK)  # the next open writes all of it again [DUR-36]
        raise
    return False


def _is_where_it_was_closed(directory: Directory) -> bool:
    try:
        data = directory.read_file(CLEAN_SHUTDOWN_MARKER, MAX_MARKER_BYTES)
        marker = CleanShutdownMarker.parse(data)
        return marker is not None and place_of(directory, marker.active_base_offset) == (
            marker.directory_inode,
            marker.active_changed_ns,
        )
    except (NotALogError, LimitExceededError, LogNotFoundError):
        return False


def _sync(directory: Directory, name: str) -> None:
    with DataFile(directory, name) as file:
        file.sync(Barrier.RECOVERY_RECORDS)
