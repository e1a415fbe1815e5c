"""Which parts of a log can have rows for a filter of Arrow: pyarrow itself says it.

A filter that an engine pushes down is an expression, which has no public form. But a dataset of
pyarrow leaves out a fragment where the filter contradicts what is known of all its rows. So each
range of offsets or timestamps becomes a fragment without a file, and pyarrow says which of them are
left. A range for which it proves nothing is read.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from operator import and_
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from segstore.log.chunk_reader import CHUNK_BYTES
from segstore.number_limits import MAX_LONG, MIN_LONG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from segstore.log.scan import LogScan

Range: TypeAlias = tuple[int, int]
"""From the first to below the second."""

FIRST_PIECES: Final = 64
MORE_PIECES: Final = 16
"""A range is cut into so many pieces at first; then the ends of what is left, again and again."""
MOST_RANGES: Final = 256
"""With more of them, it costs more to begin each than to read what lies between two."""
LEAST_CHUNK_BYTES: Final = 16 * 1024
BYTES_OF_RECORD: Final = 128
"""So large a record is taken to be; of larger ones, more is read."""
YEARS_1_TO_9999: Final = (-62_135_596_800_000, 253_402_300_800_000)
"""In ms since 1970. Timestamps outside of them are not told apart."""


class ArrowFilter:
    """A filter of Arrow over rows of a schema.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the rows.
    expression : pyarrow.dataset.Expression
        A row for which it is false or null is left out.

    Attributes
    ----------
    names : frozenset of str
        The columns that the filter looks at.

    Raises
    ------
    pyarrow.ArrowException
        There is no such column, or its type does not fit.
    """

    def __init__(self, schema: Any, expression: Any) -> None:
        self.expression = expression
        self.names = frozenset(names_in(schema, filter=expression))
        self._schema = schema

    def may_match(self, guarantees: Sequence[Any]) -> set[int]:
        """Return which of *guarantees*, each true of all rows of a part, allow a row to match."""
        return _not_contradicted(self._schema, self.expression, guarantees)

    def may_fail(self, guarantees: Sequence[Any]) -> set[int]:
        """Return which of *guarantees* allow a row not to match."""
        fails = ~self.expression | self.expression.is_null()
        return _not_contradicted(self._schema, fails, guarantees)


def names_in(schema: Any, **query: Any) -> list[str]:
    """Return the columns of *schema* that a filter or the expressions of ``columns`` look at.

    They are found by leaving out one at a time: then pyarrow misses it.

    Raises
    ------
    pyarrow.ArrowException
        The query does not fit the schema.
    """
    import pyarrow as pa
    from pyarrow import dataset

    dataset.Scanner.from_batches([], schema=schema, **query)
    found = []
    for number, name in enumerate(schema.names):
        try:
            dataset.Scanner.from_batches([], schema=schema.remove(number), **query)
        except pa.ArrowInvalid:
            found.append(name)
    return found


class _Part(NamedTuple):
    """What is known of all rows of a part of a scan."""

    scan: LogScan
    offsets: Range
    timestamps: Range

    def guarantee(self, names: frozenset[str]) -> Any:
        """Return it as an expression over those of the columns that *names* has."""
        import pyarrow as pa
        from pyarrow import compute

        topic, partition = self.scan._topic_partition  # noqa: SLF001 - asked by its own module
        known = {
            "topic": [compute.field("topic") == topic],
            "partition": [compute.field("partition") == pa.scalar(partition, pa.int32())],
            "offset": [*_within("offset", self.offsets)],
            "timestamp": [*_within("timestamp", self.timestamps)],
        }
        parts = [one for name in known if name in names for one in known[name]]
        return reduce(and_, parts, compute.scalar(True))


def matching_parts(scans: Iterable[LogScan], where: ArrowFilter) -> tuple[list[LogScan], bool]:
    """Return parts of *scans*, in their order, that have all rows that match; maybe others too.

    Returns
    -------
    parts : list of LogScan
        Each with its range of offsets and of timestamps.
    all_match : bool
        Whether each row of the parts matches for sure, so that no filter is needed.
    """
    names = where.names
    parts = [
        _Part(scan, (scan.start_offset, scan.end_offset), scan._timestamps)  # noqa: SLF001 - as above
        for scan in scans
    ]
    parts = _kept(where, [part for part in parts if part.offsets[0] < part.offsets[1]])
    if not parts:
        return [], True
    offsets = [(min(one.offsets[0] for one in parts), max(one.offsets[1] for one in parts))]
    if "offset" in names:
        offsets = _matching_ranges(where, "offset", _pieces(*offsets[0], FIRST_PIECES))
    timestamps = [(MIN_LONG, MAX_LONG)]
    if "timestamp" in names:
        first, last = YEARS_1_TO_9999
        years = [(MIN_LONG, first), *_pieces(first, last, FIRST_PIECES), (last, MAX_LONG)]
        timestamps = _matching_ranges(where, "timestamp", years)
    if not timestamps:
        return [], True
    within = timestamps[0][0], timestamps[-1][1]
    parts = _kept(
        where,
        [
            part._replace(offsets=both, timestamps=_common(part.timestamps, within))
            for part in parts
            for one in offsets
            if (both := _common(part.offsets, one))[0] < both[1]
        ],
    )
    all_match = not where.may_fail([part.guarantee(names) for part in parts])
    return [
        part.scan._part(  # noqa: SLF001 - as above
            *part.offsets, chunk_bytes=_chunk_bytes(*part.offsets), timestamps=part.timestamps
        )
        for part in parts
    ], all_match


def _kept(where: ArrowFilter, parts: list[_Part]) -> list[_Part]:
    kept = where.may_match([part.guarantee(where.names) for part in parts])
    return [part for number, part in enumerate(parts) if number in kept]


def _chunk_bytes(start: int, end: int) -> int:
    """Return how much to read at once of a range: of a few records no more than they may need."""
    return min(CHUNK_BYTES, max(LEAST_CHUNK_BYTES, (end - start) * BYTES_OF_RECORD))


def _common(one: Range, other: Range) -> Range:
    return max(one[0], other[0]), min(one[1], other[1])


# ---- ranges --------------------------------------------------------------------------------------


def _matching_ranges(where: ArrowFilter, name: str, pieces: list[Range]) -> list[Range]:
    """Return the ranges in which values of a column match, as exactly as pyarrow knows."""

    def kept(candidates: list[Range]) -> list[Range]:
        guarantees = [reduce(and_, _within(name, one)) for one in candidates]
        return [candidates[number] for number in sorted(where.may_match(guarantees))]

    return exact_ranges(kept, pieces)


def exact_ranges(kept: Callable[[list[Range]], list[Range]], pieces: list[Range]) -> list[Range]:
    """Cut the pieces at the ends of what is left of a range until the ends are exact.

    Parameters
    ----------
    kept : callable
        Returns those of some ranges that are not empty for sure, in their order.
    pieces : list of tuple of int
        Ascending. One that begins with the smallest or ends with the largest integer is not cut.

    Returns
    -------
    list of tuple of int
        Disjoint, ascending. What lies between them is empty.
    """
    pieces = kept(pieces)
    while ends := {
        piece
        for piece in _at_ends(pieces)
        if piece[1] - piece[0] > 1 and piece[0] > MIN_LONG and piece[1] < MAX_LONG
    }:
        if len(ends) > MOST_RANGES:
            break
        smaller = [
            part for piece in pieces if piece in ends for part in _pieces(*piece, MORE_PIECES)
        ]
        pieces = sorted([*kept(smaller), *(piece for piece in pieces if piece not in ends)])
    joined: list[Range] = []
    for piece in pieces:
        if joined and joined[-1][1] == piece[0]:
            joined[-1] = joined[-1][0], piece[1]
        else:
            joined.append(piece)
    return joined


def _at_ends(pieces: list[Range]) -> Iterator[Range]:
    """Yield the pieces that have no neighbor on a side."""
    for before, piece, behind in zip([None, *pieces], pieces, [*pieces[1:], None], strict=False):
        if before is None or before[1] < piece[0] or behind is None or piece[1] < behind[0]:
            yield piece


def _pieces(start: int, end: int, count: int) -> list[Range]:
    """Cut a range into *count* pieces of about the same size, none empty."""
    size = end - start
    cuts = sorted({start + size * number // count for number in range(count + 1)})
    return [*pairwise(cuts)]


def _within(name: str, values: Range) -> Iterator[Any]:
    """Yield expressions that say that a column is in a range.

    The end is included: pyarrow does not know that nothing is between 4 and 5.
    """
    import pyarrow as pa
    from pyarrow import compute

    kind = pa.int64() if name == "offset" else pa.timestamp("ms", "UTC")
    start, end = values
    if start > MIN_LONG:
        yield compute.field(name) >= pa.scalar(start, kind)
    if end < MAX_LONG:
        yield compute.field(name) <= pa.scalar(end - 1, kind)


def _not_contradicted(schema: Any, expression: Any, guarantees: Sequence[Any]) -> set[int]:
    """Return the indexes of the guarantees that *expression* does not contradict."""
    import pyarrow as pa
    from pyarrow import dataset, fs

    no_files, nowhere = dataset.IpcFileFormat(), fs.LocalFileSystem()
    fragments = [
        no_files.make_fragment(str(number), nowhere, partition_expression=guarantee)
        for number, guarantee in enumerate(guarantees)
    ]
    parts = dataset.FileSystemDataset(fragments, schema, no_files, nowhere)
    try:
        return {int(fragment.path) for fragment in parts.get_fragments(expression)}
    except pa.ArrowException:  # such as a bound that no timestamp in ns can be
        return {*range(len(guarantees))}
