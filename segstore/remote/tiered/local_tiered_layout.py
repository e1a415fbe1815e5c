"""What Kafka's own ``LocalTieredStorage`` leaves, the plug-in of its tests [TIER-95].

``kafka-tiered-storage/<topic>-<partition>-<topic id>/<start offset>-<segment id>.<suffix>``: a file
for the segment and one for each index, as the broker had them. There is no manifest. What one says
is read from the files: the end from the last batch, the leader epochs from the checkpoint. The
snapshot is copied last and has a CRC, so a copy with a sound one is whole.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.errors import (
    CorruptLogError,
    CorruptSnapshotError,
    InvalidTopicError,
    LimitExceededError,
    LogNotFoundError,
)
from segstore.log.files.partition_directory import check_topic
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.producers.producer_snapshot import is_cut, open_transactions
from segstore.number_limits import MAX_INT, MAX_LONG
from segstore.remote.tiered.chunk_index import fixed_chunk_index
from segstore.remote.tiered.manifest_cache import ManifestCache
from segstore.remote.tiered.object_key import ObjectKey, TopicFolder, parse_kafka_id
from segstore.remote.tiered.segment_manifest import (
    CopiedSegment,
    SegmentManifest,
    StoredIndex,
)
from segstore.remote.tiered.segment_run import batch_places, index_entries
from segstore.remote.tiered.tiered_partition import (
    LEFT_OUT,
    LeftOut,
    TieredPartition,
    not_listed,
)
from segstore.remote.tiered.tiered_segment import SegmentFiles, TieredSegment
from segstore.remote.tiered.topic_choice import LatestCopy, latest_of
from segstore.types import EpochEntry, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

    from segstore.remote.remote_file import RemoteFile, RemoteStore
    from segstore.remote.tiered.key_ring import KeyRing
    from segstore.remote.tiered.segment_states import SegmentStates

_FOLDER = re.compile(
    r"(?P<topic>.+)-(?P<partition>0|[1-9][0-9]{0,9})-(?P<topic_id>[A-Za-z0-9_-]{22})"
)
_FILE = re.compile(
    r"(?P<start_offset>\d{20})-(?P<segment_id>[A-Za-z0-9_-]{22})\.(?P<suffix>[a-z_]+)"
)
_LOG: Final = "log"
_INDEXES: Final = {
    "offset": "index",
    "timestamp": "timeindex",
    "transaction": "txnindex",
    "leaderEpoch": "leader_epoch_checkpoint",
    "producerSnapshot": "snapshot",
}
"""The suffix of each index, in the order in which they are copied, after ``.log``."""
_OPTIONAL: Final = "txnindex"
_READ_BYTES: Final = 4 * 1024 * 1024
_MOST_INDEX_BYTES: Final = 64 * 1024 * 1024
_UNKNOWN_BROKER: Final = -1


def is_of_local_tiered_storage(name: str) -> bool:
    """Whether a file has a name as `LocalTieredLayout` knows it."""
    match = _FILE.fullmatch(name)
    return match is not None and match["suffix"] in {_LOG, *_INDEXES.values()}


class _UnfinishedCopyError(LogNotFoundError):
    """Not of a file that vanished since it was listed: another listing finds the same."""


class _Folder(NamedTuple):
    """The folder of one partition."""

    name: str
    topic_partition: TopicPartition
    topic_id: UUID


class LocalTieredLayout:
    """Where a bucket has its partitions and segments, as ``LocalTieredStorage`` puts them.

    Parameters
    ----------
    bucket : RemoteStore
        The folder ``kafka-tiered-storage``.
    keys : KeyRing
        Not asked: nothing is encrypted.
    states : SegmentStates or None
        Which segments count [SEL-13]; None: all complete ones.
    """

    def __init__(self, bucket: RemoteStore, keys: KeyRing, states: SegmentStates | None) -> None:
        self._bucket, self._keys, self._states = bucket, keys, states
        self._manifests = ManifestCache()

    def topic_ids(self) -> dict[str, list[UUID]]:
        """Return the topics with the ids under which something is there, sorted."""
        found: dict[str, set[UUID]] = {}
        for folder in self._folders():
            found.setdefault(folder.topic_partition.topic, set()).add(folder.topic_id)
        return {topic: sorted(found[topic]) for topic in sorted(found)}

    def partitions_of(self, topic: str, topic_id: UUID) -> list[int]:
        """Return the partitions of which something was copied, sorted."""
        return sorted(
            folder.topic_partition.partition
            for folder in self._folders()
            if (folder.topic_partition.topic, folder.topic_id) == (topic, topic_id)
        )

    def partition(self, topic: str, topic_id: UUID, number: int) -> TieredPartition:
        """Return the segments of a partition; empty when nothing is there.

        Raises
        ------
        LogTruncatedError, LogNotFoundError, LogPermissionError, ReadIOError
            The folder cannot be listed or read, or a file vanished meanwhile.
        """
        name = f"{topic}-{number}-{topic_id_text(topic_id)}"
        copies: dict[ObjectKey, dict[str, RemoteFile]] = {}
        for file in self._bucket.list_folder(name).files.values():
            match = _FILE.fullmatch(file.name)
            segment_id = None if match is None else parse_kafka_id(match["segment_id"])
            if match is None or segment_id is None or int(match["start_offset"]) > MAX_LONG:
                continue
            stem, _, suffix = file.path.rpartition(".")
            key = ObjectKey(
                stem,
                TopicFolder(topic, topic_id),
                number,
                int(match["start_offset"]),
                segment_id,
                "",
            )
            copies.setdefault(key, {})[suffix] = file

        def opened(one: tuple[ObjectKey, Mapping[str, RemoteFile]]) -> TieredSegment | LeftOut:
            key, files = one
            try:
                return self._opened(key, files)
            except LEFT_OUT as error:
                return LeftOut(key.main_key, error)

        with ThreadPoolExecutor(self._bucket.requests_at_once) as pool:
            found = list(pool.map(opened, sorted(copies.items(), key=lambda one: one[0].main_key)))
        left_out = [one for one in found if isinstance(one, LeftOut)]
        if self._states is not None:
            listed = {key.segment_id for key in copies}
            left_out += not_listed(self._states, self._bucket.url, name, topic_id, number, listed)
        segments = [one for one in found if isinstance(one, TieredSegment)]
        segments.sort(key=lambda one: one.start_offset)
        return TieredPartition(tuple(segments), tuple(left_out))

    def latest_copy(self, topic: str, topic_id: UUID) -> LatestCopy | None:
        """Return when the latest copy of a topic id was made, None where it has no complete one.

        By the snapshots, which are copied last. Errors are those of `partition`.
        """
        times = [
            LatestCopy(time := (file.modified_ns or 0) // 1_000_000, time)
            for number in self.partitions_of(topic, topic_id)
            for file in self._bucket.list_folder(
                f"{topic}-{number}-{topic_id_text(topic_id)}"
            ).files.values()
            if is_of_local_tiered_storage(file.name) and file.name.endswith(".snapshot")
        ]
        return latest_of(times)

    def _folders(self) -> Iterator[_Folder]:
        for name in self._bucket.list_folder("").folders:
            folder = _parse_folder(name)
            if folder is not None:
                yield folder

    def _opened(self, key: ObjectKey, files: Mapping[str, RemoteFile]) -> TieredSegment | LeftOut:
        where = f"{self._bucket.url}/{key.main_key}"
        needed = [_LOG, *(one for one in _INDEXES.values() if one != _OPTIONAL)]
        if any(suffix not in files for suffix in needed):
            error = LogNotFoundError(
                "the segment is a copy or a deletion that was not finished: its records are not"
                " read",
                file=where,
                found=", ".join(f".{suffix}" for suffix in files),
                expected=", ".join(f".{suffix}" for suffix in needed),
            )
            return LeftOut(key.main_key, error)
        refused = None if self._states is None else self._states.why_not_read(key, where)
        if refused is not None:
            return LeftOut(key.main_key, refused)
        indexes = {name: files[one] for name, one in _INDEXES.items() if one in files}
        three = SegmentFiles(files[_LOG], indexes, files[_LOG])
        try:
            manifest = self._manifests.read(
                tuple(three.distinct), partial(self._manifest_of, key, three)
            )
        except _UnfinishedCopyError as error:
            return LeftOut(key.main_key, error)
        return TieredSegment(self._bucket, three, manifest, self._keys)

    def _manifest_of(self, key: ObjectKey, three: SegmentFiles) -> SegmentManifest:
        """Return what a manifest would say, by the files of a segment."""
        log, indexes = three.log, three.indexes
        manifest = SegmentManifest(
            fixed_chunk_index(
                _READ_BYTES,
                log.size_bytes,
                _READ_BYTES,
                _last_chunk_bytes(log.size_bytes),
                overhead_bytes=0,
            ),
            {name: StoredIndex(0, file.size_bytes) for name, file in indexes.items()},
            is_compressed=False,
            encryption=None,
            metadata=self._metadata(key, log, indexes),
        )
        segment = TieredSegment(self._bucket, three, manifest, self._keys)
        metadata = manifest.metadata._replace(leader_epochs=_epochs_of(segment))
        return manifest._replace(metadata=metadata)

    def _metadata(
        self, key: ObjectKey, log: RemoteFile, indexes: Mapping[str, RemoteFile]
    ) -> CopiedSegment:
        """Return what the broker said of the segment, as far as its files say it."""
        snapshot = self._read(indexes["producerSnapshot"])
        name, found = self._name(indexes["producerSnapshot"]), f"{len(snapshot)} bytes"
        if is_cut(snapshot):
            raise _UnfinishedCopyError(
                "the producer snapshot is cut: it is copied last, so the copy was not finished, and"
                " its records are not read",
                file=name,
                position=len(snapshot),
                found=found,
                expected="all of its entries",
            )
        if open_transactions(snapshot) is None:
            raise CorruptSnapshotError(
                "the producer snapshot is damaged: the records of the segment are not read",
                file=name,
                found=found,
                expected="a producer snapshot with its CRC",
            )
        times = self._read(indexes["timestamp"])
        last_time = times[len(times) // 12 * 12 - 12 :][:8]
        return CopiedSegment(
            TopicPartition(key.folder.head, key.partition),
            key.folder.topic_id,
            key.segment_id,
            key.start_offset,
            self._end_offset(key, log, self._read(indexes["offset"])),
            int.from_bytes(last_time, signed=True) if last_time else -1,
            _UNKNOWN_BROKER,
            (log.modified_ns or 0) // 1_000_000,
            (),
        )

    def _end_offset(self, key: ObjectKey, log: RemoteFile, index: bytes) -> int:
        """Return the last offset of a segment, by its last batch."""
        positions = [at for _, at in index_entries(index) if 0 <= at < log.size_bytes]
        end = None

        def read(start: int, end: int) -> bytes | memoryview:
            return self._bucket.read_range(log, start, min(end, log.size_bytes))

        name = self._name(log)
        for batch in batch_places(read, log.size_bytes, max(positions, default=0), name):
            end = batch.last_offset
        if end is None or end < key.start_offset:
            raise CorruptLogError(
                "the segment holds no batch from its start offset on",
                file=name,
                found="no batch" if end is None else f"offset {end} in the last batch",
                expected=f"at least offset {key.start_offset}",
            )
        return end

    def _read(self, file: RemoteFile) -> bytes:
        if file.size_bytes > _MOST_INDEX_BYTES:
            raise LimitExceededError(
                "the index is too large",
                file=self._name(file),
                found=f"{file.size_bytes} bytes",
                expected=f"at most {_MOST_INDEX_BYTES} bytes",
            )
        return bytes(self._bucket.read_range(file, 0, file.size_bytes))

    def _name(self, file: RemoteFile) -> str:
        return f"{self._bucket.url}/{file.path}"


def _parse_folder(name: str) -> _Folder | None:
    match = _FOLDER.fullmatch(name)
    topic_id = None if match is None else parse_kafka_id(match["topic_id"])
    if match is None or topic_id is None or int(match["partition"]) > MAX_INT:
        return None
    try:
        topic = check_topic(match["topic"])
    except InvalidTopicError:
        return None
    return _Folder(name, TopicPartition(topic, int(match["partition"])), topic_id)


def _epochs_of(segment: TieredSegment) -> tuple[EpochEntry, ...]:
    """Return the leader epochs that the checkpoint has within the segment [TIER-35]."""
    start, end = segment.start_offset, segment.end_offset
    lineage = segment.lineage()
    epochs = tuple(
        EpochEntry(entry.epoch, max(entry.start_offset, start))
        for entry, following in pairwise((*lineage, EpochEntry(MAX_INT, MAX_LONG)))
        if entry.start_offset <= end and following.start_offset > max(entry.start_offset, start)
    )
    if not epochs:
        raise CorruptLogError(
            "no leader epoch of the checkpoint has records of the segment",
            file=segment.log_name,
            found=f"offsets {start} to {end}, leader epochs from {lineage[0].start_offset} on",
            expected="a leader epoch within the segment",
        )
    return epochs


def _last_chunk_bytes(size_bytes: int) -> int:
    return size_bytes - max(-(-size_bytes // _READ_BYTES) - 1, 0) * _READ_BYTES
