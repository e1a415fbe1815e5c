"""Lets Spark find ``format("segstore")`` by itself.

Spark imports every top-level module whose name begins with ``pyspark_`` and takes its
``DefaultSource``. An exception in one of them hides all the others, so this module imports nothing
but PySpark's interface, and that under guard; segstore itself is imported when the source is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

try:
    from pyspark.sql.datasource import DataSource
except Exception:  # noqa: BLE001, S110 - no PySpark, an old or a broken one: no source, no noise
    pass
else:

    class DefaultSource(DataSource):
        """Stands for `segstore.spark.datasource.SegstoreDataSource` until it is used."""

        @classmethod
        def name(cls) -> str:
            """Return the name for ``format()``."""
            return "segstore"

        def schema(self) -> StructType | str:
            """Return the schema of the source."""
            return self._source().schema()

        def reader(self, schema: StructType) -> DataSourceReader:
            """Return the reader of the source."""
            return self._source().reader(schema)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            """Return the streaming reader of the source."""
            return self._source().streamReader(schema)

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
            """Return the writer of the sink."""
            return self._source().writer(schema, overwrite)

        def streamWriter(  # noqa: N802
            self,
            schema: StructType,
            overwrite: bool,  # noqa: FBT001
        ) -> DataSourceStreamWriter:
            """Return the streaming writer of the sink."""
            return self._source().streamWriter(schema, overwrite)

        def _source(self) -> DataSource:
            from segstore.spark.datasource import SegstoreDataSource

            return SegstoreDataSource(self.options)
