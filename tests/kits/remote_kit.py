"""Remote storage for tests: it knows when its records were made, and who asked for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.types import FileTimestampAndOffset

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from segstore.types import EpochEntry, TopicPartition

TIERED = {"remote_storage_enable": True}


class RemoteRecords:
    """A `RemoteOffsetReader` over records that the test says are there.

    Parameters
    ----------
    records : iterable of (timestamp, offset, leader epoch)
        In the order of their offsets.
    """

    def __init__(self, records: Iterable[tuple[int, int, int]] = ()) -> None:
        self.records = [FileTimestampAndOffset(*one) for one in records]
        self.asked: list[tuple[TopicPartition, int, int, Sequence[EpochEntry]]] = []

    def find_offset_by_timestamp(
        self,
        topic_partition: TopicPartition,
        timestamp: int,
        starting_offset: int,
        leader_epochs: Sequence[EpochEntry],
    ) -> FileTimestampAndOffset | None:
        self.asked.append((topic_partition, timestamp, starting_offset, leader_epochs))
        for one in self.records:
            if one.timestamp >= timestamp and one.offset >= starting_offset:
                return one
        return None
