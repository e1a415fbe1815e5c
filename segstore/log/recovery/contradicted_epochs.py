"""Whether the batches contradict a leader-epoch checkpoint, which has no checksum [DUR-7, DUR-21].

An old copy of it, or one with a wrong digit, has other epochs than the batches. It counts as lost
then, and is rebuilt from the batches: an append may never get an epoch below one that the log has.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from segstore.errors import SegstoreError
from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT, LOG_STATE
from segstore.log.local.segments import floor_index, next_base_offset
from segstore.number_limits import MAX_LONG
from segstore.types import CURRENT_MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segstore.log.files.checkpoints import LogState
    from segstore.log.local.segment import Segment
    from segstore.types import EpochEntry


class _Batch(NamedTuple):
    base_offset: int
    last_offset: int
    epoch: int
    """-1 = it does not say."""


def contradiction_of_epochs(
    entries: Sequence[EpochEntry],
    state: LogState | None,
    segments: Sequence[Segment],
    log_start_offset: int,
) -> str | None:
    """Say which batch contradicts the checkpoint, None where none does.

    The last batch is looked up. Where ``.segstore`` has another latest epoch than the checkpoint,
    so are the batches before and behind the begin of each epoch. A batch counts only when its CRC
    is right, although that does not cover the epoch. ``.segstore`` itself counts as a batch of its
    epoch.

    Parameters
    ----------
    entries : sequence of EpochEntry
        Of the checkpoint, ascending.
    state : LogState or None
        What ``.segstore`` says, if anything.
    segments : sequence of Segment
        From the log start on. An error of one is no contradiction: its reader reports it.
    """
    latest = entries[-1] if entries else None
    is_own = state is not None and state.fits(latest)
    if not is_own and (said := _begins_elsewhere(latest, state, segments, log_start_offset)):
        return said
    starts = [] if is_own else [max(entry.start_offset, log_start_offset) for entry in entries]
    for offset, batch in _probes(segments, starts, log_start_offset):
        if batch.epoch < 0 or batch.last_offset < log_start_offset:
            continue
        above = bisect_right(entries, offset, key=lambda entry: entry.start_offset)
        epoch = entries[above - 1].epoch if above else None
        if epoch != batch.epoch:
            return (
                f"{LEADER_EPOCH_CHECKPOINT} has {'no epoch' if epoch is None else f'epoch {epoch}'}"
                f" for offset {offset}, and the batch at {batch.base_offset} has epoch"
                f" {batch.epoch}"
            )
    return None


def _begins_elsewhere(
    latest: EpochEntry | None,
    state: LogState | None,
    segments: Sequence[Segment],
    log_start_offset: int,
) -> str | None:
    """Say so where ``.segstore`` has the same epoch, and another begin of it.

    That moves with the log start [EPC-6], or to the first batch that is left.
    """
    own = None if state is None else state.latest_epoch
    if own is None or latest is None or own.epoch != latest.epoch or not segments:
        return None
    if latest.start_offset in {log_start_offset, segments[0].base_offset}:
        return None
    return (
        f"by {LEADER_EPOCH_CHECKPOINT} epoch {own.epoch} begins at {latest.start_offset}, by"
        f" {LOG_STATE} at {own.start_offset}"
    )


def _probes(
    segments: Sequence[Segment], starts: Sequence[int], log_start_offset: int
) -> Iterator[tuple[int, _Batch]]:
    """Yield batches, each with the offset whose epoch it is to have; the last batch comes first.

    Batches below the first start tell nothing: that moves with the log start [EPC-6].
    """
    looks = [(_batch_before, MAX_LONG, log_start_offset)]
    looks += [(_batch_from, start, start) for start in starts]
    looks += [(_batch_before, start, log_start_offset) for start in starts[1:]]
    for look, start, least in looks:
        with suppress(SegstoreError):
            batch = look(segments, start)
            if batch is not None:
                yield max(batch.base_offset, least), batch


def _batch_from(segments: Sequence[Segment], offset: int) -> _Batch | None:
    """Return the first batch that ends at or above *offset*, None behind the last."""
    first = floor_index(segments, offset)
    for number, segment in enumerate(segments[first:], first):
        if segment.size_bytes > 0 and (found := segment.translate_offset(offset)) is not None:
            return _batch_at(segments, number, found.position)
    return None


def _batch_before(segments: Sequence[Segment], offset: int) -> _Batch | None:
    """Return the batch with the offset before *offset*, or the last of the log below it."""
    last = floor_index(segments, offset - 1)
    for number, segment in reversed([*enumerate(segments[: last + 1])]):
        if segment.size_bytes > 0:
            end, _ = segment.read_next_offset()
            found = segment.translate_offset(min(offset, end) - 1)
            batch = None if found is None else _batch_at(segments, number, found.position)
            return batch if batch is not None and batch.base_offset < offset else None
    return None


def _batch_at(segments: Sequence[Segment], number: int, position: int) -> _Batch | None:
    """Return the batch of a segment; None where its offset, which no CRC covers, is wrong."""
    header = segments[number].header_at(position)
    if header is None or header.last_offset >= next_base_offset(segments, number):
        return None
    epoch = header.partition_leader_epoch if header.magic >= CURRENT_MAGIC else -1
    return _Batch(header.base_offset, header.last_offset, epoch)
