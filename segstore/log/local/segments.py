"""The segments of a log: an immutable sorted snapshot that is replaced, never changed.

Source: [MAP-*, D6].
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from contextlib import suppress
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from segstore._core import in_order, size_of_segments
from segstore.errors import (
    ClosedError,
    CorruptLogError,
    CorruptRecordError,
    IllegalArgumentError,
    IllegalStateError,
    LimitExceededError,
    LogNotFoundError,
    UnsupportedFormatError,
)
from segstore.number_limits import MAX_LONG, MIN_LONG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from segstore.log.local.segment import Segment


_DAMAGED_OR_GONE: Final = (
    ClosedError,
    CorruptLogError,
    CorruptRecordError,
    LimitExceededError,
    LogNotFoundError,
    UnsupportedFormatError,
)
_base_offset: Callable[[Segment], int] = attrgetter("base_offset")
_serial_numbers: Final = count()


class Segments:
    """Segments in order of their base offsets (Kafka ``LogSegments``).

    Readers take the whole object with one attribute read and never see it change.

    Attributes
    ----------
    as_tuple : tuple of Segment
        The segments, ascending.
    base_offsets : array of int
        Theirs, ascending; not to be changed.
    running_maxima : tuple of int
        The largest timestamp up to the end of each segment, as far as it was asked for.
    ends : tuple of int
        The offset behind the last batch of each sealed segment, as far as it was asked for.
    serial_number : int
        Which snapshot of this process it is. What is remembered of a snapshot has this number, and
        not the snapshot: a reference would keep the files of deleted segments open.
    """

    __slots__ = ("as_tuple", "base_offsets", "ends", "lane", "running_maxima", "serial_number")

    lane: Any
    """What reads this snapshot the short way, once somebody did; None before."""

    def __init__(
        self,
        segments: Iterable[Segment] = (),
        running_maxima: tuple[int, ...] = (),
        ends: tuple[int, ...] = (),
    ) -> None:
        self.as_tuple, self.base_offsets = in_order(segments)
        self.running_maxima = running_maxima
        self.ends = ends
        self.serial_number = next(_serial_numbers)
        self.lane = None

    def keep_lane(self, lane: Any) -> None:
        """Keep what reads this snapshot the short way, for the readers that come later."""
        self.lane = lane

    def __len__(self) -> int:
        return len(self.as_tuple)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.as_tuple)

    def __contains__(self, base_offset: object) -> bool:
        return isinstance(base_offset, int) and self.get(base_offset) is not None

    @property
    def first_segment(self) -> Segment:
        """The oldest segment."""
        return self._at(0)

    @property
    def active_segment(self) -> Segment:
        """The newest segment, the one that appends go to [MAP-6]."""
        return self._at(-1)

    @property
    def size_in_bytes(self) -> int:
        """Sum of the sizes of all ``.log`` files."""
        return size_of_segments(self.as_tuple)

    def get(self, base_offset: int) -> Segment | None:
        """Return the segment with exactly that base offset."""
        index = bisect_left(self.base_offsets, base_offset)
        if index < len(self.base_offsets) and self.base_offsets[index] == base_offset:
            return self.as_tuple[index]
        return None

    def floor_segment(self, offset: int) -> Segment | None:
        """Return the segment with the greatest base offset at or below *offset* [MAP-2]."""
        index = bisect_right(self.base_offsets, offset)
        return self.as_tuple[index - 1] if index else None

    def lower_segment(self, offset: int) -> Segment | None:
        """Return the segment with the greatest base offset below *offset*."""
        index = bisect_left(self.base_offsets, offset)
        return self.as_tuple[index - 1] if index else None

    def higher_segment(self, offset: int) -> Segment | None:
        """Return the segment with the smallest base offset above *offset*."""
        index = bisect_right(self.base_offsets, offset)
        return self.as_tuple[index] if index < len(self.as_tuple) else None

    def higher_segments(self, offset: int) -> tuple[Segment, ...]:
        """Return all segments with a base offset above *offset* [MAP-3]."""
        return self.as_tuple[bisect_right(self.base_offsets, offset) :]

    def values(self, from_offset: int, to_offset: int) -> tuple[Segment, ...]:
        """Return the segments that may hold offsets of ``[from_offset, to_offset)`` [MAP-4].

        Raises
        ------
        IllegalArgumentError
            The range is reversed.
        """
        if to_offset < from_offset:
            raise IllegalArgumentError(
                f"the range from {from_offset} to {to_offset} is reversed",
                found=f"{from_offset} to {to_offset}",
                expected="from at or below to",
            )
        if from_offset == to_offset:
            return ()
        start = max(bisect_right(self.base_offsets, from_offset) - 1, 0)
        return self.as_tuple[start : bisect_left(self.base_offsets, to_offset)]

    def non_active_segments_from(self, from_offset: int) -> tuple[Segment, ...]:
        """Return the segments from the floor of *from_offset* on, without the active one.

        Source: [MAP-5].
        """
        active = self.active_segment.base_offset
        return () if from_offset > active else self.values(from_offset, active)

    def reaching_timestamp(self, timestamp: int) -> Iterator[Segment]:
        """Yield the segments that may have a record with *timestamp* or a later one.

        Kafka asks one segment after the other [TS-2]. The largest timestamp so far never falls from
        one to the next, and those of sealed segments stay: they are asked once, and then searched.
        One that damage may hide is not kept [DUR-79].
        """
        maxima = self.running_maxima
        sealed_count = len(self.as_tuple) - 1
        if len(maxima) < sealed_count and (not maxima or maxima[-1] < timestamp):
            known = list(maxima)
            largest = known[-1] if known else MIN_LONG
            while len(known) < sealed_count and largest < timestamp:
                latest = self.as_tuple[len(known)].latest_possible_timestamp()
                if latest == MAX_LONG:
                    break
                largest = max(largest, latest)
                known.append(largest)
            maxima = self.running_maxima = tuple(known)
        first = bisect_left(maxima, timestamp)
        if first < len(maxima):  # where the maximum rises to it: that segment has it
            yield self.as_tuple[first]
            first += 1
        for index in range(first, len(self.as_tuple)):
            if self.as_tuple[index].latest_possible_timestamp() >= timestamp:
                yield self.as_tuple[index]

    def holding_beyond(self, segment: Segment, first_offset: int, next_offset: int) -> str | None:
        """Return the file of a segment before *segment* that has a batch of a range; None without.

        Such a file goes on beyond the base offset of *segment*. A clean open reads no batch, so
        each segment is asked where it ends, once. One that is damaged is reported by its reads.
        """
        count = bisect_left(self.base_offsets, segment.base_offset)
        ends = self.ends
        if len(ends) < count:
            ends = self.ends = (*ends, *map(_end_of, self.as_tuple[len(ends) : count]))
        for before, end in zip(self.as_tuple[:count], ends, strict=False):
            if end > first_offset:
                with suppress(*_DAMAGED_OR_GONE):
                    found = before.translate_offset(first_offset)
                    if found is not None and found.base_offset < next_offset:
                        return before.name
        return None

    def with_segment(self, segment: Segment) -> Segments:
        """Return a snapshot with *segment* added; it replaces one with the same base offset."""
        if self.base_offsets and segment.base_offset > self.base_offsets[-1]:
            return Segments([*self.as_tuple, segment], self.running_maxima, self.ends)
        kept = [other for other in self.as_tuple if other.base_offset != segment.base_offset]
        return Segments([*kept, segment])

    def without(self, segments: Iterable[Segment]) -> Segments:
        """Return a snapshot without *segments*."""
        dropped = {id(segment) for segment in segments}
        return Segments(segment for segment in self.as_tuple if id(segment) not in dropped)

    def _at(self, index: int) -> Segment:
        if not self.as_tuple:
            raise IllegalStateError("the log has no segment")
        return self.as_tuple[index]


def _end_of(segment: Segment) -> int:
    try:
        return segment.read_next_offset()[0]
    except _DAMAGED_OR_GONE:
        return MIN_LONG


def floor_index(segments: Sequence[Segment], offset: int) -> int:
    """Return the index of the segment that holds *offset*, 0 when it lies below all [LDR-23]."""
    return max(bisect_right(segments, offset, key=_base_offset) - 1, 0)


def next_base_offset(segments: Sequence[Segment], index: int) -> int:
    """Return the base offset of the segment after that one, 2^63-1 after the last."""
    return segments[index + 1].base_offset if index + 1 < len(segments) else MAX_LONG
