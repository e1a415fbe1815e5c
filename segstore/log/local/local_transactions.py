"""The aborted transactions of one log: the transaction indexes of its segments [TXX-*, LOC-9].

Source: Kafka ``LocalLog.collectAbortedTransactions``, ``LogSegment.updateTxnIndex``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from segstore._core import AbortedTransactions
from segstore.errors import LogNotFoundError, SegstoreError
from segstore.log.local.log_tail import LogTail
from segstore.log.local.transaction_index import AbortedTransaction, TransactionIndex

if TYPE_CHECKING:
    from segstore.types import LogOffsetMetadata


class LocalTransactions(LogTail):
    """What `LocalLog` knows of transactions that were aborted."""

    def collect_aborted_transactions(
        self,
        log_start_offset: int,
        base_offset: int,
        upper_bound_offset: int,
        *,
        in_order: bool = False,
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions in ``[log_start_offset, upper_bound_offset)`` [LOC-10].

        Those that the transaction indexes know, from the segment of *base_offset* on; one that is
        missing is empty. *in_order* believes that the entries of each ascend.

        Raises
        ------
        CorruptIndexError, UnsupportedFormatError
            An entry lies below its segment, or has another version.
        """
        segments = self.segments
        first = segments.floor_segment(base_offset)
        if first is None:
            return []
        aborted: list[AbortedTransaction] = []
        for segment in (first, *segments.higher_segments(first.base_offset)):
            index = TransactionIndex(self.directory, segment.base_offset)
            try:
                found = index.collect_aborted_transactions(
                    log_start_offset, upper_bound_offset, check=True, in_order=in_order
                )
            except LogNotFoundError:
                continue  # deleted since it was opened
            aborted += found.aborted
            if found.is_complete:
                break
        return aborted

    def prepare_aborted(self) -> None:
        """Before an ABORT marker is written: what may lack space fails here [DUR-30].

        Kafka lets the line fail, behind the marker. Of several markers in one append, as a follower
        may get them, room is found for the first line; readers would see more of them.
        """
        if self._context.kafka_profile:
            return
        self.names_version += 1
        self._index_of(self._active.base_offset).reserve()

    def forget_aborted(self) -> None:
        """Undo `prepare_aborted`: there is no marker. No reader sees what cannot be undone."""
        if not self._context.kafka_profile:
            with suppress(SegstoreError):
                self._index_of(self._active.base_offset).give_back()

    def append_aborted(self, aborted: AbortedTransaction) -> None:
        """Add a line to the transaction index of the active segment [SEG-12]."""
        base_offset = self._active.base_offset
        self.names_version += 1
        self._index_of(base_offset).append(aborted)
        unsynced = self.unsynced_transaction_indexes
        unsynced[base_offset] = unsynced.get(base_offset, 0) + 1

    def _index_of(self, base_offset: int) -> TransactionIndex:
        index = self._transaction_index
        if index is None or index.base_offset != base_offset:
            index = self._transaction_index = TransactionIndex(self.directory, base_offset)
        return index

    def begin_truncation(self, offset: int | None) -> None:
        """Write what is to be written before `LocalLog.truncate_to`; None: before a full one.

        A full disk refuses it here, and nothing has changed [DUR-30].
        """
        last = None if offset is None else self.segments.floor_segment(offset)
        if self.checksum_sidecars is not None:
            self.checksum_sidecars.forget_from(-1 if last is None else last.base_offset)

    def sync_transaction_index(self, base_offset: int) -> None:
        """Bring what `append_aborted` wrote to stable storage, with the segment's records."""
        unsynced = self.unsynced_transaction_indexes
        lines = unsynced.get(base_offset)
        if lines is not None:
            TransactionIndex(self.directory, base_offset).flush()
            if unsynced.get(base_offset) == lines:  # else another one came meanwhile
                unsynced.pop(base_offset, None)

    def aborted_between(self, offset: int, upper_bound_offset: int) -> AbortedTransactions:
        """Return the aborted transactions that a reader from *offset* on leaves out [LOC-9]."""
        found = self.collect_aborted_transactions(offset, offset, upper_bound_offset)
        return AbortedTransactions([one[:3] for one in found])

    def upper_bound_of_fetch(self, metadata: LogOffsetMetadata, size_bytes: int) -> int:
        """Return an offset that is certainly behind *size_bytes* from there on [LOC-9, OFX-6]."""
        segments, log_end = self.segments, self.log_end.message_offset
        segment = segments.floor_segment(metadata.segment_base_offset)
        if segment is None or segment.base_offset != metadata.segment_base_offset:
            return log_end
        position = metadata.relative_position_in_segment
        upper_bound_offset = segment.fetch_upper_bound_offset(position, size_bytes)
        if upper_bound_offset is not None:
            return upper_bound_offset
        following = segments.higher_segment(segment.base_offset)
        return log_end if following is None else following.base_offset
