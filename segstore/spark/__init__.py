"""Floor 6: Spark. Log directories as a data source, and a session that just starts.

``spark.read.format("segstore").option("path", DIRECTORY).option("subscribe", "orders").load()``

The options, the schema and the errors are those of Spark's own Kafka source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segstore.spark.session import decisions, session

if TYPE_CHECKING:
    from segstore.spark.datasource import SegstoreDataSource

__all__ = ["SegstoreDataSource", "decisions", "session"]


def __getattr__(name: str) -> Any:
    # PySpark is imported by who needs it: session() must be able to set the environment first
    if name == "SegstoreDataSource":
        from segstore.spark.datasource import SegstoreDataSource

        return SegstoreDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
