"""Producers as others want to see them (Kafka ``UnifiedLog.activeProducers`` and its like).

Asked for by the owner of the log's append lock. Source: [PSM-75].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from segstore.log.producers.producer_state_manager import ProducerStateManager


class ActiveProducer(NamedTuple):
    """A line of Kafka's DescribeProducers answer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    """Of the newest batch, -1 without one."""
    last_timestamp: int
    """Of the newest batch or marker, in ms."""
    coordinator_epoch: int
    current_txn_start_offset: int
    """Of the open transaction, -1 without one."""


class LastRecord(NamedTuple):
    """Up to where a producer wrote (Kafka ``LastRecord``): compaction keeps that batch."""

    last_data_offset: int | None
    producer_epoch: int


def active_producers(state: ProducerStateManager) -> list[ActiveProducer]:
    """Return all producers."""
    return [
        ActiveProducer(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_seq,
            entry.last_timestamp,
            entry.coordinator_epoch,
            -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset,
        )
        for entry in state.active_producers.values()
    ]


def last_records_of_active_producers(state: ProducerStateManager) -> dict[int, LastRecord]:
    """Return the newest data offset and the epoch of each producer id."""
    return {
        producer_id: LastRecord(
            entry.last_data_offset if entry.last_data_offset >= 0 else None, entry.producer_epoch
        )
        for producer_id, entry in state.active_producers.items()
    }
