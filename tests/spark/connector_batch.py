"""What Spark's own Kafka connector answered in batches, and what is answered otherwise, and why."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.spark.connector_answers import read_answers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

CLIENT = "options of Kafka's consumer mean nothing to a reader of files"
PATH = "the path takes the place of kafka.bootstrap.servers"
SCHEMA = "a schema of one's own chooses columns, there it is refused"

JSON = "a slip in JSON (null, a fraction, text behind it, 2^63) is an error, there it is a guess"
MISSING = "partitions that assign names and that do not exist are an error, there they are dropped"
INTERNAL = "internal topics are read where they are named, there they are silently empty"
MAX_RECORDS = "maxRecordsPerPartition is always heeded, there only between plain numbers"

_OF_CLIENTS = ("kafka.", "kafkaconsumer.", "fetchoffset.")
_JSON_OPTIONS = (
    "assign",
    "startingoffsets",
    "endingoffsets",
    "startingoffsetsbytimestamp",
    "endingoffsetsbytimestamp",
)


@dataclass(frozen=True)
class Entry:
    """One question to the connector and its answer."""

    id: str
    case: str
    options: dict[str, str]
    sql: str | None = None
    schema: str | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = field(default=None)

    @property
    def left_out(self) -> str | None:
        """Why the answer is not compared; None = it is."""
        if self.error is not None and "bootstrap.servers" in self.error["chain"][-1]["message"]:
            return PATH
        if self.schema is not None:
            return SCHEMA
        of_clients = any(map(_is_of_client, self.options))
        return CLIENT if of_clients and self._is_clients_error() else None

    def _is_clients_error(self) -> bool:
        """Whether Kafka's consumer, or who sets it up, refused its options."""
        if self.error is None:
            return False
        last = self.error["chain"][-1]
        if "isolation.level" in last["message"]:
            return False
        kind = last["class"].rpartition(".")[2]
        values = [self.options[name] for name in self.options if _is_of_client(name)]
        return kind in {"ConfigException", "KafkaException", "TimeoutException"} or (
            any(cause.get("condition") == "INTERNAL_ERROR" for cause in self.error["chain"])
            or any(f'"{value}"' in last["message"] for value in values)
        )

    @property
    def compatible_only(self) -> str | None:
        """Why the answer is the recorded one only with ``connectorCompatible``; None = always."""
        options = {name.lower(): value for name, value in self.options.items()}
        if any(name in options and _is_slip(options[name]) for name in _JSON_OPTIONS):
            return JSON
        if "maxrecordsperpartition" in options:
            return MAX_RECORDS
        if "__" in options.get("subscribe", "") or "__" in options.get("assign", ""):
            return INTERNAL
        return MISSING if "assign" in options else None

    def options_for(self, data: Path, *, compatible: bool = False) -> dict[str, str]:
        """The options, with the log directory *data* in the place of the broker."""
        options = {k: v for k, v in self.options.items() if k != "kafka.bootstrap.servers"}
        return {**options, "path": str(data)} | (
            {"connectorCompatible": "true"} if compatible else {}
        )


def _is_of_client(name: str) -> bool:
    of_source = {"kafka.bootstrap.servers", "kafka.isolation.level"}
    return name.lower().startswith(_OF_CLIENTS) and name.lower() not in of_source


def _is_slip(text: str) -> bool:
    """Whether the connector reads more into *text* than it says."""
    slips: list[object] = []

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            slips.append(pairs)
        return dict(pairs)

    def note_if_huge(digits: str) -> int:
        if not -(2**63) <= int(digits) < 2**63:
            slips.append(digits)
        return int(digits)

    decoder = json.JSONDecoder(
        object_pairs_hook=note, parse_float=slips.append, parse_int=note_if_huge
    )
    try:
        _, end = decoder.raw_decode(text.strip())
    except ValueError:
        return False
    return bool(slips) or end < len(text.strip()) or "null" in text


@cache
def entries(folder: str | None) -> tuple[Entry, ...]:
    """Every recorded entry."""
    return tuple(Entry(**line) for line in read_answers(folder, "batch"))


@cache
def representative_queries(folder: str | None) -> frozenset[str]:
    """The ids of the first entry of each query: numbers aside, most were asked of many cases."""
    first: dict[str, str] = {}
    for entry in entries(folder):
        if entry.sql is not None and entry.left_out is None:
            first.setdefault(re.sub(r"\d+", "0", entry.sql), entry.id)
    return frozenset(first.values())


def cases(folder: str | None) -> list[str]:
    """The golden cases that entries are about."""
    return sorted({entry.case for entry in entries(folder)})


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[list[Any]]:
    """Rows in the recorded form: base64, microseconds, structs as lists."""
    rows: list[list[Any]] = []
    for batch in batches:
        rows += map(list, zip(*(_values(column) for column in batch.columns), strict=True))
    return rows


def _values(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        assert column.type.unit == "us"
        return column.cast(pa.int64()).to_pylist()
    if pa.types.is_list(column.type):
        return [
            None if headers is None else [[h["key"], _base64(h["value"])] for h in headers]
            for headers in column.to_pylist()
        ]
    values = column.to_pylist()
    return [_base64(v) for v in values] if pa.types.is_binary(column.type) else values


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode("ascii")


def sorted_rows(columns: Sequence[str], rows: list[list[Any]]) -> list[list[Any]]:
    """Rows in the recorded order."""
    if {"topic", "partition", "offset"} <= set(columns):
        keys = [columns.index(name) for name in ("topic", "partition", "offset")]
        return sorted(rows, key=lambda row: [row[key] for key in keys])
    return sorted(rows, key=_line)


def digest(rows: Iterable[Sequence[Any]]) -> str:
    """The recorded hash of rows."""
    sha256 = hashlib.sha256()
    for row in rows:
        sha256.update(_line(row).encode("ascii"))
    return sha256.hexdigest()


def _line(row: Sequence[Any]) -> str:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=True) + "\n"
