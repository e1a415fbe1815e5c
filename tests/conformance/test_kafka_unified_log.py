"""Kafka's UnifiedLogTest: appending, rolling, reading, flushing."""

from __future__ import annotations

from pathlib import Path

import pytest

from segstore import MemoryRecords, SpecialTimestamp
from segstore.errors import OffsetOutOfRangeError, RecordBatchTooLargeError
from tests.kits.log_kit import TIME, at, bases, batch, offsets, singleton, values

HOUR = 3600


def append_set(log, value: bytes = b"test", timestamp: int | None = None) -> None:
    log.append_as_leader(
        batch([(value, value)], timestamp=TIME if timestamp is None else timestamp)
    )


def fetched(log, offset: int, max_bytes: int = 1):
    return log.read(offset, max_bytes)


# ---- append --------------------------------------------------------------------------------------


def test_append_info_first_offset(new_log):
    """Kafka: UnifiedLogTest.testAppendInfoFirstOffset [APP-8]."""
    log = new_log()
    three = batch([(None, b"x")] * 3)
    assert log.append_as_leader(three).base_offset == 0
    assert log.append_as_leader(three).base_offset == 3
    log.roll()
    assert log.append_as_leader(three).base_offset == 6


def test_append_message_with_null_payload(new_log):
    """Kafka: UnifiedLogTest.testAppendMessageWithNullPayload."""
    log = new_log()
    log.append_as_leader(batch([(None, None)]))
    (record,) = log.read(0, 4096)
    assert (record.offset, record.value) == (0, None)


def test_append_with_no_timestamp(new_log):
    """Kafka: UnifiedLogTest.testAppendWithNoTimestamp [APP-33]."""
    log = new_log()
    log.append_as_leader(batch([(-1, b"key", b"value")]))
    assert [record.timestamp for record in log] == [-1]


def test_message_set_size_check(new_log):
    """Kafka: UnifiedLogTest.testMessageSetSizeCheck [APP-11]."""
    given = singleton(b"You") + singleton(b"bethe")
    log = new_log(internal_segment_bytes=len(given) - 1)
    with pytest.raises(RecordBatchTooLargeError):
        log.append_as_leader(MemoryRecords(given))


def test_message_size_check_in_append_as_follower(new_log):
    """Kafka: UnifiedLogTest.testMessageSizeCheckInAppendAsFollower [APP-2]."""
    first, second = at(0, 2), at(5, 2, value=b"More padding boo")
    log = new_log(max_message_bytes=len(second) - 1)
    log.append_as_follower(first, 0)
    log.append_as_follower(second, 0)
    assert offsets(log) == [0, 1, 5, 6]


def test_duplicate_append_to_follower_of_plain_records(new_log):
    """[APP-9] a follower appends what comes at its log end, whatever it is."""
    log = new_log()
    log.append_as_follower(at(0, 2), 0)
    log.append_as_follower(at(2, 2), 0)
    assert log.log_end_offset == 4


def test_apply_epoch_to_message_on_append_if_leader(new_log):
    """Kafka: UnifiedLogTest.shouldApplyEpochToMessageOnAppendIfLeader [APP-34]."""
    log = new_log()
    for number in range(50):
        log.append_as_leader(singleton(b"%d" % number), leader_epoch=72)
    assert {b.partition_leader_epoch for b in log.scan().batches()} == {72}
    assert [b.base_offset for b in log.scan().batches()] == list(range(50))


def test_follower_saves_epochs(new_log):
    """[APP-10]

    UnifiedLogTest.followerShouldSaveEpochInformationFromReplicatedMessagesToTheEpochCache.
    """
    log = new_log()
    for number in range(50):
        log.append_as_follower(at(number, epoch=42), 42)
    assert log._epochs.latest_epoch == 42


# ---- roll ----------------------------------------------------------------------------------------


def test_time_based_log_roll_during_append(new_log, clock):
    """Kafka: UnifiedLogTest.testTimeBasedLogRollDuringAppend [CFG-2m, SEG-14, APP-6]."""
    log = new_log(segment_ms=HOUR)
    counts = []

    def step(sleep: int, timestamp: int) -> None:
        clock.sleep(sleep)
        append_set(log, timestamp=timestamp)
        counts.append(len(bases(log)))

    # without timestamps the age of a segment counts from its creation
    step(HOUR + 1, -1)
    assert counts == [1]  # the first append into an empty segment
    step(HOUR + 1, -1)
    assert counts[-1] == 2
    # with a timestamp in the first batch only timestamps count
    log.roll()
    ahead = clock.now + HOUR + 1
    append_set(log, timestamp=clock.now)
    number = len(bases(log))
    step(0, clock.now + HOUR)
    assert counts[-1] == number
    step(0, ahead)
    assert counts[-1] == number + 1
    step(HOUR + 1, ahead)
    assert counts[-1] == number + 1
    step(0, ahead + HOUR + 1)
    assert counts[-1] == number + 2
    clock.sleep(10 * HOUR)
    log.append_as_leader(b"")
    assert len(bases(log)) == number + 2  # nothing appended never rolls


def test_time_based_log_roll_jitter(new_log, clock):
    """Kafka: UnifiedLogTest.testTimeBasedLogRollJitter [CFG-3m, SEG-15]."""
    jitter = 20 * 60
    log = new_log(segment_ms=HOUR, segment_jitter_ms=jitter)
    start = clock.now
    append_set(log, timestamp=start)
    append_set(log, timestamp=start + HOUR - jitter)
    assert len(bases(log)) == 1
    drawn = HOUR - log._local_log._max_segment_ms
    assert 0 <= drawn < jitter
    append_set(log, timestamp=start + HOUR - drawn)
    assert len(bases(log)) == 1
    append_set(log, timestamp=start + HOUR - drawn + 1)
    assert len(bases(log)) == 2


def test_size_based_log_roll(new_log):
    """Kafka: UnifiedLogTest.testSizeBasedLogRoll [SEG-13]."""
    size = len(batch([(b"test", b"test")]))
    log = new_log(internal_segment_bytes=10 * (size - 1))
    for _ in range(11):
        append_set(log)
    assert len(bases(log)) == 2


def test_roll_segment_that_already_exists(new_log):
    """Kafka: UnifiedLogTest.testRollSegmentThatAlreadyExists [LOC-11]."""
    log = new_log()
    log.roll(0)
    assert bases(log) == [0]
    log.append_as_follower(at(0), 0)
    log.append_as_follower(at(1), 0)
    assert (log.log_end_offset, offsets(log)) == (2, [0, 1])
    log.roll()
    assert bases(log) == [0, 2]
    log.append_as_follower(at(2), 0)
    assert offsets(log.read(2, 1000)) == [2]
    assert bases(log) == [0, 2]


def test_log_segments_call_correct(new_log):
    """Kafka: UnifiedLogTest.testLogSegmentsCallCorrect [MAP-4]."""
    size = len(batch([(b"test", b"test")]))
    log = new_log(internal_segment_bytes=10 * size)
    for _ in range(22):
        append_set(log)
    assert bases(log) == [0, 10, 20]
    segments = log._local_log.segments

    def between(start: int, end: int) -> list[int]:
        return [segment.base_offset for segment in segments.values(start, end)]

    assert between(10, 10) == between(15, 15) == []
    assert between(0, 21) == [0, 10, 20]
    assert between(1, 5) == [0]
    assert between(13, 21) == [10, 20]
    assert between(13, 17) == [10]
    with pytest.raises(ValueError, match="reversed"):
        between(10, 0)


def test_get_first_batch_timestamp_for_segments(new_log):
    """Kafka: UnifiedLogTest.testGetFirstBatchTimestampForSegments [SEG-16]."""
    log = new_log()
    never = 2**63 - 1
    assert [segment.rolling_timestamp() for segment in log.segments()] == [never]
    append_set(log, timestamp=1000)
    log.roll()
    assert [segment.rolling_timestamp() for segment in log.segments()] == [1000, never]
    append_set(log, timestamp=2000)
    assert [segment.rolling_timestamp() for segment in log.segments()] == [1000, 2000]


# ---- read ----------------------------------------------------------------------------------------


def test_append_and_read_with_sequential_offsets(new_log):
    """Kafka: UnifiedLogTest.testAppendAndReadWithSequentialOffsets [RD-1]."""
    log = new_log(internal_segment_bytes=71)
    for number in range(0, 100, 2):
        log.append_as_leader(singleton(b"%d" % number))
    for offset in range(50):
        (record,) = fetched(log, offset)
        assert (record.offset, record.key, record.value) == (offset, None, b"%d" % (2 * offset))
    assert offsets(fetched(log, 50)) == []


def test_read_with_too_small_max_length(new_log):
    """Kafka: UnifiedLogTest.testReadWithTooSmallMaxLength [SEG-19]."""
    log = new_log(internal_segment_bytes=72)
    ids = [*range(50), *range(50, 200, 7)]
    for offset in ids:
        log.append_as_follower(at(offset, value=b"x"), 0)
    for start in range(50, ids[-1]):
        nothing = log.read(start, 0, min_one_message=False)
        assert (nothing.size_bytes, nothing.first_entry_incomplete) == (0, False)
        cut = log.read(start, 1, min_one_message=False)
        assert (cut.size_bytes, cut.first_entry_incomplete) == (1, True)


def test_read_out_of_range(new_log):
    """Kafka: UnifiedLogTest.testReadOutOfRange [RD-2]."""
    log = new_log()
    log.truncate_fully_and_start_at(1024)
    append_set(log)
    assert log.read(1025, 1000).size_bytes == 0
    for offset in (0, 1026):
        with pytest.raises(OffsetOutOfRangeError):
            log.read(offset, 1000)


def test_compressed_messages(new_log):
    """Kafka: UnifiedLogTest.testCompressedMessages [RD-1]."""
    log = new_log(internal_segment_bytes=110)
    log.append_as_leader(batch([(None, b"hello"), (None, b"there")], codec=1))
    log.append_as_leader(batch([(None, b"alpha"), (None, b"beta")], codec=1))

    def first(offset: int) -> int:
        return next(log.read(offset, 4096).batches()).base_offset

    assert [first(offset) for offset in range(4)] == [0, 0, 2, 2]


def test_fetch_up_to_log_end_offset(new_log):
    """Kafka: UnifiedLogTest.testFetchUpToLogEndOffset [RD-1, RD-3]."""
    log = new_log()
    log.append_as_leader(batch([(b"0", b"0"), (b"1", b"1"), (b"2", b"2")]))
    log.append_as_leader(batch([(b"3", b"3"), (b"4", b"4")]))
    for offset in range(5):
        found = log.read(offset, 2**31 - 1)
        assert found.size_bytes > 0
        assert not found.first_entry_incomplete
        assert max(offsets(found)) < 5
        place = found.fetch_offset_metadata
        assert place.message_offset == (0 if offset < 3 else 3)
        assert not place.message_offset_only


def test_high_watermark_follows_a_roll(new_log):
    """Kafka: UnifiedLogTest.testHighWatermarkMetadataUpdatedAfterSegmentRoll, with HW = LEO."""
    log = new_log()
    log.append_as_leader(batch([(None, b"a")] * 3))
    assert offsets(log.read(0, 2048, "high_watermark")) == [0, 1, 2]
    log.roll()
    assert offsets(log.read(0, 2048, "high_watermark")) == [0, 1, 2]
    assert log.read(3, 2048, "high_watermark").size_bytes == 0
    assert log._local_log.log_end == (3, 3, 0)


# ---- time ----------------------------------------------------------------------------------------


def test_fetch_offset_by_timestamp_with_max_timestamp(new_log):
    """Kafka: UnifiedLogTest.testFetchOffsetByTimestampWithMaxTimestampIncludesTimestamp [TS-3]."""
    log = new_log()
    for timestamp in (TIME, TIME + 1, TIME):
        log.append_as_leader(batch([(timestamp, None, b"x")]), leader_epoch=0)
    assert log.fetch_offset_by_timestamp(SpecialTimestamp.MAX) == (TIME + 1, 1, 0)


# ---- flush, truncate, delete ---------------------------------------------------------------------


def test_flushing_empty_active_segments(new_log):
    """Kafka: UnifiedLogTest.testFlushingEmptyActiveSegments [FLU-3]: the clean close makes them."""
    log = new_log()
    append_set(log)
    log.roll()
    path = Path(log.path)
    assert len(list(path.glob("*.log"))) == 2
    assert log.segments()[-1].size_bytes == 0
    log.close()
    assert len(list(path.glob("*.log"))) == 2
    assert len(list(path.glob("*.index"))) == 2


def test_index_resizing_at_truncation(new_log):
    """Kafka: UnifiedLogTest.testIndexResizingAtTruncation [SEG-24.3]."""
    size = len(batch([(b"test", b"test")]))
    log = new_log(internal_segment_bytes=10 * size, index_interval_bytes=size - 1)
    for number in range(20):
        append_set(log, timestamp=TIME + number)
    assert bases(log) == [0, 10]
    assert len(log.segments()[0].offset_index_entries()) == 9
    log.truncate_to(0)
    assert bases(log) == [0]
    for number in range(10):
        append_set(log, timestamp=TIME + number)
    assert bases(log) == [0]
    assert len(log.segments()[0].offset_index_entries()) == 9


def test_truncate_leader_epoch_checkpoint_file_when_truncating_log(new_log):
    """[TRU-3] UnifiedLogTest.shouldTruncateLeaderEpochCheckpointFileWhenTruncatingLog."""
    log = new_log(internal_segment_bytes=10 * len(at(0)))
    epochs = [0] * 10 + [1] * 6 + [2] * 4
    for offset, epoch in enumerate(epochs):
        log.append_as_follower(at(offset, epoch=epoch), epoch)
    left = []
    for offset in (20, 11, 10, 0):
        log.truncate_to(offset)
        left.append(len(log._epochs.entries))
        lines = (Path(log.path) / "leader-epoch-checkpoint").read_text().splitlines()
        assert len(lines) - 2 == left[-1]
    assert left == [3, 2, 1, 0]


def test_truncate_to_end_offset_clears_epoch_cache(new_log):
    """Kafka: UnifiedLogTest.testTruncateToEndOffsetClearsEpochCache [TRU-2]."""
    log = new_log()
    log.append_as_follower(at(27, 2, epoch=19), 19)
    assert (log._epochs.latest_entry, log.log_end_offset) == ((19, 27), 29)
    for epoch, offset in ((20, 29), (24, 30)):
        log._epochs.assign(epoch, 29)
        log.truncate_to(offset)
        assert (log._epochs.latest_entry, log.log_end_offset) == ((19, 27), 29)


def test_log_start_offset(new_log):
    """[LST-1] UnifiedLogTest.testCannotIncrementLogStartOffsetPastHighWatermark,
    UnifiedLogTest.testNoOpWhenRemoteLogStorageIsDisabled.
    """
    log = new_log()
    for number in range(100):
        log.append_as_leader(singleton(b"%d" % number))
    with pytest.raises(OffsetOutOfRangeError):
        log.delete_records(101)
    log.delete_records(20)
    assert log.log_start_offset == 20
    assert values(log)[0] == b"20"


def test_offsets_after_a_close(new_log):
    """Kafka: UnifiedLogTest.testLoadEmptyLog [LDR-10]."""
    log = new_log()
    path = Path(log.path)
    log.close()
    for kind in ("index", "log"):
        (path / f"{0:020d}.{kind}").write_bytes(b"")
    log = new_log()
    append_set(log)
    assert offsets(log) == [0]
