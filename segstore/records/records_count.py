"""How many records are in batches: their headers tell, or they are opened [DUR-85, DUR-87]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from segstore._core import iterate_records
from segstore.errors import CodecError, CorruptRecordError, InvalidRecordError, SegstoreError
from segstore.numpy_on_demand import np
from segstore.types import BATCH_HEADER_BYTES, CONTROL_FLAG, CURRENT_MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from segstore._core import BatchHeaders, CodecTable

__all__ = ["RecordsCounts", "count_records"]

LEAST_RECORD_BYTES: Final = 7  # length, attributes, two deltas, key, value, headers [format.md 5]


class RecordsCounts(NamedTuple):
    """What is in the batches of a header table."""

    counts: NDArray[np.int64]
    """Records of each batch; 0 where nobody can tell, and of a marker."""
    uncounted: list[tuple[int, SegstoreError]]
    """Rows of the batches that could not be opened, and why."""

    @property
    def total(self) -> int:
        """Records of all batches that could be counted."""
        return int(self.counts.sum())

    @property
    def damaged(self) -> list[tuple[int, SegstoreError]]:
        """Those of `uncounted` whose bytes are wrong, and not a library missing or a limit hit."""
        kinds = (CodecError, CorruptRecordError, InvalidRecordError)
        return [(row, error) for row, error in self.uncounted if isinstance(error, kinds)]


def count_records(
    headers: BatchHeaders, read: Callable[[int, int], Buffer], codecs: CodecTable
) -> RecordsCounts:
    """Count the records of each batch.

    A header is believed where its batch has room for so many records. A compressed message set of
    magic 0 or 1 has no count; it is opened, and so is a batch that claims more than fit.

    Parameters
    ----------
    headers : BatchHeaders
        A row a batch.
    read : callable
        Given position and size of a batch, returns its bytes.
    codecs : CodecTable
        To open batches with.
    """
    counts = headers["records_count"].astype(np.int64)
    opened = (counts < 0) | (_is_doubtful(headers, counts) & (headers["magic"] == CURRENT_MAGIC))
    uncounted: list[tuple[int, SegstoreError]] = []
    for row in np.flatnonzero(opened):
        position, size = int(headers["position"][row]), int(headers["size_bytes"][row])
        counts[row] = 0
        try:
            records = iterate_records(read(position, size), codecs, check_crc=False, control=True)
            counts[row] = sum(1 for _ in records)
        except SegstoreError as error:
            uncounted.append((int(row), error))
    counts[(headers["attributes"] & CONTROL_FLAG) != 0] = 0
    return RecordsCounts(counts, uncounted)


def _is_doubtful(headers: BatchHeaders, counts: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether batches are too small for their records, were these not compressed."""
    offsets_count = headers["last_offset"] - headers["base_offset"] + 1
    room = headers["size_bytes"].astype(np.int64) - BATCH_HEADER_BYTES
    doubtful: NDArray[np.bool_] = (counts > offsets_count) | (counts * LEAST_RECORD_BYTES > room)
    return doubtful
