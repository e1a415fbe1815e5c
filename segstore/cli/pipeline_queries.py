"""The driver of the pipeline, made to be killed: three streaming queries, each of which goes on.

``python -m segstore.cli.pipeline_queries WORK``: files of events to a log; the log, as committed,
to records and miles of each key and day, in a log of their own; that one to Parquet. Where to go on
is in Spark's checkpoints and in the logs, so whoever runs it again finishes the work.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import segstore

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

EVENTS, TOTALS = "events", "totals-by-day"
EVENT_PARTITIONS, TOTAL_PARTITIONS = 4, 2
EVENT_SCHEMA: Final = "key BINARY, value BINARY, timestamp TIMESTAMP"
NUMBER: Final = "number"
"""Column of the files: which event it is, counted through all of them."""
WATERMARK_DAYS: Final = 30
"""How far events may be behind the newest one; partitions are not read in step."""
SETTINGS: Final[dict[str, Any]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": 2,
    "spark.sql.streaming.pollingDelay": "50ms",
}


def source_folder(work: Path) -> Path:
    """Files of events, Parquet, to be read in the order of their times of change."""
    return work / "files"


def event_log(work: Path) -> Path:
    """Log directory with the topic of the events."""
    return work / "log"


def totals_log(work: Path) -> Path:
    """Log directory with the topic of the totals."""
    return work / "totals"


def totals_files(work: Path) -> Path:
    """Parquet files with the totals, as Spark's file sink writes them."""
    return work / "parquet"


def totals_found(work: Path) -> Path:
    """What Spark reads in the Parquet files in the end, a JSON list of rows."""
    return work / "parquet.json"


def write_events(spark: SparkSession, work: Path) -> StreamingQuery:
    """Start: file by file into the log, until all are there.

    Killed when Spark has noted the next file and not yet that a micro-batch begins, it reads two
    in one after its restart, the larger one first: so each micro-batch is put in order.
    """
    reader = spark.readStream.schema(f"{EVENT_SCHEMA}, {NUMBER} LONG")
    return (
        reader.option("maxFilesPerTrigger", 1)
        .parquet(str(source_folder(work)))
        .coalesce(1)
        .mapInArrow(in_order, EVENT_SCHEMA)
        .writeStream.format("segstore")
        .options(path=str(event_log(work)), topic=EVENTS, numPartitions=EVENT_PARTITIONS)
        .option("checkpointLocation", str(work / "checkpoints" / EVENTS))
        .trigger(availableNow=True)
        .start()
    )


def in_order(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the events of a micro-batch in the order of their numbers, without these."""
    import pyarrow as pa

    every = list(batches)
    if every:
        yield from pa.Table.from_batches(every).sort_by(NUMBER).drop([NUMBER]).to_batches()


def add_up(spark: SparkSession, work: Path) -> StreamingQuery:
    """Start: records and miles by key and day of event time, written when a day is over."""
    from pyspark.sql.functions import count, window
    from pyspark.sql.functions import sum as sum_

    events = (
        spark.readStream.format("segstore")
        .options(path=str(event_log(work)), subscribe=EVENTS, startingOffsets="earliest")
        .option("isolation.level", "read_committed")
        .load()
    )
    columns = events.selectExpr(
        "timestamp",
        "CAST(key AS STRING) AS name",
        "CAST(get_json_object(CAST(value AS STRING), '$.distance') AS LONG) AS distance",
    )
    days = columns.withWatermark("timestamp", f"{WATERMARK_DAYS} days").groupBy(
        window("timestamp", "1 day"), "name"
    )
    totals = days.agg(count("*").alias("records"), sum_("distance").alias("miles")).selectExpr(
        "name AS key",
        "to_json(struct(unix_millis(window.start) AS day, name, records,"
        " coalesce(miles, 0L) AS miles)) AS value",
        "window.start AS timestamp",
    )
    return (
        totals.writeStream.format("segstore")
        .options(path=str(totals_log(work)), topic=TOTALS, numPartitions=TOTAL_PARTITIONS)
        .option("checkpointLocation", str(work / "checkpoints" / TOTALS))
        .start()
    )


def keep(spark: SparkSession, work: Path) -> StreamingQuery:
    """Start: the totals, as they come, into Parquet files."""
    totals = (
        spark.readStream.format("segstore")
        .options(path=str(totals_log(work)), subscribe=TOTALS, startingOffsets="earliest")
        .option("isolation.level", "read_committed")
        .load()
    )
    rows = totals.selectExpr(
        "from_json(CAST(value AS STRING), 'day LONG, name STRING, records LONG, miles LONG') AS row"
    )
    return (
        rows.select("row.*")
        .writeStream.format("parquet")
        .option("path", str(totals_files(work)))
        .option("checkpointLocation", str(work / "checkpoints" / "parquet"))
        .start()
    )


def make_topics(work: Path) -> None:
    """Make the topics that are not there: a reader of one that is missing would refuse to start."""
    for directory, topic, partitions in (
        (event_log(work), EVENTS, EVENT_PARTITIONS),
        (totals_log(work), TOTALS, TOTAL_PARTITIONS),
    ):
        directory.mkdir(parents=True, exist_ok=True)
        with segstore.open_dir(directory) as logs:
            if topic not in logs.topics():
                logs.create_topic(topic, partitions)


def main(work: Path) -> None:
    """Run the queries until every event is in every result."""
    from segstore.spark import session

    make_topics(work)
    spark = session("segstore pipeline", **SETTINGS)
    writing, adding, keeping = (start(spark, work) for start in (write_events, add_up, keep))
    writing.awaitTermination()
    for query in (adding, keeping):  # in this order: the second reads what the first writes
        query.processAllAvailable()
        query.stop()
    rows = spark.read.parquet(str(totals_files(work))).collect()
    found = totals_found(work)
    found.with_suffix(".tmp").write_text(json.dumps([row.asDict() for row in rows]))
    found.with_suffix(".tmp").replace(found)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
