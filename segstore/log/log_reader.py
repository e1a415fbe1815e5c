"""Reading a log: where visible data ends, one fetch, one slice, one look-up by time [RD-*, TS-*].

`LogReader` chooses by isolation where the data of a call ends; `VisibleRange` is the answer.
`CommittedEnd` serves logs without replicas, `LogOffsets` those with.

No method takes a lock, but to look up the place of a high watermark once: each takes the log end
and the segments, immutable objects, once. `LogScan` reads a range, chunk by chunk.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from segstore._core import AbortedTransactions, FetchedBytes, ReadLane, SegmentSlice
from segstore.errors import (
    CorruptLogError,
    CorruptRecordError,
    IllegalStateError,
    LogNotFoundError,
    LogTruncatedError,
    ReadIOError,
    SegstoreError,
)
from segstore.log.chunk_reader import ChunkReader
from segstore.log.committed_view import CommittedEnd, LogMoment
from segstore.log.damage_errors import (
    DAMAGE,
    FetchCheck,
    batch_behind_damage,
    explain,
    files_of,
    lacks_records,
    undecided,
)
from segstore.log.file_records import FileRecords
from segstore.log.files.log_state_file import uncut_generation
from segstore.log.files.partition_directory import LOG_FILE_SUFFIX, file_name
from segstore.log.files.profile import Profile
from segstore.log.latest_values import LatestOfLog
from segstore.log.local.batch_transactions import BatchTransactions
from segstore.log.local.list_of_aborted import list_of_aborted
from segstore.log.local.local_log import out_of_range
from segstore.log.local.segment import Segment
from segstore.log.local.timestamp_lookup import fetch_offset, find_offset_by_timestamp
from segstore.log.open_transaction import OpenTransaction
from segstore.log.readable_chunks import ReadableChunks, settle_transactions
from segstore.log.remote_reads import RemoteReads, batches_below
from segstore.log.remote_tier import fetch_tiered_offset, only_in_remote_storage
from segstore.log.scan import LogScan
from segstore.log.tiered_chunks import TieredChunks
from segstore.number_limits import MAX_INT, MAX_LONG, MIN_LONG
from segstore.records.fetch_data_info import FetchDataInfo
from segstore.types import (
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    NO_PRODUCER_EPOCH,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    Isolation,
    LogOffsetMetadata,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime
    from typing import Protocol

    from segstore._core import Record
    from segstore.log.chunk_reader import Chunks
    from segstore.log.committed_view import CommittedView
    from segstore.log.local.batch_transactions import Damage
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segments import Segments
    from segstore.log.log_parts import LogParts
    from segstore.log.remote_tier import RemoteRead
    from segstore.types import FileTimestampAndOffset

    Lane = ReadLane[FetchDataInfo, FileRecords]

    class DurableEnd(Protocol):
        """What knows how far the log is durable: its flusher, or the follower of its writer."""

        @property
        def durable(self) -> LogOffsetMetadata:
            """Below it all is on stable storage."""

        @property
        def recovery_point(self) -> int:
            """What the next open will not check again."""


_FoundT = TypeVar("_FoundT", FetchedBytes, SegmentSlice)

_NOTHING_ABORTED = AbortedTransactions(())


class VisibleRange(NamedTuple):
    """What an isolation means at one moment.

    Attributes
    ----------
    bound : LogOffsetMetadata
        Where visible data ends, with its place.
    aborted_from : callable or None
        Gives the aborted transactions that reach to the first of two offsets, or lie behind it, and
        begin below the second; it may give more. None when they are not left out.
    damage : Damage or None
        Why nothing is known behind the bound.
    """

    bound: LogOffsetMetadata
    aborted_from: Callable[[int, int], AbortedTransactions] | None = None
    damage: Damage | None = None

    def aborted_at(self, offset: int) -> AbortedTransactions | None:
        """Return what is left out of the data from *offset* on; None = nothing ever is."""
        if self.aborted_from is None:
            return None
        return self.aborted_from(offset, self.bound.message_offset)

    def aborted_of_fetch(
        self,
        local_log: LocalLog,
        offset: int,
        metadata: LogOffsetMetadata,
        size_bytes: int | None,
    ) -> tuple[AbortedTransactions | None, int]:
        """Return what is left out of the bytes of one fetch, and an offset behind them [LOC-9].

        The offset is that of the next index entry: the list may name transactions that begin above
        the last stable offset, as Kafka's does.

        Parameters
        ----------
        metadata, size_bytes : LogOffsetMetadata, int or None
            What the fetch gave; None = nothing is visible there, and at the bound or behind it
            there is an empty list [LOC-6].
        """
        if self.aborted_from is None:
            return None, 0
        if size_bytes is None:
            return (None if offset < self.bound.message_offset else _NOTHING_ABORTED), 0
        upper_bound_offset = local_log.upper_bound_of_fetch(metadata, size_bytes)
        return self.aborted_from(offset, upper_bound_offset), upper_bound_offset


class LogReader:
    """Reads one log, of any number of threads.

    Parameters
    ----------
    take_over_replaced : callable
        See `nothing_replaced`.
    refresh : callable
        Looks for what another process has written since.
    """

    def __init__(
        self,
        parts: LogParts,
        durable_end: DurableEnd,
        take_over_replaced: Callable[[], bool],
        refresh: Callable[[], object],
    ) -> None:
        local_log = parts.local_log
        self._batches = BatchTransactions(local_log)
        self._committed = CommittedEnd(local_log, lambda: durable_end.durable.message_offset)
        self._local_log = local_log
        self._take_over_replaced = take_over_replaced
        self._offsets = parts.offsets
        self._epochs = parts.loaded.epochs
        self._checkpoint_store = parts.checkpoint_store
        self._remote = parts.remote
        self._remote_reads = RemoteReads(parts, refresh)
        self._durable_end = durable_end
        self._append_lock = parts.append_lock
        self._codecs = parts.codecs
        self._profile = parts.options.profile
        self._fetch_check = FetchCheck(local_log, parts.codecs)

    # ---- what can be read ------------------------------------------------------------------------

    @property
    def first_offset_here(self) -> int:
        """The log start; behind it, where what comes first is in remote storage alone [RD-2]."""
        start = self._offsets.log_start_offset
        if self._remote.tier is None:
            return start
        return max(start, self._remote_reads.local_start)

    @property
    def first_offset(self) -> int:
        """What can be read begins there: here, or in remote storage where that is read."""
        if self._remote_reads.are_possible:
            return self._offsets.log_start_offset
        return self.first_offset_here

    def require_in_range(self, offset: int, first: int) -> None:
        """Raise when *offset* is not between *first* and the log end, or says where it is."""
        log_start, end = self._offsets.log_start_offset, self._local_log.log_end.message_offset
        if not first <= offset <= max(first, end):
            directory = self._local_log.directory
            if log_start <= offset < first:
                raise only_in_remote_storage(offset, log_start, first, end, directory)
            raise out_of_range(offset, first, end, directory)

    def last_stable_offset(self) -> int:
        """Return where committed data ends [LSO-2]."""
        if self._offsets.replicated:
            return self._offsets.last_stable_offset
        return self._committed_view().bound.message_offset

    def open_transactions(self) -> tuple[OpenTransaction, ...]:
        """Return the transactions without a marker, ascending by their first offsets."""
        under_way = self._committed_view().open_at_end.transactions
        by_start = sorted(under_way.items(), key=itemgetter(1))
        return tuple(self._open_transaction(producer_id, start) for producer_id, start in by_start)

    def _open_transaction(self, producer_id: int, start_offset: int) -> OpenTransaction:
        """Find the first batch that is left; it is at *start_offset* unless that was deleted."""
        first = max(start_offset, self.first_offset_here)
        with suppress(CorruptLogError, CorruptRecordError):
            for end in (first + 1, None):
                for _, headers in self.scan(first, end, Isolation.LOG_END).headers():
                    kind = headers["attributes"] & (TRANSACTIONAL_FLAG | CONTROL_FLAG)
                    is_of_it = headers["producer_id"] == producer_id
                    for row in headers[is_of_it & (kind == TRANSACTIONAL_FLAG)][:1]:
                        is_appended = row["attributes"] & LOG_APPEND_TIME_FLAG
                        timestamp = row["max_timestamp" if is_appended else "base_timestamp"]
                        epoch = int(row["producer_epoch"])
                        return OpenTransaction(producer_id, epoch, start_offset, int(timestamp))
        return OpenTransaction(producer_id, NO_PRODUCER_EPOCH, start_offset, NO_TIMESTAMP)

    def visible(
        self,
        isolation: Isolation,
        offset: int | None = None,
        size_bytes: int | None = None,
        end_offset: int | None = None,
    ) -> VisibleRange:
        """Return where the data ends that *isolation* shows, and what it leaves out.

        Parameters
        ----------
        offset, size_bytes, end_offset : int or None
            What is read: from there on, so many bytes, or up to an offset, or all; by default
            nothing.
        """
        local_log = self._local_log
        truncations_done, end = local_log.truncations.done, local_log.log_end
        segments = local_log.segments
        try:
            match isolation:
                case Isolation.DURABLE:
                    return VisibleRange(self._durable_end.durable)
                case Isolation.READ_COMMITTED:
                    return self._committed_range(offset, size_bytes, end_offset)
                case Isolation.HIGH_WATERMARK | Isolation.READ_UNCOMMITTED:
                    return VisibleRange(self._high_watermark())
                case _:
                    return VisibleRange(end)
        except SegstoreError as error:
            first = local_log.segments.first_segment.base_offset
            if first != segments.first_segment.base_offset and self._remote_reads.are_possible:
                return self.visible(isolation, offset, size_bytes, end_offset)  # to be read there
            local_log.check_not_changed(truncations_done, end.message_offset, error)
            if self._take_over_replaced():
                return self.visible(isolation, offset, size_bytes, end_offset)
            raise

    def _high_watermark(self) -> LogOffsetMetadata:
        metadata = self._offsets.high_watermark_metadata
        if metadata.message_offset_only:  # once [CON-11]
            with self._append_lock:
                metadata = self._offsets.fetch_high_watermark_metadata()
        return metadata

    def _committed_range(
        self, offset: int | None, size_bytes: int | None, end_offset: int | None
    ) -> VisibleRange:
        offsets = self._offsets
        if not offsets.replicated:  # what the files say, and no more than that
            view, moment = self._committed.view(offsets.log_start_offset)
            visible = VisibleRange(view.bound, _nothing_aborted, view.damage)
        else:
            bound = offsets.last_stable_offset_metadata
            is_known = not offsets.high_watermark_metadata.message_offset_only
            if not is_known or bound.message_offset_only:
                with self._append_lock:
                    bound = offsets.fetch_last_stable_offset_metadata()
            if self._profile is Profile.KAFKA:
                return VisibleRange(bound, self._aborted_as_a_broker)
            moment, visible = LogMoment.of(self._local_log), VisibleRange(bound, _nothing_aborted)
        first, end = offsets.log_start_offset, visible.bound.message_offset
        if offset is None or not first <= offset < end:
            return visible
        return self._from_batches(visible, moment, offset, size_bytes, end_offset)

    def _from_batches(
        self,
        visible: VisibleRange,
        moment: LogMoment,
        offset: int,
        size_bytes: int | None,
        end_offset: int | None,
    ) -> VisibleRange:
        """Return what is seen of the range; damage that hides markers makes it end [DUR-7]."""
        local_log, upper_bound_offset = self._local_log, visible.bound.message_offset
        if size_bytes is not None:
            place = local_log.offset_metadata(offset)
            upper = local_log.upper_bound_of_fetch(place, size_bytes)
            upper_bound_offset = min(max(upper, offset + 1), upper_bound_offset)
        elif end_offset is not None:
            upper_bound_offset = min(end_offset, upper_bound_offset)

        def aborted(first_offset: int, end: int) -> AbortedTransactions:
            found = self._batches.between(moment.segments, moment.end, first_offset, end)
            return AbortedTransactions(list_of_aborted(local_log, found, first_offset, end))

        local_start = moment.segments.first_segment.base_offset
        is_remote = offset < local_start and self._remote_reads.are_possible

        found = self._batches.between(moment.segments, moment.end, offset, upper_bound_offset)
        if found.bound is not None and found.bound.message_offset < visible.bound.message_offset:
            visible = VisibleRange(found.bound, damage=found.damage)
        if size_bytes is not None:  # the fetch tells where its bytes end, and so its list [LOC-9]
            return visible._replace(aborted_from=aborted)
        if is_remote:  # first here: what goes from here meanwhile is there
            here = list_of_aborted(local_log, found, offset, upper_bound_offset)
            table = self._remote_reads.aborted(offset, upper_bound_offset, here)
        else:
            table = AbortedTransactions(found.transactions)
        return visible._replace(aborted_from=lambda *_: table)

    def _aborted_as_a_broker(self, offset: int, end_offset: int) -> AbortedTransactions:
        """Return what the transaction indexes say, here and there [LOC-9, TIER-69]."""
        here = self._local_log.aborted_from(offset, end_offset)
        if not self._remote_reads.hold(offset):  # asked afterwards: nothing went from here before
            return AbortedTransactions([one[:3] for one in here])
        return self._remote_reads.aborted(offset, end_offset, here)

    def _committed_view(self) -> CommittedView:
        return self._committed.view(self._offsets.log_start_offset)[0]

    # ---- one fetch -------------------------------------------------------------------------------

    def read_by_lane(
        self,
        offset: int,
        max_bytes: int,
        min_one_message: bool,  # noqa: FBT001 - as the caller gave it
    ) -> FetchDataInfo | None:
        """Read what one segment holds by one call of the core; None: the layers have to [D11]."""
        local_log = self._local_log
        segments = local_log.segments
        lane = segments.lane or self._new_lane(segments)
        start, published = self._offsets.log_start_offset, local_log.published
        return lane.read(
            offset,
            max_bytes,
            min_one_message,
            start,
            published,
            self._checkpoint_store.topic_partition,
            self._fetch_check,
        )

    def read_by_remote_lane(
        self,
        offset: int,
        max_bytes: int,
        min_one_message: bool,  # noqa: FBT001 - as the caller gave it
        isolation: Isolation = Isolation.LOG_END,
    ) -> FetchDataInfo | None:
        """Read what is in remote storage alone by one call of the core; None: as `read_by_lane`.

        The arguments are checked, except with the isolation that ends at the log end.
        """
        tier = self._remote.tier
        if tier is None or tier.lane is None:
            return None
        visible_end = None
        if isolation is not Isolation.LOG_END:
            if not self._remote_reads.hold(offset):
                return None
            visible_end = self.visible(isolation).bound.message_offset
        local_log = self._local_log
        return tier.lane.read(
            offset,
            max_bytes,
            min_one_message,
            self._offsets.log_start_offset,
            local_log.segments.first_segment.base_offset,
            local_log.published,
            self._epochs.entries,
            visible_end,
            _NOTHING_ABORTED if isolation is Isolation.READ_COMMITTED else None,
            local_log.truncations.done,  # asked behind what is visible
        )

    def _teach_aborted(self, found: RemoteRead, visible_end: int, truncations_done: int) -> None:
        """Tell the lane whether a transaction that reaches into the segment was aborted.

        Below the last stable offset all are decided, until a truncation cuts a marker. What cannot
        be told fails no read.
        """
        lane, start = found.lane, found.offset_metadata.segment_base_offset
        is_decided = found.end_offset <= visible_end
        if lane is None or not is_decided or start < self._offsets.log_start_offset:
            return
        last = found.end_offset - 1
        if lane.lacks_aborted(start, last, truncations_done):
            with suppress(SegstoreError):
                has_aborted = len(self._aborted_as_a_broker(start, found.end_offset)) > 0
                lane.note_aborted(
                    start, last, has_aborted=has_aborted, truncations_done=truncations_done
                )

    def fetch(
        self, offset: int, max_bytes: int, isolation: Isolation, *, min_one_message: bool
    ) -> FetchDataInfo:
        """Read from one segment, as `UnifiedLog.read` says; the arguments are checked."""
        while not self._remote_reads.hold(offset):
            try:
                return self._fetch_here(
                    offset, max_bytes, isolation, min_one_message=min_one_message
                )
            except SegstoreError:
                if not self._remote_reads.took_over(offset):
                    raise
        return self._fetch_remote(offset, max_bytes, isolation, min_one_message=min_one_message)

    def _fetch_remote(
        self, offset: int, max_bytes: int, isolation: Isolation, *, min_one_message: bool
    ) -> FetchDataInfo:
        """Read from remote storage [TIER-65..TIER-69]."""
        topic, partition = self._checkpoint_store.topic_partition
        truncations_done = self._local_log.truncations.done
        if isolation is Isolation.LOG_END:
            bound = self._local_log.published.log_end_offset
        else:
            bound = self.visible(isolation).bound.message_offset
        records: bytes | memoryview = b""
        metadata, name, aborted = LogOffsetMetadata(offset), None, None
        if offset < bound:
            is_committed = isolation is Isolation.READ_COMMITTED
            found = self._remote_reads.read(
                offset, max_bytes, min_one_message=min_one_message, is_committed=is_committed
            )
            records = batches_below(found, bound)
            metadata, name = found.offset_metadata, found.object_name
            if found.aborted_transactions is not None:
                aborted = AbortedTransactions([one[:3] for one in found.aborted_transactions])
                self._teach_aborted(found, bound, truncations_done)
        elif isolation is Isolation.READ_COMMITTED:
            aborted = _NOTHING_ABORTED
        return FetchDataInfo(
            records,
            metadata,
            start_offset=offset,
            end_offset=bound,
            aborted=aborted,
            codecs=self._codecs,
            topic=topic,
            partition=partition,
            file=name,
        )

    def _fetch_here(
        self, offset: int, max_bytes: int, isolation: Isolation, *, min_one_message: bool
    ) -> FetchDataInfo:
        local_log = self._local_log
        truncations_done = local_log.truncations.done
        visible = self._visible_fetch(offset, max_bytes, isolation)
        bound = visible.bound
        metadata, fetched = self._take(
            Segment.read, truncations_done, offset, max_bytes, bound, min_one_message
        )
        self._require_decided(visible, offset)
        aborted, aborted_below = visible.aborted_of_fetch(
            local_log, offset, metadata, None if fetched is None else fetched.size_bytes
        )
        if aborted is not None:  # looked up behind the bytes: both of one log
            local_log.truncations.check_not_truncated(truncations_done, bound.message_offset)
        topic, partition = self._checkpoint_store.topic_partition
        return FetchDataInfo(
            b"" if fetched is None else fetched,
            metadata,
            start_offset=offset,
            first_entry_incomplete=fetched is not None and fetched.first_entry_incomplete,
            end_offset=min(
                bound.message_offset, local_log.end_of_segment(metadata.segment_base_offset)
            ),
            aborted=aborted,
            aborted_below=aborted_below,
            codecs=self._codecs,
            topic=topic,
            partition=partition,
            file=None if fetched is None else self._file_of(metadata),
            check_order=self._fetch_check,
        )

    def _take(  # noqa: PLR0913 - a fetch, and how it is done
        self,
        take: Callable[..., _FoundT | None],
        truncations_done: int,
        offset: int,
        max_bytes: int,
        bound: LogOffsetMetadata,
        min_one_message: bool,  # noqa: FBT001 - as the caller gave it
    ) -> tuple[LogOffsetMetadata, _FoundT | None]:
        """Find what `LocalLog.fetch` finds; behind damage on the way the segment is searched.

        Raises the error of the usual way, with the next offset that can be read, where no whole
        batch holds *offset*.
        """
        local_log, codecs = self._local_log, self._codecs
        try:
            return local_log.fetch(
                offset, max_bytes, bound, min_one_message=min_one_message, take=take
            )
        except SegstoreError as error:
            local_log.check_not_changed(truncations_done, bound.message_offset, error)
            if self._take_over_replaced():
                bound = local_log.replaced_bound(bound)
                return self._take(take, truncations_done, offset, max_bytes, bound, min_one_message)
            segment = local_log.segments.floor_segment(offset)
            is_damage = isinstance(error, DAMAGE)
            if is_damage and segment is not None and not local_log.is_kafkas:
                found = batch_behind_damage(local_log, segment, offset, codecs)
                end = min(local_log.max_position(segment, bound), segment.size_bytes)
                if found is not None and found.position < end:
                    position, end = found.position, min(end, found.readable_to)
                    place = LogOffsetMetadata(found.first_offset, segment.base_offset, position)
                    with suppress(ReadIOError):  # a read ahead, of bytes behind the batch
                        return place, take(
                            segment,
                            offset,
                            max_bytes,
                            end,
                            min_one_message,
                            start_position=position,
                        )
            explain(error, local_log, offset, codecs)
            raise

    def _require_decided(self, visible: VisibleRange, offset: int) -> None:
        """Raise where damage hides what is committed at *offset*."""
        if visible.damage is not None and offset >= visible.bound.message_offset:
            raise undecided(visible.damage, self._local_log, self._codecs)

    def _visible_fetch(self, offset: int, max_bytes: int, isolation: Isolation) -> VisibleRange:
        log_start_offset = self._offsets.log_start_offset
        if offset < log_start_offset:  # Kafka asks first: what is visible may move offsets [RD-2]
            self.require_in_range(offset, log_start_offset)
        visible = self.visible(isolation, offset, max_bytes)
        self.require_in_range(offset, self.first_offset_here)
        return visible

    def _file_of(self, metadata: LogOffsetMetadata) -> str:
        name = file_name(metadata.segment_base_offset, LOG_FILE_SUFFIX)
        return f"{self._local_log.directory.path}/{name}"

    def _new_lane(self, segments: Segments) -> Lane:
        """Make the lane of a snapshot, with which it ends: it keeps no file of a deleted one."""
        lane: Lane = ReadLane(
            segments.as_tuple,
            self._codecs,
            self._local_log.directory,
            fetch_class=FetchDataInfo,
            slice_class=FileRecords,
            is_kafkas=self._local_log.is_kafkas,
        )
        segments.keep_lane(lane)
        return lane

    # ---- one slice -------------------------------------------------------------------------------

    def slice_by_lane(
        self,
        log: object,
        offset: int,
        max_bytes: int,
        min_one_message: bool,  # noqa: FBT001 - as the caller gave it
    ) -> FileRecords | None:
        """As `read_by_lane`, with the bytes left where they are; a slice keeps *log*."""
        local_log = self._local_log
        truncations_done, segments = local_log.truncations.done, local_log.segments
        lane = segments.lane or self._new_lane(segments)
        start, published = self._offsets.log_start_offset, local_log.published
        return lane.slice(
            log, offset, max_bytes, min_one_message, start, published, truncations_done
        )

    def slice(  # noqa: PLR0913 - what is asked, and by whom
        self,
        log: object,
        offset: int,
        max_bytes: int,
        isolation: Isolation,
        *,
        min_one_message: bool,
        check_crcs: bool,
    ) -> FileRecords:
        """Find what `fetch` would read, and leave it in the file; a slice keeps *log* open.

        The arguments are checked.
        """
        local_log = self._local_log
        truncations_done = local_log.truncations.done
        visible = self._visible_fetch(offset, max_bytes, isolation)
        bound = visible.bound
        metadata, found = self._take(
            Segment.slice, truncations_done, offset, max_bytes, bound, min_one_message
        )
        if found is not None and check_crcs:
            try:
                _check_batches(found)
            except SegstoreError as error:
                local_log.check_not_changed(truncations_done, bound.message_offset, error)
                self._take_over_replaced()
                explain(error, local_log, offset, self._codecs)
                raise
        self._require_decided(visible, offset)
        aborted, _ = visible.aborted_of_fetch(
            local_log, offset, metadata, None if found is None else found.size_bytes
        )
        return FileRecords(
            None if found is None else found.segment,
            metadata.relative_position_in_segment,
            0 if found is None else found.size_bytes,
            log=log,
            truncations_done=truncations_done,
            start_offset=offset,
            end_offset=min(
                bound.message_offset, local_log.end_of_segment(metadata.segment_base_offset)
            ),
            aborted=aborted,
            fetch_offset_metadata=metadata,
            first_entry_incomplete=found is not None and found.first_entry_incomplete,
        )

    def check_slice_not_truncated(
        self, truncations_done: int, base_offset: int, end_position: int
    ) -> None:
        """Raise when bytes of a slice were cut since it was made [DUR-77]; `FileRecords` asks."""
        self._local_log.truncations.check_place_not_truncated(
            truncations_done, base_offset, end_position
        )

    def describe_slice(  # noqa: PLR0913 - what a slice knows, each by its name
        self,
        data: bytearray,
        place: LogOffsetMetadata,
        *,
        start_offset: int,
        end_offset: int,
        first_entry_incomplete: bool,
        aborted: AbortedTransactions | None,
        has_file: bool,
    ) -> FetchDataInfo:
        """Return the bytes of a slice as `fetch` had given them; `FileRecords` asks."""
        topic, partition = self._checkpoint_store.topic_partition
        upper_bound_offset = 0  # of no interest without a list
        if aborted is not None:
            upper_bound_offset = self._local_log.upper_bound_of_fetch(place, len(data))
        return FetchDataInfo(
            data,
            place,
            start_offset=start_offset,
            first_entry_incomplete=first_entry_incomplete,
            end_offset=end_offset,
            aborted=aborted,
            aborted_below=upper_bound_offset,
            codecs=self._codecs,
            topic=topic,
            partition=partition,
            file=self._file_of(place) if has_file else None,
            check_order=self._fetch_check,
        )

    # ---- a range ---------------------------------------------------------------------------------

    def scan(  # noqa: PLR0913 - the parts of a query
        self,
        start_offset: int | None,
        end_offset: int | None,
        isolation: Isolation,
        *,
        columns: Sequence[str] | None = None,
        start_timestamp: int | None = None,
        end_timestamp: int | None = None,
        check_crcs: bool = True,
        damage: str | None = None,
    ) -> LogScan:
        """Return a range of the log, as it is now; the arguments are checked.

        Parameters
        ----------
        damage : str or None
            Why the log ends before what it is known to have held: the scan raises it at its end.
        """
        truncations_done = self._local_log.truncations.done
        first = self.first_offset
        start = first if start_offset is None else start_offset
        self.require_in_range(start, first)
        visible = self.visible(isolation, start, None, end_offset)
        if start_offset is None:
            start = max(start, self.first_offset)  # what was deleted meanwhile
        end = visible.bound.message_offset
        is_cut_off = end_offset is None or end_offset > end
        end = end if end_offset is None else min(end, end_offset)
        chunks: Chunks = ChunkReader(
            self._local_log,
            self._codecs,
            start_offset=start,
            end_offset=end,
            bound=visible.bound,
            end_error=self._end_error(visible, damage) if is_cut_off else None,
            truncations_done=truncations_done,
            take_over_replaced=self._take_over_replaced,
            start_timestamp=MIN_LONG if start_timestamp is None else start_timestamp,
        )
        if self._remote_reads.are_possible:
            chunks = TieredChunks(
                chunks,
                self._remote_reads,
                partial(self._local_log.check_not_truncated, truncations_done),
                start_offset=start,
                end_offset=end,
                start_timestamp=MIN_LONG if start_timestamp is None else start_timestamp,
            )
        scan = LogScan(
            chunks,
            self._codecs,
            self._checkpoint_store.topic_partition,
            start_offset=start,
            end_offset=end,
            aborted=visible.aborted_at(start),
            columns=columns,
            start_timestamp=start_timestamp,
            end_timestamp=end_timestamp,
            check_crcs=check_crcs,
        )
        self.require_in_range(start, self.first_offset)  # what it has taken may begin later
        return scan

    def _end_error(
        self, visible: VisibleRange, damage: str | None
    ) -> Callable[[], SegstoreError] | None:
        """Return what makes the error of a scan that ends with the log, None where it is whole."""
        if visible.damage is not None:
            return partial(undecided, visible.damage, self._local_log, self._codecs)
        if damage is not None:
            return partial(lacks_records, damage, self._local_log)
        return None

    def scan_around_damage(  # noqa: PLR0913 - the parts of a query
        self,
        start_offset: int | None,
        end_offset: int | None,
        isolation: Isolation,
        *,
        beyond: bool,
        columns: Sequence[str] | None = None,
        start_timestamp: int | None = None,
        end_timestamp: int | None = None,
    ) -> LogScan:
        """Return what can be read of a range, as it is now; the arguments are checked.

        Parameters
        ----------
        beyond : bool
            The log ends at damage for this handle: go on behind it too.
        """
        local_log, codecs = self._local_log, self._codecs
        first = self.first_offset_here
        start = first if start_offset is None else start_offset
        if start < first or not beyond:
            self.require_in_range(start, first)
        end = MAX_LONG
        if not beyond:
            is_committed = isolation is Isolation.READ_COMMITTED
            all_visible = Isolation.HIGH_WATERMARK if is_committed else isolation
            end = self.visible(all_visible).bound.message_offset

        chunks_of = partial(
            ReadableChunks,
            files_of(local_log, beyond=beyond),
            codecs,
            state=local_log.written_order.state,
            known_end=self._known_end() if beyond else 0,
            missing=local_log.missing_records(start),
            require_as_it_was=partial(local_log.check_not_truncated, local_log.truncations.done),
        )
        settled = None
        if isolation is Isolation.READ_COMMITTED:
            # all that is stored: a transaction that began before `start` may be open
            everything = chunks_of(
                start_offset=0, end_offset=end, missing=local_log.missing_records(first)
            )
            settled = settle_transactions(everything, codecs, end)
            end = settled.end_offset
        end = end if end_offset is None else min(end, end_offset)
        return LogScan(
            chunks_of(
                start_offset=start,
                end_offset=end,
                undecided=settled.undecided if settled else (),
            ),
            codecs,
            self._checkpoint_store.topic_partition,
            start_offset=start,
            end_offset=end,
            aborted=settled.aborted if settled else None,
            columns=columns,
            start_timestamp=start_timestamp,
            end_timestamp=end_timestamp,
            check_crcs=False,
        )

    def _known_end(self) -> int:
        """Return an offset below which all had been given out, as far as the checkpoints say."""
        found, most = (
            self._checkpoint_store.read(),
            self._local_log.log_end.message_offset + MAX_INT,
        )
        return found.safe_below if found.safe_below <= most else 0

    def latest(
        self, refresh: Callable[[], object], columns: Sequence[str] | None = None
    ) -> LatestOfLog:
        """Return the last value of each key of what is committed now.

        Parameters
        ----------
        refresh : callable
            As for `follow`.
        columns : sequence of str or None
            As for `scan`.

        Raises
        ------
        OffsetOutOfRangeError
            What the log begins with is in remote storage alone.
        """
        local_log = self._local_log
        truncations = local_log.truncation_counts
        generation = uncut_generation(local_log.directory)
        bases = None
        while bases != local_log.segments.base_offsets:
            bases = local_log.segments.base_offsets
            files = self._files_of(bases)  # before the end is looked for
            refresh()
        scan = self.scan(None, None, Isolation.READ_COMMITTED, columns=columns)
        self.require_in_range(self._offsets.log_start_offset, scan.start_offset)

        def require_complete() -> None:
            refresh()
            if self._files_of(bases) != files:
                self._require_not_compacted_beyond(scan.end_offset)
            # A truncation at the end of the range or above it counts too. It may follow a
            # compaction beyond that end; then the segments look as if there had been none.
            if local_log.truncation_counts != truncations or (
                generation is not None and uncut_generation(local_log.directory) != generation
            ):
                raise LogTruncatedError(
                    "the log was truncated while its last values were read: call latest() again",
                    file=local_log.directory.path,
                    found="a truncation",
                    expected="none since the call",
                )

        return LatestOfLog(scan, require_complete)

    def _files_of(self, base_offsets: Sequence[int]) -> list[tuple[int, int] | None]:
        """Return which file each segment is: inode and size; of the last one, which grows, no size.

        None for a file that is gone. A reader that opens its files again sees no other difference.
        """
        directory = self._local_log.directory
        files: list[tuple[int, int] | None] = []
        for base_offset in base_offsets:
            try:
                found = directory.info(file_name(base_offset, LOG_FILE_SUFFIX))
            except LogNotFoundError:
                files.append(None)
            else:
                grows = base_offset == base_offsets[-1]
                files.append((found.inode, -1 if grows else found.size))
        return files

    def _require_not_compacted_beyond(self, end_offset: int) -> None:
        """Raise when a last record below *end_offset* may have gone because of one above it.

        Compaction ends below the active segment and the last stable offset: where one of them is
        at *end_offset* or before, no record above has taken one away. A handle that follows another
        one takes over all new files, so the next pass reads nothing that is older than what this
        one has read.
        """
        local_log = self._local_log
        limit = min(local_log.segments.active_segment.base_offset, self.last_stable_offset())
        if limit > end_offset:
            raise IllegalStateError(
                "the log was compacted, or segments were deleted, while its last values were read,"
                " and one of a key may be missing: call latest() again",
                file=local_log.directory.path,
                found=f"compaction may have reached offset {limit}",
                expected=f"at most offset {end_offset}, the end of the read",
            )
        self._take_over_replaced()

    # ---- as records come -------------------------------------------------------------------------

    def follow(
        self,
        refresh: Callable[[], object],
        offset: int,
        timeout: float | None,
        poll_interval: float,
        isolation: Isolation,
    ) -> Iterator[Record]:
        """Yield records from *offset* on and wait for more [DUR-75..DUR-78].

        Parameters
        ----------
        refresh : callable
            Looks for what another process wrote since.
        timeout : float or None
            Seconds without a new record after which the iterator ends; None = never.
        poll_interval : float
            Seconds between two looks.
        """
        idle_since = time.monotonic()
        while True:
            scan = self.new_records(refresh, offset, isolation)
            if scan is not None:
                yield from scan
                offset = scan.end_offset
                idle_since = time.monotonic()
                continue
            pause = poll_interval
            if timeout is not None:
                pause = min(pause, idle_since + timeout - time.monotonic())
                if pause <= 0:
                    return
            time.sleep(pause)

    def new_records(
        self, refresh: Callable[[], object], offset: int, isolation: Isolation
    ) -> LogScan | None:
        """Return what is visible from *offset* on; None: there is nothing yet."""
        refresh()
        visible = self.visible(isolation)
        if offset < visible.bound.message_offset or visible.damage is not None:
            return self.scan(offset, None, isolation)
        return None

    # ---- by time ---------------------------------------------------------------------------------

    def find_offset_by_lane(self, timestamp: int | datetime) -> FileTimestampAndOffset | None:
        """Find the first record of that time or a later one by one call of the core [D11].

        None: the layers have to look.
        """
        if self._remote.tier is not None:
            return None
        local_log = self._local_log
        segments = local_log.segments
        lane = segments.lane or self._new_lane(segments)
        start, published = self._offsets.log_start_offset, local_log.published
        return lane.find_offset_by_timestamp(timestamp, start, published)

    def find_offset(self, timestamp: int) -> int | None:
        """Return the offset of the first record of that time or a later one, None without one."""
        local_log, tier = self._local_log, self._remote.tier
        segments, log_start = local_log.segments, self._offsets.log_start_offset
        if tier is not None and log_start != local_log.log_end.message_offset:
            topic_partition = self._checkpoint_store.topic_partition
            remote = tier.search(topic_partition, timestamp, log_start, self._epochs.entries)
            found = tier.first_of(remote, lambda start: self._find_offset_here(start, timestamp))
        else:
            try:
                found = self._find_offset_here(log_start, timestamp)
            except SegstoreError as error:
                explain(error, local_log, None, self._codecs)
                raise
        _teach_lane(segments)
        return None if found is None else found.offset

    def _find_offset_here(self, first_offset: int, timestamp: int) -> FileTimestampAndOffset | None:
        return find_offset_by_timestamp(
            self._local_log, first_offset, timestamp, self._take_over_replaced
        )

    def fetch_offset(self, timestamp: int, isolation: Isolation) -> FileTimestampAndOffset:
        """Answer as a broker answers ListOffsets [TS-1]."""
        bound, log_start = (
            self.visible(isolation).bound.message_offset,
            self._offsets.log_start_offset,
        )
        local_log, tier, epochs = self._local_log, self._remote.tier, self._epochs
        segments, truncations_done = local_log.segments, local_log.truncations.done
        try:
            if tier is None:
                found = fetch_offset(local_log, epochs, log_start, bound, timestamp)
            else:
                topic_partition = self._checkpoint_store.topic_partition
                found = fetch_tiered_offset(
                    tier, local_log, epochs, topic_partition, log_start, bound, timestamp
                )
        except SegstoreError as error:
            local_log.check_not_changed(truncations_done, bound, error)
            if self._take_over_replaced():
                return self.fetch_offset(timestamp, isolation)
            raise
        _teach_lane(segments)
        return found


def _nothing_aborted(_first_offset: int, _end: int) -> AbortedTransactions:
    return _NOTHING_ABORTED


def _teach_lane(segments: Segments) -> None:
    """Tell the lane which of the largest timestamps the layers have asked for meanwhile."""
    lane = segments.lane
    if lane is not None:
        lane.learn(segments.running_maxima)


def _check_batches(found: SegmentSlice) -> None:
    """Check the whole batches, which end where the slice does or are followed by part of one."""
    result = found.segment.scan_result(
        start_position=found.position,
        end_position=found.position + found.size_bytes,
        check_order=True,
        expected_offset=found.base_offset,
    )
    if result.why is not None:
        raise result.why
