"""Kafka's UnifiedLogTest: the high watermark, its listener, and reads that it bounds."""

from __future__ import annotations

import pytest

from segstore.errors import (
    IllegalArgumentError,
    IllegalStateError,
    OffsetOutOfRangeError,
    UnexpectedAppendOffsetError,
)
from segstore.log.files.profile import Profile
from segstore.types import AppendOrigin, LogOffsetMetadata
from tests.kits.log_kit import at, batch, offsets
from tests.kits.unified_log_kit import Producer, follow, write_plain

HIGH_WATERMARK = "high_watermark"


@pytest.fixture(params=["safe", "kafka"])
def profile(request) -> str:
    return request.param


@pytest.fixture
def replica(new_log, profile):
    """Open a log whose high watermark is the test's."""

    def open_replica(**settings: object):
        return new_log(recovery=profile, replicated=True, **settings)

    return open_replica


def check_places(log) -> None:
    """Log start, last stable offset, high watermark and log end, in that order [LST-5]."""
    start, end, high_watermark, last_stable = log.fetch_offset_snapshot()
    assert start <= last_stable.message_offset <= high_watermark.message_offset
    assert high_watermark.message_offset <= end.message_offset
    assert log.recovery_point <= end.message_offset
    for place in (end, high_watermark, last_stable):
        assert not place.message_offset_only
        assert log.maybe_convert_to_offset_metadata(place.message_offset) == place


# ---- moving it -----------------------------------------------------------------------------------


def test_it_begins_at_the_log_start(replica, profile):
    """[HW-1, HW-2, UNI-2, UNI-4]"""
    log = replica()
    write_plain(log, 3)
    assert log.high_watermark == 0  # appends leave it to the caller [APP-39]
    assert log.update_high_watermark(3) == 3
    log.maybe_increment_log_start_offset(2)
    log.close()
    again = replica()
    start = 0 if profile == "kafka" else 2  # which keeps no checkpoint by itself
    assert (again.log_start_offset, again.high_watermark) == (start, start)


def test_it_stays_between_log_start_and_log_end(replica):
    """[HW-1, HW-2, HW-3, LST-5]"""
    log = replica()
    for _ in range(5):
        write_plain(log)
    assert log.update_high_watermark(9) == 5
    assert log.update_high_watermark(3) == 3  # backwards too
    assert log.update_high_watermark(-1) == 0
    log.update_high_watermark(3)
    log.maybe_increment_log_start_offset(2)
    assert log.update_high_watermark(1) == 2
    assert (log.high_watermark, log.log_start_offset) == (2, 2)
    check_places(log)


def test_a_log_without_replicas_has_none_to_move(new_log):
    """[HW-2] it is the log end."""
    log = new_log()
    write_plain(log, 3)
    assert log.high_watermark == 3
    for call in (
        lambda: log.update_high_watermark(1),
        lambda: log.maybe_update_high_watermark(1),
        lambda: log.maybe_increment_high_watermark(LogOffsetMetadata(1)),
    ):
        with pytest.raises(IllegalStateError):
            call()
    assert log.high_watermark == 3


def test_maybe_update_as_follower(replica):
    """[HW-5] UnifiedLogTest.testMaybeUpdateHighWatermarkAsFollower."""
    log = replica()
    for number in range(100):
        log.append_as_follower(at(number), 0)
    answers = [log.maybe_update_high_watermark(to) for to in (99, 99, 100, 100, 101)]
    assert answers == [99, None, 100, None, None]


def test_maybe_increment_as_leader(replica):
    """[HW-4, T-9] forwards only; at the same offset, only into a newer segment."""
    log = replica()
    write_plain(log, 3)
    first_end = log._local_log.log_end
    old = log.maybe_increment_high_watermark(first_end)
    assert old.message_offset == 0
    assert log.maybe_increment_high_watermark(first_end) is None
    with pytest.raises(IllegalArgumentError):
        log.maybe_increment_high_watermark(LogOffsetMetadata(4))
    write_plain(log, 2)
    log.roll()
    # the log end of before the roll is offered again, in its new segment
    assert log.maybe_increment_high_watermark(LogOffsetMetadata(5, 0, 200)).message_offset == 3
    assert log.maybe_increment_high_watermark(LogOffsetMetadata(4)) is None
    assert log.maybe_increment_high_watermark(log._local_log.log_end) == (5, 0, 200)
    assert log.maybe_increment_high_watermark(log._local_log.log_end) is None


def test_a_roll_moves_its_place(replica):
    """[HW-7, CON-8] UnifiedLogTest.testHighWatermarkMetadataUpdatedAfterSegmentRoll."""
    log = replica()

    def visible(offset: int) -> list[int]:
        return offsets(log.read(offset, 2048, HIGH_WATERMARK))

    log.append_as_leader(batch([(None, b"a")] * 3), 0)
    assert log.read(0, 2048, HIGH_WATERMARK).size_bytes == 0
    follow(log)
    assert visible(0) == [0, 1, 2]
    log.roll()
    assert visible(0) == [0, 1, 2]
    assert log._offsets.high_watermark_metadata == (3, 3, 0)
    log.append_as_leader(batch([(None, b"a")] * 3), 0)
    assert log.read(3, 2048, HIGH_WATERMARK).size_bytes == 0
    assert visible(0) == [0, 1, 2]


def test_an_append_takes_it_along_only_from_above(replica):
    """[HW-7, APP-15, APP-18, APP-39] an append leaves it where it is, but for its place."""
    log = replica()
    write_plain(log, 2)
    assert log.update_high_watermark(2) == 2
    write_plain(log, 2)
    assert log.high_watermark == 2
    assert log.fetch_offset_snapshot().high_watermark.relative_position_in_segment > 0


# ---- the listener --------------------------------------------------------------------------------


def test_log_offsets_listener(replica):
    """[LIS-1, HW-3, TRU-3, TRU-4] UnifiedLogTest.testLogOffsetsListener."""
    log = replica()
    heard: list[int] = []
    log.set_high_watermark_listener(heard.append)
    write_plain(log, 3)
    write_plain(log, 3)
    log.maybe_increment_high_watermark(LogOffsetMetadata(4))
    assert heard == [0, 4]  # the old one first, once its place was looked up [HW-6]
    log.truncate_to(3)
    assert heard[-1] == 3
    write_plain(log, 3)
    log.truncate_fully_and_start_at(4)
    assert heard[-1] == 4


def test_update_log_offsets_listener(replica):
    """[LIS-1] UnifiedLogTest.testUpdateLogOffsetsListener: installing one fires nothing."""
    log = replica()
    write_plain(log)
    write_plain(log)
    log.update_high_watermark(2)
    log.maybe_increment_log_start_offset(1)
    heard: list[int] = []
    log.set_high_watermark_listener(heard.append)
    assert heard == []
    write_plain(log)
    write_plain(log)
    assert heard == []
    log.maybe_increment_high_watermark(LogOffsetMetadata(4))
    assert heard == [4]
    others: list[int] = []
    log.set_high_watermark_listener(others.append)
    log.update_high_watermark(4)
    assert (heard, others) == ([4], [4])  # also when it did not change


def test_a_close_drops_the_listener(replica):
    """[LIS-1, CLO-1]"""
    log = replica()
    heard: list[int] = []
    log.set_high_watermark_listener(heard.append)
    write_plain(log)
    log.close()
    assert heard == []


# ---- places --------------------------------------------------------------------------------------


def test_offset_snapshot(replica, profile):
    """[LSO-4, HW-6, DIFF-4] UnifiedLogTest.testOffsetSnapshot: inside a batch."""
    log = replica()
    log.append_as_follower(at(0, 3), 0)
    log.update_high_watermark(2)
    snapshot = log.fetch_offset_snapshot()
    # Kafka's newest versions lower it to the batch's begin; ours keep what they were given
    assert snapshot.high_watermark.message_offset == (0 if profile == "kafka" else 2)
    assert not snapshot.high_watermark.message_offset_only
    assert log.fetch_offset_snapshot() == snapshot
    assert snapshot.last_stable_offset == snapshot.high_watermark
    assert (snapshot.log_start_offset, snapshot.log_end_offset.message_offset) == (0, 3)


def test_a_high_watermark_inside_a_batch(replica, profile):
    """[RD-3, HW-6, T-9] the batch is invisible as long as it does not lie below it whole."""
    log = replica()
    log.append_as_follower(at(0, 3), 0)
    size = log.segments()[0].size_bytes
    assert log.update_high_watermark(1) == 1
    found = log.read(0, 1000, HIGH_WATERMARK)
    assert (found.size_bytes, found.fetch_offset_metadata) == (0, (0, 0, 0))
    assert log.high_watermark == (0 if profile == "kafka" else 1)
    found = log.read(1, 1000, HIGH_WATERMARK)
    assert (found.size_bytes, found.first_entry_incomplete) == (0, False)
    log.update_high_watermark(3)
    assert log.read(0, 1000, HIGH_WATERMARK).size_bytes == size


def test_places_that_are_not_here(replica):
    """[HW-9, LOC-8] offset-only below the first segment and above the log end."""
    log = replica()
    log.truncate_fully_and_start_at(10)
    for number in range(10, 14):
        log.append_as_follower(at(number), 0)
    size = log.segments()[0].size_bytes // 4
    convert = log.maybe_convert_to_offset_metadata
    assert convert(12) == (12, 10, 2 * size)
    assert convert(14) == (14, 10, 4 * size)
    for outside in (9, 15):
        assert convert(outside) == LogOffsetMetadata(outside)


def test_what_is_not_here_has_no_place(replica):
    """[HW-9, LOC-8] where nothing is remote, and the log start lies below the first segment."""
    log = replica()
    log.truncate_fully_and_start_at(31, 15)
    size = 72
    for number in range(31, 50):
        log.append_as_follower(at(number, value=b"v" * (size - len(at(0, value=b"")))), 0)
        if number == 40:
            log.roll()
    follow(log)
    assert [(one.base_offset, one.size_bytes) for one in log.segments()] == [
        (31, 10 * size),
        (41, 9 * size),
    ]
    log_start = 15 if log.profile is Profile.KAFKA else 31  # as the next open says [UNI-2, LDR-9]
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (log_start, 50, 50)
    convert = log.maybe_convert_to_offset_metadata
    assert convert(35) == LogOffsetMetadata(35, 31, 288)
    for outside in (29, log.log_end_offset + 1, 14):
        assert convert(outside) == LogOffsetMetadata(outside)


# ---- reads ---------------------------------------------------------------------------------------


def test_fetch_up_to_high_watermark(replica):
    """[RD-1, RD-2, RD-3, RD-4] UnifiedLogTest.testFetchUpToHighWatermark."""
    log = replica()
    write_plain(log, 3)
    write_plain(log, 2)

    def check() -> None:
        high_watermark = log.high_watermark
        for offset in range(log.log_start_offset, high_watermark):
            found = log.read(offset, 2**31 - 1, HIGH_WATERMARK)
            assert found.size_bytes > 0
            assert max(offsets(found)) < high_watermark
        for offset in range(high_watermark, log.log_end_offset + 1):
            found = log.read(offset, 2**31 - 1, HIGH_WATERMARK)
            assert (found.size_bytes, found.first_entry_incomplete) == (0, False)
            place = found.fetch_offset_metadata
            assert not place.message_offset_only
            assert place.segment_base_offset == 0
        with pytest.raises(OffsetOutOfRangeError):
            log.read(log.log_end_offset + 1, 1000, HIGH_WATERMARK)

    check()
    for to in (3, 5):
        log.update_high_watermark(to)
        check()


@pytest.mark.parametrize("isolation", ["log_end", "high_watermark", "read_committed"])
def test_who_sees_what(replica, isolation):
    """[RD-1, RD-4] replicas see the log end, consumers the high watermark or less."""
    log = replica()
    write_plain(log, 2)
    Producer(log, 1).write_in_transaction(2)
    write_plain(log, 2)
    write_plain(log, 2)
    log.update_high_watermark(6)
    visible = {"log_end": 8, "high_watermark": 6, "read_committed": 2}[isolation]
    assert offsets(log.scan(isolation=isolation)) == list(range(visible))
    found = log.read(0, 10_000, isolation)
    assert offsets(found) == list(range(visible))
    assert (found.aborted_transactions is None) == (isolation != "read_committed")


def test_a_consumer_waits_for_a_log_start_inside_a_batch(replica, profile):
    """[LSO-1, T-24] one open transactional batch 0-4, and a log start of 3."""
    log = replica()
    Producer(log, 1).write_in_transaction(5)
    follow(log)
    log.maybe_increment_log_start_offset(3)
    assert log.last_stable_offset == (0 if profile == "kafka" else 3)
    found = log.read(3, 1000, "read_committed")
    assert (found.size_bytes, found.aborted_transactions) == (0, [])


# ---- a leader of a quorum ------------------------------------------------------------------------


def test_append_as_raft_leader(replica):
    """[APP-1, APP-4, APP-9] UnifiedLogTest.testAppendAsLeaderWithRaftLeader: offsets are kept."""
    log = replica()

    def append(base_offset: int, epoch: int = 0) -> int:
        data = at(base_offset, 3, epoch=epoch)
        log.append_as_leader(data, epoch, origin=AppendOrigin.RAFT_LEADER)
        return log.log_end_offset

    assert (append(0), log.log_start_offset) == (3, 0)
    with pytest.raises(UnexpectedAppendOffsetError):
        append(1)
    assert log.log_end_offset == 3
    assert append(3) == 6
