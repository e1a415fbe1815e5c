"""A producer as the vectors describe it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segstore.log.producers.producer_state_entry import (
    BatchMetadata,
    ProducerStateEntry,
    remembered,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


def describe_batch_metadata(batch: BatchMetadata) -> dict[str, int]:
    return {
        "first_seq": batch.first_seq,
        "last_seq": batch.last_seq,
        "first_offset": batch.first_offset,
        "last_offset": batch.last_offset,
        "timestamp": batch.timestamp,
    }


def describe_producer(entry: ProducerStateEntry) -> dict[str, Any]:
    return {
        "producer_id": entry.producer_id,
        "producer_epoch": entry.producer_epoch,
        "coordinator_epoch": entry.coordinator_epoch,
        "last_timestamp": entry.last_timestamp,
        "current_txn_first_offset": entry.current_txn_first_offset,
        "batches": [describe_batch_metadata(batch) for batch in entry.batch_metadata],
    }


def describe_producers(entries: Iterable[ProducerStateEntry]) -> list[dict[str, Any]]:
    """Describe them in an order that does not depend on who kept them."""
    described = [describe_producer(entry) for entry in entries]
    return sorted(described, key=lambda producer: producer["producer_id"])


def producer_from(described: dict[str, Any]) -> ProducerStateEntry:
    """Make the entry that the vectors describe."""
    return ProducerStateEntry(
        described["producer_id"],
        described["producer_epoch"],
        described["coordinator_epoch"],
        described["last_timestamp"],
        described["current_txn_first_offset"],
        remembered(
            BatchMetadata(
                batch["last_seq"],
                batch["last_offset"],
                batch["last_offset"] - batch["first_offset"],
                batch["timestamp"],
            )
            for batch in described["batches"]
        ),
    )
