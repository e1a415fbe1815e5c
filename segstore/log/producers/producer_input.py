"""Batches that somebody else built: what is looked at before the append lock is taken.

Source: [APP-4..APP-6, APP-30..33].
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import segstore._core as _core
from segstore._core import EncodedBatches, LogValidator, ValidatorMetrics
from segstore.errors import (
    CorruptRecordError,
    IllegalArgumentError,
    InvalidEpochError,
    LimitExceededError,
    OffsetsOutOfOrderError,
    RecordLimitExceededError,
    RecordTooLargeError,
    RecordTypeError,
    UnexpectedAppendOffsetError,
)
from segstore.log.files.profile import Profile
from segstore.number_limits import MAX_INT
from segstore.numpy_on_demand import np
from segstore.records.compression import compression_level
from segstore.records.memory_records import MemoryRecords
from segstore.records.record_builder import codec_of
from segstore.types import CURRENT_MAGIC, AppendOrigin

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from segstore._core import AppendAnalysis, BatchHeaders, CodecTable
    from segstore.config.log_config import LogConfig

CODEC_OF_SOURCE = -1


class CheckedBatches(NamedTuple):
    """What may be written, as far as that can be said without the log."""

    data: Buffer
    """Whole batches; offsets and epochs of a leader's are still to be assigned."""
    headers: BatchHeaders
    """A row for each."""
    analysis: AppendAnalysis
    """Of what came in."""


class ProducerInput:
    """Turns what a program gives to `append_as_leader` into checked batches that may be written to.

    Parameters
    ----------
    config : LogConfig
        For the size limit and the codec of the topic.
    codecs : CodecTable
        To rebuild batches of another codec.

    Attributes
    ----------
    metrics : ValidatorMetrics
        What batches were refused for, counted.
    validator_of_own : LogValidator
        Gives offsets and epoch, under the append lock, to batches that were built here.
    """

    def __init__(
        self, config: LogConfig, codecs: CodecTable, profile: Profile = Profile.SAFE
    ) -> None:
        self._config = config
        self._codecs = codecs
        self._profile = profile
        self.metrics = ValidatorMetrics()
        validator = partial(
            LogValidator,
            codecs,
            kafka_limits=profile is Profile.KAFKA,
            log_append_time=config.message_timestamp_type == "LogAppendTime",
            keys_required="compact" in config.cleanup_policies,
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        )
        self.validator_of_own = validator(records_are_trusted=True)
        self._checked_validators = {
            origin: validator(records_are_checked=True, origin=origin)
            for origin in (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR)
        }
        codec: int = CODEC_OF_SOURCE
        level = 0
        if config.compression_type != "producer":
            codec = codec_of(config)
            level = compression_level(codec, config)
        self._validator_of = partial(validator, target_codec=codec, level=level)
        self._validators: dict[tuple[AppendOrigin, bool], LogValidator] = {}

    def validator_of_checked(self, origin: AppendOrigin) -> LogValidator:
        """Return what does the same for batches that `analyse` has checked."""
        return self._checked_validators[origin]

    def validators_of_lane(self) -> tuple[LogValidator, LogValidator]:
        """Return the checks of a client's batch alone, and of what was built here [D11]."""
        sent = self._validator_of(origin=AppendOrigin.CLIENT, one_request=True)
        return sent, self.validator_of_own

    def analyse(
        self,
        batches: Buffer | MemoryRecords | EncodedBatches,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> CheckedBatches:
        """Check batches that get their offsets here; returns a copy that can be stamped.

        Nothing but offsets and epoch are left to be assigned. Batches of magic 0 and 1, and those
        of another codec than the topic's, are built again [APP-30..APP-34].
        """
        is_request = not isinstance(batches, (MemoryRecords, EncodedBatches))
        limit = self._config.max_message_bytes
        checked = self._analyzed(batches, origin, max_message_bytes=limit)
        data, headers, analysis = checked
        if not len(headers):
            return checked
        validator = self._validators.get((origin, is_request))
        if validator is None:
            validator = self._validator_of(origin=origin, one_request=is_request)
            self._validators[origin, is_request] = validator
        try:
            result = validator.validate_and_assign_offsets(
                data, headers, 0, now_ms, 0, self.metrics
            )
        except LimitExceededError as error:  # Kafka's InvalidRecordException [APP-36]
            raise RecordLimitExceededError(*error.args).like(error) from None
        if result.rebuilt is None:
            return checked
        self.check_sizes(result.rebuilt.headers)
        return CheckedBatches(result.rebuilt, result.rebuilt.headers, analysis)

    def check_sizes(self, headers: BatchHeaders) -> None:
        """Refuse a batch that is larger than ``max_message_bytes`` [APP-4.6]."""
        limit = self._config.max_message_bytes
        largest = int(headers["size_bytes"].max())
        if largest > limit:
            raise RecordTooLargeError(
                f"a batch of {largest} bytes is larger than max.message.bytes",
                found=f"{largest} bytes",
                expected=f"at most {limit} bytes",
            )

    def analyse_with_offsets(
        self,
        batches: Buffer | MemoryRecords | EncodedBatches,
        leader_epoch: int,
        origin: AppendOrigin,
    ) -> CheckedBatches:
        """Check batches whose offsets are kept; a follower leaves out those from a newer epoch on.

        Source: [APP-4]. Only a RAFT_LEADER's are compared with ``max_message_bytes``.
        """
        limit = MAX_INT if origin is AppendOrigin.REPLICATION else self._config.max_message_bytes
        return self._analyzed(batches, origin, leader_epoch=leader_epoch, max_message_bytes=limit)

    def _analyzed(
        self,
        batches: Buffer | MemoryRecords | EncodedBatches,
        origin: AppendOrigin,
        **rules: int,
    ) -> CheckedBatches:
        """Copy the whole batches and read their headers, checked by [format.md 12.1]."""
        source = batches.data if isinstance(batches, MemoryRecords) else batches
        try:
            data = bytearray(memoryview(source))
        except TypeError:
            raise RecordTypeError(
                f"{type(batches).__name__} holds no batches",
                found=type(batches).__name__,
                expected="bytes, MemoryRecords or EncodedBatches; append() takes records",
            ) from None
        try:
            headers, analysis = _core.analyze_append(data, origin=origin, **rules)
        except OffsetsOutOfOrderError:
            if self._profile is Profile.KAFKA:
                self._read_every_record(data)
            raise
        if (
            data
            and self._profile is Profile.SAFE  # else nothing is appended, silently [APP-6]
            and not len(headers)  # else there is one; of a follower's, all may be of a newer epoch
            and not _core.scan_batches(data, check_crc=False, max_batches=1)[1].valid_bytes
        ):
            raise CorruptRecordError(
                "there is no complete batch, nothing was appended",
                position=0,
                found=f"{len(data)} bytes",
                expected="at least one whole batch",
            )
        del data[analysis.valid_bytes :]
        return CheckedBatches(data, headers, analysis)

    def _read_every_record(self, data: bytearray) -> None:
        """Fail for a batch that cannot be read: Kafka's message names the offset of each record."""
        headers, _ = _core.scan_batches(data, check_crc=False, kafka_limits=True)
        for position, size in headers[["position", "size_bytes"]].tolist():
            batch = memoryview(data)[position : position + size]
            deque(_core.iterate_raw_records(batch, self._codecs, iteration="whole"), maxlen=0)


def check_follows_log_end(analysis: AppendAnalysis, log_end_offset: int) -> None:
    """Refuse kept offsets below the log end [APP-9]."""
    first = analysis.first_offset
    if first < log_end_offset:
        error = UnexpectedAppendOffsetError(
            f"offsets {first} to {analysis.last_offset} were appended to a log that ends"
            f" at {log_end_offset}",
            found=str(first),
            expected=f"{log_end_offset} or more",
        )
        error.first_offset, error.last_offset = first, analysis.last_offset
        raise error


def check_offsets_ascend(headers: BatchHeaders) -> None:
    """Refuse batches that overlap, or end before they begin: a recovery would cut there [DUR-50].

    Of an old compressed batch only the last offset is known without opening it.
    """
    begins, lasts = headers["base_offset"], headers["last_offset"]
    is_legacy = headers["magic"] < CURRENT_MAGIC
    reversed_rows = np.flatnonzero((lasts < begins) & ~is_legacy)
    if len(reversed_rows):
        row = int(reversed_rows[0])
        raise OffsetsOutOfOrderError(
            f"batch {row} begins at offset {int(begins[row])} and ends at {int(lasts[row])}",
            found=str(int(lasts[row])),
            expected=f"{int(begins[row])} or more",
        )
    overlaps = np.flatnonzero((begins[1:] <= lasts[:-1]) & ~is_legacy[1:])
    if len(overlaps):
        row = int(overlaps[0]) + 1
        raise OffsetsOutOfOrderError(
            f"batch {row} begins at offset {int(begins[row])}, inside or before the one before it",
            found=str(int(begins[row])),
            expected=f"{int(lasts[row - 1]) + 1} or more",
        )


def end_of_last_gap(headers: BatchHeaders, log_end_offset: int) -> int | None:
    """Return where the batches go on behind the last offsets that are missing, None when none are.

    Of messages of magic 0 and 1 offsets may be missing everywhere, up to the last one. That is an
    offset below which all is synced, so none behind the bytes to be written.
    """
    is_legacy = headers["magic"] < CURRENT_MAGIC
    if is_legacy.any():
        return int(headers["last_offset"][-1])
    expected = np.concatenate(([log_end_offset], headers["last_offset"][:-1] + 1))
    gaps = np.flatnonzero(headers["base_offset"] > expected)
    return int(headers["base_offset"][gaps[-1]]) if len(gaps) else None


def check_epochs_ascend(headers: BatchHeaders, latest: int | None) -> None:
    """Refuse leader epochs that go back: they would take the newer ones away [DUR-64]."""
    epochs = headers["partition_leader_epoch"][headers["magic"] >= CURRENT_MAGIC]
    if not len(epochs):
        return
    if (epochs < 0).any():
        raise IllegalArgumentError(
            "a batch has no leader epoch", found=str(int(epochs.min())), expected="0 or more"
        )
    lowest = epochs[0] if latest is None else latest
    if epochs[0] < lowest or (epochs[1:] < epochs[:-1]).any():
        raise InvalidEpochError(
            "a leader epoch is older than one before it",
            found=str(int(epochs.min())),
            expected=f"{lowest} or newer",
        )
