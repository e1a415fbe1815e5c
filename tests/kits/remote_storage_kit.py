"""Segments to be copied to remote storage, and what is said of them."""

from __future__ import annotations

import os
import uuid
from itertools import pairwise
from typing import TYPE_CHECKING

from segstore.log.files.checkpoints import format_leader_epoch_checkpoint
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from segstore.remote.storage.remote_storage_manager import LogSegmentData
from segstore.types import EpochEntry, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from segstore import UnifiedLog

TOPIC_ID = uuid.UUID(int=0x5EC)
EPOCHS = (EpochEntry(0, 0), EpochEntry(3, 40))


def metadata_of(
    start: int, end: int, size_bytes: int, *, segment_id: uuid.UUID | None = None
) -> RemoteLogSegmentMetadata:
    """Return what is known of a segment whose copy begins."""
    topic_partition = TopicIdPartition(TOPIC_ID, TopicPartition("orders", 0))
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(topic_partition, segment_id or uuid.uuid4()),
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=1,
        broker_id=1,
        event_timestamp_ms=1,
        segment_size_bytes=size_bytes,
        state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        segment_leader_epochs=(EpochEntry(0, start),),
    )


def segment_data(
    folder: Path, *, has_aborted: bool = True, log_bytes: int = 20_000
) -> LogSegmentData:
    """Write the files of a segment, whose bytes are of no matter."""
    folder.mkdir(exist_ok=True)
    contents = {
        "a.log": bytes(range(250)) * (log_bytes // 250),
        "a.index": b"offsets!" * 20,
        "a.timeindex": b"timestamps.." * 30,
        "a.txnindex": b"aborted" * 10,
        "a.snapshot": b"producers",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    paths = {name: str(folder / name) for name in contents}
    return LogSegmentData(
        paths["a.log"],
        paths["a.index"],
        paths["a.timeindex"],
        paths["a.txnindex"] if has_aborted else None,
        paths["a.snapshot"],
        format_leader_epoch_checkpoint(EPOCHS),
    )


def sealed_segments(
    log: UnifiedLog,
) -> Iterator[tuple[RemoteLogSegmentMetadata, LogSegmentData]]:
    """Yield what is copied of each sealed segment of a log [TIER-35, TIER-36, TIER-37]."""
    segments = list(log.segments())
    for one, following in pairwise(segments):
        base, end = f"{log.path}/{one.base_offset:020d}", following.base_offset
        aborted = f"{base}.txnindex"
        data = LogSegmentData(
            f"{base}.log",
            f"{base}.index",
            f"{base}.timeindex",
            aborted if os.path.exists(aborted) and os.path.getsize(aborted) else None,  # noqa: PTH110, PTH202
            f"{log.path}/{end:020d}.snapshot",
            format_leader_epoch_checkpoint(
                entry for entry in log.leader_epochs if entry.start_offset < end
            ),
        )
        yield metadata_of(one.base_offset, end - 1, one.size_bytes), data
