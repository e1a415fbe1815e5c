"""What Spark's own Kafka connector answered for the golden directories, and what of it is compared.

``connector_batch.jsonl.gz``: pyspark 4.2.0 with spark-sql-kafka-0-10 4.2.0 against a Kafka 4.3.1
broker that was opened on a copy of each case. One object a line: options, result or error.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RECORDED = Path(__file__).parent / "connector_batch.jsonl.gz"

CLIENT = "options of Kafka's consumer mean nothing to a reader of files"

OTHERWISE = {
    "general/bad-kafka.max.poll.records": CLIENT,
    "general/bad-kafka.security.protocol": CLIENT,
    "general/bad-kafkaConsumer.pollTimeoutMs": CLIENT,
    "general/bad-fetchOffset.numRetries": CLIENT,
    "general/bad-fetchOffset.retryIntervalMs": CLIENT,
    "general/retries-zero": CLIENT,
    "strategies/no-bootstrap": "the path takes the place of kafka.bootstrap.servers",
    "general/custom-schema": "a schema of one's own chooses columns, there it is refused",
}
"""Entries that are deliberately answered otherwise (id without the case), and why."""


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
        return OTHERWISE.get(self.id.removeprefix(f"{self.case}/"))

    def options_for(self, golden: Path) -> dict[str, str]:
        """The options, with the case's directory in the place of the broker."""
        options = {k: v for k, v in self.options.items() if k != "kafka.bootstrap.servers"}
        return {**options, "path": str(golden / self.case / "data")}


@cache
def entries() -> tuple[Entry, ...]:
    """Every recorded entry."""
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        return tuple(Entry(**json.loads(line)) for line in lines)


@cache
def representative_queries() -> frozenset[str]:
    """The ids of the first entry of each query: numbers aside, most were asked of many cases."""
    first: dict[str, str] = {}
    for entry in entries():
        if entry.sql is not None and entry.left_out is None:
            first.setdefault(re.sub(r"\d+", "0", entry.sql), entry.id)
    return frozenset(first.values())


def cases() -> list[str]:
    """The golden cases that entries are about."""
    return sorted({entry.case for entry in entries()})


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
