"""The batches of one producer in one append, checked (Kafka ``ProducerAppendInfo``).

Nothing of it counts before `ProducerStateManager.update`: an append can still fail.

Source: [PSM-10..PSM-19].
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from segstore.errors import (
    IllegalArgumentError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from segstore.log.producers.producer_state_entry import BatchMetadata, ProducerStateEntry
from segstore.log.producers.txn_metadata import CompletedTxn, TxnMetadata
from segstore.records.control_record import ControlRecordType, parse_end_transaction_marker
from segstore.types import NO_PRODUCER_EPOCH, NO_SEQUENCE, AppendOrigin, LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore._core import RawRecord
    from segstore.log.producers.producer_batch import ProducerBatch
    from segstore.log.producers.verification_state_entry import VerificationStateEntry
    from segstore.records.control_record import EndTransactionMarker

UNKNOWN_TRANSACTION_VERSION: Final = -1
VERSION_WITH_EPOCH_BUMP: Final = 2
"""Transactions of this version raise the producer's epoch with every marker (KIP-890 part 2)."""
MAX_PRODUCER_EPOCH: Final = 2**15 - 1
MAX_SEQUENCE: Final = 2**31 - 1

_log = logging.getLogger(__name__)


class ProducerAppendInfo:
    """Validates a producer's batches against what was stored, and gathers what they change.

    Parameters
    ----------
    partition : str
        For messages.
    producer_id : int
        Of all batches.
    current_entry : ProducerStateEntry
        What is stored, or an empty entry; it is not changed.
    origin : AppendOrigin
        Only a CLIENT's sequences are checked, and REPLICATION takes what the leader took.
    verification_state_entry : VerificationStateEntry or None
        The verification under way.
    """

    __slots__ = (
        "_current_entry",
        "_origin",
        "_partition",
        "_transactions",
        "_updated_entry",
        "_verification_state_entry",
        "producer_id",
    )

    def __init__(
        self,
        partition: str,
        producer_id: int,
        current_entry: ProducerStateEntry,
        origin: AppendOrigin,
        verification_state_entry: VerificationStateEntry | None = None,
    ) -> None:
        self.producer_id = producer_id
        self._partition = partition
        self._current_entry = current_entry
        self._origin = origin
        self._verification_state_entry = verification_state_entry
        self._updated_entry = current_entry.copy(with_batches=False)
        self._transactions: list[TxnMetadata] = []

    def append(
        self,
        batch: ProducerBatch,
        first_offset_metadata: LogOffsetMetadata | None = None,
        transaction_version: int = UNKNOWN_TRANSACTION_VERSION,
        records: Iterable[RawRecord] = (),
    ) -> CompletedTxn | None:
        """Check a batch and take it in; returns the transaction that it ends.

        Parameters
        ----------
        batch : ProducerBatch
            Its header.
        first_offset_metadata : LogOffsetMetadata or None
            Where the batch will lie, when that is known.
        transaction_version : int
            Of a marker: 0, 1 or 2; -1 = unknown, as on followers and in recovery.
        records : iterable of RawRecord
            Of a control batch, where the first says what it is; without one, the transaction was
            cleaned away and nothing happens [PSM-16]. Not looked at for data.

        Raises
        ------
        InvalidProducerEpochError, OutOfOrderSequenceError, InvalidTxnStateError,
        TransactionCoordinatorFencedError
            The batch does not follow from what is known; nothing of this object counts any more.
        IllegalArgumentError
            A control record that ends no transaction, or a marker without a transaction version.
        InvalidRecordError
            A malformed marker.
        """
        if batch.is_control:
            for record in records:
                marker = parse_end_transaction_marker(record.key, record.value)
                return self.append_end_txn_marker(
                    marker,
                    batch.producer_epoch,
                    batch.base_offset,
                    record.timestamp,
                    transaction_version,
                )
            return None
        self.append_data_batch(batch, first_offset_metadata or LogOffsetMetadata(batch.base_offset))
        return None

    def append_data_batch(
        self, batch: ProducerBatch, first_offset_metadata: LogOffsetMetadata
    ) -> None:
        """Take in a batch of records [PSM-11]; it begins a transaction when none is open."""
        epoch, first_offset = batch.producer_epoch, batch.base_offset
        self._check_producer_epoch(epoch, first_offset, UNKNOWN_TRANSACTION_VERSION)
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(epoch, batch.base_sequence, first_offset)
        delta = batch.last_offset - first_offset
        metadata = BatchMetadata(batch.last_sequence, batch.last_offset, delta, batch.max_timestamp)
        entry = self._updated_entry
        entry.add_batch(epoch, metadata)
        is_open = entry.current_txn_first_offset is not None
        if is_open and not batch.is_transactional:
            raise InvalidTxnStateError(
                f"producer {self.producer_id} wrote to {self._partition} at offset {first_offset}"
                " outside of its open transaction",
                found="a batch that is not transactional",
                expected=f"the transaction from offset {entry.current_txn_first_offset} on",
            )
        if batch.is_transactional and not is_open:
            entry.current_txn_first_offset = first_offset
            self._transactions.append(TxnMetadata(self.producer_id, first_offset_metadata))

    def append_end_txn_marker(
        self,
        marker: EndTransactionMarker,
        producer_epoch: int,
        offset: int,
        timestamp: int,
        transaction_version: int = UNKNOWN_TRANSACTION_VERSION,
    ) -> CompletedTxn | None:
        """Take in a marker [PSM-17]; returns the transaction, None for one without data [PSM-19].

        Parameters
        ----------
        marker : EndTransactionMarker
            What it says.
        producer_epoch, offset : int
            Of its batch.
        timestamp : int
            Of its record, in ms.
        transaction_version : int
            As in `append`.
        """
        if (
            transaction_version == UNKNOWN_TRANSACTION_VERSION
            and self._origin is not AppendOrigin.REPLICATION
        ):
            raise IllegalArgumentError(
                "a marker needs the version of its transaction",
                found=str(transaction_version),
                expected="0, 1 or 2",
            )
        self._check_producer_epoch(producer_epoch, offset, transaction_version)
        self._check_coordinator_epoch(marker, offset)
        entry = self._updated_entry
        first_offset = entry.current_txn_first_offset
        entry.end_transaction(producer_epoch, marker.coordinator_epoch, timestamp)
        if first_offset is None:
            return None
        is_aborted = marker.type is ControlRecordType.ABORT
        return CompletedTxn(self.producer_id, first_offset, offset, is_aborted)

    def to_entry(self) -> ProducerStateEntry:
        """Return what the batches make of the entry: epochs, and the batches of this append."""
        return self._updated_entry

    @property
    def started_transactions(self) -> tuple[TxnMetadata, ...]:
        """The transactions that began in this append."""
        return tuple(self._transactions)

    # ---- checks ----------------------------------------------------------------------------------

    def _check_producer_epoch(self, epoch: int, offset: int, transaction_version: int) -> None:
        """Refuse a producer that was fenced off; a follower only says so [PSM-12, PSM-18]."""
        known = self._updated_entry.producer_epoch
        lowest = known
        if transaction_version >= VERSION_WITH_EPOCH_BUMP:
            is_open = self._updated_entry.current_txn_first_offset is not None
            lowest += is_open and epoch != MAX_PRODUCER_EPOCH  # else it may be a repeated marker
        if epoch >= lowest:
            return
        error = InvalidProducerEpochError(
            f"epoch {epoch} of producer {self.producer_id} at offset {offset} of"
            f" {self._partition} is too old",
            found=str(epoch),
            expected=f"{lowest} or newer",
        )
        if self._origin is not AppendOrigin.REPLICATION:
            raise error
        _log.warning("%s", error)

    def _check_coordinator_epoch(self, marker: EndTransactionMarker, offset: int) -> None:
        known = self._updated_entry.coordinator_epoch
        if marker.coordinator_epoch >= known:
            return
        error = TransactionCoordinatorFencedError(
            f"a coordinator with epoch {marker.coordinator_epoch} ended a transaction of producer"
            f" {self.producer_id} at offset {offset} of {self._partition}: it has a successor",
            found=str(marker.coordinator_epoch),
            expected=f"{known} or newer",
        )
        if self._origin is not AppendOrigin.REPLICATION:
            raise error
        _log.info("%s", error)  # a coordinator that came back may write its markers again

    def _check_sequence(self, epoch: int, first_seq: int, offset: int) -> None:
        """Refuse a gap, and what is known already [PSM-13, PSM-14]."""
        verification, current = self._verification_state_entry, self._current_entry
        if verification is not None:
            if verification.supports_epoch_bump and first_seq != 0 and current.is_empty:
                raise self._out_of_order(first_seq, offset, "0, from a producer without a state")
            if first_seq > verification.lowest_sequence:
                lowest = f"{verification.lowest_sequence}, the earliest that was seen"
                raise self._out_of_order(first_seq, offset, lowest)
        updated = self._updated_entry
        if epoch != updated.producer_epoch:
            if first_seq != 0 and updated.producer_epoch != NO_PRODUCER_EPOCH:
                raise self._out_of_order(first_seq, offset, f"0, in the new epoch {epoch}")
            return
        if current.producer_epoch == NO_PRODUCER_EPOCH:
            return
        if not updated.is_empty:
            last_seq = updated.last_seq
        elif epoch == current.producer_epoch:
            last_seq = current.last_seq
        else:  # a marker of this append raised the epoch
            last_seq = NO_SEQUENCE
        next_seq = 0 if last_seq == MAX_SEQUENCE else last_seq + 1
        if first_seq != next_seq:
            raise self._out_of_order(first_seq, offset, str(next_seq))

    def _out_of_order(self, first_seq: int, offset: int, expected: str) -> OutOfOrderSequenceError:
        return OutOfOrderSequenceError(
            f"sequence number {first_seq} of producer {self.producer_id} at offset {offset} of"
            f" {self._partition} is out of order",
            found=str(first_seq),
            expected=expected,
        )

    def __repr__(self) -> str:
        return (
            f"ProducerAppendInfo(producer_id={self.producer_id}, origin={self._origin.name}, "
            f"updated_entry={self._updated_entry}, transactions={self._transactions})"
        )
