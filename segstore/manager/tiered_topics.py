"""The topics of a log directory that have a part in remote storage.

Each pass copies what is sealed, deletes what expired, and goes on with deletions that were begun.
What is there is noted in the directory's own topic, `DirectoryMetadataTopic`.

A deletion is marked in that topic before the partition goes. The mark alone deletes nothing: the
remote part goes once no directory of that topic id is here. So a crash leaves all of a topic, or
what the next pass deletes. Where the deletion did not take place, the mark is withdrawn. Where a
setting has ended the remote part, the setting is the mark.

THREADS  Any thread may read. One at a time copies or deletes for a partition, which it claims
(`PartitionClaims`); it holds no lock of the manager.

Source: [TIER-31, TIER-60, TIER-90, TIER-91, TIER-92, DUR-140…DUR-144], Kafka ``RemoteLogManager``,
``ReplicaManager.stopPartitions``; DESIGN D18.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from contextlib import contextmanager, suppress
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from segstore._core import AppendLock, Directory
from segstore.errors import (
    ClosedError,
    CorruptLogError,
    IllegalArgumentError,
    IllegalStateError,
    LogNotFoundError,
    LogTruncatedError,
    SegstoreError,
    UnknownTopicOrPartitionError,
    UnsupportedFormatError,
)
from segstore.log.files.meta_properties import read_meta_properties
from segstore.log.files.partition_directory import delete_directory_name
from segstore.log.remote_tier import is_remote_log_enabled
from segstore.manager.maintenance_report import FailedTask, RemoteCopy, RemoteDeletion
from segstore.manager.partition_claims import PartitionClaims
from segstore.remote.log_manager.remote_index_cache import RemoteIndexCache
from segstore.remote.log_manager.remote_log_manager import RemoteLogManager
from segstore.remote.log_manager.remote_log_manager_config import RemoteLogManagerConfig
from segstore.remote.log_manager.remote_log_reader import RemoteStorageReader
from segstore.remote.metadata.metadata_partition import metadata_partition
from segstore.remote.metadata.remote_log_metadata_serde import parse_event
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
    is_of_a_partition_that_stays,
)
from segstore.remote.metadata.topic_based_remote_log_metadata_manager import (
    TopicBasedRemoteLogMetadataManager,
)
from segstore.remote.storage.open_storage import open_remote_storage
from segstore.types import TopicPartition

if TYPE_CHECKING:
    import os
    import uuid
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from segstore._core import FileInfo
    from segstore.log.local.transaction_index import AbortedTransaction
    from segstore.log.remote_tier import RemoteLogReader, RemoteRead
    from segstore.log.unified_log import UnifiedLog
    from segstore.manager.directory_metadata_topic import DirectoryMetadataTopic
    from segstore.manager.listed_topics import TopicsNow
    from segstore.manager.maintenance_report import Findings
    from segstore.remote.log_manager.remote_log_stats import RemoteLogFigures
    from segstore.remote.metadata.remote_log_metadata_manager import RemoteLogMetadataManager
    from segstore.remote.metadata.segment_metadata import (
        RemoteLogMetadata,
        RemoteLogSegmentMetadata,
    )
    from segstore.types import EpochEntry, FileTimestampAndOffset

COPIES: Final = "copies to remote storage"
EXPIRATION: Final = "expiration in remote storage"
DELETION: Final = "deletion in remote storage"
"""Names of tasks in reports."""

_NO_BROKER: Final = 0
"""Who copies, where no broker has given the directory an id."""
_MARKED: Final = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
_STARTED: Final = RemotePartitionDeleteState.DELETE_PARTITION_STARTED
_FINISHED: Final = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETION_OF_A_PARTITION: Final = b"\x01\x02"
"""What the values of these events begin with: version of the frame, and kind."""
_NO_EVENT: Final = (CorruptLogError, UnsupportedFormatError, IllegalArgumentError)
_CLOCK_STEP_MS: Final = 2000
"""Two changes of a directory within it may have the same time; two seconds are FAT's."""
_log = logging.getLogger(__name__)


class _Parts(NamedTuple):
    """What is made at the first use: an open of a directory reads nothing of remote storage."""

    metadata: RemoteLogMetadataManager
    reader: RemoteLogReader
    index_cache: RemoteIndexCache
    manager: RemoteLogManager


class _KnownPartitions(NamedTuple):
    """The topic ids of partitions."""

    names: FileInfo | None
    """Of the log directory, before they were read."""
    partitions: dict[TopicPartition, TopicIdPartition]


class TieredTopics:
    """The remote part of one log directory, and the `RemoteLogReader` of its logs.

    Parameters
    ----------
    remote : str or path
        As of `open_dir`.
    settings : mapping of str to str
        Of the store.
    values : mapping
        The value of each of a broker's settings.
    directory : callable
        Returns the log directory, once it is open.
    topic : DirectoryMetadataTopic
        Where it is noted what is remote.
    topic_id_of : callable
        Returns the id in the directory of a partition; None where there is none, or no id.
    may_be_here : callable
        Whether a directory may be that of a partition with a topic id; one set aside counts too.
    was_deleted : callable
        Whether a partition with a topic id, of which nothing is here, was deleted here.
    read_only : bool
        Nothing is copied or deleted, and another process may.
    kafka_profile : bool
        Indexes are believed as Kafka does: see `RemoteIndexCache`.

    Raises
    ------
    ImportError, IllegalArgumentError
        See `open_remote_storage`, and `RemoteLogManagerConfig`.
    """

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        remote: str | os.PathLike[str],
        settings: Mapping[str, str],
        values: Mapping[str, Any],
        directory: Callable[[], Directory],
        topic: DirectoryMetadataTopic,
        topic_id_of: Callable[[TopicPartition], uuid.UUID | None],
        may_be_here: Callable[[TopicPartition, uuid.UUID], bool],
        was_deleted: Callable[[TopicPartition, uuid.UUID], bool],
        *,
        read_only: bool,
        kafka_profile: bool,
    ) -> None:
        self._config = RemoteLogManagerConfig.from_values(values)
        self._storage = open_remote_storage(remote, settings)
        self._values = values
        self._directory = directory
        self._topic = topic
        self._topic_id_of = topic_id_of
        self._known = _KnownPartitions(None, {})
        self._may_be_here = may_be_here
        self._was_deleted = was_deleted
        self._read_only = read_only
        self._kafka_profile = kafka_profile
        self._parts: _Parts | None = None
        self._own_folder: str | None = None
        self._building = AppendLock()
        self._marking = AppendLock()
        self._claims = PartitionClaims()
        self._shift_ms = 0
        self._led: dict[TopicPartition, TopicIdPartition] = {}
        self._seen_ends: dict[TopicIdPartition, int] = {}
        self._deletions: dict[TopicIdPartition, RemotePartitionDeleteState] | None = None
        self._is_ending = False
        self._is_closed = False

    @property
    def interval_ms(self) -> int:
        """How often a pass is due."""
        return self._config.task_interval_ms

    # ---- reads (RemoteLogReader) -----------------------------------------------------------------

    def read(  # noqa: PLR0913 - as that of `RemoteLogReader`
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
        """See `RemoteLogReader`."""
        reader = self._reader_of(topic_partition)
        found = reader.read(
            topic_partition,
            start_offset,
            max_bytes,
            min_one_message=min_one_message,
            leader_epochs=leader_epochs,
            is_committed=is_committed,
            local_aborted_transactions=local_aborted_transactions,
        )
        # What another process writes is looked for before each read: no lane does that.
        return found._replace(lane=None) if self._read_only else found

    def aborted_transactions(
        self,
        topic_partition: TopicPartition,
        start_offset: int,
        end_offset: int,
        leader_epochs: Sequence[EpochEntry],
    ) -> Iterable[AbortedTransaction]:
        """See `RemoteLogReader`."""
        reader = self._reader_of(topic_partition)
        return reader.aborted_transactions(topic_partition, start_offset, end_offset, leader_epochs)

    def find_offset_by_timestamp(
        self,
        topic_partition: TopicPartition,
        timestamp: int,
        starting_offset: int,
        leader_epochs: Sequence[EpochEntry],
    ) -> FileTimestampAndOffset | None:
        """See `RemoteLogReader`."""
        reader = self._reader_of(topic_partition)
        return reader.find_offset_by_timestamp(
            topic_partition, timestamp, starting_offset, leader_epochs
        )

    def _reader_of(self, topic_partition: TopicPartition) -> RemoteLogReader:
        parts = self._built()
        if self._read_only:
            self._look_again(parts, self._partition_of(topic_partition))
        return parts.reader

    def _look_again(self, parts: _Parts, partition: TopicIdPartition) -> None:
        """Forget what is known of a partition where the writer has noted something since."""
        number = metadata_partition(partition, self._topic.partitions_count)
        end = self._topic.end_offset(number)
        if self._seen_ends.get(partition) != end:
            parts.metadata.on_stop_partitions([partition])
            self._seen_ends[partition] = end

    # ---- passes ----------------------------------------------------------------------------------

    def run(
        self,
        now: TopicsNow,
        open_log: Callable[[str, int], UnifiedLog],
        now_ms: int | None,
        findings: Findings,
        is_over: Callable[[], bool],
    ) -> None:
        """Do what is due for each tiered topic; an error of one log keeps no other [DUR-131].

        Parameters
        ----------
        now : TopicsNow
            The topics and their settings.
        open_log : callable
            Returns the log of a topic and a partition's number.
        now_ms : int or None
            The time by which segments are old; None = now.
        findings : Findings
            Gets what was done.
        is_over : callable
            Asked between two logs.
        """
        wall_ms = self._directory().wall_clock_ms()
        self._shift_ms = 0 if now_ms is None else now_ms - wall_ms
        self._withdraw_all_marks(now.listed.partitions, findings)
        self._finish_all_deletions(findings)
        for topic, config in now.configs.items():
            partitions = [TopicPartition(topic, one) for one in now.listed.topics[topic]]
            is_enabled = is_remote_log_enabled(config, topic, system_enabled=True)
            if not (is_enabled or config.remote_log_delete_on_disable):
                continue
            for one in partitions:
                if is_over():
                    return
                with self._claims.trying(one) as is_claimed:
                    if is_claimed and is_enabled:
                        self._copy_and_expire(one, open_log, findings)
                    elif is_claimed:
                        self._look_at_disabled(one, open_log, findings)
        if self._parts is not None:
            self._parts.index_cache.clean_up()

    def _copy_and_expire(
        self,
        topic_partition: TopicPartition,
        open_log: Callable[[str, int], UnifiedLog],
        findings: Findings,
    ) -> None:
        try:
            log = open_log(*topic_partition)
            if not log.remote_log_enabled:
                return
            manager = self._led_by(log)
            if self._is_ending or self._claims.is_wanted(topic_partition):
                return  # who ends it may have come before the task was there
            partition = self._partition_of(topic_partition)
            if self._pending().get(partition) is _STARTED:
                return  # made again: what is copied now would be deleted with what was before
            manager.require_newest_copy(partition)
            manager.refuse_other_history(log)
            before, start = manager.counters, log.log_start_offset
            self._topic.noted = self._telling(log, findings)
            try:
                failed = {COPIES: manager.copy(log)}
            finally:
                self._topic.noted = None
            if (size := manager.counters.copy_bytes - before.copy_bytes) > 0:
                end = log.highest_offset_in_remote_storage + 1
                findings.copied.append(RemoteCopy(topic_partition, size, end))
            failed[EXPIRATION] = manager.expire(log)
            after = manager.counters
            count = after.delete_requests - after.failed_deletes
            count -= before.delete_requests - before.failed_deletes
            if count > 0 or log.log_start_offset > start:
                expired = RemoteDeletion(topic_partition, count, log.log_start_offset)
                findings.expired.append(expired)
            for task, error in failed.items():
                if error is not None:
                    self._note_failure(task, topic_partition, error, findings)
        except (UnknownTopicOrPartitionError, LogNotFoundError, ClosedError, LogTruncatedError):
            return  # beside the pass, or it was removed: the listing says so, or the next pass
        except Exception as error:  # noqa: BLE001 - one log stops no other [DUR-131]
            self._note_failure(COPIES, topic_partition, error, findings)

    def _telling(self, log: UnifiedLog, findings: Findings) -> Callable[[], None] | None:
        """Return what is called after each step of a copy; it reports how far all of them are."""
        tell = findings.progress
        if tell is None:
            return None
        manager = self._built().manager
        first = manager.counters.copy_bytes
        left = log.only_local_log_segments_size - log.segments()[-1].size_bytes
        own_thread = get_ident()

        def tell_own() -> None:  # others note deletions meanwhile
            if get_ident() == own_thread:
                tell(log.topic_partition, manager.counters.copy_bytes - first, max(left, 0))

        return tell_own

    def _led_by(self, log: UnifiedLog) -> RemoteLogManager:
        """Return what copies and expires *log*, which it knows now."""
        manager, topic_partition = self._built().manager, log.topic_partition
        partition = self._partition_of(topic_partition)
        if self._led.get(topic_partition) != partition:
            manager.on_leadership_change([log], [])
            self._led[topic_partition] = partition
        return manager

    def _note_failure(
        self,
        task: str,
        topic_partition: TopicPartition | None,
        error: Exception,
        findings: Findings,
    ) -> None:
        failed = FailedTask(task, topic_partition, error, 1, None)
        findings.failed.append(failed)
        _log.warning("%s: %s", self._directory().path, failed)

    # ---- deletions -------------------------------------------------------------------------------

    @contextmanager
    def deleting(self, topic: str, numbers: Collection[int], count: int) -> Iterator[None]:
        """Delete partitions in the block: mark that their remote parts go with them.

        No task runs for them meanwhile: what runs is cancelled first, and waited for; others are
        not. What the block leaves of them keeps its remote part. Of *count* partitions, those go
        too that are not here any more: nothing of them is here by which a mark before the block
        would be undone, so they are marked after it.

        Raises
        ------
        RemoteStorageError
            The storage has not what is noted, or cannot be read: the block does not begin.
        IllegalStateError
            A topic id cannot be read, by which the remote part is known.
        """
        parts = self._built()
        partitions = [self._partition_of(TopicPartition(topic, one)) for one in numbers]
        lost = [one for one, _ in self._lost(topic, numbers, count)]
        for one in (*partitions, *lost):
            parts.manager.require_newest_copy(one, for_deletion=True)
        with self._taking([one.topic_partition for one in partitions]):
            marked = [one for one in partitions if self._has_segments(parts, one)]
            for one in marked:
                self._mark(parts, one, _MARKED)
            yield
            with suppress(SegstoreError):  # `finish_deletions` tries again
                for one in marked:
                    if not self._is_here(one, _MARKED):  # the block has deleted it
                        self._mark(parts, one, _STARTED)
        for one in lost:
            self._mark(parts, one, _MARKED)

    @contextmanager
    def _taking(self, topic_partitions: Sequence[TopicPartition]) -> Iterator[None]:
        """End the tasks of these partitions; no other thread works on them in the block."""
        manager = self._built().manager
        with self._claims.taking(topic_partitions, lambda: manager.cancel(topic_partitions)):
            for one in topic_partitions:
                self._led.pop(one, None)
            yield

    def withdraw_marks(self, listed: Collection[TopicPartition]) -> None:
        """Take back the marks of partitions that are *listed*: their deletion did not take place.

        Else the remote part would go too when the directory is moved away later [TIER-90].

        Raises
        ------
        SegstoreError
            It cannot be noted; the next pass does it.
        """
        here = {*listed}
        for partition, state in self._pending().items():
            one = partition.topic_partition
            if state is not _MARKED or one not in here:
                continue
            with self._claims.trying(one) as is_claimed:  # else it is being deleted now
                is_marked = is_claimed and self._pending().get(partition) is _MARKED
                if is_marked and self._topic_id_of(one) == partition.topic_id:
                    self._withdraw(self._built(), partition)

    def _withdraw(self, parts: _Parts, partition: TopicIdPartition) -> None:
        """Say of the newest copy once more that it is there: it stays, so the partition does."""
        listed = parts.metadata.list_remote_log_segments(partition)
        copies = [one for one in listed if one.state is _FINISHED]
        if not copies:  # nothing would be lost with it
            return
        newest = max(copies, key=lambda one: one.end_offset)
        update = RemoteLogSegmentMetadataUpdate(
            segment_id=newest.segment_id,
            event_timestamp_ms=self._clock_ms(),
            custom_metadata=newest.custom_metadata,
            state=newest.state,
            broker_id=newest.broker_id,
        )
        parts.metadata.update_remote_log_segment_metadata(update)
        with self._marking:
            if self._deletions is not None:
                _note(self._deletions, update)

    def _withdraw_all_marks(self, listed: Collection[TopicPartition], findings: Findings) -> None:
        try:
            self.withdraw_marks(listed)
        except ClosedError:
            return
        except SegstoreError as error:
            self._note_failure(DELETION, None, error, findings)

    def begin_deletions(self, topic: str) -> None:
        """Note that the remote parts of what is gone of a topic go, whatever is made there next.

        A partition that is made again has the same topic id, and would have the old copies.
        """
        for partition in [one for one in self._pending() if one.topic_partition.topic == topic]:
            with self._taking([partition.topic_partition]):
                state = self._pending().get(partition)
                if state is not None and not self._is_kept(partition, state):
                    self._mark(self._built(), partition, _STARTED)

    def refuse_lost(self, topic: str, here: Collection[int], count: int) -> None:
        """Raise where remote storage has one of *count* partitions that is not *here* any more.

        Made again, it would have other records at the same offsets, and its copies may be the only
        ones of those that it had [DUR-140].

        Raises
        ------
        IllegalStateError
            It has; nothing changed.
        """
        for partition, copies in self._lost(topic, here, count):
            one = partition.topic_partition
            last = max(copy.end_offset for copy in copies)
            raise IllegalStateError(
                f"{one} is not here any more, and its records are in remote storage: an empty"
                " partition does not take its place. restore_bucket, or `segstore restore-bucket`,"
                " brings it back with its records; delete_topic gives them up",
                file=f"{self._directory().path}/{one}",
                found=f"no directory, and copies of the records from {copies[0].start_offset}"
                f" to {last}",
                expected="a partition that never was, or that delete_partition has deleted",
            )

    def _lost(
        self, topic: str, here: Collection[int], count: int
    ) -> Iterator[tuple[TopicIdPartition, list[RemoteLogSegmentMetadata]]]:
        """Yield the partitions that have copies and no directory, with these, by start offset."""
        parts = self._built()
        ids = (self._topic_id_of(TopicPartition(topic, one)) for one in here)
        topic_id = next((one for one in ids if one is not None), None)
        if topic_id is None:  # copies are known by it
            return
        for number in sorted({*range(count)}.difference(here)):
            partition = TopicIdPartition(topic_id, TopicPartition(topic, number))
            listed = parts.metadata.list_remote_log_segments(partition)
            copies = [one for one in listed if one.state is _FINISHED]
            if copies and self._pending().get(partition) is not _STARTED:
                yield partition, copies

    def finish_deletions(self, topic: str) -> None:
        """Delete the remote parts of what is gone of a topic.

        Raises
        ------
        RemoteStorageError
            The first one is not deleted as a whole; a later pass goes on with it.
        """
        for partition in [one for one in self._pending() if one.topic_partition.topic == topic]:
            with self._taking([partition.topic_partition]):
                state = self._pending().get(partition)  # a pass may have ended it meanwhile
                if state is not None and not self._is_kept(partition, state):
                    self._delete(partition, state)

    def delete_disabled(self, log: UnifiedLog) -> None:
        """Delete the remote part of a log whose settings have ended it [CFG-46, TIER-90].

        Raises
        ------
        RemoteStorageError
            As `finish_deletions`.
        """
        with self._taking([log.topic_partition]):
            self._delete_of_disabled(log)

    def _delete_of_disabled(self, log: UnifiedLog) -> int:
        """Return of how many segments the remote part of a log was, which is deleted now."""
        parts = self._built()
        if log.remote_log_enabled or log.topic_id is None:
            return 0
        partition = TopicIdPartition(log.topic_id, log.topic_partition)
        self._led.pop(log.topic_partition, None)
        parts.manager.cancel([log.topic_partition])
        count = self._has_segments(parts, partition)
        if count:
            parts.manager.require_newest_copy(partition, for_deletion=True)
            self._stop(parts, partition)
        return count

    def _look_at_disabled(
        self,
        topic_partition: TopicPartition,
        open_log: Callable[[str, int], UnifiedLog],
        findings: Findings,
    ) -> None:
        try:
            log = open_log(*topic_partition)  # it begins at its local log start now [DUR-143]
            if count := self._delete_of_disabled(log):
                deleted = RemoteDeletion(topic_partition, count, log.log_start_offset)
                findings.expired.append(deleted)
        except (UnknownTopicOrPartitionError, LogNotFoundError, ClosedError):
            return
        except Exception as error:  # noqa: BLE001 - one log stops no other [DUR-131]
            self._note_failure(DELETION, topic_partition, error, findings)

    def _finish_all_deletions(self, findings: Findings) -> None:
        for partition in self._pending():
            with self._claims.trying(partition.topic_partition) as is_claimed:
                state = self._pending().get(partition) if is_claimed else None
                if state is not None and not self._is_here(partition, state):
                    self._finish_deletion(partition, state, findings)

    def _finish_deletion(
        self,
        partition: TopicIdPartition,
        state: RemotePartitionDeleteState,
        findings: Findings,
    ) -> None:
        try:
            self._refuse_moved_away(partition, state)
            count = self._delete(partition, state)
        except ClosedError:  # the next open goes on with it
            return
        except Exception as error:  # noqa: BLE001 - one log stops no other [DUR-131]
            self._note_failure(DELETION, partition.topic_partition, error, findings)
        else:
            deleted = RemoteDeletion(partition.topic_partition, count, None)
            findings.expired.append(deleted)

    def _is_kept(self, partition: TopicIdPartition, state: RemotePartitionDeleteState) -> bool:
        """Whether a partition may have been kept, whose deletion was marked."""
        return self._is_here(partition, state) or self._is_lost(partition, state)

    def _is_here(self, partition: TopicIdPartition, state: RemotePartitionDeleteState) -> bool:
        """Whether a partition may be here, whose deletion was marked and did not take place."""
        return state is _MARKED and self._may_be_here(partition.topic_partition, partition.topic_id)

    def _is_lost(self, partition: TopicIdPartition, state: RemotePartitionDeleteState) -> bool:
        """Whether nothing of a partition is here, and nothing says that it was deleted here."""
        is_marked = state is _MARKED
        return is_marked and not self._was_deleted(partition.topic_partition, partition.topic_id)

    def _refuse_moved_away(
        self, partition: TopicIdPartition, state: RemotePartitionDeleteState
    ) -> None:
        if not self._is_lost(partition, state):
            return
        one = partition.topic_partition
        raise IllegalStateError(
            f"{one} was to be deleted, and a crash came: it was deleted, or was moved away. Its"
            " copies stay. Bring its directory back. Or make an empty directory of this name: then"
            " they are deleted",
            file=f"{self._directory().path}/{delete_directory_name(one)}",
            found="no directory of the partition",
            expected="its directory, or one that waits for its removal",
        )

    def _delete(self, partition: TopicIdPartition, state: RemotePartitionDeleteState) -> int:
        """Delete the remote part of a partition that is gone; return how many segments it had."""
        parts = self._built()
        if state is not _STARTED:
            self._mark(parts, partition, _STARTED)
        parts.manager.require_newest_copy(partition, for_deletion=True)
        count = self._has_segments(parts, partition)
        self._stop(parts, partition)
        self._mark(parts, partition, RemotePartitionDeleteState.DELETE_PARTITION_FINISHED)
        return count

    def _stop(self, parts: _Parts, partition: TopicIdPartition) -> None:
        self._led.pop(partition.topic_partition, None)
        errors = parts.manager.stop_partitions([partition], delete_remote_log=True)
        if errors:
            raise errors[partition]

    def _has_segments(self, parts: _Parts, partition: TopicIdPartition) -> int:
        """Return how many segments are noted as remote, in any state but deleted."""
        return sum(
            one.state is not RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
            for one in parts.metadata.list_remote_log_segments(partition)
        )

    def _mark(
        self, parts: _Parts, partition: TopicIdPartition, state: RemotePartitionDeleteState
    ) -> None:
        self._pending()
        event = RemotePartitionDeleteMetadata(
            topic_id_partition=partition,
            state=state,
            event_timestamp_ms=self._clock_ms(),
            broker_id=self._broker_id(),
        )
        parts.metadata.put_remote_partition_delete_metadata(event)
        with self._marking:
            if self._deletions is not None:
                _note(self._deletions, event)

    def _pending(self) -> dict[TopicIdPartition, RemotePartitionDeleteState]:
        """Return the partitions whose deletion was marked and has not ended; a copy."""
        with self._marking:
            if self._deletions is None:
                self._deletions = self._read_deletions()
            return dict(self._deletions)

    def _read_deletions(self) -> dict[TopicIdPartition, RemotePartitionDeleteState]:
        found: dict[TopicIdPartition, RemotePartitionDeleteState] = {}
        for number in self._topic.numbers:  # the others are about partitions of other directories
            for value in self._topic.values(number):
                if value is None:
                    continue
                if value.startswith(_DELETION_OF_A_PARTITION):
                    _note(found, parse_event(value))
                elif _MARKED in found.values():
                    with suppress(*_NO_EVENT):  # a call about its partition raises it
                        _note(found, parse_event(value))
        return found

    # ---- figures ---------------------------------------------------------------------------------

    def figures(self) -> Mapping[TopicPartition, RemoteLogFigures]:
        """Return where each log stands that was looked at, as of its last pass [TIER-43]."""
        return {} if self._parts is None else self._parts.manager.figures()

    # ---- what it works with ----------------------------------------------------------------------

    def _built(self) -> _Parts:
        parts = self._parts
        if parts is not None and not self._is_closed:  # of each read
            return parts
        with self._building:
            if self._is_closed:
                raise ClosedError("the remote storage of the log directory is closed")
            if self._parts is None:
                self._parts = self._build()
            return self._parts

    def _build(self) -> _Parts:
        directory, values = self._directory(), self._values
        if self._read_only:  # the cache of a writer is not shared
            self._own_folder = tempfile.mkdtemp(prefix="segstore-")
            directory = Directory(self._own_folder)
        index_cache = RemoteIndexCache(
            directory,
            self._storage,
            clock_ms=self._clock_ms,
            max_size_bytes=values["remote.log.index.file.cache.total.size.bytes"],
            ttl_ms=values["remote.log.index.file.cache.ttl.ms"],
            kafka_profile=self._kafka_profile,
        )
        metadata = TopicBasedRemoteLogMetadataManager(self._topic)
        manager = RemoteLogManager(
            self._storage,
            metadata,
            index_cache,
            broker_id=self._broker_id(),
            clock_ms=self._clock_ms,
            config=self._config,
            newest_apart=not self._kafka_profile,
        )
        reader = RemoteStorageReader(
            self._storage, metadata, index_cache, lambda one: self._known_partition(one).topic_id
        )
        return _Parts(metadata, manager.charged(reader), index_cache, manager)

    def _clock_ms(self) -> int:
        return self._directory().wall_clock_ms() + self._shift_ms

    def _broker_id(self) -> int:
        properties = read_meta_properties(self._directory())
        node_id = None if properties is None else properties.node_id
        return _NO_BROKER if node_id is None else node_id

    def _partition_of(self, topic_partition: TopicPartition) -> TopicIdPartition:
        topic_id = self._topic_id_of(topic_partition)
        if topic_id is None:
            raise IllegalStateError(
                f"{topic_partition} has no topic id, by which its remote segments are known",
                file=f"{self._directory().path}/{topic_partition}",
                found="no topic id",
                expected="partition.metadata; restore_topic_id() writes it again",
            )
        return TopicIdPartition(topic_id, topic_partition)

    def _known_partition(self, topic_partition: TopicPartition) -> TopicIdPartition:
        """Return what `_partition_of` does, from memory while no name of the log directory changes.

        So a read opens no file here. A topic that is deleted and made again changes names; what
        changed within the step of a file system's clock before is not remembered.
        """
        directory = self._directory()
        names = directory.own_info()
        known = self._known
        if known.names == names and (partition := known.partitions.get(topic_partition)):
            return partition
        partition = self._partition_of(topic_partition)
        if abs(directory.wall_clock_ms() - names.modified_ms) > _CLOCK_STEP_MS:
            if known.names != names:
                known = self._known = _KnownPartitions(names, {})
            known.partitions[topic_partition] = partition
        return partition

    # ---- the end ---------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Let a pass end after the segment that is copied or deleted now [TIER-45]."""
        self._is_ending = True
        if self._parts is not None:
            self._parts.manager.cancel([*self._led])
            self._led.clear()

    def close(self) -> None:
        """Release everything; idempotent [TIER-92]."""
        with self._building:
            self._is_closed = True
            if self._parts is None:
                self._storage.close()
            else:
                self._parts.manager.close()
            if self._own_folder is not None:
                shutil.rmtree(self._own_folder, ignore_errors=True)


def _note(
    pending: dict[TopicIdPartition, RemotePartitionDeleteState], event: RemoteLogMetadata
) -> None:
    partition = event.topic_id_partition
    if not isinstance(event, RemotePartitionDeleteMetadata):
        if pending.get(partition) is _MARKED and is_of_a_partition_that_stays(event):
            del pending[partition]
    elif event.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
        pending.pop(partition, None)
    else:
        pending[partition] = event.state
