"""Batches that somebody else built: what is looked at before the append lock is taken.

Source: [APP-4..APP-6, APP-30..33].
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import segstore._core as _core
from segstore._core import EncodedBatches, LogValidator, ValidatorMetrics
from segstore.errors import (
    CorruptRecordError,
    IllegalArgumentError,
    InvalidEpochError,
    OffsetsOutOfOrderError,
    RecordTooLargeError,
    RecordTypeError,
    UnexpectedAppendOffsetError,
    UnsupportedFormatError,
)
from segstore.records.compression import compression_level
from segstore.records.memory_records import MemoryRecords
from segstore.records.record_builder import codec_of
from segstore.types import CONTROL_FLAG, CURRENT_MAGIC, TRANSACTIONAL_FLAG, AppendOrigin

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from segstore._core import BatchHeaders, CodecTable
    from segstore.config import LogConfig

CODEC_OF_SOURCE = -1


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
    validator_of_own, validator_of_checked : LogValidator
        Give offsets and epoch, under the append lock, to batches that were built here and to those
        that `analyse` has checked.
    """

    def __init__(self, config: LogConfig, codecs: CodecTable) -> None:
        self._config = config
        self.metrics = ValidatorMetrics()
        validator = partial(
            LogValidator,
            codecs,
            log_append_time=config.message_timestamp_type == "LogAppendTime",
            keys_required="compact" in config.cleanup_policies,
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        )
        self.validator_of_own = validator(records_are_trusted=True)
        self.validator_of_checked = validator(records_are_checked=True)
        codec: int = CODEC_OF_SOURCE
        level = 0
        if config.compression_type != "producer":
            codec = codec_of(config)
            level = compression_level(codec, config)
        self._validator = validator(target_codec=codec, level=level)
        self._request_validator = validator(target_codec=codec, level=level, one_request=True)

    def analyse(
        self, batches: Buffer | MemoryRecords | EncodedBatches, now_ms: int
    ) -> tuple[Buffer, BatchHeaders]:
        """Check batches of a client; return a copy that can be stamped, and its header table.

        Nothing but offsets and epoch are left to be assigned. Batches of magic 0 and 1, and those
        of another codec than the topic's, are built again [APP-30..APP-34].
        """
        is_request = not isinstance(batches, (MemoryRecords, EncodedBatches))
        limit = self._config.max_message_bytes
        data: Buffer
        data, headers = _analyzed(batches, AppendOrigin.CLIENT, max_message_bytes=limit)
        if not len(headers):
            return data, headers
        _check_plain(headers)
        validator = self._request_validator if is_request else self._validator
        result = validator.validate_and_assign_offsets(data, headers, 0, now_ms, 0, self.metrics)
        if result.rebuilt is None:
            return data, headers
        self.check_sizes(result.rebuilt.headers)
        return result.rebuilt, result.rebuilt.headers

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

    def analyse_for_follower(
        self, batches: Buffer | MemoryRecords, leader_epoch: int
    ) -> tuple[Buffer, BatchHeaders]:
        """Check batches whose offsets are kept; those from a newer epoch on are left out."""
        data, headers = _analyzed(batches, AppendOrigin.REPLICATION, leader_epoch=leader_epoch)
        if len(headers):
            if (headers["magic"] < CURRENT_MAGIC).any():
                raise UnsupportedFormatError("a follower takes no batches of magic 0 and 1")
            _check_plain(headers)
            if (headers["base_offset"][1:] <= headers["last_offset"][:-1]).any():
                raise OffsetsOutOfOrderError("the offsets of the batches overlap")
            if (headers["partition_leader_epoch"] < 0).any():
                raise IllegalArgumentError("a batch has no leader epoch")
        return data, headers

    @staticmethod
    def check_follows(headers: BatchHeaders, log_end_offset: int, latest: int | None) -> None:
        """Refuse kept offsets below the log end, and epochs that go back [APP-9, DUR-64]."""
        first = int(headers["base_offset"][0])
        if first < log_end_offset:
            raise UnexpectedAppendOffsetError(
                f"offsets {first} to {headers['last_offset'][-1]} were appended to a log that ends"
                f" at {log_end_offset}",
                found=str(first),
                expected=f"{log_end_offset} or more",
            )
        epochs = headers["partition_leader_epoch"]
        lowest = epochs[0] if latest is None else latest
        if epochs[0] < lowest or (epochs[1:] < epochs[:-1]).any():
            raise InvalidEpochError(
                "a leader epoch is older than one before it",
                found=str(int(epochs.min())),
                expected=f"{lowest} or newer",
            )


def _analyzed(
    batches: Buffer | MemoryRecords | EncodedBatches, origin: AppendOrigin, **rules: int
) -> tuple[bytearray, BatchHeaders]:
    """Copy the whole batches and read their headers, checked by the rules of [format.md 12.1]."""
    source = batches.data if isinstance(batches, MemoryRecords) else batches
    try:
        data = bytearray(memoryview(source))
    except TypeError:
        raise RecordTypeError(
            f"{type(batches).__name__} holds no batches",
            found=type(batches).__name__,
            expected="bytes, MemoryRecords or EncodedBatches; append() takes records",
        ) from None
    headers, analysis = _core.analyze_append(data, origin=origin, **rules)
    if (
        data
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
    return data, headers


def _check_plain(headers: BatchHeaders) -> None:
    flags = headers["attributes"] & (CONTROL_FLAG | TRANSACTIONAL_FLAG)
    special = (headers["producer_id"] >= 0) | ((headers["magic"] > 1) & (flags != 0))
    if special.any():
        raise UnsupportedFormatError(
            "batches of idempotent or transactional producers, and control batches, cannot be"
            " appended yet",
            found=f"producer id {int(headers['producer_id'][special.argmax()])}",
            expected="batches without a producer id",
        )
