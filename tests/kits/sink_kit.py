"""Writes without Spark: what Spark does with a writer, in one process."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import segstore
from segstore.spark.datasource import SegstoreDataSource

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from segstore.spark.writer import SegstoreStreamWriter

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
SPARK_TYPES = {
    "key": StringType(),
    "value": StringType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "timestamp": TimestampType(),
    "headers": ArrayType(HEADER),
}
ARROW_TYPES = {
    "key": pa.string(),
    "value": pa.string(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}
QUERY = "6f1d6f0e-query"


def schema_of(*names: str) -> StructType:
    """The schema of a DataFrame with these columns."""
    return StructType([StructField(name, SPARK_TYPES[name]) for name in names])


def batch_of(**columns: Sequence[Any]) -> pa.RecordBatch:
    """Rows as Spark hands them to a task."""
    arrays = [pa.array(values, ARROW_TYPES[name]) for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def numbered(first: int, count: int, **more: Sequence[Any]) -> pa.RecordBatch:
    """Rows with the keys k0, k1 … k6 and the values first, first + 1 …"""
    numbers = range(first, first + count)
    return batch_of(key=[f"k{n % 7}" for n in numbers], value=[str(n) for n in numbers], **more)


class Stream:
    """A streaming query as far as a writer sees it: tasks, then a commit by a new writer."""

    def __init__(self, path: Path, query_id: str | None = QUERY, **options: str) -> None:
        self.options = {"path": str(path), **options}
        self.query_id = query_id

    def writer(self, schema: StructType) -> SegstoreStreamWriter:
        """A writer that was made anew, as Spark makes one for each step."""
        return SegstoreDataSource(copy.copy(self.options)).streamWriter(schema, overwrite=False)

    def stage(self, *tasks: pa.RecordBatch) -> list[Any]:
        """Run the tasks; returns their messages, as they come back to the driver."""
        sink = pickle.loads(pickle.dumps(self.writer(schema_of(*tasks[0].schema.names))))._sink
        messages = [sink.stage(iter([task]), self.query_id) for task in tasks]
        return pickle.loads(pickle.dumps(messages))

    def commit(self, messages: list[Any], batch_id: int) -> None:
        """Commit as the driver does."""
        self.writer(schema_of("key", "value")).commit(messages, batch_id)

    def abort(self, messages: list[Any], batch_id: int) -> None:
        """Abort as the driver does."""
        self.writer(schema_of("key", "value")).abort(messages, batch_id)

    def run(self, batch_id: int, *tasks: pa.RecordBatch) -> None:
        """A whole micro-batch."""
        self.commit(self.stage(*tasks), batch_id)


def write_batch(path: Path, *tasks: pa.RecordBatch, schema: StructType | None = None, **options):
    """A whole batch write; returns its writer."""
    data_source = SegstoreDataSource({"path": str(path), **options})
    made = data_source.writer(schema or schema_of(*tasks[0].schema.names), overwrite=False)
    messages = [pickle.loads(pickle.dumps(made)).write(iter([task])) for task in tasks]
    pickle.loads(pickle.dumps(made)).commit(messages)
    return made


def make_topic(path: Path, topic: str = "t", partitions: int = 3) -> None:
    """A directory with an empty topic, as somebody left it who closed it well."""
    with segstore.open_dir(path, durability="none") as manager:
        manager.create_topic(topic, partitions)


def records_of(path: Path, topic: str = "t") -> dict[int, list[Any]]:
    """Every record of a topic by partition, in order."""
    with segstore.open_dir(path, read_only=True) as manager:
        return {p: list(manager.log(topic, p)) for p in manager.topics()[topic]}


def values_of(path: Path, topic: str = "t") -> dict[int, list[int]]:
    """The values, which are numbers."""
    return {
        partition: [int(record.value) for record in records]
        for partition, records in records_of(path, topic).items()
    }


def hidden_files(path: Path, kind: str = "") -> list[str]:
    """The sink's own files in a log directory."""
    return sorted(file.name for file in path.glob(f".segstore-{kind}*"))


def refused(options: dict[str, str], *, schema: StructType | None = None) -> str:
    """What the error says that a writer with these options raises."""
    try:
        SegstoreDataSource({"path": "x", **options}).writer(
            schema or schema_of("value"), overwrite=False
        )
    except segstore.SegstoreError as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError(options)
