"""What is known of one producer (Kafka ``ProducerStateEntry``, ``BatchMetadata``).

Source: [PSM-1..PSM-4, PSM-20].
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import decrement_sequence
from segstore.types import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore.log.producers.producer_batch import ProducerBatch

BATCHES_TO_RETAIN: Final = 5
"""Kafka's clients have so many requests under way, so that older duplicates cannot come."""
NO_COORDINATOR_EPOCH: Final = -1
NO_OFFSET: Final = -1


class BatchMetadata(NamedTuple):
    """A batch that was appended, as far as a duplicate of it can be known (Kafka's record)."""

    last_seq: int
    last_offset: int
    offset_delta: int
    """Last offset less the first."""
    timestamp: int
    """Largest of the batch, in ms."""

    @property
    def first_seq(self) -> int:
        """Sequence number of the first record; sequences wrap [PSM-2]."""
        return decrement_sequence(self.last_seq, self.offset_delta)

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


def remembered(batches: Iterable[BatchMetadata] = ()) -> deque[BatchMetadata]:
    """Return the newest five of *batches*."""
    return deque(batches, BATCHES_TO_RETAIN)


@dataclass(slots=True)
class ProducerStateEntry:
    """The last batches of one producer, its epochs and its open transaction.

    Attributes
    ----------
    producer_id : int
        0 or more.
    producer_epoch, coordinator_epoch : int
        -1 = none yet.
    last_timestamp : int
        Of the last batch or marker, in ms; -1 = none.
    current_txn_first_offset : int or None
        Where the open transaction begins.
    batch_metadata : deque of BatchMetadata
        Oldest first; of more than five the oldest are dropped.
    """

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = NO_TIMESTAMP
    current_txn_first_offset: int | None = None
    batch_metadata: deque[BatchMetadata] = field(default_factory=remembered)

    # ---- read ------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether no batch is remembered."""
        return not self.batch_metadata

    @property
    def first_seq(self) -> int:
        """First sequence number of the oldest batch, -1 without one [PSM-2]."""
        return NO_SEQUENCE if self.is_empty else self.batch_metadata[0].first_seq

    @property
    def first_data_offset(self) -> int:
        """First offset of the oldest batch, -1 without one."""
        return NO_OFFSET if self.is_empty else self.batch_metadata[0].first_offset

    @property
    def last_seq(self) -> int:
        """Last sequence number of the newest batch, -1 without one."""
        return NO_SEQUENCE if self.is_empty else self.batch_metadata[-1].last_seq

    @property
    def last_data_offset(self) -> int:
        """Last offset of the newest batch, -1 without one."""
        return NO_OFFSET if self.is_empty else self.batch_metadata[-1].last_offset

    @property
    def last_offset_delta(self) -> int:
        """Of the newest batch, 0 without one."""
        return 0 if self.is_empty else self.batch_metadata[-1].offset_delta

    def find_duplicate_batch(self, batch: ProducerBatch) -> BatchMetadata | None:
        """Return the remembered batch of which *batch* is a copy [PSM-20].

        Epoch and both sequence numbers must be the same; a partial overlap is no duplicate.
        """
        if batch.producer_epoch != self.producer_epoch:
            return None
        wanted = batch.base_sequence, batch.last_sequence
        for known in self.batch_metadata:
            if (known.first_seq, known.last_seq) == wanted:
                return known
        return None

    # ---- change ----------------------------------------------------------------------------------

    def add_batch(self, producer_epoch: int, batch: BatchMetadata) -> None:
        """Remember *batch* as the newest; the oldest of five goes [PSM-3]."""
        self.maybe_update_producer_epoch(producer_epoch)
        self.batch_metadata.append(batch)
        self.last_timestamp = batch.timestamp

    def maybe_update_producer_epoch(self, producer_epoch: int) -> bool:
        """Take another epoch over, in which no batch is known yet; says whether it is another."""
        if producer_epoch == self.producer_epoch:
            return False
        self.batch_metadata.clear()
        self.producer_epoch = producer_epoch
        return True

    def update(self, next_entry: ProducerStateEntry) -> None:
        """Become what *next_entry* says happened since; it is left as it is [PSM-4]."""
        self.maybe_update_producer_epoch(next_entry.producer_epoch)
        self.batch_metadata.extend(next_entry.batch_metadata)
        self.coordinator_epoch = next_entry.coordinator_epoch
        self.current_txn_first_offset = next_entry.current_txn_first_offset
        self.last_timestamp = next_entry.last_timestamp

    def end_transaction(self, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """Note a marker: no transaction is open, and another epoch has no batches [PSM-17]."""
        self.maybe_update_producer_epoch(producer_epoch)
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = None
        self.last_timestamp = timestamp

    def copy(self, *, with_batches: bool = True) -> ProducerStateEntry:
        """Return an entry of the same content, or one that knows no batch [PSM-10]."""
        return ProducerStateEntry(
            self.producer_id,
            self.producer_epoch,
            self.coordinator_epoch,
            self.last_timestamp,
            self.current_txn_first_offset,
            remembered(self.batch_metadata if with_batches else ()),
        )
