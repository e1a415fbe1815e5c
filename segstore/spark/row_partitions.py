"""Which partition each row goes to: what its columns say, else as Kafka's clients choose it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from segstore._core import write_varint
from segstore.errors import IllegalArgumentError, RecordTooLargeError
from segstore.manager.partition_records import (
    StickyPartitioner,
    partitions_of_rows,
    rows_by_number,
)
from segstore.records.columns import RECORD_COLUMNS
from segstore.spark.conditions import condition_error
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from segstore.spark.sink_options import SinkOptions
    from segstore.spark.sink_topics import SinkTopics

BATCH_AND_RECORD_OVERHEAD = 61 + 21
"""What a producer adds to the fields of a record to get its "size when serialized"."""


class RowPartitions:
    """Sorts the rows of one task into partitions.

    Records without key and partition stay with one partition for ``batch.size`` bytes, then the
    next one gets its turn; each task begins with a random one.

    Parameters
    ----------
    options : SinkOptions
        The topic for all rows, and whether keys count.
    topics : SinkTopics
        How many partitions they have.
    """

    def __init__(self, options: SinkOptions, topics: SinkTopics) -> None:
        self._options = options
        self._topics = topics
        self._partitioners: dict[str, StickyPartitioner] = {}

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """Yield the records of *batch* by partition, in their order.

        Raises
        ------
        ConnectorConditionError
            KAFKA_NULL_TOPIC_IN_DATA.
        IllegalArgumentError, UnknownTopicOrPartitionError
            A negative partition; one that the topic does not have.
        RecordTooLargeError
            A record is larger than ``max.request.size``.
        """
        if batch.num_rows == 0:
            return
        check_record_sizes(batch, self._options.max_request_bytes)
        for topic, rows in self._by_topic(batch):
            numbers = self._numbers(topic, rows)
            records = rows.select([name for name in rows.schema.names if name in RECORD_COLUMNS])
            for number, part in rows_by_number(records, numbers).items():
                yield TopicPartition(topic, number), part

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._options.topic is not None:
            yield self._options.topic, batch
            return
        topics = batch.column("topic")
        if topics.null_count:
            raise condition_error("KAFKA_NULL_TOPIC_IN_DATA")
        encoded = topics.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        for code, rows in rows_by_number(batch, encoded.indices.to_numpy()).items():
            yield names[code], rows

    def _numbers(self, topic: str, rows: pa.RecordBatch) -> Any:
        """Partition of each row."""
        if "partition" not in rows.schema.names:
            return self._chosen(topic, rows)
        given = rows.column("partition")
        numbers = given.fill_null(0).to_numpy()
        is_null = given.is_null().to_numpy(zero_copy_only=False)
        for number in given.drop_null().unique().to_pylist():
            if number < 0:
                raise IllegalArgumentError(
                    f"Invalid partition: {number}. Partition number should always be non-negative "
                    "or null.",
                    found=str(number),
                    expected="0 or more, or null",
                )
            self._topics.check_partition(topic, number)
        if not given.null_count:
            return numbers
        numbers = numbers.copy()
        numbers[is_null] = self._chosen(topic, rows.filter(given.is_null()))
        return numbers

    def _chosen(self, topic: str, rows: pa.RecordBatch) -> Any:
        """Partition of each row by its key."""
        partitioner = self._partitioners.get(topic)
        if partitioner is None:
            count = self._topics.count_for_keys(topic)
            first = random.randrange(count)  # noqa: S311 - spreads the tasks
            partitioner = StickyPartitioner(count, self._options.batch_bytes, first)
            self._partitioners[topic] = partitioner
        if self._options.ignore_keys:
            rows = rows.select([name for name in rows.schema.names if name != "key"])
        return partitions_of_rows(rows, partitioner)


def check_record_sizes(batch: pa.RecordBatch, limit: int) -> None:
    """Refuse a record that a producer would refuse for its key and value, before compression.

    The size is the upper bound that a producer reckons with (Kafka
    ``AbstractRecords.estimateSizeInBytesUpperBound``).
    """
    if batch.nbytes <= limit - BATCH_AND_RECORD_OVERHEAD:
        return
    import pyarrow.compute as pc

    sizes = _field_sizes(batch, "value"), _field_sizes(batch, "key")
    largest = pc.index(total := pc.add(*sizes), pc.max(total)).as_py()
    size_bytes = BATCH_AND_RECORD_OVERHEAD + len(write_varint(0))  # no headers
    for field in (size[largest].as_py() for size in sizes):
        size_bytes += len(write_varint(field)) + max(0, field)
    if size_bytes > limit:
        raise RecordTooLargeError(
            f"The message is {size_bytes} bytes when serialized which is larger than {limit}, "
            "which is the value of the max.request.size configuration.",
            found=f"{size_bytes} bytes",
            expected=f"at most {limit} bytes",
        )


def _field_sizes(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Length of each field in bytes, -1 for null as a record has it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if name not in batch.schema.names:
        return pa.repeat(pa.scalar(-1, pa.int64()), batch.num_rows)
    return pc.binary_length(batch.column(name)).cast(pa.int64()).fill_null(-1)
