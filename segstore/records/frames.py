"""Frames of any library, reduced to the columns of their records before they are appended."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from segstore._core import ArrowStream, BatchOptions, encode_columns
from segstore.errors import (
    ArgumentTypeError,
    IllegalArgumentError,
    RecordTypeError,
    SegstoreError,
)
from segstore.record_columns import BY_THEIR_NAMES, RecordColumns
from segstore.record_rows import RECORDS
from segstore.records.columns import require_pyarrow
from segstore.records.compression import codec_table
from segstore.records.json_rows import check_json_type, json_objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

_ROWS_OF: Final = {
    "polars.LazyFrame": "has no rows yet: append its collect()",
    "polars.GroupBy": "has no rows of its own: append what its agg() gives",
    "pyspark.DataFrame": "has its rows elsewhere: write it with"
    " frame.write.format('segstore'), or append its toArrow()",
    "pyarrow.Dataset": "has no rows yet: append its scanner().to_reader()",
    "pyarrow.Scanner": "has no rows yet: append its to_reader()",
    "numpy.ndarray": "is no frame: make one of it, as by pandas.DataFrame(array)",
}
"""What the libraries of frames have that is none, by library and class."""


def frame_of(records: object) -> Any:
    """Return *records* as Arrow data, None when they are none.

    Raises
    ------
    IllegalArgumentError
        Arrow has no type for a column of a pandas frame.
    RecordTypeError
        They are a frame whose rows have to be asked for.
    """
    if hasattr(records, "__arrow_c_stream__") or hasattr(records, "__arrow_c_array__"):
        return records
    kind = f"{type(records).__module__.partition('.')[0]}.{type(records).__name__}"
    if kind == "pandas.DataFrame":  # before pandas 2.2
        return _table_of_pandas(records)
    for base in type(records).__mro__:
        kind = f"{base.__module__.partition('.')[0]}.{base.__name__}"
        if kind in _ROWS_OF:
            name = type(records).__name__
            raise RecordTypeError(
                f"a {kind.partition('.')[0]} {name} {_ROWS_OF[kind]}",
                found=name,
                expected=RECORDS,
            )
    return None


def _table_of_pandas(frame: Any) -> pa.Table:
    pa = require_pyarrow()
    try:
        return pa.Table.from_pandas(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _unreadable(frame, error) from error


def is_in_memory(frame: object) -> bool:
    """Whether all rows are there: a stream has no length, and a scan of a log may have any."""
    return hasattr(frame, "__len__") and not hasattr(frame, "_columns_to_append")


def require_frame(records: object, columns: RecordColumns) -> None:
    """Refuse names of columns for *records* that have none: these are no frame.

    Raises
    ------
    ArgumentTypeError
        A column was named.
    """
    for part, name in zip(columns._fields, columns, strict=True):
        if name is not None:
            kind = type(records).__name__
            raise ArgumentTypeError(
                f"the records must be a frame, for {part}={name!r} names a column, not a {kind}:"
                " pyarrow.Table.from_pylist makes a frame of dictionaries",
                found=kind,
                expected="a frame of polars, pandas, pyarrow or DuckDB"
                + ("; a time is a datetime, or ms since 1970" if part == "timestamp" else ""),
            )


def columns_to_append(frame: Any, columns: RecordColumns = BY_THEIR_NAMES) -> Any:
    """Return the Arrow data that an append reads of *frame*.

    A log, a scan and a fetch are asked for the columns of a record, and those that are named,
    alone: with their headers, without what an append assigns.
    """
    of_ours = getattr(frame, "_columns_to_append", None)
    return frame if of_ours is None else of_ours(columns)


class FrameReader:
    """The batches of a frame: the columns of its records alone, a value of several as JSON.

    It needs pyarrow, and can be iterated once.

    Attributes
    ----------
    columns : RecordColumns
        The names in the batches that are yielded. ``value`` is one of them.
    schema : pyarrow.Schema
        Of these.

    Raises
    ------
    IllegalArgumentError
        As `RecordColumns.find`; or *frame* cannot be read.
    """

    def __init__(self, frame: Any, columns: RecordColumns) -> None:
        pa = require_pyarrow()
        self._frame = frame
        self._source = columns_to_append(frame, columns)
        with self._errors():
            self._reader = _reader_of(self._source)
        schema = self._reader.schema
        places = columns.find(schema.names)
        self._kept = sorted({place for place in places[:5] if place >= 0})
        self._of_json = places.of_json
        self.columns = columns
        fields = [schema.field(place) for place in self._kept]
        if self._of_json is not None:
            for place in self._of_json:
                check_json_type(schema.names[place], schema.field(place).type)
            name = _name_besides(schema.names)
            self.columns = columns._replace(value=name)
            fields.append(pa.field(name, pa.large_string()))
        self.schema = pa.schema(fields)
        self._check_types()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, with the columns that are used.

        Raises
        ------
        IllegalArgumentError
            A value that JSON has not, or the data cannot be read.
        """
        first_row = 0
        with self._errors():
            for batch in self._reader:
                if batch.num_rows:
                    yield self._chosen(batch, first_row)
                first_row += batch.num_rows

    def _chosen(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        chosen = batch.select(self._kept)
        if self._of_json is None:
            return chosen
        parts = {batch.schema.names[place]: batch.column(place) for place in self._of_json}
        values = json_objects(parts, batch.num_rows, first_row)
        return chosen.append_column(self.schema.field(len(self._kept)), values)

    def _check_types(self) -> None:
        """Refuse wrong types before any row is read, as the core does."""
        import pyarrow as pa

        with self._errors():
            columns = [pa.nulls(0, field.type) for field in self.schema]
            nothing = pa.RecordBatch.from_arrays(columns, schema=self.schema).to_struct_array()
        encode_columns(nothing, BatchOptions(), codec_table(), 0, 0, self.columns)

    def stream(self) -> ArrowStream:
        """Return the batches for the core; their errors come as themselves."""
        return ArrowStream(self.schema, iter(self))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise errors of Arrow as ours; that of a log as itself."""
        import pyarrow as pa

        try:
            yield
        except SegstoreError:
            raise
        except (pa.ArrowException, OSError, TypeError, ValueError) as error:
            if isinstance(self._source, ArrowStream) and self._source.error is not None:
                raise self._source.error from None
            raise _unreadable(self._frame, error) from error


def _reader_of(source: Any) -> pa.RecordBatchReader:
    import pyarrow as pa

    if hasattr(source, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(source)
    batch = pa.record_batch(source)
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


def _name_besides(names: Sequence[str]) -> str:
    """Return a name for the values that are made, which no column has."""
    name = "value"
    while name in names:
        name += "*"
    return name


def _unreadable(frame: object, error: BaseException) -> IllegalArgumentError:
    return IllegalArgumentError(
        f"the Arrow data cannot be read: {error}",
        found=type(frame).__name__,
        expected="a struct of columns",
    )
