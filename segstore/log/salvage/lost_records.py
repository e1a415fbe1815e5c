"""Which records of a damaged segment are lost: those that no whole batch of its file has.

What an open or a scan says of damage is where the good batches end. Behind that others may be
whole, wherever they begin: the same that a salvage would keep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.errors import SegstoreError
from segstore.log.local.batch_search import BatchSearch
from segstore.log.local.segment import Segment
from segstore.log.salvage.batch_chain import choose_batches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore._core import Directory, SegmentContext
    from segstore.log.files.checkpoints import LogState

_MAX_NAMED = 5


class LostRecords:
    """Offsets of a damaged segment, from the first that a scan does not reach on.

    Parameters
    ----------
    first_offset : int
        Behind the good batches that a scan finds.
    end_offset : int or None
        Where the records are known to have ended; None = nobody knows.
    whole : iterable of (int, int)
        First and last offset of each whole batch behind the damage, ascending.
    """

    def __init__(
        self, first_offset: int, end_offset: int | None, whole: Iterable[tuple[int, int]]
    ) -> None:
        self.ranges: list[tuple[int, int]] = []
        """First and last offset of each run of lost records."""
        self.whole: list[tuple[int, int]] = []
        """The runs between them, and behind: their batches are whole."""
        self.open_from: int | None = None
        """From there on nobody knows which records there were."""
        reached = first_offset
        for first, last in whole:
            if last < reached or (end_offset is not None and first >= end_offset):
                continue
            if first > reached:
                self.ranges.append((reached, first - 1))
            _extend(self.whole, max(first, reached), last)
            reached = last + 1
        if end_offset is None:
            self.open_from = reached
        elif reached < end_offset:
            self.ranges.append((reached, end_offset - 1))

    @property
    def are_any(self) -> bool:
        """Whether a record is lost."""
        return bool(self.ranges) or self.open_from is not None

    @property
    def are_many(self) -> bool:
        """Whether more than one record is lost."""
        return self.open_from is not None or sum(b - a + 1 for a, b in self.ranges) > 1

    def __str__(self) -> str:
        told = runs_text(self.ranges)
        if self.open_from is None:
            return told
        behind = f"records from offset {self.open_from} on"
        return f"{told}, and {behind}" if told else behind


def _extend(runs: list[tuple[int, int]], first: int, last: int) -> None:
    if runs and runs[-1][1] + 1 == first:
        runs[-1] = (runs[-1][0], last)
    else:
        runs.append((first, last))


def runs_text(runs: list[tuple[int, int]]) -> str:
    """Name runs of records; of very many the first ones, and where the last one ends."""
    if not runs:
        return ""
    named = [str(first) if first == last else f"{first} to {last}" for first, last in runs]
    if len(named) > _MAX_NAMED:
        more = f"{len(named) - _MAX_NAMED} more ranges up to {runs[-1][1]}"
        named = [*named[:_MAX_NAMED], more]
    is_one = len(runs) == 1 and runs[0][0] == runs[0][1]
    listed = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
    return f"{'record' if is_one else 'records'} {listed}"


def lost_records(  # noqa: PLR0913 - the segment, and what is known of its records
    directory: Directory,
    context: SegmentContext,
    base_offset: int,
    state: LogState | None,
    first_offset: int,
    end_offset: int | None,
) -> LostRecords:
    """Look for whole batches behind the damage of a segment, from its beginning on.

    Parameters
    ----------
    directory, context, base_offset
        The segment.
    state : LogState or None
        From where on the log has no gap, where that can be relied on.
    first_offset, end_offset : int, int or None
        As `LostRecords` has them. All from the first on count as lost where the file cannot be
        read.
    """
    whole: list[tuple[int, int]] = []
    reaches_end = False
    segment = Segment(context, base_offset)
    try:
        search = BatchSearch(directory, segment, segment.name, 0, {}, lambda _: None)
        known_end = -1 if end_offset is None else end_offset
        gapless_from = None if state is None else state.contiguous_from
        for rows, kept, _ in choose_batches(
            search.rows(), [base_offset], gapless_from, end_offset=known_end
        ):
            chosen = rows[kept & (rows["last_offset"] >= first_offset)]
            whole += zip(
                chosen["base_offset"].tolist(), chosen["last_offset"].tolist(), strict=True
            )
            reaches_end = bool(kept[-1])
    except SegstoreError:  # told by who reads it
        whole.clear()
    finally:
        segment.close_quietly()
    if end_offset is None and reaches_end and whole:
        end_offset = whole[-1][1] + 1
    return LostRecords(first_offset, end_offset, whole)
