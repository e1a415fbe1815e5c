"""Whether two streams of rows are the same, wherever they are cut into batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.numpy_on_demand import np
from segstore.records.arrow_numpy import array_of_numbers, numbers_of
from segstore.tables.row_queue import RowQueue
from segstore.types import NO_PARTITION_LEADER_EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


def first_difference(
    expected: Iterator[pa.RecordBatch], found: Iterator[pa.RecordBatch]
) -> int | None:
    """Return the offset of the first record that is not in both, or differs; None = there is none.

    Parameters
    ----------
    expected, found : iterator of RecordBatch
        With the columns of an export, offsets ascending.
    """
    ours, theirs = RowQueue(expected), RowQueue(found)
    while True:
        count = min(ours.fill(), theirs.fill())
        if not count:
            rest = ours.first_offset, theirs.first_offset
            return min((one for one in rest if one is not None), default=None)
        left, right = ours.take(count), theirs.take(count)
        if not _are_same(left, right):
            row = next(
                n for n in range(count) if not _are_same(left.slice(n, 1), right.slice(n, 1))
            )
            return min(int(one.column("offset")[row].as_py()) for one in (left, right))


def _are_same(expected: pa.RecordBatch, found: pa.RecordBatch) -> bool:
    """Whether they are equal; a record that had no leader epoch may have got one."""
    if expected.equals(found):
        return True
    column = expected.schema.get_field_index("leaderEpoch")
    ours, theirs = (numbers_of(one.column(column)) for one in (expected, found))
    epochs = array_of_numbers(np.where(ours == NO_PARTITION_LEADER_EPOCH, ours, theirs))
    return bool(expected.equals(found.set_column(column, expected.schema.field(column), epochs)))
