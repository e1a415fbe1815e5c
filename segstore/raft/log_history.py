"""Values that change along a log: each counts from its offset on (Kafka ``TreeMapLogHistory``)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Generic, NamedTuple, TypeVar

from segstore.arguments import integer
from segstore.errors import IllegalArgumentError

__all__ = ["HistoryEntry", "LogHistory"]

ValueT = TypeVar("ValueT")

FIRST_OFFSET = -1
"""The offset of what a bootstrap snapshot says, before the log [RAFT-46]."""


class HistoryEntry(NamedTuple, Generic[ValueT]):
    """A value, and the offset from which on it counts."""

    offset: int
    value: ValueT


class LogHistory(Generic[ValueT]):
    """Values by offset, such as the voters of a quorum [RAFT-45]."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._values: list[ValueT] = []

    def add_at(self, offset: int, value: ValueT) -> None:
        """Let *value* count from *offset* on.

        Raises
        ------
        IllegalArgumentError
            *offset* is below -1, or not above all offsets that are there.
        """
        offset = integer("offset", offset)
        least = self._offsets[-1] + 1 if self._offsets else FIRST_OFFSET
        if offset < least:
            raise IllegalArgumentError(
                f"offset {offset} does not follow the last entry",
                found=str(offset),
                expected=f"{least} or more",
            )
        self._offsets.append(offset)
        self._values.append(value)

    def value_at_or_before(self, offset: int) -> ValueT | None:
        """Return the value that counts at *offset*; None before the first one."""
        place = bisect_right(self._offsets, integer("offset", offset))
        return self._values[place - 1] if place else None

    def last_entry(self) -> HistoryEntry[ValueT] | None:
        """Return the newest value; None without one."""
        return HistoryEntry(self._offsets[-1], self._values[-1]) if self._offsets else None

    def truncate_new_entries(self, end_offset: int) -> None:
        """Remove what begins at *end_offset* or above."""
        place = bisect_left(self._offsets, integer("end_offset", end_offset))
        del self._offsets[place:], self._values[place:]

    def truncate_old_entries(self, start_offset: int) -> None:
        """Remove what no longer counts at *start_offset*."""
        place = bisect_right(self._offsets, integer("start_offset", start_offset))
        gone = max(0, place - 1)
        del self._offsets[:gone], self._values[:gone]

    def clear(self) -> None:
        """Remove all."""
        self._offsets.clear()
        self._values.clear()
