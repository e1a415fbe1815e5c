"""Kafka's LogValidatorTest: what a leader makes of an append.

One request at a time and Kafka's own limits, as Kafka's class is called. Where segstore is stricter
is in tests/c/test_log_validator.c.
"""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
import pytest

from segstore._core import (
    ValidatorMetrics,
    batch_header_dtype,
    encode_empty_batch,
    set_last_offset,
)
from segstore.errors import InvalidRecordError, InvalidTimestampError
from segstore.types import Codec
from tests.kits.log_validator_kit import (
    NOW,
    WORDS,
    message,
    validate,
    within,
    words,
    wrapper,
)
from tests.kits.records_kit import build, headers, records, rows

COUNTER = 1_234_567
HOUR = 3_600_000
GZIP, NONE = Codec.GZIP, Codec.NONE
PRODUCER = {
    "producer_id": 1324,
    "producer_epoch": 10,
    "base_sequence": 984,
    "transactional": True,
    "partition_leader_epoch": 40,
}


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_offsets_inside_that_do_not_count_up(magic: int):
    """[format.md 12.7] LogValidatorTest.testValidationOfBatchesWithNonSequentialInnerOffsets."""
    if magic == 2:
        data = bytearray(build([(i, NOW, b"k", b"%d" % i) for i in range(20)], 2, NONE))
        for i in range(1, 20):
            at = sum(record.size for record in records(bytes(data))[:i]) + 61
            data[at + 3] = 0  # the offset delta, behind size, attributes and timestamp delta
        section = gzip.compress(bytes(data[61:]))
        data = data[:61] + section
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
        data[22] |= GZIP
        with pytest.raises(InvalidRecordError):
            validate(bytes(data), GZIP, 2)
        return

    inner = [message(magic, 0, NOW, b"%d" % i, b"%d" % i) for i in range(20)]
    data, _ = validate(wrapper(inner, magic, 0), GZIP, magic)

    assert [record.offset for record in records(data)] == list(range(20))


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", Codec)
def test_a_batch_without_records_is_refused(source: Codec, target: Codec):
    """[format.md 12.3] LogValidatorTest.testBatchWithoutRecordsNotAllowed."""
    row = np.zeros(1, batch_header_dtype())[0]
    row["last_offset"], row["producer_id"], row["producer_epoch"] = 5, 1324, 10
    row["base_sequence"], row["attributes"], row["magic"] = 984, 0x10, 2
    data = bytearray(encode_empty_batch(row))
    data[22] |= source
    metrics = ValidatorMetrics()

    with pytest.raises(InvalidRecordError):
        validate(bytes(data), target, metrics=metrics)

    assert metrics.invalid_offset == 1


@pytest.mark.parametrize(("outer", "inner"), [(0, 1), (1, 0)])
def test_messages_inside_have_the_magic_of_their_wrapper(outer: int, inner: int):
    """[format.md 12.4] LogValidatorTest.checkMismatchMagic."""
    messages = [message(inner, i, -1, b"%d" % i, b"%d" % i) for i in range(20)]
    metrics = ValidatorMetrics()

    with pytest.raises(InvalidRecordError) as caught:
        validate(wrapper(messages, outer, 19, -1), GZIP, outer, metrics=metrics)

    assert len(caught.value.record_errors) == 20
    assert metrics.invalid_magic > 0


def test_a_wrapper_of_magic_1_becomes_a_batch_of_magic_2():
    """[format.md 12.7] LogValidatorTest.testCreateTimeUpConversionV1ToV2."""
    data, result = validate(build(words(NOW, NOW, NOW), 1, GZIP), GZIP, **within(1000))

    (row,) = headers(data)
    assert (row["magic"], row["base_timestamp"], row["max_timestamp"]) == (2, NOW, NOW)
    assert row["attributes"] == GZIP
    assert (row["producer_id"], row["producer_epoch"], row["base_sequence"]) == (-1, -1, -1)
    assert (result.max_timestamp, row["last_offset"]) == (NOW, 2)
    assert result.sizes_may_have_changed
    assert result.converted_count == 3


def check_words(data: bytes, magic: int) -> None:
    """Producer, epoch and timestamps as sent."""
    for row in headers(data):
        assert row["attributes"] & 0x08 == 0
        if magic < 2:
            continue
        assert row["base_timestamp"] == NOW - 1
        assert (row["producer_id"], row["producer_epoch"]) == (1324, 10)
        assert (row["base_sequence"], row["partition_leader_epoch"]) == (984, 40)
        assert row["attributes"] & 0x10
    assert [(t, value) for _, t, _, value in rows(data)] == [
        (NOW - 1, b"hello"),
        (NOW + 1, b"there"),
        (NOW, b"beautiful"),
    ]


def sent(magic: int, codec: Codec) -> bytes:
    return build(words(NOW - 1, NOW + 1, NOW), magic, codec, **(PRODUCER if magic == 2 else {}))


@pytest.mark.parametrize("magic", [1, 2])
def test_a_plain_append_is_compressed_for_the_topic(magic: int):
    """[format.md 12.7] LogValidatorTest.checkRecompression."""
    source = sent(magic, NONE)
    assert len(headers(source)) == (1 if magic == 2 else 3)

    data, result = validate(source, GZIP, magic, leader_epoch=40, **within(1000))

    check_words(data, magic)
    (row,) = headers(data)
    assert (result.max_timestamp, row["last_offset"]) == (NOW + 1, 2)
    assert result.sizes_may_have_changed
    assert result.converted_count == 3


@pytest.mark.parametrize("magic", [1, 2])
def test_a_compressed_append_stays_as_it_is(magic: int):
    """[format.md 12.7] LogValidatorTest.checkCompressed."""
    data, result = validate(sent(magic, GZIP), GZIP, magic, leader_epoch=40, **within(1000))

    check_words(data, magic)
    (row,) = headers(data)
    assert (result.max_timestamp, row["last_offset"]) == (NOW + 1, 2)
    assert not result.sizes_may_have_changed
    assert result.converted_count == 0


@pytest.mark.parametrize("magic", [1, 2])
def test_a_plain_append_is_edited_in_place(magic: int):
    """[format.md 12.5] LogValidatorTest.checkNonCompressed."""
    data, result = validate(sent(magic, NONE), NONE, magic, leader_epoch=40, **within(1000))

    check_words(data, magic)
    table = headers(data)
    assert len(table) == (1 if magic == 2 else 3)
    first = int(np.argmax(table["max_timestamp"] == NOW + 1))
    assert table["last_offset"][first] == (2 if magic == 2 else 1)
    assert (result.next_offset, result.max_timestamp) == (3, NOW + 1)
    assert not result.sizes_may_have_changed


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("target", [NONE, GZIP])
def test_several_sets_of_plain_messages_are_one_append(magic: int, target: Codec):
    """[format.md 12.2] LogValidatorTest.checkAllowMultiBatch."""
    both = build([(0, NOW, None, b"a")], magic) + build(
        [(0, NOW, None, b"b"), (1, NOW, None, b"c")], magic
    )

    assert validate(both, target, magic).result.next_offset == 3


@pytest.mark.parametrize(
    ("magic", "codec"),
    [
        pytest.param(1, NONE, id="testInvalidCreateTimeNonCompressedV1"),
        pytest.param(2, GZIP, id="testInvalidCreateTimeCompressedV2"),
    ],
)
def test_a_timestamp_too_far_back_is_refused(magic: int, codec: Codec):
    """[format.md 12.4] LogValidatorTest.testInvalidCreateTimeNonCompressedV1,
    LogValidatorTest.testInvalidCreateTimeCompressedV2."""
    early = NOW - 1001
    with pytest.raises(InvalidTimestampError):
        validate(build(words(early, early, early), magic, codec), codec, magic, **within(1000))


ASSIGNMENTS = [
    ("testAbsoluteOffsetAssignmentNonCompressed", 0, NONE, 0, {}),
    ("testAbsoluteOffsetAssignmentCompressed", 0, GZIP, 0, {}),
    ("testRelativeOffsetAssignmentNonCompressedV1", 1, NONE, 1, {}),
    ("testRelativeOffsetAssignmentNonCompressedV2", 2, NONE, 2, {}),
    ("testRelativeOffsetAssignmentCompressedV1", 1, GZIP, 1, {}),
    ("testRelativeOffsetAssignmentCompressedV2", 2, GZIP, 2, {}),
    (
        "testOffsetAssignmentAfterUpConversionV0ToV1NonCompressed",
        0,
        NONE,
        1,
        {"log_append_time": True},
    ),
    (
        "testOffsetAssignmentAfterUpConversionV0ToV2NonCompressed",
        0,
        NONE,
        2,
        {"log_append_time": True},
    ),
    (
        "testOffsetAssignmentAfterUpConversionV0ToV2Compressed",
        0,
        GZIP,
        2,
        {"log_append_time": True},
    ),
    ("testOffsetAssignmentAfterUpConversionV1ToV2NonCompressed", 1, NONE, 2, {"timestamp": -1}),
    ("testOffsetAssignmentAfterDownConversionV1ToV0NonCompressed", 1, NONE, 0, {}),
    ("testOffsetAssignmentAfterDownConversionV2ToV1Compressed", 2, GZIP, 1, {}),
    ("testOffsetAssignmentAfterDownConversionV2ToV0NonCompressed", 2, NONE, 0, {}),
]
"""Kafka's test, magic and codec sent, target magic, and what else it says."""


@pytest.mark.parametrize(
    ("source", "codec", "target", "extra"),
    [pytest.param(*case[1:], id=case[0]) for case in ASSIGNMENTS],
)
def test_offsets_are_assigned(source: int, codec: Codec, target: int, extra: dict[str, Any]):
    """[format.md 12.5-12.7] LogValidatorTest.testAbsoluteOffsetAssignmentNonCompressed,
    LogValidatorTest.testAbsoluteOffsetAssignmentCompressed,
    LogValidatorTest.testRelativeOffsetAssignmentNonCompressedV1,
    LogValidatorTest.testRelativeOffsetAssignmentNonCompressedV2,
    LogValidatorTest.testRelativeOffsetAssignmentCompressedV1,
    LogValidatorTest.testRelativeOffsetAssignmentCompressedV2,
    LogValidatorTest.testOffsetAssignmentAfterUpConversionV0ToV1NonCompressed,
    LogValidatorTest.testOffsetAssignmentAfterUpConversionV0ToV2NonCompressed,
    LogValidatorTest.testOffsetAssignmentAfterUpConversionV0ToV2Compressed,
    LogValidatorTest.testOffsetAssignmentAfterUpConversionV1ToV2NonCompressed,
    LogValidatorTest.testOffsetAssignmentAfterDownConversionV1ToV0NonCompressed,
    LogValidatorTest.testOffsetAssignmentAfterDownConversionV2ToV1Compressed,
    LogValidatorTest.testOffsetAssignmentAfterDownConversionV2ToV0NonCompressed."""
    rules = dict(extra)
    timestamp = rules.pop("timestamp", NOW)
    data = build(words(timestamp, timestamp, timestamp), source, codec)

    written, result = validate(data, codec, target, counter=COUNTER, **rules)

    assert [record.offset for record in records(written)] == [COUNTER, COUNTER + 1, COUNTER + 2]
    assert [record.value for record in records(written)] == WORDS
    assert set(headers(written)["magic"]) == {target}
    assert result.next_offset == COUNTER + 3
    is_rebuilt = source != target or (target == 0 and codec is not NONE)
    assert result.converted_count == (3 if is_rebuilt else 0)


def test_range_and_count_of_a_batch_must_agree():
    """[format.md 12.3] LogValidatorTest.testNonIncreasingOffsetRecordBatchHasMetricsLogged."""
    data = bytearray(build([(0, NOW, None, b"a"), (2, NOW, None, b"b"), (3, NOW, None, b"c")]))
    set_last_offset(data, 2)
    metrics = ValidatorMetrics()

    with pytest.raises(InvalidRecordError):
        validate(bytes(data), GZIP, 0, metrics=metrics)

    assert metrics.invalid_offset == 1


def test_every_wrong_record_is_listed():
    """[format.md 12.4] LogValidatorTest.testInvalidRecordExceptionHasBatchIndex."""
    inner = [message(1, i, -1, b"%d" % i, b"%d" % i) for i in range(20)]

    with pytest.raises(InvalidRecordError) as caught:
        validate(wrapper(inner, 0, 19, -1), GZIP, 0)

    assert not isinstance(caught.value, InvalidTimestampError)
    assert [index for index, _ in caught.value.record_errors] == list(range(20))


def test_a_bad_timestamp_wins_over_a_wrong_magic():
    """[format.md 12.4] LogValidatorTest.testBatchWithInvalidRecordsAndInvalidTimestamp."""
    inner = [message(1, 0, 1200, b"0", b"0")]
    inner += [message(0, i, -1, b"%d" % i, b"%d" % i) for i in range(1, 6)]

    with pytest.raises(InvalidTimestampError) as caught:
        validate(wrapper(inner, 1, 5, 1200), GZIP, 1, now=0, **within(1000))

    assert len(caught.value.record_errors) == 6


def test_records_of_yesterday_are_refused():
    """[format.md 12.4] LogValidatorTest.testRecordWithPastTimestampIsRejected."""
    early = NOW - 24 * HOUR - 5 * 60_000

    with pytest.raises(InvalidTimestampError) as caught:
        validate(
            build(words(early, early, early), 2, GZIP),
            GZIP,
            timestamp_before_max_ms=24 * HOUR,
            timestamp_after_max_ms=HOUR,
        )

    assert len(caught.value.record_errors) == 3


def test_another_level_of_the_same_codec_changes_nothing():
    """[format.md 12.1] LogValidatorTest.testDifferentLevelDoesNotCauseRecompression."""
    records_ = [(0, -1, None, b"some" * 256), (1, -1, None, b"data" * 256)]
    sent_ = build(records_, 2, GZIP, level=9)

    data, result = validate(sent_, GZIP, level=1, leader_epoch=-1)

    assert data == sent_
    assert result.rebuilt is None


def test_another_codec_is_applied_with_the_level_of_the_topic():
    """[format.md 12.1] LogValidatorTest.testDifferentCodecCausesRecompression."""
    records_ = [(0, -1, None, b"somedata"), (1, -1, None, b"moredata")]

    data, _ = validate(build(records_, 2, GZIP, level=9), Codec.LZ4, level=1, leader_epoch=-1)

    assert data == build(records_, 2, Codec.LZ4, level=1)


@pytest.mark.parametrize("magic", [1, 2])
def test_append_time_is_stamped_on_what_is_built_again(magic: int):
    """[format.md 12.7] LogValidatorTest.checkLogAppendTimeWithRecompression."""
    sent_ = build(words(-1, -1, -1), 0, GZIP)

    data, result = validate(sent_, GZIP, magic, log_append_time=True, **within(1000))

    (row,) = headers(data)
    assert [(t, value) for _, t, _, value in rows(data)] == [(NOW, word) for word in WORDS]
    assert row["attributes"] == GZIP | 0x08
    assert (row["max_timestamp"], row["last_offset"]) == (NOW, 2)
    assert magic == 1 or row["base_timestamp"] == -1
    assert result.max_timestamp == NOW
    assert result.sizes_may_have_changed
    assert result.converted_count == 3
