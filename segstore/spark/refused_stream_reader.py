"""A stream that cannot be: what is wrong is said by its first call.

Spark stops a reader also where none was made, and that error of its own would be the last word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader

if TYPE_CHECKING:
    from segstore.errors import SegstoreError


class RefusedStreamReader(DataSourceStreamReader):
    """In place of a reader whose options, schema or path are refused.

    Parameters
    ----------
    error : SegstoreError
        Raised by every call but ``stop``.
    """

    def __init__(self, error: SegstoreError) -> None:
        self._error = error

    def initialOffset(self) -> NoReturn:  # noqa: N802 - Spark's name
        """Raise the error."""
        raise self._error

    def latestOffset(self, *_: Any) -> NoReturn:  # noqa: N802
        """Raise the error: the first call before Spark 4.2, and of a query that goes on."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:  # noqa: ARG002
        """Raise the error."""
        raise self._error

    def read(self, partition: Any) -> NoReturn:  # noqa: ARG002
        """Raise the error."""
        raise self._error
