"""Batches that somebody else built, through `append_as_leader`: kept, built again, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import segstore
from segstore.errors import InvalidRecordError, InvalidTimestampError, RecordTooLargeError
from segstore.records.memory_records import MemoryRecords
from tests.kits.core_inputs import TIME, batch
from tests.kits.log_kit import message_of_magic_1


@pytest.fixture
def open_log(tmp_path: Path):
    logs = []

    def opened(**settings):
        logs.append(segstore.open(tmp_path / f"t-{len(logs)}", durability="none", **settings))
        return logs[-1]

    yield opened
    for log in logs:
        log.close()


def rows(log) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [(r.offset, r.timestamp, r.key, r.value) for r in log.read(0)]


def stored_headers(log):
    (name,) = Path(log.path).glob("*.log")
    return MemoryRecords(name.read_bytes()).headers


@pytest.mark.parametrize("kind", ["producer", "uncompressed", "gzip", "zstd"])
def test_messages_of_magic_1_become_a_batch_of_magic_2(open_log, kind: str):
    """[format.md 12.6] Several plain messages are one request."""
    log = open_log(compression_type=kind)
    log.append([(TIME, b"k", b"v")])

    info = log.append_as_leader(
        message_of_magic_1(0, b"a", TIME + 1) + message_of_magic_1(1, b"b", TIME + 2)
    )

    assert (info.base_offset, info.last_offset, info.max_timestamp) == (1, 2, TIME + 2)
    assert rows(log)[1:] == [(1, TIME + 1, None, b"a"), (2, TIME + 2, None, b"b")]
    headers = stored_headers(log)
    assert headers["magic"].tolist() == [2, 2]
    assert headers["records_count"].tolist() == [1, 2]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("stamp", ["CreateTime", "LogAppendTime"])
def test_a_batch_has_the_codec_of_the_topic(open_log, codec: int, kind: str, stamp: str):
    """[format.md 12.7] Kafka: LogValidatorTest.checkRecompression."""
    log = open_log(compression_type=kind, message_timestamp_type=stamp)
    records = [(TIME + i, b"key%d" % i, b"v" * i) for i in range(50)]

    info = log.append_as_leader(batch(records, codec=codec))

    names = ["uncompressed", "gzip", "snappy", "lz4", "zstd"]
    headers = stored_headers(log)
    assert headers["attributes"].item() & 7 == (codec if kind == "producer" else names.index(kind))
    times = [TIME + i for i in range(50)]
    if stamp == "LogAppendTime":
        assert info.max_timestamp > TIME
        times = [info.max_timestamp] * 50
    assert rows(log) == [(i, times[i], b"key%d" % i, b"v" * i) for i in range(50)]


def test_a_refusal_lists_the_records_and_is_counted(open_log):
    """[APP-33] Kafka: RecordValidationException."""
    log = open_log(cleanup_policy="compact")

    with pytest.raises(InvalidRecordError) as caught:
        log.append_as_leader(batch([(b"k", b"v"), (None, b"v"), (None, b"w")]))

    assert [index for index, _ in caught.value.record_errors] == [1, 2]
    assert "no key" in caught.value.record_errors[1][1]
    assert log.log_end_offset == 0


def test_a_bad_timestamp_wins_over_a_missing_key(open_log):
    """[format.md 12.4] Kafka: LogValidatorTest.testBatchWithInvalidRecordsAndInvalidTimestamp."""
    log = open_log(cleanup_policy="compact")
    far = 2**60

    with pytest.raises(InvalidTimestampError) as caught:
        log.append_as_leader(batch([(TIME, None, b"v"), (far, b"k", b"v")]))

    assert [index for index, _ in caught.value.record_errors] == [0, 1]


def test_a_batch_that_grew_is_measured_again(open_log):
    """[APP-30] What compressed well may be too large for the topic without its codec."""
    log = open_log(compression_type="uncompressed", max_message_bytes=1000)

    with pytest.raises(RecordTooLargeError):
        log.append_as_leader(batch([(b"k", bytes(5000))], codec=1))


def test_a_request_holds_one_batch_of_magic_2(open_log):
    """[APP-31]"""
    log = open_log()
    two = batch([(b"k", b"v")]) * 2

    with pytest.raises(InvalidRecordError):
        log.append_as_leader(two)
    assert log.append_as_leader(MemoryRecords(two)).last_offset == 1
