"""The leader's check from Python; the rules one by one are in tests/c/test_log_validator.c."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from segstore._core import (
    LogValidator,
    analyze_append,
    decode_tuples,
    scan_batches,
    validate_and_assign_offsets,
)
from segstore.errors import (
    IllegalArgumentError,
    InvalidRecordError,
    InvalidTimestampError,
    OffsetsOutOfOrderError,
    RecordTooLargeError,
)
from segstore.records.compression import codec_table
from segstore.types import AppendOrigin
from tests.kits.core_inputs import TIME, encoded

MAX = 2**63 - 1


def validate(data, headers, **changes):
    options = {
        "next_offset": 100,
        "now_ms": TIME,
        "leader_epoch": 5,
        "log_append_time": False,
        "keys_required": False,
        "records_are_trusted": False,
        "timestamp_before_max_ms": MAX,
        "timestamp_after_max_ms": 3_600_000,
    }
    return validate_and_assign_offsets(data, headers, codec_table(), **(options | changes))


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_batches_are_stamped_in_place_and_the_table_follows(codec: int, trusted):
    """[APP-34]"""
    batches = encoded([(TIME + i, b"k", b"v" * 30) for i in range(7)], codec=codec, limit=200)

    result = validate(batches, batches.headers, records_are_trusted=trusted)
    headers, scan = scan_batches(batches)

    assert result[:3] == (107, TIME + 6, 7)
    assert scan.stop == "complete"
    assert headers.tobytes() == batches.headers.tobytes()
    assert headers["partition_leader_epoch"].tolist() == [5] * len(headers)
    assert [row[0] for row in decode_tuples(batches, codec_table())] == list(range(100, 107))


def test_log_append_time_is_on_every_record():
    """Kafka: LogValidatorTest.testLogAppendTimeCompressedV2."""
    batches = encoded([(5, b"k", b"v"), (6, b"k", b"v")], codec=1)

    result = validate(batches, batches.headers, log_append_time=True)

    assert result[:3] == (102, TIME, 2)
    assert [row[1] for row in decode_tuples(batches, codec_table())] == [TIME, TIME]


def test_a_timestamp_out_of_range_has_its_own_class():
    """Kafka: LogValidatorTest.testInvalidCreateTimeCompressedV2."""
    for codec in (0, 1):
        for trusted in (True, False):
            batches = encoded([(TIME + 3_600_001, b"k", b"v")], codec=codec)
            with pytest.raises(InvalidTimestampError):
                validate(batches, batches.headers, records_are_trusted=trusted)


def test_a_missing_key_is_an_invalid_record():
    batches = encoded([(None, b"v")])
    with pytest.raises(InvalidRecordError) as caught:
        validate(batches, batches.headers, keys_required=True)
    assert not isinstance(caught.value, InvalidTimestampError)


def test_offsets_inside_a_compressed_batch_must_be_in_sequence():
    """[format.md 12.7]: a client's batch that does not begin at 0."""
    batches = encoded([(b"k", b"v")], codec=1, base_offset=3)
    with pytest.raises(InvalidRecordError):
        validate(batches, batches.headers)
    plain = encoded([(b"k", b"v")], base_offset=3)
    assert validate(plain, plain.headers).next_offset == 101


def test_data_and_table_must_be_writable_and_fit_each_other():
    batches = encoded([(b"k", b"v")])
    with pytest.raises(BufferError):
        validate(bytes(batches), batches.headers)
    frozen = batches.headers.copy()
    frozen.flags.writeable = False
    for headers in (frozen, [1], batches.headers["position"], batches.headers.reshape(1, 1)):
        with pytest.raises(IllegalArgumentError):
            validate(batches, headers)
    elsewhere = batches.headers.copy()
    elsewhere["position"] = 10**12
    with pytest.raises(IllegalArgumentError):
        validate(batches, elsewhere)
    with pytest.raises(InvalidRecordError):  # [APP-31]
        validate(batches, batches.headers[:0])


def test_an_append_is_analysed_by_the_rules_of_its_origin():
    """[format.md 12.1] The rules one by one are in tests/c/test_append_analysis.c."""
    first = bytes(encoded([(b"k", b"v")] * 3, base_offset=7, partition_leader_epoch=2))

    headers, analysis = analyze_append(
        first + first[:20], origin=AppendOrigin.REPLICATION, leader_epoch=2
    )

    assert headers["last_offset"].tolist() == [9]
    assert analysis == (len(first), 7, 9, TIME, 2, 0)
    with pytest.raises(OffsetsOutOfOrderError):
        analyze_append(first * 2, origin=AppendOrigin.REPLICATION, leader_epoch=2)
    with pytest.raises(InvalidRecordError, match="begins at offset 0"):
        analyze_append(first)
    with pytest.raises(RecordTooLargeError):
        analyze_append(first, origin=AppendOrigin.COORDINATOR, max_message_bytes=len(first) - 1)
    with pytest.raises(IllegalArgumentError):
        analyze_append(first, origin=4)


def test_a_validator_may_be_used_by_threads_at_once():
    """Memory is shared by calls that follow each other, not by those that overlap."""
    validator = LogValidator(codec_table(), target_codec=4)
    sent = [bytes(encoded([(b"k%d" % n, b"%d" % i) for i in range(500)])) for n in range(8)]

    def run(data: bytes) -> bytes:
        for _ in range(20):
            headers, _ = scan_batches(data)
            result = validator.validate_and_assign_offsets(bytearray(data), headers, 0, TIME, 0)
        assert result.rebuilt is not None
        return b"".join(row[3] for row in decode_tuples(result.rebuilt, codec_table()))

    with ThreadPoolExecutor(8) as pool:
        values = list(pool.map(run, sent))

    assert values == [b"".join(b"%d" % i for i in range(500))] * 8


def test_targets_and_origins_out_of_range_are_refused():
    for wrong in ({"target_codec": 5}, {"target_codec": -2}, {"target_magic": 3}, {"origin": -1}):
        with pytest.raises(IllegalArgumentError):
            LogValidator(codec_table(), **wrong)
