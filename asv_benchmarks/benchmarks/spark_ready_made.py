"""What a data source written in Python could reach: one that has nothing to do.

Its rows are ready-made Arrow batches, mapped from files: all rows of the log, or the first batch of
each partition again and again, which stays in the processor's cache.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

ROWS_IN_A_BATCH = 10_000
"""As many as Spark itself puts into one."""
SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)


class ReadyMadeSource(DataSource):
    """Options: ``path``, the folder of the files, and ``rows``.

    So many rows of each partition are the first batch again and again; 0: every batch once.
    """

    @classmethod
    def name(cls) -> str:
        return "ready-made"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: object) -> ReadyMadeReader:
        return ReadyMadeReader(self.options["path"], int(self.options["rows"]))


class ReadyMadeReader(DataSourceReader):
    """One Spark partition for each file."""

    def __init__(self, path: str, rows: int) -> None:
        self._path = path
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(str(file)) for file in sorted(Path(self._path).glob("*.arrow"))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with pa.memory_map(partition.value) as file, pa.ipc.open_file(file) as batches:
            if not self._rows:
                for number in range(batches.num_record_batches):
                    yield batches.get_batch(number)
                return
            batch = batches.get_batch(0)
            for _ in range(self._rows // batch.num_rows):
                yield batch
            yield batch.slice(0, self._rows % batch.num_rows)


def make_ready(parquet: Path, path: Path) -> None:
    """Write the rows of each Parquet file, one for each partition, as an Arrow file into *path*."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    path.mkdir()
    for file in sorted(parquet.glob("*.parquet")):
        rows = ParquetFile(file)
        names = rows.schema_arrow.names
        types = [rows.schema_arrow.field(name).type for name in names]
        types[names.index("timestamp")] = pa.timestamp("us", "UTC")
        schema = pa.schema(list(zip(names, types, strict=True)))
        with pa.ipc.new_file(path / f"{file.stem}.arrow", schema) as ready:
            for batch in rows.iter_batches(ROWS_IN_A_BATCH):
                ready.write_batch(batch.cast(schema))
