"""Metadata of remote segments for tests, and a topic of them in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from segstore.types import EpochEntry, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

STARTED, FINISHED, DELETING, DELETED = RemoteLogSegmentState
PARTITION = TopicIdPartition(UUID(int=7), TopicPartition("orders", 0))


def added(
    start: int,
    end: int,
    epochs: dict[int, int] | None = None,
    *,
    partition: TopicIdPartition = PARTITION,
    **changed: Any,
) -> RemoteLogSegmentMetadata:
    """Return what is published when the copy of a segment begins; by default of epoch 0."""
    told: dict[str, Any] = {
        "max_timestamp_ms": 1000 + end,
        "broker_id": 1,
        "event_timestamp_ms": 2000,
        "segment_size_bytes": 100,
        "state": STARTED,
    }
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, uuid4()),
        start_offset=start,
        end_offset=end,
        segment_leader_epochs=tuple(
            EpochEntry(*one) for one in ({0: start} if epochs is None else epochs).items()
        ),
        **(told | changed),
    )


def updated(
    metadata: RemoteLogSegmentMetadata,
    state: RemoteLogSegmentState,
    custom_metadata: bytes | None = None,
) -> RemoteLogSegmentMetadataUpdate:
    """Return what is published when that segment goes on to *state*."""
    return RemoteLogSegmentMetadataUpdate(
        segment_id=metadata.segment_id,
        event_timestamp_ms=3000,
        custom_metadata=custom_metadata,
        state=state,
        broker_id=2,
    )


class MemoryTopic:
    """A topic in memory.

    Attributes
    ----------
    records : list of lists of bytes
        Of each partition.
    reads : list of int
        The partitions that were read, one by one.
    fails : str
        ``before``: the next append fails and appends nothing; ``after``: it appends, then fails.
    """

    def __init__(self, partitions_count: int = 1) -> None:
        self.records: list[list[bytes | None]] = [[] for _ in range(partitions_count)]
        self.reads: list[int] = []
        self.fails = ""

    @property
    def partitions_count(self) -> int:
        """How many there are."""
        return len(self.records)

    def append(self, partition: int, value: bytes) -> None:
        """Append a record."""
        fails, self.fails = self.fails, ""
        if fails != "before":
            self.records[partition].append(value)
        if fails:
            raise OSError(fails)

    def values(self, partition: int) -> Iterator[bytes | None]:
        """Yield the records of a partition."""
        self.reads.append(partition)
        yield from self.records[partition]
