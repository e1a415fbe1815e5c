"""Whether a log was closed cleanly where it lies, or is a copy of one that was.

A copy has all files, the clean marker too, and none of them need be on the disk: what is
acknowledged in it would be lost with them. Source: [DUR-1, DUR-3, DUR-24].
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from segstore._core import Barrier, DataFile, FileBarrier
from segstore.errors import (
    FsyncFailedError,
    LimitExceededError,
    LogNotFoundError,
    LogPermissionError,
    NotALogError,
    SegstoreError,
)
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LEADER_EPOCH_CHECKPOINT,
    LOCK,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_STATE,
    MAX_MARKER_BYTES,
    MISSING_RECORDS,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    SYNC_FAILED_MARK,
)
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from segstore.log.files.parsed_file import parse_once
from segstore.log.files.partition_directory import LOG_FILE_SUFFIX, file_name
from segstore.number_limits import MAX_LONG

if TYPE_CHECKING:
    from segstore._core import Directory

_DERIVED = (".index", ".timeindex")
_SMALL_FILES: Final = {
    LOG_START_OFFSET_CHECKPOINT: FileBarrier.LOG_START,
    RECOVERY_POINT_CHECKPOINT: FileBarrier.RECOVERY_POINT,
    LEADER_EPOCH_CHECKPOINT: FileBarrier.LEADER_EPOCHS,
    LOG_STATE: FileBarrier.LOG_STATE,
    MISSING_RECORDS: FileBarrier.LOG_STATE,
    PARTITION_METADATA: FileBarrier.PARTITION_METADATA,
}
_OF_SMALL_FILES: Final = b"small files\n"


def copy_fingerprint(directory: Directory, active_base_offset: int) -> tuple[int, int]:
    """Return what tells a log from its copies, as two numbers of a clean marker.

    The inode of its directory, and when its active ``.log`` was changed last: who empties the
    directory and puts a copy there keeps the inode, and a new directory may get it again.
    """
    active = directory.info(file_name(active_base_offset, LOG_FILE_SUFFIX))
    return directory.identity[1] & MAX_LONG, active.changed_ns & MAX_LONG


def sync_copy(directory: Directory) -> bool:
    """Sync all files of a log that was copied with its clean marker.

    That goes behind it: an open that is killed meanwhile leaves it to the next one. Behind a sync
    that failed nothing is believed to be on the disk, whoever was told of it [DUR-35, DUR-36]. What
    recovery does not write again by itself goes first: small files and names.

    Returns
    -------
    bool
        The log was closed cleanly in this very place: there was nothing to sync.
    """
    is_marked = directory.exists(SYNC_FAILED_MARK)
    if not is_marked:
        if not directory.exists(CLEAN_SHUTDOWN_MARKER):
            return False
        if directory.exists(LOG_STATE) and is_where_it_was_closed(directory):
            return True
    try:
        if is_marked and directory.info(SYNC_FAILED_MARK).size > 0:
            _write_again(directory)
        _sync_all(directory, [name for name in _SMALL_FILES if directory.exists(name)])
        directory.sync(Barrier.RECOVERY_NAMES)
    except FsyncFailedError:
        _mark_small_files(directory)
        raise
    try:
        _sync_all(
            directory, [name for name in directory.names(ordered=False) if name not in _SMALL_FILES]
        )
    except FsyncFailedError:
        if not is_marked:
            _mark_failed_sync(directory)
        raise
    return False


def _sync_all(directory: Directory, names: list[str]) -> None:
    for name in names:
        if name == LOCK or name.endswith(_DERIVED):
            continue
        # what this process may not open it does not write; a stranger's file may go
        with contextlib.suppress(LogPermissionError, LogNotFoundError):
            if directory.info(name).is_regular:
                _sync(directory, name)


def _write_again(directory: Directory) -> None:
    """Write what stands in small files once more: recovery does so for the records only."""
    for name, barrier in _SMALL_FILES.items():
        with contextlib.suppress(NotALogError, LimitExceededError):  # told by who reads it
            if directory.exists(name):
                directory.write_file_atomically(name, directory.read_file(name), barrier)


def _mark_small_files(directory: Directory) -> None:
    """Let the next open write the small files again too: the mark is not empty then.

    An empty one, as the core leaves, is of a sync of records: the small files had syncs of their
    own, and a log on a full disk can be opened, and records deleted, without room for a file
    [DUR-30, DUR-57].
    """
    try:
        with DataFile(directory, SYNC_FAILED_MARK, create=True) as mark:
            mark.write(0, _OF_SMALL_FILES)
    except SegstoreError:
        _rename_to_mark(directory)


def _mark_failed_sync(directory: Directory) -> None:
    """Let the next open write the records again [DUR-36].

    The recovery point of a copy says that there is nothing to write again: without the mark a later
    sync would be believed.
    """
    try:
        directory.make_file(SYNC_FAILED_MARK)
    except SegstoreError:
        _rename_to_mark(directory)


def _rename_to_mark(directory: Directory) -> None:
    """A sync that fails for want of room leaves none for a file; a name can be changed."""
    with contextlib.suppress(LogNotFoundError):  # the mark was there before, and stays
        directory.rename(CLEAN_SHUTDOWN_MARKER, SYNC_FAILED_MARK)


def is_where_it_was_closed(directory: Directory) -> bool:
    """Whether the clean marker of a log was written in this very place: the log is no copy."""
    try:
        data = directory.read_file(CLEAN_SHUTDOWN_MARKER, MAX_MARKER_BYTES)
        marker = parse_once(CleanShutdownMarker.parse, data)
        return marker is not None and copy_fingerprint(directory, marker.active_base_offset) == (
            marker.directory_inode,
            marker.active_changed_ns,
        )
    except (NotALogError, LimitExceededError, LogNotFoundError):
        return False


def _sync(directory: Directory, name: str) -> None:
    with DataFile(directory, name) as file:
        file.sync(Barrier.RECOVERY_RECORDS)
