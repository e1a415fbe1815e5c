"""Rows of several partitions in the order of their timestamps: a merge of the partitions' heads.

A record waits for those before it in its partition. So it counts as being as late as the latest of
them, and the merge of the heads is the stable merge by that time, then by partition. Of each
partition one Arrow batch is in memory: up to the first time at which one of them ends, their rows
can be put in order, many at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from segstore.numpy_on_demand import np
from segstore.records.arrow_numpy import array_of_numbers, numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from segstore._core import ArrowBatch

LEAST_BATCH_BYTES: Final = 256 * 1024
"""Of a partition, so many bytes at least are decoded at once."""
_LONG_RUN: Final = 128
"""Rows of one partition that are copied as a whole rather than one by one."""


class _Head:
    """The rows of one partition that were decoded and not given out yet.

    Attributes
    ----------
    times : array of int64
        By which each row is put in order; ascending.
    """

    __slots__ = ("_batches", "_latest", "_rows", "times")

    def __init__(self, batches: Iterator[ArrowBatch]) -> None:
        self._batches = batches
        self._latest = np.iinfo(np.int64).min
        self._rows: Any = None
        self.times: NDArray[np.int64] = np.empty(0, np.int64)

    def fill(self) -> bool:
        """Decode the next rows; False where there are none."""
        import pyarrow as pa

        found = next(self._batches, None)
        if found is None:
            return False
        self._rows = pa.record_batch(found)
        times = numbers_of(self._rows.column("timestamp"))
        self.times = np.maximum(np.maximum.accumulate(times), self._latest)
        self._latest = self.times[-1]
        return True

    def take(self, count: int) -> tuple[Any, NDArray[np.int64]]:
        """Return the first rows with their times; they are gone from here."""
        rows, times = self._rows.slice(0, count), self.times[:count]
        self._rows, self.times = self._rows.slice(count), self.times[count:]
        return rows, times


def by_timestamp(
    partitions: Sequence[Iterator[ArrowBatch]], rows: int, max_bytes: int
) -> Iterator[Any]:
    """Merge the rows of *partitions*, which have a column ``timestamp``.

    Parameters
    ----------
    partitions : sequence of iterator of ArrowBatch
        None of their batches is empty. Rows of the same time come in the order of this sequence.
    rows, max_bytes : int
        About as much is in a batch.

    Yields
    ------
    pyarrow.RecordBatch

    Raises
    ------
    ImportError
        When pyarrow is not installed.
    """
    try:
        import pyarrow as pa  # noqa: F401 - before anything is read
    except ImportError as error:
        message = "order='timestamp' needs pyarrow: pip install 'segstore[arrow]'"
        raise ImportError(message) from error
    heads = [head for head in map(_Head, partitions) if head.fill()]
    first = np.array([head.times[0] for head in heads], np.int64)
    last = np.array([head.times[-1] for head in heads], np.int64)
    while heads:
        ending = int(np.argmin(last))  # of several that end at that time, the first partition
        parts = []
        for number in np.flatnonzero(first <= last[ending]).tolist():
            head = heads[number]
            side: Literal["left", "right"] = "right" if number <= ending else "left"
            count = int(head.times.searchsorted(last[ending], side))
            if count:
                parts.append(head.take(count))
                if len(head.times):
                    first[number] = head.times[0]
        yield from _in_order(parts, rows, max_bytes)
        if heads[ending].fill():
            first[ending], last[ending] = heads[ending].times[[0, -1]]
        else:
            del heads[ending]
            first, last = np.delete(first, ending), np.delete(last, ending)


def _in_order(
    parts: Sequence[tuple[Any, NDArray[np.int64]]], rows: int, max_bytes: int
) -> Iterator[Any]:
    """Yield the rows of *parts* by their times, in batches of about a size."""
    if len(parts) == 1:
        yield parts[0][0]
        return
    order = np.argsort(np.concatenate([times for _, times in parts]), kind="stable")
    ends = np.cumsum([len(times) for _, times in parts])
    begins = ends - [len(times) for _, times in parts]
    size = sum(batch.nbytes for batch, _ in parts)
    step = min(rows, max(1, len(order) * max_bytes // max(size, 1)))
    given_out = begins.copy()
    for start in range(0, len(order), step):
        chosen = order[start : start + step]
        of_part = np.searchsorted(ends, chosen, "right")
        counts = np.bincount(of_part, minlength=len(parts))
        pieces = [
            (batch.slice(int(done - begin), int(count)))
            for (batch, _), begin, done, count in zip(parts, begins, given_out, counts, strict=True)
        ]
        # where a row is when the pieces lie one behind the other
        places = chosen + (np.cumsum(counts) - counts - given_out)[of_part]
        given_out += counts
        yield _arranged([piece for piece in pieces if len(piece)], places)


def _arranged(pieces: list[Any], places: NDArray[np.int64]) -> Any:
    """Return the rows at *places* of *pieces* that lie one behind the other; all of them."""
    import pyarrow as pa

    breaks = np.flatnonzero(np.diff(places) != 1) + 1
    if len(breaks) * _LONG_RUN > len(places):
        return _joined(pieces).take(array_of_numbers(places))
    table = pa.Table.from_batches(pieces)
    runs = np.split(places, breaks)
    return _joined(
        [piece for run in runs for piece in table.slice(int(run[0]), len(run)).to_batches()]
    )


def _joined(pieces: list[Any]) -> Any:
    """Return batches as one, copied where there are several."""
    import pyarrow as pa

    if len(pieces) == 1:
        return pieces[0]
    (joined,) = pa.Table.from_batches(pieces).combine_chunks().to_batches()
    return joined
