"""Whether producers may append their batches (Kafka ``analyzeAndValidateProducerState``).

Called under the append lock, behind the roll, before anything is written [APP-13, APP-14].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from segstore._core import iterate_raw_records
from segstore.log.producers.producer_append_info import UNKNOWN_TRANSACTION_VERSION
from segstore.log.producers.producer_batch import producer_batches
from segstore.log.producers.producer_updates import ProducerUpdates
from segstore.log.producers.transaction_verification import check_verified
from segstore.log.producers.verification_state_entry import VerificationGuard
from segstore.types import AppendOrigin, LogOffsetMetadata

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from segstore._core import BatchHeaders, CodecTable
    from segstore.log.producers.producer_state_entry import BatchMetadata
    from segstore.log.producers.producer_state_manager import ProducerStateManager


class AppendRequest(NamedTuple):
    """What an append says besides its batches.

    Attributes
    ----------
    origin : AppendOrigin
        Who appends.
    verification_guard : VerificationGuard
        Of the verification of a transaction's first batch (KIP-890).
    transaction_version : int
        Of the transaction that a marker ends (KIP-1228); -1 = unknown.
    """

    origin: AppendOrigin = AppendOrigin.CLIENT
    verification_guard: VerificationGuard = VerificationGuard.SENTINEL
    transaction_version: int = UNKNOWN_TRANSACTION_VERSION


class ProducerAnalysis(NamedTuple):
    """The outcome: what is to be committed, or the batch that was here already."""

    updates: ProducerUpdates
    duplicate: BatchMetadata | None = None
    begins_transaction: bool = False
    """Whether a batch belongs to a transaction."""


def analyze_producers(  # noqa: PLR0913 - the append, and where it goes
    state: ProducerStateManager,
    data: Buffer,
    headers: BatchHeaders,
    place: LogOffsetMetadata,
    request: AppendRequest,
    codecs: CodecTable,
) -> ProducerAnalysis | None:
    """Check the batches that have a producer id; None when none has.

    Parameters
    ----------
    data, headers : Buffer, BatchHeaders
        The batches with their offsets; positions count from the begin of *data*.
    place : LogOffsetMetadata
        Where the first byte will be.

    Raises
    ------
    OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTxnStateError,
    TransactionCoordinatorFencedError, InvalidRecordError, IllegalArgumentError
        What a batch is refused for; the state is as before, but for verifications under way.
    """
    batches = producer_batches(headers)
    if not batches:
        return None
    origin = request.origin
    updates = ProducerUpdates(state, origin)
    begins_transaction = False
    for batch in batches:
        if origin is AppendOrigin.CLIENT:
            entry = state.last_entry(batch.producer_id)
            duplicate = None if entry is None else entry.find_duplicate_batch(batch)
            if duplicate is not None:
                return ProducerAnalysis(updates, duplicate)
        if origin in {AppendOrigin.CLIENT, AppendOrigin.COORDINATOR}:
            check_verified(state, batch, request.verification_guard)
        first = None
        if batch.is_transactional:
            begins_transaction = True
            first = LogOffsetMetadata(
                batch.base_offset,
                place.segment_base_offset,
                place.relative_position_in_segment + batch.position,
            )
        whole = memoryview(data)[batch.position : batch.position + batch.size_bytes]
        records = iterate_raw_records(whole, codecs) if batch.is_control else ()
        updates.append(batch, first, request.transaction_version, records)
    return ProducerAnalysis(updates, begins_transaction=begins_transaction)
