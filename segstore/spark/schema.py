"""The columns of a read: the schema of Spark's Kafka source, or a user's choice of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyspark
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from segstore.spark.conditions import ConnectorOptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

HEADERS: Final = "headers"

_TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    ),
}
ROWS_WITHOUT_COLUMNS_SINCE: Final = (4, 1)
"""Spark 4.0 takes an Arrow batch without columns for an empty one."""
SOURCE_COLUMNS: Final = {name.lower(): name for name in _TYPES}
"""Name by lower-case name."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the answer.

    Attributes
    ----------
    name : str
        As the user's schema spells it.
    source : str
        The core's name of it.
    nullable : bool
        What the schema says; the reader refuses a null where it says no.
    """

    name: str
    source: str
    nullable: bool


def spark_version() -> tuple[int, int]:
    """Return major and minor of the PySpark that is in use."""
    major, minor = pyspark.__version__.split(".")[:2]
    return int(major), int(minor)


def connector_schema(*, include_headers: bool) -> StructType:
    """Return the schema of Spark's Kafka source: all columns nullable, headers where asked for."""
    return StructType(
        [
            StructField(name, kind)
            for name, kind in _TYPES.items()
            if include_headers or name != HEADERS
        ]
    )


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """Return the columns that *schema* chooses.

    Parameters
    ----------
    schema : StructType
        Any of the connector's columns in any order, names in any case. Types must be the
        connector's: a column is read as it is stored, and changed with ``cast``. ``NOT NULL`` is
        allowed and makes Spark a little faster. Without a column, rows are made from batch headers.

    Raises
    ------
    ConnectorOptionError
        A column that does not exist, or another type; no column at all where Spark loses such rows.
    """
    if not schema.fields and spark_version() < ROWS_WITHOUT_COLUMNS_SINCE:
        raise ConnectorOptionError(
            "the schema has no column, and this Spark counts no row without one; "
            "segstore.spark.count() counts by batch headers",
            found="no column",
            expected=", ".join(_TYPES),
        )
    columns = [_column(field) for field in schema.fields]
    names = [column.source for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise ConnectorOptionError(f"the schema names the column {name!r} twice", found=name)
    return tuple(columns)


def _column(field: StructField) -> Column:
    source = SOURCE_COLUMNS.get(field.name.lower())
    if source is None:
        raise ConnectorOptionError(
            f"the schema names a column {field.name!r}, which the source does not have: "
            f"its columns are {', '.join(_TYPES)}",
            found=field.name,
            expected=", ".join(_TYPES),
        )
    if field.dataType != _TYPES[source]:
        expected = _TYPES[source].simpleString()
        raise ConnectorOptionError(
            f"the schema gives column {field.name!r} the type {field.dataType.simpleString()}, but "
            f"it is {expected}: "
            "a schema chooses columns, use cast() to change them",
            found=field.dataType.simpleString(),
            expected=expected,
        )
    return Column(field.name, source, field.nullable)


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the Arrow schema that Spark expects for *columns*, to the last nullability flag.

    Spark's own function for it has another signature in each release, so it is spelt out here.
    """
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        HEADERS: pa.list_(pa.field("element", header)),
    }
    return pa.schema(
        [pa.field(column.name, types[column.source], column.nullable) for column in columns]
    )
