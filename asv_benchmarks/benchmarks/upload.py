"""Copying sealed segments to remote storage in a folder, beside a copy of the same files."""

from __future__ import annotations

import os
import shutil
import uuid
from itertools import pairwise
from pathlib import Path

import segstore
from segstore.log.files.checkpoints import format_leader_epoch_checkpoint
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from segstore.remote.storage import remote_storage_manager
from segstore.remote.storage.open_storage import open_remote_storage
from segstore.types import EpochEntry, TopicPartition

from .common import PROFILE, Cost, _Comparison, cost_of

MIB = 2**20
SEGMENT_MIB = 2 if PROFILE.rounds == 1 else 64
SEGMENTS = 4
READ_BYTES = 4 * MIB


class Upload(_Comparison):
    """Speed of ``copy_log_segment_data`` over ``shutil.copyfile`` and an fsync of each file.

    Both copy the same files, and sync each of them and the directory; ours is whole or is not there
    after a power cut, the peer's files need not be. The wall clock is mostly the disk's.
    """

    timeout = 3600

    def setup(self) -> None:
        self.make_scratch()
        records = [(None, os.urandom(16_000)) for _ in range(MIB // 16_000)]
        log_path = self.path / "bench-0"
        with segstore.open(log_path, durability="none", segment_bytes=2**30) as log:
            for _ in range(SEGMENTS):
                for _ in range(SEGMENT_MIB):
                    log.append(records)
                log.roll()
            segments = list(log.segments())
            epochs = format_leader_epoch_checkpoint(log.leader_epochs)
        self.copies = [
            _copied(f"{log_path}/{one.base_offset:020d}", one.base_offset, end.base_offset, epochs)
            for one, end in pairwise(segments)
        ]
        assert len(self.copies) == SEGMENTS

    def ours(self) -> Cost:
        storage = open_remote_storage(self.path / "remote")

        def copy() -> float:
            for metadata, data in self.copies:
                storage.copy_log_segment_data(metadata, data)
            return SEGMENTS * SEGMENT_MIB

        return cost_of(copy, after=lambda: shutil.rmtree(self.path / "remote"))

    def track_read_back_share(self) -> float:
        """Wall time of reading the copies back, over that of copying them [DUR-140].

        `RemoteLogManager` compares each piece with the local file before a copy counts. The peer
        does not, so that this is counted apart.
        """
        storage = open_remote_storage(self.path / "remote")

        def copy() -> float:
            for metadata, data in self.copies:
                storage.copy_log_segment_data(metadata, data)
            return SEGMENTS * SEGMENT_MIB

        def read() -> float:
            for metadata, data in self.copies:
                with Path(data.log_segment).open("rb", buffering=0) as file:
                    for start in range(0, metadata.segment_size_bytes, READ_BYTES):
                        here = file.read(READ_BYTES)
                        end = start + len(here)
                        assert storage.fetch_log_segment(metadata, start, end) == here
            return SEGMENTS * SEGMENT_MIB

        copied = cost_of(copy)
        read_back = cost_of(read, after=lambda: shutil.rmtree(self.path / "remote"))
        return read_back.wall / copied.wall

    def theirs(self) -> Cost:
        target = self.path / "copied"

        def copy() -> float:
            target.mkdir()
            for _, data in self.copies:
                for path in data:
                    if isinstance(path, str):
                        _sync(shutil.copyfile(path, target / Path(path).name))
                epochs = target / "leader-epoch-checkpoint"
                epochs.write_bytes(data.leader_epoch_index)
                _sync(epochs)
                _sync(target)
            return SEGMENTS * SEGMENT_MIB

        return cost_of(copy, after=lambda: shutil.rmtree(target))


def _copied(
    base: str, start: int, end: int, epochs: bytes
) -> tuple[RemoteLogSegmentMetadata, remote_storage_manager.LogSegmentData]:
    log_path = Path(base).parent
    metadata = RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(
            TopicIdPartition(uuid.UUID(int=1), TopicPartition("bench", 0)), uuid.uuid4()
        ),
        start_offset=start,
        end_offset=end - 1,
        max_timestamp_ms=0,
        broker_id=1,
        event_timestamp_ms=0,
        segment_size_bytes=Path(f"{base}.log").stat().st_size,
        state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        segment_leader_epochs=(EpochEntry(0, start),),
    )
    return metadata, remote_storage_manager.LogSegmentData(
        f"{base}.log",
        f"{base}.index",
        f"{base}.timeindex",
        None,
        f"{log_path}/{end:020d}.snapshot",
        epochs,
    )


def _sync(path: os.PathLike[str]) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
