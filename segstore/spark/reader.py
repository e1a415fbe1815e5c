"""Reading: partitions are planned in one process, read in others, each from the files themselves.

A reader travels pickled to the executors, so it holds options and column names only; ``read`` opens
the log. There is no ``pushFilters``: Spark keeps one plan for each loaded DataFrame and lets every
pushdown overwrite it, so a DataFrame that is used twice answers wrongly (seen on 4.1 to 4.3).
Offsets and timestamps are narrowed down by options instead.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final, cast

from pyspark.sql.datasource import DataSourceReader, InputPartition

from segstore.manager.partition_directories import partitions_with_logs
from segstore.spark.conditions import ConnectorOptionError
from segstore.spark.offsets import check_no_data_loss, plan_ranges
from segstore.spark.open_logs import OPEN_LOGS
from segstore.spark.options import ConnectorOptions, parse_options
from segstore.spark.schema import Column, arrow_schema, columns_of
from segstore.spark.visible_log import VisibleLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from segstore.spark.ranges import OffsetRange
    from segstore.types import TopicPartition

ROWS_IN_A_BATCH: Final = 20_000
BYTES_IN_A_BATCH: Final = 4 * 1024 * 1024
"""Whichever comes first. Measured: 10,000 to 50,000 rows and 1 to 8 MB are best."""
MOST_ROWS: Final = 50_000
MOST_BYTES: Final = 8 * 1024 * 1024
"""What is larger, since a batch of the log is decoded whole, is handed on in slices."""


class OffsetRangePartition(InputPartition):
    """One Spark partition: offsets of one topic partition."""

    def __init__(self, offsets: OffsetRange) -> None:
        super().__init__(offsets)

    @property
    def offsets(self) -> OffsetRange:
        """The offsets to read."""
        return cast("OffsetRange", self.value)


class SegstoreReader(DataSourceReader):
    """A batch read of a log directory.

    Parameters
    ----------
    options : mapping of str to str
        As Spark hands them over.
    schema : StructType
        The columns to read: the source's schema, or a user's choice of it.

    Raises
    ------
    ConnectorOptionError
        For options or a schema that cannot be.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options: ConnectorOptions = parse_options(options)
        self._columns: tuple[Column, ...] = columns_of(schema)
        self._path = self._options.absolute_path
        for text in self._options.warnings:
            _warn(text)

    def partitions(self) -> list[InputPartition]:
        """Fix the offsets to read, once for the whole query; one Spark partition for each range."""
        existing = partitions_with_logs(self._path)
        ranges = plan_ranges(self._options, existing, self._open, _warn)
        return [OffsetRangePartition(offsets) for offsets in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range as Arrow record batches.

        Raises
        ------
        ConnectorConditionError
            The log no longer holds all offsets of the range, and ``failOnDataLoss`` is true.
        """
        if not isinstance(partition, OffsetRangePartition):
            return  # Spark makes one empty partition of a plan that has none
        offsets = partition.offsets
        log = self._open(offsets.topic_partition)
        if self._options.fail_on_data_loss:
            check_no_data_loss(offsets, log)
        start = max(offsets.from_offset, log.start_offset)
        end = min(offsets.until_offset, log.end_offset)
        if start < end:
            yield from self._batches(log, start, end)

    def _open(self, partition: TopicPartition) -> VisibleLog:
        return VisibleLog(OPEN_LOGS.get(self._path, partition), self._options.isolation)

    def _batches(self, log: VisibleLog, start: int, end: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = arrow_schema(self._columns)
        required = [index for index, column in enumerate(self._columns) if not column.nullable]
        sources = [column.source for column in self._columns]
        scan = log.scan(start, end, sources)
        for batch in scan.arrow_batches(ROWS_IN_A_BATCH, BYTES_IN_A_BATCH):
            read = pa.record_batch(batch)
            arrays = [
                array if array.type == field.type else array.cast(field.type)
                for array, field in zip(read.columns, schema, strict=True)
            ]
            for index in required:
                if arrays[index].null_count:
                    name = self._columns[index].name
                    raise ConnectorOptionError(
                        f"the schema says {name!r} is NOT NULL, but a record of "
                        f"{log.topic_partition} has none",
                        found="null",
                        expected=f"a schema that lets {name!r} be null",
                    )
            yield from _slices(pa.RecordBatch.from_arrays(arrays, schema=schema))


def _warn(text: str) -> None:
    """Say something where a user of Spark sees it: on the standard error of the driver."""
    warnings.warn(text, stacklevel=3)


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = min(MOST_ROWS, batch.num_rows)
    if batch.nbytes > MOST_BYTES:
        rows = max(1, min(rows, batch.num_rows * MOST_BYTES // batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
