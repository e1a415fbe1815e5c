"""A partition's log as Python lists: records, transactions, producers, epochs; no engine code.

What a reader sees is worked out from the batches anew each time, so plain that it is right at
sight. Only what Kafka keeps besides the batches is kept here: offsets, leader epochs, producers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.kits.log_oracle_producer import OracleProducer, Transaction

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.kits.log_oracle_producer import OracleBatch
    from tests.kits.oracle import OracleRecord


@dataclass
class OracleLog:
    """A log; batches below the log start stay in the list until a truncation takes them."""

    is_replicated: bool = False
    producer_expiration_ms: int = 86_400_000
    batches: list[OracleBatch] = field(default_factory=list)
    log_start: int = 0
    log_end: int = 0
    moved_high_watermark: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)
    producers: dict[int, OracleProducer] = field(default_factory=dict)
    expired: set[int] = field(default_factory=set)
    """Producers that were forgotten at some time, though their batches are there."""

    # ---- what a reader sees ----------------------------------------------------------------------

    @property
    def high_watermark(self) -> int:
        return self.moved_high_watermark if self.is_replicated else self.log_end

    def high_watermarks(self) -> set[int]:
        """Return where the high watermark may be."""
        return {self.high_watermark}

    @property
    def data_end(self) -> int:
        """Where a log that is opened again goes on at the earliest."""
        ends = [batch.last_offset + 1 for batch in self.batches]
        return max(self.log_start, *ends, 0)

    def records(self, start: int | None = None, end: int | None = None) -> list[OracleRecord]:
        low = max(self.log_start, self.log_start if start is None else start)
        high = self.log_end if end is None else end
        data = (batch for batch in self.batches if not batch.marker)
        return [record for batch in data for record in batch.records if low <= record.offset < high]

    def visible(self, bound: int, start: int | None = None) -> list[OracleRecord]:
        """Return the records of batches that end below *bound*: none is shown in part [LOC-6]."""
        ends = (b.last_offset + 1 for b in self.batches if b.last_offset < bound)
        return self.records(start, max(ends, default=0))

    def committed(self, last_stable_offset: int, start: int | None = None) -> list[OracleRecord]:
        """Return those of them that no aborted transaction wrote."""
        aborted = {
            record.offset
            for one in self.transactions()
            if one.is_aborted
            for batch in one.batches
            for record in batch.records
        }
        found = self.visible(last_stable_offset, start)
        return [record for record in found if record.offset not in aborted]

    def transactions(self) -> Iterator[Transaction]:
        under_way: dict[int, list[OracleBatch]] = {}
        for batch in self.batches:
            if batch.marker:
                data = under_way.pop(batch.producer_id, None)
                if data is not None:
                    yield _transaction(data, batch)
            elif batch.is_transactional:
                under_way.setdefault(batch.producer_id, []).append(batch)
        for data in under_way.values():
            yield _transaction(data)

    def last_stable_offsets(self, high_watermark: int) -> set[int]:
        """Return where committed data may end.

        A transaction whose first batches are deleted begins at the log start, or where its data
        begins that is left, or nowhere. One that ended above the high watermark may be stable: an
        open, a truncation or a high watermark that goes back forgets it [LSO-1].
        """
        found = {high_watermark}
        for one in self.transactions():
            if one.end_offset is not None and one.end_offset < high_watermark:
                continue
            visible = [b.base_offset for b in one.batches if b.last_offset >= self.log_start]
            starts = {max(one.first_offset, self.log_start)}
            if one.first_offset < self.log_start:
                starts.add(max(visible[0], self.log_start) if visible else high_watermark)
            if self.may_be_decided(one):
                starts.add(high_watermark)
            found = {min(known, start) for known in found for start in starts}
        return found

    def may_be_decided(self, transaction: Transaction) -> bool:
        """Whether one that ended above the high watermark may count as ended all the same."""
        return transaction.end_offset is not None

    def offset_for_timestamp(self, timestamp: int) -> int | None:
        every = (record for batch in self.batches for record in batch.records)
        late = (r for r in every if r.offset >= self.log_start and r.timestamp >= timestamp)
        return next((record.offset for record in late), None)

    def offset_of_max_timestamp(self, first_segment: int) -> int:
        """Return the first of the youngest records in the files, -1 for none [TS-3]."""
        every = [r for batch in self.batches for r in batch.records if r.offset >= first_segment]
        youngest = max(every, key=lambda record: record.timestamp, default=None)
        return -1 if youngest is None else youngest.offset

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """Return Kafka's answer to OffsetsForLeaderEpoch [EPC-5]."""
        if not self.epochs:
            return None
        if epoch == self.epochs[-1][0]:
            return epoch, self.log_end
        later = [start for known, start in self.epochs if known > epoch]
        if not later:
            return None
        floors = [known for known, _ in self.epochs if known <= epoch]
        return (floors[-1] if floors else epoch), later[0]

    # ---- appends ---------------------------------------------------------------------------------

    @property
    def latest_epoch(self) -> int | None:
        return self.epochs[-1][0] if self.epochs else None

    def note_epoch(self, epoch: int, start: int) -> None:
        if self.latest_epoch is None or epoch > self.latest_epoch:
            self.epochs = [one for one in self.epochs if one[1] < start] + [(epoch, start)]

    def append(self, batch: OracleBatch) -> None:
        assert batch.base_offset >= self.log_end
        self.batches.append(batch._replace(leader_epoch=self.latest_epoch))
        self.log_end = batch.last_offset + 1
        if batch.producer_id >= 0:
            self.producers.setdefault(batch.producer_id, OracleProducer()).take(batch)

    def move_high_watermark(self, offset: int) -> None:
        self.moved_high_watermark = offset

    # ---- ends that move --------------------------------------------------------------------------

    def truncate_to(self, offset: int, first_segment: int, now_ms: int) -> bool:
        """Take whole batches, from the one that holds *offset* on [TRU-2, TRU-5]."""
        if offset >= self.log_end:  # an epoch that begins at the end goes all the same [TRU-1]
            self.epochs = [one for one in self.epochs if one[1] < self.log_end]
            return False
        if offset < first_segment:
            self.truncate_fully_and_start_at(offset)
            return True
        self.batches = [batch for batch in self.batches if batch.last_offset < offset]
        self.log_end = offset
        self.log_start = min(self.log_start, offset)
        self.moved_high_watermark = min(self.moved_high_watermark, offset)
        self.epochs = [one for one in self.epochs if one[1] < offset]
        self.rebuild_producers(now_ms)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.batches, self.epochs, self.producers, self.expired = [], [], {}, set()
        self.log_start = self.log_end = self.moved_high_watermark = offset

    def increment_log_start(self, offset: int) -> None:
        """Move the log start; the epoch in which it lies begins there from now on [EPC-4]."""
        if offset <= self.log_start:
            return
        self.log_start = offset
        self.moved_high_watermark = max(self.moved_high_watermark, offset)
        self.cut_epochs_at_start()

    def cut_epochs_at_start(self) -> None:
        before = [epoch for epoch, start in self.epochs if start <= self.log_start]
        after = [one for one in self.epochs if one[1] > self.log_start]
        self.epochs = [(before[-1], self.log_start), *after] if before else after

    def reopen(self, log_end: int, now_ms: int) -> None:
        """Begin again at *log_end*: what follows the last record is not written anywhere."""
        assert self.data_end <= log_end <= self.log_end
        self.log_end = log_end
        self.moved_high_watermark = self.log_start
        self.epochs = [one for one in self.epochs if one[1] < log_end]
        self.rebuild_producers(now_ms)

    # ---- producers -------------------------------------------------------------------------------

    @property
    def gone_producers(self) -> set[int]:
        """Those that nobody knows any more."""
        return self.expired - self.producers.keys()

    def expire_producers(self, now_ms: int) -> set[int]:
        """Forget those that are silent; returns them. Who is uncertain may be forgotten already."""
        gone = {
            id_
            for id_, one in self.producers.items()
            if one.is_certain and one.is_silent(now_ms, self.producer_expiration_ms)
        }
        for id_ in gone:
            del self.producers[id_]
        self.expired |= gone
        return gone

    def rebuild_producers(self, now_ms: int) -> None:
        """Read the producers from the batches; what lies below the log start may be forgotten.

        So may all but the newest batch of each: a snapshot has no more; and what lies before a
        silence [PSM-56].
        """
        forgotten = {id_ for id_, producer in self.producers.items() if not producer.is_certain}
        self.producers = {}
        for batch in self.batches:
            if batch.producer_id >= 0:
                self.producers.setdefault(batch.producer_id, OracleProducer()).take(batch)
        for id_, producer in self.producers.items():
            del producer.batches[:-1]
            producer.is_certain = (
                id_ not in forgotten | self.expired
                and producer.first_trace >= self.log_start
                and not producer.was_silent(now_ms, self.producer_expiration_ms)
            )

    # ---- retention -------------------------------------------------------------------------------

    def largest_timestamp(self, base: int, end: int) -> int | None:
        """Return that of the batches of a segment, None for an empty one."""
        inside = [batch for batch in self.batches if base <= batch.base_offset < end]
        return max((batch.max_timestamp for batch in inside), default=None)


def _transaction(data: Sequence[OracleBatch], end: OracleBatch | None = None) -> Transaction:
    return Transaction(
        data[0].producer_id,
        data[0].base_offset,
        None if end is None else end.base_offset,
        end is not None and end.marker == "abort",
        tuple(data),
    )
