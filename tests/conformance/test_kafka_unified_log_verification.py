"""Kafka's UnifiedLogTest: verification of transactions (KIP-890) and their versions (KIP-1228)."""

from __future__ import annotations

import pytest

from segstore.errors import (
    IllegalArgumentError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
)
from segstore.log.producers.transaction_verification import (
    has_ongoing_transaction,
    verification_guard,
)
from segstore.log.producers.verification_state_entry import VerificationGuard
from segstore.types import AppendOrigin
from tests.kits.unified_log_kit import end_transaction, sequenced

PID, EPOCH = 23, 1
SENTINEL = VerificationGuard.SENTINEL


@pytest.fixture(params=["safe", "kafka"])
def log(new_log, request):
    """A log that asks for guards."""
    made = new_log(recovery=request.param, replicated=True)
    made._producers.config.transaction_verification_enabled = True
    return made


def is_ongoing(log, pid: int = PID, epoch: int = EPOCH) -> bool:
    return has_ongoing_transaction(log._producers, pid, epoch)


def guard_of(log, pid: int = PID) -> VerificationGuard:
    return verification_guard(log._producers, pid)


def start(log, sequence: int, pid: int = PID, epoch: int = EPOCH, **options: bool):
    return log.maybe_start_transaction_verification(pid, sequence, epoch, **options)


@pytest.mark.parametrize("origin", [AppendOrigin.CLIENT, AppendOrigin.COORDINATOR])
def test_transaction_is_ongoing_and_guard(log, origin):
    """[APP-13, PSM-30..PSM-34] UnifiedLogTest.testTransactionIsOngoingAndVerificationGuard."""
    is_client = origin is AppendOrigin.CLIENT  # others have no sequences
    sequence = 3 if is_client else 0
    assert (is_ongoing(log), guard_of(log)) == (False, SENTINEL)
    assert not guard_of(log).verify(SENTINEL)

    idempotent = sequenced(PID, EPOCH, sequence, 2)
    sequence += 2 if is_client else 0
    transactional = sequenced(PID, EPOCH, sequence, 2, transactional=True)
    guard = start(log, sequence)
    assert guard != SENTINEL
    log.append_as_leader(idempotent, 0, origin=origin)
    assert (is_ongoing(log), guard_of(log)) == (False, guard)

    assert start(log, sequence) == guard
    log.append_as_leader(transactional, 0, origin=origin, verification_guard=guard)
    assert (is_ongoing(log), guard_of(log)) == (True, SENTINEL)
    assert start(log, sequence) == SENTINEL  # nothing to be verified
    assert not guard_of(log).verify(guard)

    end_transaction(log, PID, EPOCH, commit=True)
    assert (is_ongoing(log), guard_of(log)) == (False, SENTINEL)
    sequence += 2 if is_client else 0
    other = start(log, sequence)
    assert other not in {guard, SENTINEL}
    assert not other.verify(guard)


def test_empty_transaction_still_clears_the_guard(log):
    """[PSM-33] UnifiedLogTest.testEmptyTransactionStillClearsVerificationGuard."""
    assert start(log, 3) != SENTINEL
    end_transaction(log, PID, EPOCH, commit=True)
    assert (is_ongoing(log), guard_of(log)) == (False, SENTINEL)


def test_disabled_verification_clears_the_guard(log):
    """[APP-13, PSM-36] UnifiedLogTest.testDisabledVerificationClearsVerificationGuard."""
    assert start(log, 3) != SENTINEL
    log._producers.config.transaction_verification_enabled = False
    log.append_as_leader(sequenced(PID, EPOCH, 3, 2, transactional=True), 0)
    assert (is_ongoing(log), guard_of(log)) == (True, SENTINEL)


def test_non_zero_sequence_on_first_append(log):
    """[PSM-12] UnifiedLogTest.testAllowNonZeroSequenceOnFirstAppendNonZeroEpoch."""
    guard = start(log, 3)
    log.append_as_leader(
        sequenced(PID, EPOCH, 3, 2, transactional=True), 0, verification_guard=guard
    )
    assert log.log_end_offset == 2


def test_the_versions_of_transactions(log):
    """[DIFF-11, APP-1, APP-13, PSM-18, T-21] every step of the table, in order."""

    def transactional(pid: int, epoch: int, sequence: int, guard: VerificationGuard) -> int:
        data = sequenced(pid, epoch, sequence, transactional=True)
        return log.append_as_leader(data, 0, verification_guard=guard).base_offset

    def abort(epoch: int, version: int) -> int:
        return end_transaction(log, 1, epoch, commit=False, transaction_version=version).base_offset

    with pytest.raises(InvalidTxnStateError):
        transactional(1, 5, 0, SENTINEL)
    assert log.log_end_offset == 0
    guard = start(log, 0, 1, 5, supports_epoch_bump=True)
    assert transactional(1, 5, 0, guard) == 0
    with pytest.raises(IllegalArgumentError):
        abort(6, -1)
    with pytest.raises(InvalidProducerEpochError):
        abort(5, 2)
    assert is_ongoing(log, 1, 5)
    assert abort(6, 2) == 1
    assert not is_ongoing(log, 1, 5)
    assert abort(6, 2) == 2
    with pytest.raises(InvalidProducerEpochError):
        abort(5, 2)
    guard = start(log, 0, 2, 32767, supports_epoch_bump=True)
    assert transactional(2, 32767, 0, guard) == 3
    ended = end_transaction(log, 2, 32767, commit=True, transaction_version=2)
    assert ended.base_offset == 4
    guard = start(log, 17, 3, 0, supports_epoch_bump=True)
    with pytest.raises(OutOfOrderSequenceError):
        transactional(3, 0, 17, guard)
    with pytest.raises(InvalidProducerEpochError):
        start(log, 0, 1, 4)
    log.update_high_watermark(5)
    assert (log.log_end_offset, log.last_stable_offset) == (5, 5)


def test_a_late_batch_of_an_ended_transaction_is_refused(log):
    """[APP-13, DIFF-11] the hanging transactions that KIP-890 is about."""
    guard = start(log, 0)
    log.append_as_leader(sequenced(PID, EPOCH, 0, transactional=True), 0, verification_guard=guard)
    end_transaction(log, PID, EPOCH, commit=False)
    with pytest.raises(InvalidTxnStateError):
        log.append_as_leader(
            sequenced(PID, EPOCH, 1, transactional=True), 0, verification_guard=guard
        )
    with pytest.raises(InvalidProducerEpochError):  # of an older epoch, before all else
        log.append_as_leader(sequenced(PID, EPOCH - 1, 0, transactional=True), 0)
    assert log.log_end_offset == 2
