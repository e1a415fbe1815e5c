"""Layer 6: Spark. Log directories as a data source, and a function that starts a session.

``spark.read.format("segstore").option("path", DIRECTORY).option("subscribe", "orders").load()``

The options, the schema and the errors are those of Spark's own Kafka source.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from segstore.spark.session import decisions, session

if TYPE_CHECKING:
    from segstore.spark.datasource import SegstoreDataSource
    from segstore.spark.mapped_read import read
    from segstore.spark.package_archive import pack
    from segstore.spark.record_count import count
    from segstore.spark.stream_lag import progress_listener

__all__ = [
    "SegstoreDataSource",
    "count",
    "decisions",
    "pack",
    "progress_listener",
    "read",
    "session",
]

_MODULES: Final = {
    "SegstoreDataSource": "datasource",
    "count": "record_count",
    "pack": "package_archive",
    "progress_listener": "stream_lag",
    "read": "mapped_read",
}


def __getattr__(name: str) -> Any:
    # PySpark is imported by who needs it: session() must be able to set the environment first
    if name in _MODULES:
        return getattr(import_module(f"segstore.spark.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
