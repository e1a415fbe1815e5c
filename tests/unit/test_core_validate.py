"""The leader's check from Python; the rules one by one are in tests/c/test_log_validator.c."""

from __future__ import annotations

import pytest

from segstore._core import decode_tuples, scan_batches, validate_and_assign_offsets
from segstore.errors import IllegalArgumentError, InvalidRecordError, InvalidTimestampError
from segstore.records.compression import codec_table

from .core_inputs import TIME, encoded

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
