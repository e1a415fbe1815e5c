"""The reading side of a log: fetches, scans, following the tail.

Source: [RD-*].
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, overload

from segstore._core import AbortedTransactions, process_id
from segstore.arguments import flag, integer, isolation_of, natural
from segstore.errors import (
    ClosedError,
    ForkedHandleError,
    SegstoreError,
)
from segstore.log.committed_view import LogMoment, current_view
from segstore.log.directory.partition_directory import LOG_FILE_SUFFIX, file_name
from segstore.log.directory.profile import Profile
from segstore.log.lane_reader import LaneReader
from segstore.log.local.batch_transactions import BatchTransactions
from segstore.log.local.list_of_aborted import list_of_aborted
from segstore.log.local.local_log import out_of_range
from segstore.log.log_scan import LogScan, check_range, timestamp_bounds
from segstore.log.remote_tier import only_in_remote_storage
from segstore.log.visible_range import NOTHING_ABORTED, VisibleRange
from segstore.records.fetch_data_info import FetchDataInfo
from segstore.types import Isolation, LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from segstore._core import AppendLock, ArrowStream, Record
    from segstore.config import LogConfig
    from segstore.log.committed_view import CommittedView
    from segstore.log.directory.leader_epoch_file_cache import LeaderEpochFileCache
    from segstore.log.local.segment import Segment
    from segstore.log.log_follower import LogFollower
    from segstore.log.remote_tier import RemoteTier
    from segstore.types import IsolationName

_LOG_END: Final = Isolation.LOG_END


class LogReader(LaneReader):
    """What can be read of a log; `UnifiedLog` adds what changes it.

    No method takes a lock: each takes the log end and the segments, immutable objects, once.
    """

    config: LogConfig
    read_only: bool
    _epochs: LeaderEpochFileCache
    _append_lock: AppendLock
    _process_id: int
    _is_closed: bool
    profile: Profile
    _committed: CommittedView | None = None
    _follower: LogFollower | None = None
    _tier: RemoteTier | None = None

    # ---- offsets ---------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether the log was closed."""
        return self._is_closed

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self._offsets.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The next offset to be written."""
        return self._local_log.published.log_end_offset

    @property
    def high_watermark(self) -> int:
        """What a consumer sees is below it: the log end, unless the log is ``replicated``."""
        return self._offsets.high_watermark

    @property
    def durable_offset(self) -> int:
        """Everything below is on stable storage: behind the truth, never ahead of it [DUR-4]."""
        return self._durable.message_offset

    @property
    def _durable(self) -> LogOffsetMetadata:
        raise NotImplementedError

    @property
    def last_stable_offset(self) -> int:
        """Where committed data ends: at an open transaction, or the high watermark [LSO-2]."""
        self._require_open()
        if self._offsets.replicated:
            return self._offsets.last_stable_offset
        return self._committed_view().last_stable_offset

    def segments(self) -> tuple[Segment, ...]:
        """Return the segments, ascending; the last is the active one."""
        return self._local_log.segments.as_tuple

    def _require_open(self) -> None:
        self._require_same_process()
        if self._is_closed:
            raise ClosedError(f"the log {self.topic_partition} is closed")

    def _require_same_process(self) -> None:
        if self._process_id != process_id():
            raise ForkedHandleError(
                f"the log was opened by process {self._process_id}: open it in this one instead",
                found=f"process {process_id()}",
                expected=f"process {self._process_id}",
            )

    def _check_log_start_offset(self, offset: int) -> None:
        """Kafka does so before it looks where visible data ends, which may move offsets [RD-2]."""
        if offset < self.log_start_offset:
            self._require_in_range(offset)

    @property
    def _first_offset_here(self) -> int:
        """The log start; behind it, where what comes first is in remote storage alone [RD-2]."""
        start = self.log_start_offset
        if self._tier is None:
            return start
        return max(start, self._local_log.segments.first_segment.base_offset)

    def _require_in_range(self, offset: int, start: int | None = None) -> None:
        start, end = self.log_start_offset if start is None else start, self.log_end_offset
        if not start <= offset <= max(start, end):
            if self.log_start_offset <= offset < start:
                raise only_in_remote_storage(
                    offset, self.log_start_offset, start, end, self._local_log.directory
                )
            raise out_of_range(offset, start, end, self._local_log.directory)

    def _visible(
        self,
        isolation: Isolation | IsolationName,
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
        wanted, local_log = isolation_of(isolation), self._local_log
        cuts_done, end = local_log.cuts.done, local_log.log_end
        try:
            match wanted:
                case Isolation.DURABLE:
                    return VisibleRange(self._durable)
                case Isolation.READ_COMMITTED:
                    return self._committed_range(offset, size_bytes, end_offset)
                case Isolation.HIGH_WATERMARK | Isolation.READ_UNCOMMITTED:
                    return VisibleRange(self._high_watermark())
                case _:
                    return VisibleRange(end)
        except SegstoreError as error:
            local_log.check_not_torn(cuts_done, end.message_offset, error)
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
        if not self._offsets.replicated:  # what the files say, and no more than that
            view = self._committed_view()
            visible = VisibleRange(view.bound, view.aborted_from, view.damage)
            if offset is None or not self.log_start_offset <= offset < view.known_from:
                return visible
            return self._told_by_batches(visible, view.moment, offset, size_bytes, end_offset)
        bound = self._offsets.last_stable_offset_metadata
        is_known = not self._offsets.high_watermark_metadata.message_offset_only
        if not is_known or bound.message_offset_only:
            with self._append_lock:
                bound = self._offsets.fetch_last_stable_offset_metadata()
        if self.profile is Profile.KAFKA:
            return VisibleRange(bound, self._local_log.aborted_between)
        visible = VisibleRange(bound, lambda *_: NOTHING_ABORTED)
        if offset is None or not self.log_start_offset <= offset < bound.message_offset:
            return visible
        moment = LogMoment.of(self._local_log)
        return self._told_by_batches(visible, moment, offset, size_bytes, end_offset)

    def _told_by_batches(
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
            found = self._batch_transactions.between(moment.segments, moment.end, first_offset, end)
            return AbortedTransactions(list_of_aborted(local_log, found, first_offset, end))

        batches = self._batch_transactions
        found = batches.between(moment.segments, moment.end, offset, upper_bound_offset)
        if found.bound is not None and found.bound.message_offset < visible.bound.message_offset:
            visible = VisibleRange(found.bound, damage=found.damage)
        if size_bytes is not None:  # the fetch tells where its bytes end, and so its list [LOC-9]
            return visible._replace(aborted_from=aborted)
        table = AbortedTransactions(found.transactions)
        return visible._replace(aborted_from=lambda *_: table)

    @cached_property
    def _batch_transactions(self) -> BatchTransactions:
        return BatchTransactions(self._local_log)

    def _committed_view(self) -> CommittedView:
        view = self._committed = current_view(
            self._committed,
            self._local_log,
            self._codecs,
            self.log_start_offset,
            lambda: self._durable.message_offset,
            has_other_writer=self.read_only,
        )
        return view

    # ---- records ---------------------------------------------------------------------------------

    @overload
    def read(
        self,
        offset: int,
        max_bytes: None = None,
        isolation: Isolation | IsolationName = ...,
        *,
        min_one_message: bool = ...,
    ) -> LogScan: ...

    @overload
    def read(
        self,
        offset: int,
        max_bytes: int,
        isolation: Isolation | IsolationName = ...,
        *,
        min_one_message: bool = ...,
    ) -> FetchDataInfo: ...

    def read(
        self,
        offset: int,
        max_bytes: int | None = None,
        isolation: Isolation | IsolationName = Isolation.LOG_END,
        *,
        min_one_message: bool = True,
    ) -> FetchDataInfo | LogScan:
        """Return the records from *offset* on: one fetch of stored bytes, or all of them lazily.

        Parameters
        ----------
        offset : int
            ``log_start_offset <= offset <= log_end_offset``.
        max_bytes : int or None
            Soft limit in bytes of one fetch from one segment, Kafka's semantics: it begins with the
            batch that contains *offset* and its last batch may be cut. None: a `LogScan` of
            everything up to the end as it is now.
        isolation : Isolation or str
            ``log_end``, ``high_watermark`` and ``read_uncommitted`` (the same here), ``durable``,
            or ``read_committed``.
        min_one_message : bool
            The first batch of a fetch comes whole even when it is larger than *max_bytes*.

        Returns
        -------
        FetchDataInfo or LogScan
            Both give records when they are iterated, and Arrow.

        Raises
        ------
        OffsetOutOfRangeError
            *offset* is outside the range above.
        LogTruncatedError
            The log was truncated in that moment [DUR-77].

        Source: [RD-1, LOC-6]; Kafka ``UnifiedLog.read``, ``LocalLog.read``.
        """
        if max_bytes is None:
            return self.scan(offset, isolation=isolation)
        if isolation is _LOG_END:
            found = self._read_by_lane(offset, max_bytes, min_one_message)
            if found is not None:
                return found
        return self._fetch(offset, max_bytes, isolation, min_one_message)

    def _fetch(
        self,
        offset: int,
        max_bytes: int,
        isolation: Isolation | IsolationName,
        min_one_message: bool,  # noqa: FBT001 - as the caller gave it
    ) -> FetchDataInfo:
        self._require_open()
        offset, max_bytes = integer("offset", offset), natural("max_bytes", max_bytes)
        flag("min_one_message", min_one_message)
        local_log = self._local_log
        cuts_done = local_log.cuts.done
        self._check_log_start_offset(offset)
        max_length = min(max_bytes, 2**31 - 1)
        visible = self._visible(isolation, offset, max_length)
        self._require_in_range(offset, self._first_offset_here)
        bound = visible.bound
        try:
            metadata, fetched = local_log.fetch(
                offset, max_length, bound, min_one_message=min_one_message
            )
        except SegstoreError as error:
            local_log.check_not_torn(cuts_done, bound.message_offset, error)
            raise
        if visible.damage is not None and offset >= bound.message_offset:
            raise visible.damage.error()
        aborted, aborted_below = visible.aborted_of_fetch(
            local_log, offset, metadata, None if fetched is None else fetched.size_bytes
        )
        if aborted is not None:  # looked up behind the bytes: both of one log
            local_log.cuts.check_not_cut(cuts_done, bound.message_offset)
        topic, partition = self.topic_partition
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
            check_order=local_log.written_order,
        )

    def _file_of(self, metadata: LogOffsetMetadata) -> str:
        name = file_name(metadata.segment_base_offset, LOG_FILE_SUFFIX)
        return f"{self._local_log.directory.path}/{name}"

    def scan(  # noqa: PLR0913 - the parts of a query
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        start_timestamp: int | datetime | None = None,
        end_timestamp: int | datetime | None = None,
        isolation: Isolation | IsolationName = Isolation.LOG_END,
        check_crcs: bool = True,
    ) -> LogScan:
        """Return a range of the log, to be read lazily.

        Parameters
        ----------
        start_offset, end_offset : int or None
            First offset, and the one behind the last; by default the whole log as it is now, as far
            as it is here and not in remote storage. An end above the log's is the log's.
        columns : sequence of str or None
            For Arrow: key, value, topic, partition, offset, timestamp, timestampType, headers,
            leaderEpoch; by default all but the last.
        start_timestamp, end_timestamp : int, datetime or None
            In ms, or with a time zone: records with ``start <= timestamp < end``.
        isolation : Isolation or str
            Where visible data ends; ``read_committed`` leaves out aborted transactions.
        check_crcs : bool
            False trusts the bytes; bounds and order are checked all the same [DUR-79].

        Raises
        ------
        OffsetOutOfRangeError
            *start_offset* is below the log start or above the log end.
        IllegalArgumentError
            A reversed range, or a column that does not exist.
        """
        self._require_open()
        flag("check_crcs", check_crcs)
        cuts_done = self._local_log.cuts.done
        first = self._first_offset_here
        start = first if start_offset is None else integer("start_offset", start_offset)
        self._require_in_range(start, first)
        check_range(start_offset, end_offset, "offset")
        visible = self._visible(isolation, start, None, end_offset)
        if start_offset is None:
            start = max(start, self._first_offset_here)  # what was deleted meanwhile
        low, high = timestamp_bounds(start_timestamp, end_timestamp)
        end = visible.bound.message_offset
        is_cut_off = end_offset is None or end_offset > end
        scan = LogScan(
            self._local_log,
            self._codecs,
            self.topic_partition,
            start_offset=start,
            end_offset=end if end_offset is None else min(end, end_offset),
            bound=visible.bound,
            aborted=visible.aborted_at(start),
            damage=visible.damage if is_cut_off else None,
            cuts_done=cuts_done,
            columns=columns,
            start_timestamp=low,
            end_timestamp=high,
            check_crcs=check_crcs,
        )
        self._require_in_range(start, self._first_offset_here)  # what it has taken may begin later
        return scan

    def select(
        self, *columns: str, isolation: Isolation | IsolationName = Isolation.LOG_END
    ) -> LogScan:
        """Return the whole log with these columns, for Arrow consumers."""
        return self.scan(columns=columns, isolation=isolation)

    def to_arrow(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        columns: Sequence[str] | None = None,
        *,
        isolation: Isolation | IsolationName = Isolation.LOG_END,
    ) -> Any:
        """Return a ``pyarrow.Table`` of a range; needs pyarrow. Parameters as in `scan`."""
        scan = self.scan(start_offset, end_offset, columns=columns, isolation=isolation)
        return scan.to_arrow()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the whole log to any Arrow consumer: pandas, polars, DuckDB, pyarrow.

        All of it, aborted and open transactions too: `select` takes an isolation.
        """
        return self.scan().__arrow_c_stream__(requested_schema)

    def _columns_to_append(self) -> ArrowStream:
        return self.scan()._columns_to_append()  # noqa: SLF001 - the same question to another

    def __iter__(self) -> Iterator[Record]:
        """Yield all records, of aborted and open transactions too: `scan` takes an isolation."""
        return iter(self.scan())

    def refresh(self) -> int:
        """Look for what another process wrote since; returns the log end."""
        raise NotImplementedError
