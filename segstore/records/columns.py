"""Batches as Arrow columns, in pieces of a size that caches and Spark like [DESIGN D7]."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from segstore.errors import IllegalArgumentError, SegstoreError
from segstore.record_columns import BY_THEIR_NAMES, PARTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from typing_extensions import Buffer

    from segstore._core import ArrowBatch, ArrowStream, ColumnDecoder
    from segstore.record_columns import RecordColumns

__all__ = [
    "KAFKA_COLUMNS",
    "MAX_BATCH_BYTES",
    "MAX_BATCH_ROWS",
    "RECORD_COLUMNS",
    "decode_to_batches",
    "record_columns",
    "to_frame",
    "to_table",
]

KAFKA_COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)
"""The columns of Spark's Kafka source with ``includeHeaders``, in its order.

``leaderEpoch`` comes when it is named.
"""

RECORD_COLUMNS: Final = PARTS
"""What a record is made of; an append assigns the other columns of a log."""

MAX_BATCH_ROWS: Final = 20_000
MAX_BATCH_BYTES: Final = 4 * 1024 * 1024

_GROWTH: Final = 4

LENGTH_AT: Final = 8
PREFIX_BYTES: Final = 12


def decode_to_batches(
    chunks: Iterable[Buffer],
    decoder: ColumnDecoder,
    rows: int = MAX_BATCH_ROWS,
    max_bytes: int = MAX_BATCH_BYTES,
    first_rows: int | None = None,
) -> Iterator[ArrowBatch]:
    """Decode chunks of whole batches and yield an Arrow batch whenever enough has come together.

    Parameters
    ----------
    chunks : iterable of Buffer
        Whole batches each; a cut batch at the end of a chunk is left out.
    decoder : ColumnDecoder
        Used by this iterator alone until it is exhausted.
    rows, max_bytes : int
        A batch is full when it has that many rows, or bytes in keys, values and headers; a log's
        batch is not divided.
    first_rows : int or None
        Rows of the first batch, for whom these may be enough; each next one has four times as many,
        up to *rows*.

    Yields
    ------
    ArrowBatch
        None of them empty.

    Raises
    ------
    SegstoreError
        For a damaged batch, after the rows before it were yielded.
    """
    limit = rows if first_rows is None else min(first_rows, rows)
    for chunk in chunks:
        rest = memoryview(chunk)
        while True:
            try:
                consumed = decoder.append(rest, limit, max_bytes)
            except SegstoreError as error:
                if error.position is not None:  # in the chunk, not in what is left of it
                    error.position += memoryview(chunk).nbytes - rest.nbytes
                if decoder.rows_count:
                    yield decoder.finish()
                raise
            rest = rest[consumed:]
            if decoder.rows_count >= limit or decoder.bytes_count >= max_bytes:
                yield decoder.finish()
                limit = min(_GROWTH * limit, rows)
            elif not _begins_with_a_whole_batch(rest):
                break
            elif decoder.rows_count:  # a column is full: what does not fit gets an empty one
                yield decoder.finish()
    if decoder.rows_count:
        yield decoder.finish()


def _begins_with_a_whole_batch(data: memoryview) -> bool:
    if len(data) < PREFIX_BYTES:
        return False
    return len(data) - PREFIX_BYTES >= int.from_bytes(data[LENGTH_AT:PREFIX_BYTES], signed=True)


def require_pyarrow() -> Any:
    """Return the module.

    Raises
    ------
    ImportError
        It is not installed, with what to do.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        message = "this needs pyarrow: pip install 'segstore[arrow]'"
        raise ImportError(message) from error
    return pa


def to_table(stream: ArrowStream) -> Any:
    """Read a stream into a ``pyarrow.Table``; an error of the log comes as itself, not as Arrow's.

    Raises
    ------
    ImportError
        When pyarrow is not installed.
    """
    pa = require_pyarrow()
    try:
        return pa.RecordBatchReader.from_stream(stream).read_all()
    except (pa.ArrowException, OSError):
        if stream.error is not None:
            raise stream.error from None
        raise


def to_frame(table: Any) -> Any:
    """Return a ``pyarrow.Table`` as a ``pandas.DataFrame``.

    Raises
    ------
    ImportError
        When pandas is not installed.
    """
    if find_spec("pandas") is None:
        message = "this needs pandas: pip install pandas"
        raise ImportError(message)
    return table.to_pandas()


def record_columns(columns: Sequence[str], named: RecordColumns = BY_THEIR_NAMES) -> list[str]:
    """Return those of *columns* that an append reads: of a record, or named by its caller.

    Parameters
    ----------
    columns : sequence of str
        The projection of a scan.
    named : RecordColumns
        What the append was given.

    Raises
    ------
    IllegalArgumentError
        The projection leaves headers out: the copy of a record would lose them.
    """
    chosen = [name for name in columns if name in RECORD_COLUMNS or named.names(name)]
    if "headers" not in chosen and not {"key", "value"}.isdisjoint(chosen):
        raise IllegalArgumentError(
            "the columns leave the headers out, and the appended records would have none: add the"
            ' column "headers"; to leave them out, append its to_arrow()',
            found=", ".join(columns),
            expected=f"{', '.join(columns)}, headers",
        )
    return chosen
