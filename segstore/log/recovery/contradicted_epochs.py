"""Whether the batches contradict a leader-epoch checkpoint, which has no checksum [DUR-7, DUR-21].

A digit that is not what was written makes the log one that a broker has written to since, and then
nothing of ``.segstore`` holds, nor is a lost segment missed. So may what a broker wrote: one that
follows another leader, or whose epochs are of another cluster. Nothing is changed for it, nor
believed: records that are not there are told of, no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from segstore.errors import SegstoreError
from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT, LOG_STATE
from segstore.log.local.segments import floor_index
from segstore.types import CURRENT_MAGIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore.log.files.checkpoints import LogState
    from segstore.log.local.segment import Segment
    from segstore.types import EpochEntry


class _Batch(NamedTuple):
    base_offset: int
    last_offset: int
    epoch: int
    """-1 = it does not say."""


def contradiction_of_epochs(
    latest: EpochEntry | None,
    state: LogState,
    segments: Sequence[Segment],
    log_start_offset: int,
) -> str | None:
    """Say what is contradicted in the latest entry, None where nothing is.

    Two batches are looked up at most, and only where that entry is not the one of ``.segstore``:
    that where the epoch begins, and the one before. One of a newer epoch than that tells nothing: a
    broker wrote it, or a bit of its epoch flipped, which its CRC does not cover. The epoch that
    ``.segstore`` has begins where it says, or moves with the log start [EPC-6].

    Parameters
    ----------
    segments : sequence of Segment
        From the log start on. An error of one is no reason to refuse: who reads it tells it.
    """
    if state.latest_epoch is None or latest is None or state.fits(latest) or not segments:
        return None
    epoch, start = latest
    said = f"by {LEADER_EPOCH_CHECKPOINT} epoch {epoch} begins at {start}"
    own, own_start = state.latest_epoch
    if epoch == own and start not in {log_start_offset, segments[0].base_offset}:
        return f"{said}, by {LOG_STATE} at {own_start}"
    try:
        batch = _batch_from(segments, start)
        if batch is None or batch.epoch == epoch:
            batch = _batch_before(segments, start) if start > log_start_offset else None
            if batch is None or batch.last_offset < log_start_offset or batch.epoch < epoch:
                return None
    except SegstoreError:
        return None
    if not 0 <= batch.epoch <= own:
        return None
    return f"{said}, and the batch at {batch.base_offset} has epoch {batch.epoch}"


def _batch_from(segments: Sequence[Segment], offset: int) -> _Batch | None:
    """Return the first batch that ends at or above *offset*, None behind the last."""
    for segment in segments[floor_index(segments, offset) :]:
        if segment.size_bytes > 0 and (found := segment.translate_offset(offset)) is not None:
            return _batch_at(segment, found.position)
    return None


def _batch_before(segments: Sequence[Segment], offset: int) -> _Batch | None:
    """Return the batch with the offset before *offset*, or the last of the log below it."""
    for segment in reversed(segments[: floor_index(segments, offset - 1) + 1]):
        if segment.size_bytes > 0:
            end, _ = segment.read_next_offset()
            found = segment.translate_offset(min(offset, end) - 1)
            batch = None if found is None else _batch_at(segment, found.position)
            return batch if batch is not None and batch.base_offset < offset else None
    return None


def _batch_at(segment: Segment, position: int) -> _Batch | None:
    headers, _ = segment.scan(start_position=position, check_crc=True, max_batches=1)
    if not len(headers):
        return None
    epoch = int(headers["partition_leader_epoch"][0])
    return _Batch(
        int(headers["base_offset"][0]),
        int(headers["last_offset"][0]),
        epoch if headers["magic"][0] >= CURRENT_MAGIC else -1,
    )
