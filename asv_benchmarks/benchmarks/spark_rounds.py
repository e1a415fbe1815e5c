"""A Spark that does one round at a word: the program that `spark_process` starts.

A line of JSON with the round's name and arguments comes in; what goes out is the number of rows
that the round went over, as Spark counted them.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import segstore.spark
from benchmarks.spark_ready_made import ReadyMadeSource, make_ready
from segstore.spark import jobs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TEXT_BYTES = 16_384
_WORDS = [f"word{number * number % 499:03}" for number in range(TEXT_BYTES // 8)]


class Rounds:
    """What can be asked for; each public method is a round.

    Parameters
    ----------
    spark : SparkSession
        With the connector.
    work : Path
        A scratch directory.
    server : str
        Of the broker, ``host:port``.
    logs : str
        The broker's log directory, which ``format("segstore")`` reads.
    partitions : int
        Of every topic.
    """

    def __init__(
        self, spark: SparkSession, work: Path, server: str, logs: str, partitions: int
    ) -> None:
        self._spark = spark
        self._work = work
        self._kafka = {"kafka.bootstrap.servers": server}
        self._segstore = {"path": logs}
        self._partitions = partitions

    def fill(self, topic: str, value_bytes: int, rows: int) -> int:
        """Write so many rows into each partition of a topic, by the connector.

        8-byte keys out of 100,000, values cut out of text; batches as large as a producer's are.
        """
        text = " ".join(_WORDS)
        frame = self._spark.range(0, rows * self._partitions, 1, self._partitions).selectExpr(
            "cast(lpad(cast(pmod(hash(id), 100000) AS string), 8, '0') AS binary) AS key",
            f"substring(cast('{text}' AS binary), 1 + pmod(xxhash64(id), "
            f"{TEXT_BYTES - 8 - value_bytes}), {value_bytes}) AS value",
            f"cast(id % {self._partitions} AS int) AS partition",
        )
        producer = {"topic": topic, "kafka.linger.ms": "50"}
        frame.write.format("kafka").options(**self._kafka, **producer).save()
        return rows * self._partitions

    def copy(self, topic: str) -> int:
        """Copy a topic into Parquet, and into Arrow files, one for each partition."""
        parquet = self._work / f"{topic}.parquet"
        self._read("kafka", topic).write.parquet(str(parquet))
        make_ready(parquet, self._work / f"{topic}-ready")
        return self._read("parquet", topic).count()

    def read(self, source: str, topic: str, rows: int, value_bytes: int, action: str) -> int:
        """Go over a topic: ``sum`` of the lengths of values, ``noop`` write of all, ``count``."""
        frame = self._read(source, topic, rows)
        if action == "count":
            return frame.count()
        if action == "noop":
            frame.write.format("noop").mode("overwrite").save()
            return rows * self._partitions
        total, _ = frame.selectExpr("sum(length(value))", "max(offset)").first()
        return total // value_bytes

    def count(self, topic: str) -> int:
        """``segstore.spark.count``."""
        return segstore.spark.count(self._spark, self._segstore["path"], subscribe=topic)

    def compact(self, path: str) -> int:
        """Compact a log directory by the job; the number of partitions that had a pass."""
        report = jobs.compact(self._spark, path)
        assert report.ok, report
        return sum(one["passes"] > 0 for one in report.results.values())

    def stream(self, source: str, topic: str) -> int:
        """A new streaming query over a topic, with the trigger availableNow."""
        options = self._kafka if source == "kafka" else self._segstore
        checkpoint = tempfile.mkdtemp(dir=self._work)
        frame = (
            self._spark.readStream.format(source)
            .options(**options, subscribe=topic, startingOffsets="earliest")
            .load()
        )
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        shutil.rmtree(checkpoint)
        return sum(progress.numInputRows for progress in query.recentProgress)

    def write(self, sink: str, topic: str, rows: int, target: str) -> int:
        """Write keys and values of so many rows a partition, from Parquet."""
        frame = self._spark.read.parquet(str(self._work / f"{topic}.parquet"))
        frame = frame.where(f"offset < {rows}").select("key", "value")
        options = {"topic": target}
        if sink == "segstore":
            options |= {"path": str(self._work / target), "numPartitions": str(self._partitions)}
        else:
            options |= self._kafka
        frame.write.format(sink).mode("append").options(**options).save()
        return rows * self._partitions

    def remove(self, target: str) -> int:
        """Remove what was written to *target*; the number of records that were there."""
        path = self._work / target
        found = segstore.spark.count(self._spark, path)
        shutil.rmtree(path)
        return found

    def _read(self, source: str, topic: str, rows: int = 0) -> DataFrame:
        if source == "parquet":
            return self._spark.read.parquet(str(self._work / f"{topic}.parquet"))
        if source == "segstore.spark.read":
            return segstore.spark.read(self._spark, self._segstore["path"], subscribe=topic)
        ready = str(self._work / f"{topic}-ready")
        options = {
            "kafka": self._kafka | {"subscribe": topic},
            "segstore": self._segstore | {"subscribe": topic},
            "ready-made": {"path": ready, "rows": "0"},
            "ready-made, one batch": {"path": ready, "rows": str(rows)},
        }[source]
        source = source.partition(",")[0]
        return self._spark.read.format(source).options(**options).load()


def main(settings: dict[str, Any]) -> None:
    """Do rounds until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Spark and its workers print is no answer
    work = Path(settings["work"])
    spark = segstore.spark.session(
        "benchmarks",
        **{
            "spark.jars": settings["jars"],
            "spark.driver.memory": "4g",
            "spark.driver.extraJavaOptions": settings["java"],
            "spark.local.dir": str(work / "spark"),
            "spark.sql.warehouse.dir": str(work / "warehouse"),
        },
    )
    spark.dataSource.register(ReadyMadeSource)
    rounds = Rounds(spark, work, settings["server"], settings["logs"], settings["partitions"])
    for line in sys.stdin:
        name, arguments = json.loads(line)
        print(getattr(rounds, name)(**arguments), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
