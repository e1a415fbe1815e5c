"""Copies logs to remote storage, and deletes what expires there (Kafka ``RemoteLogManager``).

It has no thread: whoever owns the logs calls `copy`, `expire` and `follow` when they are due.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from segstore.errors import ClosedError, IllegalStateError
from segstore.remote.log_manager.charged_reader import ChargedReader
from segstore.remote.log_manager.copy_task import CopyTask
from segstore.remote.log_manager.expiration_task import ExpirationTask
from segstore.remote.log_manager.follower_task import FollowerTask
from segstore.remote.log_manager.other_history import refuse_other_history
from segstore.remote.log_manager.remote_log_stats import RemoteLogCounters, RemoteLogFigures
from segstore.remote.log_manager.remote_log_task import RemoteLogParts
from segstore.remote.log_manager.remote_quota import RemoteQuota
from segstore.remote.metadata.segment_metadata import RemoteLogSegmentState, TopicIdPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from uuid import UUID

    from segstore.log.remote_tier import RemoteLogReader
    from segstore.log.unified_log import UnifiedLog
    from segstore.remote.log_manager.remote_log_manager_config import RemoteLogManagerConfig
    from segstore.remote.metadata.remote_log_metadata_manager import RemoteLogMetadataManager
    from segstore.remote.metadata.segment_metadata import RemoteLogSegmentMetadata
    from segstore.remote.storage.remote_storage_manager import RemoteStorageManager
    from segstore.types import TopicPartition

_log = logging.getLogger(__name__)


class IndexCache(Protocol):
    """What is asked of the cache of the reader: `RemoteIndexCache` is one."""

    def remove_all(self, segment_ids: Iterable[UUID]) -> None:
        """Forget the indexes of these segments."""

    def close(self) -> None:
        """Release what it holds; idempotent."""


class _RemoteLog:
    """The tasks of one log."""

    def __init__(self, parts: RemoteLogParts, partition: TopicIdPartition, *, leads: bool) -> None:
        self.partition = partition
        self.figures = RemoteLogFigures()
        self.copy_task: CopyTask | None = None
        self.expiration_task: ExpirationTask | None = None
        self.follower_task: FollowerTask | None = None
        self._parts = parts
        if leads:
            self.begin_copies()
            self.expiration_task = ExpirationTask(parts, partition, self.figures)
        else:
            self.follower_task = FollowerTask(parts, partition, self.figures)

    @property
    def leads(self) -> bool:
        """Whether it is copied from here."""
        return self.expiration_task is not None

    def begin_copies(self) -> CopyTask:
        """Return the copy task; a new one where copying was disabled until now."""
        if self.copy_task is None:
            self.copy_task = CopyTask(self._parts, self.partition, self.figures)
        return self.copy_task

    def end_copies(self) -> None:
        """Copy no more; nothing lags then [TIER-43]."""
        if self.copy_task is not None:
            self.copy_task.cancel()
            self.copy_task = None
        self.figures.copy_lag_bytes = self.figures.copy_lag_segments = 0

    def cancel(self) -> None:
        """Let all tasks end."""
        for task in (self.copy_task, self.expiration_task, self.follower_task):
            if task is not None:
                task.cancel()


class RemoteLogManager:
    """The remote part of the logs of one broker, or of one log directory; any thread may call it.

    One thread at a time runs a task of a log; other logs, and its other tasks, run beside it.

    Parameters
    ----------
    storage : RemoteStorageManager
        Where the bytes of segments are.
    metadata : RemoteLogMetadataManager
        Which segments there are.
    index_cache : IndexCache or None
        Of the reader: indexes of deleted partitions leave it.
    broker_id : int
        Who is named in metadata.
    clock_ms : callable
        Wall clock in ms since 1970.
    config : RemoteLogManagerConfig
        The settings.
    newest_apart : bool
        Of the deletion of a partition: the newest copy goes when the end of all others is noted.
        Until then it says which storage it is, see `require_newest_copy`. Kafka notes the end of
        all at once, and goes on in any storage.

    Attributes
    ----------
    counters : RemoteLogCounters
        What all tasks and reads have done since.
    fetch_quota : RemoteQuota
        Limit of all reads by readers that `charged` gave.
    """

    def __init__(  # noqa: PLR0913 - each by its name
        self,
        storage: RemoteStorageManager,
        metadata: RemoteLogMetadataManager,
        index_cache: IndexCache | None,
        *,
        broker_id: int,
        clock_ms: Callable[[], int],
        config: RemoteLogManagerConfig,
        newest_apart: bool = False,
    ) -> None:
        self._index_cache = index_cache
        self._parts = RemoteLogParts(
            storage=storage,
            metadata=metadata,
            broker_id=broker_id,
            clock_ms=clock_ms,
            config=config,
            newest_apart=newest_apart,
            copy_quota=RemoteQuota(
                config.copy_max_bytes_per_second,
                config.copy_quota_window_num,
                config.copy_quota_window_size_seconds,
                clock_ms,
            ),
        )
        self.fetch_quota = RemoteQuota(
            config.fetch_max_bytes_per_second,
            config.fetch_quota_window_num,
            config.fetch_quota_window_size_seconds,
            clock_ms,
        )
        self._logs: dict[TopicPartition, _RemoteLog] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()

    # ---- who leads -------------------------------------------------------------------------------

    def on_leadership_change(
        self, leaders: Iterable[UnifiedLog], followers: Iterable[UnifiedLog]
    ) -> None:
        """Take over the tasks of these logs, from the leader's or from the follower's side.

        Logs without a remote part are left out [TIER-1]. What ran for them before is cancelled.

        Raises
        ------
        IllegalStateError
            A log has no topic id.

        Source: [TIER-31], Kafka ``RemoteLogManager.onLeadershipChange``.
        """
        self._require_open()
        led, followed = _partitions(leaders), _partitions(followers)
        self._parts.metadata.on_partition_leadership_changes(led, followed)
        with self._lock:
            for partitions, leads in ((led, True), (followed, False)):
                for partition in partitions:
                    before = self._logs.get(partition.topic_partition)
                    if before is not None:
                        if before.partition == partition and before.leads == leads:
                            continue
                        before.cancel()
                    new = _RemoteLog(self._parts, partition, leads=leads)
                    self._logs[partition.topic_partition] = new

    def topic_id(self, topic_partition: TopicPartition) -> UUID | None:
        """Return the id of a topic whose log this manager has; None for others."""
        log = self._logs.get(topic_partition)
        return None if log is None else log.partition.topic_id

    def require_newest_copy(
        self, partition: TopicIdPartition, *, for_deletion: bool = False
    ) -> None:
        """Raise where this is not the storage that the metadata speak of.

        See `RemoteLogParts.require_newest_copy`.
        """
        self._require_open()
        self._parts.require_newest_copy(partition, for_deletion=for_deletion)

    def refuse_other_history(self, log: UnifiedLog) -> None:
        """Raise where copies of a log that is led have records that it has not.

        See `refuse_other_history`.
        """
        remote = self._led(log)
        if remote is not None:
            refuse_other_history(log, self._parts, remote.partition)

    # ---- the tasks -------------------------------------------------------------------------------

    def copy(self, log: UnifiedLog) -> Exception | None:
        """Copy the sealed segments of a log that is led; returns why that failed [TIER-31].

        Nothing happens for other logs, and while ``remote_log_copy_disable`` is set.
        """
        remote = self._led(log)
        if remote is None:
            return None
        if log.config.remote_log_copy_disable:
            remote.end_copies()
            return None
        return remote.begin_copies().run(log)

    def expire(self, log: UnifiedLog) -> Exception | None:
        """Delete what is expired in remote storage; returns why that failed [TIER-52…TIER-58]."""
        remote = self._led(log)
        if remote is None or remote.expiration_task is None:
            return None
        return remote.expiration_task.run(log)

    def follow(self, log: UnifiedLog) -> Exception | None:
        """Note what the leader has copied; returns why that failed [TIER-44]."""
        remote = self._logs.get(log.topic_partition)
        if remote is None or remote.follower_task is None:
            return None
        return remote.follower_task.run(log)

    def _led(self, log: UnifiedLog) -> _RemoteLog | None:
        self._require_open()
        remote = self._logs.get(log.topic_partition)
        is_led = remote is not None and remote.leads and log.remote_log_enabled
        return remote if is_led else None

    # ---- reads -----------------------------------------------------------------------------------

    def charged(self, reader: RemoteLogReader) -> RemoteLogReader:
        """Return a reader whose reads keep within the fetch quota, and are counted [TIER-70]."""
        return ChargedReader(reader, self.fetch_quota, self._parts.counters, self._closed)

    # ---- figures ---------------------------------------------------------------------------------

    @property
    def counters(self) -> RemoteLogCounters:
        """What all tasks and reads have done since the manager was made; a copy."""
        return replace(self._parts.counters)

    def figures(self) -> Mapping[TopicPartition, RemoteLogFigures]:
        """Return where each log stands; copies."""
        with self._lock:
            return {one: replace(log.figures) for one, log in self._logs.items()}

    # ---- the end ---------------------------------------------------------------------------------

    def cancel(self, partitions: Iterable[TopicPartition]) -> None:
        """End all tasks of these logs; what is under way ends after its segment [TIER-45]."""
        with self._lock:
            for topic_partition in partitions:
                log = self._logs.pop(topic_partition, None)
                if log is not None:
                    log.cancel()

    def stop_partitions(
        self, partitions: Collection[TopicIdPartition], *, delete_remote_log: bool
    ) -> dict[TopicIdPartition, Exception]:
        """End all tasks of these logs, and delete what is in remote storage if asked.

        Parameters
        ----------
        partitions : collection of TopicIdPartition
            Of the logs.
        delete_remote_log : bool
            Whether that is asked.

        Returns
        -------
        dict
            Why a partition was not deleted as a whole. The rest of it stays marked as to be
            deleted: the same call goes on with it.

        Source: [TIER-90, TIER-91], Kafka ``RemoteLogManager.stopPartitions``.
        """
        self._require_open()
        self.cancel(one.topic_partition for one in partitions)
        errors: dict[TopicIdPartition, Exception] = {}
        for partition in partitions:
            try:
                if delete_remote_log:
                    self._delete_partition(partition)
            except Exception as error:  # noqa: BLE001 - one of plug-ins, of one partition
                _log.warning("%s: its remote part was not deleted: %s", partition, error)
                errors[partition] = error
        stopped = [one for one in partitions if one not in errors]
        if stopped:
            self._parts.metadata.on_stop_partitions(stopped)
        return errors

    def _delete_partition(self, partition: TopicIdPartition) -> None:
        parts = self._parts
        segments = list(parts.metadata.list_remote_log_segments(partition))
        newest = parts.newest_copy(partition) if parts.newest_apart else None
        for segment in segments:
            parts.publish(segment, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
        self._delete_segments([one for one in segments if one != newest])
        if newest is not None:
            self._delete_segments([newest])

    def _delete_segments(self, segments: Sequence[RemoteLogSegmentMetadata]) -> None:
        parts = self._parts
        for segment in segments:
            parts.storage.delete_log_segment_data(segment)
        if self._index_cache is not None:
            self._index_cache.remove_all([one.segment_id.id for one in segments])
        for segment in segments:
            parts.publish(segment, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)

    def close(self) -> None:
        """End all tasks, close the index cache, then storage and metadata; idempotent [TIER-92]."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
            for log in self._logs.values():
                log.cancel()
            self._logs.clear()
        if self._index_cache is not None:
            self._index_cache.close()
        self._parts.storage.close()
        self._parts.metadata.close()

    def _require_open(self) -> None:
        if self._closed.is_set():
            raise ClosedError("the remote log manager is closed")


def _partitions(logs: Iterable[UnifiedLog]) -> list[TopicIdPartition]:
    found = []
    for log in logs:
        if not log.remote_log_enabled:
            continue
        if log.topic_id is None:
            raise IllegalStateError(
                "a log without a topic id is not copied: its remote segments have the id",
                file=log.path,
                found="no topic id",
                expected="partition.metadata; restore_topic_id() writes it again",
            )
        found.append(TopicIdPartition(log.topic_id, log.topic_partition))
    return found
