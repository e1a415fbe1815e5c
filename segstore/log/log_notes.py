"""What the small files beside the records say, while they change: epochs, gaps, the log start.

Whatever a signal handler raises, Ctrl-C above all, comes out of a write when that is done: the file
is ahead of memory then. A log decides by memory; so `LogNotes._settle_notes` brings the files back
before it changes, and nothing has come of what was interrupted. Of the recovery point `Flusher`
knows the most that its file may say.

Source: [DUR-12, DUR-16, DUR-19, DUR-64].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from segstore.errors import FsyncFailedError, IllegalArgumentError
from segstore.log.log_checker import LogChecker
from segstore.types import CURRENT_MAGIC

if TYPE_CHECKING:
    from segstore._core import BatchHeaders
    from segstore.log.directory.log_places import LogPlaces
    from segstore.log.directory.log_state_file import LogStateFile
    from segstore.log.flusher import Flusher

_LEGACY: Final = -(2**31)
"""Stands for the epoch of messages that have none; below all others."""


class LogNotes(LogChecker):
    """The part of a log that keeps them in step, under the append lock."""

    _flusher: Flusher
    _places: LogPlaces
    _state_file: LogStateFile | None

    # ---- epochs ----------------------------------------------------------------------------------

    def _note_epoch(self, epoch: int, start_offset: int) -> None:
        """Write the epoch's start before its first batch is acknowledged [DUR-12]."""
        with self._flusher.poisoned_by(FsyncFailedError):
            if self._epochs.assign(epoch, start_offset):
                self._save_state()

    def _note_epochs(self, headers: BatchHeaders) -> None:
        """Take over the epochs that the batches have; messages of magic 0 and 1 end them all.

        Source: [APP-10].
        """
        is_legacy = headers["magic"] < CURRENT_MAGIC
        epochs = np.where(is_legacy, _LEGACY, headers["partition_leader_epoch"])
        starts = headers["base_offset"]
        changes = np.diff(epochs, prepend=_LEGACY + 1) != 0
        goes_back = np.diff(starts, prepend=starts[0]) < 0  # the epoch began before that [EPC-3]
        for row in np.flatnonzero(changes | goes_back):
            if is_legacy[row]:
                self._forget_epochs()
                continue
            if epochs[row] < 0:
                raise IllegalArgumentError(
                    f"the batch at offset {int(headers['base_offset'][row])} has no leader epoch",
                    found=str(int(epochs[row])),
                    expected="0 or more",
                )
            self._note_epoch(int(epochs[row]), int(headers["base_offset"][row]))

    def _forget_epochs(self) -> None:
        if self._epochs.entries:
            with self._flusher.poisoned_by(FsyncFailedError):
                self._epochs.clear_and_flush()
                self._save_state()

    # ---- gaps, and all of them ------------------------------------------------------------------

    def _permit_gap(self, behind_gap: int) -> None:
        """Let the log have no records up to there; what it has is on stable storage before [DUR-1].

        From here on nothing tells whether records are missing between earlier segments.
        """
        self._flusher.sync_what_stays(self.log_end_offset)
        self._save_state(contiguous_from=behind_gap)

    def _settle_notes(self) -> None:
        """Let the small files say what holds for the records that are there, before that changes.

        An interrupted call may have left one ahead of memory, by which everything here decides.
        """
        if self._epochs.is_dirty:  # an assignment was interrupted [DUR-12]
            with self._flusher.poisoned_by(FsyncFailedError):
                self._epochs.flush()
        log_start = self._offsets.log_start_offset
        if self._places.highest_log_start > log_start:  # a deletion was [DUR-18, DUR-19]
            with self._flusher.poisoned_by(FsyncFailedError):
                self._places.write_log_start(log_start)
        if self._state_file is not None:
            self._settle_state(self._state_file)

    def _settle_state(self, state_file: LogStateFile) -> None:
        if state_file.is_in_doubt:
            with self._flusher.poisoned_by(FsyncFailedError):
                state_file.settle()
        state, end = state_file.state, self.log_end_offset
        if state.contiguous_from > end:  # the gap's append failed, or it was truncated
            self._save_state(contiguous_from=end)
        elif state.is_being_emptied:  # but was not: a log without a .log has lost it
            self._save_state()
        if state.local_log_start_offset > 0:  # below it an open takes segments away [DUR-26]
            first = self._local_log.segments.first_segment.base_offset
            if state.local_log_start_offset > first:  # they were to go, and did not
                with self._flusher.poisoned_by(FsyncFailedError):
                    state_file.change(local_log_start_offset=first)

    def _save_state(self, contiguous_from: int | None = None) -> None:
        state_file = self._state_file
        if state_file is None:
            return
        state, latest = state_file.state, self._epochs.latest_entry
        with self._flusher.poisoned_by(FsyncFailedError):
            self._epochs.flush()  # what it is tied to; nothing to do but behind an interrupt
            state_file.change(
                contiguous_from=state.contiguous_from
                if contiguous_from is None
                else contiguous_from,
                # without one the next may be older than those of records below the log start
                epochs_ordered_from=(
                    self.log_end_offset if latest is None else state.epochs_ordered_from
                ),
                latest_epoch=latest,
                is_being_emptied=False,  # a truncation that was refused may have left it
            )
