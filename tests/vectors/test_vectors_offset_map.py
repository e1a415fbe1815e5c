"""What Kafka's `SkimpyOffsetMap` answered [CLN-45..CLN-52]."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from segstore._core import OffsetMap
from tests.vectors.kafka_errors import check_refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.vectors.vector_files import Case, Cases

ENTRY_BYTES = 24
"""An MD5 and an offset."""


def apply(offset_map: OffsetMap, op: Case) -> None:
    if op["op"] == "clear":
        offset_map.clear()
    elif op["op"] == "update_latest_offset":
        offset_map.latest_offset = op["offset"]
    elif op["op"] == "get":
        assert offset_map.get(base64.b64decode(op["key"])) == op["result"]
    else:
        key = base64.b64decode(op["key"])
        if "error" in op:
            check_refusal(op["error"], lambda: offset_map.put(key, op["offset"]))
        else:
            offset_map.put(key, op["offset"])


def check(case: Case) -> None:
    offset_map = OffsetMap(case["slots"] * ENTRY_BYTES)
    assert offset_map.slots == case["slots"]
    for op in case["ops"]:
        apply(offset_map, op)
        assert offset_map.size == op["size"], op
        assert offset_map.latest_offset == op["latest_offset"], op
        assert offset_map.utilization == pytest.approx(op["utilization"]), op


def test_offset_map(vectors: Callable[[str], Cases]):
    """[CLN-45..CLN-52]; Kafka: SkimpyOffsetMap."""
    vectors("offset_map").check(check)
