"""A log of which nothing is to be seen: its writer takes all away, and then makes the new segment.

Or its log start says so, and may be wrong.

Source: [DUR-7, DUR-18, DUR-71].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.errors import LogLockedError
from segstore.log.files.checkpoints import RESTART_MARKER, LogState
from segstore.log.files.partition_lock import check_no_writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore._core import Directory
    from segstore.log.files.stored_state import StoredState
    from segstore.log.local.segment import Segment


def is_being_emptied(directory: Directory) -> bool:
    """Whether somebody has the log open for writing, and what empties it has noted that.

    After a crash the note stands, and nobody makes the new segment before the next open.
    """
    if not directory.exists(RESTART_MARKER):
        state = LogState.read(directory)
        if state is None or not state.is_being_emptied:
            return False
    try:
        check_no_writer(directory.path)
    except LogLockedError:
        return True
    return False


def below_log_start(
    segments: Sequence[Segment], end: int, found: StoredState, state: LogState | None
) -> list[str]:
    """Return what a reader is told of records that all lie below the log start, nothing without.

    Unless ``.segstore`` says that they are to go. A crash may have left the log so, within a
    deletion; a log start that is not what was written looks the same, and hides them all.
    """
    start = found.log_start_offset
    if end >= start or not any(segment.size_bytes for segment in segments):
        return []
    if state is not None and state.is_being_emptied:
        return []
    told = f"the log start {start} lies above the end {end} of what is there: no record is shown"
    return [f"{told}; `segstore verify` says what the next open for writing makes of it"]
