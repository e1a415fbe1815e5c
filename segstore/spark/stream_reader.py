"""``spark.readStream.format("segstore")``: logs as an endless table, micro-batch by micro-batch.

Spark keeps one of these in a process beside the driver for as long as the query runs; a copy of it
travels to the executors for ``read``. It follows a log that another process is writing: ends are
looked up in the directory each time Spark asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader

from segstore.spark.driver_warning import warn
from segstore.spark.offsets import tasks_of
from segstore.spark.open_logs import OPEN_LOGS
from segstore.spark.range_reader import OffsetRangePartition, RangeReader
from segstore.spark.schema import columns_of
from segstore.spark.stream_options import StreamOptions, parse_stream_options
from segstore.spark.stream_plan import StreamPlan
from segstore.spark.topic_offsets import (
    NO_OFFSETS,
    StreamOffsets,
    TopicOffsets,
    from_topic_offsets,
    to_topic_offsets,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    HAS_READ_LIMITS = True
except ImportError:  # Spark 4.0 and 4.1
    HAS_READ_LIMITS = False


class StreamReader(DataSourceStreamReader):
    """What a streaming read is in every version of Spark.

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
        self._options: StreamOptions = parse_stream_options(options)
        self._reader = RangeReader(self._options.read, columns_of(schema))
        self._plan = StreamPlan(self._options, self._reader.open, warn)
        for text in self._options.read.warnings:
            warn(text)

    def initialOffset(self) -> TopicOffsets:  # noqa: N802 - Spark's name
        """Return where a new query starts, as ``{"topic": {"0": 301}}`` and the topic's id."""
        return to_topic_offsets(self._plan.initial_offsets())

    def partitions(self, start: TopicOffsets, end: TopicOffsets) -> list[InputPartition]:
        """Return the Spark partitions of the micro-batch from *start* to *end*."""
        ranges = self._plan.ranges(from_topic_offsets(start), from_topic_offsets(end))
        return [OffsetRangePartition(task) for task in tasks_of(self._options.read, ranges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task as Arrow record batches.

        Raises
        ------
        ConnectorConditionError
            A log no longer holds all offsets of a range, and ``failOnDataLoss`` is true.
        """
        return self._reader.read(partition)

    def commit(self, end: TopicOffsets) -> None:
        """Do nothing: offsets are in Spark's checkpoint, a log keeps none for its readers."""

    def stop(self) -> None:
        """Close the logs."""
        OPEN_LOGS.close()


class UnlimitedStreamReader(StreamReader):
    """A streaming read with Spark 4.0 and 4.1, which do not tell where a batch begins.

    It goes by the end of the last batch that was planned. Spark asks for the first end before
    anything else, of a new query as after a restart, so the first batch takes all there is.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self._last_end: StreamOffsets | None = None
        if self._options.limits.max_offsets is not None:
            warn(
                "option maxOffsetsPerTrigger: before Spark 4.2 the first batch of each run has no "
                "limit, and a run with the trigger availableNow is one batch"
            )

    def latestOffset(self) -> TopicOffsets:  # type: ignore[override]  # noqa: N802
        """Return where the next micro-batch ends."""
        start = self._last_end
        end = self._plan.latest_offsets(start or NO_OFFSETS, takes_all=start is None)
        return to_topic_offsets(end)

    def partitions(self, start: TopicOffsets, end: TopicOffsets) -> list[InputPartition]:
        """Return the Spark partitions of a micro-batch; the next one begins at its *end*."""
        partitions = super().partitions(start, end)
        self._last_end = from_topic_offsets(end)
        return partitions


if HAS_READ_LIMITS:

    class SegstoreStreamReader(StreamReader, SupportsTriggerAvailableNow):
        """A streaming read with Spark 4.2 and later, which tells where a batch begins."""

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            """Return a limit that is not "all": only its kind is looked at, see latestOffset."""
            most = self._options.limits.max_offsets
            if most is None and self._options.limits.min_offsets is None:
                return ReadAllAvailable()
            return ReadMaxRows(0 if most is None else most)

        def latestOffset(  # noqa: N802
            self, start: TopicOffsets, limit: ReadLimit
        ) -> TopicOffsets:
            """Return where the micro-batch that begins at *start* ends.

            The options say how far; Trigger.Once and the like pass a limit that overrules them.
            """
            takes_all = isinstance(limit, ReadAllAvailable)
            offsets = self._plan.latest_offsets(from_topic_offsets(start), takes_all=takes_all)
            return to_topic_offsets(offsets)

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            """Fix the end of this run."""
            self._plan.prepare_for_available_now()

        def reportLatestOffset(self) -> TopicOffsets | None:  # noqa: N802
            """Return the ends of the logs, for the query's progress."""
            return None if self._plan.latest is None else to_topic_offsets(self._plan.latest)

else:
    SegstoreStreamReader = UnlimitedStreamReader  # type: ignore[misc, assignment]
