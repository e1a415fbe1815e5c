"""A streaming query that reads a topic once, against Spark's Kafka connector with a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .spark_process import _SparkComparison

if TYPE_CHECKING:
    from .common import Cost

ROWS_IN_A_PARTITION = {100: 2_500_000, 1000: 500_000}
"""A query that begins costs more than a batch does: planning, a process for the source."""


class SparkStream(_SparkComparison):
    """``readStream`` of a whole topic to nowhere, trigger availableNow, a new checkpoint."""

    params = ([100, 1000],)
    param_names = ("value_bytes",)

    def setup(self, value_bytes: int) -> None:
        self.start(value_bytes, ROWS_IN_A_PARTITION[value_bytes], copies=False)

    def ours(self) -> Cost:
        return self._stream("segstore")

    def theirs(self) -> Cost:
        return self._stream("kafka")

    def _stream(self, source: str) -> Cost:
        topic = self.topic
        return self.spark.cost(topic.all_rows, "stream", source=source, topic=topic.name)
