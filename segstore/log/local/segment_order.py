"""What the order of the segments says of their batches: none missing, none in two places.

Source: [DUR-54, DUR-79].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.config import MAX_LONG
from segstore.errors import CorruptLogError
from segstore.log.directory.ways_out import missing_records, salvage_hint
from segstore.log.local.local_transactions import LocalTransactions
from segstore.log.local.written_order import WrittenOrder

if TYPE_CHECKING:
    from segstore.log.local.segment import Segment


class SegmentOrder(LocalTransactions):
    """What is asked when a reader goes from one segment to the next."""

    @property
    def is_kafkas(self) -> bool:
        """Whether a broker's own handle would do the same: it is not one that only reads."""
        return self._context.kafka_profile and self._context.writable

    def check_no_gap(self, segment: Segment, following: Segment | None) -> None:
        """Never step silently over records that are missing between two segments [DUR-79].

        Raises
        ------
        CorruptLogError
            *segment* ends before *following* begins, in a log that is contiguous there.
        """
        if following is None or self.is_kafkas:
            return
        end, ends_clean = segment.read_next_offset()
        self.check_within(segment, end - 1)
        if self.may_have_gaps:
            return
        end = max(end, segment.base_offset)
        if end < following.base_offset and self.is_contiguous_from(end):
            if not ends_clean:
                raise CorruptLogError(
                    f"its batches end before offset {following.base_offset}: what follows is no"
                    f" batch, or missing; {salvage_hint(self.directory.path)}",
                    file=segment.path,
                    found="bytes that are no batch",
                    expected=f"a batch from offset {end} on",
                )
            raise CorruptLogError(
                f"{missing_records(end, following.base_offset)} before it;"
                f" {salvage_hint(self.directory.path)}",
                file=following.path,
                found=f"base offset {following.base_offset}",
                expected=f"base offset {end}",
            )

    def end_of_segment(self, base_offset: int) -> int:
        """Return where the segment behind that of *base_offset* begins, 2^63-1 behind the last.

        To a broker also behind the others: it hands out what it finds. The segments behind the log
        end, which a handle that only reads leaves where they are, do not count.
        """
        end = self.log_end
        if self.is_kafkas or base_offset >= end.segment_base_offset:
            return MAX_LONG
        following = self.segments.higher_segment(base_offset)
        if following is None:
            return MAX_LONG
        if (
            following.base_offset == end.segment_base_offset
            and not end.relative_position_in_segment
        ):
            return max(end.message_offset, following.base_offset)
        return following.base_offset

    def check_within(self, segment: Segment, offset: int, position: int | None = None) -> None:
        """Never hand out a record with an offset that is another segment's [DUR-54, DUR-79].

        No CRC covers the base offset of a batch.

        Raises
        ------
        CorruptLogError
            A batch of *segment* has *offset*, at or above the base offset of the next one.
        """
        end = self.end_of_segment(segment.base_offset)
        if offset >= end:
            raise CorruptLogError(
                "the base offset of a batch is not what was written: the next segment begins below"
                f" its end; {salvage_hint(self.directory.path)}",
                file=segment.path,
                position=position,
                found=f"offset {offset}",
                expected=f"an offset below {end}",
            )

    @property
    def written_order(self) -> WrittenOrder:
        """What is known of the order in which the batches were written."""
        return WrittenOrder(self.directory, has_gaps=self.may_have_gaps, looks_away=self.is_kafkas)

    def is_contiguous_from(self, offset: int) -> bool:
        """Whether every offset from *offset* on was written, by what the writer says on disk."""
        return self.written_order.is_contiguous_from(offset)
