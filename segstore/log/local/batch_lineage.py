"""Which batches are of a log's history of leader epochs [DUR-141]."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from segstore.number_limits import MAX_LONG, MIN_LONG
from segstore.types import CURRENT_MAGIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore._core import BatchHeader, BatchTable
    from segstore.types import EpochEntry


class Lineage:
    """Which leader epoch each offset of a log is of [DUR-141].

    Of entries with the same start the last one counts [TIER-50]. The first one begins at the log
    start; it was the epoch of the batch that holds that offset too, and may begin before it.
    """

    __slots__ = ("_entries", "_starts")

    def __init__(self, entries: Sequence[EpochEntry]) -> None:
        self._entries = entries
        self._starts = [entry.start_offset for entry in entries]

    def epoch_at(self, offset: int) -> int | None:
        """Return the epoch of an offset; None below the first one."""
        place = bisect_right(self._starts, offset) - 1
        return None if place < 0 else self._entries[place].epoch

    def range_of_epoch(self, offset: int) -> tuple[int, int]:
        """Return where the epoch of *offset* begins and ends; the first one may begin before."""
        place = bisect_right(self._starts, offset)
        begin = self._starts[place - 1] if place > 1 else MIN_LONG
        return begin, self._starts[place] if place < len(self._starts) else MAX_LONG

    def entries_from(self, offset: int) -> Sequence[EpochEntry]:
        """Return the epochs from that of *offset* on."""
        return self._entries[max(bisect_right(self._starts, offset) - 1, 0) :]

    def agrees(self, other: Lineage, offset: int) -> bool:
        """Whether both have the same epoch at an offset."""
        ours, theirs = self.entries_from(offset), other.entries_from(offset)
        return bool(ours and theirs) and ours[0].epoch == theirs[0].epoch

    def has(self, batch: BatchHeader) -> bool:
        """Whether a batch is of this history; one of magic 0 or 1 does not say it."""
        return batch.magic < CURRENT_MAGIC or self._has(
            batch.base_offset, batch.last_offset, batch.partition_leader_epoch
        )

    def has_all(self, table: BatchTable) -> bool:
        """Whether all batches of a table are of one epoch of this history."""
        epoch = table.leader_epoch
        return epoch is not None and self._has(table.base_offset, table.last_offset, epoch)

    def end_of_own(self, table: BatchTable, row: int, end: int) -> int:
        """Return the first row from *row* on that is not of this history, or lies behind *end*."""
        first = row
        while row < len(table):
            batch = table[row]
            if (row > first and batch.position >= end) or not self.has(batch):
                break
            row += 1
        return row

    def _has(self, base_offset: int, last_offset: int, epoch: int) -> bool:
        entries = self.entries_from(base_offset)
        end = entries[1].start_offset if len(entries) > 1 else MAX_LONG
        return bool(entries) and entries[0].epoch == epoch and last_offset < end
