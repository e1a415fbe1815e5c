"""What the batches of a log say of its producers and their transactions; nothing is changed.

Unlike the producer state of a log that is open for writing (`ProducerStateManager`), this knows
every transaction that is in the log, forgets nobody because he was silent, and knows nothing of
batches that were deleted. Data is looked at in headers only, of a marker the record is read.

Source: [PSM-10..PSM-17].
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from segstore._core import increment_sequence
from segstore.errors import IllegalArgumentError
from segstore.log.producers.producer_batch import ProducerBatch
from segstore.log.producers.producer_state_rebuild import control_records
from segstore.numpy_on_demand import np
from segstore.records.control_record import ControlRecordType, parse_end_transaction_marker
from segstore.types import CONTROL_FLAG, CURRENT_MAGIC, NO_SEQUENCE, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore._core import BatchHeaders, CodecTable
    from segstore.log.local.segment import Segment
    from segstore.records.control_record import EndTransactionMarker

ONGOING: Final = "Ongoing"
COMPLETE_COMMIT: Final = "CompleteCommit"
COMPLETE_ABORT: Final = "CompleteAbort"
"""Kafka's names of a transaction's state."""


@dataclass(slots=True)
class Transaction:
    """One transaction, as far as the log holds it."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    """Of its first batch in the log."""
    first_timestamp: int
    """Of that batch, in ms; -1 = none."""
    last_timestamp: int
    """Of its newest batch, or of its marker, in ms."""
    last_offset: int | None = None
    """Of its marker; None while it is open."""
    state: str = ONGOING
    coordinator_epoch: int | None = None
    """As the marker says."""


@dataclass(slots=True)
class Producer:
    """The newest that is known of a producer id."""

    producer_id: int
    producer_epoch: int = -1
    last_sequence: int = NO_SEQUENCE
    """Of the newest batch of the current epoch; -1 = none."""
    last_offset: int = -1
    """Of the newest batch of data; -1 = none."""
    last_timestamp: int = -1
    """Of the newest batch or marker, in ms."""
    coordinator_epoch: int = -1
    transaction: Transaction | None = None
    """The open one."""


@dataclass(slots=True)
class ProducerHistory:
    """Takes in header tables in the order of the log.

    Attributes
    ----------
    producers : dict of int to Producer
        By producer id.
    transactions : list of Transaction
        By their first offsets.
    """

    codecs: CodecTable
    producers: dict[int, Producer] = field(default_factory=dict)
    transactions: list[Transaction] = field(default_factory=list)

    def take(self, tables: Iterable[tuple[Segment, BatchHeaders]]) -> ProducerHistory:
        """Take in what ``LogScan.headers()`` gives; returns itself.

        Raises
        ------
        SegstoreError
            The log, or a marker in it, is damaged.
        """
        for segment, headers in tables:
            has_producer = (headers["magic"] == CURRENT_MAGIC) & (headers["producer_id"] >= 0)
            attributes = headers["attributes"]
            is_marked = has_producer & (attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG) != 0)
            newest = _newest_of_each(headers, has_producer & ~is_marked)
            for row in np.union1d(newest, np.flatnonzero(is_marked)):
                header = headers[row]
                batch = ProducerBatch(*(header[name].item() for name in ProducerBatch._fields))
                self._take_batch(segment, batch, header["base_timestamp"].item())
        return self

    def _take_batch(self, segment: Segment, batch: ProducerBatch, base_timestamp: int) -> None:
        producer = self.producers.setdefault(batch.producer_id, Producer(batch.producer_id))
        if batch.is_control:
            self._take_marker(segment, batch, producer)
            return
        producer.producer_epoch = batch.producer_epoch
        producer.last_timestamp = batch.max_timestamp
        producer.last_offset = batch.last_offset
        producer.last_sequence = NO_SEQUENCE
        if batch.base_sequence != NO_SEQUENCE:
            count = batch.last_offset - batch.base_offset
            producer.last_sequence = increment_sequence(batch.base_sequence, count)
        if not batch.is_transactional:
            return
        if producer.transaction is None:
            producer.transaction = Transaction(
                batch.producer_id,
                batch.producer_epoch,
                batch.base_offset,
                base_timestamp,
                batch.max_timestamp,
            )
            self.transactions.append(producer.transaction)
        producer.transaction.last_timestamp = batch.max_timestamp

    def _take_marker(self, segment: Segment, batch: ProducerBatch, producer: Producer) -> None:
        marker = self._marker(segment, batch)
        if marker is None:
            return
        if batch.producer_epoch != producer.producer_epoch:
            producer.last_sequence = NO_SEQUENCE
        producer.producer_epoch = batch.producer_epoch
        producer.last_timestamp = batch.max_timestamp
        producer.coordinator_epoch = marker.coordinator_epoch
        transaction, producer.transaction = producer.transaction, None
        if transaction is None:
            return  # its records were deleted, or there were none
        is_commit = marker.type is ControlRecordType.COMMIT
        transaction.state = COMPLETE_COMMIT if is_commit else COMPLETE_ABORT
        transaction.last_offset = batch.base_offset
        transaction.last_timestamp = batch.max_timestamp
        transaction.coordinator_epoch = marker.coordinator_epoch

    def _marker(self, segment: Segment, batch: ProducerBatch) -> EndTransactionMarker | None:
        """Return what a control batch says, None where it is not about a transaction [PSM-16]."""
        for record in control_records(segment, batch, self.codecs):
            try:
                return parse_end_transaction_marker(record.key, record.value)
            except IllegalArgumentError:
                return None  # of another kind
        return None  # compaction took the record


def _newest_of_each(headers: BatchHeaders, wanted: np.ndarray) -> np.ndarray:
    """Rows of the last batch of each producer id among *wanted*, ascending."""
    rows = np.flatnonzero(wanted)[::-1]
    _, first = np.unique(headers["producer_id"][rows], return_index=True)
    return np.sort(rows[first])
