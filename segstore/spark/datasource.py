"""``format("segstore")``: the data source over log directories, for batches and streams.

Spark finds it through the top-level module ``pyspark_segstore``. You can also register it with
``spark.dataSource.register(SegstoreDataSource)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from segstore.errors import SegstoreError
from segstore.spark.conditions import ConnectorOptionError
from segstore.spark.log_source import source_of
from segstore.spark.metadata_reader import MetadataReader
from segstore.spark.metadata_schema import RECORDS, kind_of, metadata_schema
from segstore.spark.reader import SegstoreReader
from segstore.spark.refused_stream_reader import RefusedStreamReader
from segstore.spark.schema import connector_schema
from segstore.spark.stream_options import parse_options_of_either
from segstore.spark.stream_reader import SegstoreStreamReader
from segstore.spark.writer import SegstoreStreamWriter, SegstoreWriter

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType


class SegstoreDataSource(DataSource):
    """Kafka partition directories as a table; options and schema are those of Spark's Kafka source.

    ``path`` is the log directory, which holds ``<topic>-<partition>`` directories, as a broker's
    ``log.dirs`` does. Every executor must reach it under that path. A URL is read through the spool
    of each machine, see `segstore.remote`. So is a tiered bucket, with ``layout=tiered``.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format()``."""
        return "segstore"

    def schema(self) -> StructType:
        """Check options and path, and return the schema; ``load()`` calls it without a schema."""
        kind = kind_of(self.options)
        options = parse_options_of_either(self.options)
        source_of(options).check()
        if kind != RECORDS:
            return metadata_schema(kind)
        return connector_schema(include_headers=options.include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader that plans and reads a batch; *schema* is the projection."""
        if kind_of(self.options) != RECORDS:
            return MetadataReader(self.options, schema)
        return SegstoreReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader for the micro-batches of a stream, or raise an error."""
        try:
            kind = kind_of(self.options)
            if kind != RECORDS:
                raise ConnectorOptionError(
                    f"kind={kind} is a table of this moment, not a stream: use spark.read",
                    found=kind,
                    expected=RECORDS,
                )
            return SegstoreStreamReader(self.options, schema)
        except SegstoreError as error:
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> SegstoreWriter:  # noqa: FBT001
        """Return the writer of a batch; *schema* is that of the DataFrame."""
        return SegstoreWriter(self.options, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: StructType,
        overwrite: bool,  # noqa: ARG002, FBT001 - output mode complete appends, as the connector
    ) -> SegstoreStreamWriter:
        """Return the writer for the micro-batches of a stream."""
        return SegstoreStreamWriter(self.options, schema)
