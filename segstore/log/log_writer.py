"""What every change of a log goes through: settling what was interrupted, roll, write, publication.

`Appender`, `Retention` and `Truncation` decide; `LogWriter` does, under the append lock. The
appender acknowledges a record, outside the lock.

Source: [APP-10..APP-17, ROL-1].
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from segstore.errors import DiskFullError, FsyncFailedError, SegstoreError
from segstore.log.files.profile import Profile
from segstore.log.producers.producer_analysis import analyze_producers
from segstore.log.producers.producer_state_rebuild import rebuild_producer_state
from segstore.numpy_on_demand import np

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from segstore._core import BatchHeaders
    from segstore.log.access import LogAccess
    from segstore.log.clean_part import CleanPart
    from segstore.log.failure_mark import FailureMark
    from segstore.log.flusher import LogFlusher
    from segstore.log.lane_switch import LaneSwitch
    from segstore.log.local.segment import Segment
    from segstore.log.log_metadata import LogMetadata
    from segstore.log.log_parts import LogParts
    from segstore.log.producer_expiration import ProducerExpiration
    from segstore.log.producers.producer_analysis import AppendRequest, ProducerAnalysis
    from segstore.log.producers.producer_state_entry import BatchMetadata
    from segstore.log.producers.producer_state_manager import ProducerStateManager


class LogWriter:
    """Changes one log; its callers hold the append lock.

    Attributes
    ----------
    access, local_log, offsets, producers, metadata, clean_part, flusher, failure_mark, lane_switch,
    codecs, watcher
        What a change moves: `Appender`, `Retention` and `Truncation` have them from here.
    profile : Profile
        Whether a broker's way is followed.
    """

    def __init__(  # noqa: PLR0913 - what a change of a log moves
        self,
        parts: LogParts,
        access: LogAccess,
        producers: ProducerStateManager,
        expiration: ProducerExpiration,
        metadata: LogMetadata,
        clean_part: CleanPart,
        flusher: LogFlusher,
        failure_mark: FailureMark,
        lane_switch: LaneSwitch,
    ) -> None:
        self.access = access
        self.local_log = parts.local_log
        self.offsets = parts.offsets
        self.producers = producers
        self._expiration = expiration
        self.metadata = metadata
        self.clean_part = clean_part
        self.flusher = flusher
        self.failure_mark = failure_mark
        self.lane_switch = lane_switch
        self.codecs = parts.codecs
        self.watcher = parts.log_environment.watcher
        self.profile = parts.options.profile

    # ---- before ----------------------------------------------------------------------------------

    def begin_change(self) -> None:
        """Bring in order what an interrupted call has left; what may change the log begins so."""
        self._reconcile_records()
        self.metadata.reconcile()

    def begin_deletion(self) -> None:
        """As `begin_change`; but a full disk keeps nobody from deleting [DUR-30]."""
        self._reconcile_records()
        try:
            self.metadata.reconcile()
        except DiskFullError:
            path = self.local_log.directory.path
            _log.warning("%s: no room for what an interrupted call is to undo", path)

    def _reconcile_records(self) -> None:
        self.access.require_not_doomed()
        self.lane_switch.reconcile()
        local_log = self.local_log
        self.flusher.reconcile()
        try:
            local_log.reconcile()
        except FsyncFailedError as error:  # of every append: `poisoned_by` takes longer
            self.failure_mark.poison(error)
            raise
        if self.producers.map_end_offset < local_log.log_end.message_offset:
            self.rebuild_producers()

    def rebuild_producers(self) -> None:
        """Take the producer state from the newest snapshot and the batches behind it [PSM-*]."""
        directory = self.local_log.directory
        with self.failure_mark.poisoned_by(FsyncFailedError):
            rebuild_producer_state(
                self.producers,
                self.local_log.segments,
                self.codecs,
                log_start_offset=self.offsets.log_start_offset,
                last_offset=self.local_log.log_end.message_offset,
                now_ms=directory.wall_clock_ms(),
                from_clean_shutdown=False,
                believes_empty_state=self.profile is Profile.KAFKA,
            )
        if self.profile is Profile.SAFE:  # Kafka waits for the next event [TRU-6]
            self.offsets.update_first_unstable_offset()

    # ---- roll, check, write, publish -------------------------------------------------------------

    def write(  # noqa: C901, PLR0913 - what a roll decision and a write need
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
        local_log, offsets = self.local_log, self.offsets
        self.metadata.begin_change()
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
        if local_log.segments.active_segment.size_bytes == 0:
            self.watcher.note_segments()  # the lane writes to no empty segment
        before = local_log.log_end.message_offset
        ends_in_vain = analysis is not None and analysis.updates.has_aborted
        try:
            if ends_in_vain:
                with self.failure_mark.poisoned_by(FsyncFailedError):
                    local_log.prepare_aborted()
            local_log.append(data, headers, last_offset)
            if analysis is not None:
                self._commit(analysis)
        except BaseException as error:
            is_there = local_log.log_end.message_offset != before
            if ends_in_vain and not is_there:
                local_log.forget_aborted()
            if local_log.is_poisoned or (is_there and analysis is not None):
                self.failure_mark.poison(error)  # producers and transactions are behind the batches
            offsets.update_first_unstable_offset()
            raise
        self.flusher.note_log_end(last_offset + 1)
        if offsets.replicated:
            offsets.follow_log_end()
        self.producers.update_map_end_offset(last_offset + 1)
        if analysis is not None or offsets.replicated:
            offsets.update_first_unstable_offset()
        return None

    def write_rows(  # noqa: PLR0913 - the tail of an append
        self,
        data: Buffer,
        headers: BatchHeaders,
        size: int,
        max_timestamp: int,
        now_ms: int,
        first_offset: int,
    ) -> None:
        """Write batches that fit one segment at once, more in several steps."""
        roll_bytes = self.local_log.config.roll_bytes
        if size <= roll_bytes:
            self.write(data, headers, size, max_timestamp, now_ms, first_offset, None)
            return
        view = memoryview(data)
        sizes = headers["size_bytes"].astype(np.int64)
        ends = np.cumsum(sizes)
        begin = 0
        while begin < len(headers):
            start = int(ends[begin] - sizes[begin])
            end = int(np.searchsorted(ends, start + roll_bytes, side="right"))
            end = max(end, begin + 1)
            rows = headers[begin:end]
            try:
                self.write(
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
                    reached = self.local_log.log_end.message_offset - 1
                    error.message += f" (offsets {first_offset} to {reached} were appended before)"
                    error.args = (error.message,)
                raise
            begin = end

    def _analyze_producers(
        self, data: Buffer, headers: BatchHeaders, request: AppendRequest
    ) -> ProducerAnalysis | None:
        log_end = self.local_log.log_end
        try:
            return analyze_producers(self.producers, data, headers, log_end, request, self.codecs)
        except SegstoreError as error:
            raise error.locate(self.local_log.directory.path) from None

    def _commit(self, analysis: ProducerAnalysis) -> None:
        """Take over what the producers did; an index that cannot be written ends writing.

        The transaction would stay open for readers, and be over on disk [APP-16].
        """
        analysis.updates.commit(self.local_log.append_aborted)
        self._expiration.start()

    def _roll_if_needed(
        self, max_timestamp: int, last_offset: int, size: int, now_ms: int, first_offset: int
    ) -> None:
        try:
            sealed = self.local_log.roll_if_needed(
                max_timestamp, last_offset, size, now_ms, first_offset
            )
        except FsyncFailedError as error:  # of what undoes it
            self.failure_mark.poison(error)
            raise
        if sealed is not None:
            self._after_roll(sealed)

    def roll(self, expected_next_offset: int | None = None) -> Segment:
        """Begin a new segment [LOC-11, ROL-1]."""
        self.metadata.begin_change()
        self.watcher.note_segments()  # all of the sealed one may lie below the log start
        local_log = self.local_log
        sealed = local_log.segments.active_segment
        with self.failure_mark.poisoned_by(FsyncFailedError):  # of what undoes it
            created = local_log.roll(
                expected_next_offset, may_leave_gap=self.profile is Profile.KAFKA
            )
        self._after_roll(sealed)
        return created

    def _after_roll(self, sealed: Segment) -> None:
        """Write down the producers that a recovery of the new segment begins with [ROL-1]."""
        local_log = self.local_log
        active = local_log.segments.active_segment
        self.producers.update_map_end_offset(active.base_offset)
        try:
            self.producers.take_snapshot(sync=False)
        except SegstoreError as error:  # never a gate [DUR-22, DUR-41]
            if self.profile is Profile.KAFKA:
                raise
            path = local_log.directory.path
            _log.warning("%s: no producer snapshot at %d: %s", path, active.base_offset, error)
        self.flusher.note_log_end(local_log.log_end.message_offset)
        self.offsets.follow_log_end()
        self.flusher.segment_was_sealed(sealed, self.producers.snapshots.sync_unsynced)
