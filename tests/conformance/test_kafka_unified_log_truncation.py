"""Kafka's UnifiedLogTest: truncation, epochs of followers, look-ups by time."""

from __future__ import annotations

from pathlib import Path

import pytest

from segstore import LogConfig, SpecialTimestamp
from segstore.errors import IllegalArgumentError, UnexpectedAppendOffsetError
from segstore.log.files.profile import Profile
from tests.kits.log_kit import TIME, at, bases, batch, message_of_magic_1, offsets
from tests.kits.unified_log_kit import Producer, follow, sequenced, write_plain

PROFILES = ["safe", "kafka"]


@pytest.fixture(params=PROFILES)
def replica(new_log, request):
    """Open a log whose high watermark is the test's."""

    def open_replica(**settings: object):
        return new_log(recovery=request.param, replicated=True, **settings)

    return open_replica


def epochs(log) -> list[tuple[int, int]]:
    return [tuple(entry) for entry in log._epochs.entries]


# ---- truncation ----------------------------------------------------------------------------------


def test_truncate_fully_and_start(replica):
    """[TRU-4, UNI-3, LSO-1] UnifiedLogTest.testTruncateFullyAndStart.

    In the safe profile the log start is at once where the next open finds it [UNI-2, LDR-9].
    """
    log = replica()
    write_plain(log, 3)
    Producer(log, 17, 10).write_in_transaction(2)
    log.close()
    log = replica()
    assert (log.first_unstable_offset, log.producer_id_count) == (3, 1)
    log.truncate_fully_and_start_at(2, 1)
    assert (log.first_unstable_offset, log.producer_id_count) == (None, 0)
    log_start = 1 if log.profile is Profile.KAFKA else 2
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (log_start, 2, 2)


def test_start_offsets_of_a_log_that_lost_its_beginning(replica):
    """[TRU-4, LST-1, UNI-2] without a remote part too, in Kafka's profile until the next open."""
    log = replica()
    write_plain(log, 100)
    log.update_high_watermark(80)
    log.maybe_increment_log_start_offset(40)
    assert (log.log_start_offset, bases(log)) == (40, [0])
    log.truncate_fully_and_start_at(60, 40)
    log_start = 40 if log.profile is Profile.KAFKA else 60
    assert (log.log_start_offset, bases(log)) == (log_start, [60])
    assert (log.log_end_offset, log.high_watermark) == (60, 60)


def test_a_truncation_opens_transactions_again(replica):
    """[TRU-3, TRU-6] those whose marker it cuts; Kafka tells it with the next event."""
    log = replica()
    producer = Producer(log, 1)
    producer.write_in_transaction(3)
    producer.abort()
    write_plain(log, 3)
    follow(log)
    assert (log.first_unstable_offset, log.last_stable_offset) == (None, 7)
    log.truncate_to(3)
    follow(log)
    assert (log.first_unstable_offset, log.last_stable_offset) == (0, 0)
    producer.commit()
    follow(log)
    assert (log.first_unstable_offset, log.last_stable_offset) == (None, 4)
    assert offsets(log.scan(isolation="read_committed")) == [0, 1, 2]


@pytest.mark.parametrize("high_watermark", [0, 2, 4, 6])
def test_a_truncation_and_the_high_watermark(replica, high_watermark):
    """[TRU-3, TRU-6, HW-2, LST-5] it comes down to the log end, and stays when it is below."""
    log = replica()
    for _ in range(6):
        write_plain(log)
    log.update_high_watermark(high_watermark)
    log.truncate_to(4)
    assert log.high_watermark == min(high_watermark, 4)
    assert offsets(log.scan(isolation="high_watermark")) == list(range(min(high_watermark, 4)))


def test_a_truncation_below_the_log_start(replica):
    """[TRU-2, TRU-3, TRU-4] moves it back; below the first segment nothing is left."""
    log = replica(internal_segment_bytes=150)
    for _ in range(6):
        write_plain(log)
    follow(log)
    log.maybe_increment_log_start_offset(5)
    log.truncate_to(3)
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    log.truncate_fully_and_start_at(20)
    assert log.truncate_to(7)
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (7, 7, [7])


# ---- epochs --------------------------------------------------------------------------------------


def test_an_old_message_ends_the_epochs(replica):
    """[APP-10] UnifiedLogTest.testLeaderEpochCacheClearedAfterDowngradeInAppendedMessages."""
    log = replica()
    log.append_as_leader(batch([(None, b"foo")]), 5)
    assert log.latest_epoch == 5
    log.append_as_follower(message_of_magic_1(1), 5)
    assert log.latest_epoch is None
    assert log.log_end_offset == 2
    assert (Path(log.path) / "leader-epoch-checkpoint").read_text() == "0\n0\n"


def test_follower_epochs(new_log):
    """[APP-4, APP-10, EPC-2, T-22] with an older epoch too, which only Kafka's profile takes."""
    log = new_log(recovery="kafka")
    log.append_as_follower(at(0, epoch=3), 9)
    log.append_as_follower(at(1, epoch=5), 9)
    assert epochs(log) == [(3, 0), (5, 1)]
    log.append_as_follower(at(2, epoch=4), 9)
    assert epochs(log) == [(3, 0), (4, 2)]
    log.append_as_follower(at(3, epoch=4) + at(4, epoch=8) + at(5, epoch=4), 4)
    assert log.log_end_offset == 4
    nothing = log.append_as_follower(at(4, epoch=8), 4)
    assert (nothing.base_offset, nothing.last_offset, nothing.size_bytes) == (-1, -1, 0)
    with pytest.raises(IllegalArgumentError):
        log.append_as_follower(at(4, epoch=-1), 4)
    assert log.log_end_offset == 4


def test_a_log_start_of_the_leader_inside_a_batch(replica):
    """[APP-9, APP-38] the error says what a follower needs to begin again there."""
    log = replica()
    log.truncate_fully_and_start_at(7)
    data = at(5, 4)
    with pytest.raises(UnexpectedAppendOffsetError) as caught:
        log.append_as_follower(data, 0)
    first, last = caught.value.first_offset, caught.value.last_offset
    assert log.log_end_offset == log.log_start_offset
    assert first < log.log_end_offset <= last
    log.truncate_fully_and_start_at(first)
    assert log.append_as_follower(data, 0).base_offset == first == 5
    assert offsets(log.scan()) == [5, 6, 7, 8]


@pytest.mark.parametrize(
    ("epoch", "fetch_offset", "diverges_at"),
    [(1, 3, None), (1, 4, None), (1, 5, (1, 4)), (2, 5, (1, 4)), (3, 6, None), (9, 6, (3, 7))],
)
def test_where_a_follower_diverges(replica, epoch, fetch_offset, diverges_at):
    """[RD-5, EPC-5] what the partition layer asks the log before it reads."""
    log = replica()
    for number, one in enumerate([1, 1, 1, 1, 3, 3, 3]):
        log.append_as_follower(at(number, epoch=one), one)
    found = log.end_offset_for_epoch(epoch)
    if epoch == 9:
        assert found is None  # undefined: out of range
        return
    diverges = found[0] < epoch or found[1] < fetch_offset
    assert (found if diverges else None) == diverges_at


# ---- by time -------------------------------------------------------------------------------------


def test_an_empty_log_finds_nothing_by_time(replica):
    """[TS-1, TS-4]"""
    log = replica()
    assert log.fetch_offset_by_timestamp(0).offset == -1
    assert log.fetch_offset_by_timestamp(TIME).offset == -1
    assert log.fetch_offset_by_timestamp(SpecialTimestamp.LATEST_TIERED) == (-1, -1, -1)


def test_look_ups_are_bounded_by_what_a_client_sees(replica):
    """[TS-1, TS-6, TS-7] last stable offset, high watermark or log end; -7 is a time."""
    log = replica()
    for number in range(3):
        log.append_as_leader(batch([(TIME + number, None, b"v")]), 4)
    log.append_as_leader(sequenced(1, 0, 0, transactional=True, timestamp=TIME + 3), 4)
    log.append_as_leader(batch([(TIME + 4, None, b"v")]), 4)
    log.update_high_watermark(4)
    ask = log.fetch_offset_by_timestamp
    bounds = {"read_committed": 3, "high_watermark": 4, "log_end": 5}
    for isolation, bound in bounds.items():
        assert ask(SpecialTimestamp.LATEST, isolation) == (-1, bound, 4)
        for number in range(6):
            expected = (TIME + number, number, 4) if number < bound else (-1, -1, None)
            assert ask(TIME + number, isolation) == expected
        assert ask(SpecialTimestamp.EARLIEST, isolation) == (-1, 0, 4)
        assert ask(-7, isolation) == (TIME, 0, 4)


def test_there_are_no_old_message_formats_to_refuse(replica):
    """[TS-5] a look-up of an ordinary timestamp is answered in every log."""
    log = replica()
    write_plain(log)
    assert log.fetch_offset_by_timestamp(TIME) == (TIME, 0, 0)
    assert not any("message_format" in name for name in LogConfig.__dataclass_fields__)


# ---- a compacted log -----------------------------------------------------------------------------


def test_snapshots_follow_the_segments(replica, scheduler):
    """[PSM-57, RET-1] as UnifiedLogTest.testCompactionDeletesProducerStateSnapshots, without the
    cleaner: segments of a compacted log that go below the log start.
    """
    size = len(sequenced(1, 0, 0))
    log = replica(cleanup_policy="compact", internal_segment_bytes=size, file_delete_delay_ms=0)
    for sequence in range(3):
        data = batch(
            [(b"a", b"%d" % sequence)],
            producer_id=1,
            producer_epoch=0,
            base_sequence=sequence,
        )
        log.append_as_leader(data, 0)
        log.roll()
    follow(log)

    def snapshots() -> list[int]:
        return sorted(int(file.stem) for file in Path(log.path).glob("*.snapshot"))

    assert snapshots() == bases(log)[1:]
    log.maybe_increment_log_start_offset(2)
    log.delete_old_segments()
    scheduler.sleep(1)
    assert bases(log) == [2, 3]
    assert snapshots() == [2, 3]
