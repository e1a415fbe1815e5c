"""What the demo asks Spark, and the same answers computed from the source file."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from segstore.cli.demo_writer import events_by_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore.cli.demo_source import DemoData

RANGE_RECORDS = 500


@dataclass(frozen=True, slots=True)
class Answer:
    """One question with both answers."""

    question: str
    by_spark: Any
    from_source: Any
    shown: str

    @property
    def matches(self) -> bool:
        """Whether Spark says what the source says."""
        return bool(self.by_spark == self.from_source)


def ask_spark(
    spark: Any, directory: Path, data: DemoData, tell: Callable[[str], None]
) -> Iterator[Answer]:
    """Ask all questions through ``format("segstore")``, one after the other."""
    tell("asking Spark for the records per key; the first query starts Python workers: seconds")
    yield per_key(spark, directory, data)
    tell("asking for the records of a range of offsets")
    yield by_offset_range(spark, directory, data)
    tell("asking for the records of a range of times")
    yield by_time_range(spark, directory, data)


def _reader(spark: Any, directory: Path, data: DemoData) -> Any:
    reader = spark.read.format("segstore").option("path", str(directory))
    return reader.option("subscribe", data.topic)


def per_key(spark: Any, directory: Path, data: DemoData) -> Answer:
    """All records, counted by key; the schema of one column reads that column only."""
    frame = _reader(spark, directory, data).schema("key BINARY").load()
    rows = frame.groupBy("key").count().collect()
    by_spark = {bytes(row["key"]): row["count"] for row in rows}
    from_source = dict(Counter(key for _, key, _ in data.events))
    most = ", ".join(
        f"{key.decode('utf-8', 'replace')} {count}"
        for key, count in Counter(by_spark).most_common(4)
    )
    return Answer(f"records per {data.key_name}", by_spark, from_source, f"{most}, ...")


def by_offset_range(spark: Any, directory: Path, data: DemoData) -> Answer:
    """The records in the middle of each partition, by ``startingOffsets`` and ``endingOffsets``."""
    partitions = events_by_partition(data)
    first = {str(n): len(events) // 2 for n, events in enumerate(partitions)}
    until = {
        str(n): min(len(events), len(events) // 2 + RANGE_RECORDS)
        for n, events in enumerate(partitions)
    }
    frame = (
        _reader(spark, directory, data)
        .option("startingOffsets", json.dumps({data.topic: first}))
        .option("endingOffsets", json.dumps({data.topic: until}))
        .schema("partition INT, offset LONG, key BINARY, value BINARY")
        .load()
    )
    by_spark = sorted(
        (row["partition"], row["offset"], bytes(row["key"]), bytes(row["value"]))
        for row in frame.collect()
    )
    from_source = [
        (number, offset, *partitions[number][offset][1:])
        for number in range(len(partitions))
        for offset in range(first[str(number)], until[str(number)])
    ]
    shown = f"{len(by_spark)} records, each compared byte by byte"
    return Answer("records by offset range", by_spark, from_source, shown)


def by_time_range(spark: Any, directory: Path, data: DemoData) -> Answer:
    """Records per key between two times, by a filter on ``timestamp``."""
    from pyspark.sql import functions

    start, end = data.time_range
    moments = [datetime.fromtimestamp(timestamp / 1000, UTC) for timestamp in (start, end)]
    frame = _reader(spark, directory, data).schema("key BINARY, timestamp TIMESTAMP").load()
    inside = frame.where((frame["timestamp"] >= moments[0]) & (frame["timestamp"] < moments[1]))
    rows = (
        inside.groupBy("key")
        .agg(
            functions.count("*").alias("records"),
            functions.min(functions.unix_millis("timestamp")).alias("first"),
            functions.max(functions.unix_millis("timestamp")).alias("last"),
        )
        .collect()
    )
    by_spark = {bytes(row["key"]): (row["records"], row["first"], row["last"]) for row in rows}
    times: dict[bytes, list[int]] = {}
    for timestamp, key, _ in data.events:
        if start <= timestamp < end:
            times.setdefault(key, []).append(timestamp)
    from_source = {key: (len(found), found[0], found[-1]) for key, found in times.items()}
    total = sum(count for count, _, _ in by_spark.values())
    question = f"records from {moments[0]:%Y-%m-%d %H:%M} to {moments[1]:%Y-%m-%d %H:%M}"
    return Answer(question, by_spark, from_source, f"{total} records of {len(by_spark)} keys")
