"""The log of one partition as a user sees it: `Log` reads, `UnifiedLog` also writes.

Every public method checks its arguments and whether the log may be asked, takes the lock where it
changes something, and lets a collaborator do it. What a method does belongs into that collaborator:
`LogReader`, `Appender`, `Truncation`, `Retention`, `RemotePart`, `Flusher`, and so on.
"""

from __future__ import annotations

import logging
import threading
import warnings
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final, overload

import segstore._core as _core
from segstore import arguments
from segstore.arguments import (
    append_origin,
    callback,
    flag,
    instance,
    integer,
    integer_within,
    isolation_of,
    natural,
    refuse_pickle,
    seconds,
)
from segstore.arguments import timestamp as timestamp_of
from segstore.config.log_config import LogConfig
from segstore.errors import (
    ClosedError,
    DiskFullError,
    FsyncFailedError,
    IllegalArgumentError,
    IllegalStateError,
    LogCleaningAbortedError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    ResourceError,
)
from segstore.log import checker, relocation
from segstore.log.access import LogAccess
from segstore.log.appender import Appender
from segstore.log.clean_part import CleanPart, clean_end_of
from segstore.log.cleaning.cleaner import DEFAULT_MAP_BYTES, Cleaner, map_bytes_for
from segstore.log.cleaning.compaction_forecast import (
    CompactionPlan,
    is_deletion_due,
    plan_compaction,
)
from segstore.log.closing import Closing
from segstore.log.compaction import Compaction, DirtyPart, aligned
from segstore.log.damage_errors import DAMAGE
from segstore.log.failure_mark import FailureMark
from segstore.log.files.checkpoints import HIGH_WATERMARK_CHECKPOINT, UNREADABLE, LogState
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from segstore.log.files.copied_log import copy_fingerprint
from segstore.log.files.partition_directory import directory_name, parse_directory_name
from segstore.log.files.partition_metadata_file import check_topic_id
from segstore.log.files.profile import Profile
from segstore.log.flusher import Flusher, new_flusher
from segstore.log.interrupted_append import note_appended
from segstore.log.kafka_profile.kafka_flusher import KafkaFlusher
from segstore.log.lane_switch import LaneSwitch
from segstore.log.local.local_log import nothing_replaced, out_of_range
from segstore.log.local.segment import Segment
from segstore.log.local.transaction_index_check import check_indexes, rebuild_wrong_indexes
from segstore.log.log_dir_failure_channel import IO_ERRORS
from segstore.log.log_metadata import LogMetadata
from segstore.log.log_reader import LogReader
from segstore.log.log_writer import LogWriter
from segstore.log.open_transaction import no_open_transaction
from segstore.log.producer_expiration import ProducerExpiration
from segstore.log.producers import active_producers, transaction_verification
from segstore.log.producers.producer_analysis import AppendRequest
from segstore.log.producers.producer_append_info import UNKNOWN_TRANSACTION_VERSION
from segstore.log.producers.verification_state_entry import VerificationGuard
from segstore.log.remote_tier import NOTHING_UPLOADED
from segstore.log.retention import Retention
from segstore.log.retention_planner import RetentionPlanner
from segstore.log.scan import LogQuery, checked_columns, slice_bounds
from segstore.log.sealed_segment_files import SealedSegmentFiles
from segstore.log.shutdown import suppress_repeated_error
from segstore.log.topic_identity import TopicIdentity
from segstore.log.truncation import Truncation
from segstore.notebook import as_html, first_records
from segstore.number_limits import MAX_INT, MAX_LONG
from segstore.records.compression import require_codec
from segstore.records.memory_records import MemoryRecords
from segstore.records.message_set_reader import MAX_CHUNK_BYTES, MessageSetReader
from segstore.records.message_set_receive import FETCH_MAX_BYTES
from segstore.records.record_builder import codec_of
from segstore.types import (
    AppendOrigin,
    Isolation,
    LogAppendInfo,
    LogOffsetMetadata,
)

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime
    from typing import Literal, NoReturn, Self, Unpack

    from typing_extensions import Buffer

    from segstore._core import ArrowStream, EncodedBatches, Record
    from segstore.log.check.verify_report import VerifyReport
    from segstore.log.cleaning.cleaner_stats import CleanerStats
    from segstore.log.file_records import FileRecords
    from segstore.log.files.log_directory_checkpoints import LogDirectoryCheckpoints
    from segstore.log.follower import LogFollower
    from segstore.log.latest_values import LatestOfLog
    from segstore.log.local.missing_records import MissingRecords
    from segstore.log.local.transaction_index import AbortedTransaction
    from segstore.log.log_offsets import LogOffsetSnapshot
    from segstore.log.log_parts import LogParts
    from segstore.log.log_reader import DurableEnd
    from segstore.log.open_transaction import OpenTransaction
    from segstore.log.producers.active_producers import ActiveProducer, LastRecord
    from segstore.log.producers.producer_state_manager import ProducerStateManager
    from segstore.log.record_dataset import RecordDataset
    from segstore.log.recovery.loaded_log import LoadedLog
    from segstore.log.retention_plan import DeletedSegment, RetentionPlan
    from segstore.log.scan import LogQueryOptions, LogScan
    from segstore.log.shutdown import Shutdown
    from segstore.log.sidecar_writing import SidecarsReport
    from segstore.record_columns import RecordColumns
    from segstore.records.fetch_data_info import FetchDataInfo
    from segstore.records.record_builder import Records
    from segstore.types import EpochEntry, FileTimestampAndOffset, IsolationName, TopicPartition

_LOG_END: Final = Isolation.LOG_END
_CLIENT: Final = AppendOrigin.CLIENT
_SENTINEL: Final = VerificationGuard.SENTINEL

_log = logging.getLogger(__name__)


class Log:
    """The log of one partition, to be read; any number of threads may read.

    ``segstore.open(..., read_only=True)`` returns one. Another process may be writing the log:
    `refresh` shows what it has written since. A method that changes a log raises
    `LogReadOnlyError`.

    Attributes
    ----------
    topic_partition : TopicPartition
        From the name of the directory.
    path : str
        Absolute path of the directory.
    durability : Durability
        When an append returns, as set by ``durability=`` and the flush settings of *config*.
    profile : Profile
        ``Profile.SAFE``, or ``Profile.KAFKA`` with ``recovery="kafka"``.
    report : RecoveryReport
        What the open found and did.
    shutdown : Shutdown
        The end of the handle, by `close`, `close_quietly` or `delete`.
    """

    __slots__ = ("__dict__", "__weakref__", "_access", "_published", "_reader")
    # a slot is found faster than one of so many attributes; every read looks there

    read_only = True
    """The log takes no changes, and another process may be writing it."""

    def __init__(
        self,
        parts: LogParts,
        access: LogAccess,
        end: Closing,
        durable_end: DurableEnd,
        follower: LogFollower | None,
    ) -> None:
        options, checkpoint_store = parts.options, parts.checkpoint_store
        self.topic_partition: TopicPartition = checkpoint_store.topic_partition
        self.path: str = checkpoint_store.directory.path
        self.profile: Profile = options.profile
        self.durability = options.durability.with_flush_settings(options.config)
        self.report = parts.report
        self._topic_id = parts.loaded.topic_id
        self._access = access
        self._append_lock = parts.append_lock
        self._background = parts.background
        self._checkpoint_store = checkpoint_store
        self._closing = end
        self.shutdown: Shutdown = end.shutdown
        self._directory = checkpoint_store.directory
        self._durable_end = durable_end
        self._epochs = parts.loaded.epochs
        self._follower = follower
        self._local_log = parts.local_log
        self._codecs = parts.codecs
        self._offsets = parts.offsets
        self._published = parts.local_log.published
        self._remote = parts.remote
        self._reader = LogReader(
            parts,
            durable_end,
            nothing_replaced if follower is None else follower.take_over_replaced,
            nothing_replaced if follower is None else follower.refresh,
        )
        self._retention_planner = RetentionPlanner(parts)

    # ---- state -----------------------------------------------------------------------------------

    @property
    def config(self) -> LogConfig:
        """The settings in force."""
        return self._local_log.config

    @property
    def closed(self) -> bool:
        """Whether the log is closed."""
        return self._access.is_closed

    @property
    def topic_id(self) -> uuid.UUID | None:
        """The topic's id, as in ``partition.metadata``; None when it is unknown."""
        return self._topic_id

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self._offsets.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._published.log_end_offset

    @property
    def high_watermark(self) -> int:
        """Consumers see the records below it: the log end, unless ``replicated`` is set."""
        return self._offsets.high_watermark

    @property
    def durable_offset(self) -> int:
        """All records below it are durable; more may be, never fewer [DUR-4]."""
        return self._durable_end.durable.message_offset

    @property
    def last_stable_offset(self) -> int:
        """Where committed reads end: an open transaction or the high watermark [LSO-2]."""
        self._access.require_open()
        return self._reader.last_stable_offset()

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the earliest transaction that ends at or above the high watermark.

        An open transaction counts. None without one, or if the log was opened to read [LSO-1].
        """
        self._access.require_open()
        return self._offsets.first_unstable_offset

    def open_transactions(self) -> tuple[OpenTransaction, ...]:
        """Return the transactions that are open, ascending by their first offsets.

        The first one holds the last stable offset. `OpenTransaction.is_hanging` says whether a
        transaction coordinator would have ended it by now.

        Raises
        ------
        CorruptLogError
            The log is damaged in a part that this call has to read.

        Source: [LSO-1]; Kafka ``kafka-transactions.sh find-hanging``.
        """
        self._access.require_open()
        return self._reader.open_transactions()

    @property
    def recovery_point(self) -> int:
        """The recovery point that the checkpoint on disk has, at most the durable offset.

        After a crash, an open checks the log from there on.
        """
        return self._durable_end.recovery_point

    def segments(self) -> tuple[Segment, ...]:
        """Return all segments, ascending; the last is the active segment."""
        return self._local_log.segments.as_tuple

    def stats(self) -> dict[str, int | str | bool]:
        """Return counters and sizes by name; the names follow Kafka's metrics."""
        self._access.require_open()
        segments = self._local_log.segments
        return {
            "topic": self.topic_partition.topic,
            "partition": self.topic_partition.partition,
            "log_start_offset": self.log_start_offset,
            "log_end_offset": self.log_end_offset,
            "durable_offset": self.durable_offset,
            "recovery_point": self.recovery_point,
            "num_log_segments": len(segments),
            "size": segments.size_in_bytes,
            "active_segment_base_offset": segments.active_segment.base_offset,
            "latest_leader_epoch": -1 if (epoch := self._epochs.latest_epoch) is None else epoch,
            "durability": str(self.durability),
            "read_only": self._access.takes_no_changes,
        }

    def maybe_convert_to_offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """Return *offset* with its position; the offset alone when it is not stored here [HW-9]."""
        self._access.require_open()
        return self._local_log.offset_metadata(integer("offset", offset))

    def set_high_watermark_listener(self, listener: Callable[[int], None] | None) -> None:
        """Call *listener* with each high watermark that the caller sets [LIS-1].

        For a log opened with ``replicated=True``. In other logs the high watermark is the log end,
        and no listener is called. The call happens under the append lock: *listener* must not use
        the log. An exception of *listener* leaves the call that moved the high watermark, after the
        move. `close` drops the listener.
        """
        self._access.require_open()
        callback("listener", listener)
        with self._append_lock:
            self._offsets.listen(listener)

    # ---- retention -------------------------------------------------------------------------------

    def plan_retention(self, config: LogConfig | None = None) -> RetentionPlan:
        """Return what retention would delete now, and what keeps the rest; nothing changes.

        Parameters
        ----------
        config : LogConfig or None
            Settings to go by; None = those in force.

        Source: [RTN-2…RTN-15].
        """
        self._access.require_open()
        if config is not None:
            instance("config", config, LogConfig, "a LogConfig")
        with self._append_lock:
            return self._retention_planner.plan(self.config if config is None else config)

    def plan_compaction(self, *, memory_bytes: int = DEFAULT_MAP_BYTES) -> CompactionPlan:
        """Return about what `UnifiedLog.compact` would take away; nothing changes.

        Reads the keys of all segments before the active one, below open transactions and records
        that are younger than ``min_compaction_lag_ms``.

        Parameters
        ----------
        memory_bytes : int
            For the keys, 24 bytes each; the plan ends where they are full.

        Raises
        ------
        CorruptLogError, CorruptRecordError
            A batch is damaged: compaction would not get past it [DUR-125].
        """
        self._access.require_open()
        segments, now_ms = self._local_log.segments, self._directory.wall_clock_ms()
        part = self._dirty_part(now_ms)
        end, young = part.end_offset, part.young_offset
        aborted = [
            (one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset)
            for one in self.collect_aborted_transactions(self.log_start_offset, end)
        ]
        below = [segment for segment in segments if segment.base_offset < end]
        plan = plan_compaction(
            below, self._codecs, aborted, end, integer("memory_bytes", memory_bytes)
        )
        is_held_back = young < part.undecided_offset
        held_back_until = None
        holding = segments.floor_segment(young) if is_held_back else None
        if holding is not None and not holding.may_hide_times():
            held_back_until = (
                holding.latest_possible_timestamp() + self.config.min_compaction_lag_ms
            )
        is_overdue = part.delay_ms and part.dirty_bytes
        return plan._replace(
            first_dirty_offset=part.first_dirty_offset,
            dirty_ratio=part.ratio,
            held_back_from=young if is_held_back else None,
            held_back_until=held_back_until,
            overdue_since=now_ms - part.delay_ms if is_overdue else None,  # [CLN-39]
        )

    def _dirty_part(self, now_ms: int) -> DirtyPart:
        """Return what a pass of compaction would clean now; no record is read."""
        first_dirty = max(self.log_start_offset, self._clean_end() or 0)
        stable = self.scan(isolation=Isolation.READ_COMMITTED).end_offset
        return DirtyPart.of(self._local_log, first_dirty, stable, now_ms)

    def _clean_end(self) -> int | None:
        """Return where the clean part ends; None where nothing is known to be clean [DUR-126]."""
        if self.profile is not Profile.SAFE:
            return None
        state = LogState.read(self._directory, is_for_writing=False)
        if state is None or not state.fits(self._epochs.latest_entry):
            return None
        return clean_end_of(state, self._local_log, self._topic_id)

    @property
    def retention_size_in_percent(self) -> int:
        """Percent of ``retention.bytes`` in use after the last run; 0 without a limit [RET-11]."""
        return 0  # a reader deletes nothing

    # ---- leader epochs ---------------------------------------------------------------------------

    @property
    def latest_epoch(self) -> int | None:
        """The newest leader epoch; None when the log has none."""
        return self._epochs.latest_epoch

    @property
    def leader_epochs(self) -> tuple[EpochEntry, ...]:
        """All known leader epochs, ascending, each with its first offset.

        A handle for reading has them as of its open.
        """
        return self._epochs.entries

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """Return the newest epoch up to *epoch* and its end offset; None when unknown [EPC-5]."""
        self._access.require_open()
        found = self._epochs.end_offset_for(integer("epoch", epoch), self.log_end_offset)
        return None if found[1] < 0 else found

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
            Soft limit in bytes of one fetch from one segment, with Kafka's semantics: the bytes
            begin with the batch that contains *offset*, and the last batch may be cut. None: a
            `LogScan` of all records up to the end as of now.
        isolation : Isolation or str
            ``log_end``, ``high_watermark`` and ``read_uncommitted`` (the same here), ``durable``,
            or ``read_committed``.
        min_one_message : bool
            Return the first batch whole even when it is larger than *max_bytes*.

        Returns
        -------
        FetchDataInfo or LogScan
            Iterate either for records, or call ``to_arrow``.

        Raises
        ------
        OffsetOutOfRangeError
            *offset* is outside the range above, or in remote storage alone and there is no
            ``remote_log_reader``.
        LogTruncatedError
            The log was truncated during the read [DUR-77].
        RemoteStorageError
            The ``remote_log_reader`` failed; it may also raise errors of its own [DUR-144].

        Source: [RD-1, LOC-6]; Kafka ``UnifiedLog.read``, ``LocalLog.read``.
        """
        if max_bytes is None:
            return self.scan(offset, isolation=isolation)
        reader = self._reader
        if isolation is _LOG_END:
            found = reader.read_by_lane(offset, max_bytes, min_one_message)
            if found is not None:
                return found
        self._access.require_open()
        if isolation is _LOG_END:
            found = reader.read_by_remote_lane(offset, max_bytes, min_one_message)
            if found is not None:
                return found
        offset, max_bytes = integer("offset", offset), natural("max_bytes", max_bytes)
        flag("min_one_message", min_one_message)
        max_bytes, isolation = min(max_bytes, MAX_INT), isolation_of(isolation)
        if isolation is not _LOG_END:
            found = reader.read_by_remote_lane(offset, max_bytes, min_one_message, isolation)
            if found is not None:
                return found
        return reader.fetch(offset, max_bytes, isolation, min_one_message=min_one_message)

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
        on_damage: Literal["raise", "skip"] = "raise",
    ) -> LogScan:
        """Return a range of the log, to be read lazily.

        Parameters
        ----------
        start_offset, end_offset : int or None
            First offset, and one more than the last. Default: the whole log as of now; without a
            ``remote_log_reader``, what is here of it. An end above the log end means the log end.
        columns : sequence of str or None
            For Arrow, some of key, value, topic, partition, offset, timestamp, timestampType,
            headers, leaderEpoch. Default: all but the last.
        start_timestamp, end_timestamp : int, datetime or None
            In ms since 1970, or a datetime with a time zone. Only records with
            ``start <= timestamp < end`` are returned.
        isolation : Isolation or str
            Where visible data ends; ``read_committed`` leaves out aborted transactions.
        check_crcs : bool
            False: checksums are not compared; bounds and order are still checked [DUR-79].
        on_damage : str
            ``raise``: the scan ends with an error at the damage. ``next_readable_offset`` of the
            error is the offset of the next whole batch.
            ``skip``: the scan goes on with each whole batch whose offsets fit its neighbours, also
            after the damage at which the log ends for this handle. ``skipped`` of the scan lists
            what was left out. Each file is searched from its beginning. With ``read_committed``,
            the headers of all batches are read first, and a transaction is left out when the damage
            may hide its end. `salvage` leaves out more: batches whose leader epoch is older than
            that of a batch before them. Records that are in remote storage alone are not read.

        Raises
        ------
        OffsetOutOfRangeError
            *start_offset* is below the log start or above the log end.
        IllegalArgumentError
            A reversed range, an unknown column, or ``on_damage="skip"`` with ``check_crcs=False``:
            only checksums find damage.
        """
        return self._scan(
            LogQuery.of(
                start_offset,
                end_offset,
                columns=columns,
                start_timestamp=start_timestamp,
                end_timestamp=end_timestamp,
                isolation=isolation,
                check_crcs=check_crcs,
                on_damage=on_damage,
            )
        )

    def _scan(self, query: LogQuery, *, to_known_end: bool = False) -> LogScan:
        """Scan a range.

        A handle has its `report`: who reads by it knows that it lacks records. A query of many
        logs, or of one that it opens itself, asks with *to_known_end*: then the scan raises that.
        Who has read beyond the end that the open found has seen that no damage ends the log there.
        """
        self._access.require_open()
        if query.skips_damage:
            return self._reader.scan_around_damage(
                query.start_offset,
                query.end_offset,
                query.isolation,
                beyond=self.report.damage is not None,
                columns=query.columns,
                start_timestamp=query.start_timestamp,
                end_timestamp=query.end_timestamp,
            )
        is_as_opened = self.log_end_offset == self.report.log_end_offset
        return self._reader.scan(
            query.start_offset,
            query.end_offset,
            query.isolation,
            columns=query.columns,
            start_timestamp=query.start_timestamp,
            end_timestamp=query.end_timestamp,
            check_crcs=query.check_crcs,
            damage=self.report.early_end_in(self.path) if to_known_end and is_as_opened else None,
        )

    def dataset(self, **query: Unpack[LogQueryOptions]) -> RecordDataset:
        """Return the log as a dataset of pyarrow, of which an engine reads what a query needs.

        ``duckdb.sql("select … from orders")`` with ``orders = log.dataset()`` reads it, and so do
        ``polars.scan_pyarrow_dataset`` and the methods of pyarrow's datasets. Nothing is read
        before. Each query sees the log as it is when the query begins.

        Parameters
        ----------
        **query
            As for `scan`: columns, bounds, isolation, check_crcs, on_damage.

        Raises
        ------
        IllegalArgumentError
            As in `scan`.
        ImportError
            When pyarrow is not installed.
        """
        from segstore.log.record_dataset import RecordDataset, RecordSource

        self._access.require_open()
        checked = LogQuery.of(**query)
        columns = checked_columns(checked.columns)
        checked = checked._replace(columns=columns)
        return RecordDataset(
            RecordSource(columns, lambda: [self._scan(checked, to_known_end=True)])
        )

    def _latest(self, columns: Sequence[str] | None) -> LatestOfLog:
        """Return the last committed value of each key, for the manager."""
        self._access.require_open()
        return self._reader.latest(self.refresh, columns)

    def select(
        self, *columns: str, isolation: Isolation | IsolationName = Isolation.LOG_END
    ) -> LogScan:
        """Return a scan of the whole log with these columns, for Arrow consumers."""
        return self.scan(columns=columns, isolation=isolation)

    def to_arrow(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        columns: Sequence[str] | None = None,
        *,
        isolation: Isolation | IsolationName = Isolation.LOG_END,
    ) -> Any:
        """Return a range as a ``pyarrow.Table``, with the parameters of `scan`; needs pyarrow."""
        scan = self.scan(start_offset, end_offset, columns=columns, isolation=isolation)
        return scan.to_arrow()

    def to_pandas(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        columns: Sequence[str] | None = None,
        *,
        isolation: Isolation | IsolationName = Isolation.LOG_END,
    ) -> Any:
        """Return a range as a ``pandas.DataFrame``, as `to_arrow`; needs pyarrow and pandas."""
        scan = self.scan(start_offset, end_offset, columns=columns, isolation=isolation)
        return scan.to_pandas()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the whole log to any Arrow consumer: pandas, polars, DuckDB, pyarrow.

        All of it, aborted and open transactions too: `select` takes an isolation.
        """
        return self.scan().__arrow_c_stream__(requested_schema)

    def _columns_to_append(self, named: RecordColumns) -> ArrowStream:
        return self.scan()._columns_to_append(named)  # noqa: SLF001 - the same question to another

    def __iter__(self) -> Iterator[Record]:
        """Yield all records, of aborted and open transactions too: `scan` takes an isolation."""
        return iter(self.scan())

    def __len__(self) -> int:
        """Return the number of records that iteration yields; gaps and markers do not count.

        The headers of all batches are read, and no records; what is in remote storage alone is
        fetched as a whole.
        """
        return len(self.scan())

    def __bool__(self) -> bool:
        """Return True: a log without records is a log too."""
        return True

    @overload
    def __getitem__(self, key: int) -> Record: ...

    @overload
    def __getitem__(self, key: slice) -> LogScan: ...

    def __getitem__(self, key: int | slice) -> Record | LogScan:
        """Return the record at an offset; ``log[a:b]`` is ``log.scan(a, b)``.

        Parameters
        ----------
        key : int or slice
            An offset; offsets are not counted from the end.

        Raises
        ------
        OffsetOutOfRangeError
            There is no record at that offset; the error names the next one. It is an `IndexError`.
            For a slice, its start is not in the log.
        """
        if isinstance(key, slice):
            return self.scan(*slice_bounds(key))
        offset = integer("an offset", key)
        if self.log_start_offset <= offset < self.log_end_offset:
            record = next(iter(self.read(offset, 1)), None)  # of one batch, as a rule
            if record is not None and record.offset == offset:
                return record
        return self.scan()[offset]

    __reversed__ = None  # by offsets from 0 to the number of records it would be wrong

    def _new_records(self, offset: int, isolation: Isolation) -> LogScan | None:
        """Return what is visible from *offset* on, if there is something, for who follows it."""
        self._access.require_open()
        return self._reader.new_records(self.refresh, offset, isolation)

    def slice(
        self,
        offset: int,
        max_bytes: int,
        isolation: Isolation | IsolationName = Isolation.LOG_END,
        *,
        min_one_message: bool = True,
        check_crcs: bool = False,
    ) -> FileRecords:
        """Return what `read` would, with the bytes left in the file, to be sent unchanged.

        Parameters
        ----------
        offset, max_bytes, isolation, min_one_message
            As in `read` for one fetch.
        check_crcs : bool
            True: check all whole batches and their CRCs before any byte is sent. False: check only
            the headers before the first batch, as a fetch does [DUR-79].

        Returns
        -------
        FileRecords
            ``write_to`` sends it to a socket, pipe or file without a copy in this process.

        Raises
        ------
        OffsetOutOfRangeError
            *offset* is below the log start, above the log end, or in remote storage alone.
        CorruptRecordError
            A batch is damaged; only with *check_crcs*.

        Source: Kafka ``UnifiedLog.read``, ``FileRecords.slice``.
        """
        reader = self._reader
        if isolation is _LOG_END and check_crcs is False:
            found = reader.slice_by_lane(self, offset, max_bytes, min_one_message)
            if found is not None:
                return found
        self._access.require_open()
        offset, max_bytes = integer("offset", offset), natural("max_bytes", max_bytes)
        flag("min_one_message", min_one_message)
        flag("check_crcs", check_crcs)
        return reader.slice(
            self,
            offset,
            min(max_bytes, MAX_INT),
            isolation_of(isolation),
            min_one_message=min_one_message,
            check_crcs=check_crcs,
        )

    def message_set_reader(
        self,
        *,
        max_chunk_bytes: int = MAX_CHUNK_BYTES,
        max_buffer_bytes: int = FETCH_MAX_BYTES,
        isolation: Isolation | IsolationName = Isolation.LOG_END,
    ) -> MessageSetReader:
        """Return a reader by offset and maximum chunk size, as Kafka's design pages describe it.

        Parameters
        ----------
        max_chunk_bytes : int
            Size of a chunk in bytes. For a larger batch, the reader doubles the size and reads
            again.
        max_buffer_bytes : int
            Largest size in bytes; a larger batch is a `LimitExceededError`.
        isolation : Isolation or str
            As in `read`.
        """
        isolation = isolation_of(isolation)

        def fetch(offset: int, max_bytes: int) -> FetchDataInfo:
            return self.read(offset, max_bytes, isolation, min_one_message=False)

        return MessageSetReader(
            fetch, max_chunk_bytes=max_chunk_bytes, max_buffer_bytes=max_buffer_bytes
        )

    def tail(
        self,
        offset: int | None = None,
        *,
        timeout: float | None = None,
        poll_interval: float = 0.05,
        isolation: Isolation | IsolationName = Isolation.LOG_END,
    ) -> Iterator[Record]:
        """Yield records from *offset* on and wait for more; also while another process writes.

        Parameters
        ----------
        offset : int or None
            None = the log end: only new records.
        timeout : float or None
            Seconds without a new record after which the iterator ends; None = never.
        poll_interval : float
            Seconds between two checks for new records.
        isolation : Isolation or str
            As in `scan`; ``read_committed`` waits until a transaction ends.

        Raises
        ------
        OffsetOutOfRangeError
            *offset* is not in the log, or was deleted before this call read it.
        LogTruncatedError
            The writer truncated the log below the records that were read: it ends below them, or
            has another batch at the place of the last one [DUR-77].
        LogNotFoundError
            The log was deleted. A new log at its path is not followed.
        InconsistentTopicIdError
            The same, and ``partition.metadata`` has another topic id; the error has both ids.
        """
        self._access.require_open()
        start = self.log_end_offset if offset is None else integer("offset", offset)
        self.refresh()
        reader = self._reader
        reader.require_in_range(start, reader.first_offset)
        patience = None if timeout is None else seconds("timeout", timeout)
        pause = min(seconds("poll_interval", poll_interval), threading.TIMEOUT_MAX)
        return reader.follow(self.refresh, start, patience, pause, isolation_of(isolation))

    def collect_aborted_transactions(
        self, start_offset: int, upper_bound_offset: int
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions that a reader of the range needs [LOC-10].

        The list may also have transactions that ended before *start_offset* in the same segment, as
        in Kafka. Compare offsets.

        Raises
        ------
        CorruptIndexError
            The transaction index of a segment contradicts its batches. Kafka's profile does not
            check.
        """
        self._access.require_open()
        start_offset = integer("start_offset", start_offset)
        upper_bound_offset = integer("upper_bound_offset", upper_bound_offset)
        local_log = self._local_log
        if self.profile is Profile.SAFE:
            check_indexes(local_log, start_offset, self.log_start_offset)
        return local_log.collect_aborted_transactions(
            self.log_start_offset, start_offset, upper_bound_offset
        )

    # ---- by time ---------------------------------------------------------------------------------

    def offset_for_timestamp(self, timestamp: int | datetime) -> int | None:
        """Return the offset of the first record with that timestamp or a later one, or None.

        As in Kafka, the marker that ends a transaction counts, with the time of its append.
        ``next(iter(log.scan(start_timestamp=t)))`` is the first record that is none.

        Parameters
        ----------
        timestamp : int or datetime
            In ms since 1970, or a datetime with a time zone. Negative values have no special
            meaning.
        """
        cuts, reader = self._local_log.truncations, self._reader
        truncations_done = cuts.done
        found = reader.find_offset_by_lane(timestamp)
        if found is not None:
            cuts.check_not_truncated(truncations_done, found.offset + 1)
            return found.offset
        self._access.require_open()
        return reader.find_offset(timestamp_of("timestamp", timestamp))

    def fetch_offset_by_timestamp(
        self, timestamp: int | datetime, isolation: Isolation | IsolationName = Isolation.LOG_END
    ) -> FileTimestampAndOffset:
        """Return what a broker answers to ListOffsets [TS-1].

        Parameters
        ----------
        timestamp : int or datetime
            In ms since 1970, a datetime with a time zone, or a `SpecialTimestamp` such as
            ``LATEST``.
        isolation : Isolation or str
            Where visible data ends. No record from there on is found; that offset is the latest.

        Returns
        -------
        FileTimestampAndOffset
            ``offset`` is -1 when no record was found.

        Source: [TS-1..TS-4, TS-6]; Kafka ``UnifiedLog.fetchOffsetByTimestamp``.
        """
        reader = self._reader
        if isolation is _LOG_END:
            found = reader.find_offset_by_lane(timestamp)
            if found is not None:
                return found
        self._access.require_open()
        is_number = hasattr(timestamp, "__index__")
        time_ms = timestamp_of("timestamp", timestamp)
        if not is_number and time_ms < 0:  # a time before 1970, and none of the special numbers
            time_ms = 0
        return reader.fetch_offset(time_ms, isolation_of(isolation))

    # ---- checks ----------------------------------------------------------------------------------

    def verify(self, progress: Callable[[str, int, int], None] | None = None) -> VerifyReport:
        """Check every batch, index, sidecar and small file of the directory; change nothing.

        The check is that of `segstore verify`. It reads the files as they are now.

        Parameters
        ----------
        progress : callable or None
            Called with ``"verify"``, the bytes checked and the bytes to check.

        Returns
        -------
        VerifyReport
            ``findings`` lists what is wrong, each with a code; ``ok`` is True without findings.

        Raises
        ------
        ClosedError
            The log is closed, or was closed during the check.
        """
        self._access.require_open()
        callback("progress", progress)
        return checker.verify(
            self._local_log, self._offsets, self.topic_partition, self.report, progress
        )

    def missing_records(self) -> list[MissingRecords]:
        """Return the gaps between segments in which records are missing, ascending.

        A gap that compaction left looks the same as a loss: only gaps with proof are returned. The
        call reads the end of each segment; `verify` reads all batches.

        Returns
        -------
        list of MissingRecords
            ``first_offset``, ``next_offset`` (one more than the last) and ``shown_by``: the name of
            the file that proves the loss.

        Raises
        ------
        ClosedError
            The log is closed.

        Notes
        -----
        [DUR-7, DUR-54]. A read that reaches such a gap raises `CorruptLogError`.
        """
        self._access.require_open()
        return self._local_log.missing_records(self.log_start_offset)

    def scrub(
        self,
        *,
        bytes_per_second: int | None = checker.SCRUB_BYTES_PER_SECOND,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> VerifyReport:
        """Check what `verify` checks, with the bytes on the disk, slowly; change nothing.

        The check first drops the ``.log`` files from the page cache. So it finds a disk that loses
        bits while another copy still exists. Deletions, truncations and appends go on meanwhile.

        Parameters
        ----------
        bytes_per_second : int or None
            Limit of the read rate, 64 MiB by default; None = no limit.
        progress : callable or None
            Called with ``"scrub"``, the bytes read and the bytes to read.

        Returns
        -------
        VerifyReport
            As `verify` returns it.

        Raises
        ------
        ClosedError
            The log is closed, or was closed during the check.

        Notes
        -----
        [DUR-60]. The kernel keeps pages that are mapped, or not yet written to the disk.
        """
        self._access.require_open()
        if bytes_per_second is not None:
            integer_within("bytes_per_second", bytes_per_second, 1, MAX_LONG)
        callback("progress", progress)
        return checker.scrub(
            self._local_log,
            self._offsets,
            self.topic_partition,
            self.report,
            bytes_per_second,
            progress,
        )

    # ---- remote storage --------------------------------------------------------------------------

    @property
    def remote_log_enabled(self) -> bool:
        """Whether a part of the log is in remote storage [UNI-6]."""
        return self._remote.tier is not None

    @property
    def local_log_start_offset(self) -> int:
        """The first local offset; the log start without remote storage [UNI-2]."""
        tier = self._remote.tier
        return self.log_start_offset if tier is None else tier.local_log_start_offset

    @property
    def highest_offset_in_remote_storage(self) -> int:
        """The last offset that is known to be in remote storage; -1 = none."""
        tier = self._remote.tier
        return NOTHING_UPLOADED if tier is None else tier.highest_offset

    @property
    def only_local_log_segments_count(self) -> int:
        """Number of the segments that are not in remote storage [LST-7]."""
        return len(self._only_local())

    @property
    def only_local_log_segments_size(self) -> int:
        """Bytes of the segments that are not in remote storage [LST-7]."""
        return sum(segment.size_bytes for segment in self._only_local())

    def _only_local(self) -> list[Segment]:
        self._access.require_open()
        tier, segments = self._remote.tier, self._local_log.segments
        return list(segments) if tier is None else tier.only_local(segments)

    # ---- reading what others write ---------------------------------------------------------------

    def refresh(self) -> int:
        """Look for records that another process has written; returns the log end.

        A handle for writing has nothing to look for.

        Raises
        ------
        LogTruncatedError
            The writer truncated the log below what this handle has seen. From now on the handle
            shows the log as it is.
        LogNotFoundError
            The log was deleted. A new log at its path is not followed.
        InconsistentTopicIdError
            The same, and ``partition.metadata`` has another topic id; the error has both ids.
        """
        self._access.require_open()
        follower = self._follower
        if follower is not None:
            with self._append_lock:
                follower.refresh()
        return self.log_end_offset

    def _is_in_place(self) -> bool:
        """Whether a reader's directory is still at its path, and of the same topic."""
        return self._follower is None or self._follower.is_in_place()

    # ---- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Close all files; a second call does nothing."""
        self._closing.end(None)

    def close_quietly(self) -> None:
        """Release everything and write nothing, as if the process had died.

        Kafka ``closeQuietly``.
        """
        self._closing.end(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        with suppress_repeated_error(error):
            self.close()

    def __del__(
        self,
        process_id: Callable[[], int] = _core.process_id,
        warn: Callable[..., None] = warnings.warn,
    ) -> None:
        # at the interpreter's end a module's names may be gone before the last log is
        access = getattr(self, "_access", None)
        if access is None or access.is_closed or access.process_id != process_id():
            return
        self._background.drop()
        if not self.read_only:
            lost = f"the log {self.path} was dropped without close(): the next open will recover it"
            warn(lost, ResourceWarning, source=self)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        refuse_pickle(
            f"the log {self.topic_partition}",
            "pass its path, and open it there: segstore.open(path, read_only=True)",
        )

    @as_html
    def _repr_html_(self) -> Iterator[tuple[str, object]]:
        self._access.require_open()
        yield "path", self.path
        segments = self._local_log.segments
        yield "size", f"{segments.size_in_bytes:,} bytes in {len(segments)} segments"
        yield "log end offset, durable offset", f"{self.log_end_offset}, {self.durable_offset}"
        yield "last stable offset", self.last_stable_offset
        scan = self.scan()
        yield "first records", first_records(scan._first(), scan.columns)  # noqa: SLF001 - as a scan shows them

    def __repr__(self) -> str:
        name = type(self).__name__
        if self.closed:
            return f"<{name} {self.topic_partition}, closed>"
        return (
            f"<{name} {self.topic_partition}, offsets {self.log_start_offset} to"
            f" {self.log_end_offset}{', read-only' if self.read_only else ''}>"
        )


class UnifiedLog(Log):
    """The log of one partition, to be written and read by any number of threads.

    `segstore.open` returns one.
    """

    __slots__ = ("_appender", "_lane_switch")  # every append looks there

    read_only = False

    def __init__(self, parts: LogParts) -> None:
        loaded, options, checkpoint_store = parts.loaded, parts.options, parts.checkpoint_store
        config = options.config
        local_log, offsets, producers = parts.local_log, parts.offsets, loaded.producer_state
        if producers is None:
            raise IllegalStateError(
                "a log that is written needs its producers", file=checkpoint_store.directory.path
            )
        append_lock, log_environment = parts.append_lock, parts.log_environment
        self._chosen_durability = options.durability
        durability = options.durability.with_flush_settings(config)
        failure_mark = FailureMark(
            append_lock, checkpoint_store.directory, log_environment.failures
        )
        flusher = new_flusher(parts, durability, failure_mark)
        _let_handlers_know(parts, producers)
        access = LogAccess(checkpoint_store, failure_mark, log_environment.failures)
        self._changing = _core.ChangeLock(append_lock, access.require_writable)
        self._cleaning = threading.Lock()
        lane_switch = LaneSwitch(local_log, offsets, loaded.epochs, flusher)
        end = Closing(parts, access, flusher, lane_switch)
        super().__init__(parts, access, end, flusher, None)
        self._flusher = flusher
        self._failure_mark = failure_mark
        self._open_handles = parts.open_handles
        self._lane_switch = lane_switch
        self._on_new_name = log_environment.on_new_name
        self._producers = producers
        self._metadata = metadata = LogMetadata(parts, flusher, failure_mark)
        self._expiration = ProducerExpiration(
            producers, append_lock, parts.background, checkpoint_store.directory
        )
        self._topic_identity = TopicIdentity(
            checkpoint_store.directory, loaded.topic_id, failure_mark
        )
        self._writer = writer = LogWriter(
            parts,
            access,
            producers,
            self._expiration,
            metadata,
            CleanPart(metadata, local_log, self._topic_identity),
            flusher,
            failure_mark,
            lane_switch,
        )
        self._retention = Retention(writer, checkpoint_store, parts.remote, self._retention_planner)
        self._truncation = Truncation(writer, checkpoint_store, parts.remote)
        parts.remote.use_config(config, local_log, offsets, flusher)
        self._appender = Appender(writer, append_lock, self._topic_identity, config, durability)
        self._begin(loaded, options.topic_id)
        access.open()

    def _begin(self, loaded: LoadedLog, topic_id: uuid.UUID | None) -> None:
        """Do what follows an open, before the first call."""
        flusher, profile = self._flusher, self.profile
        flusher.raise_recovery_point(self.local_log_start_offset)
        self._offsets.update_first_unstable_offset()
        if topic_id is not None:
            self._take_topic_id(topic_id)
        for one in loaded.awaiting_deletion:
            unlink = one.delete_files if isinstance(one, Segment) else one.delete_if_exists
            self._local_log.unlink_later(unlink)
        if profile is Profile.KAFKA or not self._producers.is_empty:
            self._expiration.start()

    @property
    def topic_id(self) -> uuid.UUID | None:
        """The topic's id, as in ``partition.metadata``; None when it is unknown."""
        return self._topic_identity.topic_id

    # ---- append ----------------------------------------------------------------------------------

    def append(
        self,
        records: Records,
        *,
        timestamp: int | datetime | str | None = None,
        key: str | None = None,
        value: str | Sequence[str] | None = None,
        headers: str | None = None,
    ) -> LogAppendInfo:
        """Append records; return when they are as durable as `durability` says.

        Parameters
        ----------
        records : iterable, Record or frame
            ``(key, value)`` or ``(timestamp, key, value)`` tuples of bytes or None, `Record`
            objects, or a frame of any library: polars, pandas, pyarrow, DuckDB, anything with
            ``__arrow_c_stream__``. Its columns key, value, timestamp and headers are the parts of
            the records. Timestamps are as below; the index of a DataFrame row is not one, and is
            refused.
        timestamp : int, datetime, str or None
            For records without one: ms since 1970, or a datetime with a time zone; None = now. A
            str is the name of the column that has the times of a frame.
        key, headers : str or None
            Names of these columns of a frame, where they are others. Keys and values are binary or
            string, which is stored as UTF-8; headers are lists of structs of key and value.
        value : str, sequence of str, or None
            The column of values. A list of names makes a JSON object of these columns the value of
            each row; ``"*"``, of all columns that are left. That needs pyarrow.

        Returns
        -------
        LogAppendInfo
            First and last offset, sizes, times.

        Raises
        ------
        RecordTypeError
            An object is not a record.
        IllegalArgumentError
            A column of a frame does not exist, has a type that is none of a record's, or would be
            lost: it is no part of the records, and no column of a log. Or a log, a scan, a dataset,
            files or a fetch have records of transactions, and the isolation is not
            ``read_committed``. Nothing was appended.
        RecordTooLargeError
            A record does not fit a batch of ``max_message_bytes``.
        RecordBatchTooLargeError
            A record does not fit a segment of ``segment_bytes``; nothing was appended.
        LimitExceededError
            A record is larger than ``max_decompressed_batch_bytes`` before compression.
        InvalidRecordError, InvalidTimestampError
            The log's settings forbid some records; ``record_errors`` lists their indexes.
        DiskFullError
            No space: nothing was appended, and the log stays writable. An append larger than a
            segment has several steps: those before the failed one stay, and the message says so.
        """
        before = self._published.log_end_offset
        try:
            lane = self._lane_switch.lane
            done = None if lane is None else lane.append(records, timestamp, key, value, headers)
            if isinstance(done, LogAppendInfo):  # [D11]
                return done
            self._access.require_writable()
            default, columns = arguments.columns_of_frame(timestamp, key, value, headers)
            return self._appender.append(records if done is None else done, default, columns)
        except BaseException as error:
            note_appended(error, self, before)
            raise

    def _append_built(self, batches: EncodedBatches) -> LogAppendInfo:
        self._access.require_writable()
        return self._appender.append(batches, None)

    def _build(
        self, records: Records, default: int | None, columns: RecordColumns
    ) -> EncodedBatches:
        """Encode what `_append_built` is to append, and refuse now what it would refuse."""
        self._access.require_writable()
        return self._appender.build(records, default, columns)

    def append_as_leader(
        self,
        batches: Buffer | MemoryRecords | EncodedBatches,
        leader_epoch: int | None = None,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification_guard: VerificationGuard = VerificationGuard.SENTINEL,
        transaction_version: int = UNKNOWN_TRANSACTION_VERSION,
    ) -> LogAppendInfo:
        """Append prebuilt batches, also those of idempotent and transactional producers.

        The log sets offsets, leader epoch and largest timestamp in a copy. A batch that its
        producer sent before is not appended again: the call returns the result of the first time.

        Parameters
        ----------
        batches : Buffer, MemoryRecords or EncodedBatches
            Bytes are a produce request, which holds one batch, as in Kafka [APP-31].
            `MemoryRecords` and `EncodedBatches` may hold many. Base offsets are 0.
        leader_epoch : int or None
            None = the latest one of the log; 0 for a new log.
        origin : AppendOrigin
            CLIENT: a producer, everything is checked. COORDINATOR: markers that end transactions.
            RAFT_LEADER: the batches keep their offsets and epochs.
        verification_guard : VerificationGuard
            From `maybe_start_transaction_verification`; required where verification is on
            (KIP-890).
        transaction_version : int
            For markers: version of the transaction that the marker ends, 0 to 2 [PSM-18].

        Raises
        ------
        CorruptRecordError, InvalidRecordError, UnsupportedFormatError
            A batch is damaged, breaks a rule, or has an unknown format; nothing was appended.
        RecordTooLargeError
            A batch is larger than ``max_message_bytes``.
        RecordBatchTooLargeError
            The batches together are larger than a segment.
        InvalidEpochError
            *leader_epoch* is older than the latest one of the log [DUR-64].
        OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTxnStateError,
        TransactionCoordinatorFencedError
            The producer may not append this now [PSM-11..PSM-18].

        Source: [APP-1, APP-4, APP-8, APP-13]; Kafka ``UnifiedLog.appendAsLeader``.
        """
        lane = self._lane_switch.lane
        if (
            lane is not None
            and origin is _CLIENT
            and verification_guard is _SENTINEL
            and transaction_version is UNKNOWN_TRANSACTION_VERSION
        ):
            done = lane.append_as_leader(batches, leader_epoch)  # [D11]
            if done is not None:
                return done
        self._access.require_writable()
        if leader_epoch is not None:
            leader_epoch = arguments.leader_epoch(leader_epoch)
        origin = append_origin(origin)
        instance("verification_guard", verification_guard, VerificationGuard, "a VerificationGuard")
        transaction_version = integer_within("transaction_version", transaction_version, -1, 2)
        request = AppendRequest(origin, verification_guard, transaction_version)
        return self._appender.append_as_leader(batches, leader_epoch, request)

    def append_as_follower(
        self, batches: Buffer | MemoryRecords, leader_epoch: int
    ) -> LogAppendInfo:
        """Append batches of another log unchanged, with their offsets, epochs and timestamps.

        Parameters
        ----------
        batches : Buffer or MemoryRecords
            Offsets ascend from the log end on; gaps are accepted.
        leader_epoch : int
            Epoch of the leader that sent them; batches of a newer epoch are left out [APP-4.3].

        Raises
        ------
        UnexpectedAppendOffsetError
            The first offset is below the log end.
        InvalidEpochError
            An epoch is older than the latest one of the log [DUR-64].
        InvalidTxnStateError
            A producer with an open transaction has a batch outside of it.

        Source: [APP-2, APP-9, PSM-15]; Kafka ``UnifiedLog.appendAsFollower``.
        """
        lane = self._lane_switch.lane
        done = None if lane is None else lane.append_as_follower(batches, leader_epoch)  # [D11]
        if done is not None:
            return done
        self._access.require_writable()
        epoch = arguments.leader_epoch(leader_epoch)
        return self._appender.append_with_offsets(
            batches, epoch, AppendRequest(AppendOrigin.REPLICATION)
        )

    # ---- roll, flush -----------------------------------------------------------------------------

    def roll(self, expected_next_offset: int | None = None) -> Segment:
        """Begin a new segment at the log end; returns the new segment [ROL-1]."""
        with self._changing:
            self._writer.begin_change()
            return self._writer.roll(expected_next_offset)

    def flush(self, *, force_active_segment: bool = False) -> int:
        """Make all appended records durable with fsync; returns the durable offset.

        Parameters
        ----------
        force_active_segment : bool
            Also create and sync the files of an empty active segment, as a clean close does
            [FLU-3].

        Raises
        ------
        FsyncFailedError
            An fsync failed. From now on the log is read-only [DUR-35].
        """
        self._access.require_writable()
        flag("force_active_segment", force_active_segment)
        return self._flusher.flush_log(force_active_segment=force_active_segment)

    def flush_up_to_offset_exclusive(self, offset: int) -> int:
        """Make at least the records below *offset* durable; returns the durable offset.

        Source: [FLU-1]; Kafka ``UnifiedLog.flushUptoOffsetExclusive``.
        """
        self._access.require_writable()
        offset = integer("offset", offset)
        return self._flusher.flush_up_to_exclusive(offset)

    # ---- truncation, deletion --------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Remove the records from *offset* on, durably; returns whether there were any.

        The batch that holds *offset* is removed whole, as in Kafka. The next append still gets
        *offset*. Without an append, the log ends at the first offset of that batch after the next
        open: no file has the later end [TRU-5].

        An *offset* below the log start empties the log and moves the log start back to *offset*;
        deleted records do not return [TRU-2]. If the records below *offset* are only in remote
        storage, the log start stays. In Kafka's profile it moves to *offset*, which loses them.

        In a topic with remote storage, records may be there that are cut here. So the next leader
        epoch begins at the cut, and appends have it [DUR-141]; not in Kafka's profile. A batch that
        is in remote storage alone is not cut: *offset* is where one begins, or ends.

        Parameters
        ----------
        offset : int
            The next offset to be written; at or above the log end nothing changes.

        Raises
        ------
        DiskFullError
            The disk has no room for what readers are told before. Nothing has changed [DUR-77].
        IllegalArgumentError
            *offset* lies within a batch that is in remote storage alone. Nothing has changed.
        RemoteStorageError
            The batch there cannot be read now. Nothing has changed.

        Source: [TRU-1..TRU-3].
        """
        self._access.require_writable()
        offset = natural("offset", offset)
        self._require_whole_remote_batches(offset)
        with self._changing:  # no roll comes between the question and the cut
            if offset >= self._local_log.segments.active_segment.base_offset:
                return self._truncation.truncate_to(offset)
        with self._writer.watcher.truncating(offset), self._changing:
            return self._truncation.truncate_to(offset)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove all records, durably; the next record gets *offset* [TRU-4].

        In a topic with remote storage it gets another leader epoch, as after `truncate_to`.

        Parameters
        ----------
        log_start_offset : int or None
            The new log start of a log with a part in remote storage, at most *offset*. None =
            *offset*. Without such a part it is always *offset*: no lower offset can be read, and
            the next open would move the log start there [UNI-2, LDR-9]. A handle in Kafka's profile
            keeps the lower log start until then.

        Raises
        ------
        IllegalArgumentError
            *log_start_offset* is above *offset*. Or records below *offset* stay, and it lies within
            a batch that is in remote storage alone. Nothing has changed.
        RemoteStorageError
            That batch cannot be read now. Nothing has changed.
        """
        self._access.require_writable()
        offset = natural("offset", offset)
        log_start = offset if log_start_offset is None else natural("offset", log_start_offset)
        if log_start < offset:
            self._require_whole_remote_batches(offset)
        with self._writer.watcher.truncating(None), self._changing:
            if log_start > offset and self.profile is Profile.SAFE:
                raise IllegalArgumentError(
                    f"a log cannot begin at {log_start} and end at {offset}",
                    found=str(log_start),
                    expected=f"at most {offset}",
                )
            self._truncation.truncate_fully_and_start_at(offset, log_start)

    def _require_whole_remote_batches(self, offset: int) -> None:
        """Raise where a cut at *offset* goes through a batch that is in remote storage alone.

        Copies are not cut: the records of that batch below *offset* could not be read [DUR-141].
        It is asked without the lock, as the storage is.
        """
        tier, first_here = self._remote.tier, self._local_log.segments.first_segment.base_offset
        if self.profile is Profile.KAFKA or tier is None or not tier.has_reader:
            return
        if not self.log_start_offset < offset < first_here:
            return
        with suppress(OffsetOutOfRangeError, *DAMAGE):  # no batch is there, or none is to be read
            found = self.read(offset, 1, _LOG_END)
            for batch in found.batches():
                if batch.base_offset < offset <= batch.last_offset:
                    raise IllegalArgumentError(
                        f"a cut at {offset} goes through a batch that is in remote storage alone:"
                        " nothing changed",
                        file=found.file,
                        found=f"a batch from {batch.base_offset} to {batch.last_offset}",
                        expected=f"{batch.base_offset} or {batch.last_offset + 1}",
                    )

    def delete_records(self, before_offset: int) -> int:
        """Remove the records below *before_offset*; returns the new, durable log start [LST-4].

        A file goes when all its records are below the log start. It is unlinked after
        ``file_delete_delay_ms``.

        Parameters
        ----------
        before_offset : int
            At most the high watermark; -1 = the high watermark, which removes all records that
            consumers see.

        Raises
        ------
        OffsetOutOfRangeError
            *before_offset* is above the high watermark, or below -1.
        """
        with self._changing:
            before_offset = integer("before_offset", before_offset)
            policies = self.config.cleanup_policies
            if "compact" in policies and "delete" not in policies:
                raise IllegalArgumentError(
                    "records of a compacted log are deleted by compaction",
                    found=f"cleanup_policy {self.config.cleanup_policy!r}",
                    expected="one with delete",
                )
            offset = self.high_watermark if before_offset == -1 else before_offset
            if offset < 0:
                raise out_of_range(
                    offset, self.log_start_offset, self.high_watermark, self._directory
                )
            self._retention.raise_log_start(offset)
            if self.profile is Profile.SAFE:  # also what an earlier call could not take
                self._retention.delete_below_log_start()
            return self.log_start_offset

    def delete_old_segments(self) -> list[DeletedSegment]:
        """Delete the segments that retention does not keep; returns them, oldest first [RET-1].

        These are the segments below the log start, and with the policy ``delete`` those beyond
        ``retention.bytes`` or ``retention.ms``. All end at or below the high watermark. The log
        start moves first, durably; files are unlinked after ``file_delete_delay_ms`` [DUR-19].

        With remote storage, only uploaded segments and those below the log start are deleted.
        ``local.retention.bytes`` and ``local.retention.ms`` decide, and the local log start moves
        instead [RET-2, RET-4, RET-8].

        Raises
        ------
        CorruptLogError
            Damage may hide the newest record of a segment that otherwise is old enough. The segment
            stays; segments before it are deleted.
        """
        deleted: list[DeletedSegment] = []
        with self._changing:
            self._retention.delete_old_segments(deleted)
        return deleted

    # ---- compaction ------------------------------------------------------------------------------

    def clean(
        self,
        cleaner: Cleaner,
        first_dirty_offset: int,
        first_uncleanable_offset: int | None = None,
        *,
        now_ms: int | None = None,
    ) -> CleanerStats:
        """Run one pass of *cleaner* over the log, as Kafka's cleaner threads do.

        Appends and reads go on. An error, or Ctrl-C, leaves a valid log: groups of segments that
        were done are clean, the others are as they were.

        Parameters
        ----------
        cleaner : Cleaner
            Has the memory for the pass.
        first_dirty_offset : int
            Where an earlier pass ended, for this log as it is. Take the log start when that is not
            certain: with a wrong number a deleted key may come back [DUR-126].
        first_uncleanable_offset : int or None
            Only whole segments below it are cleaned, and none that the active segment or an open
            transaction holds; None: as far as the settings allow.
        now_ms : int or None
            The time by which tombstones are old, in ms since 1970; None = the wall clock.

        Returns
        -------
        CleanerStats
            ``end_offset`` is the first dirty offset of the next pass.

        Raises
        ------
        CorruptLogError, CorruptRecordError
            A batch is damaged: with file and position. Its segment stays as it is [DUR-125].
        RecordLimitExceededError
            A record of a compressed batch is larger than ``max_decompressed_message_bytes``.
        IllegalArgumentError
            The range is reversed, or begins outside of the log.
        LogTruncatedError, LogCleaningAbortedError
            The log was truncated, or a segment deleted, beside the pass: begin another one. Or
            another pass is under way: a log has one at a time.
        ClosedError
            The log was closed beside the pass, as by a move to another log directory.

        Source: [CLN-55…CLN-122]; Kafka ``Cleaner.clean``.
        """
        self._access.require_writable()
        compaction = self._compaction()
        first = integer("first_dirty_offset", first_dirty_offset)
        limit = (
            compaction.first_uncleanable_offset(first)
            if first_uncleanable_offset is None
            else integer("first_uncleanable_offset", first_uncleanable_offset)
        )
        if self._cleaning.locked():
            raise LogCleaningAbortedError(
                "another pass over this log is under way in this process", file=self.path
            )
        with self._cleaning:
            try:
                return cleaner.clean(compaction, first, limit, now_ms)
            except ClosedError:  # of a file: the log was closed, deleted or moved beside the pass
                self._access.require_open()
                raise

    def compact(
        self,
        *,
        memory_bytes: int = DEFAULT_MAP_BYTES,
        progress: Callable[[str, int, int], None] | None = None,
        now_ms: int | None = None,
    ) -> list[CleanerStats]:
        """Keep the last record of each key, now; returns what each pass did.

        The active segment, records younger than ``min_compaction_lag_ms`` and what open
        transactions hold stay as they are. The last value of a key is never lost. A tombstone goes
        after ``delete_retention_ms``. Offsets stay; a reader of one that has gone gets the next.
        Appends and reads go on, also those of other processes, and Ctrl-C leaves a valid log.

        The log knows up to where it is clean. Where nothing came after that, and no tombstone is
        due, there is no pass. Kafka's profile knows it for logs of a manager alone, and passes.

        Parameters
        ----------
        memory_bytes : int
            The most for the keys of one pass, 24 bytes each, 48 or more. With more keys than that
            there are several passes.
        progress : callable or None
            Called with ``"compact"``, the offset up to which the log is clean, and that at which
            the last pass ends.
        now_ms : int or None
            The time by which records are young and tombstones old, in ms since 1970; None = the
            wall clock.

        Raises
        ------
        IllegalArgumentError
            ``cleanup_policy`` of the log is not ``compact``: records without a key would be lost;
            or the log is in remote storage.
        CorruptLogError, CorruptRecordError
            A batch is damaged: with file and position. Its segment stays as it is [DUR-125].
        RecordLimitExceededError
            A record of a compressed batch is larger than ``max_decompressed_message_bytes``.
        LogTruncatedError, LogCleaningAbortedError
            As in `clean`; passes that are done stay done.

        Source: Kafka ``LogCleaner``.
        """
        self._access.require_writable()
        callback("progress", progress)
        self._require_compacted()
        generation, start = self._generation(), self.log_start_offset

        def require_uncut() -> None:
            """Below `first`, which an earlier pass has cleaned, no other records may lie now."""
            if self._generation() != generation:
                raise LogTruncatedError(
                    "the log was truncated while it was compacted: call compact() again",
                    file=self.path,
                    found="a truncation",
                    expected="none since the call",
                )

        first = max(start, self._clean_end() or 0)
        uncleanable = self._compaction().first_uncleanable_offset(first, now_ms)
        limit = aligned(self._local_log.segments, uncleanable)
        if first >= limit:  # no dirty segment is old enough
            is_due = start < limit and is_deletion_due(
                self.scan(start, limit).headers(),
                lambda low, high: self.scan(low, high).batches(),
                start,
                self._directory.wall_clock_ms() if now_ms is None else now_ms,
            )
            first = start if is_due else limit
        map_bytes = integer("memory_bytes", memory_bytes)
        if self.profile is Profile.SAFE:  # a small log touches as little memory
            map_bytes = map_bytes_for(limit - first, map_bytes)
        cleaner = Cleaner(
            offset_map_bytes=map_bytes,
            profile=self.profile,
            check_done=require_uncut,
        )
        done: list[CleanerStats] = []
        while first < limit:
            require_uncut()  # and within the pass again
            done.append(self.clean(cleaner, first, limit, now_ms=now_ms))
            first = done[-1].end_offset
            if progress is not None:
                progress("compact", first, limit)
        if done:
            with suppress(DiskFullError):  # then the next call begins where this one did
                self._note_clean_end(first, generation)
        return done

    def _compaction(self) -> Compaction:
        """Return the log as the cleaner sees it, for one choice or pass."""
        return Compaction(self._changing, self._writer)

    def _clean_end(self) -> int | None:
        """Return where the clean part ends; None where nothing is known to be clean [DUR-126]."""
        return self._writer.clean_part.end()

    def _note_clean_end(self, offset: int, generation: int) -> None:
        """Let the clean part end at *offset*, unless the log was truncated since *generation*."""
        with self._changing:
            self._writer.begin_change()
            if generation == self._generation():
                self._writer.clean_part.note(offset)

    def _require_compacted(self) -> None:
        policies = self.config.cleanup_policies
        if "compact" not in policies or self._remote.tier is not None:
            found = f"cleanup_policy {self.config.cleanup_policy!r}"
            if policies == {"delete"} and not self.config.is_limited:
                found = "a cleanup_policy that is not set, or 'delete' without a limit"
            raise IllegalArgumentError(
                "only a log with cleanup_policy 'compact' that is not in remote storage can be"
                " compacted: records without a key, and older values, would be lost; set it with"
                " alter_topic of the log directory, or update_config of a log opened alone",
                file=self.path,
                found=found,
                expected="cleanup_policy 'compact'",
            )

    def _run_retention(self, deleted: list[DeletedSegment], now_ms: int | None) -> int | None:
        """As `delete_old_segments`, for the manager; return when it has to look again.

        *deleted* has what was deleted, also where an error ends the run. *now_ms* is the time by
        which segments are old, None = now.
        """
        with self._changing:
            self._retention.delete_old_segments(deleted, now_ms)
            now = self._directory.wall_clock_ms() if now_ms is None else now_ms
            return self._retention.next_look_ms(now)

    def _note_checkpoints(self) -> None:
        """Give recovery point and log start to the checkpoints of the log directory [MGR-45].

        Under the append lock: a truncation lowers its line there too [DUR-16].
        """
        with self._append_lock:
            if self._has_own_name():
                start = self._log_start_to_note()
                self._checkpoint_store.note_offsets(start, self.recovery_point)

    def _note_high_watermark(self) -> None:
        """Give the high watermark to the checkpoints of the log directory [MGR-47].

        Under the append lock, as above. That of a log without replicas is its end.
        """
        with self._append_lock:
            if self._offsets.replicated and self._has_own_name():
                self._checkpoint_store.note_high_watermark(self.high_watermark)

    def _take_high_watermark(self, checkpoints: LogDirectoryCheckpoints) -> None:
        """Begin at the high watermark of the checkpoint, where the log still has it [CKP-12]."""
        if self._offsets.replicated:
            try:
                known = checkpoints.offset(HIGH_WATERMARK_CHECKPOINT, self.topic_partition)
            except UNREADABLE as error:
                _log.warning("%s begins at its log start: %s", self.path, error.message)
            else:
                if known is not None:
                    self.update_high_watermark(known)

    def _generation(self) -> int:
        """Return another number after each truncation."""
        return self._local_log.generation

    def _settled_generation(self) -> int:
        """Return that number when no truncation is under way: epochs and log end are of it, too."""
        with self._append_lock:
            return self._local_log.generation

    def _generation_of_files(self) -> tuple[int, int]:
        """Return other numbers after each truncation, compaction and split."""
        return self._local_log.generation, self._local_log.replacements_count

    def _has_own_name(self) -> bool:
        """Whether the log is open, and its directory is that of a live partition."""
        is_own_name = self.path.endswith(f"/{directory_name(self.topic_partition)}")
        return is_own_name and not self.closed

    def _log_start_to_note(self) -> int | None:
        """Return the log start; None in Kafka's profile where the log needs no line [MGR-46].

        The first segment says it then. A log with a part in remote storage always has a line.
        """
        is_shown = self.log_start_offset <= self._local_log.segments.first_segment.base_offset
        if self.profile is Profile.KAFKA and is_shown and not self.remote_log_enabled:
            return None
        return self.log_start_offset

    def _flush_if_late(self, now_ms: int) -> None:
        """Flush where ``flush.ms`` have passed since the last flush [MGR-40].

        For the manager in Kafka's profile. In the safe profile the log has its own timer.
        """
        flusher, flush_ms = self._flusher, self.config.flush_ms
        if isinstance(flusher, KafkaFlusher) and now_ms - flusher.last_flush_ms >= flush_ms:
            self.flush()

    @property
    def retention_size_in_percent(self) -> int:
        """Percent of ``retention.bytes`` in use after the last run; 0 without a limit [RET-11]."""
        return self._retention.size_in_percent

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Move the log start up to *offset*, durably; returns whether it moved [LST-1].

        No file is deleted: `delete_old_segments` deletes those that end below it [LST-2].

        Raises
        ------
        OffsetOutOfRangeError
            *offset* is above the high watermark.
        """
        with self._changing:
            offset = integer("offset", offset)
            return self._retention.raise_log_start(offset)

    # ---- high watermark --------------------------------------------------------------------------

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, between log start and log end; returns its value [HW-2].

        It may move backwards. No file stores it: after an open it is the log start [UNI-4].

        Raises
        ------
        IllegalStateError
            The log was not opened with ``replicated=True``.
        """
        with self._changing:
            metadata = LogOffsetMetadata(integer("offset", offset))
            return self._offsets.update_high_watermark(metadata)

    def maybe_increment_high_watermark(
        self, high_watermark: LogOffsetMetadata
    ) -> LogOffsetMetadata | None:
        """Raise the high watermark, as a leader does; returns the old one if it moved [HW-4].

        Raises
        ------
        IllegalArgumentError
            *offset* is above the log end.
        """
        with self._changing:
            instance("high_watermark", high_watermark, LogOffsetMetadata, "a LogOffsetMetadata")
            return self._offsets.maybe_increment_high_watermark(high_watermark)

    def maybe_update_high_watermark(self, offset: int) -> int | None:
        """Set the leader's high watermark, as a follower; returns the new one if it moved.

        Source: [HW-5].
        """
        with self._changing:
            offset = integer("offset", offset)
            old = self._offsets.high_watermark
            new = self._offsets.update_high_watermark(LogOffsetMetadata(offset))
            return None if new == old else new

    def fetch_offset_snapshot(self) -> LogOffsetSnapshot:
        """Return log start, log end, high watermark and last stable offset, with positions.

        Source: [LSO-4].
        """
        with self._changing:
            return self._offsets.snapshot()

    # ---- leader epochs ---------------------------------------------------------------------------

    def assign_epoch_start_offset(self, epoch: int, start_offset: int) -> None:
        """Record durably that *epoch* begins at *start_offset* [EPC-2].

        Raises
        ------
        IllegalArgumentError
            An argument is negative.
        InvalidEpochError
            *epoch* is older than the newest one [DUR-64].
        """
        with self._changing:
            epoch = arguments.leader_epoch(epoch)
            start_offset = integer("start_offset", start_offset)
            self._writer.begin_change()
            self._metadata.note_epoch(self._metadata.epoch_to_stamp(epoch), start_offset)

    # ---- producers, transactions -----------------------------------------------------------------

    def active_producers(self) -> list[ActiveProducer]:
        """Return all known producers with their epochs, sequences and open transactions."""
        with self._changing:
            return active_producers.active_producers(self._producers)

    def abort_transaction(
        self, producer_id: int, producer_epoch: int | None = None
    ) -> LogAppendInfo:
        """Append the ABORT marker of an open transaction that its coordinator will not end.

        The marker has the epochs of the producer and of its last coordinator, as with Kafka's tool.
        A producer that still runs can begin a new transaction.

        Parameters
        ----------
        producer_id : int
            0 or more.
        producer_epoch : int or None
            Refuse when the producer has another epoch; None = any epoch.

        Raises
        ------
        InvalidTxnStateError
            The producer has no open transaction of that epoch. Nothing was appended.

        Source: [PSM-17, PSM-18]; Kafka ``kafka-transactions.sh abort``.
        """
        with self._changing:
            entry = self._producers.last_entry(integer("producer_id", producer_id))
        if (
            entry is None
            or entry.current_txn_first_offset is None
            or producer_epoch not in {None, entry.producer_epoch}
        ):
            raise no_open_transaction(self.path, f"of producer {producer_id}", producer_epoch)
        marker = MemoryRecords.with_end_transaction_marker(
            producer_id,
            entry.producer_epoch,
            commit=False,
            coordinator_epoch=max(entry.coordinator_epoch, 0),
        )
        return self.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=0)

    def last_records_of_active_producers(self) -> dict[int, LastRecord]:
        """Return the place of each producer's newest data, which compaction keeps [PSM-75]."""
        with self._changing:
            return active_producers.last_records_of_active_producers(self._producers)

    @property
    def producer_id_count(self) -> int:
        """Number of known producers; takes no lock."""
        self._access.require_writable()
        return self._producers.producer_id_count

    def remove_expired_producers(self, now_ms: int | None = None) -> None:
        """Remove the producers that have been silent for too long [PSM-45].

        Parameters
        ----------
        now_ms : int or None
            In ms since 1970; None = the wall clock.
        """
        with self._changing:
            now = self._directory.wall_clock_ms() if now_ms is None else integer("now_ms", now_ms)
            self._producers.remove_expired_producers(now)

    def has_late_transaction(self, now_ms: int | None = None) -> bool:
        """Whether a transaction is open for longer than a coordinator allows [PSM-46]."""
        self._access.require_writable()
        now_ms = self._directory.wall_clock_ms() if now_ms is None else integer("now_ms", now_ms)
        return self._producers.has_late_transaction(now_ms)

    def take_producer_snapshot(self) -> None:
        """Write the producer state to a ``.snapshot`` file, as close and roll do [PSM-51]."""
        with self._changing:
            self._producers.take_snapshot()

    def maybe_start_transaction_verification(
        self,
        producer_id: int,
        sequence: int,
        epoch: int,
        *,
        supports_epoch_bump: bool = False,
    ) -> VerificationGuard:
        """Return the guard to append a transaction's first batch with [PSM-32].

        Raises
        ------
        InvalidProducerEpochError
            A newer producer of the same id is known.
        """
        with self._changing:
            producer_id, epoch = natural("producer_id", producer_id), integer("epoch", epoch)
            flag("supports_epoch_bump", supports_epoch_bump)
            self._expiration.start()
            return transaction_verification.maybe_start_transaction_verification(
                self._producers,
                producer_id,
                integer("sequence", sequence),
                epoch,
                self._directory.wall_clock_ms(),
                supports_epoch_bump=supports_epoch_bump,
            )

    def rebuild_transaction_indexes(self) -> list[str]:
        """Rebuild each transaction index that contradicts the batches; returns the names.

        The call reads all batch headers; appends wait meanwhile. Readers of segstore do not use
        these files, but a broker that opens the directory later trusts them. An index stays when
        damaged or missing batches hide what belongs into it: `verify` reports that one.

        Source: [DUR-8, DUR-52].
        """
        with self._changing:
            self._writer.begin_change()
            with self._failure_mark.poisoned_by(FsyncFailedError):
                return rebuild_wrong_indexes(self._local_log, self.log_start_offset)

    # ---- remote storage --------------------------------------------------------------------------

    def update_highest_offset_in_remote_storage(self, offset: int) -> None:
        """Report that all records up to *offset* are in remote storage and may go here [LST-6].

        A lower offset than before changes nothing. In a log without a remote part nothing changes,
        and a warning is logged. No file stores it: after an open, the caller reports it again.

        Raises
        ------
        IllegalArgumentError
            *offset* is at or above the log end, or below -1: later records would count as uploaded,
            and be deleted [DUR-26]. Kafka's profile accepts any offset.
        """
        with self._changing:
            self._raise_highest_offset_in_remote_storage(integer("offset", offset))

    def _note_copied(self, offset: int, generation: int) -> None:
        """Do the same, unless the log was truncated since *generation* [DUR-140].

        Raises
        ------
        LogTruncatedError
            It was: the records that are copied may have been cut, and others be written there.
        """
        with self._changing:
            self._require_uncut(generation)
            self._raise_highest_offset_in_remote_storage(offset)

    def _raise_highest_offset_in_remote_storage(self, offset: int) -> None:
        tier = self._remote.tier
        if tier is None:
            self._warn_of("the highest offset in remote storage", offset)
            return
        last = self.log_end_offset - 1
        if self.profile is Profile.SAFE and not NOTHING_UPLOADED <= offset <= last:
            raise IllegalArgumentError(
                f"{offset} cannot be the last offset in remote storage: the log ends at"
                f" {last + 1}, which is no record yet",
                file=self.path,
                found=str(offset),
                expected=f"{NOTHING_UPLOADED} to {last}",
            )
        tier.raise_highest_offset(offset)

    def update_log_start_offset_from_remote_tier(self, offset: int) -> bool:
        """Move the log start to the first offset in remote storage, durably.

        Returns whether it moved. Otherwise as `maybe_increment_log_start_offset`. In a log without
        a remote part nothing changes, and a warning is logged [LST-6].
        """
        with self._changing:
            return self._raise_log_start_from_remote_tier(integer("offset", offset))

    def _note_remote_log_start(self, offset: int, generation: int) -> bool:
        """Do the same, unless the log was truncated since *generation* [DUR-143].

        Raises
        ------
        LogTruncatedError
            It was: other records may lie below *offset* than those that go.
        """
        with self._changing:
            self._require_uncut(generation)
            return self._raise_log_start_from_remote_tier(offset)

    def _raise_log_start_from_remote_tier(self, offset: int) -> bool:
        if self._remote.tier is not None:
            return self._retention.raise_log_start(offset)
        self._warn_of("the log start of remote storage", offset)
        return False

    def _require_uncut(self, generation: int) -> None:
        """Raise where a task has found what was true of *generation* alone; Kafka does not look."""
        if self.profile is Profile.SAFE and self._generation() != generation:
            raise LogTruncatedError(
                "the log was truncated beside a task of its remote part: the next run goes on",
                file=self.path,
                found="a truncation",
                expected="none since the task began",
            )

    def maybe_increment_local_log_start_offset(self, offset: int) -> None:
        """Move the local log start up to *offset* [LST-3].

        No file is deleted: the next `delete_old_segments` deletes uploaded segments below it. In a
        log without a remote part nothing changes, and a warning is logged.

        Raises
        ------
        OffsetOutOfRangeError
            *offset* is above the high watermark [LST-5]. Kafka's profile accepts any offset.
        """
        with self._changing:
            offset = integer("offset", offset)
            tier = self._remote.tier
            if tier is None:
                self._warn_of("the local log start", offset)
                return
            last = self.high_watermark
            if offset > last and self.profile is Profile.SAFE:
                raise out_of_range(offset, self.local_log_start_offset, last, self._directory)
            tier.raise_local_log_start(offset)

    def _sealed_segment_files(self, segment: Segment, next_base_offset: int) -> SealedSegmentFiles:
        """Return the files of a segment that takes no more appends, to copy them [TIER-11]."""
        self._access.require_writable()
        return SealedSegmentFiles(
            self._directory, segment, next_base_offset, self._epochs, self._producers.snapshots
        )

    def _warn_of(self, what: str, offset: int) -> None:
        _log.warning("%s: %s is not %d: the log has no remote part", self.path, what, offset)

    # ---- settings --------------------------------------------------------------------------------

    def update_config(self, config: LogConfig) -> LogConfig:
        """Use other settings from now on; returns the old ones [UNI-7].

        Open files keep the size of their indexes. If the new settings end remote storage, the log
        begins at its local log start from then on.

        Raises
        ------
        IllegalArgumentError
            The settings contradict each other for a log in remote storage, or end remote storage
            without ``remote_log_delete_on_disable``.
        """
        with self._changing:
            instance("config", config, LogConfig, "a LogConfig")
            require_codec(codec_of(config))
            remote = self._remote
            if (
                self.profile is Profile.SAFE
            ):  # Kafka checks what a topic is given, not what a log is
                config.check_local_retention()
            remote.check(config)
            if remote.is_ended_by(config):  # the log begins where it does here, from then on
                start = self.local_log_start_offset
                self._retention.raise_log_start(min(start, self.high_watermark))
            old = self.config
            self.durability = self._chosen_durability.with_flush_settings(config)
            self._local_log.use_config(config)
            remote.use_config(config, self._local_log, self._offsets, self._flusher)
            self._appender.use_config(config, self.durability)
            self._flusher.use_durability(self.durability)
            self._writer.watcher.note_segments()
        return old

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        """Give the log the id of its topic, durable before the next batch [UNI-8].

        Raises
        ------
        InconsistentTopicIdError
            The log has another id.
        """
        with self._changing:
            check_topic_id(topic_id)
            self._take_topic_id(topic_id)

    def restore_topic_id(self) -> bool:
        """Write a missing or unreadable ``partition.metadata`` again [UNI-5].

        The id comes from the other partitions of the topic in the same log directory, and from a
        broker's metadata log there. All that can be read must agree, and ``topics.json`` too;
        ``topics.json`` alone is not enough. Returns whether the file was written: False when the
        log has an id, or nothing else has one.

        Raises
        ------
        InconsistentTopicIdError
            The partitions do not agree; nothing was written.
        """
        with self._changing:
            parent = self._open_handles.parent
            return parent is not None and self._topic_identity.restore(parent, self.topic_partition)

    def _take_topic_id(self, topic_id: uuid.UUID) -> None:
        if self._topic_identity.topic_id is None:
            self._lane_switch.reconcile()  # the id is written down before the next batch
        if self._topic_identity.assign(topic_id):
            self._background.submit(self._write_topic_id)

    def _write_topic_id(self) -> None:
        with self._append_lock:
            if not self.closed and self._failure_mark.failure is None:
                self._topic_identity.flush()

    def write_checksum_sidecars(
        self, progress: Callable[[str, int, int], None] | None = None
    ) -> SidecarsReport:
        """Check every sealed segment, and write the checksum sidecar of each that has none.

        ``checksum_sidecar=True`` does the same after each roll. Appends, truncations and deletions
        go on meanwhile. Source: [DUR-60].

        Parameters
        ----------
        progress : callable or None
            Called with ``"sidecars"``, the bytes checked and the bytes to check.

        Raises
        ------
        IllegalArgumentError
            The log was opened with ``recovery="kafka"``, which creates only Kafka's files.
        DiskFullError
            No space; the sidecars written so far stay.
        """
        from segstore.log.sidecar_writing import SidecarWriting

        self._access.require_writable()
        callback("progress", progress)
        local_log, flusher = self._local_log, self._flusher
        sidecars = local_log.checksum_sidecars
        if sidecars is None or not isinstance(flusher, Flusher):
            raise IllegalArgumentError(
                "a log that was opened with recovery='kafka' makes no files but Kafka's",
                found="recovery='kafka'",
                expected="recovery='safe'",
            )
        writing = SidecarWriting(self._changing, local_log, sidecars, self._metadata, flusher)
        return writing.write(progress)

    # ---- the directory, the end ------------------------------------------------------------------

    def rename_dir(self, name: str, *, reinitialize: bool = True) -> bool:
        """Rename the directory, within its parent, durably; returns whether the name changed.

        Source: [REN-1, LOC-23]; Kafka ``UnifiedLog.renameDir``.

        Parameters
        ----------
        name : str
            ``<topic>-<partition>``, also with Kafka's endings ``.<id>-delete``, ``-future`` or
            ``-stray``.
        reinitialize : bool
            False: the topic is being deleted, and later appends are refused.

        Raises
        ------
        NotALogError
            *name* is not the name of a partition directory.
        IllegalStateError
            The parent directory cannot be opened.
        """
        with self._changing:
            instance("name", name, str, "a str")
            topic_partition = parse_directory_name(name)
            flag("reinitialize", reinitialize)
            directory, parent = self._directory, relocation.parent_to_rename_in(self._open_handles)
            self._writer.begin_deletion()
            self._topic_identity.flush()
            if name == directory.path.rpartition("/")[2]:
                return False
            relocation.check_new_name(directory, parent, name)
            self._metadata.begin_change()  # the lines above are of the old name
            with self._failure_mark.poisoned_by(BaseException):
                self._note_name(topic_partition)
                relocation.rename(directory, parent, name)
                self.path = directory.path
                if self._on_new_name is not None:
                    self._on_new_name()
            self._access.note_rename(for_deletion=not reinitialize)
            if not reinitialize:
                self._epochs.clear()
        return True

    def _note_name(self, topic_partition: TopicPartition) -> None:
        """Write the checkpoints for the new name, beside the old one's lines, before it counts.

        Deleted records would come back else, and synced ones count as a tail [DUR-5, DUR-19].
        """
        if topic_partition == self.topic_partition:
            return
        self._checkpoint_store.use_name(topic_partition)
        self._flusher.use_name(topic_partition)
        self.topic_partition = topic_partition

    def close(self) -> None:
        """Sync all data, write the checkpoints and the clean shutdown marker, release everything.

        A second call does nothing.

        Raises
        ------
        SegstoreError
            A step failed: what was synced is durable, and the next open recovers the rest [DUR-24].
        """
        is_deleted = self._access.is_renamed_for_deletion  # nothing is written of it [MGR-52]
        with self._failure_mark.poisoned_by(*IO_ERRORS):
            self._closing.end(None if is_deleted else self._close_cleanly)

    def _close_cleanly(self) -> None:
        self._access.require_not_failed()
        local_log, is_safe = self._local_log, self.profile is Profile.SAFE
        with self._append_lock:
            local_log.reconcile()  # no mark on what was interrupted
            if is_safe:
                self._metadata.reconcile()
            self._topic_identity.flush()
            self._offsets.listen(None)
            if self._offsets.replicated:  # the next open of the log begins there
                self._checkpoint_store.note_high_watermark(self.high_watermark)
        if is_safe and self._is_as_found():
            return  # every file says what is true: `Closing` lets go of them
        self._metadata.begin_change()
        active = local_log.segments.active_segment
        if is_safe:
            self._flusher.flush()
            active.on_become_inactive()
            active.flush(_core.Barrier.CLOSED_RECORDS, indexes=True)
        elif self._checkpoint_store.takes_marks:  # what the marker says is on stable storage
            self._flusher.flush_log(force_active_segment=True)
        self._take_last_snapshot()
        data_end = active.read_next_offset()[0] if is_safe else self.log_end_offset
        log_start_to_note = self._log_start_to_note()
        size = active.size_bytes
        sizes = local_log.segments.size_in_bytes
        local_log.close(unlink=is_safe)
        if is_safe:
            keeps_last = self._remote.may_have_copies
            if self._epochs.truncate_from_end(data_end + keeps_last):  # as the next open [DUR-24]
                self._metadata.save_state()
            self._epochs.flush()
        marker = CleanShutdownMarker(
            data_end,
            active.base_offset,
            size,
            self._epochs.latest_entry,
            len(local_log.segments),
            sizes,
            self.log_start_offset,
            *copy_fingerprint(local_log.directory, active.base_offset),
        )
        self._flusher.end()  # no flush that came just before writes a recovery point beside this
        self._access.require_not_failed()  # nor a log beside it, meanwhile [LOC-27]
        self._checkpoint_store.mark_clean(self.log_start_offset, marker)
        if not is_safe:
            self._checkpoint_store.note_owned_close(log_start_to_note, data_end)

    def _is_as_found(self) -> bool:
        """Whether the log is as a clean stop has left it, and no close has to say so [DUR-24].

        A snapshot that is wrong is replaced as a whole: the marker that stands stays true. A
        damaged index is changed in its place, as by any change of the log.
        """
        segments = self._local_log.segments
        if not self._checkpoint_store.is_as_found or _core.is_any_index_damaged(segments):
            return False
        if not self._producers.is_empty:  # without a snapshot a broker knows no producers [PSM-71]
            self._take_last_snapshot()
        # a log that was moved here, or closed before the files above were made, has no lines there
        self._checkpoint_store.note_close(self.log_start_offset, self.log_end_offset)
        return True

    def _take_last_snapshot(self) -> None:
        """Write the producers down for the next open, all on stable storage [CLO-1, DUR-24]."""
        with self._failure_mark.poisoned_by(FsyncFailedError):
            self._producers.snapshots.sync_unsynced()
            try:
                self._producers.take_snapshot()
            except (DiskFullError, ResourceError) as error:  # [DUR-22]
                if self.profile is Profile.KAFKA:
                    raise
                _log.warning("%s: no producer snapshot: %s", self.path, error)

    def delete(self) -> None:
        """Close the log and remove its directory with all files, durably [DEL-1].

        Also works on a closed log [CLO-2]. Source: Kafka ``UnifiedLog.delete``.

        Raises
        ------
        LogLockedError
            The log was closed, and another writer has it open now.
        """
        if not self.closed:
            self._closing.end_by(self._changing, self._remove)
            return
        with closing(relocation.reopen_handles(self.path, self._directory.environment)) as handles:
            relocation.remove_tree(handles)

    def _remove(self) -> None:
        self._epochs.clear()
        relocation.remove_tree(self._open_handles)


def _let_handlers_know(parts: LogParts, producers: ProducerStateManager) -> None:
    """Let a signal's handler that changes the log while a file is written be told before it."""
    for one in (parts.loaded.state_file, parts.local_log.checksum_sidecars):
        if one is not None:
            parts.append_lock.comes_before(one.lock)
    parts.append_lock.comes_before(producers.snapshots.sync_lock)


def _refused(log: Log, *_: object, **__: object) -> NoReturn:
    """Raise `LogReadOnlyError`: a log that was opened to be read takes no changes."""
    log._access.refuse()  # noqa: SLF001 - a method of the class above


for _name, _member in vars(UnifiedLog).items():  # a class with __getattr__ finds nothing fast
    if not _name.startswith("_") and not hasattr(Log, _name):
        setattr(Log, _name, property(_refused) if isinstance(_member, property) else _refused)
