"""The task that deletes expired segments in remote storage (Kafka ``RLMExpirationTask``).

Source: [TIER-50…TIER-60, DUR-142, DUR-143].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.log.files.profile import Profile
from segstore.remote.log_manager.copied_end import note_copied
from segstore.remote.log_manager.lineage import filter_epochs, is_within_lineage
from segstore.remote.log_manager.remote_log_task import RemoteLogTask
from segstore.remote.metadata.segment_metadata import RemoteLogSegmentState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segstore.log.unified_log import UnifiedLog
    from segstore.remote.log_manager.remote_log_stats import RemoteLogFigures
    from segstore.remote.log_manager.remote_log_task import RemoteLogParts
    from segstore.remote.metadata.segment_metadata import (
        RemoteLogSegmentId,
        RemoteLogSegmentMetadata,
        TopicIdPartition,
    )
    from segstore.types import EpochEntry

_STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
_DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


class ExpirationTask(RemoteLogTask):
    """Moves the log start over what is too old or too much, then deletes it [TIER-56]."""

    def __init__(
        self, parts: RemoteLogParts, partition: TopicIdPartition, figures: RemoteLogFigures
    ) -> None:
        super().__init__(parts, partition, figures)
        self.all_segments_valid = False
        """Each finished segment is of the lineage: what this leader adds is so too [TIER-55]."""

    def cancel(self) -> None:
        """Do as every task; what was known of the segments is forgotten [TIER-54, TIER-55]."""
        super().cancel()
        self.all_segments_valid = False
        self._figures.retention_size_percent = self._figures.local_retention_size_percent = 0

    def _execute(self, log: UnifiedLog) -> None:
        figures, is_safe = self._figures, log.profile is Profile.SAFE
        generation = log._settled_generation()  # noqa: SLF001 - asked by its manager
        segments = list(self._parts.metadata.list_remote_log_segments(self._partition))
        finished_bytes = _size_of(segments, _FINISHED)
        figures.metadata_count = len(segments)
        figures.remote_log_size_bytes = finished_bytes + _size_of(segments, _DELETING)
        if not segments:
            self._note_percent(log, _local_bytes(log))
            return
        lineage = filter_epochs(log.leader_epochs)
        self._seed_highest_offset(log)
        only_local_bytes = log.only_local_log_segments_size  # [TIER-4]
        excess = self.excess_bytes(log, only_local_bytes, finished_bytes, lineage)
        choice = _Choice(log, self._parts.clock_ms(), excess, lineage)
        if not self._choose(choice, lineage):
            return
        # an unreadable listing deletes nothing; Kafka looks at these after the others are gone
        outlived = None
        if is_safe:  # without those that are chosen: they are deleted once
            outlived = [one for one in self._outlived(log, segments) if not choice.has(one)]
        if choice.log_start_offset is not None:
            log._note_remote_log_start(choice.log_start_offset, generation)  # noqa: SLF001 - as above
        lag = _DeleteLag(figures, choice.segments, choice.expired_bytes)
        for segment in choice.segments:
            if not self.is_cancelled:
                self._parts.delete(segment)
                lag.is_deleted(segment)
        if outlived is None:
            outlived = list(self._outlived(log, segments))
        lag.add(outlived)
        first_epoch = log.leader_epochs[0].epoch if log.leader_epochs else 0
        for segment in outlived:
            if not self.is_cancelled and _is_before(segment, first_epoch):
                self._parts.delete(segment)
                lag.is_deleted(segment)

    def _seed_highest_offset(self, log: UnifiedLog) -> None:
        """Let a new leader know what is copied: else it would count twice [TIER-55]."""
        if log.highest_offset_in_remote_storage < 0:
            generation = log._settled_generation()  # noqa: SLF001 - as above
            note_copied(log, self._parts, self._partition, generation)

    # ---- which ones ------------------------------------------------------------------------------

    def _choose(self, choice: _Choice, lineage: Sequence[EpochEntry]) -> bool:
        """Walk the epochs upwards to the first segment that stays; False: cancelled [TIER-52]."""
        for entry in lineage:
            listed = self._parts.metadata.list_remote_log_segments(self._partition, entry.epoch)
            for segment in listed:
                if self.is_cancelled:
                    return False
                if segment.segment_id in self._parts.being_copied:
                    return True
                if not choice.goes_on_after(segment):
                    return True
        return True

    def _outlived(
        self, log: UnifiedLog, segments: Sequence[RemoteLogSegmentMetadata]
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Yield what is listed under epochs below the earliest of the log [TIER-58]."""
        if not log.leader_epochs:
            return
        epochs = {entry.epoch for one in segments for entry in one.segment_leader_epochs}
        is_safe, seen = log.profile is Profile.SAFE, set()
        for epoch in sorted(one for one in epochs if one < log.leader_epochs[0].epoch):
            for segment in self._parts.metadata.list_remote_log_segments(self._partition, epoch):
                if self.is_cancelled:
                    return
                is_known = is_safe and segment.segment_id in seen
                if not is_known and segment.segment_id not in self._parts.being_copied:
                    yield segment
                seen.add(segment.segment_id)

    # ---- size ------------------------------------------------------------------------------------

    def excess_bytes(
        self,
        log: UnifiedLog,
        only_local_bytes: int,
        finished_bytes: int,
        lineage: Sequence[EpochEntry],
    ) -> int | None:
        """Return by how much the log is larger than ``retention.bytes``; None: it is not.

        The figures of how much of the limits is in use go by the same sizes.

        Source: [TIER-54, TIER-55], Kafka ``buildRetentionSizeData``.
        """
        limit = log.config.retention_bytes
        if limit < 0:
            return None
        estimate = only_local_bytes + finished_bytes
        if estimate <= limit:
            self._note_percent(log, estimate)
            return None
        if not self.all_segments_valid:
            began = self._parts.clock_ms()
            own_bytes, is_all = self._own_bytes(log, lineage)
            self.all_segments_valid = is_all and own_bytes == finished_bytes
            self._figures.size_computation_ms = self._parts.clock_ms() - began
            finished_bytes = own_bytes
        total = only_local_bytes + finished_bytes
        self._note_percent(log, total)
        return total - limit if total > limit else None

    def _own_bytes(self, log: UnifiedLog, lineage: Sequence[EpochEntry]) -> tuple[int, bool]:
        """Return the size of the finished segments of the lineage, and whether all are of it."""
        end = log.log_end_offset
        seen: set[RemoteLogSegmentId] = set()
        total, is_all = 0, True
        for entry in lineage:
            listed = self._parts.metadata.list_remote_log_segments(self._partition, entry.epoch)
            for segment in listed:
                if segment.state is not _FINISHED or segment.segment_id in seen:
                    continue
                seen.add(segment.segment_id)
                if is_within_lineage(segment, end, lineage):
                    total += segment.segment_size_bytes
                else:
                    is_all = False
        return total, is_all

    def _note_percent(self, log: UnifiedLog, total_bytes: int) -> None:
        limit, local_limit = log.config.retention_bytes, log.config.local_bytes
        figures = self._figures
        figures.retention_size_percent = total_bytes * 100 // limit if limit > 0 else 0
        figures.local_retention_size_percent = (
            _local_bytes(log) * 100 // local_limit if local_limit > 0 else 0
        )


class _Choice:
    """The segments that a run deletes, and where the log starts afterwards [TIER-52…TIER-56]."""

    def __init__(
        self, log: UnifiedLog, now_ms: int, excess: int | None, lineage: Sequence[EpochEntry]
    ) -> None:
        self.segments: list[RemoteLogSegmentMetadata] = []
        self.expired_bytes = 0
        self.log_start_offset: int | None = None
        self._chosen: set[RemoteLogSegmentId] = set()
        self._is_safe = log.profile is Profile.SAFE
        self._log_start = log.log_start_offset
        self._log_end = log.log_end_offset
        self._lineage = lineage
        self._excess = excess or 0
        retention_ms = log.config.retention_ms
        until = -1 if retention_ms is None or retention_ms < 0 else now_ms - retention_ms
        self._until_ms = until if until >= 0 else None

    def has(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Whether a segment is one of them."""
        return segment.segment_id in self._chosen

    def goes_on_after(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Decide about one segment; False: it stays, and so do all after it."""
        if segment.state is _DELETING:  # a delete that failed
            self._take(segment)
            return True
        if segment.state is _DELETED or self.has(segment):
            return True
        if self._is_below_log_start(segment):
            self._take_expired(segment)
            return True
        # of a copy that was begun no record is there alone, and its size counts nowhere
        is_only_begun = self._is_safe and segment.state is _STARTED
        if is_only_begun or not is_within_lineage(segment, self._log_end, self._lineage):
            return True
        if not (self._is_too_old(segment) or self._is_too_much(segment)):
            return False
        self.log_start_offset = max(self.log_start_offset or 0, segment.end_offset + 1)
        self._take_expired(segment)
        return True

    def _take(self, segment: RemoteLogSegmentMetadata) -> None:
        if not (self._is_safe and self.has(segment)):
            self.segments.append(segment)
            self._chosen.add(segment.segment_id)

    def _take_expired(self, segment: RemoteLogSegmentMetadata) -> None:
        self._take(segment)
        self.expired_bytes += segment.segment_size_bytes

    def _is_below_log_start(self, segment: RemoteLogSegmentMetadata) -> bool:
        first = self._lineage[0].epoch
        is_early = all(entry.epoch <= first for entry in segment.segment_leader_epochs)
        return is_early and segment.end_offset < self._log_start

    def _is_too_old(self, segment: RemoteLogSegmentMetadata) -> bool:
        if self._until_ms is None or segment.max_timestamp_ms >= self._until_ms:
            return False
        self._excess = max(0, self._excess - segment.segment_size_bytes)
        return True

    def _is_too_much(self, segment: RemoteLogSegmentMetadata) -> bool:
        if self._excess <= 0 or self._excess < segment.segment_size_bytes:
            return False
        self._excess -= segment.segment_size_bytes
        return True


class _DeleteLag:
    """What is still to be deleted, in the figures of the log."""

    def __init__(
        self, figures: RemoteLogFigures, chosen: Sequence[RemoteLogSegmentMetadata], size: int
    ) -> None:
        self._figures = figures
        figures.delete_lag_segments, figures.delete_lag_bytes = len(chosen), size

    def add(self, segments: Sequence[RemoteLogSegmentMetadata]) -> None:
        """Count more of them."""
        self._figures.delete_lag_segments += len(segments)
        self._figures.delete_lag_bytes += sum(one.segment_size_bytes for one in segments)

    def is_deleted(self, segment: RemoteLogSegmentMetadata) -> None:
        """Count one less."""
        self._figures.delete_lag_segments -= 1
        self._figures.delete_lag_bytes -= segment.segment_size_bytes


def _local_bytes(log: UnifiedLog) -> int:
    return sum(one.size_bytes for one in log.segments())


def _size_of(segments: Sequence[RemoteLogSegmentMetadata], state: RemoteLogSegmentState) -> int:
    return sum(one.segment_size_bytes for one in segments if one.state is state)


def _is_before(segment: RemoteLogSegmentMetadata, epoch: int) -> bool:
    return all(entry.epoch < epoch for entry in segment.segment_leader_epochs)
