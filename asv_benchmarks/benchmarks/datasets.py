"""Record shapes.

8-byte keys and values of compressible text, in batches of about a given size; seeds are fixed.
"""

from __future__ import annotations

import random
import struct
from functools import cache

from segstore import LogConfig
from segstore.records.record_builder import build_batches

from .common import PROFILE, SEED

FIRST_TIMESTAMP = 1_700_000_000_000
ONE_FETCH = 1024 * 1024
_WORDS = [f"word{i:03}" for i in range(500)]


@cache
def key_values(value_bytes: int, count: int) -> list[tuple[bytes, bytes]]:
    """*count* pairs of an 8-byte key and a value of *value_bytes* bytes."""
    chooser = random.Random(SEED)
    text = " ".join(chooser.choice(_WORDS) for _ in range(50_000)).encode()
    starts = [chooser.randrange(len(text) - value_bytes) for _ in range(count)]
    return [
        (f"{i % 10_000:08}".encode(), text[start : start + value_bytes])
        for i, start in enumerate(starts)
    ]


def records_in_log(value_bytes: int) -> int:
    """How many records of that size the profile's log holds."""
    return max(100, PROFILE.log_bytes // (value_bytes + 20))


@cache
def batches(value_bytes: int, batch_bytes: int, codec: str = "uncompressed") -> tuple[bytes, ...]:
    """Finished batches as a producer sends them, each a ``bytes`` of about *batch_bytes*."""
    config = LogConfig(compression_type=codec, max_message_bytes=batch_bytes)
    records = key_values(value_bytes, records_in_log(value_bytes))
    return _batches_of(records, max(1, batch_bytes // (value_bytes + 20)), config)


@cache
def batches_of_one_record(value_bytes: int, count: int) -> tuple[bytes, ...]:
    """*count* batches as a producer sends them that does not wait for a second record."""
    return _batches_of(key_values(value_bytes, count), 1, LogConfig())


def _batches_of(
    records: list[tuple[bytes, bytes]], per_batch: int, config: LogConfig
) -> tuple[bytes, ...]:
    return tuple(
        bytes(
            build_batches(
                records[i : i + per_batch], config=config, default_timestamp=FIRST_TIMESTAMP + i
            )
        )
        for i in range(0, len(records), per_batch)
    )


@cache
def replicated(value_bytes: int, batch_bytes: int) -> tuple[bytes, ...]:
    """The same batches as a follower gets them: with their offsets and leader epoch 0."""
    stamped, next_offset = [], 0
    for batch in map(bytearray, batches(value_bytes, batch_bytes)):
        struct.pack_into(">q", batch, 0, next_offset)
        struct.pack_into(">i", batch, 12, 0)
        next_offset += struct.unpack_from(">i", batch, 23)[0] + 1  # last offset delta
        stamped.append(bytes(batch))
    return tuple(stamped)


def fetches(each: tuple[bytes, ...], fetch_bytes: int = ONE_FETCH) -> list[bytes]:
    """The batches as a scan gets them: as many at a time as fit *fetch_bytes*, at least one."""
    joined: list[bytes] = []
    together: list[bytes] = []
    size = 0
    for batch in each:
        if together and size + len(batch) > fetch_bytes:
            joined.append(b"".join(together))
            together, size = [], 0
        together.append(batch)
        size += len(batch)
    return [*joined, b"".join(together)]
