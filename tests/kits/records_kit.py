"""What Kafka's tests of records share: magics and codecs, one way to build, one way to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segstore._core import RawRecord, RecordsBuilder, iterate_raw_records, scan_batches
from segstore.records.compression import codec_table
from segstore.types import Codec, TimestampType

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

Row = tuple[Any, ...]
"""(offset, timestamp, key, value) and headers if there are any."""

MAGICS = [0, 1, 2]
COMBINATIONS = [
    (magic, codec) for magic in MAGICS for codec in Codec if magic == 2 or codec is not Codec.ZSTD
]
"""Kafka's tests leave out zstd below magic 2: it is not supported there."""


def builder(magic: int = 2, codec: Codec = Codec.NONE, **options: Any) -> RecordsBuilder:
    options.setdefault(
        "timestamp_type",
        TimestampType.NO_TIMESTAMP_TYPE if magic == 0 else TimestampType.CREATE_TIME,
    )
    return RecordsBuilder(codec_table(), magic=magic, codec=int(codec), **options)


def build(rows: Sequence[Row], magic: int = 2, codec: Codec = Codec.NONE, **options: Any) -> bytes:
    options.setdefault("base_offset", rows[0][0] if rows else 0)
    made = builder(magic, codec, **options)
    for row in rows:
        made.append(*row)
    return made.build()


def simple(first: int = 0, timestamps: Sequence[int] = (1, 2, 3)) -> list[Row]:
    """Kafka's ("a","1"), ("b","2"), ("c","3") from *first* on."""
    return [
        (first + i, timestamp, b"abcdefgh"[i : i + 1], b"12345678"[i : i + 1])
        for i, timestamp in enumerate(timestamps)
    ]


def headers(data: bytes, **options: Any) -> np.ndarray:
    """The batch-header table of whole batches."""
    table, result = scan_batches(data, **options)
    if result.why is not None:
        raise result.why
    return table


def records(data: bytes, iteration: str = "streaming") -> list[RawRecord]:
    """All records of all batches."""
    found = []
    for header in headers(data, check_crc=False):
        start = int(header["position"])
        batch = data[start : start + int(header["size_bytes"])]
        found += iterate_raw_records(batch, codec_table(), iteration=iteration)
    return found


def rows(data: bytes) -> list[Row]:
    """(offset, timestamp, key, value) of all records."""
    return [(record.offset, record.timestamp, record.key, record.value) for record in records(data)]


def as_magic(rows_: Sequence[Row], magic: int) -> list[Row]:
    """The rows as a set of this magic gives them back: magic 0 has no timestamps."""
    return [(o, -1 if magic == 0 else t, k, v) for o, t, k, v, *_ in rows_]
