"""Batches that somebody else built: what is looked at before the append lock is taken.

Source: [APP-4..APP-6, APP-30..33].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import segstore._core as _core
from segstore._core import EncodedBatches
from segstore.errors import (
    CorruptRecordError,
    IllegalArgumentError,
    InvalidEpochError,
    InvalidRecordError,
    RecordTooLargeError,
    RecordTypeError,
    UnexpectedAppendOffsetError,
    UnsupportedFormatError,
)
from segstore.records.memory_records import MemoryRecords
from segstore.records.record_builder import build_batches
from segstore.types import Codec

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from segstore._core import BatchHeaders, CodecTable
    from segstore.config import LogConfig

CODEC_MASK = 0x07
CONTROL_OR_TRANSACTIONAL = 0x30


class ProducerInput:
    """Turns what a program gives to `append_as_leader` into checked batches that may be written to.

    Parameters
    ----------
    config : LogConfig
        For the size limit and the codec of the topic.
    codecs : CodecTable
        To rebuild batches of another codec.
    """

    def __init__(self, config: LogConfig, codecs: CodecTable) -> None:
        self._config = config
        self._codecs = codecs
        kind = config.compression_type
        self._target = None if kind == "producer" else _codec_named(kind)

    def analyse(
        self, batches: Buffer | MemoryRecords | EncodedBatches, now_ms: int
    ) -> tuple[Buffer, BatchHeaders]:
        """Check batches of a client; return a copy that can be stamped, and its header table."""
        is_request = not isinstance(batches, (MemoryRecords, EncodedBatches))
        data: Buffer
        data, headers = _scan(batches)
        if not len(headers):
            return data, headers
        if (headers["magic"] > 1).all() and (headers["base_offset"] != 0).any():
            raise InvalidRecordError("a producer's batch begins at offset 0")
        self._check_sizes(headers)
        if is_request and len(headers) != 1:
            raise InvalidRecordError(
                "a produce request holds one batch",
                found=f"{len(headers)} batches",
                expected="one; MemoryRecords takes several",
            )
        _check_plain(headers)
        if self._target is not None and (headers["attributes"] & CODEC_MASK != self._target).any():
            data, headers = self._rebuilt(data, headers, now_ms)
        return data, headers

    def _check_sizes(self, headers: BatchHeaders) -> None:
        limit = self._config.max_message_bytes
        largest = int(headers["size_bytes"].max())
        if largest > limit:
            raise RecordTooLargeError(
                f"a batch of {largest} bytes is larger than max.message.bytes",
                found=f"{largest} bytes",
                expected=f"at most {limit} bytes",
            )

    def _rebuilt(
        self, data: Buffer, headers: BatchHeaders, now_ms: int
    ) -> tuple[Buffer, BatchHeaders]:
        """Compress again with the topic's codec, after every check of the original [APP-30]."""
        config = self._config
        _core.validate_and_assign_offsets(
            data,
            headers,
            self._codecs,
            next_offset=0,
            now_ms=now_ms,
            leader_epoch=0,
            log_append_time=config.message_timestamp_type == "LogAppendTime",
            keys_required="compact" in config.cleanup_policies,
            records_are_trusted=False,
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        )
        records = _core.iterate_records(data, self._codecs, check_crc=False)
        rebuilt = build_batches(
            list(records), config=config, default_timestamp=-1, codec=self._target
        )
        self._check_sizes(rebuilt.headers)
        return rebuilt, rebuilt.headers

    def analyse_for_follower(
        self, batches: Buffer | MemoryRecords, leader_epoch: int
    ) -> tuple[Buffer, BatchHeaders]:
        """Check batches whose offsets are kept; those from a newer epoch on are left out."""
        data, headers = _scan(batches)
        newer = np.flatnonzero(headers["partition_leader_epoch"] > leader_epoch)
        if len(newer):
            headers = headers[: newer[0]].copy()
            del data[int(headers["size_bytes"].sum()) :]
        if len(headers):
            _check_plain(headers)
            if (headers["base_offset"][1:] <= headers["last_offset"][:-1]).any():
                raise InvalidRecordError("the offsets of the batches do not ascend")
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


def _scan(batches: Buffer | MemoryRecords | EncodedBatches) -> tuple[bytearray, BatchHeaders]:
    """Copy the whole batches and read their headers; bounds, magic and CRC are checked."""
    source = batches.data if isinstance(batches, MemoryRecords) else batches
    try:
        data = bytearray(memoryview(source))
    except TypeError:
        raise RecordTypeError(
            f"{type(batches).__name__} holds no batches",
            found=type(batches).__name__,
            expected="bytes, MemoryRecords or EncodedBatches; append() takes records",
        ) from None
    headers, result = _core.scan_batches(data)
    if result.why is not None:
        raise result.why
    if data and not result.valid_bytes:
        raise CorruptRecordError(
            "there is no complete batch, nothing was appended",
            position=0,
            found=f"{len(data)} bytes",
            expected="at least one whole batch",
        )
    del data[result.valid_bytes :]
    return data, headers


def _check_plain(headers: BatchHeaders) -> None:
    if (headers["magic"] < 2).any():  # noqa: PLR2004 - the current format
        raise UnsupportedFormatError("batches of magic 0 and 1 are read, but not appended")
    special = (headers["producer_id"] >= 0) | (
        headers["attributes"] & CONTROL_OR_TRANSACTIONAL != 0
    )
    if special.any():
        raise UnsupportedFormatError(
            "batches of idempotent or transactional producers, and control batches, cannot be"
            " appended yet",
            found=f"producer id {int(headers['producer_id'][special.argmax()])}",
            expected="batches without a producer id",
        )


def _codec_named(kind: str) -> Codec:
    return Codec.NONE if kind == "uncompressed" else Codec[kind.upper()]
