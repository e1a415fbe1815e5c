"""Writes the records of a scan to a Parquet file, and the stored batches that they come from.

A row is a record; any reader of Parquet shows records and nothing else. Behind each row group lies
a small Parquet file, the table of its stored batches (`batch_table`). The key-value metadata says
where: readers go by the footer, and pass over bytes to which it does not point, as they do with
Bloom filters.
"""

from __future__ import annotations

import io
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from segstore.errors import IllegalArgumentError
from segstore.numpy_on_demand import np
from segstore.records.arrow_numpy import numbers_of
from segstore.records.columns import MAX_BATCH_ROWS
from segstore.tables.batch_table import BatchNotes
from segstore.tables.parquet_files import COLUMNS, origin_metadata
from segstore.tables.read_ahead import reading_threads, threads_count, wait_for
from segstore.tables.row_checks import is_before_1970

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future, ThreadPoolExecutor
    from pathlib import Path

    import pyarrow as pa
    import pyarrow.parquet as pq

    from segstore.log.scan import LogScan
    from segstore.tables.batch_table import NotedBatches
    from segstore.tables.offset_ranges import OffsetRange

FORMAT: Final = 1
"""Of the tables of batches, in the metadata of a file."""
ROW_GROUP_BYTES: Final = 16 * 1024 * 1024
TABLE_BYTES: Final = 64 * 1024 * 1024
"""Of stored batches in one table; a column of bytes takes less than 2 GiB."""
ROW_GROUP_ROWS: Final = 1_048_576
ROWS_AT_ONCE: Final = MAX_BATCH_ROWS
"""Of a read; with five times as many, memory comes from the system again, and costs more."""
COMPRESSIONS: Final = ("zstd", "snappy", "gzip", "lz4", "brotli", "none")
DICTIONARIES: Final = (
    "topic",
    "partition",
    "timestampType",
    "leaderEpoch",
    "key",
    "headers.list.element.key",
    "headers.list.element.value",
)
"""Columns whose values come again. Those of ``value`` do not: a dictionary only takes time."""
ENCODINGS: Final = {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}


class WrittenFile(NamedTuple):
    """What was written.

    Attributes
    ----------
    records, batches : int
        Rows, and stored batches that the file knows.
    """

    records: int
    batches: int


def checked_compression(compression: str) -> str:
    """Return the name of a compression of Parquet; raises IllegalArgumentError for another one."""
    if compression.lower() not in COMPRESSIONS:
        raise IllegalArgumentError(
            f"there is no compression {compression!r} of Parquet",
            found=repr(compression),
            expected=", ".join(COMPRESSIONS),
        )
    return compression.lower()


def write_parquet(  # noqa: PLR0913 - what, where, how, who is told
    scan: LogScan,
    path: Path,
    offsets: OffsetRange,
    isolation: str,
    *,
    planned: Sequence[OffsetRange] = (),
    leader_epochs: Sequence[tuple[int, int]] = (),
    compression: str = "zstd",
    progress: Callable[[int], None] | None = None,
) -> WrittenFile:
    """Write the records of *scan* to a new file.

    Parameters
    ----------
    scan : LogScan
        Of the whole of *offsets*; its isolation is not seen here.
    path : path
        Of the file, which nobody takes for a whole one before it is renamed.
    offsets : OffsetRange
        What the file stands for; gaps are in it.
    isolation : str
        Of the scan. The stored batches are kept unless it is ``read_committed``: a transaction
        whose end marker is left out would stay open for ever.
    planned : sequence of OffsetRange
        What the whole export is to hold, as for `origin_metadata`.
    leader_epochs : sequence of (int, int)
        Epochs of the log and their first offsets; kept with the batches.
    compression : str
        One of `COMPRESSIONS`.
    progress : callable or None
        Gets the offset behind the last record that was read.

    Raises
    ------
    OSError
        The file system refuses the file.
    IllegalArgumentError
        Of a batch that can only be kept as it is stored, there is a part, or no batch is kept.
    SegstoreError
        What the scan raises.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    notes = (
        None if isolation == "read_committed" else BatchNotes(scan.start_offset, scan.end_offset)
    )
    schema = rows_schema()
    with (
        pa.OSFile(str(path), "wb") as file,
        _closing(
            pq.ParquetWriter(file, schema, **file_options(checked_compression(compression)))
        ) as writer,
        reading_threads(1) if threads_count() else nullcontext() as pool,
    ):
        groups = _RowGroups(writer, file, notes, pool)
        for rows in _rows_of(scan, notes):
            groups.add(rows)
            if progress is not None:
                progress(rows.column("offset")[-1].as_py() + 1)
        groups.finish()
        more: dict[str, Any] = {"records": groups.records}
        if notes is not None:
            more |= {
                "format": FORMAT,
                "leaderEpochs": [(epoch, start) for epoch, start in leader_epochs],
                "batches": notes.count,
                "batchTables": groups.places,
            }
        writer.add_key_value_metadata(origin_metadata(offsets, isolation, planned, **more))
    return WrittenFile(groups.records, 0 if notes is None else notes.count)


@contextmanager
def _closing(writer: pq.ParquetWriter) -> Iterator[pq.ParquetWriter]:
    """Close *writer*; after an error the file is given up, and what a close says of it too."""
    import pyarrow as pa

    try:
        yield writer
    except BaseException:
        with suppress(pa.ArrowException, OSError):
            writer.close()
        raise
    writer.close()


def file_options(compression: str = "zstd") -> dict[str, Any]:
    """Return the options of pyarrow with which files are written."""
    return {
        "compression": compression,
        "use_dictionary": [*DICTIONARIES],
        "column_encoding": {**ENCODINGS},
        "write_page_checksum": True,
    }


def rows_schema() -> pa.Schema:
    """Return the schema of the rows of a file."""
    import pyarrow as pa

    from segstore._core import ArrowStream, ColumnDecoder
    from segstore.records.compression import codec_table

    nothing = ArrowStream(ColumnDecoder(codec_table(), COLUMNS), iter(()))
    return pa.RecordBatchReader.from_stream(nothing).schema


class _RowGroups:
    """Gathers rows, and writes a row group and the table of its batches when enough are there.

    With a pool one of its threads writes, while the next rows are read.
    """

    def __init__(
        self,
        writer: pq.ParquetWriter,
        file: pa.NativeFile,
        notes: BatchNotes | None,
        pool: ThreadPoolExecutor | None,
    ) -> None:
        self._writer = writer
        self._file = file
        self._notes = notes
        self._pool = pool
        self._writing: Future[None] | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self.records = 0
        self.places: list[tuple[int, int]] = []
        """Position and size in bytes of each table of batches."""

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows; of a stored batch all at once."""
        offsets, timestamps = (numbers_of(rows.column(name)) for name in ("offset", "timestamp"))
        if self._notes is not None:
            self._notes.assign(offsets, timestamps)
        elif (is_early := is_before_1970(timestamps)).any():
            row = int(np.argmax(is_early))
            raise IllegalArgumentError(
                "a record has a timestamp before 1970, which only its stored batch can keep; an "
                "export with read_committed has no batches: export with log_end",
                found=f"timestamp {timestamps[row]} ms at offset {offsets[row]} of "
                f"{rows.column('topic')[row]}-{rows.column('partition')[row]}",
                expected="a time since 1970, or -1 ms for none",
            )
        size = rows.nbytes
        if self._waiting and (
            self._rows + rows.num_rows > ROW_GROUP_ROWS or self._bytes + size > ROW_GROUP_BYTES
        ):
            self._begin_to_write()
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._bytes += size

    def finish(self) -> None:
        """Write what is left."""
        if self._notes is not None:
            self._notes.assign_rest()
        self._begin_to_write()
        self._end_writing()

    def _begin_to_write(self) -> None:
        rows, self._waiting = self._waiting, []
        self.records += self._rows
        self._rows = self._bytes = 0
        batches = None if self._notes is None else self._notes.take()
        self._end_writing()
        if self._pool is None:
            self._write(rows, batches)
        else:
            self._writing = self._pool.submit(self._write, rows, batches)

    def _end_writing(self) -> None:
        if self._writing is not None:
            wait_for(self._writing)
            self._writing = None

    def _write(self, rows: list[pa.RecordBatch], batches: NotedBatches | None) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if rows:
            table = pa.Table.from_batches(rows)
            self._writer.write_table(table, row_group_size=table.num_rows)
        for part in () if batches is None else batches.divided(TABLE_BYTES):
            content = io.BytesIO()
            options = {"compression": "zstd", "write_page_checksum": True}
            pq.write_table(part.to_arrow(), content, **options)
            self.places.append((self._file.tell(), content.tell()))
            self._file.write(content.getbuffer())


def _rows_of(scan: LogScan, notes: BatchNotes | None) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    see = None if notes is None else notes.see
    batches = scan._arrow_batches(  # noqa: SLF001 - what a scan reads, noted too
        COLUMNS, ROWS_AT_ONCE, on_chunk=see
    )
    return (pa.record_batch(batch) for batch in batches)
