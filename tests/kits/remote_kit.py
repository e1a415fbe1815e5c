"""Remote storage for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.errors import OffsetOutOfRangeError
from segstore.types import FileTimestampAndOffset

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from segstore.types import EpochEntry, TopicPartition

TIERED = {"remote_storage_enable": True}


class RemoteRecords:
    """A `RemoteLogReader` that knows when its records were made; their bytes it has not.

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

    def read(self, topic_partition: TopicPartition, start_offset: int, *_: object, **__: object):
        raise OffsetOutOfRangeError(
            f"no remote segment of {topic_partition} holds offset {start_offset}",
            found=str(start_offset),
            expected="an offset that is there",
        )

    def aborted_transactions(self, *_: object) -> tuple[()]:
        return ()
