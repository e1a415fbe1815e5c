"""The columns of the metadata tables, ``option("kind", …)``: exact, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from segstore.spark.conditions import ConnectorOptionError, option_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

RECORDS: Final = "records"

_TYPES: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "double": DoubleType(),
    "int": IntegerType(),
    "long": LongType(),
    "map": MapType(StringType(), StringType()),
    "string": StringType(),
    "timestamp": TimestampType(),
}

_PARTITION: Final = {"topic": "string", "partition": "int"}

KINDS: Final[dict[str, dict[str, str]]] = {
    "batches": {
        **_PARTITION,
        "segmentBaseOffset": "long",
        "position": "long",
        "size": "int",
        "baseOffset": "long",
        "lastOffset": "long",
        "count": "int",
        "baseTimestamp": "timestamp",
        "maxTimestamp": "timestamp",
        "timestampType": "int",
        "magic": "int",
        "compresscodec": "string",
        "partitionLeaderEpoch": "int",
        "producerId": "long",
        "producerEpoch": "int",
        "baseSequence": "int",
        "lastSequence": "int",
        "isTransactional": "boolean",
        "isControl": "boolean",
        "deleteHorizonMs": "long",
        "crc": "long",
    },
    "segments": {
        **_PARTITION,
        "baseOffset": "long",
        "nextOffset": "long",
        "size": "long",
        "indexSize": "long",
        "timeIndexSize": "long",
        "firstTimestamp": "timestamp",
        "largestTimestamp": "timestamp",
        "modified": "timestamp",
        "isActive": "boolean",
        "file": "string",
    },
    "producers": {
        **_PARTITION,
        "producerId": "long",
        "producerEpoch": "int",
        "lastSequence": "int",
        "lastOffset": "long",
        "lastTimestamp": "timestamp",
        "coordinatorEpoch": "int",
        "currentTransactionStartOffset": "long",
    },
    "transactions": {
        **_PARTITION,
        "producerId": "long",
        "producerEpoch": "int",
        "state": "string",
        "firstOffset": "long",
        "lastOffset": "long",
        "firstTimestamp": "timestamp",
        "lastTimestamp": "timestamp",
        "coordinatorEpoch": "int",
    },
    "epochs": {**_PARTITION, "leaderEpoch": "int", "startOffset": "long", "endOffset": "long"},
    "topics": {
        "topic": "string",
        "topicId": "string",
        "partitionCount": "int",
        "cleanupPolicy": "string",
        "settings": "map",
        "size": "long",
        "dirtyRatio": "double",
        "nextDeletion": "timestamp",
    },
}
"""Type by column name, by kind; the words are those of ``kafka-dump-log`` and Kafka's tools."""


def kind_of(options: Mapping[str, str]) -> str:
    """Return the option ``kind``: ``records``, or the name of a metadata table."""
    given = next((value for name, value in options.items() if name.lower() == "kind"), RECORDS)
    kind = given.lower()
    if kind != RECORDS and kind not in KINDS:
        raise option_error(
            "kind", given, f"{RECORDS}, {', '.join(KINDS)}", "it does not have this option"
        )
    return kind


def metadata_schema(kind: str) -> StructType:
    """Return the schema of the table *kind*; every column may be null."""
    return StructType([StructField(name, _TYPES[type_]) for name, type_ in KINDS[kind].items()])


def metadata_columns(kind: str, schema: StructType) -> tuple[str, ...]:
    """Return the columns that *schema*, the table's or a user's choice of it, names.

    Raises
    ------
    ConnectorOptionError
        A column that the table does not have, or of another type.
    """
    own = metadata_schema(kind)
    for field in schema.fields:
        if field.name not in own.names or field.dataType != own[field.name].dataType:
            raise ConnectorOptionError(
                f"the schema has a column {field.name!r} of type {field.dataType.simpleString()}, "
                f"but the table of {kind} is {own.simpleString()}",
                found=field.simpleString(),
                expected=own.simpleString(),
            )
    return tuple(schema.names)


def metadata_arrow_schema(kind: str, columns: Sequence[str]) -> pa.Schema:
    """Return what Spark expects of Arrow batches of these columns."""
    import pyarrow as pa

    types = {
        "boolean": pa.bool_(),
        "double": pa.float64(),
        "int": pa.int32(),
        "long": pa.int64(),
        "map": pa.map_(pa.string(), pa.string()),
        "string": pa.string(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    return pa.schema([pa.field(name, types[KINDS[kind][name]]) for name in columns])
