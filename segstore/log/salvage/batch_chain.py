"""Which of the batches that were found in a damaged log are those of the log.

A CRC covers neither the base offset nor the leader epoch of a batch: only its neighbours can show
that these are right. Of all batches, in the order of the files, the most are kept whose offsets
ascend [DUR-50]; with as many, those that continue each other or begin a file that has its name by
them, then those that came first. Of their epochs `segstore.log.salvage.original_epochs` decides.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from segstore.config import MAX_INT
from segstore.log.local.batch_search import ROW

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from segstore.log.files.checkpoints import LogState
    from segstore.log.salvage.original_epochs import OriginalEpochs

_BLOCK_ROWS: Final = 16_384
_LOOK_AHEAD_ROWS: Final = 1024
"""What a decision can depend on: a batch that jumped is told by those behind it."""
_ONE_MORE: Final = _BLOCK_ROWS + 1
"""A batch counts more than all continuations of a block."""

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def choose_batches(
    tables: Iterable[np.ndarray],
    base_offsets: Sequence[int],
    state: LogState | None,
    *,
    original_epochs: OriginalEpochs | None,
    end_offset: int = -1,
) -> Iterator[tuple[np.ndarray, Mask]]:
    """Yield tables of `ROW`, and which of their rows are batches of the log.

    Parameters
    ----------
    tables : iterable of array
        In the order of the log, segment by segment.
    base_offsets : sequence of int
        Of the segments, by their number in the rows.
    state : LogState or None
        From where on the log is known to have no gap [DUR-64].
    original_epochs : OriginalEpochs or None
        Which epochs its batches should have; None where nothing tells.
    end_offset : int
        Where the log is known to have ended; -1 where that is not known.
    """
    bases = np.array([*base_offsets, end_offset], np.int64)
    pending = np.empty(0, ROW)
    reached, epoch = -1, -1
    for table in tables:
        pending = np.concatenate((pending, table))
        while len(pending) >= _BLOCK_ROWS:
            block = pending[:_BLOCK_ROWS]
            kept = _choose(block, bases, state, reached)
            block = _with_epochs(block, kept, original_epochs, epoch)
            kept, block = kept[:-_LOOK_AHEAD_ROWS], block[:-_LOOK_AHEAD_ROWS]
            yield block, kept
            if kept.any():
                reached = int(block["last_offset"][kept][-1])
            if original_epochs is not None:
                ordered = kept & (block["base_offset"] >= original_epochs.ordered_from)
                epoch = max(epoch, int(block["epoch"][ordered].max(initial=-1)))
            pending = pending[len(block) :]
    if len(pending):
        kept = _choose(pending, bases, state, reached)
        yield _with_epochs(pending, kept, original_epochs, epoch), kept


def _choose(rows: np.ndarray, bases: np.ndarray, state: LogState | None, reached: int) -> Mask:
    """Return which rows to keep, by their offsets."""
    first, last = rows["base_offset"], rows["last_offset"]
    base = bases[rows["segment"]]
    kept: Mask = rows["whole"] & (first > reached) & (last >= first) & (first >= base)
    if state is not None:  # a broker of old may have written a log that overflows [LDR-30]
        kept &= last - base <= MAX_INT  # [DUR-50, DUR-89]
        begins_well = (rows["position"] > 0) | (first == base) | (first < state.contiguous_from)
        begins_well |= _ends_a_gap(rows, base - 1, state.contiguous_from)
        candidates = np.flatnonzero(kept)
        begins_well[candidates] |= _is_continued(rows[candidates], bases)
        kept &= begins_well
    chosen = np.flatnonzero(kept)
    jumps = _jumps(rows[chosen], bases, state, reached)
    if jumps.any() or not bool(np.all(first[chosen][1:] > last[chosen][:-1])):
        begins = (first == base) & (rows["position"] == 0)
        best = _most_that_ascend(
            first[chosen].tolist(), last[chosen].tolist(), jumps.tolist(), begins[chosen].tolist()
        )
        kept[:] = False
        kept[chosen[best]] = True
    return kept


def _with_epochs(
    rows: np.ndarray, kept: Mask, original_epochs: OriginalEpochs | None, reached: int
) -> np.ndarray:
    """Return the rows with epochs that ascend; those that cannot are not *kept* any more."""
    if original_epochs is None:
        return rows
    epochs = original_epochs.order(rows, kept, reached)
    is_mended = epochs != rows["epoch"]
    if is_mended.any():
        rows = rows.copy()
        rows["epoch"], rows["epoch_is_mended"] = epochs, is_mended
    return rows


def _jumps(rows: np.ndarray, bases: np.ndarray, state: LogState | None, reached: int) -> Mask:
    """Return which rows leave a gap to the one before, with no byte between them.

    In a log without gaps one of the two is wrong [DUR-50, DUR-64], unless others show that both are
    right: then whole batches are gone between them. In front of the last gap that there may be, a
    batch may stand behind another one, and stays: who copies it says so.
    """
    jumps: Mask = np.zeros(len(rows), np.bool_)
    if state is not None and len(rows):
        first, last = rows["base_offset"], rows["last_offset"]
        touches = rows["position"][:-1] + rows["size"][:-1] == rows["position"][1:]
        touches &= rows["segment"][:-1] == rows["segment"][1:]
        jumps[1:] = touches & (first[1:] != last[:-1] + 1) & (first[1:] >= state.contiguous_from)
        continues = first == np.concatenate(([reached], last[:-1])) + 1
        continues |= (first == bases[rows["segment"]]) & (rows["position"] == 0)
        ascends = first > np.concatenate(([reached], np.maximum.accumulate(last)[:-1]))
        may_be_right = continues[:-1] | (ascends[:-1] & (first[1:] == state.contiguous_from))
        is_right = _is_continued(rows, bases)[1:]
        is_right |= _ends_a_gap(rows[1:], last[:-1], state.contiguous_from)
        jumps[1:] &= ~(may_be_right & is_right)
    return jumps


def _ends_a_gap(rows: np.ndarray, before: np.ndarray, contiguous_from: int) -> Mask:
    """Return the batch behind the last gap that there may be, as a truncation within one leaves it.

    One that would fit into that gap does not count: it may be what stood there, its base offset
    flipped. *before* is the last offset in front of each.
    """
    first, last = rows["base_offset"], rows["last_offset"]
    mask: Mask = (first == contiguous_from) & (last - first >= contiguous_from - before - 1)
    return mask


def _is_continued(rows: np.ndarray, bases: np.ndarray) -> Mask:
    """Return the rows behind which the next one goes on, or the next file, or the log's end is."""
    after = rows["last_offset"] + 1
    segment = rows["segment"]
    ends_file = np.append(segment[1:] != segment[:-1], np.ones(min(len(rows), 1), np.bool_))
    continued: Mask = ends_file & (bases[segment + 1] == after)
    continued[:-1] |= rows["base_offset"][1:] == after[:-1]
    return continued


def _most_that_ascend(
    firsts: list[int], lasts: list[int], jumps: list[bool], begins: list[bool]
) -> list[int]:
    """Return which batches to keep, so that each begins behind the end of the one before.

    The classical longest increasing subsequence, by the best score of all that end below an offset,
    kept in a Fenwick tree over the ranks of the ends. The tree lags by one batch: that one, the
    next may not follow when it is a jump. Who *begins* its file counts as one that continues.
    """
    ends = sorted(set(lasts))
    ranks = {end: rank for rank, end in enumerate(ends, start=1)}
    tree: list[tuple[int, int]] = [(0, -1)] * (len(ends) + 1)  # a score, and who has it
    best_at_end: dict[int, int] = {}
    scores: list[int] = []
    before: list[int] = []
    for index, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
        score, previous = _best_below(tree, bisect_left(ends, first))
        if index:
            latest = index - 1
            if lasts[latest] < first and not jumps[index] and scores[latest] > score:
                score, previous = scores[latest], latest
            _enter(tree, ranks[lasts[latest]], (scores[latest], latest))
        score += begins[index]
        continued = best_at_end.get(first - 1)
        if continued is not None and scores[continued] + 1 > score:
            score, previous = scores[continued] + 1, continued
        scores.append(score + _ONE_MORE)
        before.append(previous)
        if last not in best_at_end or scores[best_at_end[last]] < scores[index]:
            best_at_end[last] = index
    chosen: list[int] = []
    index = max(range(len(scores)), key=scores.__getitem__)
    while index >= 0:
        chosen.append(index)
        index = before[index]
    return chosen[::-1]


def _best_below(tree: list[tuple[int, int]], rank: int) -> tuple[int, int]:
    """Return the best score of the first *rank* ends, and who has it."""
    best = (0, -1)
    while rank > 0:
        if tree[rank][0] > best[0]:
            best = tree[rank]
        rank &= rank - 1
    return best


def _enter(tree: list[tuple[int, int]], rank: int, entry: tuple[int, int]) -> None:
    while rank < len(tree):
        if tree[rank][0] < entry[0]:
            tree[rank] = entry
        rank += rank & -rank
