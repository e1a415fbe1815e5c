"""Verification of transactions by whoever appends (KIP-890) [PSM-32..PSM-35, APP-13]."""

from __future__ import annotations

import pytest

from segstore.errors import InvalidProducerEpochError, InvalidTxnStateError
from segstore.log.producers.active_producers import (
    ActiveProducer,
    LastRecord,
    active_producers,
    last_records_of_active_producers,
)
from segstore.log.producers.producer_updates import ProducerUpdates
from segstore.log.producers.transaction_verification import (
    check_verified,
    has_ongoing_transaction,
    maybe_start_transaction_verification,
    verification_guard,
)
from segstore.log.producers.verification_state_entry import VerificationGuard
from segstore.types import CONTROL_FLAG, TRANSACTIONAL_FLAG, AppendOrigin
from tests.kits.producer_state_kit import COMMIT, NOW, PRODUCER, data, marker, producers

__all__ = ["producers"]

SENTINEL = VerificationGuard.SENTINEL


def start(kit, epoch: int = 0, *, supports_epoch_bump: bool = False) -> VerificationGuard:
    return maybe_start_transaction_verification(
        kit.state, PRODUCER, 0, epoch, NOW, supports_epoch_bump=supports_epoch_bump
    )


def append(kit, batch, records=(), version: int = 0) -> None:
    updates = ProducerUpdates(kit.state, AppendOrigin.COORDINATOR)
    updates.append(batch, None, version, records)
    updates.commit()


def commit_of(epoch: int):
    batch = data(-1, 50, epoch=epoch)._replace(attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG)
    return batch, [marker(COMMIT, 0, 50, NOW)]


def test_the_life_of_a_verification(producers):
    """[PSM-32, PSM-33, PSM-34, PSM-35]"""
    state = producers.state
    assert verification_guard(state, PRODUCER) is SENTINEL
    guard = start(producers)
    assert verification_guard(state, PRODUCER) == guard == start(producers) != SENTINEL

    append(producers, data(0, 0))
    assert verification_guard(state, PRODUCER) == guard
    append(producers, data(1, 1, transactional=True))
    assert verification_guard(state, PRODUCER) is SENTINEL
    assert has_ongoing_transaction(state, PRODUCER, 0)
    assert not has_ongoing_transaction(state, PRODUCER, 1)
    assert not has_ongoing_transaction(state, 2, 0)
    assert start(producers) is SENTINEL

    append(producers, *commit_of(0))
    assert not has_ongoing_transaction(state, PRODUCER, 0)
    assert not start(producers).verify(guard)


def test_a_fenced_producer_starts_no_verification(producers):
    """[PSM-32] Nothing changes."""
    producers.seq(0, 0, epoch=3)

    with pytest.raises(InvalidProducerEpochError):
        start(producers, 2)
    assert producers.state.verification_state_entry(PRODUCER) is None


def test_a_marker_without_data_ends_a_verification(producers):
    """[PSM-19, PSM-35]"""
    start(producers)
    append(producers, *commit_of(0))
    assert verification_guard(producers.state, PRODUCER) is SENTINEL


def test_data_of_the_transaction_ends_its_verification_in_every_version(producers):
    """[PSM-35] Though its epoch is that of the entry."""
    start(producers, supports_epoch_bump=True)
    append(producers, data(0, 0, transactional=True))
    assert verification_guard(producers.state, PRODUCER) is SENTINEL


def test_the_lowest_sequence_that_waits_counts(producers):
    """[PSM-30]"""
    create = producers.state.maybe_create_verification_state_entry
    seen = [create(PRODUCER, seq, 0, NOW).lowest_sequence for seq in (4, 6, 2, 3)]
    assert seen == [4, 4, 2, 2]


@pytest.mark.parametrize(
    ("supports_epoch_bump", "epoch", "stays"),
    [(True, 1, True), (True, 0, False), (False, 1, False)],
)
def test_a_marker_spares_the_verification_of_the_next_transaction(
    producers, supports_epoch_bump, epoch: int, stays
):
    """[PSM-35, APP-13] With version 2 it has the next transaction's epoch."""
    producers.txn(0, 0)
    start(producers, 1, supports_epoch_bump=supports_epoch_bump)
    append(producers, *commit_of(epoch))

    assert (producers.state.verification_state_entry(PRODUCER) is not None) == stays


def test_a_refused_append_ends_the_verification_of_what_was_before_it(producers):
    """[PSM-35] At once; the state of the producers is as it was."""
    start(producers)
    updates = ProducerUpdates(producers.state, AppendOrigin.CLIENT)
    updates.append(data(0, 0, transactional=True))

    assert verification_guard(producers.state, PRODUCER) is SENTINEL
    assert producers.state.is_empty


def test_what_must_be_verified(producers):
    """[APP-13b, PSM-36] The switch is read at each use."""
    state, config = producers.state, producers.config
    guard = start(producers)
    transactional = data(0, 0, transactional=True)

    check_verified(state, transactional, guard)
    check_verified(state, data(0, 0), SENTINEL)
    check_verified(state, commit_of(0)[0], SENTINEL)
    for other in (SENTINEL, VerificationGuard()):
        with pytest.raises(InvalidTxnStateError):
            check_verified(state, transactional, other)
    config.transaction_verification_enabled = False
    check_verified(state, transactional, SENTINEL)

    config.transaction_verification_enabled = True
    append(producers, transactional)
    check_verified(state, data(1, 1, transactional=True), SENTINEL)
    for fenced in (data(0, 1, epoch=0, transactional=True), commit_of(0)[0]):
        append(producers, data(0, 1, epoch=1, transactional=True))
        with pytest.raises(InvalidProducerEpochError):
            check_verified(state, fenced, guard)


def test_views(producers):
    """[PSM-75]"""
    producers.txn(0, 10, epoch=2, pid=4)
    producers.end(COMMIT, 11, pid=5, epoch=1, coordinator_epoch=6, timestamp=NOW + 3)
    state = producers.state

    assert active_producers(state) == [
        ActiveProducer(4, 2, 0, NOW, -1, 10),
        ActiveProducer(5, 1, -1, NOW + 3, 6, -1),
    ]
    assert last_records_of_active_producers(state) == {4: LastRecord(10, 2), 5: LastRecord(None, 1)}
    assert state.producer_id_count == 2
