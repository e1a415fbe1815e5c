"""Export of a log to Parquet beside pyarrow, which writes the same rows from memory.

Both write with the same options. The log has to be read and decoded too, and the stored batches are
noted; `export_parquet` also brings the file to stable storage. ``track_cpu_ratio`` is to be at
least 0.8 for an uncompressed log, and so is ``track_wall_ratio`` where nothing else runs. A log of
zstd is decompressed first, which takes a third of the CPU time of the write: 0.64::

    asv run --python=same --quick --bench parquet
"""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

import segstore
from segstore.tables.parquet_files import COLUMNS
from segstore.tables.parquet_writer import file_options

from .common import PROFILE, Cost, _Comparison, cost_of
from .datasets import FIRST_TIMESTAMP, key_values, records_in_log

if TYPE_CHECKING:
    from collections.abc import Sequence

OF_BATCH = 100 if PROFILE.rounds == 1 else 1_000


class _Partition(_Comparison):
    """A partition, and a table of its records in memory."""

    params: Sequence[Sequence[object]] = ([100, 1000], ["producer", "zstd"])
    param_names = ("value_bytes", "codec")

    def setup(self, value_bytes: int, codec: str) -> None:
        self.make_scratch()
        rounds = max(2, records_in_log(value_bytes) // OF_BATCH)
        records = key_values(value_bytes, rounds * OF_BATCH)
        with segstore.open(self.path / "bench-0", durability="none", compression_type=codec) as log:
            for number in range(rounds):
                first = FIRST_TIMESTAMP + number * OF_BATCH
                some = records[number * OF_BATCH : (number + 1) * OF_BATCH]
                log.append([(first + n, *pair) for n, pair in enumerate(some)])
        self.count = rounds * OF_BATCH
        self.file = self.path / "out.parquet"
        self.export()
        self.table = pq.read_table(self.file)
        assert self.table.column_names == [*COLUMNS]
        assert self.table.num_rows == self.count

    def export(self) -> float:
        """Export the log; returns the records."""
        return segstore.export_parquet(self.path / "bench-0", self.file, overwrite=True).records

    def write(self) -> float:
        """Write the table; returns the records."""
        rows = pq.read_metadata(self.file).row_group(0).num_rows
        pq.write_table(self.table, self.path / "in.parquet", row_group_size=rows, **file_options())
        return self.count


class ParquetExport(_Partition):
    """Records a second of an export against `pyarrow.parquet.write_table`."""

    def ours(self) -> Cost:
        return cost_of(self.export)

    def theirs(self) -> Cost:
        return cost_of(self.write)


class ParquetImport(_Partition):
    """Records a second of an import against `pyarrow.parquet.read_table`."""

    def ours(self) -> Cost:
        path = self.path / "back-0"

        def import_it() -> float:
            (done,) = segstore.import_parquet(self.file, path)
            return done.records

        return cost_of(import_it, after=partial(shutil.rmtree, path))

    def theirs(self) -> Cost:
        return cost_of(lambda: pq.read_table(self.file).num_rows)
