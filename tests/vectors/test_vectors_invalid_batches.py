"""Damaged and hostile buffers: scanners, validity, and the three iterators [format.md 5, 7, 9]."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from segstore._core import (
    check_batch,
    first_batch_size,
    iterate_raw_records,
    scan_batches,
)
from segstore.errors import CodecError, CorruptRecordError, InvalidRecordError, SegstoreError
from segstore.records.compression import codec_table
from segstore.records.memory_records import batches_of
from tests.vectors.kafka_errors import check_refusal, expected_classes, is_careless

if TYPE_CHECKING:
    from segstore._core import RawRecord
    from segstore.records.record_batch import RecordBatch
    from tests.vectors.vector_files import Case

ITERATIONS = {
    "streaming_iterator": "streaming",
    "iterator": "whole",
    "skip_key_value_iterator": "skip_key_value",
}


def size_of(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def described(record: RawRecord, names: set[str]) -> dict[str, Any]:
    found = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "size": record.size,
        "key_size": size_of(record.key),
        "value_size": size_of(record.value),
        "headers": len(record.headers),
    }
    return {name: found[name] for name in names}


def iterate(batch: RecordBatch, iteration: str) -> tuple[list[RawRecord], SegstoreError | None]:
    """Records until the end or an error, and the error."""
    records: list[RawRecord] = []
    try:
        records.extend(iterate_raw_records(batch.data, codec_table(), iteration=iteration))
        # extend() keeps what came before an error
    except SegstoreError as error:
        return records, error
    return records, None


HEADER_BYTES = 61
OVERHEADS = (26, 34)
"""Of messages of magic 0 and 1, their prefix included."""


def is_handed_out_by_kafka_only(batch: RecordBatch, record: dict[str, Any]) -> bool:
    """Records that are none: Kafka notices when their value is asked for, if at all.

    The value of a message of magic 0 or 1 reaches beyond it; or a size is negative, which 4.4.0
    refuses too [format.md 5].
    """
    if record["size"] < 0:
        return True
    sizes = [max(0, record.get(name, 0)) for name in ("key_size", "value_size")]
    return (
        0 <= batch.magic < len(OVERHEADS) and OVERHEADS[batch.magic] + sum(sizes) > record["size"]
    )


def with_one_null(record: dict[str, Any]) -> dict[str, Any]:
    """Any negative size is null [format.md 5]."""
    return {
        name: max(-1, value) if name.endswith("_size") else value for name, value in record.items()
    }


def accepted_classes(batch: RecordBatch, error: dict[str, Any]) -> tuple[type[Exception], ...]:
    """Where two things are wrong, the other may be told.

    A stream of magic 0 or 1 may break behind a wrong message: ours is decompressed first. And a
    batch that is smaller than its header has no field that could be called unknown.
    """
    classes = expected_classes(error)
    if batch.magic < len(OVERHEADS):
        return (*classes, CodecError)
    return (*classes, CorruptRecordError) if batch.size_bytes < HEADER_BYTES else classes


def check_iteration(batch: RecordBatch, name: str, expected: dict[str, Any]) -> None:
    records, error = iterate(batch, ITERATIONS[name])
    wanted = [with_one_null(record) for record in expected["records"]]
    for place, record in enumerate(wanted):
        if is_handed_out_by_kafka_only(batch, record):
            assert isinstance(error, InvalidRecordError), name
            assert len(records) == place, name
            return
    if expected["error"] is None:
        assert error is None, (name, error)
    else:
        accepted = accepted_classes(batch, expected["error"])
        if name == "skip_key_value_iterator":  # a negative size may come first, see above
            accepted = (*accepted, InvalidRecordError)
        assert isinstance(error, accepted), (name, error)
    names = set(wanted[0]) if wanted else set()
    found = [described(record, names) for record in records]
    if expected["error"] is not None and is_careless(expected["error"]):
        assert found == wanted[: len(found)], name
    else:
        assert len(records) == len(wanted), (name, error)
        assert found == wanted, name


def check_validity(batch: RecordBatch, expected: dict[str, Any]) -> None:
    if expected["ensure_valid"] is None:
        check_batch(batch.data)
    else:
        check_refusal(expected["ensure_valid"], lambda: check_batch(batch.data))
    if "is_valid" in expected:
        assert batch.is_valid() == expected["is_valid"]


def wrapped_last_offset(batch: RecordBatch) -> int | None:
    """What Kafka makes of a sum above 2^63-1, where ours stays at the greatest offset [DUR-89]."""
    base = int.from_bytes(batch.data[:8], signed=True)
    delta = int.from_bytes(batch.data[23:27], signed=True)
    is_too_large = batch.magic > 1 and base + delta >= 2**63
    return base + delta - 2**64 if is_too_large else None


def check_field(batch: RecordBatch, name: str, expected: dict[str, Any]) -> None:
    """A field, or the error that asking for it gives."""
    value = expected[name]
    if value == wrapped_last_offset(batch):
        assert batch.last_offset == 2**63 - 1
    elif not isinstance(value, dict):
        assert getattr(batch, name) == value, name
    elif not is_careless(value["error"]):
        with pytest.raises(accepted_classes(batch, value["error"])):
            getattr(batch, name)


def check_scan(data: bytes, rules: str, expected: dict[str, Any]) -> None:
    headers, scan = scan_batches(data, rules=rules, check_crc=False, kafka_limits=True)
    batches = list(batches_of(headers, memoryview(data)))
    assert [batch.size_bytes for batch in batches] == [
        batch["size"] for batch in expected["batches"]
    ]
    if expected["error"] is None:
        assert scan.why is None
    else:
        assert isinstance(scan.why, expected_classes(expected["error"]))
    for batch, wanted in zip(batches, expected["batches"], strict=True):
        assert batch.magic == wanted["magic"]
        check_validity(batch, wanted)
        for name in ("base_offset", "last_offset", "position"):
            if name in wanted:
                check_field(batch, name, wanted)
        for name in ITERATIONS:
            if name in wanted:
                check_iteration(batch, name, wanted[name])


def check_case(case: Case) -> None:
    data = base64.b64decode(case["bytes"])
    check_scan(data, "memory", case["memory_scan"])
    check_scan(data, "file", case["file_scan"])

    _, scan = scan_batches(data, check_crc=False, kafka_limits=True)
    if isinstance(case["valid_bytes"], dict):
        assert isinstance(scan.why, expected_classes(case["valid_bytes"]["error"]))
    else:
        assert (scan.valid_bytes, scan.why) == (case["valid_bytes"], None)
    if isinstance(case["first_batch_size"], dict):
        with pytest.raises(CorruptRecordError):
            first_batch_size(data)
    else:
        assert first_batch_size(data) == case["first_batch_size"]


def test_invalid_batches(vectors):
    """Kafka: ByteBufferLogInputStream, FileLogInputStream, ensureValid, a batch's iterators."""
    vectors("invalid_batches").check(check_case)
