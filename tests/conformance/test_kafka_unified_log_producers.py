"""Kafka's UnifiedLogTest: sequences, duplicates, snapshots and expiration of producers."""

from __future__ import annotations

from pathlib import Path

import pytest

from segstore._core import encode_empty_batch, scan_batches
from segstore.errors import (
    InvalidProducerEpochError,
    OutOfOrderSequenceError,
)
from segstore.log.producers.active_producers import ActiveProducer
from tests.kits.log_kit import TIME, at, bases
from tests.kits.unified_log_kit import (
    Producer,
    follow,
    producers_of,
    remember,
    sequenced,
    write_plain,
)

PROFILES = ["safe", "kafka"]


@pytest.fixture(params=PROFILES)
def replica(new_log, request):
    """Open a log whose high watermark is the test's."""

    def open_replica(**settings: object):
        return new_log(recovery=request.param, replicated=True, **settings)

    return open_replica


def snapshots(log) -> list[int]:
    """Offsets of the producer snapshots on disk."""
    return sorted(int(path.stem) for path in Path(log.path).glob("*.snapshot"))


# ---- sequences -----------------------------------------------------------------------------------


def test_duplicate_appends(replica):
    """[APP-13, APP-14, PSM-13, PSM-20] UnifiedLogTest.testDuplicateAppends."""
    log = replica()
    sent = [sequenced(1, 0, sequence) for sequence in range(6)]
    for data in sent:
        log.append_as_leader(data, 0)
    three = sequenced(1, 0, 6, 3)
    first = log.append_as_leader(three, 0)
    again = log.append_as_leader(three, 0)
    assert (
        (first.base_offset, first.last_offset) == (again.base_offset, again.last_offset) == (6, 8)
    )
    assert (first.is_duplicate, again.is_duplicate) == (False, True)
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(sequenced(1, 0, 7, 2), 0)  # overlaps
    fourth_from_the_end = log.append_as_leader(sent[2], 0)
    assert (fourth_from_the_end.base_offset, fourth_from_the_end.is_duplicate) == (2, True)
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(sent[1], 0)  # older than the last five
    last = sequenced(1, 0, 9)
    assert log.append_as_leader(last, 0)[:2] == log.append_as_leader(last, 0)[:2] == (9, 9)
    assert log.log_end_offset == 10


def test_a_duplicate_may_have_rolled_and_writes_nothing(replica):
    """[APP-12, APP-14] the answer has the log start of now, and the timestamp of then."""
    data = sequenced(1, 0, 0, timestamp=TIME + 5)
    log = replica(internal_segment_bytes=len(data) + 1)
    log.append_as_leader(data, 0)
    follow(log)
    again = log.append_as_leader(data, 0)
    assert bases(log) == [0, 1]
    assert (again.log_append_time, again.log_start_offset) == (TIME + 5, 0)
    assert log.log_end_offset == 1


def test_old_producer_epoch(replica):
    """[PSM-11] UnifiedLogTest.testOldProducerEpoch."""
    log = replica()
    log.append_as_leader(sequenced(1, 1, 0), 0)
    with pytest.raises(InvalidProducerEpochError):
        log.append_as_leader(sequenced(1, 0, 0), 0)
    assert log.log_end_offset == 1


def test_duplicate_append_to_follower(replica):
    """[APP-9, APP-13] UnifiedLogTest.testDuplicateAppendToFollower: sequences are the leader's."""
    log = replica()
    for base_offset in (0, 2):
        log.append_as_follower(sequenced(1, 0, 0, 2, base_offset=base_offset), 0)
    assert (log.log_end_offset, log.log_start_offset) == (4, 0)
    assert producers_of(log) == {1: 1}


@pytest.mark.parametrize(
    ("last_sequence", "epoch", "sequence", "expected"),
    [
        (9, 5, 10, None),
        (9, 5, 11, OutOfOrderSequenceError),
        (9, 5, 9, OutOfOrderSequenceError),
        (9, 6, 0, None),
        (9, 6, 1, OutOfOrderSequenceError),
        (9, 4, 10, InvalidProducerEpochError),
        (2**31 - 1, 5, 0, None),
        (2**31 - 1, 5, 1, OutOfOrderSequenceError),
    ],
)
def test_sequences_of_a_client(replica, last_sequence, epoch, sequence, expected):
    """[PSM-11..PSM-13, APP-13, T-13]"""
    log = replica()
    log.append_as_leader(sequenced(1, 5, last_sequence - 1, 2), 0)
    if expected is None:
        assert log.append_as_leader(sequenced(1, epoch, sequence, 2), 0).base_offset == 2
        assert producers_of(log) == {1: sequence + 1}
        return
    with pytest.raises(expected):
        log.append_as_leader(sequenced(1, epoch, sequence, 2), 0)
    assert (log.log_end_offset, producers_of(log)) == (2, {1: last_sequence})


def test_a_follower_takes_an_older_epoch(replica):
    """[PSM-11, T-13]"""
    log = replica()
    log.append_as_follower(sequenced(1, 5, 0, base_offset=0), 0)
    log.append_as_follower(sequenced(1, 4, 7, base_offset=1), 0)
    assert log.log_end_offset == 2


def test_sequences_of_who_was_not_here(replica):
    """[PSM-12, PSM-13, T-13] any first one; after a marker alone only 0."""
    log = replica()
    assert log.append_as_leader(sequenced(1, 0, 17), 0).base_offset == 0
    Producer(log, 2, 5).abort()
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(sequenced(2, 5, 17), 0)
    assert log.append_as_leader(sequenced(2, 5, 0), 0).base_offset == 2


def test_a_sequence_wraps_inside_a_batch(replica):
    """[PSM-2, T-13]"""
    log = replica()
    log.append_as_leader(sequenced(1, 0, 2147483637, 21), 0)
    assert producers_of(log) == {1: 9}
    assert log.append_as_leader(sequenced(1, 0, 10), 0).base_offset == 21


def test_active_producers(replica):
    """[PSM-75] UnifiedLogTest.testActiveProducers."""
    log = replica()
    first, second = Producer(log, 1, 5), Producer(log, 2, 5)
    first.write_in_transaction(5)
    assert log.active_producers() == [ActiveProducer(1, 5, 4, TIME, -1, 0)]
    first.end(commit=True, coordinator_epoch=15, timestamp=TIME + 1)
    assert log.active_producers() == [ActiveProducer(1, 5, 4, TIME + 1, 15, -1)]
    second.write(3)
    assert sorted(log.active_producers()) == [
        ActiveProducer(1, 5, 4, TIME + 1, 15, -1),
        ActiveProducer(2, 5, 2, TIME, -1, -1),
    ]
    assert log.last_records_of_active_producers() == {1: (4, 5), 2: (8, 5)}


# ---- what compaction left ------------------------------------------------------------------------


def emptied(data: bytes) -> bytes:
    """The batch as compaction leaves it when no record stays."""
    headers, _ = scan_batches(data)
    return encode_empty_batch(headers[0])


def test_update_producer_ids_with_compacted_data(replica):
    """[PSM-14] UnifiedLogTest.testUpdateProducerIdMapWithCompactedData."""
    log = replica()
    data = sequenced(1, 0, 0, 4, base_offset=23)
    log.append_as_follower(emptied(data), 0)
    assert (producers_of(log), log.log_end_offset) == ({1: 3}, 27)


def test_rebuild_producer_state_with_an_empty_compacted_batch(replica):
    """[PSM-60, TRU-3] UnifiedLogTest.testRebuildProducerStateWithEmptyCompactedBatch."""
    log = replica()
    data = sequenced(1, 0, 0, 2, base_offset=23)
    log.append_as_follower(emptied(data), 0)
    log.append_as_follower(at(25) + at(26), 0)
    log.truncate_to(25)
    assert producers_of(log) == {1: 1}


# ---- snapshots -----------------------------------------------------------------------------------


def test_map_end_offset_counts_all_records(replica):
    """[PSM-6, PSM-51] UnifiedLogTest.testProducerIdMapOffsetUpdatedForNonIdempotentData."""
    log = replica()
    write_plain(log)
    log.take_producer_snapshot()
    assert (log._producers.latest_snapshot_offset, snapshots(log)) == (1, [1])


def test_truncation_takes_snapshots_above_it(replica):
    """[PSM-57, TRU-3] UnifiedLogTest.testProducerIdMapTruncateTo."""
    log = replica()
    write_plain(log)
    write_plain(log)
    log.take_producer_snapshot()
    write_plain(log)
    log.take_producer_snapshot()
    log.truncate_to(2)
    assert (log._producers.latest_snapshot_offset, log._producers.map_end_offset) == (2, 2)
    log.truncate_to(1)
    assert (log._producers.latest_snapshot_offset, log._producers.map_end_offset) == (1, 1)
    log.truncate_to(0)
    assert (log._producers.latest_snapshot_offset, log._producers.map_end_offset) == (None, 0)


def test_truncation_without_snapshots_scans(replica):
    """[PSM-60, TRU-3] UnifiedLogTest.testProducerIdMapTruncateToWithNoSnapshots."""
    log = replica()
    producer = Producer(log, 1)
    producer.write()
    producer.write()
    for file in Path(log.path).glob("*.snapshot"):
        file.unlink()
    log.truncate_to(1)
    assert producers_of(log) == {1: 0}


def test_full_truncation_takes_all_snapshots(replica):
    """[PSM-58, TRU-4] UnifiedLogTest.testProducerIdMapTruncateFullyAndStartAt."""
    log = replica(internal_segment_bytes=len(sequenced(1, 0, 0)), file_delete_delay_ms=0)
    write_plain(log)
    log.take_producer_snapshot()
    write_plain(log)
    write_plain(log)
    log.take_producer_snapshot()
    assert len(bases(log)) == 3
    assert (log._producers.map_end_offset, log._producers.latest_snapshot_offset) == (3, 3)
    log.truncate_fully_and_start_at(29)
    assert bases(log) == [29]
    assert (log._producers.map_end_offset, log._producers.latest_snapshot_offset) == (29, None)
    log._background.wait_until_idle()
    assert snapshots(log) == []


def test_a_roll_takes_a_snapshot_and_a_flush_removes_none(replica):
    """[ROL-1, ROL-3, FLU-1, PSM-51]
    UnifiedLogTest.testTakeSnapshotOnRollAndDeleteSnapshotOnRecoveryPointCheckpoint.
    """
    log = replica()
    seen = []
    for offset in (1, 2, 3):
        write_plain(log)
        log.roll(offset)
        state = log._producers
        seen.append((state.latest_snapshot_offset, min(state.snapshots.offsets, default=None)))
    assert seen == [(1, 1), (2, 1), (3, 1)]
    write_plain(log)
    log.flush_up_to_offset_exclusive(4)
    assert log._producers.latest_snapshot_offset == 3
    assert snapshots(log) == [1, 2, 3]


def test_a_snapshot_says_who_was_before_its_segment(replica):
    """[ROL-3] what a recovery of that segment begins with."""
    log = replica()
    remember(log)
    producer = Producer(log, 1)
    producer.write()
    log.roll()
    producer.write()
    log.roll()
    producer.write()
    state = log._producers
    found = [state.snapshots.get(offset).offset for offset in (1, 2)]
    assert found == snapshots(log) == [1, 2]
    log.truncate_to(2)
    assert producers_of(log) == {1: 1}


# ---- expiration ----------------------------------------------------------------------------------


def test_producers_expire_by_and_by(new_log, clock, scheduler):
    """[EXP-1, PSM-45, UNI-2] UnifiedLogTest.testPeriodicProducerIdExpiration."""
    log = new_log(recovery="kafka")
    log._producers.config.producer_id_expiration_ms = 1_200_000
    log.append_as_leader(sequenced(23, 0, 0, timestamp=clock.now), 0)
    assert producers_of(log) == {23: 0}

    def step() -> dict[int, int]:  # to the next check
        clock.sleep(600_000)
        scheduler.sleep(600_000)
        return producers_of(log)

    assert step() == {23: 0}
    assert step() == {}  # at the limit, not only behind it


def test_expiration_by_hand(replica):
    """[EXP-1, PSM-45] whoever owns many logs calls it himself."""
    log = replica()
    log._producers.config.producer_id_expiration_ms = 200
    log.append_as_leader(sequenced(23, 0, 0), 0)
    counts = []
    for now in (TIME, TIME + 100, TIME + 199, TIME + 200):
        log.remove_expired_producers(now)
        counts.append(log.producer_id_count)
    assert counts == [1, 1, 1, 0]


def test_no_expiration_check_after_a_delete(new_log, scheduler):
    """[EXP-1, DEL-1] UnifiedLogTest.testProducerExpireCheckAfterDelete."""
    log = new_log(recovery="kafka")
    assert len(scheduler.tasks) == 1
    log.delete()
    assert scheduler.tasks == []
