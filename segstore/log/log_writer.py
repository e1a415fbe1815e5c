"""What every append ends with: roll, producers, one write, publication [APP-10..APP-17].

Under the append lock, all of it. A record is acknowledged by what calls this, behind the lock.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from segstore.config import MAX_INT
from segstore.errors import (
    DiskFullError,
    FsyncFailedError,
    IllegalArgumentError,
    InvalidEpochError,
    LogReadOnlyError,
    RecordBatchTooLargeError,
    SegstoreError,
)
from segstore.log.directory.profile import Profile
from segstore.log.log_notes import LogNotes
from segstore.log.producers.producer_analysis import analyze_producers
from segstore.log.producers.producer_state_rebuild import rebuild_producer_state
from segstore.types import LogAppendInfo

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from segstore._core import BatchHeaders, Directory
    from segstore.log.directory.log_dir_failure_channel import LogDirFailureChannel
    from segstore.log.directory.partition_metadata_file import PartitionMetadataFile
    from segstore.log.flusher import Flusher
    from segstore.log.local.segment import Segment
    from segstore.log.producers.producer_analysis import AppendRequest, ProducerAnalysis
    from segstore.log.producers.producer_state_entry import BatchMetadata
    from segstore.log.producers.producer_state_manager import ProducerStateManager


class LogWriter(LogNotes):
    """The part of a log that writes; what decides about it is above."""

    path: str
    profile: Profile
    _directory: Directory
    _failures: LogDirFailureChannel | None
    _flusher: Flusher
    _producers: ProducerStateManager
    _expires_producers = False
    _partition_metadata: PartitionMetadataFile

    # ---- before ----------------------------------------------------------------------------------

    def _require_writable(self) -> None:
        self._require_open()
        if self.read_only:
            if self._failures is not None:  # why it is, where an earlier error has ended writing
                self._failures.check(self.path.rpartition("/")[0])
            raise LogReadOnlyError("the log was opened with read_only=True", file=self.path)
        self._require_not_failed()

    def _require_not_failed(self) -> None:
        """Raise the first error again, as what it has made of the log [DUR-38]."""
        cause = self._flusher.find_failure()
        if cause is not None:
            raise LogReadOnlyError(
                f"the log takes no changes since an earlier error: {cause.told_within(self.path)}",
                file=self.path,
            ) from cause

    def _now_ms(self) -> int:
        return self._directory.wall_clock_ms()

    def _begin_change(self) -> None:
        """Bring in order what an interrupted call has left; every change begins with this."""
        self._settle_records()
        self._settle_notes()

    def _begin_deletion(self) -> None:
        """As `_begin_change`; but a full disk keeps nobody from deleting [DUR-30]."""
        self._settle_records()
        try:
            self._settle_notes()
        except DiskFullError:
            _log.warning("%s: no room for what an interrupted call is to undo", self.path)

    def _settle_records(self) -> None:
        local_log, producers = self._local_log, self._producers
        self._flusher.settle()
        try:
            local_log.settle()
        except FsyncFailedError as error:  # of every append: `poisoned_by` takes longer
            self._flusher.poison(error)
            raise
        if producers.map_end_offset < local_log.log_end.message_offset:
            self._rebuild_producers()

    def _rebuild_producers(self) -> None:
        with self._flusher.poisoned_by(FsyncFailedError):
            rebuild_producer_state(
                self._producers,
                self._local_log.segments,
                self._codecs,
                log_start_offset=self.log_start_offset,
                last_offset=self.log_end_offset,
                now_ms=self._now_ms(),
                from_clean_shutdown=False,
                believes_empty_state=self.profile is Profile.KAFKA,
            )
        if self.profile is Profile.SAFE:  # Kafka waits for the next event [TRU-6]
            self._offsets.update_first_unstable_offset()

    def _check_fits_a_segment(self, size: int, what: str = "an append") -> None:
        config = self.config
        limit = config.roll_bytes
        if size > limit:
            is_hidden = config.internal_segment_bytes is not None
            setting = "internal_segment_bytes" if is_hidden else "segment_bytes"
            raise RecordBatchTooLargeError(
                f"{what} of {size} bytes is larger than a segment, which {setting} limits;"
                " nothing of it was appended",
                found=f"{size} bytes",
                expected=f"at most {limit} bytes",
            )

    def _check_fit_segments(self, headers: BatchHeaders, size: int, *, whole: bool) -> None:
        """Check before anything is changed; for Kafka a leader's epoch comes first [APP-11]."""
        if not whole:
            self._check_fits_a_segment(int(headers["size_bytes"].max()), "a batch")
        elif self.profile is Profile.SAFE:
            self._check_fits_a_segment(size)

    def _nothing_appended(self) -> LogAppendInfo:
        return LogAppendInfo(-1, -1, -1, -1, self.log_start_offset, 0, 0, self.durable_offset)

    def _flush_topic_id(self) -> None:
        """Write a recorded topic id down before the first batch [APP-3, UNI-5, DUR-23]."""
        if self._partition_metadata.is_dirty:
            with self._flusher.poisoned_by(FsyncFailedError):
                self._partition_metadata.maybe_flush()

    # ---- epochs ----------------------------------------------------------------------------------

    def _epoch_of(self, leader_epoch: int | None) -> int:
        """Return the epoch to stamp; one that is too old would take newer ones away [DUR-64]."""
        latest = self._epochs.latest_epoch
        if leader_epoch is None:
            return 0 if latest is None else latest
        if leader_epoch < 0 and self.profile is Profile.SAFE:
            raise IllegalArgumentError(
                f"leader epoch {leader_epoch} is negative",
                found=str(leader_epoch),
                expected="0 or more",
            )
        if latest is not None and leader_epoch < latest and self.profile is Profile.SAFE:
            raise InvalidEpochError(
                f"leader epoch {leader_epoch} is older than {latest}, the latest of the log",
                found=str(leader_epoch),
                expected=f"{latest} or newer",
            )
        return leader_epoch

    # ---- roll, check, write, publish -------------------------------------------------------------

    def _write(  # noqa: C901, PLR0913 - what a roll decision and a write need
        self,
        data: Buffer,
        headers: BatchHeaders,
        size: int,
        max_timestamp: int,
        now_ms: int,
        first_offset: int,
        request: AppendRequest | None,
    ) -> BatchMetadata | None:
        """Append batches that have their offsets; returns the batch that they repeat, if they do.

        Parameters
        ----------
        first_offset : int
            Where a segment would begin that is made for them.
        request : AppendRequest or None
            None: no batch has a producer id.
        """
        local_log, offsets = self._local_log, self._offsets
        last_offset = int(headers["last_offset"][-1])
        self._roll_if_needed(max_timestamp, last_offset, size, now_ms, first_offset)
        analysis = None
        if request is not None:
            analysis = self._analyze_producers(data, headers, request)
        if analysis is not None:
            if analysis.duplicate is not None:
                return analysis.duplicate
            if analysis.begins_transaction:
                offsets.note_transactional_append(local_log.log_end)
        before = local_log.log_end.message_offset
        ends_in_vain = analysis is not None and analysis.updates.has_aborted
        try:
            if ends_in_vain:
                with self._flusher.poisoned_by(FsyncFailedError):
                    local_log.prepare_aborted()
            local_log.append(data, headers, last_offset)
            if analysis is not None:
                self._commit(analysis)
        except BaseException as error:
            is_there = local_log.log_end.message_offset != before
            if ends_in_vain and not is_there:
                local_log.forget_aborted()
            if local_log.is_poisoned or (is_there and analysis is not None):
                self._flusher.poison(error)  # producers and transactions are behind the batches
            offsets.update_first_unstable_offset()
            raise
        self._flusher.note_log_end(last_offset + 1)
        if offsets.replicated:
            offsets.follow_log_end()
        self._producers.update_map_end_offset(last_offset + 1)
        if analysis is not None or offsets.replicated:
            offsets.update_first_unstable_offset()
        return None

    def _analyze_producers(
        self, data: Buffer, headers: BatchHeaders, request: AppendRequest
    ) -> ProducerAnalysis | None:
        log_end = self._local_log.log_end
        try:
            return analyze_producers(self._producers, data, headers, log_end, request, self._codecs)
        except SegstoreError as error:
            raise error.locate(self.path) from None

    def _arm_lane(self) -> None:
        """Let the next append go a shorter way, where there is one [D11]."""

    def _write_rows(  # noqa: PLR0913 - the tail of an append
        self,
        data: Buffer,
        headers: BatchHeaders,
        size: int,
        max_timestamp: int,
        now_ms: int,
        first_offset: int,
    ) -> None:
        """Write batches that fit one segment at once, more in several steps."""
        if size <= self.config.roll_bytes:
            self._write(data, headers, size, max_timestamp, now_ms, first_offset, None)
            return
        view = memoryview(data)
        sizes = headers["size_bytes"].astype(np.int64)
        ends = np.cumsum(sizes)
        begin = 0
        while begin < len(headers):
            start = int(ends[begin] - sizes[begin])
            end = int(np.searchsorted(ends, start + self.config.roll_bytes, side="right"))
            end = max(end, begin + 1)
            rows = headers[begin:end]
            try:
                self._write(
                    view[start : int(ends[end - 1])],
                    rows,
                    int(ends[end - 1]) - start,
                    int(rows["max_timestamp"].max()),
                    now_ms,
                    int(rows["base_offset"][0]),
                    None,
                )
            except SegstoreError as error:
                if begin:
                    reached = self.log_end_offset - 1
                    error.message += f" (offsets {first_offset} to {reached} were appended before)"
                    error.args = (error.message,)
                raise
            begin = end

    def _commit(self, analysis: ProducerAnalysis) -> None:
        """Take over what the producers did; an index that cannot be written ends writing.

        The transaction would stay open for readers, and be over on disk [APP-16].
        """
        analysis.updates.commit(self._local_log.append_aborted)
        if not self._expires_producers:
            self._expire_producers_later()

    def _expire_producers_later(self) -> None:
        """From now on, forget silent producers; a log without any needs no thread for that."""
        raise NotImplementedError

    def _after_roll(self, sealed: Segment) -> None:
        """Write down the producers that a recovery of the new segment begins with [ROL-1]."""
        active = self._local_log.segments.active_segment
        self._producers.update_map_end_offset(active.base_offset)
        try:
            self._producers.take_snapshot(sync=False)
        except SegstoreError as error:  # never a gate [DUR-22, DUR-41]
            if self.profile is Profile.KAFKA:
                raise
            _log.warning("%s: no producer snapshot at %d: %s", self.path, active.base_offset, error)
        self._flusher.note_log_end(self.log_end_offset)
        self._offsets.follow_log_end()
        self._flusher.segment_was_sealed(sealed, self._producers.sync_snapshots)

    def _roll_if_needed(
        self, max_timestamp: int, last_offset: int, size: int, now_ms: int, first_offset: int
    ) -> None:
        try:
            sealed = self._local_log.roll_if_needed(
                max_timestamp, last_offset, size, now_ms, first_offset
            )
        except FsyncFailedError as error:  # of what undoes it
            self._flusher.poison(error)
            raise
        if sealed is not None:
            self._after_roll(sealed)

    def _roll(self, expected_next_offset: int | None = None) -> Segment:
        """Begin a new segment [LOC-11, ROL-1]."""
        local_log = self._local_log
        sealed = local_log.segments.active_segment
        with self._flusher.poisoned_by(FsyncFailedError):  # of what undoes it
            created = local_log.roll(
                expected_next_offset, may_leave_gap=self.profile is Profile.KAFKA
            )
        self._after_roll(sealed)
        return created


def base_of_new_segment(first_offset: int, last_offset: int) -> int:
    """Return where a segment for these offsets begins [APP-12].

    Messages of magic 0 and 1 tell their last offset only: all of them fit behind this one.
    """
    return first_offset if first_offset >= 0 else last_offset - MAX_INT
