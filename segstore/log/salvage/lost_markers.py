"""How transactions ended whose markers are lost: as far as the transaction indexes have it.

An ABORT marker that is not in the log any more makes what was aborted look committed as soon as its
producer ends another transaction. The source's index may still name it [TXX-2]: then the marker is
made anew, where it was. An index is believed that has an entry for each ABORT marker that is left.
Where no index tells, nobody knows, and the report says so.

Source: [DUR-7, DUR-62].
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.errors import SegstoreError
from segstore.log.files.partition_directory import file_name
from segstore.log.local.batch_transactions import TransactionEnds
from segstore.log.local.segment import Segment
from segstore.log.local.transaction_index import TRANSACTION_INDEX_ENTRY_BYTES, TransactionIndex
from segstore.types import CONTROL_FLAG, CURRENT_MAGIC, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np

    from segstore._core import Directory, SegmentContext
    from segstore.log.local.transaction_index import AbortedTransaction
    from segstore.log.recovery.salvage_report import LostRange

_MOST_WARNINGS: Final = 20


class LostMarkers:
    """What the transaction indexes of a damaged log say of it.

    Parameters
    ----------
    directory : Directory
        Of the damaged log.
    base_offsets : sequence of int
        Of its segments, ascending.
    """

    def __init__(self, directory: Directory, base_offsets: Sequence[int]) -> None:
        self._directory = directory
        self._bases = base_offsets
        self._telling = {base for base in base_offsets if self._can_tell(base)}
        self._entries = self._all_entries()
        self._next = next(self._entries, None)

    def _can_tell(self, base: int) -> bool:
        """Whether the index of a segment may be as it was written: one without entries may not."""
        index = TransactionIndex(self._directory, base)
        try:
            size = self._directory.info(index.name).size
            is_whole = size > 0 and size % TRANSACTION_INDEX_ENTRY_BYTES == 0
            return is_whole and _ascend(index, base, self._end_of(base))
        except SegstoreError:
            return False

    def _end_of(self, base: int) -> int:
        behind = bisect_right(self._bases, base)
        return self._bases[behind] if behind < len(self._bases) else base + 2**31

    def _all_entries(self) -> Iterator[AbortedTransaction]:
        for base in self._bases:
            if base in self._telling:
                yield from TransactionIndex(self._directory, base)

    def between(self, first_offset: int, next_offset: int) -> Iterator[AbortedTransaction]:
        """Yield the transactions whose ABORT was in that range; ranges are asked for ascending."""
        while self._next is not None and self._next.last_offset < next_offset:
            one, self._next = self._next, next(self._entries, None)
            if one.last_offset >= first_offset:
                yield one

    def doubt(self, aborted: AbortedTransaction) -> None:
        """Take note that nothing is left of what an index names: no checksum covers its entries.

        All of the transaction may be lost, or it may be another one's.
        """
        self._telling.discard(self._base_of(aborted.last_offset))

    def compare(self, context: SegmentContext, base_offsets: Iterable[int]) -> None:
        """Believe no index that lacks an ABORT marker of the new log, which is written."""
        named = {one.last_offset for one in self._all_entries()}
        ends = TransactionEnds(0)
        for base in base_offsets:
            segment = Segment(context, base)
            try:
                ends.begin_segment(segment)
                ends.go_through(segment, segment.size_bytes)
            finally:
                segment.close_quietly()
            for abort in ends.aborts:
                if abort.first_offset is not None and abort.marker not in named:
                    self._telling.discard(self._base_of(abort.marker))

    def _base_of(self, offset: int) -> int:
        return self._bases[bisect_right(self._bases, offset) - 1] if self._bases else -1

    def name_of(self, offset: int) -> str:
        """Return the name of the index that a marker at *offset* belongs to."""
        return file_name(self._base_of(offset), "txnindex")

    def tell(self, first_offset: int, next_offset: int) -> bool:
        """Whether all that was aborted in that range is known."""
        bases = self._bases
        if not bases:
            return False
        first = max(bisect_right(bases, first_offset) - 1, 0)
        return all(
            base in self._telling
            for base in bases[first:]
            if base < max(next_offset, first_offset + 1)
        )

    def begins_of(self, markers: set[int]) -> dict[int, int]:
        """Return where the transactions began that these markers aborted."""
        return {
            one.last_offset: one.first_offset
            for one in self._all_entries()
            if one.last_offset in markers
        }


def _ascend(entries: Iterable[AbortedTransaction], low: int, high: int) -> bool:
    """Whether the entries are in order, and their markers in ``[low, high)``."""
    before = low - 1
    for one in entries:
        if not (one.first_offset <= one.last_offset and before < one.last_offset < high):
            return False
        before = one.last_offset
    return True


class _Doubt(NamedTuple):
    """A transaction that was open where something was lost, and that a later marker ended."""

    producer_id: int
    begin: int
    lost_from: int
    marker: int
    is_reported: bool
    """The indexes have all ABORT markers of what was lost."""


def unfinished_batch(
    context: SegmentContext, base_offsets: Iterable[int], aborted: AbortedTransaction
) -> np.void | None:
    """Return the header of the last batch that *aborted* has left in a log; None without one.

    None also where a marker is left between: what ended there is another transaction.

    Parameters
    ----------
    context, base_offsets : SegmentContext, iterable of int
        The log, as far as it is written.
    """
    bases = list(base_offsets)
    last = None
    for base in bases[max(bisect_right(bases, aborted.first_offset) - 1, 0) :]:
        for rows in _transactional_rows(context, base):
            mine = rows[
                (rows["producer_id"] == aborted.producer_id)
                & (rows["last_offset"] >= aborted.first_offset)
                & (rows["base_offset"] < aborted.last_offset)
            ]
            if (mine["attributes"] & CONTROL_FLAG).any():
                return None
            if len(mine):
                last = mine[-1]
    return last


def doubted_ends(
    context: SegmentContext,
    base_offsets: Iterable[int],
    lost: Iterable[LostRange],
    markers: LostMarkers,
) -> list[str]:
    """Return what is to be said of transactions whose end may be among what was lost.

    Parameters
    ----------
    context, base_offsets : SegmentContext, iterable of int
        The new log.
    lost : iterable of LostRange
        What it lacks.
    """
    ranges = sorted(
        (one.first_offset, 2**63 - 1 if one.next_offset is None else one.next_offset)
        for one in lost
        if one.next_offset is None or one.next_offset > one.first_offset
    )
    if not ranges:
        return []
    base_offsets = list(base_offsets)
    markers.compare(context, base_offsets)
    doubts = list(_doubts(context, base_offsets, ranges, markers))
    begins = markers.begins_of({doubt.marker for doubt in doubts})
    left = [
        doubt
        for doubt in doubts
        if not (
            doubt.is_reported
            and markers.tell(doubt.marker, doubt.marker + 1)
            and begins.get(doubt.marker, doubt.begin) == doubt.begin
        )
    ]
    told = [
        f"the end of a transaction of producer {doubt.producer_id} from offset {doubt.begin} on may"
        f" be among what was lost from {doubt.lost_from} on: its records count as what the marker"
        f" at offset {doubt.marker} says, committed or aborted, and may have been the other"
        for doubt in left[:_MOST_WARNINGS]
    ]
    more = len(left) - len(told)
    return told if more <= 0 else [*told, f"and so may the ends of {more} more transactions be"]


def _doubts(
    context: SegmentContext,
    base_offsets: Iterable[int],
    ranges: Sequence[tuple[int, int]],
    markers: LostMarkers,
) -> Iterator[_Doubt]:
    begins: dict[int, int] = {}
    crossed: dict[int, tuple[int, bool]] = {}
    passed = 0
    for row in _rows(context, base_offsets):
        offset, producer_id = int(row["base_offset"]), int(row["producer_id"])
        while passed < len(ranges) and ranges[passed][0] <= offset:
            is_reported = markers.tell(*ranges[passed])
            for one in begins:
                lost_from, was_reported = crossed.get(one, (ranges[passed][0], True))
                crossed[one] = lost_from, was_reported and is_reported
            passed += 1
        if not row["attributes"] & CONTROL_FLAG:
            begins.setdefault(producer_id, offset)
            continue
        begin, loss = begins.pop(producer_id, None), crossed.pop(producer_id, None)
        if begin is not None and loss is not None:
            yield _Doubt(producer_id, begin, loss[0], offset, loss[1])


def _rows(context: SegmentContext, base_offsets: Iterable[int]) -> Iterator[np.void]:
    for base in base_offsets:
        for rows in _transactional_rows(context, base):
            yield from rows


def _transactional_rows(context: SegmentContext, base: int) -> Iterator[np.ndarray]:
    segment = Segment(context, base)
    try:
        for headers, _ in segment.scan_windows(check_crc=False):
            is_marked = headers["attributes"] & TRANSACTIONAL_FLAG != 0
            yield headers[is_marked & (headers["magic"] >= CURRENT_MAGIC)]
    finally:
        segment.close_quietly()
