"""Every transaction index of a log against all of its batches; writes nothing [DUR-7, TXX-1].

What a first use compares, an index with its note or its entries with their markers, does not show
every entry that is missing; to walk all transactions does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import SegmentContext
from segstore.config import LogConfig
from segstore.errors import (
    CorruptIndexError,
    LogNotFoundError,
    SegstoreError,
    UnsupportedFormatError,
)
from segstore.log.directory.background import BackgroundWorker
from segstore.log.directory.log_places import LogPlaces
from segstore.log.directory.partition_path import (
    absolute_path,
    open_parent_directory,
    open_partition_directory,
)
from segstore.log.loader.read_only_loader import ReadOnlyLoader
from segstore.log.loader.recovery_report import RecoveryReport
from segstore.log.local.local_log import LocalLog
from segstore.log.local.transaction_index import TransactionIndex
from segstore.log.local.transaction_walk import TransactionWalk, Walked
from segstore.records.compression import codec_table
from segstore.types import NO_PRODUCER_ID, LogOffsetMetadata

if TYPE_CHECKING:
    from segstore._core import CodecTable


_Aborted = dict[int, tuple[int, int]]
"""Producer id and first offset by marker."""


def find_damaged_transaction_indexes(
    local_log: LocalLog, codecs: CodecTable, log_start_offset: int
) -> dict[int, str]:
    """Return what is wrong with which transaction index, by the base offset of its segment."""
    segments, log_end = local_log.segments, local_log.log_end
    first = segments.first_segment.base_offset
    aborted: dict[int, _Aborted] = {}
    walk = _walk_from(LogOffsetMetadata(first, first, 0), local_log, codecs)
    for marker, transaction in _aborted_of(walk.walk()).items():
        segment = segments.floor_segment(marker)
        if segment is not None:
            aborted.setdefault(segment.base_offset, {})[marker] = transaction
    visible = _VisibleTransactions(local_log, codecs, log_start_offset)
    damaged = {}
    for base in segments.base_offsets:
        try:
            notes = local_log.transaction_index_notes
            if notes is not None:
                notes.check(base, segments, log_end.message_offset, codecs)
            index = TransactionIndex(local_log.directory, base)
            there = {one.last_offset: (one.producer_id, one.first_offset) for one in index}
        except (CorruptIndexError, UnsupportedFormatError) as error:
            damaged[base] = error.message
            continue
        except LogNotFoundError:
            continue  # deleted by its writer meanwhile
        for marker, transaction in aborted.get(base, {}).items():
            producer_id, first_offset = transaction
            entry = there.get(marker, (NO_PRODUCER_ID, 0))
            known, begins = entry
            may_begin_before = walk.first_markers.get(producer_id) == marker  # that was deleted
            is_right = begins == first_offset or (begins < first and may_begin_before)
            if known == producer_id and is_right:
                continue
            if not visible.are_told(marker, entry, transaction):
                damaged[base] = (
                    f"does not have the transaction of producer {producer_id} from offset"
                    f" {first_offset} on, which was aborted at {marker}"
                )
                break
    return damaged


class _VisibleTransactions:
    """Transactions as they are from the log start on.

    Who begins there, as a recovery [LDR-17] or the producers behind a truncation [PSM-56], makes
    entries of what he has read: one that began before has lost that part, or all but its marker,
    and no reader is shown any of it.
    """

    def __init__(self, local_log: LocalLog, codecs: CodecTable, log_start_offset: int) -> None:
        self._log_start_offset = log_start_offset
        self._local_log = local_log
        self._codecs = codecs
        self._aborted: _Aborted | None = None

    def are_told(self, marker: int, entry: tuple[int, int], transaction: tuple[int, int]) -> bool:
        """Whether *entry*, perhaps none, tells what counts of *transaction*, which it is not."""
        known, begins = entry
        producer_id, first_offset = transaction
        if first_offset >= self._log_start_offset:
            return False
        if self._aborted is None:
            walk = _walk_from(self._begin(), self._local_log, self._codecs)
            self._aborted = _aborted_of(walk.walk())
        if known == NO_PRODUCER_ID:
            return marker not in self._aborted
        _, visible_from = self._aborted.get(marker, (producer_id, marker))
        return known == producer_id and first_offset <= begins <= visible_from

    def _begin(self) -> LogOffsetMetadata:
        """Where the log start is; where its segment begins when a damaged one cannot tell."""
        segments = self._local_log.segments
        segment = segments.floor_segment(self._log_start_offset) or segments.first_segment
        base = segment.base_offset
        try:
            return self._local_log.offset_metadata(max(self._log_start_offset, base))
        except SegstoreError:
            return LogOffsetMetadata(base, base, 0)


def _walk_from(
    place: LogOffsetMetadata, local_log: LocalLog, codecs: CodecTable
) -> TransactionWalk:
    """Return a walk from that batch on."""
    nothing = Walked(*place, {}, ())
    return TransactionWalk(local_log, codecs, local_log.segments, local_log.log_end, nothing)


def _aborted_of(walked: Walked) -> _Aborted:
    return {
        marker: (producer_id, first_offset) for producer_id, first_offset, marker in walked.aborted
    }


def find_damaged_transaction_indexes_of(path: str) -> dict[int, str]:
    """As `find_damaged_transaction_indexes`, of the partition at *path*."""
    path, codecs = absolute_path(path), codec_table()
    directory, topic_partition = open_partition_directory(path, read_only=True)
    parent = None
    try:
        parent = open_parent_directory(path)
        context = SegmentContext(directory, codecs, writable=False, heap_indexes=True)
        places = LogPlaces(directory, parent, topic_partition)
        loaded = ReadOnlyLoader(directory, places, context, RecoveryReport()).load()
        worker = BackgroundWorker("")
        local_log = LocalLog(
            directory, context, LogConfig(), loaded.segments, loaded.log_end, worker, codecs
        )
        local_log.may_have_gaps = loaded.may_have_gaps
        local_log.transaction_index_notes = loaded.transaction_index_notes
        try:
            return find_damaged_transaction_indexes(local_log, codecs, loaded.log_start_offset)
        finally:
            local_log.close_quietly()
    finally:
        directory.close()
        if parent is not None:
            parent.close()
