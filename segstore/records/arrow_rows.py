"""Records as rows of Arrow data, read lazily: what scans and the last values have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from segstore._core import ArrowStream, ColumnDecoder
from segstore.arguments import positive
from segstore.errors import IllegalArgumentError
from segstore.records.columns import (
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
    record_columns,
    to_frame,
    to_table,
)
from segstore.records.compression import codec_table
from segstore.types import CONTROL_FLAG, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Literal, NoReturn

    from segstore._core import ArrowBatch, BatchHeaders
    from segstore.record_columns import RecordColumns

_UNITS: Final = ("ms", "us")


def has_transactions(headers: BatchHeaders) -> bool:
    """Whether there are records of a transaction in batches; markers are none."""
    flags = headers["attributes"] & (TRANSACTIONAL_FLAG | CONTROL_FLAG)
    return bool((flags == TRANSACTIONAL_FLAG).any())


def refuse_undecided(what: str) -> NoReturn:
    """Refuse to append records of transactions that may be aborted or open.

    Raises
    ------
    IllegalArgumentError
        Always.
    """
    raise IllegalArgumentError(
        f"{what} has records of transactions. An append would store those of aborted and open"
        " transactions as committed ones. Append a scan with isolation='read_committed' to copy"
        " what is committed, or copy the log by export_parquet and import_parquet, which keep"
        " transactions and offsets",
        found="records of transactions, read with isolation='log_end'",
        expected="isolation='read_committed'",
    )


class ArrowRows(ABC):
    """Rows that can be read any number of times; a subclass says which, in `_arrow_batches`.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns, as those of Spark's Kafka source.
    """

    __slots__ = ()

    columns: tuple[str, ...]

    @abstractmethod
    def _arrow_batches(
        self,
        columns: Sequence[str],
        rows: int = MAX_BATCH_ROWS,
        max_bytes: int = MAX_BATCH_BYTES,
        *,
        microseconds: bool = False,
    ) -> Iterator[ArrowBatch]:
        """Yield the rows with these columns."""

    def _has_undecided(self) -> bool:
        """Whether there are records of transactions, and it was not asked how these ended."""
        return False

    def arrow_batches(
        self,
        rows: int = MAX_BATCH_ROWS,
        max_bytes: int = MAX_BATCH_BYTES,
        *,
        timestamp_unit: Literal["ms", "us"] = "ms",
    ) -> Iterator[ArrowBatch]:
        """Yield Arrow batches of about *rows* rows or *max_bytes* bytes.

        Stored batches are not divided: an Arrow batch ends with the stored batch that reaches a
        bound.

        Parameters
        ----------
        rows, max_bytes : int
            At least 1; bytes of keys, values and headers.
        timestamp_unit : str
            ``ms``, as stored in logs, or ``us``, as in Spark: then the type of the column is
            ``timestamp[us, tz=UTC]``.

        Raises
        ------
        InvalidRecordError
            A timestamp does not fit in microseconds; raised at its batch.
        SegstoreError
            As in iteration over the records, after the rows before.
        """
        if timestamp_unit not in _UNITS:
            raise IllegalArgumentError(
                "this is no unit of timestamps", found=repr(timestamp_unit), expected="ms or us"
            )
        return self._arrow_batches(
            self.columns,
            positive("rows", rows),
            positive("max_bytes", max_bytes),
            microseconds=timestamp_unit == "us",
        )

    def to_arrow(self, columns: Sequence[str] | None = None) -> Any:
        """Return all rows as a ``pyarrow.Table``; needs pyarrow.

        Parameters
        ----------
        columns : sequence of str or None
            Instead of `columns`.
        """
        return to_table(self._stream(self.columns if columns is None else columns))

    def to_pandas(self, columns: Sequence[str] | None = None) -> Any:
        """Return all rows as a ``pandas.DataFrame``; needs pyarrow and pandas."""
        return to_frame(self.to_arrow(columns))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the rows to any Arrow consumer: pandas, polars, DuckDB, pyarrow."""
        return self._stream(self.columns).__arrow_c_stream__(requested_schema)

    def _columns_to_append(self, named: RecordColumns) -> ArrowStream:
        if self._has_undecided():
            refuse_undecided("the scan")
        return self._stream(record_columns(self.columns, named))

    def _stream(self, columns: Sequence[str]) -> ArrowStream:
        return ArrowStream(ColumnDecoder(codec_table(), columns), self._arrow_batches(columns))
