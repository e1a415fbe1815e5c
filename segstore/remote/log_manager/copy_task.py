"""The task that copies the sealed segments of a log to remote storage (Kafka ``RLMCopyTask``).

Source: [TIER-31…TIER-46, DUR-140, DUR-142].
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from segstore.errors import (
    IllegalStateError,
    LogTruncatedError,
    RemoteStorageError,
    RetriableRemoteStorageError,
)
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.files.profile import Profile
from segstore.remote.log_manager.candidate_segments import CandidateSegment, candidate_segments
from segstore.remote.log_manager.copied_end import copied_from, note_copied
from segstore.remote.log_manager.copy_read_back import read_back
from segstore.remote.log_manager.lineage import (
    end_of_contiguous,
    find_log_start_offset,
    readable_segments,
)
from segstore.remote.log_manager.remote_log_task import RemoteLogTask
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
)
from segstore.remote.storage.remote_storage_manager import LogSegmentData
from segstore.remote.storage.segment_files import object_name

if TYPE_CHECKING:
    from segstore.log.sealed_segment_files import SealedSegmentFiles
    from segstore.log.unified_log import UnifiedLog
    from segstore.remote.log_manager.remote_log_stats import RemoteLogFigures
    from segstore.remote.log_manager.remote_log_task import RemoteLogParts
    from segstore.remote.metadata.segment_metadata import TopicIdPartition

_log = logging.getLogger(__name__)


class CustomMetadataSizeLimitExceededError(RemoteStorageError):
    """The remote storage notes more of a segment than may be (Kafka's exception of that name)."""


class CopyTask(RemoteLogTask):
    """Copies what is sealed and stable, oldest first, up to the first that fails [TIER-42]."""

    def __init__(
        self, parts: RemoteLogParts, partition: TopicIdPartition, figures: RemoteLogFigures
    ) -> None:
        super().__init__(parts, partition, figures)
        self._log_directory: str | None = None  # that of the last run
        self._copied: int | None = None  # the last offset in remote storage
        self._has_log_start = False

    def _execute(self, log: UnifiedLog) -> None:
        directory = log.path.rpartition("/")[0]
        if directory != self._log_directory:  # what is known is of another log [TIER-32]
            self._log_directory, self._copied, self._has_log_start = directory, None, False
        try:
            self._copy(log)
        except (RetriableRemoteStorageError, LogTruncatedError):
            raise
        except CustomMetadataSizeLimitExceededError:
            self._parts.counters.failed_copies += 1
            if log.profile is Profile.KAFKA:  # and so no segment is copied by this leader again
                self.cancel()
            raise
        except Exception:
            self._parts.counters.failed_copies += not self.is_cancelled
            raise
        finally:
            self._note_lag(log)

    def _copy(self, log: UnifiedLog) -> None:
        is_safe = log.profile is Profile.SAFE
        if not self._has_log_start:
            self._find_log_start(log)
            self._has_log_start = True
        if is_safe:
            self._delete_interrupted()
        # one for all that follows: what is copied of one history says nothing of another one
        generation = log._settled_generation()  # noqa: SLF001 - asked by its manager
        if self._copied is None or is_safe:  # it was perhaps truncated, and written again
            self._copied = note_copied(log, self._parts, self._partition, generation)
        wrong = self._delete_wrong_copies(log) if is_safe else None
        self._copy_candidates(log, self._copied, generation)
        if wrong is not None:
            raise wrong

    def _copy_candidates(self, log: UnifiedLog, copied: int, generation: int) -> None:
        is_safe = log.profile is Profile.SAFE
        last_stable_offset = log.last_stable_offset
        if not 0 < last_stable_offset > copied:
            return
        start = max(copied + 1, log.log_start_offset)
        candidates = candidate_segments(
            log.segments(), start, last_stable_offset, log.config, self._parts.clock_ms()
        )
        others: list[RemoteLogSegmentMetadata] = []
        if is_safe and candidates:
            others = copied_from(start, log, self._parts, self._partition)
        for candidate in candidates:
            if candidate.next_base_offset <= copied + 1:
                continue  # another broker has copied it
            if is_safe and candidate.next_base_offset <= log.log_start_offset:
                continue  # its records were deleted meanwhile
            size = candidate.segment.size_bytes
            quota = self._parts.copy_quota
            if not quota.wait(lambda: self.is_cancelled, self._cancelled.wait):
                return
            quota.record(size)
            segment_id = RemoteLogSegmentId(self._partition, _new_segment_id())
            self._parts.being_copied.add(segment_id)
            try:
                end = self._copy_segment(log, candidate, segment_id)
            finally:
                self._parts.being_copied.discard(segment_id)
            copied = self._copied = end_of_contiguous(others, end + 1) - 1
            log._note_copied(copied, generation)  # noqa: SLF001 - as above

    def _delete_wrong_copies(self, log: UnifiedLog) -> RemoteStorageError | None:
        """Delete finished copies of this broker that are damaged: they are made again.

        Returns what is said of the first of them. A copy of other records stays: they may be
        nowhere else [DUR-140]. Kafka does not look.
        """
        parts, error = self._parts, None
        for one in readable_segments(log, parts.metadata, self._partition):
            is_wrong = parts.are_whole.get(one.segment_id) is False
            if (
                is_wrong
                and one.segment_id not in parts.hold_others
                and one.broker_id == parts.broker_id
            ):
                parts.delete(one)
                error = error or RemoteStorageError(
                    "a copy in remote storage is not what is here: it did not count, was deleted,"
                    " and is made again",
                    file=object_name(one),
                    found="damaged records, fewer, or none",
                    expected=f"the records from {one.start_offset} to {one.end_offset}",
                )
        return error

    def _find_log_start(self, log: UnifiedLog) -> None:
        """Raise the log start to where the remote part begins [TIER-32].

        Kafka also raises it over records that are here alone, and to the local start where nothing
        is listed. The safe profile goes by finished segments, and up to the first local record at
        most [DUR-143].
        """
        metadata, partition = self._parts.metadata, self._partition
        generation = log._settled_generation()  # noqa: SLF001 - asked by its manager
        if log.profile is Profile.KAFKA:
            start = find_log_start_offset(log, metadata, partition)
        else:
            segments = readable_segments(log, metadata, partition)
            if not segments:
                return
            start = min(segments[0].start_offset, log.local_log_start_offset)
        log._note_remote_log_start(start, generation)  # noqa: SLF001 - as above

    def _delete_interrupted(self) -> None:
        """Delete what an interrupted copy has left, before it is copied again.

        Of any broker id: who leads copies alone, and the id of a log directory may have changed
        since. Source: [DUR-142]. Kafka leaves it until the segment expires.
        """
        parts = self._parts
        for segment in list(parts.metadata.list_remote_log_segments(self._partition)):
            if (
                segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED
                and segment.segment_id not in parts.being_copied
            ):
                self._clean_up(segment)

    def _copy_segment(
        self, log: UnifiedLog, candidate: CandidateSegment, segment_id: RemoteLogSegmentId
    ) -> int:
        """Copy one segment; returns its last offset [TIER-35…TIER-41]."""
        parts, segment = self._parts, candidate.segment
        is_safe = log.profile is Profile.SAFE
        files = log._sealed_segment_files(segment, candidate.next_base_offset)  # noqa: SLF001 - asked by its manager
        if is_safe:
            self._require_snapshot(files, candidate)
            # a copy of records that a power cut takes would pass for those written there next
            if log.durable_offset < candidate.next_base_offset:
                log.flush_up_to_offset_exclusive(candidate.next_base_offset)
        started = RemoteLogSegmentMetadata(
            segment_id=segment_id,
            start_offset=segment.base_offset,
            end_offset=candidate.next_base_offset - 1,
            max_timestamp_ms=segment.largest_timestamp(),
            broker_id=parts.broker_id,
            event_timestamp_ms=parts.clock_ms(),
            segment_size_bytes=segment.size_bytes,
            state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
            segment_leader_epochs=files.leader_epochs,
            is_transaction_index_empty=not files.has_aborted_transactions,
        )
        parts.metadata.add_remote_log_segment_metadata(started)
        data = LogSegmentData(
            files.log_segment,
            files.offset_index,
            files.time_index,
            files.transaction_index,
            self._require_snapshot(files, candidate),
            files.leader_epoch_checkpoint,
        )
        parts.counters.copy_requests += 1
        copied = started
        try:
            custom = parts.storage.copy_log_segment_data(started, data)
            copied = replace(started, custom_metadata=custom)
            self._check_custom_metadata(custom)
            if is_safe:
                read_back(parts.storage, copied, files)
                self._require_unchanged(log, candidate)
                parts.are_whole[segment_id] = True
        except RetriableRemoteStorageError:
            raise
        except RemoteStorageError:
            self._clean_up(copied)
            raise
        parts.publish(copied, RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
        parts.counters.copy_bytes += segment.size_bytes
        return copied.end_offset

    def _check_custom_metadata(self, custom: bytes | None) -> None:
        limit = self._parts.config.custom_metadata_max_bytes
        if custom is not None and len(custom) > limit:
            raise CustomMetadataSizeLimitExceededError(
                "the remote storage notes more of a segment than may be: the copy is deleted. Set"
                " remote.log.metadata.custom.metadata.max.bytes higher",
                found=f"{len(custom)} bytes",
                expected=f"{limit} bytes at most",
            )

    def _clean_up(self, copied: RemoteLogSegmentMetadata) -> None:
        """Delete a copy that failed; where that fails too, a later run does [TIER-39, TIER-41]."""
        if self.is_cancelled:
            return
        try:
            self._parts.delete(copied)
        except RemoteStorageError as error:
            _log.warning("%s: a failed copy was not deleted: %s", self._partition, error)

    def _require_snapshot(self, files: SealedSegmentFiles, candidate: CandidateSegment) -> str:
        if files.producer_snapshot is None:
            raise IllegalStateError(
                "the state of the producers at the end of a segment is missing: nothing from there"
                " on is copied",
                file=files.log_segment,
                found="no such snapshot",
                expected=f"{candidate.next_base_offset:020d}.snapshot",
            )
        return files.producer_snapshot

    def _require_unchanged(self, log: UnifiedLog, candidate: CandidateSegment) -> None:
        """The log may have been truncated while its segment was copied [DUR-140]."""
        segments = log.segments()
        place = next((n for n, one in enumerate(segments) if one is candidate.segment), None)
        if (
            place is None
            or place + 1 == len(segments)
            or segments[place + 1].base_offset != candidate.next_base_offset
        ):
            raise RemoteStorageError(
                "the segment was cut or deleted while it was copied: the copy is deleted",
                file=candidate.segment.path,
                found="another end, or no such segment",
                expected=f"an end at {candidate.next_base_offset}",
            )

    def _note_lag(self, log: UnifiedLog) -> None:
        if self.is_cancelled or log.closed:
            return
        active = log.segments()[-1].size_bytes
        figures = self._figures
        figures.copy_lag_bytes = max(0, log.only_local_log_segments_size - active)
        figures.copy_lag_segments = max(0, log.only_local_log_segments_count - 1)


def _new_segment_id() -> UUID:
    """Return a random id whose text does not begin with a dash, as Kafka's ``randomUuid``."""
    while True:
        found = uuid4()
        if not topic_id_text(found).startswith("-"):
            return found
