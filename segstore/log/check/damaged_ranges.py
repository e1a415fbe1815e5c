"""What is between the whole batches of a damaged ``.log``: the same that a salvage leaves out.

Where a scan ends says only where the good batches end that follow one another from the beginning.
Behind that others may be whole, wherever they begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.errors import ReadIOError
from segstore.log.local.batch_chain import choose_batches
from segstore.log.local.batch_search import ROW, BatchSearch
from segstore.log.local.segment import Segment
from segstore.number_limits import MAX_LONG
from segstore.numpy_on_demand import np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import Directory, SegmentContext
    from segstore.log.files.checkpoints import LogState
    from segstore.log.local.batch_search import NoBatch

_PIECE_BYTES: Final = 1024 * 1024


class DamagedRange(NamedTuple):
    """Bytes of a ``.log`` that are no batch of the log."""

    position: int
    size_bytes: int
    first_offset: int
    next_offset: int | None
    """Behind the last offset that these bytes may have held; None where nothing tells it."""
    reason: str | None
    """Why they are no batch; None of a whole batch whose offsets do not fit those around it."""
    unreadable_at: int | None
    """The first byte that the disk does not give out."""
    is_zero: bool
    """There is nothing but zeros."""
    is_last: bool
    """No whole batch follows in the file."""


class DamagedLog(NamedTuple):
    """The whole batches of a ``.log``, and what is between them."""

    ranges: list[DamagedRange]
    whole: list[tuple[int, int]]
    """First and last offset of each run of whole batches, ascending."""

    def whole_behind(self, offset: int) -> tuple[tuple[int, int], ...]:
        """Return the runs from *offset* on."""
        return tuple((max(first, offset), last) for first, last in self.whole if last >= offset)


def damaged_ranges(  # noqa: PLR0913 - the segment, and what is known of its records
    directory: Directory,
    context: SegmentContext,
    base_offset: int,
    state: LogState | None,
    first_offset: int,
    end_offset: int | None,
    following: int | None,
) -> DamagedLog:
    """Go through the ``.log`` of a segment, beyond what is damaged.

    Parameters
    ----------
    directory, context, base_offset
        The segment.
    state : LogState or None
        From where on the log has no gap, where that can be relied on.
    first_offset : int
        The first that the segment should hold.
    end_offset : int or None
        Where its records are known to have ended; None = nobody knows.
    following : int or None
        Where the next segment begins: no batch of this one has an offset from there on.
    """
    segment = Segment(context, base_offset)
    reasons: dict[tuple[int, int], NoBatch] = {}
    try:
        name, size = segment.name, segment.size_bytes
        search = BatchSearch(directory, segment, name, 0, reasons, lambda _: None)
        gapless_from = None if state is None else state.contiguous_from
        known_end = -1 if end_offset is None else end_offset
        most = MAX_LONG if following is None else following
        kept = [
            rows[chosen]
            for rows, chosen, _ in choose_batches(
                search.rows(), [base_offset], gapless_from, end_offset=known_end, below=most
            )
        ]
    finally:
        segment.close_quietly()
    good = np.concatenate(kept) if kept else np.empty(0, ROW)
    ranges = [
        found._replace(is_zero=_is_zero(directory, name, found))
        for found in _between(good, size, reasons, first_offset, end_offset)
    ]
    return DamagedLog(ranges, _runs(good))


def _between(
    good: np.ndarray,
    size: int,
    reasons: dict[tuple[int, int], NoBatch],
    first_offset: int,
    end_offset: int | None,
) -> Iterator[DamagedRange]:
    """Yield what is before, between and behind the *good* batches."""
    begins = np.append(good["position"], size)
    ends = np.append([0], good["position"] + good["size"])
    for row in np.flatnonzero(ends < begins).tolist():
        begin, end = int(ends[row]), int(begins[row])
        is_last = row == len(good)
        next_offset = end_offset if is_last else int(good["base_offset"][row])
        first = first_offset if row == 0 else int(good["last_offset"][row - 1]) + 1
        why = {at: reason for (_, at), reason in reasons.items() if begin <= at < end}
        unreadable = [at for at, reason in why.items() if reason.os_error is not None]
        yield DamagedRange(
            begin,
            end - begin,
            first,
            None if next_offset is None else max(first, next_offset),
            next((reason.reason for reason in why.values()), None),
            min(unreadable, default=None),
            is_zero=False,
            is_last=is_last,
        )


def _is_zero(directory: Directory, name: str, found: DamagedRange) -> bool:
    position, end = found.position, found.position + found.size_bytes
    while position < end and found.unreadable_at is None:
        try:
            piece = directory.read_range(name, position, min(_PIECE_BYTES, end - position))
        except ReadIOError:
            return False
        if not piece or piece.strip(b"\0"):
            return False
        position += len(piece)
    return found.unreadable_at is None


def _runs(good: np.ndarray) -> list[tuple[int, int]]:
    """Return first and last offset of each run of batches that follow one another."""
    if not len(good):
        return []
    begins = np.flatnonzero(good["base_offset"][1:] != good["last_offset"][:-1] + 1) + 1
    firsts = good["base_offset"][np.append([0], begins)]
    lasts = good["last_offset"][np.append(begins - 1, [len(good) - 1])]
    return [*zip(firsts.tolist(), lasts.tolist(), strict=True)]
