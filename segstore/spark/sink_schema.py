"""The columns of a DataFrame that are written, by the rules of Spark's Kafka sink.

Names are case-sensitive there, and other columns are ignored. ``timestamp`` is ours: the connector
ignores it and every record gets the time at which it is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StringType, StructType, TimestampType

from segstore.spark.conditions import ConnectorOptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import DataType

HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"

_ACCEPTED: Final[dict[str, Sequence[str]]] = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (HEADERS_TYPE,),
    "partition": ("int",),
}
"""In the order in which the connector looks."""


def sink_columns(schema: StructType, topic: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns that are written, and warnings about others.

    Parameters
    ----------
    schema : StructType
        Of the DataFrame.
    topic : str or None
        The option; it wins over the column, which is not even looked at then.

    Raises
    ------
    ConnectorOptionError
        A column is missing or has another type, in the connector's words.
    """
    types: dict[str, DataType] = {}
    for one in schema.fields:
        types.setdefault(one.name, one.dataType)
    if topic is None and "topic" not in types:
        raise ConnectorOptionError(
            "topic option required when no 'topic' attribute is present. Use the topic option for "
            "setting a topic.",
            found="neither option nor column",
        )
    columns = []
    for name, accepted in _ACCEPTED.items():
        if name == "topic" and topic is not None:
            continue
        if name not in types:
            if name == "value":
                raise ConnectorOptionError("Required attribute 'value' not found", found="no value")
            continue
        _check_type(name, types[name], accepted)
        columns.append(name)
    return (*columns, *_timestamp(types)), _warnings(types)


def _check_type(name: str, kind: DataType, accepted: Sequence[str]) -> None:
    shown = kind.simpleString()
    if shown in accepted or (isinstance(kind, StringType) and "string" in accepted):
        return
    raise ConnectorOptionError(
        f"{name} attribute unsupported type {shown}. {name} must be a(n) {' or '.join(accepted)}",
        found=shown,
        expected=" or ".join(accepted),
    )


def _timestamp(types: dict[str, DataType]) -> tuple[str, ...]:
    return ("timestamp",) if isinstance(types.get("timestamp"), TimestampType) else ()


def _warnings(types: dict[str, DataType]) -> tuple[str, ...]:
    kind = types.get("timestamp")
    if kind is None or isinstance(kind, TimestampType):
        return ()
    ignored = f"column timestamp is ignored: its type is {kind.simpleString()}, not timestamp"
    return (f"{ignored}; records get the time at which they are written",)
