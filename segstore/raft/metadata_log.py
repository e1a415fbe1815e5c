"""The metadata log of a KRaft quorum (Kafka ``KafkaRaftLog``, ``RaftLog``).

A log of which the oldest records go when a snapshot has them. The quorum decides about offsets,
epochs and the high watermark; the log keeps what it is told, and says where two logs part.

Source: [RAFT-1…RAFT-48, DUR-145].
"""

from __future__ import annotations

import threading
import uuid
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from segstore._core import Directory, scan_headers
from segstore.arguments import instance, integer, isolation_of, leader_epoch, natural
from segstore.errors import (
    CorruptRecordError,
    IllegalArgumentError,
    IllegalStateError,
    InvalidRecordError,
    UnexpectedAppendOffsetError,
)
from segstore.log.files.profile import Profile
from segstore.log.files.stored_state import StoredState
from segstore.log.files.topic_names import METADATA_LOG
from segstore.log.log_environment import STANDALONE
from segstore.log.log_opener import open_partition_to_write
from segstore.log.open_options import open_options
from segstore.raft.metadata_log_config import MetadataLogConfig
from segstore.raft.offset_and_epoch import OffsetAndEpoch, ValidityKind, ValidOffsetAndEpoch
from segstore.raft.records_snapshot import RecordsSnapshotReader
from segstore.raft.snapshot_set import SnapshotSet
from segstore.records.memory_records import MemoryRecords
from segstore.types import AppendOrigin, Isolation, LogOffsetMetadata

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from typing import Literal, Self

    from typing_extensions import Buffer

    from segstore._core import BatchTable
    from segstore.log.log_environment import LogEnvironment
    from segstore.log.unified_log import UnifiedLog
    from segstore.raft.raw_snapshot import RawSnapshotReader, RawSnapshotWriter
    from segstore.records.fetch_data_info import FetchDataInfo
    from segstore.types import LogAppendInfo

__all__ = ["METADATA_TOPIC_ID", "MetadataLog", "open_metadata_log"]

METADATA_TOPIC_ID: Final = uuid.UUID(int=1)
"""The id of ``__cluster_metadata`` in every cluster."""
NO_EPOCH: Final = 0
ISOLATIONS: Final = (Isolation.HIGH_WATERMARK, Isolation.LOG_END)


def open_metadata_log(
    path: str | os.PathLike[str],
    properties: Mapping[str, str] | None = None,
    *,
    recovery: Literal["safe", "kafka"] = "safe",
    topic_id: uuid.UUID = METADATA_TOPIC_ID,
    log_environment: LogEnvironment = STANDALONE,
) -> MetadataLog:
    """Open the metadata log of a node; it is created if absent.

    Parameters
    ----------
    path : str or PathLike
        ``__cluster_metadata-0``.
    properties : mapping or None
        Of the broker, by Kafka's keys ``metadata.log.…`` and ``metadata.max.retention.…``.
    recovery : str
        ``kafka`` has Kafka's outcomes in all cases. ``safe`` has better ones where Kafka loses
        metadata: a snapshot counts only if it is whole, the log has no holes, and it begins where
        it began before.
    topic_id : UUID
        Kafka's for every cluster.
    log_environment : LogEnvironment
        For tests that hold the clock and the disk.

    Raises
    ------
    LogLockedError
        A broker or another program has the log open.
    IllegalStateError, CorruptLogError
        The log begins later than 0, and no whole snapshot has what is below.

    Source: [RAFT-1, RAFT-3]; Kafka ``KafkaRaftLog.createLog``.
    """
    config = MetadataLogConfig.from_properties({} if properties is None else properties)
    options = open_options(
        durability="none",
        recovery=recovery,
        replicated=True,
        topic_id=topic_id,
        config=config.log_config(),
    )
    is_kafka = options.profile is Profile.KAFKA
    log = open_partition_to_write(
        path,
        options,
        log_environment._replace(
            has_settings=True,
            # every open recovers all segments, and begins at the first one
            found=StoredState(0, 0, parent_is_clean=False, own_marker=None) if is_kafka else None,
        ),
    )
    try:
        return MetadataLog(log, config, log_environment)
    except BaseException:
        log.close_quietly()
        raise


class MetadataLog:
    """The log of a quorum's metadata, with its snapshots; any number of threads may use it.

    `open_metadata_log` returns one.

    Attributes
    ----------
    config : MetadataLogConfig
        The settings in force.
    """

    def __init__(
        self, log: UnifiedLog, config: MetadataLogConfig, log_environment: LogEnvironment
    ) -> None:
        self.config = config
        self._log = log
        self._is_safe = log.profile is Profile.SAFE
        self._directory = directory = Directory(log.path, log_environment.environment)
        self._scheduler = log_environment.background(f"snapshots of {METADATA_LOG}", None)
        self._lock = threading.RLock()
        self._snapshots = SnapshotSet(
            directory, self._scheduler, config.delete_delay_ms, checks_content=self._is_safe
        )
        try:
            self._snapshots.recover(log.log_start_offset)
            self.truncate_to_latest_snapshot()
        except BaseException:
            self._scheduler.drop()
            directory.close()
            raise

    # ---- state -----------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """Absolute path of the directory."""
        return self._log.path

    @property
    def topic_id(self) -> uuid.UUID | None:
        """The id of the topic ``__cluster_metadata``."""
        return self._log.topic_id

    @property
    def closed(self) -> bool:
        """Whether the log is closed."""
        return self._log.closed

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""
        return self._log.log_start_offset

    @property
    def end_offset(self) -> LogOffsetMetadata:
        """The offset that the next record gets, with its position [RAFT-8]."""
        return self._log.fetch_offset_snapshot().log_end_offset

    @property
    def high_watermark(self) -> LogOffsetMetadata:
        """What is below is committed; with its position [RAFT-8]."""
        return self._log.fetch_offset_snapshot().high_watermark

    @property
    def size_bytes(self) -> int:
        """Of all segments."""
        return sum(segment.size_bytes for segment in self._log.segments())

    @property
    def log(self) -> UnifiedLog:
        """The log beneath, for questions; change it through this object alone."""
        return self._log

    # ---- records ---------------------------------------------------------------------------------

    def append_as_leader(self, records: Buffer, epoch: int) -> LogAppendInfo:
        """Append batches that have their offsets and the leader's epoch already [RAFT-4].

        Raises
        ------
        IllegalArgumentError
            There are no bytes.
        UnexpectedAppendOffsetError
            The first offset is below the log end; in the safe profile, also above it, or there is a
            gap between batches: a metadata log has no holes.
        InvalidRecordError
            A batch has another epoch.
        RecordTooLargeError
            A batch is larger than the settings allow.
        """
        leader_epoch(epoch)
        content = self._not_empty(records)
        table, _ = scan_headers(content)
        for header in map(table.__getitem__, range(len(table))):
            if header.partition_leader_epoch != epoch:
                raise InvalidRecordError(
                    "a batch of the quorum's leader has another leader epoch",
                    file=self.path,
                    position=header.position,
                    found=f"epoch {header.partition_leader_epoch}",
                    expected=f"epoch {epoch}",
                )
        with self._lock:
            self._refuse_holes(table)
            batches = MemoryRecords(content)
            return self._appended(
                self._log.append_as_leader(batches, epoch, origin=AppendOrigin.RAFT_LEADER)
            )

    def append_as_follower(self, records: Buffer, epoch: int) -> LogAppendInfo:
        """Append batches of the leader unchanged; those of a later epoch are left out [RAFT-5].

        Raises
        ------
        IllegalArgumentError
            There are no bytes.
        UnexpectedAppendOffsetError
            As in `append_as_leader`.
        CorruptRecordError
            No batch is left [RAFT-6].
        """
        leader_epoch(epoch)
        content = self._not_empty(records)
        table, _ = scan_headers(content)
        for header in map(table.__getitem__, range(len(table))):
            if header.partition_leader_epoch > epoch:
                content = content[: header.position]
                table, _ = scan_headers(content)
                break
        if not content:
            raise self._nothing_appended()
        with self._lock:
            self._refuse_holes(table)
            return self._appended(self._log.append_as_follower(MemoryRecords(content), epoch))

    def _not_empty(self, records: Buffer) -> bytes:
        try:
            content = bytes(memoryview(records))
        except TypeError:
            instance("records", records, bytes, "bytes, or what holds some")
            raise
        if not content:
            raise IllegalArgumentError(
                "there is nothing to append", found="0 bytes", expected="a batch or more"
            )
        return content

    def _refuse_holes(self, batches: BatchTable) -> None:
        """Raise where offsets would be missing before or between the batches."""
        if not self._is_safe:
            return
        end = self._log.log_end_offset
        for header in map(batches.__getitem__, range(len(batches))):
            if header.base_offset != end:
                error = UnexpectedAppendOffsetError(
                    "a batch does not begin where the metadata log ends",
                    file=self.path,
                    found=f"offset {header.base_offset}",
                    expected=f"offset {end}",
                )
                error.first_offset, error.last_offset = header.base_offset, header.last_offset
                raise error
            end = header.last_offset + 1

    def _appended(self, info: LogAppendInfo) -> LogAppendInfo:
        if info.base_offset < 0:
            raise self._nothing_appended()
        return info

    def _nothing_appended(self) -> CorruptRecordError:
        return CorruptRecordError(
            "nothing was appended: no batch is whole and of this epoch",
            file=self.path,
            found="no batch",
            expected="a batch or more",
        )

    def read(
        self,
        start_offset: int,
        isolation: Isolation | Literal["high_watermark", "log_end"] = Isolation.HIGH_WATERMARK,
        max_bytes: int | None = None,
    ) -> FetchDataInfo:
        """Return records from *start_offset* on: one batch at least, if there is one [RAFT-7].

        Parameters
        ----------
        start_offset : int
            In ``[start_offset, end_offset]``. The bytes begin with the batch that has it.
        isolation : Isolation or str
            ``high_watermark``: what is committed. ``log_end``: all.
        max_bytes : int or None
            None = the size of the largest batch.

        Raises
        ------
        OffsetOutOfRangeError
            *start_offset* is outside the log.
        """
        chosen = isolation_of(isolation)
        if chosen not in ISOLATIONS:
            raise IllegalArgumentError(
                f"a metadata log cannot be read as {chosen}",
                found=str(chosen),
                expected="high_watermark or log_end",
            )
        size = self.config.max_batch_bytes if max_bytes is None else natural("max_bytes", max_bytes)
        return self._log.read(start_offset, size, chosen)

    def flush(self, *, force_active_segment: bool = False) -> int:
        """Make all records durable; returns the durable offset [RAFT-16]."""
        return self._log.flush(force_active_segment=force_active_segment)

    # ---- offsets and epochs ----------------------------------------------------------------------

    def update_high_watermark(self, offset: int | LogOffsetMetadata) -> int:
        """Set the high watermark, between log start and log end; returns its value [RAFT-9]."""
        if isinstance(offset, LogOffsetMetadata):
            offset = offset.message_offset
        return self._log.update_high_watermark(offset)

    def initialize_leader_epoch(self, epoch: int) -> None:
        """Record durably that *epoch* begins at the log end [RAFT-10]."""
        self._log.assign_epoch_start_offset(epoch, self._log.log_end_offset)

    def last_fetched_epoch(self) -> int:
        """Return the epoch of the last record, or of the snapshot that is all there is [RAFT-11].

        Raises
        ------
        IllegalStateError
            No epoch is known, and the latest snapshot does not end where the log does.
        """
        latest_epoch = self._log.latest_epoch
        if latest_epoch is not None:
            return latest_epoch
        snapshot_id = self.latest_snapshot_id()
        if snapshot_id is None:
            return NO_EPOCH
        start, end = self.start_offset, self._log.log_end_offset
        if not snapshot_id.offset == start == end:
            raise IllegalStateError(
                "no leader epoch of the metadata log is known, and its latest snapshot does not end"
                " where the log does",
                file=self.path,
                found=f"a snapshot that ends at {snapshot_id.offset}",
                expected=f"one that ends at the log start {start} and the log end {end}",
            )
        return snapshot_id.epoch

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Return the newest epoch up to *epoch*, and where it ends [RAFT-12]."""
        found = self._log.end_offset_for_epoch(epoch)
        if found is None:
            return OffsetAndEpoch(self._log.log_end_offset, self.last_fetched_epoch())
        found_epoch, end_offset = found
        earliest = self.earliest_snapshot_id()
        if earliest is not None and (end_offset, found_epoch) == (earliest.offset, epoch):
            return earliest
        return OffsetAndEpoch(end_offset, found_epoch)

    def validate_offset_and_epoch(self, offset: int, epoch: int) -> ValidOffsetAndEpoch:
        """Return whether a log that ends at *offset* in *epoch* is a beginning of this one.

        Source: [RAFT-13].
        """
        asked = OffsetAndEpoch(integer("offset", offset), integer("epoch", epoch))
        if self.start_offset == 0 == asked.offset:
            return ValidOffsetAndEpoch(ValidityKind.VALID, OffsetAndEpoch(0, 0))
        earliest, start = self.earliest_snapshot_id(), self.start_offset
        if earliest is not None and (
            asked.offset < start
            or (asked.offset == start and asked.epoch != earliest.epoch)
            or asked.epoch < earliest.epoch
        ):
            latest = self.latest_snapshot_id()
            if latest is None:
                raise IllegalStateError(
                    "the snapshots of the metadata log were deleted meanwhile", file=self.path
                )
            return ValidOffsetAndEpoch(ValidityKind.SNAPSHOT, latest)
        end = self.end_offset_for_epoch(asked.epoch)
        if end.epoch != asked.epoch or end.offset < asked.offset:
            return ValidOffsetAndEpoch(ValidityKind.DIVERGING, end)
        return ValidOffsetAndEpoch(ValidityKind.VALID, asked)

    # ---- truncation ------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Remove the records from *offset* on; returns the log end [RAFT-14].

        Above the log end nothing changes. A batch that holds *offset* is removed whole. In the safe
        profile the log then ends where that batch began: it gets no hole.

        Raises
        ------
        IllegalArgumentError
            *offset* is below the high watermark: committed records are not removed [RAFT-17].
        """
        with self._lock:
            high_watermark = self.high_watermark.message_offset
            offset = integer("offset", offset)
            if self._is_safe and self.start_offset < offset < self._log.log_end_offset:
                offset = self.read(offset, Isolation.LOG_END).fetch_offset_metadata.message_offset
            if offset < high_watermark:
                raise IllegalArgumentError(
                    "committed records of the metadata log cannot be removed",
                    file=self.path,
                    found=f"offset {offset}",
                    expected=f"the high watermark {high_watermark} or above",
                )
            self._log.truncate_to(offset)
            return self._log.log_end_offset

    def truncate_to_end_offset(self, end: OffsetAndEpoch) -> int:
        """Remove what another log does not have that ends at *end*; returns where [RAFT-15].

        Raises
        ------
        IllegalArgumentError
            That is below the high watermark.
        """
        _check_place("end", end)
        with self._lock:
            offset = end.offset
            if end.epoch == 0:
                offset = min(offset, self._log.log_end_offset)
            else:
                found = self.end_offset_for_epoch(end.epoch)
                same = found.epoch == end.epoch
                offset = min(found.offset, offset) if same else found.offset
            log_end = self.truncate_to(offset)
            return log_end if self._is_safe else offset

    def truncate_to_latest_snapshot(self) -> bool:
        """Begin at the latest snapshot, if the log ends before it; returns whether it did.

        All records are removed, and earlier snapshots are deleted. Source: [RAFT-23].
        """
        with self._lock:
            latest = self.latest_snapshot_id()
            if latest is None:
                return False
            log_end = self._log.latest_epoch or NO_EPOCH, self._log.log_end_offset
            if latest.order <= log_end:
                return False
            self._log.truncate_fully_and_start_at(latest.offset)
            self._log.update_high_watermark(latest.offset)
            self._snapshots.delete(self._snapshots.forget_before(latest))
            return True

    # ---- snapshots -------------------------------------------------------------------------------

    @property
    def snapshot_ids(self) -> tuple[OffsetAndEpoch, ...]:
        """All snapshots that are known, the earliest first [RAFT-20]."""
        with self._lock:
            return self._snapshots.ids

    @property
    def incomplete_snapshots(self) -> tuple[str, ...]:
        """Names of snapshots that were not whole when the log was opened [DUR-145]."""
        return self._snapshots.incomplete

    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """Return the last snapshot; None without one [RAFT-29]."""
        with self._lock:
            return self._snapshots.latest

    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        """Return the first snapshot; None without one [RAFT-29]."""
        with self._lock:
            return self._snapshots.earliest

    def create_new_snapshot(self, snapshot_id: OffsetAndEpoch) -> RawSnapshotWriter | None:
        """Begin a snapshot of committed records; None where it exists or the log begins later.

        Raises
        ------
        IllegalArgumentError
            The snapshot ends above the high watermark, inside a batch, or in another epoch than the
            log has there; in the safe profile, also in an epoch of which it has no record.

        Source: [RAFT-25].
        """
        _check_place("snapshot_id", snapshot_id)
        with self._lock:
            if snapshot_id.offset < self.start_offset:
                return None
            high_watermark = self.high_watermark.message_offset
            if snapshot_id.offset > high_watermark:
                raise self._no_snapshot(
                    snapshot_id, f"an end at the high watermark {high_watermark} or below"
                )
            valid = self.validate_offset_and_epoch(*snapshot_id)
            if valid.kind is not ValidityKind.VALID:
                offset, epoch = valid.offset_and_epoch
                raise self._no_snapshot(
                    snapshot_id, f"a place of the log; {valid.kind.value}: {offset}, epoch {epoch}"
                )
            if self._is_safe and not self._has_record_of(snapshot_id):
                raise self._no_snapshot(snapshot_id, "the epoch of the record before that offset")
            place = self.read(snapshot_id.offset).fetch_offset_metadata.message_offset
            if place != snapshot_id.offset:
                raise self._no_snapshot(snapshot_id, f"the begin of a batch: one begins at {place}")
            return self.create_new_snapshot_unchecked(snapshot_id)

    def _has_record_of(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Whether the last record before the end of a snapshot has its epoch.

        Kafka takes an epoch that begins there, too. An open forgets an epoch without records. Then
        the snapshot would be of a later epoch than the log, and replace it [RAFT-23].
        """
        offset, epoch = snapshot_id
        if offset == self.start_offset:
            return offset > 0 or epoch == NO_EPOCH
        starts = (one.start_offset for one in self._log.leader_epochs if one.epoch == epoch)
        return next(starts, offset) < offset

    def _no_snapshot(self, snapshot_id: OffsetAndEpoch, expected: str) -> IllegalArgumentError:
        return IllegalArgumentError(
            "there can be no snapshot of that offset and epoch",
            file=self.path,
            found=f"offset {snapshot_id.offset}, epoch {snapshot_id.epoch}",
            expected=expected,
        )

    def create_new_snapshot_unchecked(
        self, snapshot_id: OffsetAndEpoch
    ) -> RawSnapshotWriter | None:
        """Begin a snapshot of the leader; None where it exists [RAFT-26]."""
        _check_place("snapshot_id", snapshot_id)
        natural("offset", snapshot_id.offset)
        natural("epoch", snapshot_id.epoch)
        with self._lock:
            return self._snapshots.new_writer(snapshot_id, self._on_frozen)

    def _on_frozen(self, snapshot_id: OffsetAndEpoch) -> None:
        with self._lock:
            self._snapshots.add(snapshot_id)

    def read_snapshot(self, snapshot_id: OffsetAndEpoch) -> RawSnapshotReader | None:
        """Return a snapshot's bytes; None of one that is not known, or whose file is gone.

        Source: [RAFT-28].
        """
        _check_place("snapshot_id", snapshot_id)
        with self._lock:
            return self._snapshots.read(snapshot_id)

    def latest_snapshot(self) -> RawSnapshotReader | None:
        """Return the bytes of the last snapshot; None without one."""
        with self._lock:
            latest = self.latest_snapshot_id()
            return None if latest is None else self.read_snapshot(latest)

    def delete_before_snapshot(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Let the log begin where a snapshot ends; returns whether something was deleted.

        Records below it go in whole segments, and earlier snapshots are deleted. In the safe
        profile the snapshot is read first: it has to be whole [DUR-145].

        Raises
        ------
        OffsetOutOfRangeError
            The snapshot ends above the high watermark.
        CorruptLogError
            The snapshot is damaged. Nothing was deleted.

        Source: [RAFT-35, RAFT-36].
        """
        _check_place("snapshot_id", snapshot_id)
        with self._lock:
            latest = self._snapshots.latest
            if (
                latest is None
                or snapshot_id not in self._snapshots.ids
                or not self.start_offset < snapshot_id.offset <= latest.offset
                or self.read_snapshot(snapshot_id) is None
            ):
                return False
            self._snapshots.check_id(snapshot_id)
            if not self._log.maybe_increment_log_start_offset(snapshot_id.offset):
                return False
            deleted = self._log.delete_old_segments()
            forgotten = self._snapshots.forget_before(snapshot_id)
            self._snapshots.delete(forgotten)
            return bool(deleted or forgotten)

    def maybe_clean(self) -> bool:
        """Delete snapshots beyond the limits of size and time, and the records that they replace.

        At least one snapshot stays. Returns whether something was deleted.

        Source: [RAFT-38…RAFT-40].
        """
        with self._lock:
            by_size = self._clean_by_size()
            return self._clean_by_time() or by_size

    def _clean_by_size(self) -> bool:
        limit = self.config.retention_bytes
        if limit < 0:
            return False
        sizes = {one: self._size_of(one) for one in self._snapshots.ids}
        rest = sum(sizes.values())

        def is_beyond(snapshot_id: OffsetAndEpoch) -> bool:
            nonlocal rest
            if self.size_bytes + rest <= limit:
                return False
            rest -= sizes[snapshot_id]
            return True

        return self._clean(is_beyond)

    def _size_of(self, snapshot_id: OffsetAndEpoch) -> int:
        reader = self._snapshots.read(snapshot_id)
        return 0 if reader is None else reader.size_bytes

    def _clean_by_time(self) -> bool:
        limit = self.config.retention_ms
        if limit < 0:
            return False
        now_ms = self._directory.wall_clock_ms()

        def is_old(snapshot_id: OffsetAndEpoch) -> bool:
            reader = self._snapshots.read(snapshot_id)
            if reader is None:
                return False
            return now_ms - RecordsSnapshotReader(reader).last_contained_log_timestamp > limit

        return self._clean(is_old)

    def _clean(self, is_beyond: Callable[[OffsetAndEpoch], bool]) -> bool:
        """Go on as long as the first snapshot is beyond a limit and the next can replace it."""
        is_cleaned = False
        for one, following in pairwise(self._snapshots.ids):
            if not (is_beyond(one) and self.delete_before_snapshot(following)):
                break
            is_cleaned = True
        return is_cleaned

    # ---- end -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush and close; deleted snapshots that are still there go with the next open."""
        self._scheduler.close()
        try:
            self._log.close()
        finally:
            self._directory.close()

    def close_quietly(self) -> None:
        """Give everything back without a word to the disk, as a crash would."""
        self._scheduler.drop()
        self._log.close_quietly()
        self._directory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self.close()
        else:
            self.close_quietly()


def _check_place(name: str, value: object) -> None:
    instance(name, value, OffsetAndEpoch, "an OffsetAndEpoch")
