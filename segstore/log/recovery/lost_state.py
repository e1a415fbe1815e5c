"""What can be told of a log whose ``.segstore`` was lost [DUR-7, DUR-64].

It says from where on no record may be missing. Without it a gap counts as what a broker has deleted
or compacted away, and it is made anew for what is appended from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.log.files.checkpoints import (
    LOG_STATE,
    RECOVERY_POINT_CHECKPOINT,
    LogState,
)
from segstore.log.recovery.log_start_recovery import known_log_start

if TYPE_CHECKING:
    from segstore._core import Directory
    from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
    from segstore.log.files.stored_state import StoredState

NOTHING_KNOWN: Final = LogState(0, 0, None)


def lost_state(directory: Directory, found: StoredState) -> str | None:
    """Say how ``.segstore`` was lost, None where it is there, or no writer of this library was.

    A writer that is alone leaves its marker or its recovery point here; neither comes before it.
    """
    if directory.exists(LOG_STATE):
        return None if LogState.read(directory) is not None else "cannot be read"
    if found.own_marker is None and not directory.exists(RECOVERY_POINT_CHECKPOINT):
        return None
    return None if directory.exists(LOG_STATE) else "is missing"  # made while we looked


def begin_without_state(found: StoredState, epochs: LeaderEpochFileCache | None) -> int:
    """Return where the log began, by all that is left to tell it.

    The first leader epoch moves with the log start [EPC-6], unless it was made of the batches.
    """
    begin = known_log_start(NOTHING_KNOWN, found)
    if epochs is not None and epochs.rebuilt is None and epochs.entries:
        begin = max(begin, epochs.entries[0].start_offset)
    return begin
