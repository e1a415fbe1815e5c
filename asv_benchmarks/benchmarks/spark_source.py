"""What the data source does in Spark's workers, without Spark: its batches against a scan's."""

from __future__ import annotations

import segstore

from .common import Cost, _Comparison, cost_of
from .datasets import batches

TOPIC_PARTITIONS = 2


class SourceRead(_Comparison):
    """All columns of a topic, by one partition of the source after another.

    Against ``scan().arrow_batches()`` of the same logs, which are opened each time: the source adds
    columns that a log has not, and looks whether the logs that it keeps open are as they were.
    """

    params = ([100, 1000],)
    param_names = ("value_bytes",)

    def setup(self, value_bytes: int) -> None:
        from segstore.spark.datasource import SegstoreDataSource
        from segstore.spark.open_logs import OPEN_LOGS

        self.open_logs = OPEN_LOGS
        self.make_scratch()
        for partition in range(TOPIC_PARTITIONS):
            with segstore.open(self.path / f"bench-{partition}", durability="none") as log:
                for batch in batches(value_bytes, 131_072):
                    log.append_as_leader(batch)
                self.rows = TOPIC_PARTITIONS * log.log_end_offset
        self.source = SegstoreDataSource({"path": str(self.path), "subscribe": "bench"})

    def teardown(self, *parameters: object) -> None:
        self.open_logs.close()
        super().teardown(*parameters)

    def ours(self) -> Cost:
        return cost_of(self._read)

    def theirs(self) -> Cost:
        return cost_of(self._scan)

    def _read(self) -> float:
        reader = self.source.reader(self.source.schema())
        rows = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
        assert rows == self.rows
        return rows

    def _scan(self) -> float:
        rows = 0
        for partition in range(TOPIC_PARTITIONS):
            with segstore.open(self.path / f"bench-{partition}", read_only=True) as log:
                rows += sum(batch.rows_count for batch in log.scan().arrow_batches())
        assert rows == self.rows
        return rows
