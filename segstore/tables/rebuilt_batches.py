"""Batches for rows that keep their offsets, epochs and timestamps, as a follower appends them.

A batch has one leader epoch and one type of timestamp, so rows are divided where these change, and
where offsets have a gap; with LogAppendTime a batch has one timestamp.
"""

from __future__ import annotations

from itertools import pairwise
from struct import pack_into
from typing import TYPE_CHECKING, Final

from segstore._core import (
    BatchOptions,
    RecordsBuilder,
    batch_header_dtype,
    encode_columns,
    encode_empty_batch,
    scan_headers,
    set_max_timestamp,
)
from segstore.numpy_on_demand import np
from segstore.records.arrow_numpy import numbers_of
from segstore.records.columns import RECORD_COLUMNS
from segstore.records.compression import codec_table
from segstore.types import (
    CURRENT_MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    Codec,
    TimestampType,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from typing_extensions import Buffer

    from segstore._core import EncodedBatches

MAX_BATCH_BYTES: Final = 1024 * 1024
BASE_OFFSET_BYTES: Final = 8
"""What a batch begins with; no checksum covers it."""
EPOCH_POSITION: Final = 12
"""Where in a batch its leader epoch is, an int32."""


def batches_with_offsets(
    rows: pa.RecordBatch, codec: Codec, least_epoch: Callable[[], int]
) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    """Yield batches for *rows* of an export, in their order, and the rows of each.

    Parameters
    ----------
    rows : RecordBatch
        With the columns of an export, offsets ascending.
    codec : Codec
        Of the batches.
    least_epoch : callable
        Gives the epoch for records whose batch had none, asked when all before them are appended.
    """
    for start, end in _runs(rows):
        run = rows.slice(start, end - start)
        kind = run.column("timestampType")[0].as_py()
        if kind == TimestampType.NO_TIMESTAMP_TYPE:
            yield _messages_of_magic_0(run), run
            continue
        epoch = run.column("leaderEpoch")[0].as_py()
        options = BatchOptions(
            base_offset=run.column("offset")[0].as_py(),
            partition_leader_epoch=least_epoch() if epoch == NO_PARTITION_LEADER_EPOCH else epoch,
            codec=codec,
        )
        records = run.select(RECORD_COLUMNS)
        batches = encode_columns(records, options, codec_table(), NO_TIMESTAMP, MAX_BATCH_BYTES)
        _set_base_offsets(batches, options.base_offset)
        if kind == TimestampType.LOG_APPEND_TIME:
            _stamp(batches, run.column("timestamp")[0].value)
        yield bytes(batches), run


def empty_batch(last_offset: int) -> bytes:
    """Return a batch without records for one offset, such as compaction leaves at a log's end."""
    header = np.zeros(1, batch_header_dtype())
    header["base_offset"] = header["last_offset"] = last_offset
    header["base_timestamp"] = header["max_timestamp"] = NO_TIMESTAMP
    header["partition_leader_epoch"] = NO_PARTITION_LEADER_EPOCH
    header["producer_id"] = header["producer_epoch"] = header["base_sequence"] = -1
    header["magic"] = CURRENT_MAGIC
    return encode_empty_batch(header[0])


def with_leader_epochs(batches: Buffer, least_epoch: int) -> Buffer:
    """Return *batches*; one without a leader epoch gets that of the batch before it.

    Logs of old brokers have batches without one, which an append refuses. No checksum covers the
    epoch.

    Parameters
    ----------
    batches : bytes-like
    least_epoch : int
        For those that no batch with an epoch comes before.
    """
    headers = scan_headers(batches)[0].array
    epochs = headers["partition_leader_epoch"]
    has_none = (epochs == NO_PARTITION_LEADER_EPOCH) & (headers["magic"] >= CURRENT_MAGIC)
    if not has_none.any():
        return batches
    given = np.maximum.accumulate(np.maximum(epochs, least_epoch))
    changed = bytearray(batches)
    for row in np.flatnonzero(has_none).tolist():
        pack_into(">i", changed, int(headers["position"][row]) + EPOCH_POSITION, int(given[row]))
    return changed


def _runs(rows: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Yield (first, behind) of rows that can be in one batch."""
    offsets = numbers_of(rows.column("offset"))
    kinds = numbers_of(rows.column("timestampType"))
    epochs = numbers_of(rows.column("leaderEpoch"))
    timestamps = numbers_of(rows.column("timestamp"))
    breaks = np.diff(offsets) != 1
    breaks |= np.diff(kinds) != 0
    breaks |= np.diff(epochs) != 0
    breaks |= (kinds[1:] == TimestampType.LOG_APPEND_TIME) & (np.diff(timestamps) != 0)
    bounds = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(offsets)]
    yield from pairwise(bounds)


def _set_base_offsets(batches: EncodedBatches, base_offset: int) -> None:
    """Let each of *batches* begin where the one before ends; as encoded, all have one offset."""
    view, headers = memoryview(batches), batches.headers
    positions, counts = (headers[name].tolist() for name in ("position", "records_count"))
    for position, count in zip(positions, counts, strict=True):
        view[position : position + BASE_OFFSET_BYTES] = base_offset.to_bytes(BASE_OFFSET_BYTES)
        base_offset += count


def _stamp(batches: EncodedBatches, timestamp: int) -> None:
    """Give *batches* the type LogAppendTime, whose timestamp is that of the batch."""
    view = memoryview(batches)
    for position, size in zip(
        batches.headers["position"].tolist(), batches.headers["size_bytes"].tolist(), strict=True
    ):
        set_max_timestamp(
            view[position : position + size], TimestampType.LOG_APPEND_TIME, timestamp
        )


def _messages_of_magic_0(rows: pa.RecordBatch) -> bytes:
    """Return messages of the first format, the only one that knows no timestamp."""
    offsets = rows.column("offset").to_pylist()
    builder = RecordsBuilder(
        codec_table(),
        magic=0,
        timestamp_type=TimestampType.NO_TIMESTAMP_TYPE,
        base_offset=offsets[0],
    )
    fields = (rows.column(name).to_pylist() for name in ("key", "value"))
    for offset, key, value in zip(offsets, *fields, strict=True):
        builder.append(offset, NO_TIMESTAMP, key, value)
    return builder.build()
