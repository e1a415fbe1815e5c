"""A directory without a ``.log``: a new log, or one that has lost all of them.

Source: [DUR-51, DUR-54].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.errors import CorruptCheckpointError, CorruptLogError, LimitExceededError
from segstore.log.files.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_STATE,
    MAX_CHECKPOINT_BYTES,
    RECOVERY_POINT_CHECKPOINT,
    RESTART_MARKER,
    LogState,
    parse_leader_epoch_checkpoint,
)
from segstore.log.files.partition_directory import (
    DELETED_FILE_SUFFIX,
    INDEX_ENTRY_BYTES,
    INDEX_FILE_SUFFIXES,
    LOG_FILE_SUFFIX,
    SegmentFile,
    file_name,
)
from segstore.log.local.transaction_index import TRANSACTION_INDEX_ENTRY_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore._core import Directory, SegmentListing
    from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
    from segstore.log.files.stored_state import StoredState

_WAYS_OUT: Final = (
    "Restore the directory from a copy; where the records are not missed, remove it: then a new"
    " log begins"
)


def require_log_file(
    directory: Directory, listing: SegmentListing, files: Sequence[SegmentFile]
) -> None:
    """Refuse a directory of this library without a ``.log`` in which something shows of records.

    ``.segstore`` is first written when the first ``.log`` is durable, and from then on there is
    always one; but for a full truncation, which notes there what it is about to do [DUR-18], and
    an open that was setting all aside.
    Nothing was removed yet: a ``.log.deleted`` may be what is missing.

    Raises
    ------
    CorruptLogError
        All ``.log`` files are missing.
    """
    if len(listing.base_offsets(LOG_FILE_SUFFIX)) or not directory.exists(LOG_STATE):
        return
    if directory.exists(RESTART_MARKER):
        return
    state = LogState.read(directory)
    if state is not None and state.is_being_emptied:
        return
    deleted = [
        file.name
        for file in files
        if file.kind == LOG_FILE_SUFFIX
        and file.suffix == DELETED_FILE_SUFFIX
        and directory.info(file.name).size > 0
    ]
    if deleted:
        raise _missing(
            directory,
            f"{deleted[0]} holds records",
            f"Renamed to {deleted[0].removesuffix(DELETED_FILE_SUFFIX)} it is opened again;"
            " else restore the directory from a copy",
        )
    shown_by = _shown_by(directory, listing, state)
    if shown_by is not None:
        raise _missing(directory, f"{shown_by} shows that there were records", _WAYS_OUT)


def require_no_synced_records(
    directory: Directory, found: StoredState, epochs: LeaderEpochFileCache
) -> None:
    """Refuse a directory without a ``.log`` whose records had been synced.

    A line in the log directory's checkpoint alone may be that of a partition that was removed.

    Raises
    ------
    CorruptLogError
        All ``.log`` files are missing.
    """
    if found.recovery_point is None or found.recovery_point <= found.log_start_offset:
        return
    if directory.exists(RESTART_MARKER):
        return
    own = (LOG_STATE, RECOVERY_POINT_CHECKPOINT)
    if epochs.entries or any(directory.exists(name) for name in own):
        raise _missing(
            directory, f"records up to {found.recovery_point - 1} had been synced", _WAYS_OUT
        )


def _shown_by(directory: Directory, listing: SegmentListing, state: LogState | None) -> str | None:
    """Return the name of a file that shows that the log had a record, None without."""
    if state is not None and state.latest_epoch is not None:
        return LOG_STATE
    if _has_epochs(directory):
        return LEADER_EPOCH_CHECKPOINT
    for kind in INDEX_FILE_SUFFIXES:
        for base_offset in listing.base_offsets(kind, lacking=LOG_FILE_SUFFIX):
            name = file_name(base_offset, kind)
            size = INDEX_ENTRY_BYTES.get(kind, TRANSACTION_INDEX_ENTRY_BYTES)
            if directory.read_range(name, 0, min(size, directory.info(name).size)).strip(b"\0"):
                return name
    return None


def _has_epochs(directory: Directory) -> bool:
    """Whether the leader-epoch checkpoint has entries; one that cannot be parsed shows nothing.

    Of one that is no file nobody knows, and there can be no log with it.
    """
    name = LEADER_EPOCH_CHECKPOINT
    if not directory.exists(name):
        return False
    try:
        return bool(parse_leader_epoch_checkpoint(directory.read_file(name, MAX_CHECKPOINT_BYTES)))
    except (CorruptCheckpointError, LimitExceededError):
        return False


def _missing(directory: Directory, shown: str, recovery_advice: str) -> CorruptLogError:
    return CorruptLogError(
        f"there is no .log file, but {shown}: they are missing. Nothing was removed."
        f" {recovery_advice}",
        file=directory.path,
        found="no .log file",
        expected="the segments of the log",
    )
