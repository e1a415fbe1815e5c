"""Small inputs for tests of the wrapped core."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

from segstore._core import BatchOptions, EncodedBatches, crc32c, encode_records
from segstore.records.compression import codec_table

TIME = 1_700_000_000_000
MEGABYTE = 1024 * 1024


def encoded(records, *, limit: int = MEGABYTE, timestamp: int = TIME, **options) -> EncodedBatches:
    """Records as batches with their header table."""
    return encode_records(records, BatchOptions(**options), codec_table(), timestamp, limit)


def batch(records, **options) -> bytes:
    """The same as bytes."""
    return bytes(encoded(records, **options))


def run_of_batches(count: int, records_per_batch: int = 3, **options) -> bytes:
    """Batches with ascending offsets, as they are in a log."""
    return b"".join(
        batch(
            [(b"k%d" % i, b"v%d" % i) for i in range(start, start + records_per_batch)],
            base_offset=start,
            **options,
        )
        for start in range(0, count * records_per_batch, records_per_batch)
    )


def resealed(data: bytes) -> bytes:
    """With the CRC that the bytes ask for, so that only what was changed is wrong."""
    return data[:17] + crc32c(data[21:]).to_bytes(4) + data[21:]


def pandas_of(columns: object) -> pd.DataFrame:
    """What pandas makes of Arrow columns: itself from pandas 3 on, through PyArrow before."""
    if hasattr(pd.DataFrame, "from_arrow"):
        return pd.DataFrame.from_arrow(columns)
    return pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype)
