"""Appending records: as a leader, as a follower, and the records of this program [APP-*].

`ProducerInput` checks batches that somebody else built before the lock is taken. An append that
the lane of the core does not take passes: lock → prepare → validate in C → epoch →
roll → producers → local log → segment (`LogWriter`), and then, outside the lock, the flusher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import segstore._core as _core
from segstore.errors import InvalidOffsetError, InvalidRecordError, RecordBatchTooLargeError
from segstore.log.codec_limits import codecs_of
from segstore.log.files.checkpoints import LOCK
from segstore.log.files.profile import Profile
from segstore.log.producers.producer_input import (
    ProducerInput,
    check_epochs_ascend,
    check_follows_log_end,
    check_offsets_ascend,
    end_of_last_gap,
)
from segstore.number_limits import MAX_INT, MAX_LONG
from segstore.numpy_on_demand import np
from segstore.record_columns import BY_THEIR_NAMES
from segstore.records.compression import compression_level
from segstore.records.record_builder import build_batches, codec_of
from segstore.types import CURRENT_MAGIC, AppendOrigin, Codec, LogAppendInfo

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from segstore._core import (
        AppendLock,
        BatchHeaders,
        BatchOptions,
        EncodedBatches,
        LogValidator,
    )
    from segstore.config.log_config import LogConfig
    from segstore.log.durability import Durability
    from segstore.log.log_writer import LogWriter
    from segstore.log.producers.producer_analysis import AppendRequest
    from segstore.log.producers.producer_state_entry import BatchMetadata
    from segstore.log.topic_identity import TopicIdentity
    from segstore.record_columns import RecordColumns
    from segstore.records.memory_records import MemoryRecords
    from segstore.records.record_builder import Records

_BATCH_BYTES_KEPT_FREE: Final = 64
"""Of a compressed batch, besides an eighth: a codec may also expand it."""


class Appender:
    """Appends to one log; one thread at a time, under the append lock. Syncs happen outside it.

    `UnifiedLog` tries the append lane before it calls here.
    """

    def __init__(
        self,
        log: LogWriter,
        append_lock: AppendLock,
        topic_identity: TopicIdentity,
        config: LogConfig,
        durability: Durability,
    ) -> None:
        self._log = log
        self._append_lock = append_lock
        self._topic_identity = topic_identity
        self.use_config(config, durability)

    def use_config(self, config: LogConfig, durability: Durability) -> None:
        """Append by other settings from the next call on [UNI-7]."""
        self._log.lane_switch.use(None, held=True)  # until all of it is taken over
        codec = codec_of(config)
        self._config = config
        self._batch_bytes = _uncompressed_batch_bytes(config, codec)
        self._builder_config = (
            config
            if self._batch_bytes == config.max_message_bytes
            else config.with_changes(max_message_bytes=self._batch_bytes)
        )
        self._batch_options = _core.BatchOptions(
            codec=int(codec), level=compression_level(codec, config)
        )
        self._has_window = durability.seconds is not None
        self._syncs_on_append = durability.sync or durability.messages != MAX_LONG
        self._stamps_append_time = config.message_timestamp_type == "LogAppendTime"
        # the topic limits the records of producers too [CFG-82m]
        most_record_bytes = config.max_decompressed_message_bytes
        codecs = codecs_of(config, self._log.profile, most_record_bytes)
        self._input = ProducerInput(config, codecs, self._log.profile)
        lane = None
        if self._log.profile is Profile.SAFE:
            lane = self._new_lane(self._batch_options, durability)
        self._log.lane_switch.use(lane, held=self._has_window)

    def _new_lane(self, options: BatchOptions, durability: Durability) -> _core.AppendLane:
        """Return a lane that goes by the settings of now; an append by the layers arms it."""
        waits_for_each_sync = durability.sync and not self._log.offsets.replicated
        self._append_lock.expect_syncs(self._syncs_on_append)
        validator_of_sent, validator_of_own = self._input.validators_of_lane()
        return _core.AppendLane(
            validator_of_sent,
            validator_of_own,
            options,
            self._log.codecs,
            self._append_lock,
            self._log.local_log.published,
            local_log=self._log.local_log,
            offsets=self._log.offsets,
            flusher=self._log.flusher,
            failure_mark=self._log.failure_mark,
            rounds=self._log.flusher.rounds if waits_for_each_sync else None,
            lock_file=LOCK,
            syncs_on_append=self._syncs_on_append,
            max_segment_bytes=self._config.roll_bytes,
            max_message_bytes=self._config.max_message_bytes,
            max_batch_bytes=self._batch_bytes,
        )

    # ---- what is appended ------------------------------------------------------------------------

    def append(
        self,
        records: Records | EncodedBatches,
        default_timestamp: int | None,
        columns: RecordColumns = BY_THEIR_NAMES,
    ) -> LogAppendInfo:
        """Append the records of this program.

        Parameters
        ----------
        records : records or EncodedBatches
            The latter as the lane, or `build`, has encoded them.
        default_timestamp : int or None
            In ms, for records without one; None = now.
        columns : RecordColumns
            Which columns of a frame are the parts of its records.
        """
        now_ms = self._log.local_log.directory.wall_clock_ms()
        if isinstance(records, _core.EncodedBatches):
            batches = records
        else:
            batches = self._encoded(records, default_timestamp, now_ms, columns)
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
        except InvalidRecordError as error:
            _count_records(error, batches.headers)
            raise

    def build(
        self, records: Records, default_timestamp: int | None, columns: RecordColumns
    ) -> EncodedBatches:
        """Encode records for `append`, and refuse now what it would refuse of them."""
        now_ms = self._log.local_log.directory.wall_clock_ms()
        batches = self._encoded(records, default_timestamp, now_ms, columns)
        if batches.size_bytes > 0:
            headers = batches.headers
            self._check_sizes(headers, batches.size_bytes, whole=False)
            try:
                self._input.validator_of_own.validate_and_assign_offsets(
                    batches, headers, 0, now_ms, 0
                )
            except InvalidRecordError as error:
                _count_records(error, headers)
                raise
        return batches

    def _encoded(
        self,
        records: Records,
        default_timestamp: int | None,
        now_ms: int,
        columns: RecordColumns,
    ) -> EncodedBatches:
        if default_timestamp is None:
            default_timestamp = now_ms
        if type(records) is list and columns is BY_THEIR_NAMES:
            return _core.encode_records(
                records, self._batch_options, self._log.codecs, default_timestamp, self._batch_bytes
            )
        return build_batches(
            records,
            config=self._builder_config,
            default_timestamp=default_timestamp,
            columns=columns,
        )

    def append_as_leader(
        self,
        batches: Buffer | MemoryRecords | EncodedBatches,
        leader_epoch: int | None,
        request: AppendRequest,
    ) -> LogAppendInfo:
        """Append prebuilt batches; offsets, epoch and largest timestamp are stamped in a copy."""
        origin = request.origin
        if origin is AppendOrigin.RAFT_LEADER:
            epoch = self._log.metadata.epoch_to_stamp(leader_epoch)
            return self.append_with_offsets(batches, epoch, request)
        now_ms = self._log.local_log.directory.wall_clock_ms()
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

    def append_with_offsets(
        self,
        batches: Buffer | MemoryRecords | EncodedBatches,
        leader_epoch: int,
        request: AppendRequest,
    ) -> LogAppendInfo:
        """Append batches that have their offsets, as a follower does [APP-2, APP-9]."""
        data, headers, analysis = self._input.analyse_with_offsets(
            batches, leader_epoch, request.origin
        )
        if not len(headers):
            return self._nothing_appended()
        if analysis.last_offset == MAX_LONG:
            raise InvalidOffsetError(
                "no offset is left after the last batch", found=str(MAX_LONG), expected="below it"
            )
        size = len(memoryview(data))
        is_safe = self._log.profile is Profile.SAFE
        if is_safe:  # else the epochs come first, and stay [APP-10, APP-11]
            self._check_fits_a_segment(size)
        local_log, metadata = self._log.local_log, self._log.metadata
        with self._append_lock:
            self._begin_append()
            log_end_offset = local_log.log_end.message_offset
            check_follows_log_end(analysis, log_end_offset)
            if is_safe:
                check_epochs_ascend(headers, metadata.epochs.latest_epoch)
            first = -1 if headers["magic"][0] < CURRENT_MAGIC else analysis.first_offset
            if is_safe:
                check_offsets_ascend(headers)
                behind_gap = end_of_last_gap(headers, log_end_offset)
                if behind_gap is not None:
                    metadata.permit_gap(behind_gap)
            metadata.note_epochs(headers)
            self._check_fits_a_segment(size)
            duplicate = self._log.write(
                data,
                headers,
                size,
                analysis.max_timestamp,
                local_log.directory.wall_clock_ms(),
                _base_of_new_segment(first, analysis.last_offset),
                request,
            )
            if duplicate is None:
                self._log.lane_switch.arm()
            end, generation = local_log.log_end.message_offset, local_log.generation
        if duplicate is not None:
            return self._duplicate(duplicate, analysis.max_timestamp, generation)
        if self._syncs_on_append:
            self._log.flusher.sync_if_due(end, generation)
        count = int(np.maximum(headers["records_count"], 0).sum())
        return LogAppendInfo(
            first,
            analysis.last_offset,
            analysis.max_timestamp,
            -1,
            self._log.offsets.log_start_offset,
            count,
            size,
            self._log.flusher.durable_offset,
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
        self._check_sizes(headers, size, whole=whole)
        flusher, metadata = self._log.flusher, self._log.metadata
        with self._append_lock:
            self._begin_append()
            first = self._log.local_log.log_end.message_offset
            latest_epoch = metadata.epochs.latest_epoch
            epoch = latest_epoch
            if leader_epoch is not None or epoch is None:
                epoch = metadata.epoch_to_stamp(leader_epoch)
            validation = validator.validate_and_assign_offsets(data, headers, first, now_ms, epoch)
            end, max_timestamp, count = validation[:3]
            if epoch != latest_epoch or metadata.epochs.begins_after(first):
                metadata.note_epoch(epoch, first)
            duplicate = None
            if whole:
                self._check_fits_a_segment(size)  # Kafka's profile: the epoch came first, and stays
                duplicate = self._log.write(
                    data, headers, size, max_timestamp, now_ms, first, request
                )
            else:
                self._log.write_rows(data, headers, size, max_timestamp, now_ms, first)
            if duplicate is None:
                self._log.lane_switch.arm()
            generation = self._log.local_log.generation
        if duplicate is not None:
            return self._duplicate(duplicate, max_timestamp, generation)
        if self._syncs_on_append:
            flusher.sync_if_due(end, generation)
        return LogAppendInfo(
            first,
            end - 1,
            max_timestamp,
            now_ms if self._stamps_append_time else -1,
            self._log.offsets.log_start_offset,
            count,
            size,
            flusher.durable_offset,
        )

    def _begin_append(self) -> None:
        if self._log.access.is_closed or self._log.failure_mark.find_failure() is not None:
            self._log.access.require_writable()  # while this thread waited
        self._log.begin_change()  # first: what it writes again is no sync that is late [DUR-36]
        if self._has_window:
            self._log.flusher.check_window()
        self._topic_identity.flush()

    # ---- sizes, and answers ----------------------------------------------------------------------

    def _check_fits_a_segment(self, size: int, what: str = "an append") -> None:
        config = self._config
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

    def _check_sizes(self, headers: BatchHeaders, size: int, *, whole: bool) -> None:
        if size > self._config.max_message_bytes:
            self._input.check_sizes(headers)
        if size > self._config.roll_bytes:
            self._check_fit_segments(headers, size, whole=whole)

    def _check_fit_segments(self, headers: BatchHeaders, size: int, *, whole: bool) -> None:
        """Check before anything is changed; for Kafka a leader's epoch comes first [APP-11]."""
        if not whole:
            self._check_fits_a_segment(int(headers["size_bytes"].max()), "a batch")
        elif self._log.profile is Profile.SAFE:
            self._check_fits_a_segment(size)

    def _nothing_appended(self) -> LogAppendInfo:
        start, durable_offset = self._log.offsets.log_start_offset, self._log.flusher.durable_offset
        return LogAppendInfo(-1, -1, -1, -1, start, 0, 0, durable_offset)

    def _duplicate(
        self, batch: BatchMetadata, max_timestamp: int, generation: int
    ) -> LogAppendInfo:
        """Answer for a batch that was appended before, as it was answered then [APP-14].

        A producer that sends it again may not have had that answer, so the batch is made as safe as
        any other first.
        """
        if self._syncs_on_append and self._log.profile is Profile.SAFE:
            self._log.flusher.sync_if_due(batch.last_offset + 1, generation)
        return LogAppendInfo(
            batch.first_offset,
            batch.last_offset,
            max_timestamp,
            batch.timestamp,
            self._log.offsets.log_start_offset,
            0,
            0,
            self._log.flusher.durable_offset,
            is_duplicate=True,
        )


def _base_of_new_segment(first_offset: int, last_offset: int) -> int:
    """Return where a segment for these offsets begins [APP-12].

    Messages of magic 0 and 1 tell their last offset only: all of them fit behind this one.
    """
    return first_offset if first_offset >= 0 else last_offset - MAX_INT


def _count_records(error: InvalidRecordError, headers: BatchHeaders) -> None:
    """Name records of a list or a frame in the error, of which the caller knows no batches."""
    error.count_from(int(headers["records_count"][: error.batch_index].sum()))


def _uncompressed_batch_bytes(config: LogConfig, codec: Codec) -> int:
    """Return how large a batch may become before it is compressed: a codec may also expand it.

    What is compressed here can be read again: no limit of reading is below that of writing.
    """
    limit = min(config.max_message_bytes, config.roll_bytes)
    if codec is Codec.NONE:
        return limit
    reading = min(config.max_decompressed_batch_bytes, config.max_record_bytes)
    return min(max(limit - limit // 8 - _BATCH_BYTES_KEPT_FREE, 1), reading)
