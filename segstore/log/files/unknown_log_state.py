"""The ``.segstore`` that states nothing: any record may be missing, and none was lost.

Without it the clean marker and the recovery point of a writer that is alone would say that it was
lost [`segstore.log.recovery.lost_state`].
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from segstore._core import Barrier, FileBarrier
from segstore.errors import DiskFullError
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LOG_STATE,
    RECOVERY_POINT_CHECKPOINT,
    LogState,
)
from segstore.number_limits import MAX_INT, MAX_LONG
from segstore.types import EpochEntry

if TYPE_CHECKING:
    from segstore._core import Directory


def write_unknown_state(directory: Directory) -> None:
    """Say so. It fits no log: no epoch comes as late as the one that it speaks of."""
    state = LogState(MAX_LONG, MAX_LONG, EpochEntry(MAX_INT, MAX_LONG))
    directory.write_file_atomically(LOG_STATE, state.format(), FileBarrier.LOG_STATE)


def remove_log_state(directory: Directory, *, keeps_checkpoints: bool) -> None:
    """Before a handle of another profile writes: what a safe one knew is not true behind that.

    It would make an unclean stop look clean, or a shorter log a damaged one. With
    *keeps_checkpoints* clean marker and recovery point are that handle's own; else they go before
    the state does.
    """
    if not keeps_checkpoints:
        _remove(directory, CLEAN_SHUTDOWN_MARKER, RECOVERY_POINT_CHECKPOINT)
    elif directory.exists(LOG_STATE):
        with suppress(DiskFullError):
            write_unknown_state(directory)
            return
    _remove(directory, LOG_STATE)


def _remove(directory: Directory, *names: str) -> None:
    left = [name for name in names if directory.exists(name)]
    for name in left:
        directory.unlink(name)
    if left:
        directory.sync(Barrier.CLEAN_MARKER_GONE)
