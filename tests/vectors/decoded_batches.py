"""Decoded batches of the vectors against what segstore reads in the same bytes.

A value longer than 4096 bytes is given by its size and hash.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from segstore._core import iterate_records, scan_batches
from segstore.records.compression import codec_table
from segstore.types import Codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from typing_extensions import Buffer

    from segstore._core import Record

LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
CODEC_MASK = 0x07
EXACT = ("crc", "size")
"""What says nothing where something was compressed anew."""


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _record(record: Record, sequence: int) -> dict[str, Any]:
    value = record.value
    is_long = value is not None and len(value) > 4096
    shown = (
        {"value_size": len(value), "value_sha256": hashlib.sha256(value).hexdigest()}
        if is_long and value is not None
        else {"value": _text(value)}
    )
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "sequence": sequence,
        "key": _text(record.key),
        **shown,
        "headers": [[name, _text(content)] for name, content in record.headers],
    }


def _sequence(base: int, delta: int) -> int:
    return -1 if base < 0 else (base + delta) % 2**31


def _timestamp_type(row: np.void) -> str:
    if row["magic"] == 0:
        return "NoTimestampType"
    return "LogAppendTime" if row["attributes"] & LOG_APPEND_TIME else "CreateTime"


def _current(row: np.void) -> dict[str, Any]:
    """Return the fields that batches of magic 2 have."""
    attributes = int(row["attributes"])
    base, last = int(row["base_offset"]), int(row["last_offset"])
    return {
        "base_offset": base,
        "count": int(row["records_count"]),
        "base_timestamp": int(row["base_timestamp"]),
        "last_sequence": _sequence(int(row["base_sequence"]), last - base),
        "transactional": bool(attributes & TRANSACTIONAL),
        "control": bool(attributes & CONTROL),
        "delete_horizon_ms": int(row["base_timestamp"]) if attributes & DELETE_HORIZON else None,
    }


def _decoded(row: np.void, records: Iterable[Record]) -> dict[str, Any]:
    base = int(row["base_offset"])
    sequence = int(row["base_sequence"])
    last = int(row["last_offset"])
    return {
        "magic": int(row["magic"]),
        "last_offset": last,
        "next_offset": last + 1,
        "size": int(row["size_bytes"]),
        "crc": int(row["crc"]),
        "is_valid": True,
        "timestamp_type": _timestamp_type(row),
        "compression": Codec(int(row["attributes"]) & CODEC_MASK).name.lower(),
        "max_timestamp": int(row["max_timestamp"]),
        "producer_id": int(row["producer_id"]),
        "producer_epoch": int(row["producer_epoch"]),
        "base_sequence": sequence,
        "partition_leader_epoch": int(row["partition_leader_epoch"]),
        **(_current(row) if row["magic"] > 1 else {}),
        "records": [
            _record(record, _sequence(sequence, record.offset - base)) for record in records
        ],
    }


def decoded(data: Buffer) -> list[dict[str, Any]]:
    """Every batch of *data*, CRCs checked, as far as segstore tells."""
    headers, scan = scan_batches(data)
    assert scan.stop == "complete"
    view = memoryview(data)
    batches = []
    for row in headers:
        start = int(row["position"])
        batch = view[start : start + int(row["size_bytes"])]
        batches.append(_decoded(row, iterate_records(batch, codec_table(), control=True)))
    return batches


def check_batches(data: Buffer, expected: Sequence[dict[str, Any]], *, exact: bool = True) -> None:
    """Compare the fields that `decoded` gives; sizes and CRCs too when nothing was compressed."""
    found = decoded(data)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        for name, value in ours.items():
            if name == "records":
                wanted = [
                    {key: one[key] for key in mine}
                    for mine, one in zip(value, theirs[name], strict=True)
                ]
                assert value == wanted
            elif exact or name not in EXACT:
                assert value == theirs[name], name
