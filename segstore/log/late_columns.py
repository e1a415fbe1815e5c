"""Reading for a filter that few rows match: its columns first, the others where a row matches.

A search for a key decodes keys and offsets of all records. Values are copied only around those that
were found: the stored batches that have them are read a second time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.log.chunk_reader import CHUNK_BYTES, LEAST_CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segstore._core import ArrowBatch
    from segstore.log.matching_parts import ArrowFilter
    from segstore.log.scan import LogScan

LEAST_RECORDS: Final = 100
"""A smaller range is read in one pass."""
_FIRST_FOUND: Final = 2
_RARE: Final = 4
"""Rows may be found in every fourth Arrow batch, and in the first two."""


class LateColumns:
    """Reads scans, or parts of them, for one query; threads may read several at a time.

    Once it turns out that many batches have rows that match, the rest is read in one pass. Files
    without an index are read so from the start.

    Parameters
    ----------
    columns : sequence of str
        What is decoded of rows that match.
    where : ArrowFilter
    rows : int
        About so many are in an Arrow batch.
    parts : list of LogScan
        Gets the parts that are read instead of the rest of a scan.
    """

    def __init__(
        self, columns: Sequence[str], where: ArrowFilter, rows: int, parts: list[LogScan]
    ) -> None:
        self._columns = columns
        self._first = tuple(dict.fromkeys([*where.names, "offset"]))
        self._where = where
        self._rows = rows
        self._parts = parts
        self._batches_read = self._batches_found = 0

    @property
    def _is_worth_it(self) -> bool:
        """Whether there are other columns, and rows that match are rare so far."""
        is_rare = self._batches_found <= _FIRST_FOUND + self._batches_read // _RARE
        return is_rare and not {*self._columns} <= {*self._first}

    def __call__(self, scan: LogScan, first_rows: int | None = None) -> Iterator[ArrowBatch]:
        """Yield all rows of *scan* that match, and some that do not.

        Parameters
        ----------
        scan : LogScan
        first_rows : int or None
            So many are decoded first, as for `decode_to_batches`.
        """
        is_small = scan.end_offset - scan.start_offset < LEAST_RECORDS
        if is_small or not scan._has_index or not self._is_worth_it:  # noqa: SLF001 - asked by its own module
            return scan._arrow_batches(  # noqa: SLF001 - a projection of its own
                self._columns, self._rows, first_rows=first_rows
            )
        return self._where_found(scan, first_rows)

    def _where_found(self, scan: LogScan, first_rows: int | None) -> Iterator[ArrowBatch]:
        import pyarrow as pa

        read = scan._arrow_batches(self._first, self._rows, first_rows=first_rows)  # noqa: SLF001 - the same
        for batch in read:
            table = pa.Table.from_batches([pa.record_batch(batch)])
            offsets = table.filter(self._where.expression)["offset"]
            self._batches_read += 1
            if len(offsets):
                self._batches_found += 1
                is_last = not self._is_worth_it
                end = scan.end_offset if is_last else offsets[-1].as_py() + 1
                few = not is_last and len(offsets) == 1
                part = scan._part(  # noqa: SLF001 - the same
                    offsets[0].as_py(), end, chunk_bytes=LEAST_CHUNK_BYTES if few else CHUNK_BYTES
                )
                if is_last:
                    self._parts.append(part)
                yield from part._arrow_batches(self._columns, self._rows)  # noqa: SLF001 - the same
                if is_last:
                    return
