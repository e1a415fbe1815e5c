"""Remote storage in memory, which counts what it is asked for and fails when it is told to.

And what is known of its segments.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from segstore._core import scan_headers
from segstore.errors import RemoteResourceNotFoundError
from segstore.remote.metadata.remote_log_metadata_cache import RemoteLogMetadataCache
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from segstore.remote.storage.remote_storage_manager import IndexType
from segstore.types import EpochEntry, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from segstore.log.local.transaction_index import AbortedTransaction
    from segstore.remote.storage.remote_storage_manager import LogSegmentData

LOG = "log"
PARTITION = TopicIdPartition(UUID(int=7), TopicPartition("orders", 0))


@dataclass
class MemoryRemoteStorage:
    """A `RemoteStorageManager` whose objects are bytes in a table.

    Attributes
    ----------
    objects : dict
        By segment id: ``log`` and the index types, each with its bytes.
    asked : Counter
        How often for what: ``log``, an index type, ``copy`` or ``delete``.
    ranges : list
        Positions of each request for a part of a segment.
    before : callable or None
        Called with the same word before each answer; what it raises is the answer.
    custom_metadata : bytes or None
        What each copy returns.
    """

    objects: dict[UUID, dict[str, bytes]] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    before: Callable[[str], None] | None = None
    custom_metadata: bytes | None = None
    is_closed: bool = False

    def __post_init__(self) -> None:
        self._lock = Lock()

    def _asked_for(self, what: str) -> None:
        with self._lock:
            self.asked[what] += 1
        if self.before is not None:
            self.before(what)

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        self._asked_for("copy")
        paths = {
            LOG: data.log_segment,
            IndexType.OFFSET: data.offset_index,
            IndexType.TIMESTAMP: data.time_index,
            IndexType.TRANSACTION: data.transaction_index,
            IndexType.PRODUCER_SNAPSHOT: data.producer_snapshot_index,
        }
        copied = {key: Path(path).read_bytes() for key, path in paths.items() if path is not None}
        copied[IndexType.LEADER_EPOCH] = data.leader_epoch_index
        self.objects[metadata.segment_id.id] = copied
        return self.custom_metadata

    def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> memoryview:
        self._asked_for(LOG)
        self.ranges.append((start_position, end_position))
        return memoryview(self._object(metadata, LOG))[start_position:end_position]

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        self._asked_for(index_type)
        return self._object(metadata, index_type)

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        self._asked_for("delete")
        self.objects.pop(metadata.segment_id.id, None)

    def close(self) -> None:
        self.is_closed = True

    def _object(self, metadata: RemoteLogSegmentMetadata, what: str) -> bytes:
        found = self.objects.get(metadata.segment_id.id, {}).get(what)
        if found is None:
            raise RemoteResourceNotFoundError(
                f"there is no {what} of {metadata.segment_id.id}", found="none", expected=what
            )
        return found


class MemoryRemoteMetadata:
    """What a reader asks a `RemoteLogMetadataManager`, answered by the cache of one partition."""

    def __init__(self, *segments: RemoteLogSegmentMetadata) -> None:
        self.cache = RemoteLogMetadataCache()
        for segment in segments:
            self.add(segment)

    def add(self, segment: RemoteLogSegmentMetadata) -> None:
        """Take a segment in the state that it has."""
        begun = replace(segment, state=RemoteLogSegmentState.COPY_SEGMENT_STARTED)
        self.cache.add_copy_in_progress_segment(begun)
        for state in RemoteLogSegmentState:
            if 0 < state <= segment.state:
                update = RemoteLogSegmentMetadataUpdate(
                    segment_id=segment.segment_id,
                    event_timestamp_ms=0,
                    custom_metadata=None,
                    state=state,
                    broker_id=1,
                )
                self.cache.update_remote_log_segment_metadata(update)

    def remote_log_segment_metadata(
        self, _: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        return self.cache.remote_log_segment_metadata(leader_epoch, offset)

    def list_remote_log_segments(
        self, _: TopicIdPartition, leader_epoch: int | None = None
    ) -> Iterable[RemoteLogSegmentMetadata]:
        return self.cache.list_remote_log_segments(leader_epoch)

    def next_segment_with_transaction_index(
        self, _: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        return self.cache.next_segment_with_transaction_index(leader_epoch, offset)


def segment_metadata(  # noqa: PLR0913 - each by its name
    start_offset: int,
    end_offset: int,
    *,
    epochs: tuple[tuple[int, int], ...] = ((0, 0),),
    partition: TopicIdPartition = PARTITION,
    segment_id: UUID | None = None,
    max_timestamp_ms: int = 0,
    segment_size_bytes: int = 1024,
    state: RemoteLogSegmentState = RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
    is_transaction_index_empty: bool = False,
) -> RemoteLogSegmentMetadata:
    """Return the metadata of a copy, with a new id where none is given."""
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, segment_id or uuid4()),
        start_offset=start_offset,
        end_offset=end_offset,
        max_timestamp_ms=max_timestamp_ms,
        broker_id=1,
        event_timestamp_ms=0,
        segment_size_bytes=segment_size_bytes,
        state=state,
        segment_leader_epochs=tuple(EpochEntry(*one) for one in epochs),
        is_transaction_index_empty=is_transaction_index_empty,
    )


def put_segment(  # noqa: PLR0913 - each by its name
    storage: MemoryRemoteStorage,
    batches: Sequence[bytes],
    *,
    start_offset: int | None = None,
    end_offset: int | None = None,
    aborted: Iterable[AbortedTransaction] = (),
    indexed: bool = True,
    **fields: Any,
) -> RemoteLogSegmentMetadata:
    """Put a segment into *storage*; its offsets are those of its batches unless they are given.

    An offset index has an entry for each batch but the first, or none.
    """
    data = b"".join(batches)
    table, result = scan_headers(data)
    assert (result.valid_bytes, len(table)) == (len(data), len(batches))
    rows = [table[row] for row in range(len(table))]
    start = rows[0].base_offset if start_offset is None else start_offset
    latest = accumulate((row.max_timestamp for row in rows), max)
    fields.setdefault("epochs", ((0, start),))
    fields.setdefault("max_timestamp_ms", max(row.max_timestamp for row in rows))
    aborted = list(aborted)
    fields.setdefault("is_transaction_index_empty", not aborted)
    metadata = segment_metadata(
        start,
        rows[-1].last_offset if end_offset is None else end_offset,
        segment_size_bytes=len(data),
        **fields,
    )
    entries = [(row.last_offset - start, row.position) for row in rows[1:] if indexed]
    times = dict(zip(latest, (row.last_offset - start for row in rows), strict=True))
    storage.objects[metadata.segment_id.id] = {
        LOG: data,
        IndexType.OFFSET: b"".join(struct.pack(">ii", *entry) for entry in entries),
        IndexType.TIMESTAMP: b"".join(struct.pack(">qi", *entry) for entry in times.items()),
        IndexType.TRANSACTION: b"".join(one.format() for one in aborted),
    }
    return metadata
