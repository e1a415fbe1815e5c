"""Reads a file of an export: its rows, checked one by one, and the stored batches of them.

A file that something else wrote is read too, where it has the columns of an export: one that was
filtered with polars, say. What it lacks is named before anything is changed.
"""

from __future__ import annotations

import io
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from segstore.errors import (
    CorruptLogError,
    IllegalArgumentError,
    LogNotFoundError,
    SegstoreError,
    UnsupportedFormatError,
)
from segstore.numpy_on_demand import np
from segstore.records.arrow_numpy import numbers_of
from segstore.tables.batch_table import NotedBatches
from segstore.tables.dictionary_rows import columns_with_dictionaries, with_values
from segstore.tables.offset_ranges import OffsetRange
from segstore.tables.parquet_files import (
    COLUMNS,
    METADATA_KEY,
    damaged_file,
    parsed_origin,
    unreadable_file,
)
from segstore.tables.parquet_writer import FORMAT, rows_schema
from segstore.tables.row_checks import first_wrong_cell

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from segstore.types import TopicPartition

ROWS_AT_ONCE: Final = 20_000
BYTES_AT_ONCE: Final = 4 * 1024 * 1024
"""Of rows as they are in the file."""
BUFFER_BYTES: Final = 256 * 1024
"""Of a column; without it pyarrow reads all of a column of a row group at once."""
OF_BYTES: Final = frozenset({"topic", "key", "value", "headers"})
NEVER_NULL: Final = ("topic", "partition", "offset", "timestamp", "timestampType", "leaderEpoch")


class ParquetReader:
    """One file of an export, or one like it.

    Parameters
    ----------
    path : str
        Of the file.

    Attributes
    ----------
    path : str
        Of the file.
    offsets : OffsetRange
        What it stands for; of a file that no export wrote, from its first record to its last.
    isolation : str or None
        Of the export; None = no export wrote it.
    topic_id : str or None
        Of the topic that was exported, as ``partition.metadata`` has it.
    leader_epochs : list of (int, int)
        Those that the log knew, each with its first offset; empty where no export says so.
    records : int
        Rows.
    keeps_batches : bool
        Whether it knows the stored batches.

    Raises
    ------
    LogNotFoundError
        There is no such file.
    CorruptLogError
        It is no whole Parquet file, or its metadata are damaged.
    UnsupportedFormatError
        A later version of this library wrote it.
    IllegalArgumentError
        A column of an export is missing, or has another type. Or no export wrote the file, and its
        rows are not sorted by offset.
    """

    def __init__(self, path: str) -> None:
        import pyarrow.parquet as pq

        self.path = path
        try:
            with self._naming_damage(), pq.ParquetFile(path) as opened:
                schema, self.records = opened.schema_arrow, opened.metadata.num_rows
                self._dictionaries = columns_with_dictionaries(opened.metadata, OF_BYTES)
                metadata = opened.metadata.metadata or {}
        except FileNotFoundError as error:
            raise LogNotFoundError("there is no such file", file=path) from error
        except IsADirectoryError as error:
            raise IllegalArgumentError(
                "this is a directory, not a Parquet file",
                file=path,
                found="a directory",
                expected="a Parquet file",
            ) from error
        self._schema = rows_schema()
        self._check_columns(schema)
        text = metadata.get(METADATA_KEY)
        origin = None if text is None else parsed_origin(path, text)
        self.isolation: str | None = None
        self.topic_id: str | None = None
        self.leader_epochs: list[tuple[int, int]] = []
        self._places: list[tuple[int, int]] = []
        self.keeps_batches = False
        if origin is None:
            self.offsets = self._offsets_of_rows()
            return
        try:
            self.offsets = OffsetRange(
                origin["topic"],
                origin["partition"],
                origin["fromOffset"],
                origin["untilOffset"],
            )
            self.isolation = origin.get("isolation")
            self.topic_id = origin.get("topicId")
            self.leader_epochs = [(int(a), int(b)) for a, b in origin.get("leaderEpochs", ())]
            self.keeps_batches = "batchTables" in origin
            self._places = [(int(at), int(size)) for at, size in origin.get("batchTables", ())]
        except (KeyError, TypeError, ValueError, SegstoreError) as error:
            raise self._damaged(f"its metadata are damaged: {error!r}") from error
        if self.keeps_batches and origin.get("format") != FORMAT:
            raise UnsupportedFormatError(
                "a later version of segstore wrote the file",
                file=path,
                found=f"format {origin.get('format')!r}",
                expected=f"format {FORMAT}",
            )
        if origin.get("records", self.records) != self.records:
            raise self._damaged(f"{self.records} rows, and {origin['records']} were written")

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose records they are."""
        return self.offsets.topic_partition

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, none of the batches empty.

        Raises
        ------
        CorruptLogError
            The file is damaged, or the offsets of an export do not ascend within its range.
        IllegalArgumentError
            A cell is null that never is, has a value that a record cannot have, or is of another
            partition. Or the rows of a file that no export wrote are not sorted by offset.
        """
        last_offset, row = self.offsets.from_offset - 1, 0
        with closing(self._batches_of_rows()) as batches:
            for batch in batches:
                rows = self._converted(batch)
                self._check_rows(rows, row, last_offset)
                last_offset = rows.column("offset")[-1].as_py()
                row += rows.num_rows
                yield rows

    def _batches_of_rows(self) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows as they are, some MiB at a time, going by the sizes of row groups."""
        import pyarrow.parquet as pq

        with (
            self._naming_damage(),
            pq.ParquetFile(
                self.path,
                page_checksum_verification=True,
                buffer_size=BUFFER_BYTES,
                read_dictionary=self._dictionaries,
            ) as opened,
        ):
            for number in range(opened.metadata.num_row_groups):
                group = opened.metadata.row_group(number)
                fitting = BYTES_AT_ONCE * group.num_rows // max(group.total_byte_size, 1)
                rows = min(max(fitting, 1), ROWS_AT_ONCE)
                with closing(opened.iter_batches(rows, [number], columns=[*COLUMNS])) as batches:
                    for batch in batches:
                        yield from with_values(batch, BYTES_AT_ONCE)

    def row_offsets(self) -> Iterator[NDArray[np.int64]]:
        """Yield the offsets of the rows, no array empty; errors as of `rows`, which checks them."""
        import pyarrow.parquet as pq

        with (
            self._naming_damage(),
            pq.ParquetFile(self.path, page_checksum_verification=True) as opened,
            closing(opened.iter_batches(ROWS_AT_ONCE, columns=["offset"])) as batches,
        ):
            for batch in batches:
                if batch.num_rows:
                    yield numbers_of(batch.column(0))

    def batches(self) -> Iterator[NotedBatches]:
        """Yield the stored batches, those of one row group after the other.

        Raises
        ------
        CorruptLogError
            The table is damaged.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        with self._naming_damage(), pa.OSFile(self.path, "rb") as file:
            size = file.size()
            for position, length in self._places:
                if not 0 <= position <= position + length <= size:
                    raise self._damaged(f"a table of batches at byte {position} of {size}")
                file.seek(position)
                content = io.BytesIO(file.read(length))
                with pq.ParquetFile(content, page_checksum_verification=True) as opened:
                    table = opened.read()
                try:
                    yield NotedBatches.of_arrow(table)
                except (KeyError, TypeError, ValueError) as error:
                    raise self._damaged(f"the table of batches at byte {position}: {error}") from (
                        error
                    )

    def _check_columns(self, schema: pa.Schema) -> None:
        for field in self._schema:
            index = schema.get_field_index(field.name)
            if index < 0:
                raise IllegalArgumentError(
                    f"the file has no column {field.name!r}: it is no export of a log",
                    file=self.path,
                    found=", ".join(schema.names) or "no columns",
                    expected=", ".join(COLUMNS),
                )
            if not _holds(schema.field(index).type, field.type):
                raise IllegalArgumentError(
                    f"the column {field.name!r} has another type than that of an export",
                    file=self.path,
                    found=str(schema.field(index).type),
                    expected=str(field.type),
                )

    def _offsets_of_rows(self) -> OffsetRange:
        """Return the range of a file that does not state it: the rows are read for that."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        first: tuple[str, int, int] | None = None
        last_offset = -1
        with (
            self._naming_damage(),
            pq.ParquetFile(self.path, read_dictionary=self._dictionaries) as opened,
        ):
            row = 0
            for batch in opened.iter_batches(columns=["topic", "partition", "offset"]):
                if batch.num_rows:
                    self._check_has_no_null(batch, "offset", row)
                    offsets = numbers_of(batch.column(2).cast(pa.int64()))
                    if first is None:
                        first = tuple(column[0].as_py() for column in batch.columns)
                        last_offset = first[2] - 1
                    self._check_ascending(offsets, row, last_offset)
                    last_offset = int(offsets[-1])
                    row += batch.num_rows
        if first is None or None in first:
            raise IllegalArgumentError(
                "the file does not say of which partition it is",
                file=self.path,
                found=f"{self.records} rows, and no metadata of an export",
                expected="metadata, or a row with topic, partition and offset",
            )
        if first[2] < 0:
            raise self._damaged(f"a record has offset {first[2]}", "offsets from 0 on")
        return OffsetRange(*first, last_offset + 1)

    def _converted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the types of an export."""
        import pyarrow as pa

        if batch.schema.equals(self._schema):
            return _without_empty_lists(batch.replace_schema_metadata(None))
        columns = []
        for field in self._schema:
            try:
                columns.append(batch.column(field.name).cast(field.type))
            except pa.ArrowException as error:
                raise IllegalArgumentError(
                    f"a value of the column {field.name!r} is none of a record: {error}",
                    file=self.path,
                    found=str(batch.column(field.name).type),
                    expected=str(field.type),
                ) from error
        return _without_empty_lists(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _check_rows(self, rows: pa.RecordBatch, first_row: int, last_offset: int) -> None:
        for name in NEVER_NULL:
            self._check_has_no_null(rows, name, first_row)
        wrong = first_wrong_cell(rows, gets_new_batches=not self.keeps_batches)
        if wrong is not None:
            offset = rows.column("offset")[wrong.row].as_py()
            raise IllegalArgumentError(
                f"row {first_row + wrong.row} has a value in the column {wrong.column!r} that no "
                "record has",
                file=self.path,
                found=f"{wrong.found} at offset {offset}",
                expected=wrong.expected,
            )
        partition = self.topic_partition
        for name, expected in zip(("topic", "partition"), partition, strict=True):
            if rows.column(name).unique().to_pylist() != [expected]:
                raise IllegalArgumentError(
                    f"the file has records of other partitions than {partition}",
                    file=self.path,
                    found=f"another {name} among the rows from {first_row} on",
                    expected=f"{name} {expected} in each row",
                )
        offsets = numbers_of(rows.column("offset"))
        self._check_ascending(offsets, first_row, last_offset)
        if offsets[-1] >= self.offsets.until_offset:
            raise self._damaged(
                f"a record has offset {offsets[-1]}",
                f"offsets below {self.offsets.until_offset}",
            )

    def _check_has_no_null(self, rows: pa.RecordBatch, name: str, first_row: int) -> None:
        if rows.column(name).null_count:
            raise IllegalArgumentError(
                f"the column {name!r} has a null among the rows from {first_row} on",
                file=self.path,
                found="null",
                expected="a value in each row",
            )

    def _check_ascending(
        self, offsets: NDArray[np.int64], first_row: int, last_offset: int
    ) -> None:
        """Refuse offsets of which one is not above the one before it, the first *last_offset*."""
        before = np.concatenate([[last_offset], offsets[:-1]])
        is_wrong = offsets <= before
        if not is_wrong.any():
            return
        row = int(np.argmax(is_wrong))
        found = f"row {first_row + row} has offset {offsets[row]}, after {before[row]}"
        expected = f"an offset from {before[row] + 1} on"
        if self.isolation is not None:
            raise self._damaged(found, expected)
        message = "the rows of the file are not sorted by offset: sort it by offset"
        if offsets[row] == before[row]:
            message = f"the file has two rows with offset {offsets[row]}: keep one of them"
        raise IllegalArgumentError(message, file=self.path, found=found, expected=expected)

    @contextmanager
    def _naming_damage(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, SegstoreError | FileNotFoundError | IsADirectoryError):
                raise
            raise unreadable_file(self.path, error) from error

    def _damaged(self, found: str, expected: str = "a whole file of an export") -> CorruptLogError:
        return damaged_file(self.path, found, expected)


def _without_empty_lists(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return *rows* with null for an empty list of headers: a log does not tell them apart."""
    import pyarrow as pa
    import pyarrow.compute as pc

    index = rows.schema.get_field_index("headers")
    headers = rows.column(index)
    lengths = pc.list_value_length(headers)
    if pc.min(lengths).as_py() != 0:
        return rows
    filled = pc.if_else(pc.equal(lengths, 0), pa.scalar(None, headers.type), headers)
    return rows.set_column(index, rows.schema.field(index), filled)


def _holds(found: pa.DataType, expected: pa.DataType) -> bool:
    """Whether a column of type *found* may have values of type *expected*."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(found):
        found = found.value_type
    if types.is_list(expected):
        if not (types.is_list(found) or types.is_large_list(found)):
            return False
        fields, wanted = found.value_type, expected.value_type
        return types.is_struct(fields) and all(
            fields.get_field_index(one.name) >= 0 and _holds(fields.field(one.name).type, one.type)
            for one in wanted
        )
    if types.is_integer(expected):
        return bool(types.is_integer(found))
    if types.is_timestamp(expected):
        return bool(types.is_timestamp(found))
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    if types.is_string(expected):
        return any(is_of(found) for is_of in texts)
    bytes_ = (types.is_binary, types.is_large_binary, types.is_binary_view)
    return any(is_of(found) for is_of in (*texts, *bytes_, types.is_null))
