"""Batch reads of a topic by Spark.

Against what a source in Python could reach, Spark's Kafka connector with a broker, and Parquet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .spark_process import _SparkComparison

if TYPE_CHECKING:
    from .common import Cost


class SparkRead(_SparkComparison):
    """A whole topic of four partitions, by ``format("segstore")``.

    ``sum`` is that of the lengths of all values, ``noop`` a write of all columns to nowhere. The
    ready-made source reads the same rows from Arrow files, or gives one batch again and again.
    """

    params = (
        [100, 1000],
        ["sum", "noop"],
        ["ready-made", "ready-made, one batch", "kafka", "parquet"],
    )
    param_names = ("value_bytes", "action", "peer")
    source = "segstore"

    def setup(self, value_bytes: int, action: str, peer: str) -> None:
        self.start(value_bytes)
        self.action, self.peer = action, peer

    def ours(self) -> Cost:
        return self._read(self.source)

    def theirs(self) -> Cost:
        return self._read(self.peer)

    def _read(self, source: str) -> Cost:
        topic = self.topic
        return self.spark.cost(
            topic.all_rows, "read", source=source, action=self.action, **topic.arguments
        )


class SparkMappedRead(SparkRead):
    """The same by ``segstore.spark.read``."""

    source = "segstore.spark.read"
    params = ([100, 1000], ["sum", "noop"], ["kafka"])
