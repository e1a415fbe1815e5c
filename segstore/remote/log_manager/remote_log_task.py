"""What the tasks of a remote log have in common: a run can be cancelled, and waits after errors.

Source: [TIER-31, TIER-45, TIER-46], Kafka ``RemoteLogManager.RLMTask``.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from segstore.errors import (
    ClosedError,
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RetriableRemoteStorageError,
)
from segstore.log.files.profile import Profile
from segstore.remote.log_manager.copy_read_back import is_as_here, is_whole
from segstore.remote.log_manager.remote_log_stats import RemoteLogCounters, RemoteLogFigures
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from segstore.remote.storage.remote_storage_manager import IndexType

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.log.unified_log import UnifiedLog
    from segstore.remote.log_manager.remote_log_manager_config import RemoteLogManagerConfig
    from segstore.remote.log_manager.remote_quota import RemoteQuota
    from segstore.remote.metadata.remote_log_metadata_manager import RemoteLogMetadataManager
    from segstore.remote.metadata.segment_metadata import (
        RemoteLogSegmentId,
        RemoteLogSegmentMetadata,
        TopicIdPartition,
    )
    from segstore.remote.storage.remote_storage_manager import RemoteStorageManager

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class RemoteLogParts:
    """What all tasks of a `RemoteLogManager` share.

    Attributes
    ----------
    storage : RemoteStorageManager
        Where the bytes are.
    metadata : RemoteLogMetadataManager
        Which segments there are.
    broker_id : int
        Who says so, in metadata.
    clock_ms : callable
        Wall clock in ms since 1970.
    config : RemoteLogManagerConfig
        The settings.
    newest_apart : bool
        Whether the newest copy of a partition that is deleted goes after the others.
    copy_quota : RemoteQuota
        Limit of all copies together.
    counters : RemoteLogCounters
        What all tasks have done.
    being_copied : set of RemoteLogSegmentId
        Copies that are under way now.
    are_whole : dict
        Of the copies that this process has read: whether they are as they should be.
    hold_others : set of RemoteLogSegmentId
        Those of them that are whole, and hold other records than the log has there.
    """

    storage: RemoteStorageManager
    metadata: RemoteLogMetadataManager
    broker_id: int
    clock_ms: Callable[[], int]
    config: RemoteLogManagerConfig
    newest_apart: bool = False
    copy_quota: RemoteQuota
    counters: RemoteLogCounters = field(default_factory=RemoteLogCounters)
    being_copied: set[RemoteLogSegmentId] = field(default_factory=set)
    are_whole: dict[RemoteLogSegmentId, bool] = field(default_factory=dict)
    hold_others: set[RemoteLogSegmentId] = field(default_factory=set)

    def counts_as_copied(self, log: UnifiedLog, segment: RemoteLogSegmentMetadata) -> bool:
        """Whether a finished segment was read back, so that the records may go here [DUR-140].

        The copy task reads back what it copies. What was there before, of whatever broker, is read
        once: another process may have copied without reading it back. It is compared with what is
        here; where its first records are not here any more, their batches are checked. A copy that
        is not in the storage is none.

        Raises
        ------
        RemoteStorageError
            It cannot be read now.
        """
        known = self.are_whole.get(segment.segment_id)
        if known is None:
            try:
                known = is_as_here(self.storage, segment, log)
                if known is None:
                    known = is_whole(self.storage, segment)
                elif not known and is_whole(self.storage, segment):
                    self.hold_others.add(segment.segment_id)
            except RemoteResourceNotFoundError:  # it is lost
                known = False
            self.are_whole[segment.segment_id] = known
            if not known:
                _log.warning(
                    "%s: remote segment %s of broker %d has not the records from %d to %d: it does"
                    " not count as a copy",
                    segment.segment_id.topic_id_partition,
                    segment.segment_id.id,
                    segment.broker_id,
                    segment.start_offset,
                    segment.end_offset,
                )
        return known

    def require_newest_copy(
        self, partition: TopicIdPartition, *, for_deletion: bool = False
    ) -> None:
        """Raise where the newest finished copy of a partition is not in the storage [DUR-140].

        Then the storage is perhaps another one, or a mount is missing, and what the metadata say
        counts for nothing: a copy that is not here may be the only one. It takes one small request.
        Where the copy is lost, an object of its name, also an empty one, says that this is the
        storage: what is here is then compared with each copy again.

        Parameters
        ----------
        partition : TopicIdPartition
            Of the copies.
        for_deletion : bool
            The oldest copy does too: what is lost needs no deletion. Where all copies are being
            deleted, each of them does, if the newest goes last. It is not asked for once it is the
            only one that is left: its objects may be gone already, and its end not be noted. If all
            go at once, this holds for all of them.

        Raises
        ------
        RemoteResourceNotFoundError
            It is not there.
        RemoteStorageError
            The storage cannot be read now.
        """
        copies = self._copies(partition)
        others = copies[:1] if for_deletion else []
        if for_deletion and not copies:
            others = copies = self._copies_being_deleted(partition)
            if len(copies) == 1 or not self.newest_apart:
                return
        if not copies:
            return
        newest = copies[-1]
        error = self._error_of_missing(newest)
        if error is None or any(self._error_of_missing(one) is None for one in reversed(others)):
            return
        for one in copies:  # others may be lost too
            self._forget(one.segment_id)
        raise RemoteResourceNotFoundError(
            f"{partition.topic_partition}: the newest copy is not in the remote storage. This"
            " may be another storage, or a missing mount: nothing is copied or deleted, here or"
            " there. If it is the right one, and the copy is lost, put an empty object of that name"
            " there: then the other records are copied and deleted again, and those of the copy too"
            " where they are still here",
            file=error.file,
            found="no such object",
            expected=f"remote segment {newest.segment_id.id} with the records from"
            f" {newest.start_offset} to {newest.end_offset}",
        ) from error

    def newest_copy(self, partition: TopicIdPartition) -> RemoteLogSegmentMetadata | None:
        """Return the copy that `require_newest_copy` asks for where all are to be deleted."""
        copies = self._copies(partition) or self._copies_being_deleted(partition)
        return copies[-1] if copies else None

    def _copies(self, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
        """Return the finished ones, the newest last; of two of these, that which came later."""
        listed = self.metadata.list_remote_log_segments(partition)
        return sorted(
            (one for one in listed if one.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED),
            key=lambda one: one.end_offset,
        )

    def _copies_being_deleted(self, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
        """Return those that were finished before, as above; one that failed proves nothing."""

        def was_finished(segment: RemoteLogSegmentMetadata) -> bool:
            epoch = segment.segment_leader_epochs[-1].epoch
            highest = self.metadata.highest_offset_for_epoch(partition, epoch)
            return highest is not None and segment.end_offset <= highest

        listed = self.metadata.list_remote_log_segments(partition)
        going = (one for one in listed if one.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
        return sorted(filter(was_finished, going), key=lambda one: one.end_offset)

    def _error_of_missing(
        self, segment: RemoteLogSegmentMetadata
    ) -> RemoteResourceNotFoundError | None:
        """Ask for the smallest object of a copy; return the error where it is not there."""
        try:
            self.storage.fetch_index(segment, IndexType.LEADER_EPOCH)
        except RemoteResourceNotFoundError as error:
            return error
        return None

    def _forget(self, segment_id: RemoteLogSegmentId) -> None:
        self.are_whole.pop(segment_id, None)
        self.hold_others.discard(segment_id)

    def publish(self, metadata: RemoteLogSegmentMetadata, state: RemoteLogSegmentState) -> None:
        """Note the next state of a segment, durably."""
        if state is not RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
            self._forget(metadata.segment_id)  # it goes
        self.metadata.update_remote_log_segment_metadata(
            RemoteLogSegmentMetadataUpdate(
                segment_id=metadata.segment_id,
                event_timestamp_ms=self.clock_ms(),
                custom_metadata=metadata.custom_metadata,
                state=state,
                broker_id=self.broker_id,
            )
        )

    def delete(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Delete a remote segment: what makes it visible first, then its bytes [TIER-57, DUR-142].

        Raises
        ------
        RemoteStorageError
            It is not deleted. Its state says that it is to be; the next expiration tries again.
        """
        self.publish(metadata, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
        self.counters.delete_requests += 1
        try:
            self.storage.delete_log_segment_data(metadata)
        except RetriableRemoteStorageError:
            raise
        except RemoteStorageError:
            self.counters.failed_deletes += 1
            raise
        self.publish(metadata, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)


class RemoteLogTask(ABC):
    """One task of one log; one thread runs it at a time, any other may cancel it.

    Parameters
    ----------
    parts : RemoteLogParts
        Shared with all others.
    partition : TopicIdPartition
        Of the log.
    figures : RemoteLogFigures
        Of the log, shared with its other tasks.
    """

    def __init__(
        self, parts: RemoteLogParts, partition: TopicIdPartition, figures: RemoteLogFigures
    ) -> None:
        self._parts = parts
        self._partition = partition
        self._figures = figures
        self._cancelled = threading.Event()
        self._failures = 0
        self._next_run_ms = 0

    @property
    def is_cancelled(self) -> bool:
        """Whether it does nothing any more."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Let a run end before its next segment, or its wait; later runs do nothing [TIER-45]."""
        self._cancelled.set()

    def _is_over(self, log: UnifiedLog) -> bool:
        return self.is_cancelled or log.closed

    def run(self, log: UnifiedLog) -> Exception | None:
        """Do what is due; returns why a run failed, and raises nothing that a run may cause.

        After a failure in the safe profile, runs do nothing for a while: each next failure doubles
        the wait [DUR-144].
        """
        parts, now = self._parts, self._parts.clock_ms()
        if self._is_over(log) or not parts.metadata.is_ready(self._partition):
            return None
        is_safe = log.profile is Profile.SAFE
        if is_safe and now < self._next_run_ms <= now + parts.config.task_retry_backoff_max_ms:
            return None
        generation = log._settled_generation()  # noqa: SLF001 - asked by its manager
        try:
            self._execute(log)
        except Exception as error:  # noqa: BLE001 - one of plug-ins; the next run may succeed
            if isinstance(error, ClosedError) and self._is_over(log):
                return None  # its user closes it: that is no failure
            if is_safe and log._generation() != generation:  # noqa: SLF001 - as above
                # nor is a truncation beside the run: the next one sees what is there then
                _log.debug("%s: %s: %s", self._partition, type(self).__name__, error)
                return None
            self._note_failure(error, now)
            return error
        self._failures, self._next_run_ms = 0, 0
        self._figures.last_error = None
        return None

    def _note_failure(self, error: Exception, now: int) -> None:
        config = self._parts.config
        wait = config.task_retry_backoff_ms << min(self._failures, 32)
        self._failures += 1
        self._next_run_ms = now + min(wait, config.task_retry_backoff_max_ms)
        self._figures.last_error = str(error)
        if isinstance(error, RetriableRemoteStorageError):
            _log.debug("%s: %s: %s", self._partition, type(self).__name__, error)
        elif not self.is_cancelled:
            _log.warning("%s: %s: %s", self._partition, type(self).__name__, error)

    @abstractmethod
    def _execute(self, log: UnifiedLog) -> None:
        """Do what is due."""
