"""``segstore.spark.count``: how many records topics hold, by the headers of their batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.types import LongType, StructField, StructType

from segstore.spark.log_source import source_of
from segstore.spark.lost_range import read_what_is_left
from segstore.spark.mapped_ranges import map_ranges, options_of_call, ranges_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from segstore.spark.options import ConnectorOptions
    from segstore.spark.ranges import OffsetRange

_SCHEMA = StructType([StructField("count", LongType())])


def count(spark: SparkSession, path: str | os.PathLike[str], **options: Any) -> int:
    """Return the number of records that a read with these options would give.

    Exact with gaps, markers, compaction and every ``isolation.level``; records are read only where
    a range ends inside a batch with gaps, or a header cannot be true. As no record is read, a
    damaged one is not noticed (a log that lacks records at its end is); nor is one that readers
    leave out because its batch is not in order.

    Parameters
    ----------
    spark : SparkSession
        Whose executors do it, one task for each partition or part of one.
    path : path
        The log directory.
    **options
        Those of ``format("segstore")``: ``subscribe="orders"``, ``startingTimestamp=…``,
        ``**{"isolation.level": "read_committed"}``. Without a choice of topics all are counted.

    Raises
    ------
    ConnectorOptionError, UnknownTopicOrPartitionError, LogNotFoundError
        For what a read with these options would say.
    CorruptLogError
        The count goes to the end of a log that is damaged there.
    """
    checked = options_of_call(str(path), options)
    counts = map_ranges(spark, ranges_of(checked), CountTask(checked), _SCHEMA)
    return sum(row["count"] for row in counts.collect())


class CountTask:
    """Counts one range; travels pickled to the executors."""

    def __init__(self, options: ConnectorOptions) -> None:
        self._options = options

    def __call__(self, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yield one row: the number of records in *offsets*."""
        import pyarrow as pa

        found = count_range(self._options, offsets)
        yield pa.RecordBatch.from_pydict({"count": pa.array([found], pa.int64())})


def count_range(options: ConnectorOptions, offsets: OffsetRange) -> int:
    """Return the number of visible records in *offsets*, by the headers of their batches."""

    def counts(rest: OffsetRange) -> Iterator[tuple[int, int]]:
        for log, start, end in source_of(options).parts(rest):
            yield log.scan(start, end, ("offset",)).count(by_headers=True), end

    return sum(read_what_is_left(options, offsets, counts))
