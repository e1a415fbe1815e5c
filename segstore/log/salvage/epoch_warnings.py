"""Salvage's warnings about leader epochs that the small files contradict [DUR-64]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from segstore.log.salvage.original_epochs import Offsets, OriginalEpochs

_SAYS_EPOCHS: Final = "leader-epoch-checkpoint or .segstore"
_MOST_PAIRS: Final = 20
"""Of epochs found and said, each told once: a log may have as many as batches [DUR-102]."""


class EpochWarnings:
    """Adds warnings.

    Parameters
    ----------
    written : OriginalEpochs or None
        None where nothing tells.
    warnings : list of str
        Of the report.
    """

    def __init__(self, written: OriginalEpochs | None, warnings: list[str]) -> None:
        self._written = written
        self._warnings = warnings
        self._pairs: set[tuple[int, int]] = set()

    def warn_of_mended(self, name: str, row: np.ndarray, found: int) -> None:
        """Tell of a batch of *name* that is copied with another epoch than was *found*."""
        is_said = self._said(row.reshape(1))[0] == row["epoch"] >= 0
        by = f"by {_SAYS_EPOCHS}" if is_said else "for want of a better one"
        self._warnings.append(
            f"{_place(name, row)} has the leader epoch {found}, which no CRC covers and is not what"
            f" was written, or the batch is an older one: the copy has {row['epoch']}, {by}"
        )

    def warn_of_others(self, name: str, rows: np.ndarray) -> None:
        """Tell of batches that are copied as they stand: these, or the files, may be wrong."""
        said = self._said(rows)
        is_other = (said >= 0) & (said != rows["epoch"]) & ~rows["epoch_is_mended"]
        for index in np.flatnonzero(is_other).tolist():
            row, pair = rows[index], (int(rows["epoch"][index]), int(said[index]))
            if len(self._pairs) == _MOST_PAIRS:
                return
            if pair not in self._pairs:
                self._pairs.add(pair)
                self._warnings.append(
                    f"{_place(name, row)} is copied with its leader epoch {pair[0]}, which no CRC"
                    f" covers: by {_SAYS_EPOCHS} it has {pair[1]}"
                )

    def _said(self, rows: np.ndarray) -> Offsets:
        if self._written is None:
            return np.full(len(rows), -1, np.int64)
        return self._written.of(rows)


def _place(name: str, row: np.ndarray) -> str:
    offsets = f"the offsets {row['base_offset']} to {row['last_offset']}"
    return f"{name}, position {row['position']}: the batch of {offsets}"
