"""What a data source written in Python could reach: one that has nothing to do.

Its rows are ready-made Arrow batches, mapped from files, the same batch of a partition again and
again. They have the columns and sizes of the log's rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

ROWS_IN_A_BATCH = 10_000
"""As many as Spark itself puts into one."""
SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)


class ReadyMadeSource(DataSource):
    """Options: ``path``, the folder of the batches, and ``rows``, of each of them."""

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
            batch = batches.get_batch(0)
            for _ in range(self._rows // batch.num_rows):
                yield batch
            yield batch.slice(0, self._rows % batch.num_rows)


def make_ready(frame: DataFrame, path: Path, partitions: int) -> None:
    """Write the first rows of each partition of *frame* as an Arrow file into *path*."""
    import pyarrow as pa
    import pyarrow.compute as pc

    path.mkdir()
    table = frame.where(f"offset < {ROWS_IN_A_BATCH}").toArrow()
    for number in range(partitions):
        rows = table.filter(pc.equal(table["partition"], number)).combine_chunks()
        with pa.ipc.new_file(path / f"{number}.arrow", table.schema) as file:
            file.write_table(rows)
