"""Kafka's ProducerStateManagerTest: sequences, epochs, transactions."""

from __future__ import annotations

import pytest

from segstore.errors import (
    IllegalArgumentError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
)
from segstore.log.producers.txn_metadata import CompletedTxn
from segstore.records.control_record import parse_end_transaction_marker
from segstore.types import AppendOrigin
from tests.kits.producer_state_kit import (
    ABORT,
    COMMIT,
    EXPIRATION_MS,
    LATE_MS,
    NOW,
    PRODUCER,
    Producers,
    data,
    marker,
    producers,
)

__all__ = ["producers"]

MAX_SEQUENCE = 2**31 - 1
REPLICATION = AppendOrigin.REPLICATION


def entry(kit: Producers, pid: int = PRODUCER):
    return kit.state.last_entry(pid)


def test_basic_id_mapping(producers):
    """[PSM-12, PSM-13] ProducerStateManagerTest.testBasicIdMapping."""
    producers.seq(0, 0)
    producers.seq(1, 0, timestamp=NOW + 1)
    for known_or_ahead in (1, 5):
        with pytest.raises(OutOfOrderSequenceError):
            producers.seq(known_or_ahead, 0)
    producers.seq(0, 0, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        producers.seq(0, 0, epoch=0)
    assert (entry(producers).producer_epoch, entry(producers).last_seq) == (1, 0)


def test_producer_sequence_wrap_around(producers):
    """[PSM-2, PSM-13] ProducerStateManagerTest.testProducerSequenceWrapAround."""
    producers.append(data(MAX_SEQUENCE, 735, epoch=15), REPLICATION)
    producers.seq(0, 1235, epoch=15)

    last = entry(producers)
    assert (last.first_seq, last.last_seq, last.producer_epoch) == (MAX_SEQUENCE, 0, 15)
    assert (last.first_data_offset, last.last_data_offset) == (735, 1235)


def test_producer_sequence_invalid_wrap_around(producers):
    """[PSM-13] ProducerStateManagerTest.testProducerSequenceInvalidWrapAround."""
    producers.append(data(MAX_SEQUENCE, 735, epoch=15), REPLICATION)

    with pytest.raises(OutOfOrderSequenceError):
        producers.seq(1, 1235, epoch=15)


def test_no_validation_on_first_entry_when_loading_log(producers):
    """[PSM-15] ProducerStateManagerTest.testNoValidationOnFirstEntryWhenLoadingLog."""
    producers.append(data(16, 735, epoch=5), REPLICATION)

    last = entry(producers)
    assert (last.producer_epoch, last.first_seq, last.last_seq) == (5, 16, 16)
    assert (last.first_data_offset, last.last_data_offset) == (735, 735)


def test_control_record_bumps_producer_epoch(producers):
    """[PSM-3, PSM-14, PSM-17] ProducerStateManagerTest.testControlRecordBumpsProducerEpoch."""
    producers.seq(0, 0)
    producers.end(ABORT, 1, epoch=1)

    fenced = entry(producers)
    assert (fenced.producer_epoch, fenced.current_txn_first_offset) == (1, None)
    assert (fenced.first_seq, fenced.last_seq) == (-1, -1)

    producers.seq(0, 2, epoch=1)
    assert (entry(producers).first_seq, entry(producers).last_seq) == (0, 0)


def test_producer_state_after_fencing_abort_marker(producers):
    """[PSM-17, PSM-45] ProducerStateManagerTest.testProducerStateAfterFencingAbortMarker."""
    producers.txn(0, 0)
    producers.end(ABORT, 1, epoch=1)

    last = entry(producers)
    assert last.current_txn_first_offset is None
    assert (last.first_data_offset, last.last_data_offset) == (-1, -1)
    producers.state.remove_expired_producers(NOW)
    assert entry(producers) is last


def test_has_late_transaction(producers):
    """[PSM-46] ProducerStateManagerTest.testHasLateTransaction."""
    state = producers.state
    producers.txn(0, 100, pid=39, epoch=2, timestamp=NOW)
    producers.txn(0, 150, pid=57, epoch=9, timestamp=NOW + 500)

    assert not state.has_late_transaction(NOW + LATE_MS)
    assert state.has_late_transaction(NOW + LATE_MS + 1)
    assert state.has_late_transaction(NOW + LATE_MS + 501)
    producers.end(COMMIT, 200, pid=39, epoch=2)
    assert state.has_late_transaction(NOW + LATE_MS + 501)
    producers.end(COMMIT, 250, pid=57, epoch=9)
    assert not state.has_late_transaction(NOW + LATE_MS + 501)


def test_prepare_update_does_not_mutate(producers):
    """[PSM-10] ProducerStateManagerTest.testPrepareUpdateDoesNotMutate."""
    first = producers.prepare()
    first.append(data(0, 15, count=6))
    assert entry(producers) is None
    producers.state.update(first)
    assert (entry(producers).first_seq, entry(producers).last_seq) == (0, 5)

    second = producers.prepare()
    second.append(data(6, 26, count=5))
    before = entry(producers)
    assert (before.first_seq, before.last_seq, before.last_data_offset) == (0, 5, 20)
    producers.state.update(second)
    after = entry(producers)
    assert (after.first_seq, after.last_seq, after.last_data_offset) == (0, 10, 30)


def test_out_of_sequence_after_control_record_epoch_bump(producers):
    """[PSM-14] ProducerStateManagerTest.testOutOfSequenceAfterControlRecordEpochBump."""
    producers.txn(0, 0)
    producers.txn(1, 1)
    producers.end(ABORT, 1, epoch=1)

    for epoch in (1, 2):
        with pytest.raises(OutOfOrderSequenceError):
            producers.txn(2, 2, epoch=epoch)
    producers.txn(0, 2, epoch=1)
    assert entry(producers).last_seq == 0


def test_a_batch_behind_a_marker_of_the_same_append(producers):
    """[PSM-13] With a raised epoch nothing is known of it: only sequence number 0 may follow."""
    producers.txn(0, 0)
    for seq, refusal in ((1, OutOfOrderSequenceError), (0, None)):
        info = producers.prepare()
        info.append_end_txn_marker(_marker_of(COMMIT), 1, 1, NOW, 2)
        batch = data(seq, 2, epoch=1, transactional=True)
        if refusal is None:
            info.append(batch)
        else:
            with pytest.raises(refusal):
                info.append(batch)


def test_non_transactional_append_with_ongoing_transaction(producers):
    """[PSM-11] ProducerStateManagerTest.testNonTransactionalAppendWithOngoingTransaction."""
    producers.txn(0, 0)

    with pytest.raises(InvalidTxnStateError):
        producers.seq(1, 1)


def test_accept_append_with_sequence_gaps_on_replica(producers):
    """[PSM-15] ProducerStateManagerTest.testAcceptAppendWithSequenceGapsOnReplica."""
    producers.seq(0, 0)
    with pytest.raises(OutOfOrderSequenceError):
        producers.seq(3, 1)
    assert entry(producers).last_seq == 0

    producers.append(data(3, 1), REPLICATION)
    assert entry(producers).last_seq == 3


def test_pid_expiration_timeout(producers):
    """[PSM-45] ProducerStateManagerTest.testPidExpirationTimeout."""
    producers.seq(0, 1)
    producers.state.remove_expired_producers(NOW + EXPIRATION_MS + 1)
    producers.seq(1, 2)

    assert (producers.state.producer_id_count, entry(producers).last_seq) == (1, 1)
    assert producers.state.map_end_offset == 3


def test_producers_with_ongoing_transactions_dont_expire(producers):
    """[PSM-45] ProducerStateManagerTest.testProducersWithOngoingTransactionsDontExpire."""
    producers.txn(0, 99, epoch=5)
    for _ in range(2):
        producers.state.remove_expired_producers(NOW + EXPIRATION_MS + 1)
        assert producers.unstable == 99
        assert entry(producers) is not None


def test_first_unstable_offset(producers):
    """[PSM-40, PSM-41, PSM-44] ProducerStateManagerTest.testFirstUnstableOffset."""
    state = producers.state
    seen = [(state.first_undecided_offset, producers.unstable)]

    def note() -> None:
        seen.append((state.first_undecided_offset, producers.unstable))

    producers.txn(0, 99)
    note()
    producers.txn(0, 105, pid=2)
    note()
    producers.end(COMMIT, 109)
    note()
    for high_watermark in (100, 110):
        state.on_high_watermark_updated(high_watermark)
        note()
    producers.end(ABORT, 112, pid=2)
    note()
    state.on_high_watermark_updated(113)
    note()

    assert seen == [
        (None, None),
        (99, 99),
        (99, 99),
        (105, 99),
        (105, 99),
        (105, 105),
        (None, 105),
        (None, None),
    ]


def test_skip_empty_transactions(producers):
    """[PSM-19] ProducerStateManagerTest.testSkipEmptyTransactions."""
    completed = []

    def end(info, kind, offset: int) -> None:
        done = info.append_end_txn_marker(_marker_of(kind), 0, offset, NOW, 0)
        completed.append(None if done is None else (done.first_offset, done.is_aborted))

    info = producers.prepare()
    info.append(data(0, 16, count=5, transactional=True))
    assert [txn.first_offset.message_offset for txn in info.started_transactions] == [16]
    producers.state.update(info)

    info = producers.prepare()
    end(info, COMMIT, 21)
    end(info, COMMIT, 22)
    end(info, ABORT, 23)
    info.append(data(5, 24, count=4, transactional=True))
    end(info, ABORT, 28)
    end(info, ABORT, 29)
    info.append(data(9, 30, count=2, transactional=True))

    assert completed == [(16, False), None, None, (24, True), None]
    assert [txn.first_offset.message_offset for txn in info.started_transactions] == [24, 30]
    producers.state.update(info)
    for first, last, aborted in ((16, 21, False), (24, 28, True)):
        producers.state.complete_txn(_completed(first, last, aborted=aborted))
    producers.state.on_high_watermark_updated(32)
    assert producers.unstable == 30


def test_sequence_not_validated_for_group_metadata_topic(producers):
    """[PSM-15] ProducerStateManagerTest.testSequenceNotValidatedForGroupMetadataTopic."""
    for offset in (99, 100):
        batch = data(-1, offset, epoch=2, pid=23, transactional=True)
        producers.append(batch, AppendOrigin.COORDINATOR)

    assert entry(producers, 23).last_data_offset == 100


def test_old_epoch_for_control_record(producers):
    """[PSM-12, PSM-17] ProducerStateManagerTest.testOldEpochForControlRecord."""
    producers.txn(0, 99, epoch=5)

    with pytest.raises(InvalidProducerEpochError):
        producers.end(COMMIT, 100, epoch=3)


def test_transaction_that_is_not_open_cannot_be_completed(producers):
    """[PSM-44] Nor can an update be without a producer id [PSM-42]."""
    with pytest.raises(IllegalArgumentError):
        producers.state.complete_txn(_completed(5, 6, aborted=False))
    with pytest.raises(IllegalArgumentError):
        producers.state.update(producers.prepare(pid=-1))


def _marker_of(kind):
    record = marker(kind, 0, 0, NOW)
    return parse_end_transaction_marker(record.key, record.value)


def _completed(first: int, last: int, *, aborted: bool):
    return CompletedTxn(PRODUCER, first, last, aborted)
