"""Remote storage and its metadata in memory; a test may stand between any call and what it does."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import segstore
from segstore.config.log_config import LogConfig
from segstore.errors import RemoteResourceNotFoundError
from segstore.log.files.profile import Profile
from segstore.remote.log_manager.remote_log_manager import RemoteLogManager
from segstore.remote.log_manager.remote_log_manager_config import RemoteLogManagerConfig
from segstore.remote.log_manager.remote_log_task import RemoteLogParts
from segstore.remote.log_manager.remote_quota import RemoteQuota
from segstore.remote.metadata.remote_log_metadata_cache import RemoteLogMetadataCache
from segstore.remote.metadata.segment_metadata import TopicIdPartition
from segstore.remote.storage.remote_storage_manager import IndexType
from segstore.types import TopicPartition
from tests.kits.remote_kit import TIERED, RemoteRecords

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from uuid import UUID

    from segstore.log.unified_log import UnifiedLog
    from segstore.remote.metadata.segment_metadata import (
        RemoteLogSegmentMetadata,
        RemoteLogSegmentMetadataUpdate,
        RemoteLogSegmentState,
        RemotePartitionDeleteMetadata,
    )
    from segstore.remote.storage.remote_storage_manager import LogSegmentData

PARTITION = TopicIdPartition(uuid.UUID(int=1), TopicPartition("topic", 0))
NOW_MS = 1_700_000_000_000

Action = Callable[[], Any]
Intercept = Callable[[str, Action, Any], Any]
"""Takes the name of a call, what it does, and what it is about; returns what it returns."""


def pass_on(_: str, action: Action, __: Any) -> Any:
    """Do what the call does."""
    return action()


class MemoryRemoteStorage:
    """Keeps the bytes of segments by their ids: ``log``, and one entry for each kind of index."""

    def __init__(self) -> None:
        self.segments: dict[UUID, dict[str, bytes]] = {}
        self.intercept: Intercept = pass_on
        self.close_count = 0

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        return self.intercept("copy", lambda: self._copy(metadata, data), (metadata, data))

    def _copy(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> None:
        files = {
            "log": Path(data.log_segment).read_bytes(),
            IndexType.OFFSET: Path(data.offset_index).read_bytes(),
            IndexType.TIMESTAMP: Path(data.time_index).read_bytes(),
            IndexType.PRODUCER_SNAPSHOT: Path(data.producer_snapshot_index).read_bytes(),
            IndexType.LEADER_EPOCH: data.leader_epoch_index,
        }
        if data.transaction_index is not None:
            files[IndexType.TRANSACTION] = Path(data.transaction_index).read_bytes()
        self.segments[metadata.segment_id.id] = files

    def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> bytes:
        return self.intercept(
            "fetch_log",
            lambda: self._file(metadata, "log")[start_position:end_position],
            metadata,
        )

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        return self.intercept("fetch_index", lambda: self._file(metadata, index_type), metadata)

    def _file(self, metadata: RemoteLogSegmentMetadata, name: str) -> bytes:
        try:
            return self.segments[metadata.segment_id.id][name]
        except KeyError:
            raise RemoteResourceNotFoundError("not there", found=name, expected="it") from None

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        self.intercept("delete", lambda: self.segments.pop(metadata.segment_id.id, None), metadata)

    def close(self) -> None:
        self.close_count += 1


class MemoryRemoteLogMetadata:
    """A `RemoteLogMetadataManager` of one cache a partition."""

    def __init__(self) -> None:
        self.caches: dict[TopicIdPartition, RemoteLogMetadataCache] = {}
        self.intercept: Intercept = pass_on
        self.ready = True
        self.close_count = 0
        self.stopped: list[TopicIdPartition] = []
        self.deletions: list[RemotePartitionDeleteMetadata] = []

    def cache(self, partition: TopicIdPartition) -> RemoteLogMetadataCache:
        found = self.caches.get(partition)
        if found is None:
            found = self.caches[partition] = RemoteLogMetadataCache()
            found.mark_initialized()
        return found

    def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        cache = self.cache(metadata.segment_id.topic_id_partition)
        self.intercept("add", lambda: cache.add_copy_in_progress_segment(metadata), metadata)

    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        self.intercept("update", lambda: self._update(update), update)

    def _update(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        cache = self.cache(update.segment_id.topic_id_partition)
        if cache.segment(update.segment_id.id) is not None:  # else it is deleted already
            cache.update_remote_log_segment_metadata(update)

    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        return self.cache(partition).remote_log_segment_metadata(leader_epoch, offset)

    def highest_offset_for_epoch(
        self, partition: TopicIdPartition, leader_epoch: int
    ) -> int | None:
        cache = self.cache(partition)
        found = self.intercept(
            "highest", lambda: cache.highest_offset_for_epoch(leader_epoch), leader_epoch
        )
        assert found is None or isinstance(found, int)
        return found

    def list_remote_log_segments(
        self, partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        cache = self.cache(partition)
        name = "list" if leader_epoch is None else "list_epoch"
        found = self.intercept(
            name, lambda: list(cache.list_remote_log_segments(leader_epoch)), leader_epoch
        )
        return iter(found)

    def remote_log_size(self, partition: TopicIdPartition, leader_epoch: int) -> int:
        return self.cache(partition).remote_log_size(leader_epoch)

    def next_segment_with_transaction_index(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        return self.cache(partition).next_segment_with_transaction_index(leader_epoch, offset)

    def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> None:
        self.deletions.append(metadata)

    def is_ready(self, partition: TopicIdPartition) -> bool:
        del partition
        return self.ready

    def on_partition_leadership_changes(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        for partition in (*leaders, *followers):
            self.cache(partition)

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        self.stopped += partitions

    def close(self) -> None:
        self.close_count += 1


def new_parts(
    storage: MemoryRemoteStorage,
    metadata: MemoryRemoteLogMetadata,
    clock_ms: Callable[[], int],
    **config: int,
) -> RemoteLogParts:
    """Return what tasks share, without limits of bytes a second."""
    settings = RemoteLogManagerConfig(**config)
    quota = RemoteQuota(
        settings.copy_max_bytes_per_second,
        settings.copy_quota_window_num,
        settings.copy_quota_window_size_seconds,
        clock_ms,
    )
    return RemoteLogParts(
        storage=storage,
        metadata=metadata,
        broker_id=1,
        clock_ms=clock_ms,
        config=settings,
        copy_quota=quota,
    )


def states_of(
    metadata: MemoryRemoteLogMetadata, partition: TopicIdPartition
) -> list[tuple[int, int, RemoteLogSegmentState]]:
    """Return the start, the end and the state of all segments, by start offset."""
    listed = metadata.cache(partition).list_remote_log_segments()
    return [(one.start_offset, one.end_offset, one.state) for one in listed]


class Copying:
    """A log of three segments of ten records, the last one active, and its manager."""

    def __init__(self, path: Path, recovery: str = "safe", **config: int) -> None:
        self.storage, self.metadata = MemoryRemoteStorage(), MemoryRemoteLogMetadata()
        self.now_ms = NOW_MS
        self.manager = RemoteLogManager(
            self.storage,
            self.metadata,
            None,
            broker_id=1,
            clock_ms=lambda: self.now_ms,
            config=RemoteLogManagerConfig(**config),
        )
        self.log: UnifiedLog = self.open(path / "a" / "topic-0", recovery)
        self.manager.on_leadership_change([self.log], [])

    def open(self, path: Path, recovery: str = "safe") -> UnifiedLog:
        path.parent.mkdir(exist_ok=True)
        log = segstore.open(
            path,
            config=LogConfig(**TIERED),
            topic_id=PARTITION.topic_id,
            remote_log_reader=RemoteRecords(),
            recovery=recovery,
        )
        for number in range(30):
            log.append([(NOW_MS, b"key", b"value")])
            if number in {9, 19}:
                log.roll()
        if log.profile is Profile.KAFKA:
            log.update_high_watermark(30)
        return log

    def states(self) -> list[tuple[int, int, RemoteLogSegmentState]]:
        return states_of(self.metadata, PARTITION)
