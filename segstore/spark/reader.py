"""Reading: partitions are planned in one process, read in others, each from the files themselves.

A reader travels pickled to the executors, so it holds options and column names only; ``read`` opens
the log. There is no ``pushFilters``: Spark keeps one plan for each loaded DataFrame and lets every
pushdown overwrite it, so a DataFrame that is used twice answers wrongly (seen on 4.1 to 4.3).
Offsets and timestamps are narrowed down by options instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from segstore.spark.driver_warning import warn
from segstore.spark.log_source import source_of
from segstore.spark.offsets import plan_ranges, tasks_of
from segstore.spark.options import ConnectorOptions, parse_options
from segstore.spark.range_reader import OffsetRangePartition, RangeReader
from segstore.spark.schema import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType


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
        self._reader = RangeReader(self._options, columns_of(schema))
        for text in self._options.warnings:
            warn(text)

    def partitions(self) -> list[InputPartition]:
        """Fix the offsets to read, once for the whole query, and which task reads which."""
        existing = source_of(self._options).partitions()
        ranges = plan_ranges(self._options, existing, self._reader.open, warn)
        return [OffsetRangePartition(task) for task in tasks_of(self._options, ranges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task as Arrow record batches.

        Raises
        ------
        ConnectorConditionError
            A log no longer holds all offsets of a range, and ``failOnDataLoss`` is true.
        """
        return self._reader.read(partition)
