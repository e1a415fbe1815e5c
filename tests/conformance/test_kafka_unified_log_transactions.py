"""Kafka's UnifiedLogTest: transactions, the first unstable and the last stable offset."""

from __future__ import annotations

import threading

import pytest

from segstore.errors import TransactionCoordinatorFencedError
from segstore.log.local.transaction_index import TransactionIndex
from tests.kits.unified_log_kit import (
    Producer,
    end_transaction,
    follow,
    write_plain,
    write_scripted_transactions,
)

PROFILES = ["safe", "kafka"]


@pytest.fixture(params=PROFILES)
def replica(new_log, request):
    """Open a log whose high watermark is the test's."""

    def open_replica(**settings: object):
        return new_log(recovery=request.param, replicated=True, **settings)

    return open_replica


def transaction_index(log) -> list[tuple[int, ...]]:
    """Producer, first and last offset, and last stable offset of every line, in order."""
    found = []
    for segment in log.segments():
        index = TransactionIndex(log._directory, segment.base_offset)
        found += [tuple(one) for one in list(index)]
    return found


def test_no_transactional_data(replica):
    """[LSO-1] UnifiedLogTest.testFirstUnstableOffsetNoTransactionalData."""
    log = replica()
    write_plain(log, 3)
    assert log.first_unstable_offset is None
    follow(log)
    assert log.first_unstable_offset is None
    assert log.last_stable_offset == 3


def test_transaction_index_updated(replica):
    """[APP-15, SEG-12, TXX-1, T-14] UnifiedLogTest.testTransactionIndexUpdated."""
    log = replica(internal_segment_bytes=1024 * 5)
    write_scripted_transactions(log)
    assert transaction_index(log) == [(1, 0, 29, 8), (2, 8, 74, 36)]
    for high_watermark, unstable, place_is_known in [(30, 8, True), (75, 36, True)]:
        log.update_high_watermark(high_watermark)
        assert log.first_unstable_offset == unstable
        first = log._offsets._first_unstable
        assert (first.message_offset_only, log.last_stable_offset) == (not place_is_known, unstable)
    follow(log)
    assert (log.first_unstable_offset, log.last_stable_offset) == (None, 90)


def test_last_stable_offset_with_mixed_producer_data(replica):
    """[LSO-2, LSO-3] UnifiedLogTest.testLastStableOffsetWithMixedProducerData."""
    log = replica()
    first, second = Producer(log, 137, 5), Producer(log, 983, 5)
    assert first.write_in_transaction(3).base_offset == 0
    write_plain(log, 3)
    second.write_in_transaction(3)
    assert log.first_unstable_offset == 0
    first.abort()
    assert log.first_unstable_offset == 0  # its marker is not replicated
    follow(log)
    assert (log.first_unstable_offset, log.last_stable_offset) == (6, 6)
    second.commit()
    assert log.first_unstable_offset == 6
    follow(log)
    assert (log.first_unstable_offset, log.last_stable_offset) == (None, 11)


def test_when_the_last_stable_offset_moves(replica):
    """[LSO-2, LSO-3, LSO-4, T-15]"""
    log = replica()
    p1, p2 = Producer(log, 1), Producer(log, 2)
    p1.write_in_transaction(5)
    write_plain(log, 3)
    p2.write_in_transaction(2)
    p1.write_in_transaction(4)
    write_plain(log, 2)
    p1.write_in_transaction(10)
    assert log.log_end_offset == 26
    assert log.last_stable_offset == 0
    log.update_high_watermark(26)
    assert log.last_stable_offset == 0
    p1.commit()
    assert log.last_stable_offset == 0
    log.update_high_watermark(27)
    assert log.last_stable_offset == 8
    p2.abort()
    assert log.last_stable_offset == 8
    log.update_high_watermark(28)
    assert log.last_stable_offset == 28


def test_without_replicas_a_marker_frees_at_once(new_log):
    """[LSO-2, LSO-3, T-15] the high watermark is the log end: nothing waits for replication."""
    log = new_log()
    p1, p2 = Producer(log, 1), Producer(log, 2)
    p1.write_in_transaction(5)
    write_plain(log, 3)
    p2.write_in_transaction(2)
    assert (log.high_watermark, log.last_stable_offset, log.first_unstable_offset) == (10, 0, 0)
    p1.commit()
    assert (log.high_watermark, log.last_stable_offset, log.first_unstable_offset) == (11, 8, 8)
    p2.abort()
    assert (log.high_watermark, log.last_stable_offset, log.first_unstable_offset) == (12, 12, None)


def test_aborted_transaction_spanning_multiple_segments(replica):
    """[LOC-9] UnifiedLogTest.testAbortedTransactionSpanningMultipleSegments."""
    size = len(Producer(None, 137, 5).records(3, transactional=True))
    log = replica(internal_segment_bytes=size)
    producer = Producer(log, 137, 5)
    producer.write_in_transaction(3)
    assert log._local_log.log_end == (3, 0, size)
    producer.write_in_transaction(3)
    assert log._local_log.log_end == (6, 3, size)
    assert log.last_stable_offset == 0
    producer.abort()
    follow(log)
    assert (log.first_unstable_offset, log.last_stable_offset) == (None, 7)
    found = log.read(0, 2048, "read_committed")
    assert found.aborted_transactions == [(137, 0)]
    assert found.size_bytes == size  # of one segment
    assert list(log.scan(isolation="read_committed")) == []


def test_last_stable_offset_is_not_below_the_log_start(replica):
    """[LSO-1] UnifiedLogTest.testLastStableOffsetDoesNotExceedLogStartOffsetMidSegment."""
    log = replica()
    producer = Producer(log, 1)
    producer.write_in_transaction(5)
    write_plain(log, 3)
    log.roll()
    producer.write_in_transaction(5)
    assert log.first_unstable_offset == 0
    follow(log)
    assert log.maybe_increment_log_start_offset(5)
    assert log.first_unstable_offset == 5
    assert log.last_stable_offset == 5


def test_zombie_coordinator_fenced(replica):
    """[PSM-17] UnifiedLogTest.testZombieCoordinatorFenced."""
    log = replica()
    producer = Producer(log, 1, 6)
    producer.write_in_transaction(5)
    producer.end(commit=False, coordinator_epoch=1)
    producer.write_in_transaction(5)
    producer.end(commit=True, coordinator_epoch=2)
    end = log.log_end_offset
    with pytest.raises(TransactionCoordinatorFencedError):
        producer.end(commit=False, coordinator_epoch=1)
    assert log.log_end_offset == end


@pytest.mark.parametrize("profile", PROFILES)
def test_rebuild_transactional_state(new_log, tmp_path, profile):
    """[PSM-60, LDR-20] UnifiedLogTest.testRebuildTransactionalState."""
    settings = {"recovery": profile, "replicated": True, "internal_segment_bytes": 5 * 1024}
    log = new_log(**settings)
    producer = Producer(log, 137, 5)
    producer.write_in_transaction(3)
    producer.abort()
    follow(log)
    assert log.first_unstable_offset is None
    log.close()
    again = new_log(**settings)
    follow(again)
    assert (again.first_unstable_offset, again.last_stable_offset) == (None, 4)
    again.close_quietly()
    for file in (tmp_path / "topic-0").glob("*.snapshot"):
        file.unlink()
    unclean = new_log(**settings)
    follow(unclean)
    assert (unclean.first_unstable_offset, unclean.log_end_offset) == (None, 4)


@pytest.mark.parametrize("replicated", [True, False])
def test_read_committed_beside_high_watermark_updates(new_log, replicated):
    """[CON-3, CON-4] UnifiedLogTest.testReadCommittedWithConcurrentHighWatermarkUpdates."""
    log = new_log(replicated=replicated)
    producer = Producer(log, 1)
    stop = threading.Event()

    def move() -> None:
        while not stop.is_set():
            if replicated:
                follow(log)
            else:
                log.roll()

    mover = threading.Thread(target=move)
    mover.start()
    try:
        while log.log_end_offset < 50:
            base_offset = producer.write_in_transaction().base_offset
            found = log.read(base_offset, 2048, "read_committed")
            assert found.size_bytes == 0
            assert list(found) == []
            producer.abort()
    finally:
        stop.set()
        mover.join()


def test_a_marker_of_nobody_completes_nothing(replica):
    """[PSM-16, APP-15] the coordinator may write its marker where no data came."""
    log = replica()
    end_transaction(log, 7, 0, commit=False)
    assert transaction_index(log) == []
    assert log.log_end_offset == 1
    follow(log)
    assert log.last_stable_offset == 1
