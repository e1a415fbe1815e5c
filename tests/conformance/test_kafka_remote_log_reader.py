"""Kafka's RemoteLogReaderTest, RemoteLogOffsetReaderTest, and what RemoteLogManagerTest reads.

Kafka reads on threads of its own and gives results to callbacks. Here the caller's thread reads: an
error is raised in it, and there is no queue that may be full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory
from segstore.errors import OffsetOutOfRangeError, RemoteStorageError
from segstore.records.memory_records import MemoryRecords
from segstore.remote.log_manager.remote_index_cache import RemoteIndexCache
from segstore.remote.log_manager.remote_log_reader import RemoteStorageReader
from segstore.remote.metadata.segment_metadata import RemoteLogSegmentState
from segstore.types import EpochEntry, LogOffsetMetadata
from tests.kits.remote_storage import (
    PARTITION,
    MemoryRemoteMetadata,
    MemoryRemoteStorage,
    put_segment,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from segstore.log.remote_tier import RemoteRead
    from segstore.types import FileTimestampAndOffset

NOW = 1_700_000_000_000
EPOCHS = [EpochEntry(4, 99), EpochEntry(5, 99), EpochEntry(10, 120), EpochEntry(12, 500)]
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED


class Remote:
    """A storage and what reads it."""

    def __init__(self, folder: Path) -> None:
        self.directory = Directory(str(folder))
        self.storage, self.metadata = MemoryRemoteStorage(), MemoryRemoteMetadata()
        self.cache = RemoteIndexCache(self.directory, self.storage, clock_ms=lambda: 0)
        self.reader = RemoteStorageReader(
            self.storage, self.metadata, self.cache, lambda _: PARTITION.topic_id
        )

    def put(
        self,
        start: int,
        timestamps: list[int],
        *,
        epoch: int = 0,
        end: int | None = None,
        state: RemoteLogSegmentState = FINISHED,
    ) -> None:
        """Put a segment of batches with one record each."""
        batches = [
            bytes(
                MemoryRecords.with_records(
                    [(timestamp, None, b"value")],
                    base_offset=offset,
                    partition_leader_epoch=epoch,
                ).data
            )
            for offset, timestamp in enumerate(timestamps, start)
        ]
        epochs = ((epoch, start),)
        segment = put_segment(self.storage, batches, end_offset=end, epochs=epochs, state=state)
        self.metadata.add(segment)

    def find(self, timestamp: int, offset: int = 99) -> FileTimestampAndOffset | None:
        return self.reader.find_offset_by_timestamp(
            PARTITION.topic_partition, timestamp, offset, EPOCHS
        )

    def read(self, offset: int, *, is_committed: bool = False) -> RemoteRead:
        return self.reader.read(
            PARTITION.topic_partition,
            offset,
            1000,
            min_one_message=True,
            leader_epochs=[EpochEntry(0, 0)],
            is_committed=is_committed,
            local_aborted_transactions=lambda *_: (),
        )


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Remote]:
    made = Remote(tmp_path)
    yield made
    made.cache.close()
    made.directory.close()


def test_find_offset_by_timestamp(remote: Remote):
    """[TIER-71] RemoteLogManagerTest.testFindOffsetByTimestamp."""
    remote.put(120, [NOW - 1, NOW + 1, NOW + 2], epoch=10)

    assert remote.find(NOW) == (NOW + 1, 121, 10)
    assert remote.find(NOW + 2) == (NOW + 2, 122, 10)
    assert remote.find(NOW + 3) is None


def test_find_offset_by_timestamp_with_segment_not_ready(remote: Remote):
    """[TIER-71] [TIER-23] RemoteLogManagerTest.testFindOffsetByTimestampWithSegmentNotReady."""
    remote.put(120, [NOW - 1, NOW + 1, NOW + 2], epoch=10, state=STARTED)

    assert remote.find(NOW) is None
    assert not remote.storage.asked


@pytest.mark.parametrize("is_committed", [False, True])
def test_read_for_missing_first_batch_in_remote(remote: Remote, *, is_committed: bool):
    """[TIER-66] RemoteLogManagerTest.testReadForMissingFirstBatchInRemote."""
    remote.put(0, [NOW] * 3, end=20)

    found = remote.read(10, is_committed=is_committed)

    assert (bytes(found.records), found.offset_metadata) == (b"", LogOffsetMetadata(10))
    assert found.aborted_transactions == ([] if is_committed else None)


def test_read_for_first_batch_in_log_compaction(remote: Remote):
    """[TIER-66] [TIER-68] RemoteLogManagerTest.testReadForFirstBatchInLogCompaction."""
    remote.put(0, [NOW] * 3, end=20)
    remote.put(21, [NOW + 1, NOW + 2])

    found = remote.read(10)

    assert found.records
    assert found.offset_metadata == LogOffsetMetadata(21, 21, 0)


def test_remote_log_reader_with_error(remote: Remote):
    """[TIER-70] RemoteLogReaderTest.testRemoteLogReaderWithError: an error of one read."""
    remote.put(0, [NOW] * 3)

    def fail(_: str) -> None:
        raise RemoteStorageError("injected")

    remote.storage.before = fail
    with pytest.raises(RemoteStorageError, match="injected"):
        remote.read(0)
    remote.storage.before = None
    assert remote.read(0).records


def test_an_offset_out_of_range_is_no_failed_read(remote: Remote):
    """[TIER-70] [TIER-65] RemoteLogReader: its class tells it from a failure of the storage."""
    remote.put(0, [NOW] * 3)

    with pytest.raises(OffsetOutOfRangeError) as caught:
        remote.read(3)
    assert not isinstance(caught.value, RemoteStorageError)


def test_read_remote_log(remote: Remote):
    """[TIER-71] RemoteLogOffsetReaderTest.testReadRemoteLog: timestamp, offset and epoch."""
    remote.put(120, [NOW], epoch=10)

    assert remote.find(0) == (NOW, 120, 10)


def test_throw_error_on_find_offset_by_timestamp(remote: Remote):
    """[TIER-70] RemoteLogOffsetReaderTest.testThrowErrorOnFindOffsetByTimestamp."""
    remote.put(120, [NOW], epoch=10)

    def fail(_: str) -> None:
        raise RemoteStorageError("injected")

    remote.storage.before = fail
    with pytest.raises(RemoteStorageError, match="injected"):
        remote.find(NOW)
