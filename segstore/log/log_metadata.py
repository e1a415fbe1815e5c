"""The small files beside the records while the log changes: leader epochs, `.segstore`, log start.

An exception of a signal handler (Ctrl-C above all) leaves a write when the write is done. The file
is then ahead of memory. A log decides by memory, so `LogMetadata.reconcile` brings the files back
before the log changes again. `Flusher` does the same for the recovery point.

Source: [DUR-12, DUR-16, DUR-19, DUR-64].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.errors import FsyncFailedError, IllegalArgumentError, InvalidEpochError
from segstore.log.files.profile import Profile
from segstore.numpy_on_demand import np
from segstore.types import CURRENT_MAGIC

if TYPE_CHECKING:
    from segstore._core import BatchHeaders
    from segstore.log.failure_mark import FailureMark
    from segstore.log.files.log_state_file import LogStateFile
    from segstore.log.flusher import LogFlusher
    from segstore.log.log_parts import LogParts

_LEGACY: Final = -(2**31)
"""Stands for the epoch of messages that have none; below all others."""


class LogMetadata:
    """Keeps the small files in step with the log, under its append lock.

    Attributes
    ----------
    epochs : LeaderEpochFileCache
        The leader epochs.
    state_file : LogStateFile or None
        ``.segstore``; None in Kafka's profile.
    """

    def __init__(self, parts: LogParts, flusher: LogFlusher, failure_mark: FailureMark) -> None:
        self.epochs = parts.loaded.epochs
        self.state_file = parts.loaded.state_file
        self._checkpoint_store = parts.checkpoint_store
        self._local_log = parts.local_log
        self._offsets = parts.offsets
        self._flusher = flusher
        self._failure_mark = failure_mark
        self._profile = parts.options.profile

    def begin_change(self) -> None:
        """Before anything of the log changes: only the next close calls it clean again [DUR-24]."""
        with self._failure_mark.poisoned_by(FsyncFailedError):
            self._checkpoint_store.remove_clean_markers()

    # ---- epochs ----------------------------------------------------------------------------------

    def epoch_to_stamp(self, leader_epoch: int | None) -> int:
        """Return the epoch of an append; one that is too old would take newer ones away [DUR-64].

        Parameters
        ----------
        leader_epoch : int or None
            What the caller asked for; None = the latest, 0 for a new log.
        """
        latest = self.epochs.latest_epoch
        if leader_epoch is None:
            return 0 if latest is None else latest
        if leader_epoch < 0 and self._profile is Profile.SAFE:
            raise IllegalArgumentError(
                f"leader epoch {leader_epoch} is negative",
                found=str(leader_epoch),
                expected="0 or more",
            )
        if latest is not None and leader_epoch < latest and self._profile is Profile.SAFE:
            raise InvalidEpochError(
                f"leader epoch {leader_epoch} is older than {latest}, the latest of the log",
                found=str(leader_epoch),
                expected=f"{latest} or newer",
            )
        return leader_epoch

    def note_epoch(self, epoch: int, start_offset: int) -> None:
        """Write the epoch's start before its first batch is acknowledged [DUR-12]."""
        self.begin_change()
        with self._failure_mark.poisoned_by(FsyncFailedError):
            if self.epochs.assign(epoch, start_offset):
                self.save_state()

    def note_epochs(self, headers: BatchHeaders) -> None:
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
            self.note_epoch(int(epochs[row]), int(headers["base_offset"][row]))

    def _forget_epochs(self) -> None:
        if self.epochs.entries:
            self.begin_change()
            with self._failure_mark.poisoned_by(FsyncFailedError):
                self.epochs.clear_and_flush()
                self.save_state()

    # ---- gaps, and all of them ------------------------------------------------------------------

    def permit_gap(self, behind_gap: int) -> None:
        """Let the log have no records up to there; what it has is on stable storage before [DUR-1].

        From here on nothing tells whether records are missing between earlier segments.
        """
        self.begin_change()
        self._flusher.sync_what_stays(self._local_log.log_end.message_offset)
        self.save_state(contiguous_from=behind_gap)

    def reconcile(self) -> None:
        """Let the small files say what holds for the records that are there, before that changes.

        An interrupted call may have left one ahead of memory, by which everything here decides.
        """
        if self.epochs.is_dirty:  # an assignment was interrupted [DUR-12]
            with self._failure_mark.poisoned_by(FsyncFailedError):
                self.epochs.flush()
        log_start = self._offsets.log_start_offset
        if self._checkpoint_store.highest_log_start > log_start:  # a deletion was [DUR-18, DUR-19]
            with self._failure_mark.poisoned_by(FsyncFailedError):
                self._checkpoint_store.write_log_start(log_start)
        if self.state_file is not None:
            self._reconcile_state(self.state_file)

    def _reconcile_state(self, state_file: LogStateFile) -> None:
        if state_file.is_in_doubt:
            with self._failure_mark.poisoned_by(FsyncFailedError):
                state_file.reconcile()
        state, end = state_file.state, self._local_log.log_end.message_offset
        if state.contiguous_from > end:  # the gap's append failed, or it was truncated
            self.save_state(contiguous_from=end)
        # but was not: a log without a .log has lost it; and no truncation is under way
        elif state.is_being_emptied or state.generation % 2:
            self.save_state()
        if state.local_log_start_offset > 0:  # below it an open takes segments away [DUR-26]
            first = self._local_log.segments.first_segment.base_offset
            if state.local_log_start_offset > first:  # they were to go, and did not
                with self._failure_mark.poisoned_by(FsyncFailedError):
                    state_file.change(local_log_start_offset=first)

    def save_state(self, contiguous_from: int | None = None) -> None:
        """Write ``.segstore``: the latest epoch, and from where on the log has no gaps."""
        state_file = self.state_file
        if state_file is None:
            return
        state, latest = state_file.state, self.epochs.latest_entry
        with self._failure_mark.poisoned_by(FsyncFailedError):
            self.epochs.flush()  # what it is tied to; nothing to do but behind an interrupt
            state_file.change(
                contiguous_from=state.contiguous_from
                if contiguous_from is None
                else contiguous_from,
                # without one the next may be older than those of records below the log start
                epochs_ordered_from=(
                    self._local_log.log_end.message_offset
                    if latest is None
                    else state.epochs_ordered_from
                ),
                latest_epoch=latest,
                # a truncation that was refused may have left both
                is_being_emptied=False,
                generation=state.generation_at_rest,
            )
