"""Leader epochs as the batches show them, and the clean marker that they are part of [SEG-40]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from segstore._core import size_of_segments
from segstore.types import EpochEntry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore._core import BatchHeaders
    from segstore.log.directory.clean_shutdown_marker import CleanShutdownMarker
    from segstore.log.directory.leader_epoch_file_cache import LeaderEpochFileCache
    from segstore.log.local.segment import Segment


def epoch_changes(
    headers: BatchHeaders, previous_epoch: int = -1, log_start_offset: int = 0
) -> list[EpochEntry]:
    """Return where the leader epoch rises in a table of batches [SEG-40]; -1 is no epoch.

    What was deleted counts no more: the epochs behind it may have begun anew [EPC-4].
    """
    headers = headers[headers["last_offset"] >= log_start_offset]
    if not len(headers):
        return []
    epochs = headers["partition_leader_epoch"]
    highest = np.maximum.accumulate(np.maximum(epochs, previous_epoch))
    before = np.concatenate(([previous_epoch], highest[:-1]))
    rows = np.flatnonzero(epochs > before)
    return [EpochEntry(int(epochs[row]), int(headers["base_offset"][row])) for row in rows]


def note_epochs(cache: LeaderEpochFileCache, entries: Iterable[EpochEntry]) -> None:
    """Take over epochs that are newer than the cache's latest [SEG-40]."""
    for epoch, start_offset in entries:
        if epoch > latest_epoch(cache):
            cache.note(epoch, start_offset)


def note_epochs_of_batches(cache: LeaderEpochFileCache, headers: BatchHeaders) -> None:
    """Take over the epochs of a table of batches, as their appends did.

    One without an epoch, of an old message format, has ended all before it.
    """
    without = np.flatnonzero(headers["partition_leader_epoch"] < 0)
    if len(without):
        cache.clear()
        headers = headers[without[-1] + 1 :]
    note_epochs(cache, epoch_changes(headers, latest_epoch(cache)))


def latest_epoch(cache: LeaderEpochFileCache) -> int:
    """Return the newest epoch, -1 when there is none."""
    latest = cache.latest_epoch
    return -1 if latest is None else latest


def fits(
    marker: CleanShutdownMarker | None, segments: list[Segment], epochs: LeaderEpochFileCache
) -> bool:
    """Whether segments and epochs are those that the marker, if there is one, was written for."""
    if marker is None or not segments:
        return False
    active = segments[-1]
    return marker.fits(
        len(segments),
        size_of_segments(segments),
        (active.base_offset, active.size_bytes, epochs.latest_entry),
    )
