"""Rows of a dump on stdout as JSON lines, CSV, an Arrow stream or Parquet; a chunk in memory."""

from __future__ import annotations

import csv
import io
import sys
from typing import TYPE_CHECKING, Any, Final, Protocol

from segstore.cli.decoders.json_text import json_text
from segstore.cli.output import UsageError, write
from segstore.records.utf8_java import decode_utf8

if TYPE_CHECKING:
    from collections.abc import Iterable

BINARY_FORMATS: Final = frozenset({"arrow", "parquet"})
CHUNK_ROWS: Final = 8192
CHUNK_BYTES: Final = 8 * 1024 * 1024


class RowWriter(Protocol):
    """Takes rows chunk by chunk."""

    def write_rows(self, rows: list[dict[str, Any]]) -> None:
        """Write some rows."""

    def close(self) -> None:
        """Write what ends the output."""


def print_rows(form: str, columns: dict[str, str], rows: Iterable[dict[str, Any]]) -> None:
    """Print all *rows*; what comes before an error is printed and ended properly."""
    if form in BINARY_FORMATS and sys.stdout.isatty():
        raise UsageError(f"--format {form} is for a file or a pipe, not for a terminal")
    writer = _writer(form, columns)
    chunk: list[dict[str, Any]] = []
    chunk_bytes = 0
    try:
        try:
            for row in rows:
                chunk.append(row)
                chunk_bytes += max(row.get("keySize", 0), 0) + max(row.get("valueSize", 0), 0)
                if len(chunk) >= CHUNK_ROWS or chunk_bytes >= CHUNK_BYTES:
                    writer.write_rows(chunk)
                    chunk, chunk_bytes = [], 0
        finally:
            if chunk:
                writer.write_rows(chunk)
    finally:
        writer.close()


def _writer(form: str, columns: dict[str, str]) -> RowWriter:
    match form:
        case "json":
            return JsonRows()
        case "csv":
            return CsvRows(list(columns))
        case _:
            return ArrowRows(form, columns)


def _as_text(value: Any) -> Any:
    """Bytes as the text of a dump shows them, in structures too."""
    match value:
        case bytes():
            return decode_utf8(value)
        case list():
            return [_as_text(element) for element in value]
        case dict():
            return {name: _as_text(element) for name, element in value.items()}
        case _:
            return value


class JsonRows:
    """A JSON object a line."""

    def write_rows(self, rows: list[dict[str, Any]]) -> None:
        """Write some rows."""
        write("".join(f"{json_text(_as_text(row))}\n" for row in rows).encode())

    def close(self) -> None:
        """Nothing ends it."""


class CsvRows:
    """Comma-separated values with a line of names; null is empty, headers are JSON."""

    def __init__(self, names: list[str]) -> None:
        self._text = io.StringIO()
        self._writer = csv.writer(self._text, lineterminator="\n")
        self._writer.writerow(names)

    def write_rows(self, rows: list[dict[str, Any]]) -> None:
        """Write some rows."""
        for row in rows:
            self._writer.writerow(self._cell(value) for value in row.values())
        self.close()

    def close(self) -> None:
        """Write what is left: the names, when there was no row."""
        write(self._text.getvalue().encode())
        self._text.seek(0)
        self._text.truncate()

    @staticmethod
    def _cell(value: Any) -> Any:
        if isinstance(value, bool):
            return "true" if value else "false"
        return json_text(_as_text(value)) if isinstance(value, list) else _as_text(value)


class ArrowRows:
    """An Arrow IPC stream, or Parquet with a row group a chunk; needs pyarrow."""

    def __init__(self, form: str, columns: dict[str, str]) -> None:
        try:
            import pyarrow as pa
        except ImportError as error:
            raise UsageError(
                f"--format {form} needs pyarrow: pip install 'segstore[arrow]'"
            ) from error
        headers = pa.list_(
            pa.struct([pa.field("key", pa.string(), nullable=False), ("value", pa.binary())])
        )
        self._schema = pa.schema(
            [
                (name, headers if kind == "headers" else pa.type_for_alias(kind))
                for name, kind in columns.items()
            ]
        )
        self._batch = pa.RecordBatch.from_pylist
        sink = pa.PythonFile(_Sink(), mode="w")
        if form == "arrow":
            self._writer = pa.ipc.new_stream(sink, self._schema)
        else:
            import pyarrow.parquet as pq

            self._writer = pq.ParquetWriter(sink, self._schema)

    def write_rows(self, rows: list[dict[str, Any]]) -> None:
        """Write some rows."""
        self._writer.write_batch(self._batch(rows, schema=self._schema))

    def close(self) -> None:
        """Write the end of the stream or the file's footer."""
        self._writer.close()


class _Sink(io.RawIOBase):
    """Stdout as a file that knows its position: a pipe does not."""

    def __init__(self) -> None:
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        copy = bytes(data)
        write(copy)
        self._position += len(copy)
        return len(copy)
