"""``option("kind", "batches")`` and so on: what the logs say of themselves, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from pyspark.sql.datasource import DataSourceReader, InputPartition

from segstore.spark.conditions import ConnectorOptionError
from segstore.spark.driver_warning import warn
from segstore.spark.log_source import source_of
from segstore.spark.metadata_rows import ROWS_OF_LOGS, batch_rows, metadata_batch
from segstore.spark.metadata_schema import kind_of, metadata_arrow_schema, metadata_columns
from segstore.spark.offsets import choose_partitions, plan_ranges, tasks_of
from segstore.spark.options import parse_options
from segstore.spark.topic_rows import PlannedTopic, planned_topics, topic_rows
from segstore.tables.offset_ranges import OffsetRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from segstore.log.unified_log import Log
    from segstore.spark.log_source import LogSource
    from segstore.spark.options import ConnectorOptions
    from segstore.types import TopicPartition

BATCHES: Final = "batches"
TOPICS: Final = "topics"
_LIMITS: Final = ("offsets", "offsetsbytimestamp", "timestamp")
_OF_BATCHES: Final = {f"{side}{limit}" for side in ("starting", "ending") for limit in _LIMITS} | {
    "isolation.level",
    "kafka.isolation.level",
}


class MetadataPartition(NamedTuple):
    """What a task reads of one partition.

    Attributes
    ----------
    offsets : OffsetRange
        The range of ``kind=batches``; of other kinds only topic and partition count.
    is_first : bool
        Whether a batch that begins below the range, and reaches into it, is one of its rows: of
        several ranges of one partition only the first one's.
    """

    offsets: OffsetRange
    is_first: bool


class MetadataReader(DataSourceReader):
    """A batch read of one metadata table.

    Parameters
    ----------
    options : mapping of str to str
        As Spark hands them over.
    schema : StructType
        The table's schema, or a user's choice of its columns.

    Raises
    ------
    ConnectorOptionError
        For options or a schema that cannot be.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._kind = kind_of(options)
        self._options: ConnectorOptions = parse_options(options)
        self._columns = metadata_columns(self._kind, schema)
        given = {name.lower() for name in options} & _OF_BATCHES
        if self._options.files:
            raise ConnectorOptionError(
                f"kind={self._kind} is metadata of logs, and path names files alone: `segstore "
                "dump` prints those of a file",
                found=self._options.shown_path,
                expected="a log directory",
            )
        if self._kind == TOPICS and self._options.is_remote:
            raise ConnectorOptionError(
                f"kind={TOPICS} needs a log directory on a local disk: it shows what a manager goes"
                " by",
                found=self._options.shown_path,
                expected="a path",
            )
        if self._kind != BATCHES and given:
            raise ConnectorOptionError(
                f"kind={self._kind} shows whole logs: {', '.join(sorted(given))} is for batches "
                "and records",
                found=", ".join(sorted(given)),
                expected="no such option",
            )
        for text in self._options.warnings:
            warn(text)

    def partitions(self) -> list[InputPartition]:
        """Return Spark partitions: of partitions, of ranges of their batches, or of a topic."""
        source = source_of(self._options)
        existing = source.partitions()
        if self._kind == TOPICS:
            chosen = choose_partitions(self._options, existing, warn)
            topics = planned_topics(self._options.absolute_path, chosen)
            return [InputPartition(one) for one in topics]
        if self._kind == BATCHES:
            ranges = plan_ranges(self._options, existing, source.open, warn)
        else:
            chosen = choose_partitions(self._options, existing, warn)
            ranges = [OffsetRange(*partition, 0, 0) for partition in chosen]
        seen: set[TopicPartition] = set()
        planned: list[InputPartition] = []
        for task in tasks_of(self._options, ranges):
            wanted = []
            for offsets in task:
                is_first = offsets.topic_partition not in seen
                seen.add(offsets.topic_partition)
                wanted.append(MetadataPartition(offsets, is_first))
            planned.append(InputPartition(wanted))
        return planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task as Arrow record batches.

        Raises
        ------
        SegstoreError
            The log is damaged where it has to be read.
        """
        if partition.value is None:
            return  # Spark makes one empty partition of a plan that has none
        schema = metadata_arrow_schema(self._kind, self._columns)
        if isinstance(partition.value, PlannedTopic):
            topic = partition.value
            rows = topic_rows(topic, _whole_logs(source_of(self._options), topic.partitions))
            yield metadata_batch(rows, topic.name, None, schema)
            return
        for wanted in cast("list[MetadataPartition]", partition.value):
            yield from self._rows_of(wanted, schema)

    def _rows_of(self, wanted: MetadataPartition, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        name, number = wanted.offsets.topic_partition
        if self._kind == BATCHES:
            for columns in self._batches(wanted):
                yield metadata_batch(columns, name, number, schema)
            return
        source = source_of(self._options)
        with source.open_whole(wanted.offsets.topic_partition) as (log, path):
            rows = ROWS_OF_LOGS[self._kind](log)
            if "file" in rows:  # of a log at a URL, not where it was brought
                rows["file"] = [file.replace(log.path, path, 1) for file in rows["file"]]
            yield metadata_batch(rows, name, number, schema)

    def _batches(self, wanted: MetadataPartition) -> Iterator[dict[str, object]]:
        is_first = wanted.is_first
        for log, start, end in source_of(self._options).parts(wanted.offsets):
            scan = log.scan(start, end, ("offset",))
            yield from batch_rows(scan, from_base_offset=0 if is_first else start)
            is_first = False


def _whole_logs(source: LogSource, partitions: Iterable[TopicPartition]) -> Iterator[Log]:
    """Yield logs, each open until the next one is asked for."""
    for partition in partitions:
        with source.open_whole(partition) as (log, _):
            yield log
