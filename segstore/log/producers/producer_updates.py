"""What one append changes in the producer state (Kafka ``UnifiedLog.updateProducers``).

First every batch is checked, and only when the log has taken the bytes is the result committed: an
append that fails leaves no trace but in the verifications under way.

Source: [APP-13, APP-15, PSM-35, SEG-42].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.log.local.transaction_index import AbortedTransaction
from segstore.log.producers.producer_append_info import UNKNOWN_TRANSACTION_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segstore._core import RawRecord
    from segstore.log.producers.producer_append_info import ProducerAppendInfo
    from segstore.log.producers.producer_batch import ProducerBatch
    from segstore.log.producers.producer_state_manager import ProducerStateManager
    from segstore.log.producers.txn_metadata import CompletedTxn
    from segstore.types import AppendOrigin, LogOffsetMetadata


class ProducerUpdates:
    """The producers of one append, each with what its batches change.

    Parameters
    ----------
    state : ProducerStateManager
        What is to be changed by `commit`.
    origin : AppendOrigin
        Of the append.
    """

    __slots__ = ("_append_infos", "_completed", "_origin", "_state")

    def __init__(self, state: ProducerStateManager, origin: AppendOrigin) -> None:
        self._state = state
        self._origin = origin
        self._append_infos: dict[int, ProducerAppendInfo] = {}
        self._completed: list[CompletedTxn] = []

    def append(
        self,
        batch: ProducerBatch,
        first_offset_metadata: LogOffsetMetadata | None = None,
        transaction_version: int = UNKNOWN_TRANSACTION_VERSION,
        records: Iterable[RawRecord] = (),
    ) -> None:
        """Check the next batch; arguments and errors are those of `ProducerAppendInfo.append`.

        A transactional batch ends the producer's verification at once, whatever becomes of the
        append.
        """
        producer_id = batch.producer_id
        info = self._append_infos.get(producer_id)
        if info is None:
            info = self._state.prepare_update(producer_id, self._origin)
            self._append_infos[producer_id] = info
        completed = info.append(batch, first_offset_metadata, transaction_version, records)
        if completed is not None:
            self._completed.append(completed)
        if batch.is_transactional and not self._is_of_next_transaction(batch):
            self._state.clear_verification_state_entry(producer_id)

    def _is_of_next_transaction(self, marker: ProducerBatch) -> bool:
        """Whether the verification belongs to the transaction behind *marker* [APP-13].

        With transactions of version 2 a marker has the epoch of the next one, which may have begun
        its verification already.
        """
        entry = self._state.verification_state_entry(marker.producer_id)
        return (
            entry is not None
            and marker.is_control
            and entry.supports_epoch_bump
            and entry.epoch == marker.producer_epoch
        )

    @property
    def has_aborted(self) -> bool:
        """Whether a transaction ends in vain: a line for the transaction index."""
        return any(completed.is_aborted for completed in self._completed)

    def commit(self, write_aborted: Callable[[AbortedTransaction], None] | None = None) -> None:
        """Take everything over into the state; the map end offset is left to the caller.

        Parameters
        ----------
        write_aborted : callable or None
            Adds a line to the transaction index. When it fails, the transactions from there on
            stay open [APP-16].
        """
        for info in self._append_infos.values():
            self._state.update(info)
        for completed in self._completed:
            if write_aborted is not None and completed.is_aborted:
                producer_id, first_offset, last_offset, _ = completed
                stable = self._state.last_stable_offset(completed)
                write_aborted(AbortedTransaction(producer_id, first_offset, last_offset, stable))
            self._state.complete_txn(completed)
