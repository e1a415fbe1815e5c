"""Producers of a log in Kafka's tests: their batches, their markers, and what is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import encode_end_transaction_marker
from segstore.types import AppendOrigin
from tests.kits.log_kit import TIME, batch

if TYPE_CHECKING:
    from segstore import UnifiedLog
    from segstore.types import LogAppendInfo

NO_VERSION = 0
"""Of transactions before KIP-890."""


class Producer:
    """A producer of one log: counts its sequences, and begins and ends its transactions.

    Parameters
    ----------
    log : UnifiedLog
        To which it writes as to a leader.
    pid, epoch, sequence : int
        What its next batch bears.
    """

    def __init__(self, log: UnifiedLog, pid: int, epoch: int = 0, sequence: int = 0) -> None:
        self.log = log
        self.pid = pid
        self.epoch = epoch
        self.sequence = sequence

    def records(self, count: int, *, transactional: bool, timestamp: int = TIME) -> bytes:
        """The next batch."""
        data = sequenced(
            self.pid,
            self.epoch,
            self.sequence,
            count,
            transactional=transactional,
            timestamp=timestamp,
        )
        self.sequence += count
        return data

    def write(self, count: int = 1, *, timestamp: int = TIME) -> LogAppendInfo:
        """Append an idempotent batch."""
        return self.log.append_as_leader(
            self.records(count, transactional=False, timestamp=timestamp), 0
        )

    def write_in_transaction(self, count: int = 1, *, timestamp: int = TIME) -> LogAppendInfo:
        """Append a batch of the open transaction, or of a new one."""
        return self.log.append_as_leader(
            self.records(count, transactional=True, timestamp=timestamp), 0
        )

    def end(
        self, *, commit: bool, coordinator_epoch: int = 0, timestamp: int = TIME
    ) -> LogAppendInfo:
        """Append the marker, as the transaction's coordinator."""
        return end_transaction(
            self.log,
            self.pid,
            self.epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            timestamp=timestamp,
        )

    def commit(self) -> LogAppendInfo:
        return self.end(commit=True)

    def abort(self) -> LogAppendInfo:
        return self.end(commit=False)


def sequenced(  # noqa: PLR0913 - the header of a batch
    pid: int,
    epoch: int,
    sequence: int,
    count: int = 1,
    *,
    transactional: bool = False,
    timestamp: int = TIME,
    base_offset: int | None = None,
) -> bytes:
    """A batch of a producer, as it is sent or, with a base offset, as a follower gets it."""
    place = {} if base_offset is None else {"base_offset": base_offset, "epoch": 0}
    return batch(
        [(None, b"value")] * count,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
        timestamp=timestamp,
        **place,
    )


def end_transaction(  # noqa: PLR0913 - a marker
    log: UnifiedLog,
    pid: int,
    epoch: int,
    *,
    commit: bool,
    coordinator_epoch: int = 0,
    timestamp: int = TIME,
    transaction_version: int = NO_VERSION,
) -> LogAppendInfo:
    """Append a marker, as a coordinator does."""
    marker = encode_end_transaction_marker(
        0, timestamp, 0, pid, epoch, commit=commit, coordinator_epoch=coordinator_epoch
    )
    return log.append_as_leader(
        marker, 0, origin=AppendOrigin.COORDINATOR, transaction_version=transaction_version
    )


def write_plain(log: UnifiedLog, count: int = 1) -> LogAppendInfo:
    """Append a batch that is nobody's."""
    return log.append_as_leader(batch([(None, b"value")] * count), 0)


def write_scripted_transactions(log: UnifiedLog) -> None:
    """Append offsets 0 to 89 of table T-14: transactions of four producers, interleaved."""
    p1, p2, p3, p4 = (Producer(log, pid) for pid in (1, 2, 3, 4))
    p1.write_in_transaction(5)
    write_plain(log, 3)
    p2.write_in_transaction(2)
    p1.write_in_transaction(4)
    p3.write_in_transaction(3)
    write_plain(log, 2)
    p1.write_in_transaction(10)
    p1.abort()
    p2.write_in_transaction(6)
    p4.write_in_transaction(3)
    write_plain(log, 10)
    p3.write_in_transaction(9)
    p3.commit()
    p4.write_in_transaction(8)
    p2.write_in_transaction(7)
    p2.abort()
    write_plain(log, 10)
    p4.write_in_transaction(4)
    p4.commit()


def producers_of(log: UnifiedLog) -> dict[int, int]:
    """Last sequence of each producer that the log knows."""
    return {one.producer_id: one.last_sequence for one in log.active_producers()}


def remember(log: UnifiedLog) -> None:
    """Let no producer expire, however old the records of a test are."""
    log._producers.config.producer_id_expiration_ms = 2**62


def follow(log: UnifiedLog) -> int:
    """Move the high watermark to the log end: everybody has everything."""
    return log.update_high_watermark(log.log_end_offset)
