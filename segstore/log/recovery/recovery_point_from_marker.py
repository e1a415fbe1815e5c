"""A lost recovery point, taken from the clean-shutdown marker [DUR-24, DUR-63]."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from segstore.log.files.checkpoints import LogState
from segstore.log.files.leader_epoch_file_cache import UNREADABLE_EPOCHS, LeaderEpochFileCache

if TYPE_CHECKING:
    from segstore.log.files.checkpoint_store import CheckpointStore
    from segstore.log.files.stored_state import StoredState
    from segstore.log.recovery.recovery_report import RecoveryReport


def with_marker_recovery_point(
    found: StoredState,
    epochs: LeaderEpochFileCache | None,
    state: LogState | None,
    report: RecoveryReport,
) -> StoredState:
    """Return *found*; a lost recovery point is where the clean marker says that the log ended.

    Everything below it had been synced when that was written [DUR-24], and no writer since has left
    it in place but a broker, which raises the leader epoch or has a recovery point [DUR-63].

    Parameters
    ----------
    epochs : LeaderEpochFileCache or None
        None where the checkpoint is lost too: then nothing speaks of a broker.
    state : LogState or None
        What ``.segstore`` says, if anything.
    """
    marker = found.own_marker
    if found.recovery_point is not None or marker is None or state is None:
        return found
    if epochs is not None and marker.latest_epoch != epochs.latest_entry:
        return found
    end = marker.log_end_offset
    report.warnings.append(f"there is no recovery point; the log was closed cleanly at {end}")
    return replace(found, recovery_point=end)


def persisted_recovery_point(
    found: StoredState, checkpoint_store: CheckpointStore, report: RecoveryReport
) -> StoredState:
    """Return *found* as `with_marker_recovery_point`, and write down what it says.

    That is done while the marker stands: when an open fails behind that, or the process is killed,
    nothing else says it.

    Raises
    ------
    DiskFullError
        No room for it. The marker stays: without either of them damage of what had been synced
        would look like an end that was not, and be cut [DUR-6, DUR-30].
    """
    marker = found.own_marker
    if found.recovery_point is not None or marker is None:
        return found
    directory = checkpoint_store.directory
    state = LogState.read(directory)
    if state is None or not state.fits(marker.latest_epoch):
        return found
    try:
        epochs = LeaderEpochFileCache.read(directory, writable=False, believes_empty=False)
    except UNREADABLE_EPOCHS:
        epochs = None
    settled = with_marker_recovery_point(found, epochs, state, report)
    if settled.recovery_point is not None:
        checkpoint_store.write_recovery_point(settled.recovery_point)
    return settled
