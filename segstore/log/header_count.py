"""Counting records by the headers of their batches; a batch is opened only where it must be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import iterate_records
from segstore.numpy_on_demand import np
from segstore.records.records_count import LEAST_RECORD_BYTES
from segstore.types import BATCH_HEADER_BYTES, CODEC_MASK, CONTROL_FLAG, CURRENT_MAGIC

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from segstore._core import AbortedTransactions, BatchHeaders, CodecTable
    from segstore.log.chunk_reader import Chunk


def count_in_headers(
    chunk: Chunk,
    start_offset: int,
    end_offset: int,
    aborted: AbortedTransactions | None,
    codecs: CodecTable,
) -> int:
    """Return the number of records with ``start_offset <= offset < end_offset``.

    Parameters
    ----------
    chunk : Chunk
        Headers of one segment; its data is not looked at.
    aborted : AbortedTransactions or None
        What is left out.

    Raises
    ------
    SegstoreError
        A batch that has to be opened is damaged.
    """
    headers = chunk.headers
    is_seen = (headers["magic"] < CURRENT_MAGIC) | (headers["attributes"] & CONTROL_FLAG == 0)
    if aborted is not None:
        is_seen &= ~aborted.contain(headers)
    counts = headers["records_count"].astype(np.int64)
    first = np.maximum(headers["base_offset"], start_offset)
    last = np.minimum(headers["last_offset"], end_offset - 1)
    is_dense = counts == headers["last_offset"] - headers["base_offset"] + 1
    is_whole = (first == headers["base_offset"]) & (last == headers["last_offset"])
    is_opened = is_seen & (_cannot_be_true(headers, counts) | ~(is_dense | is_whole))
    is_believed = is_seen & ~is_opened
    total = int(np.where(is_dense, last - first + 1, counts)[is_believed].sum())
    for row in np.flatnonzero(is_opened):
        total += _count_in_batch(chunk, int(row), start_offset, end_offset, codecs)
    return total


def _cannot_be_true(headers: BatchHeaders, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a count is unknown, or of more records than the batch has offsets or room for."""
    offsets_count = headers["last_offset"] - headers["base_offset"] + 1
    room = headers["size_bytes"].astype(np.int64) - BATCH_HEADER_BYTES
    is_plain = (headers["magic"] == CURRENT_MAGIC) & (headers["attributes"] & CODEC_MASK == 0)
    doubtful: NDArray[np.bool_] = (
        (counts < 0) | (counts > offsets_count) | (is_plain & (counts * LEAST_RECORD_BYTES > room))
    )
    return doubtful


def _count_in_batch(
    chunk: Chunk, row: int, start_offset: int, end_offset: int, codecs: CodecTable
) -> int:
    position = int(chunk.headers["position"][row])
    size = int(chunk.headers["size_bytes"][row])
    data = bytearray(size)
    with chunk._replace(position=position).naming_the_file():
        chunk.segment.read_into(data, position)
        records = iterate_records(data, codecs, start_offset=start_offset, end_offset=end_offset)
        return sum(1 for _ in records)
