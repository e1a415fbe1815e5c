"""``segstore.spark.count``: counts the records of topics by batch headers."""

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
    from segstore.tables.offset_ranges import OffsetRange

_SCHEMA = StructType([StructField("count", LongType())])


def count(spark: SparkSession, path: str | os.PathLike[str], **options: Any) -> int:
    """Return the number of records that a read with these options would return.

    The number is exact with gaps, markers, compaction and every ``isolation.level``. Records are
    read only if a range ends inside a batch with gaps, or a header cannot be true. So the count
    does not notice a damaged record, or a batch that readers leave out because it is not in order.
    It does notice records that are missing at the log end.

    Parameters
    ----------
    spark : SparkSession
        Session whose executors count, one task for each partition, part of one, or
        ``partitionsPerTask`` of them.
    path : path
        The log directory.
    **options
        Options of ``format("segstore")``: ``subscribe="orders"``, ``startingTimestamp=…``,
        ``**{"isolation.level": "read_committed"}``. Default: all topics.

    Raises
    ------
    ConnectorOptionError, UnknownTopicOrPartitionError, LogNotFoundError
        As in a read with these options.
    CorruptLogError
        The count reaches the end of a log that is damaged there.
    """
    checked = options_of_call(str(path), options)
    counts = map_ranges(spark, checked, ranges_of(checked), CountTask(checked), _SCHEMA)
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
