"""A log that is there without a ``.log``: its writer takes all away, and then makes the new one.

Source: [DUR-18, DUR-71].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.errors import LogLockedError
from segstore.log.directory.checkpoints import BEGINS_ANEW_MARK, LogState
from segstore.log.directory.partition_lock import check_no_writer

if TYPE_CHECKING:
    from segstore._core import Directory


def is_being_emptied(directory: Directory) -> bool:
    """Whether somebody has the log open for writing, and what empties it has noted that.

    After a crash the note stands, and nobody makes the new segment before the next open.
    """
    if not directory.exists(BEGINS_ANEW_MARK):
        state = LogState.read(directory)
        if state is None or not state.is_being_emptied:
            return False
    try:
        check_no_writer(directory.path)
    except LogLockedError:
        return True
    return False
