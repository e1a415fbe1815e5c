"""What Kafka's `LogValidator` made of given appends [format.md 12.2-12.7; APP-30..APP-34]."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from segstore import errors
from segstore._core import (
    EncodedBatches,
    Validation,
    ValidatorMetrics,
    batch_header_dtype,
    scan_batches,
    validate_and_assign_offsets,
)
from segstore.records.compression import codec_table
from segstore.types import AppendOrigin, Codec
from tests.vectors.batch_description import describe_batches, without
from tests.vectors.kafka_errors import expected_classes, is_careless

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.vectors.vector_files import Case, Cases

OURS = {
    "InvalidTimestampException": (errors.InvalidTimestampError,),
    "UnsupportedForMessageFormatException": (errors.UnsupportedFormatError,),
}
"""Beside those that all vectors share."""

METRICS = ValidatorMetrics.__slots__


def validated(case: Case, metrics: ValidatorMetrics) -> tuple[bytes, Validation]:
    """Bytes to be written and the result, or the refusal."""
    data = bytearray(base64.b64decode(case["input"]))
    headers, scan = scan_batches(data, check_crc=False, kafka_limits=True)
    if scan.why is not None:
        raise scan.why
    assert headers.dtype == batch_header_dtype()
    result = validate_and_assign_offsets(
        data,
        headers,
        codec_table(),
        next_offset=case["offset_counter"],
        now_ms=case["now"],
        leader_epoch=case["partition_leader_epoch"],
        log_append_time=case["timestamp_type"] == "LogAppendTime",
        keys_required=case["compacted_topic"],
        records_are_trusted=False,
        timestamp_before_max_ms=case["timestamp_before_max_ms"],
        timestamp_after_max_ms=case["timestamp_after_max_ms"],
        origin=AppendOrigin[case["origin"]],
        target_codec=Codec[case["target_compression"].upper()],
        target_magic=case["magic"],
        one_request=True,
        kafka_limits=True,
        metrics=metrics,
    )
    rebuilt: EncodedBatches | None = result.rebuilt
    return bytes(data[: scan.valid_bytes] if rebuilt is None else rebuilt), result


def check_result(case: Case, output: bytes, result: Validation) -> None:
    expected = case["result"]
    assert result.next_offset == expected["offset_counter_after"]
    assert result.max_timestamp == expected["max_timestamp_ms"]
    assert result.sizes_may_have_changed == expected["message_size_maybe_changed"]
    assert result.converted_count == expected["number_of_records_converted"]
    if expected["exact_bytes"]:
        assert output == base64.b64decode(expected["output"])
    else:
        found = without(describe_batches(output), "size", "crc")
        assert found == without(expected["batches"], "size", "crc")


def is_seen_elsewhere(case: Case, refusal: errors.SegstoreError) -> bool:
    """Whether damage is rightly seen at another place than in Kafka.

    A codec is asked before any record is looked at, where Kafka streams; the source codec is what
    the batches say, where Kafka is told it; and all batches are found before the first is judged,
    which a broker does too, but not in this class.
    """
    if not case["about"].endswith("payload damaged"):
        return False
    headers, scan = scan_batches(base64.b64decode(case["input"]), check_crc=False)
    if scan.why is not None:
        return True
    told = Codec[case["source_compression"].upper()]
    return isinstance(refusal, errors.CodecError) or bool((headers["attributes"] & 7 != told).any())


def check_refusal(case: Case, metrics: ValidatorMetrics) -> bool:
    """Return whether it is the same refusal at the same place: then the counters are too."""
    error = case["error"]
    invalid = error.get("invalid_exception", error)
    with pytest.raises(errors.SegstoreError) as caught:
        validated(case, metrics)
    if is_careless(error):
        return False
    if is_seen_elsewhere(case, caught.value):
        return False
    classes = OURS.get(invalid["class"]) or expected_classes(invalid)
    assert isinstance(caught.value, classes)
    if "record_errors" in error:
        expected = [entry["batch_index"] for entry in error["record_errors"]]
        assert isinstance(caught.value, errors.InvalidRecordError)
        assert [index for index, _ in caught.value.record_errors] == expected
    return True


def check(case: Case) -> None:
    metrics = ValidatorMetrics()
    is_same = True
    if "result" in case:
        check_result(case, *validated(case, metrics))
    else:
        is_same = check_refusal(case, metrics)
    if is_same:
        assert {name: getattr(metrics, name) for name in METRICS} == case["metrics"]


def test_validator(vectors: Callable[[str], Cases]):
    """[format.md 12]; Kafka: LogValidator.validateMessagesAndAssignOffsets."""
    vectors("validator").check(check)
