"""Which parts of a log can have rows for a filter of Arrow: pyarrow itself says it.

A filter that an engine pushes down is an expression, which has no public form. But a dataset of
pyarrow leaves out a fragment where the filter contradicts what is known of all its rows. So each
range of offsets or timestamps becomes a fragment without a file, and pyarrow says which of them are
left. A range for which it proves nothing is read.

The ranges are cut at the constants of the filter, which its pickled form has as Arrow data. Of NaN
pyarrow proves what is wrong: `offset < nan` for each row with a known least offset. So all is read
where a constant is NaN, where a function could make one (`sqrt(-1)`), or where the pickled form
cannot be read.
"""

from __future__ import annotations

import re
from functools import reduce
from itertools import pairwise
from operator import and_
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from segstore.log.chunk_reader import CHUNK_BYTES, LEAST_CHUNK_BYTES
from segstore.number_limits import MAX_LONG, MIN_LONG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from segstore.log.scan import LogScan

Range: TypeAlias = tuple[int, int]
"""From the first to below the second."""

MOST_CONSTANTS: Final = 200
"""Of more, such as of a long list, only some cut: each range costs some 30 µs."""
BYTES_OF_RECORD: Final = 128
"""So large a record is taken to be; of larger ones, more is read."""
_NEVER_NAN: Final = frozenset(
    """
    and and_kleene and_not and_not_kleene equal greater greater_equal if_else invert is_in is_nan
    is_null is_valid less less_equal not_equal or or_kleene true_unless_null xor
    bit_wise_and bit_wise_not bit_wise_or bit_wise_xor
    binary_length count_substring count_substring_regex ends_with find_substring
    find_substring_regex match_like match_substring match_substring_regex starts_with utf8_length
    day day_of_week day_of_year floor_temporal hour minute month quarter second week year
    """.split()  # noqa: SIM905 - a list has a line for each
)
"""Functions of Arrow that give no floating-point number, or only one that they were given."""
_CALL: Final = re.compile("^call: '(.*)'$", re.MULTILINE)


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
    numbers, times : list of int
        Its constants, ascending: numbers rounded down, and timestamps in ms.
    is_provable : bool
        Whether what pyarrow proves about it is right.

    Raises
    ------
    pyarrow.ArrowException
        There is no such column, or its type does not fit.
    """

    def __init__(self, schema: Any, expression: Any) -> None:
        self.expression = expression
        self.names = frozenset(names_in(schema, filter=expression))
        constants = constants_in(expression)
        self.is_provable = constants is not None
        self.numbers, self.times = constants or ([], [])
        self._schema = schema

    def may_match(self, guarantees: Sequence[Any]) -> set[int]:
        """Return which of *guarantees*, each true of all rows of a part, allow a row to match."""
        return self._not_contradicted(self.expression, guarantees)

    def may_fail(self, guarantees: Sequence[Any]) -> set[int]:
        """Return which of *guarantees* allow a row not to match."""
        fails = ~self.expression | self.expression.is_null()
        return self._not_contradicted(fails, guarantees)

    def _not_contradicted(self, expression: Any, guarantees: Sequence[Any]) -> set[int]:
        if not self.is_provable:
            return {*range(len(guarantees))}
        return _not_contradicted(self._schema, expression, guarantees)


def names_in(schema: Any, **query: Any) -> list[str]:
    """Return the columns of *schema* that a filter or the expressions of ``columns`` look at.

    They are found by leaving out one at a time: then pyarrow misses it. An expression that cannot
    be pickled may name a column by its number, ``field(0)``. Then all are needed, in their order.

    Raises
    ------
    pyarrow.ArrowException
        The query does not fit the schema.
    """
    import pyarrow as pa
    from pyarrow import dataset

    dataset.Scanner.from_batches([], schema=schema, **query)
    expressions = query.get("columns") or {"": query.get("filter")}
    if any(one is not None and _pickled(one) is None for one in expressions.values()):
        return list(schema.names)
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
        offsets = _matching_ranges(where, "offset", offsets[0], where.numbers)
    timestamps = [(MIN_LONG, MAX_LONG)]
    if "timestamp" in names:
        timestamps = _matching_ranges(where, "timestamp", timestamps[0], where.times)
    if not timestamps:
        return [], True
    within = timestamps[0][0], timestamps[-1][1]
    parts = _kept(
        where,
        [
            part._replace(offsets=both, timestamps=_common(part.timestamps, within))
            for part in parts
            for one in (offsets if part.scan._has_index else _as_one(offsets))  # noqa: SLF001 - as above
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


def matching_offsets(where: ArrowFilter) -> Range:
    """Return the range of all offsets that can match."""
    if "offset" not in where.names:
        return MIN_LONG, MAX_LONG
    ranges = _matching_ranges(where, "offset", (MIN_LONG, MAX_LONG), where.numbers)
    return (ranges[0][0], ranges[-1][1]) if ranges else (0, 0)


def _as_one(ranges: list[Range]) -> list[Range]:
    """Return a range with all of them, for what is read from the beginning each time."""
    return [(ranges[0][0], ranges[-1][1])] if ranges else []


def _kept(where: ArrowFilter, parts: list[_Part]) -> list[_Part]:
    kept = where.may_match([part.guarantee(where.names) for part in parts])
    return [part for number, part in enumerate(parts) if number in kept]


def _chunk_bytes(start: int, end: int) -> int:
    """Return how much to read at once of a range: of a few records no more than they may need."""
    return min(CHUNK_BYTES, max(LEAST_CHUNK_BYTES, (end - start) * BYTES_OF_RECORD))


def _common(one: Range, other: Range) -> Range:
    return max(one[0], other[0]), min(one[1], other[1])


# ---- ranges --------------------------------------------------------------------------------------


def _matching_ranges(
    where: ArrowFilter, name: str, values: Range, constants: list[int]
) -> list[Range]:
    """Return the ranges in which values of a column can match; they do not touch."""
    from pyarrow import compute

    start, end = values
    cuts = {cut for constant in constants for cut in (constant, constant + 1) if start < cut < end}
    pieces = [*pairwise([start, *sorted(cuts), end])]
    kept = where.may_match(
        [reduce(and_, _within(name, one), compute.scalar(True)) for one in pieces]
    )
    joined: list[Range] = []
    for number in sorted(kept):
        first, behind = pieces[number]
        if joined and joined[-1][1] == first:
            joined[-1] = joined[-1][0], behind
        else:
            joined.append((first, behind))
    return joined


def constants_in(expression: Any) -> tuple[list[int], list[int]] | None:
    """Return constants of an expression: numbers rounded down, and timestamps in ms.

    None where one is NaN, or may be made of them, or where they cannot be read. Text and the like
    is ignored.
    """
    import pyarrow as pa
    from pyarrow import compute

    numbers: set[int] = set()
    times: set[int] = set()
    try:
        if not calls_in(expression) <= _NEVER_NAN:
            return None
        for values in _constants_of(expression):
            kind = values.type
            if pa.types.is_timestamp(kind):
                ms = values.cast(pa.timestamp("ms", kind.tz), safe=False)
                times.update(ms.cast(pa.int64()).drop_null().to_pylist())
            elif pa.types.is_floating(kind):
                if compute.any(compute.is_nan(values)).as_py():
                    return None
                whole = compute.floor(values).cast(pa.int64(), safe=False)
                numbers.update(whole.drop_null().to_pylist())
            elif pa.types.is_integer(kind):
                numbers.update(values.cast(pa.int64(), safe=False).drop_null().to_pylist())
    except (pa.ArrowException, TypeError, ValueError, LookupError, AttributeError):
        return None
    return _some(numbers), _some(times)


def calls_in(expression: Any) -> set[str]:
    """Return the names of the functions of an expression; its pickled form has them in its schema.

    As text, since pyarrow gives out the metadata of a schema as a dict, and names repeat there.

    Raises
    ------
    pyarrow.ArrowException, TypeError
        It has no such form.
    ValueError
        It has something else than a constant or a column, and no function is found.
    """
    import pyarrow as pa

    schema = pa.ipc.open_file(_pickled(expression)).schema
    calls = {*_CALL.findall(schema.to_string(show_schema_metadata=True))}
    if not calls and not {*(schema.metadata or {b"": b""})} <= {b"literal", b"field_ref"}:
        raise ValueError(schema)
    return calls


def _constants_of(expression: Any) -> Iterator[Any]:
    """Yield the constants of an expression as arrays, of which none is nested.

    The pickled form is a file of Arrow with a column for each.
    """
    import pyarrow as pa

    left = pa.ipc.open_file(_pickled(expression)).get_batch(0).columns
    while left:
        values = left.pop()
        if pa.types.is_struct(values.type):
            left += values.flatten()
        elif pa.types.is_dictionary(values.type):
            left.append(values.dictionary)
        elif pa.types.is_nested(values.type):
            left.append(values.flatten())  # of those without it the constants cannot be read
        else:
            yield values


def _pickled(expression: Any) -> Any:
    """Return the pickled form of an expression; None where it has none."""
    import pyarrow as pa

    try:
        _, (pickled, *_) = expression.__reduce__()
    except (pa.ArrowException, TypeError, ValueError, AttributeError):
        return None
    return pickled


def _some(constants: set[int]) -> list[int]:
    """Return them in order; of many only some."""
    every = sorted(constants)
    return every[:: -(-len(every) // MOST_CONSTANTS)] if every else []


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
