"""Appends for Kafka's tests of the validator, and a way to call it as Kafka's class is called."""

from __future__ import annotations

import gzip
import zlib
from typing import Any, NamedTuple

from segstore._core import LogValidator, Validation, ValidatorMetrics
from segstore.records.compression import codec_table
from segstore.types import Codec
from tests.kits.records_kit import build, headers

NOW = 1_700_000_000_000
WORDS = [b"hello", b"there", b"beautiful"]


class Validated(NamedTuple):
    data: bytes
    result: Validation


def words(*timestamps: int) -> list[tuple[int, int, None, bytes]]:
    return [(i, t, None, word) for i, (t, word) in enumerate(zip(timestamps, WORDS, strict=True))]


def validate(  # noqa: PLR0913 - Kafka's constructor has twelve
    data: bytes,
    target: Codec,
    magic: int = 2,
    *,
    counter: int = 0,
    leader_epoch: int = 0,
    now: int = NOW,
    metrics: ValidatorMetrics | None = None,
    **rules: Any,
) -> Validated:
    validator = LogValidator(
        codec_table(),
        target_codec=target,
        target_magic=magic,
        one_request=True,
        kafka_limits=True,
        **rules,
    )
    copy = bytearray(data)
    result = validator.validate_and_assign_offsets(
        copy, headers(data, check_crc=False, kafka_limits=True), counter, now, leader_epoch, metrics
    )
    return Validated(bytes(copy if result.rebuilt is None else result.rebuilt), result)


def within(limit_ms: int) -> dict[str, int]:
    return {"timestamp_before_max_ms": limit_ms, "timestamp_after_max_ms": limit_ms}


def wrapper(inner: list[bytes], magic: int, last_offset: int, timestamp: int = NOW) -> bytes:
    """Put messages of any magic behind each other into one compressed entry."""
    compressed = gzip.compress(b"".join(inner))
    return message(magic, last_offset, timestamp, None, compressed, attributes=Codec.GZIP)


def message(  # noqa: PLR0913 - the fields of a message
    magic: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes,
    *,
    attributes: int = 0,
) -> bytes:
    plain = bytearray(build([(offset, timestamp, key, value)], magic))
    if attributes:
        plain[17] |= attributes
        plain[12:16] = zlib.crc32(plain[16:]).to_bytes(4, "big")
    return bytes(plain)
