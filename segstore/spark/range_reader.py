"""Ranges of offsets as Arrow record batches: what a task does, of a batch or of a stream."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, cast

from pyspark.sql.datasource import InputPartition

from segstore.number_limits import MAX_LONG, MIN_LONG
from segstore.spark.conditions import ConnectorOptionError
from segstore.spark.driver_warning import warn
from segstore.spark.log_source import source_of
from segstore.spark.lost_range import read_what_is_left
from segstore.spark.schema import Column, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from segstore.log.scan import LogScan
    from segstore.spark.options import ConnectorOptions
    from segstore.spark.visible_log import PlannedLog, VisibleLog
    from segstore.tables.offset_ranges import OffsetRange
    from segstore.types import TopicPartition

ROWS_IN_A_BATCH: Final = 20_000
BYTES_IN_A_BATCH: Final = 4 * 1024 * 1024
"""Whichever comes first. Measured: 10,000 to 50,000 rows and 1 to 8 MB are best."""
MOST_ROWS: Final = 50_000
MOST_BYTES: Final = 8 * 1024 * 1024
"""What is larger, since a batch of the log is decoded whole, is handed on in slices."""


EMPTY_ROWS: Final = 1_000_000
"""Rows of a batch that has no columns."""
OFFSET: Final = "offset"


class OffsetRangePartition(InputPartition):
    """One Spark partition: ranges of offsets, which its task reads one after the other."""

    def __init__(self, ranges: tuple[OffsetRange, ...]) -> None:
        super().__init__(ranges)

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """The offsets to read."""
        return cast("tuple[OffsetRange, ...]", self.value)


class RangeReader:
    """Reads ranges; it travels pickled to the executors, so it holds options and names only.

    Parameters
    ----------
    options : ConnectorOptions
        Where the logs are and which records may be seen.
    columns : sequence of Column
        What to read of each record; without one, batch headers tell how many rows there are.
    start_timestamp, end_timestamp : int
        In ms: only records with ``start <= timestamp < end``.
    """

    def __init__(
        self,
        options: ConnectorOptions,
        columns: Sequence[Column],
        *,
        start_timestamp: int = MIN_LONG,
        end_timestamp: int = MAX_LONG,
    ) -> None:
        self._timestamps = {"start_timestamp": start_timestamp, "end_timestamp": end_timestamp}
        self._options = replace(options, path=options.absolute_path)  # that of who plans
        self._columns = tuple(columns)

    def open(self, partition: TopicPartition) -> PlannedLog:
        """Return what planning asks of the log of *partition*, as it is now."""
        return source_of(self._options).open(partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task as Arrow record batches, in the order of its ranges.

        Raises
        ------
        ConnectorConditionError
            A log no longer holds all offsets of a range, and ``failOnDataLoss`` is true.
        CorruptLogError
            A range is damaged, or goes to the end of a log that is damaged there, and neither
            ``onDamage`` is ``skip`` nor, at the end, ``failOnDataLoss`` false.
        """
        if isinstance(partition, OffsetRangePartition):  # one empty partition of an empty plan
            for offsets in partition.ranges:
                yield from self.read_range(offsets)

    def read_range(self, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yield the records of *offsets*; errors as those of `read`."""
        yield from read_what_is_left(self._options, offsets, self._read_as_it_is)

    def _read_as_it_is(self, offsets: OffsetRange) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield records, and the offset behind them if the read may have to go on from there."""
        for log, start, end in source_of(self._options).parts(offsets):
            if self._columns:
                yield from self._batches(log, start, end)
            else:
                scan = self._scan(log, start, end, (OFFSET,))
                count = scan.count(by_headers=not self._options.skips_damage)
                for batch in _rows_without_columns(count):
                    yield batch, end
                _warn_of(scan, log)

    def _scan(self, log: VisibleLog, start: int, end: int, columns: Sequence[str]) -> LogScan:
        on_damage: Literal["raise", "skip"] = "skip" if self._options.skips_damage else "raise"
        return log.scan(start, end, columns, on_damage=on_damage, **self._timestamps)

    def _batches(
        self, log: VisibleLog, start: int, end: int
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        import pyarrow as pa

        schema = arrow_schema(self._columns)
        required = [index for index, column in enumerate(self._columns) if not column.nullable]
        sources = [column.source for column in self._columns]
        knows_offsets = not self._options.fail_on_data_loss
        if knows_offsets and OFFSET not in sources:
            sources.append(OFFSET)
        scan = self._scan(log, start, end, sources)
        for batch in scan.arrow_batches(ROWS_IN_A_BATCH, BYTES_IN_A_BATCH, timestamp_unit="us"):
            read = pa.record_batch(batch)
            for index in required:
                if read.column(index).null_count:
                    name = self._columns[index].name
                    raise ConnectorOptionError(
                        f"the schema says {name!r} is NOT NULL, but a record of "
                        f"{log.topic_partition} has none",
                        found="null",
                        expected=f"a schema that lets {name!r} be null",
                    )
            rows = 0
            rows_read = read if read.schema == schema else _under(read, schema)
            for part in _slices(rows_read):
                rows += part.num_rows
                yield part, read.column(OFFSET)[rows - 1].as_py() + 1 if knows_offsets else start
        _warn_of(scan, log)


def _warn_of(scan: LogScan, log: VisibleLog) -> None:
    """Say on the task's standard error what was left out because it cannot be read."""
    for lost in scan.skipped:
        warn(f"{log.topic_partition}: left out {lost}")


def _under(read: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the first columns of *read* with the names and nullability of *schema*."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(read.columns[: len(schema)], schema=schema)


def _rows_without_columns(count: int) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for start in range(0, count, EMPTY_ROWS):
        rows = min(EMPTY_ROWS, count - start)
        empty = pa.StructArray.from_buffers(pa.struct([]), rows, [None])
        yield pa.RecordBatch.from_struct_array(empty)


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = min(MOST_ROWS, batch.num_rows)
    if batch.nbytes > MOST_BYTES:
        rows = max(1, min(rows, batch.num_rows * MOST_BYTES // batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
