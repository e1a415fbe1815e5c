"""Which of the whole batches found in a damaged log belong to it.

No CRC covers the base offset of a batch: only its neighbours can show that it is right. Of all
batches, in the order of the files, the most are kept whose offsets ascend [DUR-50]. Where two
choices keep as many, the one whose batches continue each other is taken.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.log.local.batch_search import ROW
from segstore.number_limits import MAX_INT, MAX_LONG
from segstore.numpy_on_demand import np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, TypeAlias

    Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

_BLOCK_ROWS: Final = 16_384
_LOOK_AHEAD_ROWS: Final = 1024
"""The batches after a wrong one show that it is wrong: so many of them are looked at."""
_ONE_MORE: Final = 3 * _BLOCK_ROWS
"""A batch counts more than all continuations of a block."""


class ChosenBatches(NamedTuple):
    """A table of `ROW`, and what was decided of each row."""

    rows: np.ndarray
    kept: Mask
    """Is a batch of the log."""
    proven: Mask
    """A kept one whose offsets a neighbour, the file's name or the end of the log confirms."""


def choose_batches(
    tables: Iterable[np.ndarray],
    base_offsets: Sequence[int],
    gapless_from: int | None,
    *,
    end_offset: int = -1,
    below: int = MAX_LONG,
) -> Iterator[ChosenBatches]:
    """Choose the batches of the log; what is yielded has every row once.

    Parameters
    ----------
    tables : iterable of array
        `ROW`, in the order of the log, segment by segment.
    base_offsets : sequence of int
        Of the segments, by their number in the rows.
    gapless_from : int or None
        No offset from here on is missing in the log [DUR-64]; None = any may be.
    end_offset : int
        Where the log is known to have ended; -1 where nothing tells.
    below : int
        Of one segment, where the next one begins: no batch that reaches it is chosen.
    """
    bases = np.array([*base_offsets, end_offset], np.int64)
    pending = np.empty(0, ROW)
    reached = -1
    for table in tables:
        pending = np.concatenate((pending, table))
        while len(pending) >= _BLOCK_ROWS:
            block = _choose(pending[:_BLOCK_ROWS], bases, gapless_from, reached, below)
            decided = ChosenBatches(*(part[:-_LOOK_AHEAD_ROWS] for part in block))
            yield decided
            if decided.kept.any():
                reached = int(decided.rows["last_offset"][decided.kept][-1])
            pending = pending[len(decided.rows) :]
    if len(pending):
        yield _choose(pending, bases, gapless_from, reached, below)


def _choose(
    rows: np.ndarray, bases: np.ndarray, gapless_from: int | None, reached: int, below: int
) -> ChosenBatches:
    base, first, last = bases[rows["segment"]], rows["base_offset"], rows["last_offset"]
    kept: Mask = rows["whole"] & (first > reached) & (last >= first) & (first >= base)
    kept &= last < below
    if gapless_from is not None:  # an old broker may have written a log that overflows [LDR-30]
        kept &= last - base <= MAX_INT  # [DUR-50, DUR-89]
    begins: Mask = (rows["position"] == 0) & (first == base)
    chosen = np.flatnonzero(kept)
    if not np.all(first[chosen] > _ends_before(rows[chosen], reached)):
        found = rows[chosen]
        jumps = _touch(found) & ~begins[chosen]
        jumps &= found["base_offset"] != _ends_before(found, reached) + 1
        lists = (found["base_offset"], found["last_offset"], jumps, begins[chosen])
        chosen = chosen[_most_that_ascend(*(each.tolist() for each in lists))]
    found = rows[chosen]
    proven = begins[chosen] | (found["base_offset"] == _ends_before(found, reached) + 1)
    proven |= _is_continued(found, bases)
    if gapless_from is not None:  # what leaves a gap with nothing in it has wrong offsets
        right = proven | ~_touch(found) | (found["base_offset"] <= gapless_from)
        chosen, proven = chosen[right], proven[right]
    kept[:] = False
    kept[chosen] = True
    shown: Mask = np.zeros(len(rows), np.bool_)
    shown[chosen] = proven
    return ChosenBatches(rows, kept, shown)


def _ends_before(rows: np.ndarray, reached: int) -> np.ndarray:
    """Return the last offset of the batch before each."""
    return np.append(np.int64(reached), rows["last_offset"])[:-1]


def _touch(rows: np.ndarray) -> Mask:
    """Return which rows begin right after the one before, or with their file."""
    touches: Mask = rows["position"] == 0
    touches[1:] |= (rows["position"][1:] == rows["position"][:-1] + rows["size"][:-1]) & (
        rows["segment"][1:] == rows["segment"][:-1]
    )
    return touches


def _is_continued(rows: np.ndarray, bases: np.ndarray) -> Mask:
    """Return the rows after which the next one, the next file or the end of the log follows."""
    after, segment = rows["last_offset"] + 1, rows["segment"]
    ends_file = np.append(segment[1:] != segment[:-1], np.ones(min(len(rows), 1), np.bool_))
    continued: Mask = ends_file & (bases[segment + 1] == after)
    continued[:-1] |= rows["base_offset"][1:] == after[:-1]
    return continued


def _most_that_ascend(
    firsts: list[int], lasts: list[int], jumps: list[bool], begins: list[bool]
) -> list[int]:
    """Return which batches to keep, so that each begins after the end of the one before.

    The classical longest increasing subsequence: the best score of all that end below an offset is
    kept in a Fenwick tree over the ranks of the ends. A batch that continues another one, or
    *begins* its file, scores one more. One that *jumps*, with no byte between it and the batch
    before, scores one less behind that: so the tree lags by one batch.
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
            if lasts[latest] < first and scores[latest] - jumps[index] > score:
                score, previous = scores[latest] - jumps[index], latest
            _enter(tree, ranks[lasts[latest]], (scores[latest], latest))
        else:
            score -= jumps[index]
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
