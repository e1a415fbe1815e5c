"""What the cleaner keeps of a group of segments: one ``.cleaned`` segment, seldom more.

Source: [CLN-70, CLN-75..CLN-78, CLN-97].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import Barrier, DataFile
from segstore.log.files.partition_directory import CLEANED_FILE_SUFFIX, file_name
from segstore.log.local.segment_replacement import delete_cleaned_segments, finish_cleaned_segment
from segstore.log.local.transaction_index import AbortedTransaction
from segstore.number_limits import MAX_INT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment


class CleanedOutput:
    """The segments that are written for one group, and their transaction indexes.

    Attributes
    ----------
    segments : list of Segment
        Ascending; the last takes what comes.
    """

    def __init__(self, local_log: LocalLog, base_offset: int) -> None:
        self._local_log = local_log
        self._aborted: list[AbortedTransaction] = []
        self.segments = [local_log.new_cleaned_segment(base_offset)]

    @property
    def segment(self) -> Segment:
        """The one that takes what comes."""
        return self.segments[-1]

    def begin_next(self, first_offset: int) -> None:
        """Go on in another segment, whose first batch has *first_offset*.

        It begins where the last one ends: so together they have all offsets of the group, and an
        open after a crash knows what they replace [DUR-20, LDR-5].
        """
        base_offset, _ = self.segment.read_next_offset()
        if first_offset - base_offset > MAX_INT // 2:
            base_offset = first_offset
        self.segments.append(self._local_log.new_cleaned_segment(base_offset))

    def note_aborted(self, transactions: Iterable[tuple[int, int, int, int]]) -> None:
        """Keep entries for the transaction index."""
        self._aborted += (AbortedTransaction(*one) for one in transactions)

    def finish(self, modified_ms: int) -> None:
        """Seal and sync everything but the names."""
        bounds = [segment.base_offset for segment in self.segments[1:]]
        for segment, bound in zip(self.segments, [*bounds, None], strict=True):
            self._write_transaction_index(segment, bound)
            finish_cleaned_segment(segment, modified_ms, self._local_log.directory)

    def _write_transaction_index(self, segment: Segment, next_base_offset: int | None) -> None:
        """Write the aborted transactions whose markers lie in *segment* [CLN-97]."""
        base = segment.base_offset
        entries = [
            one.format()
            for one in self._aborted
            if base <= one.last_offset
            and (next_base_offset is None or one.last_offset < next_base_offset)
        ]
        if entries:
            name = file_name(base, "txnindex") + CLEANED_FILE_SUFFIX
            with DataFile(self._local_log.directory, name, create=True) as file:
                file.write(0, b"".join(entries))
                file.sync(Barrier.REPLACING_RECORDS)

    def delete(self) -> None:
        """Remove all of it: nothing has become of it [CLN-77]."""
        delete_cleaned_segments(self.segments)
