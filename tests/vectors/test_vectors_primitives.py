"""Varints, CRC-32C, sequences, control keys and markers [format.md 2, 4.2, 6]."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from segstore import _core
from segstore.errors import SegstoreError
from segstore.records.control_record import (
    ControlRecordType,
    parse_control_key,
    parse_end_transaction_marker,
)
from tests.vectors.kafka_errors import check_refusal, expected_classes

if TYPE_CHECKING:
    from tests.vectors.vector_files import Case

READERS = {
    "varint": _core.read_varint,
    "varlong": _core.read_varlong,
    "uvarint": _core.read_uvarint,
}
WRITERS = {
    "varint": _core.write_varint,
    "varlong": _core.write_varlong,
    "uvarint": lambda value: _core.write_uvarint(value & 0xFFFFFFFF),
}


def data_of(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def signed(value: int, bits: int) -> int:
    """Java has no unsigned numbers."""
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def check_decoded(case: Case) -> None:
    data = base64.b64decode(case["bytes"])
    for field, expected in case.items():
        kind, _, source = field.partition("_")
        if source not in {"buffer", "stream"}:
            continue
        read = READERS[kind]
        if "error" in expected or "class" in expected:
            # a stream that ends gives -1, of which Java makes a number that is too long
            assert expected_classes(expected.get("error", expected)) == (SegstoreError,)
            check_refusal(expected.get("error", expected), lambda read=read: read(data))
            continue
        value, consumed = read(data)
        bits = 64 if kind == "varlong" else 32
        assert (signed(value, bits), consumed) == (expected["value"], expected["consumed"]), field


def check_encoded(case: Case) -> None:
    for kind, write in WRITERS.items():
        if kind in case:
            data = write(case["value"])
            assert data == base64.b64decode(case[kind]), kind
            bits = 64 if kind == "varlong" else 32
            value, consumed = READERS[kind](data)
            assert (signed(value, bits), consumed) == (case["value"], len(data)), kind


def check_sequence(case: Case) -> None:
    assert _core.increment_sequence(case["sequence"], case["n"]) == case["increment"]
    assert _core.decrement_sequence(case["sequence"], case["n"]) == case["decrement"]


def check_crc32c(case: Case) -> None:
    assert _core.crc32c(base64.b64decode(case["bytes"])) == case["value"]


def check_control_key(case: Case) -> None:
    key = data_of(case["bytes"])
    expected: Any = case["type_id"]
    if isinstance(expected, dict):
        check_refusal(expected["error"], lambda: parse_control_key(key))
        return
    kind, type_id, _ = parse_control_key(key)
    assert (type_id, kind.name) == (expected, case["type"])


def check_marker(case: Case) -> None:
    key, value = data_of(case["key"]), data_of(case["value"])
    expected = case["result"]
    if "error" in expected:
        check_refusal(expected["error"], lambda: parse_end_transaction_marker(key, value))
        return
    marker = parse_end_transaction_marker(key, value)
    assert marker.type is ControlRecordType[expected["type"]]
    assert marker.coordinator_epoch == expected["coordinator_epoch"]


CHECKS = {
    "varint_decode": check_decoded,
    "varint_encode": check_encoded,
    "sequence": check_sequence,
    "crc32c": check_crc32c,
    "control_key": check_control_key,
    "end_txn_marker": check_marker,
}


def test_primitives(vectors):
    """Kafka: ByteUtils, Crc32C, incrementSequence, ControlRecordType, EndTransactionMarker."""
    vectors("primitives").check(lambda case: CHECKS[case["kind"]](case))
