"""May this producer write to its transaction? (Kafka ``UnifiedLog``, KIP-890).

The functions are called by the owner of the log's append lock.

Source: [PSM-32..PSM-34, APP-13].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.errors import InvalidProducerEpochError, InvalidTxnStateError
from segstore.log.producers.verification_state_entry import VerificationGuard

if TYPE_CHECKING:
    from segstore.log.producers.producer_batch import ProducerBatch
    from segstore.log.producers.producer_state_manager import ProducerStateManager


def has_ongoing_transaction(
    state: ProducerStateManager, producer_id: int, producer_epoch: int
) -> bool:
    """Whether the producer has data of an open transaction here, in that epoch [PSM-34]."""
    entry = state.last_entry(producer_id)
    return (
        entry is not None
        and entry.current_txn_first_offset is not None
        and entry.producer_epoch == producer_epoch
    )


def verification_guard(state: ProducerStateManager, producer_id: int) -> VerificationGuard:
    """Return the guard of the verification under way, SENTINEL without one [PSM-33]."""
    entry = state.verification_state_entry(producer_id)
    return VerificationGuard.SENTINEL if entry is None else entry.verification_guard


def maybe_start_transaction_verification(  # noqa: PLR0913 - what is asked for, and when
    state: ProducerStateManager,
    producer_id: int,
    sequence: int,
    epoch: int,
    now_ms: int,
    *,
    supports_epoch_bump: bool = False,
) -> VerificationGuard:
    """Return the guard that the first batch of a transaction must come with [PSM-32].

    SENTINEL when the transaction is under way, and nothing is to be verified. Whether verification
    is switched on plays no part.

    Raises
    ------
    InvalidProducerEpochError
        A newer producer of the same id is known.
    """
    _check_not_fenced(state, producer_id, epoch)
    if has_ongoing_transaction(state, producer_id, epoch):
        return VerificationGuard.SENTINEL
    entry = state.maybe_create_verification_state_entry(
        producer_id, sequence, epoch, now_ms, supports_epoch_bump=supports_epoch_bump
    )
    return entry.verification_guard


def check_verified(
    state: ProducerStateManager, batch: ProducerBatch, guard: VerificationGuard
) -> None:
    """Refuse a transactional batch of a client or coordinator without a verification [APP-13].

    Parameters
    ----------
    guard : VerificationGuard
        That of the request.

    Raises
    ------
    InvalidProducerEpochError
        A newer producer of the same id is known.
    InvalidTxnStateError
        Verification is switched on, and the guard is not that of the producer's.
    """
    producer_id, epoch = batch.producer_id, batch.producer_epoch
    if not batch.is_transactional or has_ongoing_transaction(state, producer_id, epoch):
        return
    _check_not_fenced(state, producer_id, epoch)
    if not state.config.transaction_verification_enabled or batch.is_control:
        return
    if not verification_guard(state, producer_id).verify(guard):
        raise InvalidTxnStateError(
            f"a transactional batch of producer {producer_id} was not verified",
            found=f"guard {guard.value}",
            expected="the guard of a verification under way",
        )


def _check_not_fenced(state: ProducerStateManager, producer_id: int, epoch: int) -> None:
    entry = state.last_entry(producer_id)
    if entry is not None and epoch < entry.producer_epoch:
        raise InvalidProducerEpochError(
            f"epoch {epoch} of producer {producer_id} is older than its last one,"
            f" {entry.producer_epoch}",
            found=str(epoch),
            expected=f"{entry.producer_epoch} or newer",
        )
