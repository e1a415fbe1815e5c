"""A tiered bucket shown as a log directory, so that what reads log directories at URLs reads it.

Each partition is listed as a broker's directory would be: segments without overlap along one
lineage [SEL], their indexes, and the small files that say where the log begins and ends. Bytes are
fetched from the bucket when a file is read. Where a segment holds records of a lost branch, or
another one goes on, only a part of it is shown.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from segstore.errors import CorruptLogError, LogNotFoundError, LogTruncatedError
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_STATE,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    LogState,
    format_leader_epoch_checkpoint,
    format_offset_checkpoint,
)
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from segstore.log.files.file_origin import FileOrigin
from segstore.log.files.partition_directory import (
    LOG_FILE_SUFFIX,
    directory_name,
    file_name,
    parse_directory_name,
)
from segstore.log.files.partition_metadata_file import format_partition_metadata
from segstore.remote.remote_file import Folder, RemoteFile, ShownLog, changed_error
from segstore.remote.tiered.segment_run import GAP, cut_index, tiered_log
from segstore.remote.tiered.tiered_segment import LOOKED_UP_INDEXES
from segstore.remote.tiered.topic_choice import TopicChoice, choose_topic_id
from segstore.types import EpochEntry, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from segstore.remote.remote_file import RemoteStore
    from segstore.remote.tiered.aiven_layout import AivenLayout
    from segstore.remote.tiered.local_tiered_layout import LocalTieredLayout
    from segstore.remote.tiered.segment_run import SegmentRun, TieredLog
    from segstore.remote.tiered.tiered_partition import TieredPartition
    from segstore.remote.tiered.tiered_segment import IndexName, TieredSegment

LOOKS: Final = 4
"""Listings of a partition that changes while it is looked at, before that is an error."""
READ_BYTES: Final = 16 * 1024 * 1024
LEAST_BLOCK_BYTES: Final = 64 * 1024
"""Plain bytes that are fetched and kept together: smaller chunks are not fetched one by one."""
MOST_PLAIN_BLOCK_BYTES: Final = 1024 * 1024
"""The same, where the chunks have the bytes of the broker's file, and any part can be fetched."""

_AskedT = TypeVar("_AskedT")
_SeenT = TypeVar("_SeenT")


class TieredReading(NamedTuple):
    """What of a bucket is read, as the user asks for it.

    Attributes
    ----------
    allow_gaps : bool
        Records that no segment holds are left out, and told [SEL-8].
    below_log_start : bool
        Deleted records that segments still hold are read too [SEL-9].
    gap_option : str
        How the user asks for *allow_gaps*, for messages.
    """

    allow_gaps: bool = False
    below_log_start: bool = False
    gap_option: str = "open_bucket(..., allow_gaps=True)"

    @property
    def way_on(self) -> str:
        """What the error of a gap says that the user can do."""
        return f"{self.gap_option} reads what is there"


AS_THE_LOG: Final = TieredReading()
"""Without a gap, from the log start on."""


class ShownFile(NamedTuple):
    """A file of the directory that is shown, and what gives bytes ``[start, end)`` of it.

    And what fills memory with those from a position on, or returns False.
    """

    file: RemoteFile
    read_range: Callable[[int, int], bytes | memoryview]
    read_into: Callable[[int, memoryview], bool] | None = None


class ListedFiles:
    """Reads the files of one listing of a partition, also when the bucket was listed again."""

    def __init__(self, store: TieredStore, shown: Iterable[ShownFile]) -> None:
        self.url, self.key, self.requests_at_once = store.url, store.key, store.requests_at_once
        self._shown = {one.file.path: one for one in shown}

    def read(self, file: RemoteFile, write: Callable[[bytes | memoryview], object]) -> None:
        """Hand all bytes of *file* to *write*."""
        for start in range(0, file.size_bytes, READ_BYTES):
            write(self.read_range(file, start, min(start + READ_BYTES, file.size_bytes)))

    def read_range(self, file: RemoteFile, start: int, end: int) -> bytes | memoryview:
        """Return bytes ``[start, end)`` of *file*."""
        return self._shown[file.path].read_range(start, end)

    def read_into(self, file: RemoteFile, start: int, target: memoryview) -> bool:
        """Fill *target* with the bytes of *file* from *start* on, if they lie here as they are."""
        fill = self._shown[file.path].read_into
        return fill is not None and fill(start, target)


class TieredStore:
    """The log directory that a bucket stands for.

    Parameters
    ----------
    bucket : RemoteStore
        The bucket, or a folder of it.
    layout : AivenLayout or LocalTieredLayout
        Where things lie in it.
    key_prefix : str
        What the layout's prefix is: with another one it is another log directory.
    reading : TieredReading
        What is read.
    """

    has_checkpoints = False

    def __init__(
        self,
        bucket: RemoteStore,
        layout: AivenLayout | LocalTieredLayout,
        key_prefix: str = "",
        reading: TieredReading = AS_THE_LOG,
    ) -> None:
        self.url, self.requests_at_once = bucket.url, bucket.requests_at_once
        self.key = hashlib.sha256(f"tiered {bucket.key} {key_prefix}".encode()).hexdigest()
        self._layout = layout
        self.reading = reading

    def topic_ids(self) -> dict[str, list[UUID]]:
        """Return the topics with the ids under which the bucket holds something, sorted.

        Raises
        ------
        LogNotFoundError, UnsupportedFormatError
            The bucket holds something, and no topic.
        """
        return self._layout.topic_ids()

    def partitions_of(self, topic: str, topic_id: UUID) -> list[int]:
        """Return the partitions of which something was copied, sorted."""
        return self._layout.partitions_of(topic, topic_id)

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions of which the bucket holds something, sorted."""
        return [
            TopicPartition(topic, number)
            for topic, topic_ids in self.topic_ids().items()
            for number in self.partitions_of(topic, self.current_topic_id(topic, topic_ids))
        ]

    def current_topic_id(self, topic: str, topic_ids: list[UUID]) -> UUID:
        """Return which of *topic_ids* the topic has: that of the latest copy [SEL-12]."""
        return _looked_again(partial(self.topic_choice, topic), topic_ids).topic_id

    def topic_choice(self, topic: str, topic_ids: list[UUID]) -> TopicChoice:
        """Return which of *topic_ids* is read, and what is told of that [SEL-12]."""
        if len(topic_ids) == 1:
            return TopicChoice(topic_ids[0])
        latest = {one: self._layout.latest_copy(topic, one) for one in topic_ids}
        return choose_topic_id(topic, latest)

    def partition(self, topic_partition: TopicPartition) -> TieredPartition | None:
        """Return the segments of a partition as they are now, None without its topic."""
        return _looked_again(self._partition_now, topic_partition)

    def _partition_now(self, topic_partition: TopicPartition) -> TieredPartition | None:
        topic = topic_partition.topic
        topic_ids = self.topic_ids().get(topic)
        if topic_ids is None:
            return None
        chosen = self.topic_choice(topic, topic_ids)
        found = self._layout.partition(topic, chosen.topic_id, topic_partition.partition)
        return replace(found, topic_note=chosen.note)

    def list_folder(self, folder: str) -> Folder:
        """Return what a log directory with these logs holds; ``""`` has the partitions.

        Raises
        ------
        CorruptLogError
            Records are missing between two segments [SEL-8], or perhaps at an end of the log.
        LogTruncatedError, LogNotFoundError, LogPermissionError, ReadIOError, EncryptionKeyError
            As the segments'.
        """
        if not folder:
            return Folder({}, [directory_name(one) for one in self.partitions()])
        return _looked_again(self._list_now, folder)

    def _list_now(self, folder: str) -> Folder:
        topic_partition = parse_directory_name(folder)
        partition = self._partition_now(topic_partition)
        if partition is None or not partition.segments:
            if partition is None or partition.is_empty:
                return Folder({}, [])
            return Folder({}, [], lost=partition.unreadable(f"{self.url}/{folder}"))
        log = tiered_log(
            partition,
            f"{self.url}/{folder}",
            self.reading.way_on,
            below_log_start=self.reading.below_log_start,
            allow_gaps=self.reading.allow_gaps,
        )
        files = self._files(topic_partition, partition.newest, log)
        gaps = (f"{GAP}: offsets {first} to {last}" for first, last in log.plan.gaps)
        end_offset = None if self.reading.allow_gaps else log.end_offset
        notes = (*partition.notes(), *gaps)
        return self._shown(files, log.lineage, log.runs, notes, end_offset)

    def _shown(
        self,
        files: Sequence[ShownFile],
        lineage: tuple[EpochEntry, ...],
        runs: Iterable[SegmentRun],
        notes: tuple[str, ...],
        end_offset: int | None = None,
    ) -> Folder:
        """Return the listing of a partition: its files, and what is known of the log in them."""
        times = {run.base_offset: run.segment.manifest.metadata.max_timestamp_ms for run in runs}
        by_name = {one.file.name: one.file for one in files}
        reader = ListedFiles(self, files)
        way_on = self.reading.way_on
        return Folder(by_name, [], ShownLog(reader, lineage, notes, times, end_offset, way_on))

    def read(self, file: RemoteFile, write: Callable[[bytes | memoryview], object]) -> None:
        """Raise LogTruncatedError: the reader of a listing reads what it has listed."""
        self.read_range(file, 0, file.size_bytes)
        write(b"")

    def read_range(self, file: RemoteFile, start: int, end: int) -> bytes | memoryview:
        """Raise LogTruncatedError, as `read`."""
        raise changed_error(self.url, file, f"another listing, for bytes {start} to {end}")

    def _files(
        self,
        topic_partition: TopicPartition,
        newest: TieredSegment,
        log: TieredLog,
    ) -> list[ShownFile]:
        where = directory_name(topic_partition)
        files = [one for run in log.runs for one in self.segment_files(where, run)]
        start, end, lineage = log.start_offset, log.end_offset, log.lineage
        complete_from = end if self.reading.allow_gaps else start
        if not log.runs:  # all was deleted: the log goes on where it ended
            files = small_files(where, {file_name(end, LOG_FILE_SUFFIX): b""})
        small = {
            RECOVERY_POINT_CHECKPOINT: format_offset_checkpoint({topic_partition: end}),
            PARTITION_METADATA: format_partition_metadata(newest.manifest.metadata.topic_id),
            file_name(end, "snapshot"): newest.read_index("producerSnapshot") or b"",
            CLEAN_SHUTDOWN_MARKER: clean_marker(files, start, end, lineage[-1]),
            **start_files(topic_partition, start, lineage, complete_from),
        }
        return [*small_files(where, small), *files]

    def segment_files(self, where: str, run: SegmentRun) -> Iterator[ShownFile]:
        """Yield the files of a segment of the directory *where*."""
        segment, low, high = run.segment, run.low, run.high

        def shown(
            suffix: str,
            size: int,
            block_bytes: int,
            read_range: Callable[[int, int], bytes | memoryview],
            base: int = run.base_offset,
        ) -> ShownFile:
            identity = segment.identity
            tag = None if identity is None else f"{identity} {suffix} {low} {high}"
            path = f"{where}/{file_name(base, suffix)}"
            phase = low % block_bytes if suffix == LOG_FILE_SUFFIX else 0
            is_log = suffix == LOG_FILE_SUFFIX
            origin = FileOrigin(segment.log_name, low) if is_log else None
            file = RemoteFile(path, size, tag, segment.modified_ns, block_bytes, phase, origin)
            return ShownFile(file, read_range)

        chunk_bytes = segment.manifest.chunk_index.original_chunk_size
        block_bytes = chunk_bytes * max(1, LEAST_BLOCK_BYTES // chunk_bytes)
        if not segment.manifest.is_transformed:
            block_bytes = min(block_bytes, MOST_PLAIN_BLOCK_BYTES)
        log = shown(LOG_FILE_SUFFIX, high - low, block_bytes, partial(_part_from, segment, low))
        yield log._replace(read_into=partial(_read_into, segment, low))
        for suffix, name in LOOKED_UP_INDEXES.items():
            if run.is_whole:
                size = segment.index_bytes(name)
                yield shown(suffix, size, size, partial(_index_part, segment, name))
            else:  # positions and offsets of the whole segment are of no use
                data = cut_index(run, name)
                yield shown(suffix, len(data), 0, partial(_part_of, data))
        if run.to_offset == segment.end_offset:  # which transactions are open behind it
            size = segment.index_bytes("producerSnapshot")
            part = partial(_index_part, segment, "producerSnapshot")
            yield shown("snapshot", size, size, part, segment.end_offset + 1)


def small_files(where: str, contents: Mapping[str, bytes]) -> list[ShownFile]:
    """Return files of the directory *where* by their names and bytes."""
    return [
        ShownFile(
            RemoteFile(f"{where}/{name}", len(data), hashlib.sha256(data).hexdigest(), None),
            partial(_part_of, data),
        )
        for name, data in contents.items()
    ]


def start_files(
    topic_partition: TopicPartition,
    start: int,
    lineage: Sequence[EpochEntry],
    complete_from: int,
) -> dict[str, bytes]:
    """Return the small files that say where a log begins, and from where on it has no gap."""
    return {
        LOG_START_OFFSET_CHECKPOINT: format_offset_checkpoint({topic_partition: start}),
        LEADER_EPOCH_CHECKPOINT: format_leader_epoch_checkpoint(lineage),
        LOG_STATE: LogState(complete_from, start, lineage[-1]).format(),
    }


def clean_marker(
    files: Iterable[ShownFile], start: int, end: int, latest_epoch: EpochEntry
) -> bytes:
    """Return what says that segments end where the next ones begin, so that an open reads none.

    Brokers copy whole batches below the last stable offset [SEL-10]; a read checks each of them.
    """
    logs = (one.file for one in files if one.file.name.endswith(f".{LOG_FILE_SUFFIX}"))
    sizes = {int(log.name.partition(".")[0]): log.size_bytes for log in logs}
    active = max(sizes)
    return CleanShutdownMarker(
        end,
        active,
        sizes[active],
        latest_epoch,
        segments=len(sizes),
        size_bytes=sum(sizes.values()),
        log_start_offset=start,
    ).format()


def _looked_again(look: Callable[[_AskedT], _SeenT], asked: _AskedT) -> _SeenT:
    """Return what *look* sees; it lists again when what it listed was gone or changed [SEL-14].

    Or damaged: in a folder an object is seen while it is written.
    """
    for _ in range(LOOKS - 1):
        with suppress(LogNotFoundError, LogTruncatedError, CorruptLogError):
            return look(asked)
    return look(asked)


def _part_of(data: bytes, start: int, end: int) -> bytes:
    return data[start:end]


def _part_from(segment: TieredSegment, low: int, start: int, end: int) -> bytes | memoryview:
    return segment.read(low + start, low + end)


def _read_into(segment: TieredSegment, low: int, start: int, target: memoryview) -> bool:
    return segment.read_into(low + start, target)


def _index_part(segment: TieredSegment, name: IndexName, start: int, end: int) -> bytes:
    return (segment.read_index(name) or b"")[start:end]
