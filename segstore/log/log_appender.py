"""The writing side of a log: checks, offsets, roll, write, publish, sync [APP-*]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

import segstore._core as _core
from segstore import arguments
from segstore.arguments import append_origin, instance
from segstore.config import MAX_LONG
from segstore.errors import (
    InvalidOffsetError,
    InvalidRecordError,
)
from segstore.log.directory.profile import Profile
from segstore.log.lane_appender import LaneAppender
from segstore.log.log_writer import base_of_new_segment
from segstore.log.producers.producer_analysis import AppendRequest
from segstore.log.producers.producer_append_info import UNKNOWN_TRANSACTION_VERSION
from segstore.log.producers.producer_input import (
    check_epochs_ascend,
    check_follows_log_end,
    check_offsets_ascend,
    end_of_last_gap,
)
from segstore.log.producers.verification_state_entry import VerificationGuard
from segstore.records.record_builder import build_batches
from segstore.types import CURRENT_MAGIC, AppendOrigin, LogAppendInfo

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import Buffer

    from segstore._core import (
        BatchHeaders,
        EncodedBatches,
        LogValidator,
    )
    from segstore.config import LogConfig
    from segstore.log.producers.producer_state_entry import BatchMetadata
    from segstore.records.memory_records import MemoryRecords
    from segstore.records.record_builder import Records


_CLIENT: Final = AppendOrigin.CLIENT
_SENTINEL: Final = VerificationGuard.SENTINEL


class LogAppender(LaneAppender):
    """What appends to a log as its leader; one thread at a time, under the append lock.

    Syncs happen outside it.
    """

    _builder_config: LogConfig
    _stamps_append_time: bool

    def append(self, records: Records, *, timestamp: int | datetime | None = None) -> LogAppendInfo:
        """Append records and return when they are as safe as `durability` says.

        Parameters
        ----------
        records : iterable, Record or Arrow data
            ``(key, value)`` or ``(timestamp, key, value)`` tuples of bytes or None, `Record`
            objects, or anything with ``__arrow_c_stream__`` (key, value, timestamp, headers).
            A timestamp is one as below; the index of a DataFrame is none and is refused.
        timestamp : int, datetime or None
            In ms, or with a time zone, for records without one; None = now.

        Returns
        -------
        LogAppendInfo
            First and last offset, and more.

        Raises
        ------
        RecordTypeError
            Something that is no record.
        RecordTooLargeError
            A record that no batch of ``max_message_bytes`` holds.
        RecordBatchTooLargeError
            A record that no segment of ``segment_bytes`` holds; nothing was appended.
        LimitExceededError
            A record that is larger than ``max_decompressed_batch_bytes`` before compression.
        InvalidRecordError, InvalidTimestampError
            Records against the log's settings; ``record_errors`` names them by their index.
        DiskFullError
            No space: nothing was appended, the log stays writable. What is larger than a segment
            goes in several steps; those before the failed one stay, and the message names them.
        """
        lane = self._lane
        done = None if lane is None else lane.append(records, timestamp)  # [D11]
        if isinstance(done, LogAppendInfo):
            return done
        self._require_writable()
        now_ms = self._now_ms()
        default_timestamp = now_ms if timestamp is None else arguments.default_timestamp(timestamp)
        if done is not None:
            batches = done
        elif type(records) is list:
            batches = _core.encode_records(
                records, self._batch_options, self._codecs, default_timestamp, self._batch_bytes
            )
        else:
            batches = build_batches(
                records, config=self._builder_config, default_timestamp=default_timestamp
            )
        try:
            return self._append(
                batches,
                batches.headers,
                batches.size_bytes,
                None,
                now_ms,
                self._input.validator_of_own,
                None,
            )
        except InvalidRecordError as error:  # of which the caller knows no batches
            error.count_from(int(batches.headers["records_count"][: error.batch_index].sum()))
            raise

    def append_as_leader(
        self,
        batches: Buffer | MemoryRecords | EncodedBatches,
        leader_epoch: int | None = None,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification_guard: VerificationGuard = VerificationGuard.SENTINEL,
        transaction_version: int = UNKNOWN_TRANSACTION_VERSION,
    ) -> LogAppendInfo:
        """Append prebuilt batches, also of idempotent and transactional producers.

        Offsets, leader epoch and largest timestamp are stamped in a copy. A batch that its producer
        sent before is not appended again: the answer is that of the first time.

        Parameters
        ----------
        batches : Buffer, MemoryRecords or EncodedBatches
            Bytes count as a produce request and hold one batch, as Kafka wants it [APP-31];
            `MemoryRecords` and `EncodedBatches` may hold many. Base offsets are 0.
        leader_epoch : int or None
            None = the log's latest, 0 for a new log.
        origin : AppendOrigin
            CLIENT: everything is checked. COORDINATOR: the markers that end transactions.
            RAFT_LEADER: offsets and epochs are in the batches and stay.
        verification_guard : VerificationGuard
            Of `maybe_start_transaction_verification`; asked for where verification is on (KIP-890).
        transaction_version : int
            Of the transaction that a marker ends, 0 to 2: markers need it [PSM-18].

        Raises
        ------
        CorruptRecordError, InvalidRecordError, UnsupportedFormatError
            What the batches are refused for; nothing was appended.
        RecordTooLargeError
            A batch is larger than ``max_message_bytes``.
        RecordBatchTooLargeError
            All together are larger than a segment.
        InvalidEpochError
            *leader_epoch* is older than the log's latest [DUR-64].
        OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTxnStateError,
        TransactionCoordinatorFencedError
            The producer may not append this now [PSM-11..PSM-18].

        Source: [APP-1, APP-4, APP-8, APP-13]; Kafka ``UnifiedLog.appendAsLeader``.
        """
        lane = self._lane
        if (
            lane is not None
            and origin is _CLIENT
            and verification_guard is _SENTINEL
            and transaction_version is UNKNOWN_TRANSACTION_VERSION
        ):
            done = lane.append_as_leader(batches, leader_epoch)  # [D11]
            if done is not None:
                return done
        self._require_writable()
        if leader_epoch is not None:
            leader_epoch = arguments.leader_epoch(leader_epoch)
        origin = append_origin(origin)
        instance("verification_guard", verification_guard, VerificationGuard, "a VerificationGuard")
        transaction_version = arguments.integer_within(
            "transaction_version", transaction_version, -1, 2
        )
        request = AppendRequest(origin, verification_guard, transaction_version)
        if origin is AppendOrigin.RAFT_LEADER:
            return self._append_with_offsets(batches, self._epoch_of(leader_epoch), request)
        now_ms = self._now_ms()
        data, headers, _ = self._input.analyse(batches, now_ms, origin)
        size = len(memoryview(data))
        has_producers = len(headers) > 0 and int(headers["producer_id"].max()) >= 0
        if has_producers and len(headers) > 1 and origin is AppendOrigin.CLIENT:
            raise InvalidRecordError(  # one of them may be here already, and the others not
                "batches of idempotent producers are appended one by one",
                found=f"{len(headers)} batches",
                expected="one batch",
            )
        return self._append(
            data,
            headers,
            size,
            leader_epoch,
            now_ms,
            self._input.validator_of_checked(origin),
            request if has_producers else None,
            whole=True,
        )

    def append_as_follower(
        self, batches: Buffer | MemoryRecords, leader_epoch: int
    ) -> LogAppendInfo:
        """Append batches of another log as they are: offsets, epochs and timestamps are kept.

        Parameters
        ----------
        batches : Buffer or MemoryRecords
            Offsets ascend from the log end on; gaps are accepted.
        leader_epoch : int
            The epoch of the leader they are from: batches of a newer one are left out [APP-4.3].

        Raises
        ------
        UnexpectedAppendOffsetError
            The first offset is below the log end.
        InvalidEpochError
            An epoch is older than the log's latest [DUR-64].
        InvalidTxnStateError
            Data outside a transaction of a producer that has one open.

        Source: [APP-2, APP-9, PSM-15]; Kafka ``UnifiedLog.appendAsFollower``.
        """
        lane = self._lane
        done = None if lane is None else lane.append_as_follower(batches, leader_epoch)  # [D11]
        if done is not None:
            return done
        self._require_writable()
        epoch = arguments.leader_epoch(leader_epoch)
        return self._append_with_offsets(batches, epoch, AppendRequest(AppendOrigin.REPLICATION))

    def _append_with_offsets(
        self,
        batches: Buffer | MemoryRecords | EncodedBatches,
        leader_epoch: int,
        request: AppendRequest,
    ) -> LogAppendInfo:
        data, headers, analysis = self._input.analyse_with_offsets(
            batches, leader_epoch, request.origin
        )
        if not len(headers):
            return self._nothing_appended()
        if analysis.last_offset == MAX_LONG:
            raise InvalidOffsetError(
                "no offset is left behind the last batch", found=str(MAX_LONG), expected="below it"
            )
        size = len(memoryview(data))
        is_safe = self.profile is Profile.SAFE
        if is_safe:  # else the epochs come first, and stay [APP-10, APP-11]
            self._check_fits_a_segment(size)
        with self._append_lock:
            self._begin_append()
            check_follows_log_end(analysis, self.log_end_offset)
            if is_safe:
                check_epochs_ascend(headers, self._epochs.latest_epoch)
            first = -1 if headers["magic"][0] < CURRENT_MAGIC else analysis.first_offset
            if is_safe:
                check_offsets_ascend(headers)
                behind_gap = end_of_last_gap(headers, self.log_end_offset)
                if behind_gap is not None:
                    self._permit_gap(behind_gap)
            self._note_epochs(headers)
            self._check_fits_a_segment(size)
            duplicate = self._write(
                data,
                headers,
                size,
                analysis.max_timestamp,
                self._now_ms(),
                base_of_new_segment(first, analysis.last_offset),
                request,
            )
            if duplicate is None:
                self._arm_lane()
            end, generation = self._local_log.log_end.message_offset, self._local_log.generation
        if duplicate is not None:
            return self._duplicate(duplicate, analysis.max_timestamp, generation)
        if self._syncs_on_append:
            self._flusher.sync_if_due(end, generation)
        count = int(np.maximum(headers["records_count"], 0).sum())
        return LogAppendInfo(
            first,
            analysis.last_offset,
            analysis.max_timestamp,
            -1,
            self.log_start_offset,
            count,
            size,
            self.durable_offset,
        )

    def _append(  # noqa: PLR0913 - one step of two public methods
        self,
        data: Buffer,
        headers: BatchHeaders,
        size: int,
        leader_epoch: int | None,
        now_ms: int,
        validator: LogValidator,
        request: AppendRequest | None,
        *,
        whole: bool = False,
    ) -> LogAppendInfo:
        """Assign offsets, write, publish, sync: the leader's path [APP-7..APP-18].

        With *whole* all batches go into one segment; else more than fit into one are split.
        """
        if size == 0:
            return self._nothing_appended()
        config = self.config
        if size > config.max_message_bytes:
            self._input.check_sizes(headers)
        if size > config.roll_bytes:
            self._check_fit_segments(headers, size, whole=whole)
        flusher = self._flusher
        with self._append_lock:
            self._begin_append()
            first = self._local_log.log_end.message_offset
            latest_epoch = self._epochs.latest_epoch
            epoch = latest_epoch
            if leader_epoch is not None or epoch is None:
                epoch = self._epoch_of(leader_epoch)
            validation = validator.validate_and_assign_offsets(data, headers, first, now_ms, epoch)
            end, max_timestamp, count = validation[:3]
            if epoch != latest_epoch or self._epochs.begins_after(first):
                self._note_epoch(epoch, first)
            duplicate = None
            if whole:
                self._check_fits_a_segment(size)  # Kafka's profile: the epoch came first, and stays
                duplicate = self._write(data, headers, size, max_timestamp, now_ms, first, request)
            else:
                self._write_rows(data, headers, size, max_timestamp, now_ms, first)
            if duplicate is None:
                self._arm_lane()
            generation = self._local_log.generation
        if duplicate is not None:
            return self._duplicate(duplicate, max_timestamp, generation)
        if self._syncs_on_append:
            flusher.sync_if_due(end, generation)
        return LogAppendInfo(
            first,
            end - 1,
            max_timestamp,
            now_ms if self._stamps_append_time else -1,
            self.log_start_offset,
            count,
            size,
            flusher.durable_offset,
        )

    def _begin_append(self) -> None:
        if self._is_closed or self._flusher.find_failure() is not None:  # while we waited
            self._require_writable()
        self._begin_change()  # first: what it writes again is no sync that is late [DUR-36]
        if self._has_window:
            self._flusher.check_window()
        self._flush_topic_id()

    def _duplicate(
        self, batch: BatchMetadata, max_timestamp: int, generation: int
    ) -> LogAppendInfo:
        """Answer for a batch that was appended before, as it was answered then [APP-14].

        Who sends it again may not have had that answer: it is made as safe as any other first.
        """
        if self._syncs_on_append and self.profile is Profile.SAFE:
            self._flusher.sync_if_due(batch.last_offset + 1, generation)
        return LogAppendInfo(
            batch.first_offset,
            batch.last_offset,
            max_timestamp,
            batch.timestamp,
            self.log_start_offset,
            0,
            0,
            self.durable_offset,
            is_duplicate=True,
        )
