"""The number of records in a topic, asked of Spark: against its Kafka connector with a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .spark_process import _SparkComparison

if TYPE_CHECKING:
    from .common import Cost


class SparkCount(_SparkComparison):
    """``segstore.spark.count``, or ``count()`` of the source, against ``count()``."""

    params = ([100, 1000], ["segstore.spark.count", "count()"])
    param_names = ("value_bytes", "ours")

    def setup(self, value_bytes: int, ours: str) -> None:
        self.start(value_bytes, copies=False)
        self.by_headers = ours == "segstore.spark.count"

    def ours(self) -> Cost:
        if self.by_headers:
            return self.spark.cost(self.topic.all_rows, "count", topic=self.topic.name)
        return self._count("segstore")

    def theirs(self) -> Cost:
        return self._count("kafka")

    def _count(self, source: str) -> Cost:
        topic = self.topic
        return self.spark.cost(
            topic.all_rows, "read", source=source, action="count", **topic.arguments
        )
