"""The stored batches that the rows of an export come from, as a table beside the rows.

A row is a record, and says nothing of its batch: who wrote it, in which transaction, what was
compressed together. An import builds the batches again from this table and the rows. What has no
rows, or cannot be built from rows byte for byte, is in the column ``raw`` as it was stored:
markers, batches that compaction has emptied, message sets of the old formats.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from segstore._core import batch_header_dtype, encode_empty_batch
from segstore.errors import IllegalArgumentError, InternalError
from segstore.number_limits import MAX_INT
from segstore.numpy_on_demand import np
from segstore.records.arrow_numpy import array_of_bytes, array_of_numbers, numbers_of
from segstore.tables.row_checks import is_before_1970
from segstore.types import (
    CODEC_MASK,
    CURRENT_MAGIC,
    DELETE_HORIZON_FLAG,
    TRANSACTIONAL_FLAG,
    Codec,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from segstore._core import BatchHeaders
    from segstore.log.chunk_reader import Chunk

FIELDS: Final = {
    "baseOffset": "base_offset",
    "lastOffset": "last_offset",
    "records": "records_count",
    "leaderEpoch": "partition_leader_epoch",
    "attributes": "attributes",
    "baseTimestamp": "base_timestamp",
    "maxTimestamp": "max_timestamp",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "baseSequence": "base_sequence",
    "magic": "magic",
    "sizeBytes": "size_bytes",
    "crc": "crc",
}
"""Column of the table by field of a batch header; ``records`` counts the rows of the file."""
RAW: Final = "raw"
BUILT_ATTRIBUTES: Final = 0x5F
"""All bits that have a meaning, but for that of control batches."""


class NotedBatches(NamedTuple):
    """Some batches of an export, in their order.

    Attributes
    ----------
    headers : array of ``batch_header_dtype()``, shape (batches,)
        ``records_count`` is how many rows of the file are of the batch; ``crc`` is 0 for a batch of
        which the file has a part.
    raw : list of bytes or None
        The stored bytes of what is not built from rows.
    """

    headers: BatchHeaders
    raw: list[bytes | None]

    def to_arrow(self) -> pa.Table:
        """Return the table."""
        import pyarrow as pa

        columns: dict[str, Any] = {
            name: array_of_numbers(self.headers[field]) for name, field in FIELDS.items()
        }
        columns[RAW] = array_of_bytes(self.raw)
        return pa.Table.from_arrays([*columns.values()], names=[*columns])

    def divided(self, max_bytes: int) -> Iterator[NotedBatches]:
        """Yield them in parts of so many stored bytes; one batch alone may have more."""
        sizes = np.array([0 if one is None else len(one) for one in self.raw], np.int64)
        ends = np.cumsum(sizes)
        first = 0
        while first < len(sizes):
            until = int(np.searchsorted(ends, ends[first] - sizes[first] + max_bytes, "right"))
            behind = max(first + 1, until)
            yield NotedBatches(self.headers[first:behind], self.raw[first:behind])
            first = behind

    @classmethod
    def of_arrow(cls, table: pa.Table) -> NotedBatches:
        """Return the batches of a table."""
        headers = np.zeros(table.num_rows, batch_header_dtype())
        for name, field in FIELDS.items():
            headers[field] = np.concatenate(
                [np.zeros(0, np.int64), *map(numbers_of, table.column(name).chunks)]
            )
        return cls(headers, table.column(RAW).to_pylist())


class BatchNotes:
    """Notes the stored batches of a scan while its rows are read.

    Parameters
    ----------
    start_offset, end_offset : int
        The range that is read: of a batch that lies across a bound, the part within it is noted.
    """

    def __init__(self, start_offset: int, end_offset: int) -> None:
        self._start_offset = start_offset
        self._end_offset = end_offset
        self._chunks: deque[Chunk] = deque()
        self._done = 0  # batches of the first chunk
        self._noted: list[NotedBatches] = []
        self.count = 0

    def see(self, chunk: Chunk) -> None:
        """Take note of batches whose rows come next; any one thread may call it."""
        self._chunks.append(chunk)

    def assign(self, offsets: NDArray[np.int64], timestamps: NDArray[np.int64]) -> None:
        """Give the rows that have come, by their offsets, to the batches that they are of.

        Parameters
        ----------
        offsets : array of int64, shape (rows,)
        timestamps : array of int64, shape (rows,)
            In ms; a builder refuses those before 1970, so such a batch is kept as it is stored.
        """
        before_1970 = offsets[is_before_1970(timestamps)]
        rows = self._assign(offsets, int(offsets[-1]), before_1970) if len(offsets) else 0
        if rows != len(offsets):
            raise InternalError(
                "rows of an export are of no stored batch",
                found=f"{len(offsets)} rows",
                expected=f"{rows} rows",
            )

    def assign_rest(self) -> None:
        """Note the batches that come after the last row."""
        nothing = np.empty(0, np.int64)
        self._assign(nothing, None, nothing)

    def take(self) -> NotedBatches:
        """Return what was noted since the last call."""
        raw = [each for one in self._noted for each in one.raw]
        taken = NotedBatches(_joined([one.headers for one in self._noted]), raw)
        self._noted.clear()
        return taken

    def _assign(
        self,
        offsets: NDArray[np.int64],
        last_offset: int | None,
        before_1970: NDArray[np.int64],
    ) -> int:
        """Note the batches up to the one with *last_offset*; return how many rows they have."""
        parts: list[tuple[Chunk, slice]] = []
        is_reached = False
        while self._chunks and not is_reached:
            chunk = self._chunks[0]
            ends = chunk.headers["last_offset"]
            behind = len(ends)
            if last_offset is not None:
                behind = min(int(np.searchsorted(ends, last_offset)) + 1, behind)
                is_reached = bool(ends[behind - 1] >= last_offset)
            parts.append((chunk, slice(self._done, behind)))
            self._done = behind
            if behind == len(ends):
                self._chunks.popleft()
                self._done = 0
        headers = _joined([chunk.headers[part] for chunk, part in parts])
        until = np.searchsorted(offsets, headers["last_offset"], "right")
        is_kept = np.zeros(len(headers), bool)
        is_kept[np.searchsorted(headers["last_offset"], before_1970)] = True
        self._note(headers, np.diff(until, prepend=0), is_kept, parts)
        return int(until[-1]) if len(until) else 0

    def _note(
        self,
        headers: BatchHeaders,
        counts: NDArray[np.int64],
        is_kept: NDArray[np.bool_],
        parts: list[tuple[Chunk, slice]],
    ) -> None:
        """Note *headers*, which are those of *parts*, and how many rows each batch has.

        Those that are kept are not built from rows, whatever the headers say.
        """
        if not len(headers):
            return
        is_cut = (headers["base_offset"] < self._start_offset) | (
            headers["last_offset"] >= self._end_offset
        )
        if self.count == 0 and self._start_offset > 0:  # where an old wrapper begins is not told
            is_cut[0] |= headers["records_count"][0] < 0
        is_built = is_built_from_rows(headers) & ~is_kept & (counts > 0)
        # records of old formats get new batches, if their times allow it
        needs_bytes = is_kept | (~is_built & (counts > 0) & (headers["magic"] == CURRENT_MAGIC))
        if (needs_bytes & is_cut).any():
            self._refuse_part(headers[np.argmax(needs_bytes & is_cut)])
        is_built &= is_cut | (headers["records_count"] == counts)
        raw: list[bytes | None] = [None] * len(headers)
        if not is_built.all():
            stored = [(chunk, row) for chunk, part in parts for row in _range_of(part)]
            for index in np.flatnonzero(~is_built & ~is_cut).tolist():
                raw[index] = _stored_bytes(*stored[index])
        headers["records_count"] = counts
        if is_cut.any():
            self._cut(headers, is_cut)
            for index in np.flatnonzero(~is_built & is_cut).tolist():
                raw[index] = _raw_of_a_part(headers[index])
        self.count += len(headers)
        self._noted.append(NotedBatches(headers, raw))

    def _refuse_part(self, header: Any) -> NoReturn:
        base_offset, next_offset = int(header["base_offset"]), int(header["last_offset"]) + 1
        if base_offset < self._start_offset:
            bound, expected = "a start", f"a start at offset {next_offset} or later"
            expected += f": delete_records({next_offset}) moves the log start there"
        else:
            bound, expected = "an end", f"an end at offset {base_offset} or earlier"
        raise IllegalArgumentError(
            "a batch with timestamps before 1970, or a header that no builder makes, can only be "
            "exported whole",
            found=f"{bound} within the batch at offset {base_offset}",
            expected=expected,
        )

    def _cut(self, headers: BatchHeaders, is_cut: NDArray[np.bool_]) -> None:
        """Make of batches across a bound what they are within it."""
        headers["crc"][is_cut] = 0
        ahead = np.maximum(self._start_offset - headers["base_offset"], 0)
        has_sequence = headers["base_sequence"] >= 0
        moved = (headers["base_sequence"].astype(np.int64) + ahead) & MAX_INT
        headers["base_sequence"] = np.where(has_sequence, moved, headers["base_sequence"])
        headers["base_offset"] += ahead
        headers["last_offset"] = np.minimum(headers["last_offset"], self._end_offset - 1)


def is_built_from_rows(headers: BatchHeaders) -> NDArray[np.bool_]:
    """Return which batches can be built again from their records, by what a builder takes."""
    attributes = headers["attributes"]
    has_producer = headers["producer_id"] >= 0
    is_known = (headers["producer_epoch"] >= 0) & (headers["base_sequence"] >= 0)
    is_built: NDArray[np.bool_] = (
        (headers["magic"] == CURRENT_MAGIC)
        & (attributes & ~BUILT_ATTRIBUTES == 0)
        & (attributes & CODEC_MASK <= max(Codec))
        & ((has_producer & is_known) | (headers["producer_id"] == -1))
        & (has_producer | (attributes & TRANSACTIONAL_FLAG == 0))
        & ((headers["base_timestamp"] >= 0) | (attributes & DELETE_HORIZON_FLAG == 0))
    )
    return is_built


def _joined(parts: list[BatchHeaders]) -> BatchHeaders:
    """Return a new array of the headers; as plain bytes, since NumPy looks at each field else."""
    dtype = batch_header_dtype()
    plain = f"V{dtype.itemsize}"
    rows = [np.zeros(0, plain), *(part.view(plain) for part in parts)]
    return np.concatenate(rows).view(dtype)


def _range_of(part: slice) -> range:
    return range(part.start, part.stop)


def _stored_bytes(chunk: Chunk, row: int) -> bytes:
    header = chunk.headers[row]
    position = int(header["position"])
    return bytes(chunk.data[position : position + int(header["size_bytes"])])


def _raw_of_a_part(header: Any) -> bytes | None:
    """Return what stands for a part of a batch without rows in it; None: it has rows, or is old."""
    if header["magic"] != CURRENT_MAGIC or header["records_count"]:
        return None
    return encode_empty_batch(header)
