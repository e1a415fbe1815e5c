"""``.segstore`` of a log that is written; it is tied to the leader-epoch checkpoint [DUR-64].

The appender changes it, and behind a roll the background thread does: one at a time [DUR-21].
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from segstore._core import AppendLock, FileBarrier
from segstore.errors import DiskFullError, SegstoreError
from segstore.log.files.checkpoints import LOG_STATE, LogState
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache

if TYPE_CHECKING:
    from segstore._core import Directory
    from segstore.types import EpochEntry

_LOOKS: Final = 4


class LogStateFile:
    """What ``.segstore`` says, in memory and on disk.

    Parameters
    ----------
    directory : Directory
        The partition's.
    state : LogState
        Written at once, when the file says something else; other epochs from before do not count.

    Attributes
    ----------
    state : LogState
        As it was last written.
    is_in_doubt : bool
        A write was interrupted: the file may be ahead of `state`, and say what never came.
    lock : AppendLock
        Held while it is written.
    """

    def __init__(self, directory: Directory, state: LogState) -> None:
        self.state = state
        self.is_in_doubt = False
        self._directory = directory
        self.lock = AppendLock()
        there = LogState.read(directory)
        if there is None or replace(there, epochs_before=state.epochs_before) != state:
            self._write(state)

    def change(self, **changes: Any) -> None:
        """Write these fields of `LogState` when they say something else.

        Who gives the latest epoch has written the leader-epoch checkpoint before.
        """
        with self.lock:
            changed = replace(self.state, **changes)
            if changed != self.state or self.is_in_doubt:
                is_tied = "latest_epoch" in changes
                self._write(replace(changed, epochs_before=()) if is_tied else changed)

    def announce_epoch(self, old: EpochEntry | None, new: EpochEntry | None) -> None:
        """Tie the file to the leader-epoch checkpoint as it is and as it will be, then write that.

        A crash between the two must not make the log look as if a broker had written it [DUR-64]:
        records that are missing in the midst would go unnoticed.
        """
        with self.lock:
            self._write(replace(self.state, latest_epoch=new, epochs_before=(old,)))

    def reconcile(self) -> None:
        """Write again what is known where a write was interrupted; nothing has come of that."""
        if self.is_in_doubt:
            with self.lock:
                self._write(self.state)

    def _write(self, state: LogState) -> None:
        try:
            self._directory.write_file_atomically(LOG_STATE, state.format(), FileBarrier.LOG_STATE)
            self.state, self.is_in_doubt = state, False
        except DiskFullError:  # the old content is there
            raise
        except BaseException:  # Ctrl-C during the last sync is raised behind it
            self.is_in_doubt = True
            raise


def state_after_open(
    known: LogState | None,
    log_end_offset: int,
    epochs: LeaderEpochFileCache,
    *,
    generation: int,
) -> LogState:
    """Return what may be counted on from here: what is *known*, or what is written from now on."""
    written, latest = epochs.written_entry, epochs.latest_entry
    contiguous_from = log_end_offset if known is None else known.contiguous_from
    # without an epoch the next one may be older than those of records below the log start
    ordered_from = None if known is None or latest is None else known.epochs_ordered_from
    return LogState(
        min(log_end_offset, contiguous_from),
        log_end_offset if ordered_from is None else min(log_end_offset, ordered_from),
        latest,
        () if written == latest else (written,),
        0 if known is None else min(log_end_offset, known.local_log_start_offset),
        cleaned=None if known is None else known.cleaned,
        generation=generation,
    )


def announce_cut(directory: Directory) -> int:
    """Let readers know, before records go, that a truncation is under way [DUR-77].

    Returns the generation of the log that comes of it. Where no file says which one there was, it
    is the time: none of those that a reader may know.
    """
    state = LogState.read(directory)
    if state is None:
        return 2 * directory.wall_clock_ms()
    if state.generation % 2 == 0:
        data = replace(state, generation=state.generation + 1).format()
        directory.write_file_atomically(LOG_STATE, data, FileBarrier.LOG_STATE)
    return state.generation // 2 * 2 + 2


def uncut_generation(directory: Directory) -> int | None:
    """Return the generation of a log as its reader finds it; None where nothing can be told by it.

    The same one before a look and after another one: no truncation came between. So what has other
    files is compacted, or split. It does not count during a truncation, nor where a broker has
    written since.
    """
    for _ in range(_LOOKS):  # the writer may change one between the looks at both
        try:
            epochs = LeaderEpochFileCache.read(directory, writable=False)
        except SegstoreError:
            return None
        state = LogState.read(directory, is_for_writing=False)
        if state is None or state.generation % 2:
            return None
        if state.fits(None if epochs is None else epochs.latest_entry):
            return state.generation
    return None


def allow_gaps_below(directory: Directory, offset: int) -> None:
    """Say, before a compaction's segments get their names, that offsets below may be missing."""
    state = LogState.read(directory)
    if state is not None and state.contiguous_from < offset:
        data = replace(state, contiguous_from=offset).format()
        directory.write_file_atomically(LOG_STATE, data, FileBarrier.LOG_STATE)
