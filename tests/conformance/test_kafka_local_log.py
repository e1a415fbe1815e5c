"""Kafka's LocalLogTest: what an open log does with its segments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import segstore
from segstore import TopicPartition
from segstore.errors import ArgumentTypeError, ClosedError, InvalidTopicError, NotALogError
from segstore.log.files.partition_directory import (
    delete_directory_name,
    future_directory_name,
    has_unique_id,
    parse_directory_name,
    segment_files,
    stray_directory_name,
)
from tests.kits.log_kit import TIME, bases, offsets, wait_for


def append(log, *numbers: int) -> None:
    for number in numbers:
        log.append([(TIME + number, b"key %d" % number, b"value %d" % number)])


def names(log, ending: str) -> list[str]:
    return sorted(path.name for path in Path(log.path).glob(f"*{ending}"))


def test_roll_empty_active_segment(new_log):
    """Kafka: LocalLogTest.testRollEmptyActiveSegment [LOC-11, LOC-12]."""
    log = new_log(recovery="kafka")
    old = log.segments()[0]
    new = log.roll()
    assert bases(log) == [0]
    assert log.segments()[0] is new is not old
    deleted = names(log, ".deleted")
    assert f"{0:020d}.log.deleted" in deleted
    old.offset_index_entries()  # what is touched afterwards is made under the new name
    assert names(log, ".log") == [f"{0:020d}.log"]


def test_log_flush(new_log):
    """Kafka: LocalLogTest.testLogFlush [FLU-4, LOC-16, LOC-17]."""
    log = new_log()
    assert log.recovery_point == 0
    append(log, 0)
    log.roll()
    wait_for(lambda: log.recovery_point == 1)
    assert (log.log_end_offset, log.durable_offset) == (1, 1)


def test_log_append(new_log):
    """Kafka: LocalLogTest.testLogAppend [LOC-5]."""
    log = new_log()
    assert offsets(log.read(0, 1)) == []
    log.append([(TIME, b"k1", b"v1"), (TIME, b"k2", b"v2")])
    assert (log.log_end_offset, log.recovery_point) == (2, 0)
    assert [(r.key, r.value) for r in log.read(0, 1)] == [(b"k1", b"v1"), (b"k2", b"v2")]


def test_log_close(new_log):
    """Kafka: LocalLogTest.testLogCloseSuccess, LocalLogTest.testLogCloseIdempotent [LOC-22]."""
    log = new_log()
    append(log, 0)
    log.close()
    log.close()
    with pytest.raises(ClosedError):
        append(log, 1)


def test_log_close_handlers(new_log):
    """Kafka: LocalLogTest.testLogCloseHandlers, UnifiedLogTest.testLogRollAfterLogHandlerClosed."""
    log = new_log()
    append(log, 0)
    log.close_quietly()
    with pytest.raises(ClosedError):
        append(log, 1)
    with pytest.raises(ClosedError):
        log.roll(1)


def test_log_close_after_close_handlers(new_log):
    """[LOC-22, LOC-3, DIFF-25] LocalLogTest.testLogCloseFailureWhenInMemoryBufferClosed.

    Kafka up to 4.3 throws; the newest and we do nothing: no mark says that the log was closed.
    """
    log = new_log()
    append(log, 0)
    log.close_quietly()
    before = {path.name: path.stat().st_mtime_ns for path in Path(log.path).iterdir()}
    log.close()
    assert {path.name: path.stat().st_mtime_ns for path in Path(log.path).iterdir()} == before
    assert ".kafka_cleanshutdown" not in before
    again = new_log()
    assert not again.report.clean
    assert offsets(again.read(0, 1000)) == [0]


def test_remove_and_delete_segments(new_log):
    """Kafka: LocalLogTest.testRemoveAndDeleteSegmentsAsync [LOC-19, LOC-20]."""
    log = new_log(file_delete_delay_ms=300)
    for number in range(9):
        append(log, number)
        log.roll()
    assert bases(log) == list(range(10))
    log.truncate_fully_and_start_at(9)
    assert bases(log) == [9]
    assert len(names(log, ".log.deleted")) == 10
    wait_for(lambda: names(log, ".deleted") == [])
    assert names(log, ".log") == [f"{9:020d}.log"]


def test_create_and_delete_segment(new_log):
    """Kafka: LocalLogTest.testCreateAndDeleteSegment [LOC-13, LOC-15, LOC-4]."""
    log = new_log()
    append(log, 0)
    log.truncate_fully_and_start_at(1)
    assert (bases(log), log.recovery_point, log.log_end_offset) == ([1], 0, 1)
    assert f"{0:020d}.log.deleted" in names(log, ".deleted")
    assert offsets(log.read(1, 100)) == []


def test_truncate_to(new_log):
    """Kafka: LocalLogTest.testTruncateTo [LOC-14]."""
    log = new_log()
    for number in range(12):
        append(log, number)
        if number % 3 == 2:
            log.roll()
    assert bases(log) == [0, 3, 6, 9, 12]
    log.truncate_to(7)
    assert (bases(log), log.log_end_offset) == ([0, 3, 6], 7)
    assert names(log, ".log.deleted") == [f"{9:020d}.log.deleted", f"{12:020d}.log.deleted"]
    assert offsets(log.read(6, 1000)) == [6]
    append(log, 7)
    assert log.log_end_offset == 8


def test_non_active_segments_from(new_log):
    """Kafka: LocalLogTest.testNonActiveSegmentsFrom [MAP-5]."""
    log = new_log()
    for number in range(5):
        append(log, number)
        log.roll()
    segments = log._local_log.segments

    def found(start: int) -> list[int]:
        return [segment.base_offset for segment in segments.non_active_segments_from(start)]

    assert found(0) == [0, 1, 2, 3, 4]
    assert found(5) == []
    assert found(2) == [2, 3, 4]
    assert found(6) == []


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", id="testParseTopicPartitionNameForEmptyName"),
        pytest.param("test_topic1999", id="testParseTopicPartitionNameForMissingSeparator"),
        "test_topic1999.-delete",
        pytest.param("test_topic-1999a", id="testParseTopicPartitionNameForInvalidPartition"),
        "test_topic1999a.-delete",
    ],
)
def test_parse_topic_partition_name(name):
    """[LOC-24] LocalLogTest.testParseTopicPartitionNameForEmptyName,
    LocalLogTest.testParseTopicPartitionNameForMissingSeparator,
    LocalLogTest.testParseTopicPartitionNameForInvalidPartition.
    """
    with pytest.raises((NotALogError, InvalidTopicError)):
        parse_directory_name(name)


def test_parse_topic_partition_name_for_null():
    """[LOC-24] LocalLogTest.testParseTopicPartitionNameForNull: no name, no log."""
    with pytest.raises(ArgumentTypeError):
        segstore.open(None)


def test_log_delete_dir_name():
    """[LOC-24] LocalLogTest.testLogDeleteDirName; a stray one is cut too, a future one never."""
    ending = r"\.[0-9a-f]{32}-"
    name = delete_directory_name(TopicPartition("foo", 3))
    assert re.fullmatch(f"foo-3{ending}delete", name)
    assert delete_directory_name(TopicPartition("foo", 3)) != name
    assert has_unique_id(name)
    assert not name.endswith("-future")
    assert parse_directory_name(name) == ("foo", 3)
    long_topic = TopicPartition("n" + 248 * "o", 5)
    for made, kind, cut in [
        (delete_directory_name(long_topic), "delete", 212),
        (stray_directory_name(long_topic), "stray", 213),
    ]:
        assert len(made) == 255
        assert re.fullmatch(f"n{cut * 'o'}-5{ending}{kind}", made)
        assert parse_directory_name(made) == ("n" + cut * "o", 5)
    assert re.fullmatch(f"n{248 * 'o'}-5{ending}future", future_directory_name(long_topic))


def test_offset_from_file():
    """Kafka: LocalLogTest.testOffsetFromFile, UnifiedLogTest.testOffsetFromProducerSnapshotFile."""
    made = [f"{23423423:020d}.{kind}" for kind in ("log", "index", "timeindex", "snapshot")]
    assert [file.offset for file in segment_files(made)] == [23423423] * 4


def test_new_segments_after_roll(new_log):
    """Kafka: LocalLogTest.testNewSegmentsAfterRoll [LOC-11]."""
    log = new_log()
    assert log.roll().base_offset == 0
    assert (len(bases(log)), log.log_end_offset) == (1, 0)
    append(log, 0)
    assert log.roll().base_offset == 1
    assert len(bases(log)) == 2
    append(log, 1)
    assert log.roll(1).base_offset == 2  # the log end wins
    assert (len(bases(log)), log.log_end_offset) == (3, 2)
