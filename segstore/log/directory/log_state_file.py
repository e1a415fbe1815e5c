"""Writing ``.segstore``, and tying it to the leader-epoch checkpoint [DUR-64]."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from segstore.log.directory.checkpoints import LOG_STATE, LogState

if TYPE_CHECKING:
    from segstore._core import Directory
    from segstore.types import EpochEntry


def write_state(directory: Directory, state: LogState) -> None:
    """Write ``.segstore`` when it says something else; other epochs from before do not count."""
    there = LogState.read(directory)
    if there is None or replace(there, epochs_before=state.epochs_before) != state:
        directory.write_file_atomically(LOG_STATE, state.format())


def announce_epoch(directory: Directory, old: EpochEntry | None, new: EpochEntry | None) -> None:
    """Tie ``.segstore`` to the leader-epoch checkpoint as it is and as it will be, then write that.

    A crash between the two must not make the log look as if a broker had written it [DUR-64]:
    records that are missing in the midst would go unnoticed.
    """
    state = LogState.read(directory)
    if state is not None:
        state = replace(state, latest_epoch=new, epochs_before=(old,))
        directory.write_file_atomically(LOG_STATE, state.format())
