"""Records as a dataset of pyarrow, of which an engine such as DuckDB reads what a query needs.

`RecordDataset` stands where pyarrow's own datasets do. An engine asks it for a scanner with columns
and a filter; then the logs are scanned as of that moment, in the parts that may match.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import chain
from operator import and_
from typing import TYPE_CHECKING, Any, Final, NoReturn

from segstore._core import ArrowStream, ColumnDecoder
from segstore.arguments import natural, positive, refuse_pickle
from segstore.errors import ArgumentTypeError, IllegalArgumentError
from segstore.log.late_columns import LateColumns
from segstore.log.matching_parts import (
    ArrowFilter,
    matching_offsets,
    matching_parts,
    names_in,
)
from segstore.log.skipped_ranges import warn_of_skipped
from segstore.notebook import as_html
from segstore.records.arrow_rows import refuse_undecided
from segstore.records.columns import MAX_BATCH_ROWS, record_columns
from segstore.records.compression import codec_table

try:
    import pyarrow as pa
    from pyarrow import compute, dataset, fs
except ImportError as error:
    message = "a dataset needs pyarrow: pip install 'segstore[arrow]'"
    raise ImportError(message) from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from segstore._core import ArrowBatch
    from segstore.log.scan import LogScan
    from segstore.record_columns import RecordColumns

    BatchesOf: TypeAlias = Callable[[LogScan], Iterator[ArrowBatch]]
    """What reads a scan, or a part of it."""
    Columns: TypeAlias = Sequence[str] | Mapping[str, Any] | None
    """Names, or expressions by name; None: all."""

_COUNTED: Final = ("offset",)
"""Of what no column is wanted the rows are counted by this one."""
FIRST_ROWS: Final = 1_000
"""So many are decoded first: of ``LIMIT 3`` the engine asks for no more."""
_NO_SUCH_READ: Final = "a segstore dataset is read with scanner(), to_batches() or to_table() only"


def one_by_one(scans: Iterable[LogScan], batches_of: BatchesOf) -> Iterator[ArrowBatch]:
    """Yield the rows of one scan after the other."""
    return chain.from_iterable(map(batches_of, scans))


class RecordSource:
    """Where a dataset has its rows from: nothing is read before it is asked.

    Parameters
    ----------
    columns : sequence of str
        That there are.
    scans : callable
        Returns scans as of now.
    read : callable
        As `one_by_one`, which is given what reads a scan, or a part of it.
    scans_within : callable or None
        Returns scans that need not have other offsets than those from the first to below the
        second, where that is cheaper than to take a part of a scan.
    """

    def __init__(
        self,
        columns: Sequence[str],
        scans: Callable[[], Sequence[LogScan]],
        read: Callable[[Iterable[LogScan], BatchesOf], Iterator[ArrowBatch]] = one_by_one,
        scans_within: Callable[[int, int], Sequence[LogScan]] | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self._scans = scans
        self._read = read
        self._scans_within = scans_within

    def read(
        self, columns: Sequence[str], where: ArrowFilter | None, rows: int = MAX_BATCH_ROWS
    ) -> tuple[Iterator[ArrowBatch], bool]:
        """Begin to read; parts where no row can match are left out.

        Parameters
        ----------
        columns : sequence of str
            What is decoded.
        where : ArrowFilter or None
        rows : int
            About so many are in a batch; fewer in the first ones.

        Returns
        -------
        batches : iterator of ArrowBatch
        all_match : bool
            False: the filter must still be applied to them.

        Warns
        -----
        UserWarning
            When the reading ends: what was left out, as `LogScan.skipped` has it.
        """
        scans, all_match = self._matching(where)
        parts: list[LogScan] = []
        late = None
        if where is not None and not all_match:
            late = LateColumns(columns, where, rows, parts)
        first = [FIRST_ROWS]

        def noted(scan: LogScan) -> Iterator[ArrowBatch]:
            parts.append(scan)
            first_rows = first.pop() if first else None
            if late is not None:
                return late(scan, first_rows)
            return scan._arrow_batches(columns, rows, first_rows=first_rows)  # noqa: SLF001 - a projection of its own

        return _and_warn(self._read(scans, noted), parts), all_match

    def has_undecided(self, where: ArrowFilter | None) -> bool:
        """Whether there are records of transactions, and it was not asked how these ended."""
        return any(scan._has_undecided() for scan in self._matching(where)[0])  # noqa: SLF001 - asked by its dataset

    def _matching(self, where: ArrowFilter | None) -> tuple[Sequence[LogScan], bool]:
        """Return what may have rows that match, and whether all of them do."""
        if where is None:
            return self._scans(), True
        if self._scans_within is None:
            return matching_parts(self._scans(), where)
        return matching_parts(self._scans_within(*matching_offsets(where)), where)


def _and_warn(batches: Iterator[ArrowBatch], parts: list[LogScan]) -> Iterator[ArrowBatch]:
    """Yield *batches*; warn at their end of what the *parts* that were read have left out."""
    try:
        yield from batches
    finally:
        warn_of_skipped(dict.fromkeys(lost for part in parts for lost in part.skipped))


class RecordDataset(dataset.UnionDataset):  # type: ignore[misc] # of a library without types
    """Records that an engine reads lazily; ``dataset()`` of a log or a topic returns one.

    DuckDB, ``polars.scan_pyarrow_dataset`` and pyarrow itself push columns and filters down. Each
    query sees what there is when it begins. Ranges of offsets and timestamps, partitions and topic
    in a filter decide what is read; the rest of the filter is applied to the rows. With
    ``on_damage="skip"``, a query ends with a `UserWarning` that names the ranges it has left out.

    Parameters
    ----------
    source : RecordSource
    where : pyarrow.dataset.Expression or None
        A filter for every query.
    """

    def __init__(self, source: RecordSource, where: Any = None) -> None:
        # Without overridden methods pyarrow would look for files: there are none, but no crash.
        schema = pa.schema(ColumnDecoder(codec_table(), source.columns))
        no_files, nowhere = dataset.IpcFileFormat(), fs.LocalFileSystem()
        nothing = [no_files.make_fragment(_NO_SUCH_READ, nowhere)]
        super().__init__(schema, [dataset.FileSystemDataset(nothing, schema, no_files, nowhere)])
        self.source = source
        self._schema = schema
        self._where = where

    def scanner(  # noqa: PLR0913 - as of pyarrow
        self,
        columns: Columns = None,
        filter: Any = None,  # noqa: A002 - pyarrow's name
        batch_size: int = MAX_BATCH_ROWS,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        fragment_scan_options: object | None = None,
        use_threads: bool = True,  # noqa: FBT001, FBT002 - as of pyarrow
        cache_metadata: bool | None = None,  # noqa: FBT001 - as of pyarrow
        memory_pool: object | None = None,
    ) -> RecordScanner:
        """Return what reads the rows of a query; nothing is read yet.

        Parameters
        ----------
        columns : sequence of str, mapping of str to pyarrow.dataset.Expression, or None
            Columns of the result. Default: all of the dataset.
        filter : pyarrow.dataset.Expression or None
            Only rows for which it is true.
        batch_size : int
            No batch has more rows.
        batch_readahead, fragment_readahead, fragment_scan_options, cache_metadata, memory_pool
            Without effect: they are about files.
        use_threads : bool
            Without effect: a topic is read in threads where there are cores.

        Raises
        ------
        IllegalArgumentError
            There is no such column, or an expression does not fit its columns.
        """
        del batch_readahead, fragment_readahead, fragment_scan_options, cache_metadata
        del use_threads, memory_pool
        for given in (filter, *(columns.values() if isinstance(columns, Mapping) else ())):
            if given is not None and not isinstance(given, compute.Expression):
                raise ArgumentTypeError(
                    f"a filter or a column must be an expression of pyarrow, not {given!r}"[:200],
                    found=type(given).__name__,
                    expected="pyarrow.dataset.Expression",
                )
        every = [one for one in (self._where, filter) if one is not None]
        where = reduce(and_, every) if every else None
        return RecordScanner(self.source, self._schema, columns, where, batch_size)

    def filter(self, expression: Any) -> RecordDataset:
        """Return a dataset of the rows that match, of this kind."""
        where = expression if self._where is None else self._where & expression
        return type(self)(self.source, where)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give all rows to any Arrow consumer."""
        return self.scanner().__arrow_c_stream__(requested_schema)

    def _columns_to_append(self, named: RecordColumns) -> ArrowStream:
        return self.scanner()._columns_to_append(named)  # noqa: SLF001 - of one module

    # ---- what pyarrow does only with data of its own ---------------------------------------------

    def sort_by(self, sorting: Any, **options: Any) -> Any:
        """Return the rows in an order, as a dataset in memory."""
        return self._in_memory().sort_by(sorting, **options)

    def join(self, *arguments: Any, **options: Any) -> Any:
        """Return the rows joined with another dataset, as a dataset in memory."""
        return self._in_memory().join(*arguments, **options)

    def join_asof(self, *arguments: Any, **options: Any) -> Any:
        """Return the rows joined with another dataset by time, as a dataset in memory."""
        return self._in_memory().join_asof(*arguments, **options)

    def _in_memory(self) -> Any:
        return dataset.dataset(self.to_table())

    def get_fragments(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: there are no fragments that could be read one by one."""
        raise _unsupported("get_fragments", "scanner(), to_batches() or to_table()")

    def replace_schema(self, *_: Any) -> NoReturn:
        """Refuse: the schema is that of the columns."""
        raise _unsupported("replace_schema", "to_table().cast(schema)")

    def __reduce__(self) -> NoReturn:
        refuse_pickle("a dataset of records", "open the log there, and ask it for a dataset")

    @as_html
    def _repr_html_(self) -> Iterator[tuple[str, object]]:
        yield (
            "columns",
            [{"column": field.name, "type": str(field.type)} for field in self._schema],
        )
        if self._where is not None:
            yield "filter", str(self._where)

    def __repr__(self) -> str:
        return f"RecordDataset({', '.join(self._schema.names)})"


class RecordScanner:
    """The rows of one query, with the methods of ``pyarrow.dataset.Scanner``.

    Each call reads anew, and sees what there is then. A reader that is not read to its end reads no
    more than was asked for, but for what threads have begun.

    Attributes
    ----------
    dataset_schema, projected_schema : pyarrow.Schema
        Of the dataset, and of the result.
    """

    def __init__(
        self, source: RecordSource, schema: Any, columns: Columns, where: Any, batch_size: int
    ) -> None:
        self._source = source
        self._batch_size = positive("batch_size", batch_size)
        self.dataset_schema = schema
        try:
            self._where = None if where is None else ArrowFilter(schema, where)
            self._project(schema, columns)
        except (pa.ArrowException, KeyError) as error:
            found = str(error.args[0]).splitlines()[0]  # pyarrow lists the schema, line by line
            raise IllegalArgumentError(
                f"the query does not fit the columns: {found}",
                found=found,
                expected=f"columns among {', '.join(schema.names)}",
            ) from error

    def _project(self, schema: Any, columns: Columns) -> None:
        """Note which columns are read, and what is made of them."""
        self._expressions: Mapping[str, Any] | None = None
        if columns is None:
            names, self.projected_schema = schema.names, schema
        elif isinstance(columns, Mapping):
            self._expressions = dict(columns)
            names = names_in(schema, columns=self._expressions)
            empty = dataset.Scanner.from_batches([], schema=schema, columns=self._expressions)
            self.projected_schema = empty.projected_schema
        else:
            names = list(columns)
            self.projected_schema = pa.schema([schema.field(name) for name in names])
        needed = {*names, *(self._where.names if self._where is not None else ())}
        self._read = tuple(name for name in schema.names if name in needed) or _COUNTED

    def to_reader(self) -> Any:
        """Return the rows as a ``pyarrow.RecordBatchReader``."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches())

    def to_batches(self) -> Iterator[Any]:
        """Return an iterator over the rows as ``pyarrow.RecordBatch``."""
        return self._batches()

    def scan_batches(self) -> Iterator[Any]:
        """Return the same, each with the fragment that it is from."""
        return (dataset.TaggedRecordBatch(batch, None) for batch in self._batches())

    def to_table(self) -> Any:
        """Return all rows as a ``pyarrow.Table``."""
        return pa.Table.from_batches(self._batches(), self.projected_schema)

    def head(self, num_rows: int) -> Any:
        """Return the first rows as a ``pyarrow.Table``; reading ends with them."""
        missing = natural("num_rows", num_rows)
        found = []
        for batch in self._batches(missing) if missing else ():
            found.append(batch.slice(0, missing))
            missing -= len(found[-1])
            if missing == 0:
                break
        return pa.Table.from_batches(found, self.projected_schema)

    def take(self, indices: Any) -> Any:
        """Return rows by their numbers, as a ``pyarrow.Table``; all are read."""
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        """Return the number of rows; the filter's columns are read, no others."""
        counted = RecordScanner(self._source, self.dataset_schema, (), self._filter, MAX_BATCH_ROWS)
        return sum(batch.num_rows for batch in counted.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the rows to any Arrow consumer."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _columns_to_append(self, named: RecordColumns) -> ArrowStream:
        """Return what an append reads; it refuses by name what is no column of a log."""
        if self._source.has_undecided(self._where):
            refuse_undecided("the dataset")
        projected = self.projected_schema.names
        chosen = record_columns(projected, named)
        names = [one for one in projected if one in chosen or one not in self.dataset_schema.names]
        columns: Columns = names
        if self._expressions is not None:
            columns = {name: self._expressions[name] for name in names}
        part = RecordScanner(
            self._source, self.dataset_schema, columns, self._filter, self._batch_size
        )
        return ArrowStream(part.projected_schema, part.to_batches())

    @property
    def _filter(self) -> Any:
        return None if self._where is None else self._where.expression

    def _batches(self, rows: int = MAX_BATCH_ROWS) -> Iterator[Any]:
        rows = min(rows, self._batch_size, MAX_BATCH_ROWS)
        batches, all_match = self._source.read(self._read, self._where, rows)
        for batch in batches:
            table = pa.Table.from_batches([pa.record_batch(batch)])
            if not all_match:
                table = table.filter(self._filter)
            if not len(table):
                continue
            yield from self._projected(table).to_batches(max_chunksize=self._batch_size)

    def _projected(self, table: Any) -> Any:
        if self._expressions is None:
            return table.select(self.projected_schema.names)
        made = dataset.Scanner.from_batches(
            table.to_batches(), schema=table.schema, columns=self._expressions
        )
        return made.to_table()


def _unsupported(what: str, instead: str) -> IllegalArgumentError:
    return IllegalArgumentError(
        f"a dataset of records has no {what}: use {instead}", found=what, expected=instead
    )
