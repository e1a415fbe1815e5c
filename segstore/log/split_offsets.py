"""Offsets that split a range of a log into parts of so many bytes, between batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from segstore._core import FetchedBytes
    from segstore.log.local.segment import Segment


class Span(NamedTuple):
    """The batches of one segment that reach into a range.

    Attributes
    ----------
    segment : Segment
        Of the log.
    begin, end : int
        Their bytes, ``[begin, end)`` of its ``.log``.
    first_offset, next_offset : int
        Offsets ``[first_offset, next_offset)`` of the range are in no other segment.
    """

    segment: Segment
    begin: int
    end: int
    first_offset: int
    next_offset: int


def split_offsets(spans: Iterable[Span], max_bytes: int) -> Iterator[int]:
    """Yield the base offset of each batch with which a new part begins, ascending.

    A part has at most *max_bytes* bytes of batches, or is a single batch. The cuts are found by
    bisection: some thirty look-ups in the index for each.
    """
    used = 0  # bytes of the current part in the segments before
    for span in spans:
        begin = span.begin
        while begin < span.end and used + span.end - begin > max_bytes:
            found = _last_batch_up_to(span, max(begin, begin + max_bytes - used))
            if found is not None and found.position == begin and used == 0:
                behind = begin + found.first_batch_size  # which is larger than a part
                found = _last_batch_up_to(span, behind) if behind < span.end else None
            if found is None or found.position < begin or (found.position == begin and used == 0):
                break  # behind damage there is no way on
            yield found.base_offset
            begin, used = found.position, 0
        used += span.end - begin


def _last_batch_up_to(span: Span, position: int) -> FetchedBytes | None:
    """Return the last batch of *span* that begins at *position* or before."""
    low, high = span.first_offset, span.next_offset - 1
    best = None
    while low <= high:
        middle = (low + high) // 2
        found = span.segment.translate_offset(middle, span.end)
        if found is None or found.position > position:
            high = middle - 1
        elif position < found.position + found.first_batch_size:
            return found
        else:
            best, low = found, middle + 1
    return best
