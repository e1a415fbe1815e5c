"""Batch writes by Spark: the sink against that of Spark's Kafka connector with a broker."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .spark_process import IS_SMOKE, PARTITIONS, _SparkComparison

if TYPE_CHECKING:
    from .common import Cost


class SparkSink(_SparkComparison):
    """Keys and values from Parquet into a new topic of four partitions.

    What ours has written is on stable storage, the broker's is not.
    """

    params = ([100, 1000],)
    param_names = ("value_bytes",)

    def setup(self, value_bytes: int) -> None:
        self.start(value_bytes)
        self.rows = self.topic.rows // (1 if IS_SMOKE else 2)
        self.number = 0

    def ours(self) -> Cost:
        cost = self._write("segstore", "sink")
        assert self.spark.rows("remove", target="sink") == self.rows * PARTITIONS
        return cost

    def theirs(self) -> Cost:
        self.number += 1
        target = f"{self.topic.name}-sink-{self.number}"
        self.spark.make_topic(target)
        return self._write("kafka", target)

    def _write(self, sink: str, target: str) -> Cost:
        os.sync()  # what the broker left to the kernel is no work of this round
        return self.spark.cost(
            self.rows * PARTITIONS,
            "write",
            sink=sink,
            topic=self.topic.name,
            rows=self.rows,
            target=target,
        )
