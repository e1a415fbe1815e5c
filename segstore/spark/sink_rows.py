"""Rows of Python objects as Arrow batches: what streams give to a sink before Spark 4.1."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import Row
    from pyspark.sql.types import StructType

ROWS_IN_A_BATCH: Final = 10_000


def batches_of_rows(
    rows: Iterator[Row], schema: StructType, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the *columns* of *rows* as Arrow batches.

    Parameters
    ----------
    rows : iterator of Row
        As Spark hands them over.
    schema : StructType
        Of the rows.
    columns : sequence of str
        What is written of them.
    """
    import pyarrow as pa

    places = [schema.names.index(name) for name in columns]
    types = [
        _arrow_type(name, schema[place].dataType.typeName())
        for name, place in zip(columns, places, strict=True)
    ]
    while chunk := list(islice(rows, ROWS_IN_A_BATCH)):
        arrays = [
            pa.array([_plain(row[place]) for row in chunk], kind)
            for place, kind in zip(places, types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _arrow_type(name: str, spark_type: str) -> pa.DataType:
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    types = {
        "partition": pa.int32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "headers": pa.list_(header),
    }
    return types.get(name) or (pa.binary() if spark_type == "binary" else pa.string())


def _plain(value: Any) -> Any:
    """Return what Arrow understands: rows of headers as dicts, local times as moments."""
    if isinstance(value, list):
        return [None if header is None else header.asDict() for header in value]
    return value.astimezone() if hasattr(value, "astimezone") else value
