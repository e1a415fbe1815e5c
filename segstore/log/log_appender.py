"""The writing side of a log: checks, offsets, roll, write, publish, sync [APP-*]."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np

import segstore._core as _core
from segstore.errors import (
    FsyncFailedError,
    IllegalArgumentError,
    InvalidEpochError,
    InvalidRecordError,
    LogReadOnlyError,
    RecordBatchTooLargeError,
    SegstoreError,
)
from segstore.log import arguments
from segstore.log.checkpoints import LogState
from segstore.log.log_loader import write_state
from segstore.log.slice_reader import SliceReader
from segstore.records.record_builder import build_batches
from segstore.types import LogAppendInfo

if TYPE_CHECKING:
    import threading

    from typing_extensions import Buffer

    from segstore._core import (
        BatchHeaders,
        BatchOptions,
        Directory,
        EncodedBatches,
        LogValidator,
    )
    from segstore.config import LogConfig
    from segstore.log.flusher import Flusher
    from segstore.log.producer_input import ProducerInput
    from segstore.records.memory_records import MemoryRecords


class LogAppender(SliceReader):
    """What appends to a log; `UnifiedLog` adds everything else.

    One thread at a time, under the append lock; syncs happen outside it.
    """

    path: str
    _append_lock: threading.Lock
    _batch_bytes: int
    _batch_options: BatchOptions
    _builder_config: LogConfig
    _directory: Directory
    _flusher: Flusher
    _has_window: bool
    _input: ProducerInput
    _stamps_append_time: bool
    _state: LogState | None
    _syncs_on_append: bool

    def _require_writable(self) -> None:
        self._require_open()
        if self.read_only:
            raise LogReadOnlyError("the log was opened with read_only=True", file=self.path)
        if self._flusher.failure is not None:
            self._refuse(self._flusher.failure)

    def _refuse(self, cause: SegstoreError) -> NoReturn:
        """Raise the first error again, as what it has made of the log [DUR-38]."""
        raise LogReadOnlyError(
            f"the log takes no changes since an earlier error: {cause.told_within(self.path)}",
            file=self.path,
        ) from cause

    def append(self, records: object, *, timestamp: int | None = None) -> LogAppendInfo:
        """Append records and return when they are as safe as `durability` says.

        Parameters
        ----------
        records : iterable, Record or Arrow data
            ``(key, value)`` or ``(timestamp, key, value)`` tuples of bytes or None, `Record`
            objects, or anything with ``__arrow_c_stream__`` (key, value, timestamp, headers).
        timestamp : int or None
            In ms, for records without one; None = now.

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
        LimitExceededError
            A record that is larger than ``max_decompressed_batch_bytes`` before compression.
        InvalidRecordError, InvalidTimestampError
            Records against the log's settings; ``record_errors`` names them by their index.
        DiskFullError
            No space: nothing was appended, the log stays writable. What is larger than a segment
            goes in several steps; those before the failed one stay, and the message names them.
        """
        self._require_writable()
        now_ms = self._directory.wall_clock_ms()
        default_timestamp = (
            now_ms if timestamp is None else arguments.integer("timestamp", timestamp)
        )
        if type(records) is list:  # the common case, by the shortest way [D11]
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
            )
        except InvalidRecordError as error:  # of which the caller knows no batches
            error.count_from(int(batches.headers["records_count"][: error.batch_index].sum()))
            raise

    def append_as_leader(
        self, batches: Buffer | MemoryRecords | EncodedBatches, leader_epoch: int | None = None
    ) -> LogAppendInfo:
        """Append prebuilt batches.

        Offsets, leader epoch and largest timestamp are stamped in a copy.

        Parameters
        ----------
        batches : Buffer, MemoryRecords or EncodedBatches
            Bytes count as a produce request and hold one batch, as Kafka wants it [APP-31];
            `MemoryRecords` and `EncodedBatches` may hold many. Base offsets are 0.
        leader_epoch : int or None
            None = the log's latest, 0 for a new log.

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

        Source: [APP-1, APP-4, APP-8]; Kafka ``UnifiedLog.appendAsLeader``.
        """
        self._require_writable()
        if leader_epoch is not None:
            leader_epoch = arguments.leader_epoch(leader_epoch)
        now_ms = self._directory.wall_clock_ms()
        data, headers = self._input.analyse(batches, now_ms)
        size = len(memoryview(data))
        if size > self.config.roll_bytes:
            raise RecordBatchTooLargeError(
                f"an append of {size} bytes is larger than a segment",
                found=f"{size} bytes",
                expected=f"at most {self.config.roll_bytes} bytes",
            )
        return self._append(
            data, headers, size, leader_epoch, now_ms, self._input.validator_of_checked
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

        Source: [APP-2, APP-9]; Kafka ``UnifiedLog.appendAsFollower``.
        """
        self._require_writable()
        epoch = arguments.leader_epoch(leader_epoch)
        data, headers = self._input.analyse_for_follower(batches, epoch)
        if not len(headers):
            return self._nothing_appended()
        size = len(memoryview(data))
        if size > self.config.roll_bytes:
            raise RecordBatchTooLargeError(
                f"an append of {size} bytes is larger than a segment",
                found=f"{size} bytes",
                expected=f"at most {self.config.roll_bytes} bytes",
            )
        with self._append_lock:
            self._require_writable()
            self._flusher.check_window()
            self._local_log.settle()
            self._input.check_follows(headers, self.log_end_offset, self._epochs.latest_epoch)
            first = int(headers["base_offset"][0])
            if first > self.log_end_offset:
                self._save_state(contiguous_from=first)
            for row in np.flatnonzero(np.diff(headers["partition_leader_epoch"], prepend=-1)):
                self._note_epoch(
                    int(headers["partition_leader_epoch"][row]), int(headers["base_offset"][row])
                )
            max_timestamp = int(headers["max_timestamp"].max())
            self._write_rows(
                data, headers, size, max_timestamp, self._directory.wall_clock_ms(), first
            )
            end, generation = self._local_log.log_end.message_offset, self._local_log.generation
        if self._syncs_on_append:
            self._flusher.sync_if_due(end, generation)
        count = int(np.maximum(headers["records_count"], 0).sum())
        return LogAppendInfo(
            first,
            end - 1,
            max_timestamp,
            -1,
            self._log_start_offset,
            count,
            size,
            self.durable_offset,
        )

    def _nothing_appended(self) -> LogAppendInfo:
        return LogAppendInfo(-1, -1, -1, -1, self._log_start_offset, 0, 0, self.durable_offset)

    def _append(  # noqa: PLR0913 - one step of two public methods
        self,
        data: Buffer,
        headers: BatchHeaders,
        size: int,
        leader_epoch: int | None,
        now_ms: int,
        validator: LogValidator,
    ) -> LogAppendInfo:
        """Assign offsets, write, publish, sync: the leader's path [APP-7..APP-18]."""
        if size == 0:
            return self._nothing_appended()
        config = self.config
        if size > config.max_message_bytes:
            self._input.check_sizes(headers)
        flusher = self._flusher
        with self._append_lock:
            if self._is_closed or flusher.failure is not None:  # while we waited
                self._require_writable()
            if self._has_window:
                flusher.check_window()
            self._local_log.settle()
            first = self._local_log.log_end.message_offset
            latest_epoch = self._epochs.latest_epoch
            epoch = latest_epoch
            if leader_epoch is not None or epoch is None:
                epoch = _epoch_to_stamp(leader_epoch, latest_epoch)
            validation = validator.validate_and_assign_offsets(data, headers, first, now_ms, epoch)
            end, max_timestamp, count = validation[:3]
            if epoch != latest_epoch:
                self._note_epoch(epoch, first)
            self._write_rows(data, headers, size, max_timestamp, now_ms, first)
            generation = self._local_log.generation
        if self._syncs_on_append:
            flusher.sync_if_due(end, generation)
        return LogAppendInfo(
            first,
            end - 1,
            max_timestamp,
            now_ms if self._stamps_append_time else -1,
            self._log_start_offset,
            count,
            size,
            flusher.durable.message_offset,
        )

    def _note_epoch(self, epoch: int, start_offset: int) -> None:
        """Write the epoch's start before its first batch is acknowledged [DUR-12]."""
        with self._flusher.poisoned_by(FsyncFailedError):
            if self._epochs.assign(epoch, start_offset):
                self._save_state()

    def _save_state(self, contiguous_from: int | None = None) -> None:
        state = self._state
        if state is None:
            return
        changed = LogState(
            state.contiguous_from if contiguous_from is None else contiguous_from,
            state.epochs_ordered_from,
            self._epochs.latest_entry,
        )
        write_state(self._directory, changed)
        self._state = changed

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
            self._write(data, headers, size, max_timestamp, now_ms, first_offset)
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
                )
            except SegstoreError as error:
                if begin:
                    reached = self.log_end_offset - 1
                    error.message += f" (offsets {first_offset} to {reached} were appended before)"
                    error.args = (error.message,)
                raise
            begin = end

    def _write(  # noqa: PLR0913 - what a roll decision and a write need
        self,
        data: Buffer,
        headers: BatchHeaders,
        size: int,
        max_timestamp: int,
        now_ms: int,
        first_offset: int,
    ) -> None:
        """Roll when the segment cannot take it, write, publish; called under the append lock."""
        local_log = self._local_log
        last_offset = int(headers["last_offset"][-1])
        sealed = local_log.roll_if_needed(max_timestamp, last_offset, size, now_ms, first_offset)
        if sealed is not None:
            self._flusher.segment_was_sealed(sealed)
        try:
            local_log.append(data, headers, last_offset)
        except SegstoreError as error:
            if local_log.is_poisoned:
                self._flusher.poison(error)
            raise


def _epoch_to_stamp(leader_epoch: int | None, latest: int | None) -> int:
    if leader_epoch is None:
        return 0 if latest is None else latest
    if leader_epoch < 0:
        raise IllegalArgumentError(
            f"leader epoch {leader_epoch} is negative",
            found=str(leader_epoch),
            expected="0 or more",
        )
    if latest is not None and leader_epoch < latest:
        raise InvalidEpochError(
            f"leader epoch {leader_epoch} is older than {latest}, the latest of the log",
            found=str(leader_epoch),
            expected=f"{latest} or newer",
        )
    return leader_epoch
