"""An open transaction, as readers and operators see it (Kafka ``kafka-transactions.sh``).

Source: [LSO-1, PSM-46]; Kafka ``TransactionsCommand.FindHangingTransactionsCommand``.
"""

from __future__ import annotations

from typing import NamedTuple

from segstore.errors import InvalidTxnStateError
from segstore.log.producers.producer_state_manager import (
    DEFAULT_MAX_TRANSACTION_TIMEOUT_MS,
    LATE_TRANSACTION_BUFFER_MS,
)


class OpenTransaction(NamedTuple):
    """A transaction without a marker; committed reads end at the earliest one."""

    producer_id: int
    producer_epoch: int
    """Of its first batch; -1 when no batch of the transaction is in the log any more."""
    start_offset: int
    """Of its first batch. When that was deleted, a producer snapshot may still have its offset;
    else this is the first batch that is left."""
    start_timestamp: int
    """Of its first batch that is in the log, in ms; -1 when there is none."""

    def is_hanging(
        self, now_ms: int, max_timeout_ms: int = DEFAULT_MAX_TRANSACTION_TIMEOUT_MS
    ) -> bool:
        """Whether the transaction is open for longer than a coordinator allows.

        Parameters
        ----------
        now_ms : int
            The wall clock, in ms since 1970.
        max_timeout_ms : int
            Kafka's ``transaction.max.timeout.ms``, in ms; five minutes are added.
        """
        limit = max_timeout_ms + LATE_TRANSACTION_BUFFER_MS
        return now_ms - self.start_timestamp > limit


def no_open_transaction(path: str, which: str, epoch: int | None) -> InvalidTxnStateError:
    """Return the error for a transaction that is not open: *which* names it."""
    with_epoch = "" if epoch is None else f" with epoch {epoch}"
    return InvalidTxnStateError(
        f"there is no open transaction {which}{with_epoch}: `segstore inspect` lists those that are"
        " open",
        file=path,
        found="no open transaction",
        expected="those that are open",
    )
