"""Reading a whole topic: its partitions in threads, and merged by timestamp.

Run it on a machine with two cores that does nothing else; ``track_wall_ratio`` of
`TopicScanInThreads` is to be at least 1.4 there::

    asv run --python=same --quick --bench topic_scan

With one core (``taskset -c 0``) no threads are started, and the ratio is near 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import segstore

from .common import PROFILE, Cost, _Comparison, cost_of
from .datasets import FIRST_TIMESTAMP, key_values, records_in_log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore._core import ArrowBatch

TOPIC = "bench"
PARTITIONS = 8
COLUMNS = ("partition", "offset", "timestamp", "key", "value")
VALUE_BYTES = 100
OF_BATCH = 100 if PROFILE.rounds == 1 else 1_000
BATCHES = PARTITIONS * max(2, records_in_log(VALUE_BYTES) * 4 // OF_BATCH // PARTITIONS)
"""Some 256 MB in the regular profile."""


class _WholeTopic(_Comparison):
    """A topic of eight partitions; timestamps ascend, and take turns among the partitions."""

    def setup(self, codec: str) -> None:
        self.make_scratch()
        self.count = 0
        records = key_values(VALUE_BYTES, OF_BATCH)
        with segstore.open_dir(self.path, durability="none", compression_type=codec) as logs:
            logs.create_topic(TOPIC, PARTITIONS)
            for number in range(BATCHES):
                first = FIRST_TIMESTAMP + number * OF_BATCH
                rows = [(first + n, *pair) for n, pair in enumerate(records)]
                logs.append(TOPIC, rows, partition=number % PARTITIONS)
                self.count += len(rows)
        self.logs = segstore.open_dir(self.path, read_only=True)
        self.ours()  # opens the logs

    def theirs(self) -> Cost:
        """One partition after the other, by hand."""

        def read() -> float:
            scans = (
                self.logs.log(TOPIC, number).scan(columns=COLUMNS) for number in range(PARTITIONS)
            )
            rows = sum(rows_of(scan.arrow_batches()) for scan in scans)
            assert rows == self.count
            return rows

        return cost_of(read)

    def teardown(self, *parameters: object) -> None:
        """Close the logs (called by asv)."""
        self.logs.close()
        super().teardown(*parameters)


def rows_of(batches: Iterable[ArrowBatch]) -> int:
    """Read them all."""
    return sum(batch.rows_count for batch in batches)


class TopicScanInThreads(_WholeTopic):
    """Records a second of the scan of the topic against a scan of each log, one after the other."""

    params = (["producer", "zstd"],)
    param_names = ("codec",)

    def ours(self) -> Cost:
        def read() -> float:
            rows = rows_of(self.logs.scan(TOPIC, columns=COLUMNS).arrow_batches())
            assert rows == self.count
            return rows

        return cost_of(read)


class TopicScanByTimestamp(_WholeTopic):
    """Records a second in the order of timestamps against those of a scan of each log.

    The rows are copied once more: it is slower, the question is how much.
    """

    params = (["producer"],)
    param_names = ("codec",)

    def ours(self) -> Cost:
        def read() -> float:
            scan = self.logs.scan(TOPIC, columns=COLUMNS, order="timestamp")
            rows = sum(batch.num_rows for batch in scan.arrow_batches())
            assert rows == self.count
            return rows

        return cost_of(read)
