"""Reads from remote storage in a folder, against Kafka's ``RemoteLogManager.read`` of the same one.

Run it on a machine that does nothing else::

    asv run --python=same --quick --bench 'RemoteRead'

Goal: a third of Kafka's time at most. Ours is one ``pread`` into new memory and some calls of
Python; of a read of 1 MiB the copy is most.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import segstore
from segstore._core import Directory
from segstore.errors import RemoteResourceNotFoundError
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.remote.log_manager.remote_index_cache import RemoteIndexCache
from segstore.remote.log_manager.remote_log_reader import RemoteStorageReader
from segstore.types import EpochEntry, TopicPartition

from .common import PROFILE, SEED, Cost, _Comparison, cost_of
from .datasets import replicated
from .kafka_peer import KafkaLog, from_tests

if TYPE_CHECKING:
    from segstore.remote.metadata.segment_metadata import RemoteLogSegmentMetadata

SEGMENTS = 16
SUFFIXES = {"offset": "index", "timestamp": "timeindex", "transaction": "txnindex"}


class FolderStorage:
    """Opens a file for each request, as Kafka's side does."""

    def __init__(self, folder: Path) -> None:
        self.folder = f"{folder}/"

    def path(self, metadata: RemoteLogSegmentMetadata, suffix: str) -> str:
        name = topic_id_text(metadata.segment_id.id)
        return f"{self.folder}{metadata.start_offset:020}-{name}.{suffix}"

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        descriptor = os.open(self.path(metadata, "log"), os.O_RDONLY)
        try:
            return os.pread(descriptor, end - start, start)
        finally:
            os.close(descriptor)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: str) -> bytes:
        try:
            return Path(self.path(metadata, SUFFIXES[index_type])).read_bytes()
        except FileNotFoundError as error:
            raise RemoteResourceNotFoundError(str(error)) from None


class RemoteRead(_Comparison):
    """Reads of so many bytes at random offsets, from the page cache; indexes are cached."""

    params = ([1024 * 1024, 64 * 1024],)
    param_names = ("fetch_bytes",)
    warm_up_rounds = 4

    def setup(self, fetch_bytes: int) -> None:
        self.make_scratch()
        self.fetch_bytes = fetch_bytes
        self.count = PROFILE.lookups // (20 if fetch_bytes > 100_000 else 4)
        self.remote = self.path / "remote"
        self.remote.mkdir()
        kit = from_tests("kits.remote_storage")
        self.metadata = kit.MemoryRemoteMetadata()
        self.write_log(kit)
        self.directory = Directory(str(self.path))
        storage = FolderStorage(self.remote)
        self.cache = RemoteIndexCache(self.directory, storage, clock_ms=lambda: 0)
        self.reader = RemoteStorageReader(
            storage, self.metadata, self.cache, lambda _: kit.PARTITION.topic_id
        )
        self.kafka = KafkaLog("KafkaRemoteReads", self.path / "bench-0", self.path, self.remote)

    def write_log(self, kit: object) -> None:
        pool = replicated(100, 16_384)
        log = segstore.open(self.path / "bench-0", durability="none", segment_ms=None)
        with log:
            for i, batch in enumerate(pool):
                if i and i % max(1, len(pool) // SEGMENTS) == 0:
                    log.roll()
                log.append_as_follower(batch, 0)
        log = segstore.open(self.path / "bench-0", read_only=True)
        lines = []
        with log:
            self.end, segments = log.log_end_offset, log.segments()
            ends = [one.base_offset for one in segments[1:]] + [self.end]
            for segment, end in zip(segments, ends, strict=True):
                start = segment.base_offset
                found = kit.segment_metadata(
                    start,
                    end - 1,
                    epochs=((0, start),),
                    max_timestamp_ms=1,
                    segment_size_bytes=segment.size_bytes,
                    is_transaction_index_empty=True,
                )
                self.metadata.add(found)
                name = topic_id_text(found.segment_id.id)
                for suffix in ("log", "index", "timeindex"):
                    source = self.path / "bench-0" / f"{start:020}.{suffix}"
                    shutil.copy(source, self.remote / f"{start:020}-{name}.{suffix}")
                lines.append(f"{start} {end - 1} {segment.size_bytes} 1 {name}\n")
        (self.remote / "segments").write_text("".join(lines))

    def ours(self) -> Cost:
        return cost_of(self._read)

    def theirs(self) -> Cost:
        return self.kafka.cost(self.count, self.fetch_bytes)

    def _read(self) -> float:
        chooser, read, partition = random.Random(SEED), self.reader.read, TopicPartition("bench", 0)
        for _ in range(self.count):
            found = read(
                partition,
                chooser.randrange(self.end),
                self.fetch_bytes,
                min_one_message=True,
                leader_epochs=[EpochEntry(0, 0)],
                is_committed=False,
                local_aborted_transactions=lambda *_: (),
            )
            assert found.records
        return self.count

    def teardown(self, *parameters: object) -> None:
        self.kafka.close()
        self.cache.close()
        self.directory.close()
        super().teardown(*parameters)
