"""The leader epochs of a damaged log's batches, compared with what its small files say.

No CRC covers the epoch of a batch. ``leader-epoch-checkpoint`` says which epoch each offset has;
``.segstore`` says under a checksum where the latest one begins. A batch whose epoch is lower than
one before it may be an older batch, which a truncation took away and the disk brought back: it is
left out. Any other batch is copied as it stands; that its epoch differs is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.numpy_on_demand import np
from segstore.types import NO_PARTITION_LEADER_EPOCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore.log.files.checkpoints import LogState
    from segstore.log.local.batch_chain import Mask
    from segstore.types import EpochEntry


class BatchEpochs:
    """Compares the batches of one log, which come in its order.

    Parameters
    ----------
    state : LogState
        Of the writer that wrote last [DUR-64].
    entries : sequence of EpochEntry
        Of the checkpoint, ascending; empty where it is lost.

    Attributes
    ----------
    differing : int
        Number of batches so far that are copied with another epoch than the files say.
    first_differing : (row, int) or None
        The first of them, and the epoch that it should have.
    """

    def __init__(self, state: LogState, entries: Sequence[EpochEntry]) -> None:
        latest = [] if state.latest_epoch is None else [state.latest_epoch]
        is_agreed = not entries or [entries[-1]] == latest  # no crash came between the two files
        known = (list(entries) or latest) if is_agreed else []
        self._ordered_from = state.epochs_ordered_from
        self._starts = np.array([entry.start_offset for entry in known], np.int64)
        self._epochs = np.array([-1, *(entry.epoch for entry in known)], np.int64)
        self._reached = NO_PARTITION_LEADER_EPOCH
        self.differing = 0
        self.first_differing: tuple[np.void, int] | None = None

    def without_older(self, rows: np.ndarray, kept: Mask) -> Mask:
        """Return *kept* without the batches that may be older than one before them."""
        epochs = rows["epoch"]
        expected = self._epochs[np.searchsorted(self._starts, rows["last_offset"], side="right")]
        expected[rows["base_offset"] < self._ordered_from] = NO_PARTITION_LEADER_EPOCH
        confirmed = np.where(kept & (epochs == expected), epochs, NO_PARTITION_LEADER_EPOCH)
        reached = np.maximum(np.maximum.accumulate(confirmed), self._reached)
        self._reached = int(reached[-1])
        ordered = (epochs >= 0) & (rows["base_offset"] >= self._ordered_from)
        left: Mask = kept & ~(ordered & (epochs < reached))
        differing = np.flatnonzero(left & (expected >= 0) & (epochs != expected))
        if self.first_differing is None and len(differing):
            first = differing[0]
            self.first_differing = rows[first].copy(), int(expected[first])
        self.differing += len(differing)
        return left
