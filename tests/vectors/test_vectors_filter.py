"""What Kafka's `MemoryRecords.filterTo` left of given batches [format.md 11]."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import numpy as np

from segstore._core import FilterResult, filter_records, scan_batches
from segstore.records.compression import codec_table
from segstore.types import BatchRetention
from tests.vectors.batch_description import describe_batches, without
from tests.vectors.kafka_errors import check_refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.vectors.vector_files import Case, Cases

ENDS_EMPTY_TRANSACTION = 4
SAME_NUMBERS = (
    "messages_read",
    "bytes_read",
    "messages_retained",
    "max_offset",
    "max_timestamp",
    "shallow_offset_of_max_timestamp",
)


def filtered(case: Case) -> FilterResult:
    """Ask as Kafka's harness did: decisions by last offset, records by offset."""
    data = base64.b64decode(case["input"])
    headers, scan = scan_batches(data)
    assert scan.stop == "complete"
    decisions = bytearray()
    for last_offset in headers["last_offset"]:
        retention, is_marker = case["batch_retention"][str(last_offset)]
        decisions.append(BatchRetention[retention] | (ENDS_EMPTY_TRANSACTION if is_marker else 0))
    return filter_records(
        data,
        headers,
        codec_table(),
        decisions=decisions,
        keep_offsets=np.array(sorted(case["keep_offsets"]), np.int64),
        now_ms=case["now"],
        delete_retention_ms=case["delete_retention_ms"],
        destination_capacity=case["destination_capacity"],
    )


def check_result(case: Case) -> None:
    expected = case["result"]
    result = filtered(case)
    for name in SAME_NUMBERS:
        assert getattr(result, name) == expected[name], name
    assert result.output_grew == expected["buffer_grew"]
    assert result.bytes_retained == len(bytes(result.output))
    if case["exact_bytes"]:
        assert bytes(result.output) == base64.b64decode(expected["output"])
        assert result.bytes_retained == expected["bytes_retained"]
    new_bytes = () if case["exact_bytes"] else ("size", "crc")
    found = without(describe_batches(result.output), *new_bytes)
    assert found == without(expected["batches"], *new_bytes)


def check(case: Case) -> None:
    if "result" in case:
        check_result(case)
    else:
        check_refusal(case["error"], lambda: filtered(case))


def test_filter(vectors: Callable[[str], Cases]):
    """[format.md 11]; Kafka: MemoryRecords.filterTo."""
    vectors("filter").check(check)
