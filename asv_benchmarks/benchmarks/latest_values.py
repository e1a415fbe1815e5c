"""The last value of each key: its map of keys, and its speed beside a plain read of the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import segstore
from segstore._core import OffsetMap
from segstore.log import latest_values

from .clean import SETTINGS, fill
from .common import PROFILE, Cost, ScratchDirectory, _Comparison, cost_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from segstore._core import ArrowBatch

RECORDS = 20_000 if PROFILE.rounds == 1 else 10_000_000
VALUE_BYTES = 40
ENTRY_BYTES = 24
COLUMNS = ("key", "value", "offset", "timestamp")


def write_topic(path: Path, unique_percent: int) -> None:
    """Write RECORDS records of 40 bytes with keys of 8 bytes to one partition."""
    with segstore.open_dir(path, **SETTINGS) as logs:
        logs.create_topic("users", config={"cleanup.policy": "compact"})
        fill(logs.log("users", 0), VALUE_BYTES, unique_percent, RECORDS * (VALUE_BYTES + 18))


def rows_of(batches: Iterable[ArrowBatch]) -> int:
    """Read them all."""
    return sum(batch.rows_count for batch in batches)


class LatestValuesMap(ScratchDirectory):
    """Bytes of the map for each key of a partition with 10 million keys; it grows in place."""

    unit = "bytes"
    timeout = 1200

    def setup(self) -> None:
        self.make_scratch()
        write_topic(self.path, 100)

    def track_bytes_per_key(self) -> float:
        made: list[OffsetMap] = []

        def map_that_is_kept(*arguments: Any) -> OffsetMap:
            made.append(OffsetMap(*arguments))
            return made[-1]

        latest_values.OffsetMap = map_that_is_kept  # type: ignore[assignment,misc]
        try:
            with segstore.open_dir(self.path, read_only=True) as logs:
                assert rows_of(logs.latest("users").arrow_batches()) == RECORDS
        finally:
            latest_values.OffsetMap = OffsetMap  # type: ignore[misc]
        (one,) = made
        assert one.size == RECORDS
        return one.slots * ENTRY_BYTES / one.size


class LatestValues(_Comparison):
    """Records a second against a scan that gives out the same columns of all records.

    The log is read twice, so half of the scan's speed is the limit. With 10 million keys the map is
    far larger than the caches: each record waits for memory once in either pass.
    """

    params = ([10, 100],)
    param_names = ("unique_percent",)

    def setup(self, unique_percent: int) -> None:
        self.make_scratch()
        write_topic(self.path, unique_percent)
        self.logs = segstore.open_dir(self.path, read_only=True)
        self.log = self.logs.log("users", 0)
        self.end = self.log.log_end_offset

    def ours(self) -> Cost:
        def read() -> float:
            found = rows_of(self.logs.latest("users", columns=COLUMNS).arrow_batches())
            assert self.end * 0.06 < found <= self.end  # of a tenth as many keys, most are chosen
            return self.end

        return cost_of(read)

    def theirs(self) -> Cost:
        def read() -> float:
            scan = self.log.scan(columns=COLUMNS, isolation="read_committed")
            assert rows_of(scan.arrow_batches()) == self.end
            return self.end

        return cost_of(read)

    def teardown(self, *parameters: object) -> None:
        """Close the logs (called by asv)."""
        self.logs.close()
        super().teardown(*parameters)
