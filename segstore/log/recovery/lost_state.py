"""What can be told of a log whose ``.segstore`` was lost [DUR-7, DUR-64].

It says from where on no record may be missing. Without it a gap counts as what a broker has deleted
or compacted away, and it is made anew for what is appended from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.log.files.checkpoints import LogState
from segstore.log.recovery.log_beginning import known_log_start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore.log.files.stored_state import StoredState
    from segstore.log.recovery.survey import SmallFiles
    from segstore.types import EpochEntry

NOTHING_KNOWN: Final = LogState(0, 0, None)


def lost_state(small: SmallFiles, found: StoredState) -> str | None:
    """Say how ``.segstore`` was lost, None where it is there, or no writer of this library was.

    A writer that is alone leaves its marker or its recovery point here; neither comes before it.
    """
    if small.unreadable is not None:
        return f"cannot be read: {small.unreadable}"
    if small.has_state:
        return None if small.state is not None else "cannot be read"
    if found.own_marker is None and not small.has_recovery_point:
        return None
    return "is missing"


def begin_without_state(found: StoredState, told_epochs: Sequence[EpochEntry]) -> int:
    """Return where the log began, by all that is left to tell it.

    The first leader epoch of a checkpoint moves with the log start [EPC-6].
    """
    begin = known_log_start(NOTHING_KNOWN, found)
    return max(begin, told_epochs[0].start_offset) if told_epochs else begin
