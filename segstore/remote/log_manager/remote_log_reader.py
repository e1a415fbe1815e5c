"""Reads records that are in remote storage: batches, aborted transactions, the first of a time.

Of a segment only the bytes that a read returns are asked for, in one request in most cases: from
the entry of its offset index on, as far as the limit reaches. What is returned is a view of what
the storage gave. Headers are checked here; checksums are for whoever decodes the records.

Source: [TIER-65..TIER-71, DUR-141, DUR-144], Kafka ``RemoteLogManager.read``,
``RemoteLogManager.findOffsetByTimestamp``.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Final

from segstore._core import (
    LEAST_REMOTE_READ_BYTES,
    MOST_SKIPPED_REMOTE_BYTES,
    RemoteReadLane,
    first_batch_size,
    iterate_records,
    scan_headers,
)
from segstore.errors import (
    CorruptLogError,
    LogNotFoundError,
    OffsetOutOfRangeError,
    SegstoreError,
)
from segstore.log.local.batch_lineage import Lineage
from segstore.log.local.transaction_index import TransactionIndexSearchResult
from segstore.log.remote_tier import RemoteRead
from segstore.records.compression import codec_table
from segstore.records.fetch_data_info import FetchDataInfo
from segstore.remote.log_manager.sequential_reads import Piece, ReadAhead, ahead_bytes
from segstore.remote.metadata.remote_log_metadata_manager import WatchedMetadata
from segstore.remote.metadata.segment_metadata import RemoteLogSegmentState, TopicIdPartition
from segstore.remote.storage.remote_storage_manager import StorageOfFiles
from segstore.remote.storage.segment_files import LOG, object_name, stored_name
from segstore.types import (
    NO_PARTITION_LEADER_EPOCH,
    FileTimestampAndOffset,
    LogOffsetMetadata,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from uuid import UUID

    from segstore._core import BatchHeader
    from segstore.log.local.transaction_index import AbortedTransaction
    from segstore.remote.log_manager.remote_index_cache import RemoteIndexCache
    from segstore.remote.metadata.remote_log_metadata_manager import RemoteLogMetadataManager
    from segstore.remote.metadata.segment_metadata import RemoteLogSegmentMetadata
    from segstore.remote.storage.remote_storage_manager import RemoteStorageManager
    from segstore.types import EpochEntry, TopicPartition

_SEARCH_BYTES: Final = 256 * 1024
_MOST_SEARCH_BYTES: Final = 4 * 1024 * 1024
"""Of the requests of a search by time, which grow."""
_MOST_LOGS: Final = 1000
"""Of which something is known."""
_NO_OFFSET: Final = -1
_TRIES: Final = 3
"""To read a file of the cache that may be let go meanwhile."""


class RemoteStorageReader:
    """Reads what logs have in remote storage; fulfils `RemoteLogReader`. Any thread may call it.

    Parameters
    ----------
    storage : RemoteStorageManager
        Where the bytes are.
    metadata : RemoteLogMetadataManager
        Which segments there are.
    index_cache : RemoteIndexCache
        Their indexes.
    topic_id_of : callable
        Returns the topic id of a partition.
    """

    def __init__(
        self,
        storage: RemoteStorageManager,
        metadata: RemoteLogMetadataManager,
        index_cache: RemoteIndexCache,
        topic_id_of: Callable[[TopicPartition], UUID],
    ) -> None:
        self._storage = storage
        self._metadata = metadata
        self._index_cache = index_cache
        self._topic_id_of = topic_id_of
        self._codecs = codec_table()
        self._read_ahead = ReadAhead()
        self._files = storage if isinstance(storage, StorageOfFiles) else None
        self._watched = metadata if isinstance(metadata, WatchedMetadata) else None
        self._logs: dict[TopicPartition, _Log] = {}

    # ---- batches ---------------------------------------------------------------------------------

    def read(  # noqa: PLR0913 - as Kafka's RemoteStorageFetchInfo
        self,
        topic_partition: TopicPartition,
        start_offset: int,
        max_bytes: int,
        *,
        min_one_message: bool,
        leader_epochs: Sequence[EpochEntry],
        is_committed: bool,
        local_aborted_transactions: Callable[[int, int], Iterable[AbortedTransaction]],
    ) -> RemoteRead:
        """Return batches from the one on that holds *start_offset*, or comes first behind it.

        Where a segment has none, it is looked for in the next one; when there is none either, the
        result is empty [TIER-66, TIER-67]. See `RemoteLogReader.read`.

        Raises
        ------
        OffsetOutOfRangeError
            No finished segment of the log's history has *start_offset* [TIER-65].
        CorruptLogError, CorruptRecordError
            The object has no batch at a position, or one of another history.
        RemoteStorageError, CorruptIndexError
            It, or one of its indexes, cannot be read.
        """
        log = self._log(topic_partition, leader_epochs)
        segment = self._segment_at(log, start_offset)
        if segment is None:
            raise OffsetOutOfRangeError(
                f"no remote segment of {topic_partition} has offset {start_offset}",
                found=str(start_offset),
                expected="an offset that a finished segment has, in the leader epoch of the log",
            )
        offset, last = start_offset, segment
        while segment is not None:
            last = segment
            found = self._batches(segment, offset, max_bytes, min_one_message, log)
            if isinstance(found, RemoteRead):
                if not found.records:  # Kafka: without a list, also when one is asked for
                    return found._replace(offset_metadata=LogOffsetMetadata(start_offset))
                if is_committed:
                    aborted = self._aborted_of(found, segment, log, local_aborted_transactions)
                    found = found._replace(aborted_transactions=aborted)
                return found._replace(lane=self._lane_of(log, segment, offset, found))
            offset = found
            segment = self._segment_at(log, offset)
        nothing_aborted: list[AbortedTransaction] | None = [] if is_committed else None
        return RemoteRead(b"", LogOffsetMetadata(start_offset), object_name(last), nothing_aborted)

    def _batches(
        self,
        segment: RemoteLogSegmentMetadata,
        offset: int,
        max_bytes: int,
        min_one_message: bool,  # noqa: FBT001 - as the caller gave it
        log: _Log,
    ) -> RemoteRead | int:
        """Return what one segment has from *offset* on; or the offset at which to go on, if none.

        Source: [TIER-66, DUR-141].
        """
        segment_id = segment.segment_id.id
        piece, position = self._read_ahead.get(segment_id), None
        if piece is not None and piece.knows(offset):
            row = piece.table.first_row(offset)
            place = piece.table.place(row) if row < len(piece.table) else None
            if place is not None and (piece.is_last or place[0] + max_bytes <= piece.end):
                return self._from_piece(
                    segment, piece, row, place, offset, max_bytes, min_one_message, log
                )
            if (begin := piece.needed_next(row)) is not None:
                position, size = piece.position + begin, ahead_bytes(max_bytes)
                self._read_ahead.forget(segment_id)
        elif offset == segment.start_offset and log.goes_on_at(offset):
            position, size = 0, max_bytes
            if log.lane is None:  # it would read again what is fetched ahead
                size = ahead_bytes(max_bytes)
            if log.passed is not None:
                self._read_ahead.forget(log.passed.segment_id.id)
        piece = None  # one that is passed gives its memory to the next
        if position is None:
            index = self._index_cache.index_entry(segment)
            position = index.position_of_offset(offset)
            above = index.offset_index.fetch_upper_bound_offset(position, 1)
            before_it = MOST_SKIPPED_REMOTE_BYTES if above is None else above.position - position
            size = min(before_it, MOST_SKIPPED_REMOTE_BYTES) + max_bytes
            size += -size % LEAST_REMOTE_READ_BYTES  # new pages take long for each of several sizes
        size = max(size, LEAST_REMOTE_READ_BYTES)  # a read of no byte gets one batch
        for piece in self._pieces(segment, position, size, size):
            row = piece.table.first_row(offset)
            if row < len(piece.table):
                self._read_ahead.keep(segment_id, piece)
                place = piece.table.place(row)
                return self._from_piece(
                    segment, piece, row, place, offset, max_bytes, min_one_message, log
                )
        return segment.end_offset + 1

    def _from_piece(  # noqa: PLR0913 - a read, and where its bytes are; by place, for speed
        self,
        segment: RemoteLogSegmentMetadata,
        piece: Piece,
        row: int,
        place: tuple[int, int, int],
        offset: int,
        max_bytes: int,
        min_one_message: bool,  # noqa: FBT001 - as the caller gave it
        log: _Log,
    ) -> RemoteRead | int:
        """Return what is of this history from a row on; or where to go on, if that is not.

        Nothing, without a place, where the first batch is larger and may not be returned.
        """
        begin, first_size, base_offset = place
        end = piece.end
        if not piece.is_of(log.lineage):
            table = piece.table
            next_row = log.lineage.end_of_own(table, row, begin + max_bytes)
            if next_row == row:
                if base_offset <= offset:
                    raise _another_history(segment, piece.position, table[row])
                return base_offset  # of a lost branch, behind a gap
            if next_row < len(table):
                end = table.place(next_row)[0]
        given_end = piece.given_end = min(begin + max(max_bytes, first_size), end)
        if piece.is_last and given_end == piece.end:
            log.passed = segment
        if first_size > max_bytes and not min_one_message:
            return RemoteRead(b"", LogOffsetMetadata(offset), piece.name)
        metadata = LogOffsetMetadata(base_offset, segment.start_offset, piece.position + begin)
        records = piece.data[begin:given_end]
        return RemoteRead(records, metadata, piece.name, None, segment.end_offset + 1)

    def _aborted_of(
        self,
        found: RemoteRead,
        segment: RemoteLogSegmentMetadata,
        log: _Log,
        local_aborted_transactions: Callable[[int, int], Iterable[AbortedTransaction]],
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions that reach into what was read [TIER-69]."""
        base_offset, _, position = found.offset_metadata
        index = self._index_cache.index_entry(segment).offset_index
        upper = index.fetch_upper_bound_offset(position, len(found.records))
        end = segment.end_offset + 1 if upper is None else upper.offset
        there = self._aborted(log.partition, log.lineage, segment, base_offset, end)
        aborted = there.aborted
        if not there.is_complete:
            aborted += local_aborted_transactions(base_offset, end)
        return list(dict.fromkeys(aborted))

    def _pieces(
        self, segment: RemoteLogSegmentMetadata, position: int, size: int, most: int
    ) -> Iterator[Piece]:
        """Yield parts of a segment that begin with a whole batch, from one on to the end.

        Parameters
        ----------
        position : int
            A batch begins there.
        size, most : int
            Bytes of the first request; the next ones are for twice as many each, up to *most*, or
            for one batch that is larger.

        Raises
        ------
        CorruptLogError, CorruptRecordError
            There is no batch at a position, or the object ends in the midst of one.
        """
        end = segment.segment_size_bytes
        while position < end:
            asked = min(size, end - position)
            data = memoryview(self._storage.fetch_log_segment(segment, position, position + asked))
            table, result = scan_headers(data)
            if len(table):
                yield Piece(object_name(segment), data, position, table, result, end)
            if result.why is not None:
                raise result.why.locate(object_name(segment), position)
            position += result.valid_bytes
            rest = data[result.valid_bytes :]
            needed = first_batch_size(rest) or 0
            if (
                len(data) < asked
                or position + max(len(rest), needed) > end
                or (asked < size and len(rest))
            ):
                raise CorruptLogError(
                    "a remote segment ends in the midst of a batch",
                    file=object_name(segment),
                    position=position,
                    found=f"{len(rest)} bytes",
                    expected=f"whole batches up to position {end}",
                )
            size = max(min(2 * size, most), needed)

    # ---- aborted transactions --------------------------------------------------------------------

    def aborted_transactions(
        self,
        topic_partition: TopicPartition,
        start_offset: int,
        end_offset: int,
        leader_epochs: Sequence[EpochEntry],
    ) -> list[AbortedTransaction]:
        """Return the entries of remote transaction indexes that reach into a range [TIER-69].

        See `RemoteLogReader.aborted_transactions`.

        Raises
        ------
        RemoteStorageError, CorruptIndexError, UnsupportedFormatError
            An index cannot be read.
        """
        log = self._log(topic_partition, leader_epochs)
        partition, lineage = log.partition, log.lineage
        segments = self._with_transactions(partition, lineage, start_offset)
        return list(dict.fromkeys(self._collect(segments, lineage, start_offset, end_offset)[0]))

    def _aborted(
        self,
        partition: TopicIdPartition,
        lineage: Lineage,
        segment: RemoteLogSegmentMetadata,
        start_offset: int,
        end_offset: int,
    ) -> TransactionIndexSearchResult:
        """Search in the index of a segment, and in those behind it [TIER-69]."""
        own = () if segment.is_transaction_index_empty else (segment,)
        behind = self._with_transactions(partition, lineage, segment.end_offset + 1)
        return self._collect(chain(own, behind), lineage, start_offset, end_offset)

    def _with_transactions(
        self, partition: TopicIdPartition, lineage: Lineage, offset: int
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Yield the segments from that of *offset* on that may have aborted transactions."""
        while True:
            for epoch, start_offset in lineage.entries_from(offset):
                found = self._metadata.next_segment_with_transaction_index(
                    partition, epoch, max(start_offset, offset)
                )
                if found is not None:
                    break
            else:
                return
            yield found
            offset = found.end_offset + 1

    def _collect(
        self,
        segments: Iterable[RemoteLogSegmentMetadata],
        lineage: Lineage,
        start_offset: int,
        end_offset: int,
    ) -> TransactionIndexSearchResult:
        """Return what ended in the history of the log; what a lost branch has is left out."""
        aborted: list[AbortedTransaction] = []
        for segment in segments:
            found = self._search_transactions(segment, start_offset, end_offset)
            own = Lineage(segment.segment_leader_epochs)
            aborted += [one for one in found.aborted if own.agrees(lineage, one.last_offset)]
            if found.is_complete and own.agrees(lineage, segment.end_offset):
                return TransactionIndexSearchResult(aborted, is_complete=True)
        return TransactionIndexSearchResult(aborted, is_complete=False)

    def _search_transactions(
        self, segment: RemoteLogSegmentMetadata, start_offset: int, end_offset: int
    ) -> TransactionIndexSearchResult:
        for _ in range(_TRIES):
            index = self._index_cache.transaction_index(segment)
            with suppress(LogNotFoundError):  # let go meanwhile, and deleted
                return index.collect_aborted_transactions(
                    start_offset, end_offset, check=True, in_order=True
                )
        raise LogNotFoundError(
            "the transaction index was deleted while it was read", file=index.path
        )

    # ---- the first record of a time --------------------------------------------------------------

    def find_offset_by_timestamp(
        self,
        topic_partition: TopicPartition,
        timestamp: int,
        starting_offset: int,
        leader_epochs: Sequence[EpochEntry],
    ) -> FileTimestampAndOffset | None:
        """Return the first record in remote storage with that timestamp or a later one, or None.

        Kafka searches one segment, the first that has such a time, and finds nothing when all its
        records of that time are below *starting_offset*. Here the next ones are searched then. See
        `RemoteLogReader.find_offset_by_timestamp`.

        Raises
        ------
        CorruptLogError, CorruptRecordError, InvalidRecordError
            The object is damaged.
        RemoteStorageError, CorruptIndexError
            It, or one of its indexes, cannot be read.

        Source: [TIER-71, TIER-88].
        """
        log = self._log(topic_partition, leader_epochs)
        partition, lineage = log.partition, log.lineage
        searched = set()
        for epoch, _ in lineage.entries_from(starting_offset):
            for segment in self._metadata.list_remote_log_segments(partition, epoch):
                if (
                    segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
                    and segment.max_timestamp_ms >= timestamp
                    and segment.end_offset >= starting_offset
                    and segment.segment_id not in searched
                ):
                    searched.add(segment.segment_id)
                    found = self._search_time(segment, timestamp, starting_offset, lineage)
                    if found is not None:
                        return found
        return None

    def _search_time(
        self,
        segment: RemoteLogSegmentMetadata,
        timestamp: int,
        starting_offset: int,
        lineage: Lineage,
    ) -> FileTimestampAndOffset | None:
        entry = self._index_cache.index_entry(segment)
        position = entry.position_of_timestamp(timestamp, starting_offset)
        for piece in self._pieces(segment, position, _SEARCH_BYTES, _MOST_SEARCH_BYTES):
            for row in range(len(piece.table)):
                batch = piece.table[row]
                if (
                    batch.max_timestamp >= timestamp
                    and batch.last_offset >= starting_offset
                    and lineage.has(batch)
                ):
                    found = self._first_record(segment, piece, batch, timestamp, starting_offset)
                    if found is not None:
                        return found
        return None

    def _first_record(
        self,
        segment: RemoteLogSegmentMetadata,
        piece: Piece,
        batch: BatchHeader,
        timestamp: int,
        starting_offset: int,
    ) -> FileTimestampAndOffset | None:
        data = piece.data[batch.position : batch.position + batch.size_bytes]
        try:
            for record in iterate_records(
                data, self._codecs, start_offset=starting_offset, control=True
            ):
                if record.timestamp is not None and record.timestamp >= timestamp:
                    epoch = batch.partition_leader_epoch
                    known = None if epoch == NO_PARTITION_LEADER_EPOCH else epoch
                    return FileTimestampAndOffset(record.timestamp, record.offset, known)
        except SegstoreError as error:
            raise error.locate(object_name(segment), piece.position + batch.position) from None
        return None

    # ---- segments --------------------------------------------------------------------------------

    def _log(self, topic_partition: TopicPartition, leader_epochs: Sequence[EpochEntry]) -> _Log:
        """Return what is known of a log: the same as long as it gives the same tuple.

        No other log has that one: a topic that is made again has other epochs, and another id.
        """
        known = self._logs.get(topic_partition)
        if known is not None and known.leader_epochs is leader_epochs:
            return known
        partition = TopicIdPartition(self._topic_id_of(topic_partition), topic_partition)
        log = _Log(partition, leader_epochs)
        if isinstance(leader_epochs, tuple):
            passed = [] if known is None else [known]
            if len(self._logs) >= _MOST_LOGS:
                passed = list(self._logs.values())
                self._logs.clear()
            self._logs[topic_partition] = log
            for one in passed:
                one.end_lane()
        return log

    def _lane_of(
        self, log: _Log, segment: RemoteLogSegmentMetadata, offset: int, found: RemoteRead
    ) -> RemoteReadLane[FetchDataInfo] | None:
        """Return what reads this log's files by one call of the core, taught this segment [D11].

        None also where it cannot be taught: that is no error of the read.
        """
        files, watched, epochs = self._files, self._watched, log.leader_epochs
        if files is None or watched is None or not isinstance(epochs, tuple):
            return None
        lane = log.lane
        if lane is not None and lane.knows(epochs, offset):
            return lane
        epoch = log.lineage.epoch_at(offset)
        try:
            known = None if epoch is None else watched.segment_range(log.partition, epoch, offset)
            folder = files.log_segment_folder(segment)
            entry = self._index_cache.find(segment.segment_id.id)
            table, result = scan_headers(found.records)
        except SegstoreError:
            return None
        if epoch is None or known is None or known.metadata.segment_id != segment.segment_id:
            return None
        if lane is None or not lane.holds(epochs, known.changes_count):
            log.end_lane()
            if folder is None:
                return None
            lane = log.lane = RemoteReadLane(
                epochs,
                known.changes,
                known.changes_count,
                folder,
                self._codecs,
                fetch_class=FetchDataInfo,
                topic_partition=log.partition.topic_partition,
            )
        begin, end = log.lineage.range_of_epoch(offset)
        begin_position = found.offset_metadata.relative_position_in_segment
        lane.learn(
            max(known.first_offset, begin),
            min(known.last_offset, end - 1),
            epoch=epoch,
            epoch_start_offset=begin,
            epoch_end_offset=end,
            base_offset=segment.start_offset,
            end_offset=segment.end_offset,
            size_bytes=segment.segment_size_bytes,
            file_name=stored_name(segment, LOG),
            object_name=object_name(segment),
            index=None if entry is None else entry.offset_index,
            next_offset=table.last_offset + 1 if len(table) else _NO_OFFSET,
            next_position=begin_position + result.valid_bytes,
        )
        return lane

    def _segment_at(self, log: _Log, offset: int) -> RemoteLogSegmentMetadata | None:
        """Return the finished segment that has *offset* in the log's epoch there [TIER-65]."""
        epoch = log.lineage.epoch_at(offset)
        if epoch is None:
            return None
        return self._metadata.remote_log_segment_metadata(log.partition, epoch, offset)


class _Log:
    """What is known of a log.

    Attributes
    ----------
    passed : RemoteLogSegmentMetadata or None
        The segment that was read to its end last: a reader that goes on begins with the next one.
    lane : RemoteReadLane or None
        Of its segments that are files.
    """

    __slots__ = ("lane", "leader_epochs", "lineage", "partition", "passed")

    def __init__(self, partition: TopicIdPartition, leader_epochs: Sequence[EpochEntry]) -> None:
        self.partition = partition
        self.leader_epochs = leader_epochs
        self.lineage = Lineage(leader_epochs)
        self.passed: RemoteLogSegmentMetadata | None = None
        self.lane: RemoteReadLane[FetchDataInfo] | None = None

    def goes_on_at(self, offset: int) -> bool:
        """Whether a reader has come to the end of a segment that ends there."""
        is_passed = self.passed is not None and self.passed.end_offset + 1 == offset
        return is_passed or (self.lane is not None and self.lane.has_come_to(offset))

    def end_lane(self) -> None:
        """Let the lane go: another one takes its place, or none."""
        lane, self.lane = self.lane, None
        if lane is not None:
            lane.end()


def _another_history(
    segment: RemoteLogSegmentMetadata, position: int, batch: BatchHeader
) -> CorruptLogError:
    return CorruptLogError(
        "the batch of a remote segment is not of the log's history of leader epochs",
        file=object_name(segment),
        position=position + batch.position,
        found=f"leader epoch {batch.partition_leader_epoch}, offsets {batch.base_offset} to"
        f" {batch.last_offset}",
        expected=f"what its metadata says: {list(map(tuple, segment.segment_leader_epochs))}",
    )
