"""Lazy queries of polars and pyarrow beside the same range, read by hand.

``track_cpu_ratio`` of `LazyRange` is to be at least 0.9::

    asv run --python=same --quick --bench lazy_frames
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa
from pyarrow import compute

import segstore
import segstore.polars

from .common import PROFILE, Cost, _Comparison, cost_of
from .datasets import FIRST_TIMESTAMP, key_values, records_in_log

VALUE_BYTES = 100
OF_BATCH = 100 if PROFILE.rounds == 1 else 1_000
BATCHES = max(4, records_in_log(VALUE_BYTES) * 4 // OF_BATCH)
"""Some 256 MB in the regular profile."""
COLUMNS = ("offset", "timestamp", "key", "value")
SEGMENT_BYTES = 16_000_000
RARE_KEY = b"of one record"


class _LazyLog(_Comparison):
    """A log of several segments; a record is a millisecond later than the one before it."""

    def setup(self, codec: str) -> None:
        self.make_scratch()
        records = key_values(VALUE_BYTES, OF_BATCH)
        settings = {"internal_segment_bytes": SEGMENT_BYTES, "compression_type": codec}
        with segstore.open(self.path / "bench-0", durability="none", **settings) as log:
            for number in range(BATCHES):
                first = number * OF_BATCH
                rows = [(FIRST_TIMESTAMP + first + n, *pair) for n, pair in enumerate(records)]
                if number == BATCHES // 2:
                    rows[-1] = (rows[-1][0], RARE_KEY, b"")
                log.append(rows)
        self.key = records[0][0]
        # of the second to the fourth quarter of the offsets, the first two thirds by time
        self.offsets = BATCHES * OF_BATCH // 4, BATCHES * OF_BATCH
        self.times = FIRST_TIMESTAMP, FIRST_TIMESTAMP + BATCHES * OF_BATCH * 3 // 4

    def bounded_scan(self, log: segstore.UnifiedLog) -> segstore.LogScan:
        """Return a scan of the range."""
        return log.scan(
            *self.offsets,
            columns=COLUMNS,
            start_timestamp=self.times[0],
            end_timestamp=self.times[1],
        )

    def checked(self, rows: int) -> int:
        """Return the number of rows, which must be that of the range."""
        assert rows == self.times[1] - FIRST_TIMESTAMP - self.offsets[0]
        return rows


class LazyRange(_LazyLog):
    """Records a second of a polars query with bounds of offset and timestamp against a scan."""

    params = (["producer", "zstd"],)
    param_names = ("codec",)

    def theirs(self) -> Cost:
        """A frame of a scan of the range."""

        def read() -> float:
            with segstore.open(self.path / "bench-0", read_only=True) as log:
                return self.checked(pl.DataFrame(self.bounded_scan(log)).height)

        return cost_of(read)

    def ours(self) -> Cost:
        low, high = (pl.lit(time).cast(pl.Datetime("ms", "UTC")) for time in self.times)
        offset, timestamp = pl.col("offset"), pl.col("timestamp")

        def read() -> float:
            frame = segstore.polars.scan_log(self.path / "bench-0")
            bounded = frame.filter(
                offset >= self.offsets[0],
                offset < self.offsets[1],
                timestamp >= low,
                timestamp < high,
            )
            return self.checked(bounded.select(COLUMNS).collect().height)

        return cost_of(read)


class LazyDataset(_LazyLog):
    """The same range as an Arrow table, by a filter of the dataset against a scan."""

    params = (["producer", "zstd"],)
    param_names = ("codec",)

    def theirs(self) -> Cost:
        """A table of a scan of the range."""

        def read() -> float:
            with segstore.open(self.path / "bench-0", read_only=True) as log:
                return self.checked(len(self.bounded_scan(log).to_arrow()))

        return cost_of(read)

    def ours(self) -> Cost:
        offset, timestamp = compute.field("offset"), compute.field("timestamp")
        low, high = (pa.scalar(time, pa.timestamp("ms", "UTC")) for time in self.times)
        where = (
            (offset >= self.offsets[0])
            & (offset < self.offsets[1])
            & (timestamp >= low)
            & (timestamp < high)
        )

        def read() -> float:
            with segstore.open(self.path / "bench-0", read_only=True) as log:
                return self.checked(len(log.dataset().to_table(columns=COLUMNS, filter=where)))

        return cost_of(read)


class KeyInLog(_LazyLog):
    """Records a second of a search for one key by polars, against a filter on a frame of all rows.

    No bound helps. A key that is in one batch costs the decoding of keys; one that is in every
    batch that of all columns.
    """

    params = (["producer", "zstd"], ["in one batch", "in every batch"])
    param_names = ("codec", "key")

    def setup(self, codec: str, key: str) -> None:  # type: ignore[override]
        super().setup(codec)
        self.key, self.found = (RARE_KEY, 1) if key == "in one batch" else (self.key, BATCHES)

    def theirs(self) -> Cost:
        """A frame of the whole log, filtered."""

        def read() -> float:
            with segstore.open(self.path / "bench-0", read_only=True) as log:
                frame = pl.DataFrame(log.scan(columns=COLUMNS))
            assert frame.filter(pl.col("key") == self.key).height == self.found
            return frame.height

        return cost_of(read)

    def ours(self) -> Cost:
        def read() -> float:
            frame = segstore.polars.scan_log(self.path / "bench-0")
            found = frame.filter(pl.col("key") == self.key).select(COLUMNS).collect()
            assert found.height == self.found
            return BATCHES * OF_BATCH

        return cost_of(read)
