"""``segstore.spark.read``: passes the columns and conditions of a read down to the logs.

Spark does not pass them to a data source that is written in Python.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import IntegerType, StructField, StructType

from segstore.arguments import instance, names
from segstore.errors import ArgumentTypeError
from segstore.spark.mapped_ranges import map_ranges, options_of_call, ranges_of
from segstore.spark.range_reader import RangeReader
from segstore.spark.schema import HEADERS, columns_of, connector_schema
from segstore.spark.where_clause import Narrowing, narrowing_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from segstore.spark.visible_log import PlannedLog
    from segstore.tables.offset_ranges import OffsetRange


_COUNTED = StructType([StructField("partition", IntegerType())])


def read(
    spark: SparkSession,
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    where: str | None = None,
    **options: Any,
) -> DataFrame:
    """Return records as a DataFrame that reads and decodes only what columns and condition need.

    The call fixes the range of offsets, as ``load()`` does when Spark plans its query.

    Parameters
    ----------
    spark : SparkSession
        Session whose executors read.
    path : path
        The log directory.
    columns : sequence of str or None
        Some of ``key``, ``value``, ``topic``, ``partition``, ``offset``, ``timestamp``,
        ``timestampType`` and ``headers``; None: those of the source. ``()``: rows without columns,
        made from batch headers, for ``count()``.
    where : str or None
        A condition in SQL, as in ``DataFrame.where``. Comparisons, BETWEEN and IN of ``offset``,
        ``timestamp``, ``partition`` and ``topic`` with literals, joined by AND, limit what is read:
        partitions, ranges of offsets, and segments and batches by time. Spark evaluates the rest.
    **options
        Options of ``format("segstore")``, as in `segstore.spark.count`.

    Raises
    ------
    ConnectorOptionError, UnknownTopicOrPartitionError, LogNotFoundError
        As in a read with these options; or a column does not exist.
    """
    if isinstance(columns, str):
        raise ArgumentTypeError(
            "columns is one text: name them in a list",
            found=repr(columns),
            expected=f"[{columns!r}]",
        )
    if where is not None:
        instance("where", where, str, "a condition in SQL, as text")
    checked = options_of_call(str(path), options)
    source = connector_schema(include_headers=checked.include_headers)
    wanted = source.names if columns is None else list(names("columns", columns))
    narrowing = Narrowing()
    if where is not None:
        narrowing = narrowing_of(where, lambda literal: _microseconds(spark, literal))
    every = connector_schema(include_headers=True)
    known = {name.lower() for name in wanted}
    more = [name for name in every.names if name in narrowing.columns and name.lower() not in known]
    if HEADERS in more and columns is None:
        more.remove(HEADERS)  # as of the source without includeHeaders, Spark does not know it
    schema = StructType([_field(every, name) for name in (*wanted, *more)])
    reader = RangeReader(
        checked,
        columns_of(schema) if schema.fields else (),
        start_timestamp=narrowing.first_timestamp,
        end_timestamp=narrowing.end_timestamp,
    )
    ranges = ranges_of(checked, lambda offsets, log: _narrowed(offsets, log, narrowing))
    if not schema.fields:  # one column for the way to Java: Spark 4.0 loses rows that have none
        frame = map_ranges(spark, checked, ranges, CountedRowsTask(reader), _COUNTED)
        return (frame if where is None else frame.where(where)).select()
    frame = map_ranges(spark, checked, ranges, ReadTask(reader), schema)
    if where is not None:
        frame = frame.where(where)
    return frame.select(*wanted) if more else frame


class ReadTask:
    """Reads one range; travels pickled to the executors."""

    def __init__(self, reader: RangeReader) -> None:
        self._reader = reader

    def __call__(self, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yield the records of *offsets*."""
        return self._reader.read_range(offsets)


class CountedRowsTask(ReadTask):
    """Gives as many rows as a range has records, each with its partition alone."""

    def __call__(self, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yield rows for *offsets*, by batch headers."""
        import pyarrow as pa

        number = pa.scalar(offsets.partition, pa.int32())
        for batch in super().__call__(offsets):
            yield pa.RecordBatch.from_pydict({"partition": pa.repeat(number, batch.num_rows)})


def _field(schema: StructType, name: str) -> Any:
    by_name = {field.name.lower(): field for field in schema.fields}
    if name.lower() not in by_name:
        return StructType().add(name, "string").fields[0]  # which columns_of refuses
    return by_name[name.lower()]


def _narrowed(offsets: OffsetRange, log: PlannedLog, narrowing: Narrowing) -> OffsetRange | None:
    """Return the part of *offsets* that may meet the condition, None = nothing."""
    if narrowing.partitions is not None and offsets.partition not in narrowing.partitions:
        return None
    if narrowing.topics is not None and offsets.topic not in narrowing.topics:
        return None
    start = max(offsets.from_offset, narrowing.first_offset)
    end = min(offsets.until_offset, narrowing.end_offset)
    if start < end and narrowing.first_timestamp >= 0:
        found = log.first_offset_at(narrowing.first_timestamp)
        start = end if found is None else max(start, found)
    if narrowing.first_timestamp >= narrowing.end_timestamp:
        return None
    if start >= end:
        if log.damage is None:
            return None
        start = end  # what is wanted may be missing: the plan looks at where it would have ended
    return replace(offsets, from_offset=start, until_offset=end)


def _microseconds(spark: SparkSession, literal: str) -> int | None:
    """Return what Spark takes *literal* for, by its own rules and time zone."""
    row = spark.sql(f"SELECT unix_micros(try_cast({literal} AS TIMESTAMP))").first()
    return None if row is None else row[0]
