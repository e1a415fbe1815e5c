"""What an oracle knows of one producer, and the batches and transactions that tell it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.kits.oracle import OracleRecord

MAX_SEQUENCE = 2**31 - 1
BATCHES_TO_RETAIN = 5


class OracleBatch(NamedTuple):
    """One batch; a marker has one record, that no reader gets, and says how it ends."""

    records: tuple[OracleRecord, ...]
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    marker: str = ""
    coordinator_epoch: int = -1
    leader_epoch: int = -1

    @property
    def base_offset(self) -> int:
        return self.records[0].offset

    @property
    def last_offset(self) -> int:
        return self.records[-1].offset

    @property
    def max_timestamp(self) -> int:
        return max(record.timestamp for record in self.records)

    @property
    def last_sequence(self) -> int:
        return sequence_after(self.base_sequence, len(self.records) - 1)


class Transaction(NamedTuple):
    """First offset and that of the marker, None while it is open; every data batch of it."""

    producer_id: int
    first_offset: int
    end_offset: int | None
    is_aborted: bool
    batches: tuple[OracleBatch, ...]

    def begins(self, log_start: int) -> set[int]:
        """Return where an entry of a transaction index may say that it begins.

        Without what lies below the log start it begins with the first batch that was left, of
        which no reader is to miss any.
        """
        visible = [b.base_offset for b in self.batches if b.last_offset >= log_start]
        latest = visible[0] if visible else self.batches[-1].base_offset
        return {b.base_offset for b in self.batches if b.base_offset <= latest}


@dataclass
class OracleProducer:
    """What is known of a producer; *certain* unless it may have been forgotten with old data."""

    epoch: int = -1
    coordinator_epoch: int = -1
    batches: list[OracleBatch] = field(default_factory=list)
    transaction_start: int | None = None
    last_marker: int | None = None
    last_marker_ms: int = -1
    last_timestamp: int = -1
    is_certain: bool = True

    @property
    def next_sequence(self) -> int:
        return sequence_after(self.batches[-1].last_sequence, 1) if self.batches else 0

    @property
    def first_trace(self) -> int:
        """The first offset that must be there for all of this to be read from the log."""
        traces = [batch.base_offset for batch in self.batches]
        traces += [one for one in (self.transaction_start, self.last_marker) if one is not None]
        return min(traces)

    def is_silent(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether it is to be forgotten [PSM-45]."""
        return self.transaction_start is None and now_ms - self.last_timestamp >= expiration_ms

    def was_silent(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether a snapshot of his may be left out now, and later batches alone be read [PSM-56].

        Who came back after a silence is known by them, and not by what he did before.
        """
        times = [] if self.last_marker is None else [self.last_marker_ms]
        if self.batches and self.transaction_start is None:
            times.append(self.batches[-1].max_timestamp)
        return any(now_ms - one >= expiration_ms for one in times)

    def take(self, batch: OracleBatch) -> None:
        if batch.producer_epoch != self.epoch:
            self.epoch, self.batches = batch.producer_epoch, []
        self.last_timestamp = batch.max_timestamp
        if batch.marker:
            self.coordinator_epoch = batch.coordinator_epoch
            self.transaction_start, self.last_marker = None, batch.base_offset
            self.last_marker_ms = batch.max_timestamp
            return
        self.batches = [*self.batches, batch][-BATCHES_TO_RETAIN:]
        if batch.is_transactional and self.transaction_start is None:
            self.transaction_start = batch.base_offset


def sequence_after(sequence: int, count: int) -> int:
    """Sequence numbers begin again at 0 [PSM-14]."""
    return (sequence + count) % (MAX_SEQUENCE + 1)
