"""The leader epoch that a batch was written with: no CRC covers it, small files decide.

``.segstore`` says under a checksum where the latest epoch begins, ``leader-epoch-checkpoint`` under
none where all others do. An epoch that is none, or above the latest one in front of batches that
have none such, is mended; so is any other above those behind it, if the files say which one fits.
One that is lower than the one before may be that of an older batch, which a disk has kept in the
place of a newer one: it is left out. So is one below the latest epoch where that has begun, if
there are batches of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from segstore.config import MAX_INT
from segstore.types import NO_PARTITION_LEADER_EPOCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore.log.files.checkpoints import LogState
    from segstore.types import EpochEntry

Offsets = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class OriginalEpochs:
    """What the small files say of the epochs of a log that its writer wrote last [DUR-64].

    Parameters
    ----------
    state : LogState
        It fits the checkpoint, or that is lost.
    entries : sequence of EpochEntry
        Of the checkpoint, ascending; empty where it is lost.

    Attributes
    ----------
    ordered_from : int
        From this offset on no epoch goes back.
    latest : EpochEntry or None
        Both files agree on it, or the one that has a checksum is alone; None where a crash came
        between the two.
    """

    def __init__(self, state: LogState, entries: Sequence[EpochEntry] = ()) -> None:
        self.ordered_from = state.epochs_ordered_from
        is_agreed = not entries or entries[-1] == state.latest_epoch
        self.latest = state.latest_epoch if is_agreed else None
        known = entries if is_agreed else ()
        self._epochs = np.array([entry.epoch for entry in known], np.int64)
        self._starts = np.array([entry.start_offset for entry in known], np.int64)

    def of(self, rows: np.ndarray) -> Offsets:
        """Return the epoch that each batch should have, -1 where nothing tells.

        The first epoch moves with the log start [EPC-6], also into a batch.
        """
        epochs: Offsets = np.full(len(rows), -1, np.int64)
        if len(self._epochs):
            found = np.searchsorted(self._starts, rows["base_offset"], side="right") - 1
            epochs = self._epochs[np.maximum(found, 0)]
            epochs[rows["last_offset"] < self._starts[0]] = -1
        if self.latest is not None:
            epochs[rows["last_offset"] >= self.latest.start_offset] = self.latest.epoch
        epochs[rows["base_offset"] < self.ordered_from] = -1
        return epochs

    def _are_ordered(self, rows: np.ndarray) -> Mask:
        """Return which have an epoch that counts; -1 is none, and below it there is none."""
        mask: Mask = (rows["epoch"] != NO_PARTITION_LEADER_EPOCH) & (
            rows["base_offset"] >= self.ordered_from
        )
        return mask

    def order(self, rows: np.ndarray, kept: Mask, reached: int) -> Offsets:
        """Keep the most batches whose epochs do not go back; return the epochs, some mended.

        Parameters
        ----------
        rows : array of `ROW`
        kept : array of bool
            Changed: those that ascend by their offsets before, and by their epochs too afterwards.
        reached : int
            The highest epoch before these rows, -1 without one.
        """
        epochs: Offsets = rows["epoch"].astype(np.int64)
        if self.latest is not None:
            begun = rows["last_offset"] >= self.latest.start_offset
            begun &= kept & self._are_ordered(rows)
            if bool((epochs[begun] == self.latest.epoch).any()):
                kept[begun & (epochs >= 0) & (epochs < self.latest.epoch)] = False
        chosen = np.flatnonzero(kept & self._are_ordered(rows))
        if _ascend(epochs[chosen], reached):
            return epochs
        said = self.of(rows)
        kept[chosen] = False
        fitting = chosen[_fit_between(epochs[chosen], epochs[chosen] == said[chosen])]
        kept[_most_that_do_not_fall(fitting, epochs, reached)] = True
        wrong = chosen[~kept[chosen]]
        kept[self._mended(wrong, chosen[kept[chosen]], epochs, said, reached)] = True
        return epochs

    def _mended(
        self, wrong: Offsets, ordered: Offsets, epochs: Offsets, said: Offsets, reached: int
    ) -> list[int]:
        """Give rows between *ordered* ones the epoch that they had; return those that got one.

        It is what the files say, where that fits the batches around. If they do not say it, and
        the epoch found is none that ever was, it is that of the batch before, never one above the
        latest; where nothing tells, a batch whose epoch is no number has none.
        """
        latest = MAX_INT if self.latest is None else self.latest.epoch
        mended = []
        highest = reached
        for row, at in zip(wrong.tolist(), np.searchsorted(ordered, wrong).tolist(), strict=True):
            before = max(highest, int(epochs[ordered[at - 1]]) if at else reached)
            behind = int(epochs[ordered[at]]) if at < len(ordered) else MAX_INT
            if 0 <= said[row] <= behind and before <= said[row]:
                epoch = int(said[row])
            else:
                epoch = before if before >= 0 or behind == MAX_INT else behind
            if epochs[row] < 0:
                epochs[row] = epoch if epoch <= latest else NO_PARTITION_LEADER_EPOCH
            elif epoch <= latest and (
                epochs[row] > latest or (epochs[row] > behind and epoch == said[row])
            ):
                epochs[row] = epoch
            else:
                continue
            highest = max(highest, int(epochs[row]))
            mended.append(row)
        return mended


def _fit_between(epochs: Offsets, are_said: Mask) -> Mask:
    """Return which lie between the nearest that are what the files say: those never fall."""
    before = np.maximum.accumulate(np.where(are_said, epochs, -1))
    behind = np.minimum.accumulate(np.where(are_said, epochs, MAX_INT)[::-1])[::-1]
    mask: Mask = (before <= epochs) & (epochs <= behind)
    return mask


def _ascend(epochs: Offsets, reached: int) -> bool:
    return bool(np.all(epochs[1:] >= epochs[:-1])) and (not len(epochs) or epochs[0] >= reached)


def _most_that_do_not_fall(chosen: Offsets, epochs: Offsets, reached: int) -> list[int]:
    """Return the rows of the longest run that does not fall, the lowest epochs of such."""
    tails: list[int] = []
    ends: list[int] = []
    before: dict[int, int] = {}
    for row in chosen[epochs[chosen] >= reached].tolist():
        length = int(np.searchsorted(tails, epochs[row], side="right"))
        tails[length : length + 1] = [int(epochs[row])]
        ends[length : length + 1] = [row]
        before[row] = ends[length - 1] if length else -1
    rows = []
    row = ends[-1] if ends else -1
    while row >= 0:
        rows.append(row)
        row = before[row]
    return rows
