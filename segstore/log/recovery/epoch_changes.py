"""Leader epochs as the batches show them, and the clean marker that they are part of [SEG-40]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import size_of_segments
from segstore.numpy_on_demand import np
from segstore.types import CURRENT_MAGIC, EpochEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore._core import BatchTable
    from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
    from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
    from segstore.log.local.segment import Segment


def epoch_changes(
    table: BatchTable, previous_epoch: int = -1, log_start_offset: int = 0
) -> list[EpochEntry]:
    """Return where the leader epoch rises in a table of batches [SEG-40], or ends, as epoch -1.

    A message of magic 0 or 1 has ended all before it [APP-10]: what comes behind may begin anew. A
    batch without an epoch says nothing: no CRC covers it. What was deleted counts no more either
    [EPC-4].
    """
    epoch = table.leader_epoch
    if epoch is not None and epoch <= previous_epoch:
        return []
    if epoch is not None and table.first_last_offset >= log_start_offset:
        return [EpochEntry(epoch, table.base_offset)]
    headers = table.array
    is_old = headers["magic"] < CURRENT_MAGIC
    says_so = is_old | (headers["partition_leader_epoch"] >= 0)
    counts = says_so & (headers["last_offset"] >= log_start_offset)
    headers, is_old = headers[counts], is_old[counts]
    epochs = np.where(is_old, -1, headers["partition_leader_epoch"])
    changes, latest = [], previous_epoch
    for row in np.flatnonzero(np.diff(epochs, prepend=previous_epoch)):
        epoch = int(epochs[row])
        if epoch > latest or epoch < 0 <= latest:
            changes.append(EpochEntry(epoch, int(headers["base_offset"][row])))
            latest = epoch
    return changes


def note_epochs(cache: LeaderEpochFileCache, changes: Sequence[EpochEntry]) -> None:
    """Take over epochs that are newer than the cache's latest [SEG-40]; forget those that ended."""
    ends = [number for number, change in enumerate(changes) if change.epoch < 0]
    if ends:
        cache.forget_to(changes[ends[-1]].start_offset)
        changes = changes[ends[-1] + 1 :]
    for epoch, start_offset in changes:
        if epoch > latest_epoch(cache):
            cache.note(epoch, start_offset)


def latest_epoch(cache: LeaderEpochFileCache) -> int:
    """Return the newest epoch, -1 when there is none."""
    latest = cache.latest_epoch
    return -1 if latest is None else latest


def fits(
    marker: CleanShutdownMarker | None, segments: Sequence[Segment], latest: EpochEntry | None
) -> bool:
    """Whether segments and epochs are those that the marker, if there is one, was written for."""
    if marker is None or not segments:
        return False
    return marker.fits(len(segments), size_of_segments(segments), _end(segments, latest))


def fits_end(
    marker: CleanShutdownMarker | None, segments: Sequence[Segment], latest: EpochEntry | None
) -> bool:
    """Whether the log ends as the marker, if there is one, says."""
    return marker is not None and bool(segments) and marker.fits_end(_end(segments, latest))


def _end(
    segments: Sequence[Segment], latest: EpochEntry | None
) -> tuple[int, int, EpochEntry | None]:
    return segments[-1].base_offset, segments[-1].size_bytes, latest
