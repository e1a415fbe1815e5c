"""Kafka's ProducerStateManagerTest: verification of transactions (KIP-890)."""

from __future__ import annotations

import pytest

from segstore.errors import OutOfOrderSequenceError
from tests.kits.producer_state_kit import EXPIRATION_MS, NOW, PRODUCER, producers

__all__ = ["producers"]


def test_sequence_and_epoch_in_verification_entry(producers):
    """[PSM-30] ProducerStateManagerTest.testSequenceAndEpochInVerificationEntry."""
    state = producers.state
    entry = state.maybe_create_verification_state_entry(PRODUCER, 1, 0, NOW)
    guard = entry.verification_guard
    seen = [(entry.lowest_sequence, entry.epoch)]
    for sequence, epoch in ((0, 0), (2, 1), (0, 0)):
        again = state.maybe_create_verification_state_entry(
            PRODUCER, sequence, epoch, NOW + 9, supports_epoch_bump=True
        )
        assert again is entry
        seen.append((entry.lowest_sequence, entry.epoch))

    assert seen == [(1, 0), (0, 0), (2, 1), (2, 1)]
    assert (entry.verification_guard, entry.timestamp) == (guard, NOW)
    assert not entry.supports_epoch_bump


@pytest.mark.parametrize("still_enabled", [True, False])
def test_throw_out_of_order_sequence_with_verification_sequence_check(producers, still_enabled):
    """[PSM-13, PSM-36]

    ProducerStateManagerTest.testThrowOutOfOrderSequenceWithVerificationSequenceCheck.
    """
    producers.state.maybe_create_verification_state_entry(PRODUCER, 0, 0, NOW)
    producers.config.transaction_verification_enabled = still_enabled

    with pytest.raises(OutOfOrderSequenceError):
        producers.txn(4, 0)
    entry = producers.state.verification_state_entry(PRODUCER)
    assert entry.lowest_sequence == 0


def test_a_producer_of_version_2_without_state_begins_at_0(producers):
    """[PSM-13] Step 0: only where the epoch rises with each transaction."""
    for pid, supports in ((1, True), (2, False)):
        producers.state.maybe_create_verification_state_entry(
            pid, 4, 0, NOW, supports_epoch_bump=supports
        )
    with pytest.raises(OutOfOrderSequenceError):
        producers.txn(4, 0, pid=1)
    producers.txn(4, 0, pid=2)
    producers.txn(0, 1, pid=1)


def test_verification_state_entry_expiration(producers):
    """[PSM-35, PSM-45] ProducerStateManagerTest.testVerificationStateEntryExpiration."""
    state = producers.state
    state.maybe_create_verification_state_entry(PRODUCER, 0, 0, NOW)

    state.remove_expired_producers(NOW + EXPIRATION_MS // 2)
    assert state.verification_state_entry(PRODUCER) is not None
    state.maybe_create_verification_state_entry(PRODUCER, 0, 0, NOW + EXPIRATION_MS // 2)
    state.remove_expired_producers(NOW + EXPIRATION_MS)
    assert state.verification_state_entry(PRODUCER) is None
