"""One partition of a bucket written as the directory that a broker opens.

The files come into a directory of another name, which a broker takes for a stray one and leaves
alone. It gets the partition's name when every file is there, durable and checked. A file has its
name when it is whole. ``.segstore.restored`` says which copies of which segments the files are, so
another run keeps them, and a restored partition is known again.
"""

from __future__ import annotations

import hashlib
import json
import struct
import threading
from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from segstore._core import Barrier, DataFile, Directory, FileBarrier
from segstore.config.log_config import LogConfig
from segstore.errors import (
    AlreadyExistsError,
    CorruptLogError,
    LimitExceededError,
    LogNotFoundError,
    NotALogError,
)
from segstore.log.check.partition_check import check_partition
from segstore.log.check.segment_check import scan_all
from segstore.log.files.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    format_leader_epoch_checkpoint,
)
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
from segstore.log.files.partition_directory import (
    LOG_FILE_SUFFIX,
    directory_name,
    file_name,
    restoring_directory_name,
    segment_files,
)
from segstore.log.files.partition_metadata_file import format_partition_metadata
from segstore.log.kafka_profile.kafka_recovery import KafkaRecovery
from segstore.log.local.segment import Segment, segment_context
from segstore.log.local.transaction_index import TransactionIndex
from segstore.log.producers.producer_state_manager import ProducerStateManager
from segstore.numpy_on_demand import np
from segstore.records.compression import codec_table
from segstore.remote.tiered.segment_run import tiered_log
from segstore.remote.tiered.tiered_segment import LOOKED_UP_INDEXES
from segstore.types import CURRENT_MAGIC, EpochEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from segstore._core import BatchHeaders, ScanResult
    from segstore.log.check.verify_report import VerifyReport
    from segstore.log.files.log_directory_checkpoints import LogDirectoryCheckpoints
    from segstore.remote.tiered.segment_run import SegmentRun
    from segstore.remote.tiered.tiered_partition import LeftOut
    from segstore.remote.tiered.tiered_segment import IndexName
    from segstore.remote.tiered.tiered_store import TieredStore
    from segstore.types import TopicPartition

    Progress = Callable[[str, int, int], None]

RECEIPT: Final = ".segstore.restored"
NEW_EPOCH: Final = 0
"""Of batches in a topic that did not exist when they were written."""
_HEADER: Final = struct.Struct(">qiib")
"""Of a batch: base offset, length, leader epoch, magic."""
_LENGTH_END, _EPOCH_POSITION = 12, 12
_PART: Final = ".part"
_GAP_IS_READ: Final = (
    "a partition with a gap is not restored; allow_gaps of open_bucket, or segstore cat"
    " --allow-gaps, reads what is there"
)
_INDEXES: Final[Mapping[str, IndexName]] = {**LOOKED_UP_INDEXES, "txnindex": "transaction"}
_MAX_RECEIPT_BYTES: Final = 64 * 1024 * 1024
_MOST_WRITERS: Final = 4
"""Threads that fetch, undo and write one file each; a fetch takes up to 16 MiB in each."""


class PlannedFile(NamedTuple):
    """A file of the partition, and where its bytes come from.

    Attributes
    ----------
    size_bytes : int
        Of the file.
    source : str
        The copy of the segment, and the part of it; another one may have other bytes.
    pieces : callable
        Fetches them.
    """

    name: str
    size_bytes: int
    source: str
    pieces: Callable[[], Iterator[bytes | memoryview]]


class PlannedPartition(NamedTuple):
    """What a partition is to be.

    Attributes
    ----------
    topic_partition : TopicPartition
        Which.
    topic_id : UUID
        That ``partition.metadata`` is to say.
    files : tuple of PlannedFile
        All but the indexes of segments that are cut.
    runs : tuple of SegmentRun
        The segments.
    lineage : tuple of EpochEntry
        Leader epochs from the log start on.
    log_start_offset, log_end_offset, stable_end_offset : int
        The last one is where committed reads end: a transaction is open there [SEL-11].
    left_out : tuple of LeftOut
        Segments of the bucket that are not read.
    topic_note : str or None
        Which of several topic ids is read.
    """

    topic_partition: TopicPartition
    topic_id: UUID
    files: tuple[PlannedFile, ...]
    runs: tuple[SegmentRun, ...]
    lineage: tuple[EpochEntry, ...]
    log_start_offset: int
    log_end_offset: int
    stable_end_offset: int
    left_out: tuple[LeftOut, ...]
    topic_note: str | None

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def receipt(self) -> dict[str, Any]:
        """What the receipt says."""
        return {file.name: [file.size_bytes, file.source] for file in self.files}


def plan_restore(
    store: TieredStore,
    topic_partition: TopicPartition,
    topic_id: UUID | None,
    *,
    below_log_start: bool = False,
) -> PlannedPartition:
    """Return what a partition is to be, by its listing, manifests and small indexes.

    Parameters
    ----------
    below_log_start : bool
        Begin with the lowest offset that a segment still holds [SEL-9].
    topic_id : UUID or None
        For ``partition.metadata``; None: that of the bucket. A topic with another id has leader
        epochs of its own, from 0 on, and followers leave out batches of greater ones [APP-4.3]: all
        batches get the leader epoch 0.

    Raises
    ------
    LogNotFoundError
        The bucket has no complete segment of the partition.
    CorruptLogError
        Records are missing between two segments [SEL-8] or perhaps at an end of the log, or a
        segment is damaged.
    EncryptionKeyError, ImportError, LogTruncatedError, LogPermissionError, ReadIOError, …
        As `TieredSegment.read`.
    """
    name = directory_name(topic_partition)
    where = f"{store.url}/{name}"
    partition = store.partition(topic_partition)
    if partition is None or not partition.segments:
        raise LogNotFoundError(
            "the bucket holds no complete segment of the partition",
            file=where,
            found="no segment"
            if partition is None or not partition.left_out
            else f"{len(partition.left_out)} segments that cannot be read, the first:"
            f" {partition.left_out[0].reason}",
            expected="at least one",
        )
    log = tiered_log(partition, where, _GAP_IS_READ, below_log_start=below_log_start)
    runs, source_lineage = log.runs, log.lineage
    newest = partition.newest
    own_id = newest.manifest.metadata.topic_id
    topic_id = own_id if topic_id is None else topic_id
    start, end = log.start_offset, log.end_offset
    stable = partition.stable_end_offset()
    lineage = source_lineage if topic_id == own_id else (EpochEntry(NEW_EPOCH, start),)
    small = {
        LEADER_EPOCH_CHECKPOINT: format_leader_epoch_checkpoint(lineage),
        PARTITION_METADATA: format_partition_metadata(topic_id),
        file_name(end, "snapshot"): newest.read_index("producerSnapshot") or b"",
    }
    files = {file.name: file for run in runs for file in _files_of(run)}
    if lineage is not source_lineage:
        files |= {file.name: file for run in runs for file in _of_new_epoch(run, source_lineage)}
    if not runs:  # all was deleted: the log goes on where it ended
        small[file_name(end, LOG_FILE_SUFFIX)] = b""
    files |= {name: _small_file(name, data) for name, data in small.items()}
    return PlannedPartition(
        topic_partition,
        topic_id,
        tuple(files.values()),
        runs,
        lineage,
        start,
        end,
        stable if stable < log.plan.end_offset else end,
        partition.left_out,
        partition.topic_note,
    )


def _files_of(run: SegmentRun) -> Iterator[PlannedFile]:
    segment, (low, high) = run.segment, (run.low, run.high)
    copy = str(segment.manifest.metadata.segment_id)

    def of_index(offset: int, suffix: str, index: IndexName) -> Iterator[PlannedFile]:
        if index in segment.manifest.indexes:
            yield PlannedFile(
                file_name(offset, suffix),
                segment.index_bytes(index),
                f"{copy} {index}",
                lambda: iter((segment.read_index(index) or b"",)),
            )

    yield PlannedFile(
        file_name(run.base_offset, LOG_FILE_SUFFIX),
        high - low,
        f"{copy} {low} {high}",
        partial(segment.pieces, low, high),
    )
    if run.is_whole:
        for suffix, index in _INDEXES.items():
            yield from of_index(run.base_offset, suffix, index)
    if run.to_offset == segment.end_offset:
        yield from of_index(run.to_offset + 1, "snapshot", "producerSnapshot")


def _of_new_epoch(run: SegmentRun, lineage: Sequence[EpochEntry]) -> Iterator[PlannedFile]:
    """Yield the ``.log`` of a segment with `NEW_EPOCH` in all batches."""
    log = next(_files_of(run))
    yield log._replace(
        source=f"{log.source} leader epoch {NEW_EPOCH}",
        pieces=lambda: with_new_epoch(log.pieces(), lineage, run.segment.log_name, run.low),
    )


def with_new_epoch(
    pieces: Iterable[bytes | memoryview],
    lineage: Sequence[EpochEntry],
    file: str,
    position: int = 0,
) -> Iterator[bytes]:
    """Yield the bytes of a segment with the leader epoch `NEW_EPOCH`, which no CRC covers.

    Parameters
    ----------
    pieces : iterable of bytes
        Of the segment, cut anywhere.
    lineage : sequence of EpochEntry
        The leader epochs that its batches must have now [SEL-4].
    file, position : str, int
        The object, and where the bytes begin in the segment, for errors.

    Raises
    ------
    CorruptLogError
        A batch has another leader epoch than the lineage, or no length.
    """
    starts = [entry.start_offset for entry in lineage]
    rest, body_bytes = b"", 0  # of a batch whose header was in an earlier piece
    for piece in pieces:
        data = bytearray(rest)
        data += piece
        at = min(body_bytes, len(data))
        body_bytes -= at
        while not body_bytes and at + _HEADER.size <= len(data):
            base, length, epoch, magic = _HEADER.unpack_from(data, at)
            place = max(bisect_right(starts, base) - 1, 0)
            is_known = magic == CURRENT_MAGIC and base >= starts[0]
            if length <= 0 or (is_known and epoch != lineage[place].epoch):
                raise _of_another_leader(file, position + at, base, epoch, lineage[place].epoch)
            if magic == CURRENT_MAGIC:
                data[at + _EPOCH_POSITION : at + _EPOCH_POSITION + 4] = NEW_EPOCH.to_bytes(4)
            end = at + _LENGTH_END + length
            at, body_bytes = min(end, len(data)), max(end - len(data), 0)
        rest = bytes(data[at:])
        position += at
        yield bytes(data[:at])
    yield rest


def _of_another_leader(
    file: str, position: int, offset: int, found: int, expected: int
) -> CorruptLogError:
    return CorruptLogError(
        f"the batch at offset {offset} has another leader epoch than the bucket's lineage of"
        " leaders: it is not of this log, or was changed",
        file=file,
        position=position,
        found=f"leader epoch {found}",
        expected=f"leader epoch {expected}",
    )


def _small_file(name: str, data: bytes) -> PlannedFile:
    digest = hashlib.sha256(data).hexdigest()
    return PlannedFile(name, len(data), digest, lambda: iter((data,)))


class PartitionRestore:
    """Writes one planned partition into a log directory whose lock is held.

    Parameters
    ----------
    target : Directory
        The log directory.
    checkpoints : LogDirectoryCheckpoints
        Its.
    planned : PlannedPartition
        What the partition is to be.
    writers : int
        How many files are fetched at once, at most.
    progress : callable or None
        Gets the name of the partition's directory, bytes done, and bytes in all. Each byte counts
        twice: it is written, and checked.
    """

    def __init__(
        self,
        target: Directory,
        checkpoints: LogDirectoryCheckpoints,
        planned: PlannedPartition,
        writers: int,
        progress: Progress | None,
    ) -> None:
        self.name = directory_name(planned.topic_partition)
        self._target, self._checkpoints, self._planned = target, checkpoints, planned
        self._writers = max(min(writers, _MOST_WRITERS), 1)
        self._progress = progress
        self._mutex, self._is_stopped, self._done_bytes = threading.Lock(), False, 0
        self._part = restoring_directory_name(planned.topic_partition, planned.topic_id)

    def missing_bytes(self) -> int:
        """Return how much is to be written."""
        if self._target.exists(self.name):
            return 0
        total = self._planned.size_bytes
        if not self._target.exists(self._part):
            return total
        with closing(self._open(self._part)) as directory:
            kept = self._kept(directory)
        return total - sum(file.size_bytes for file in self._planned.files if file.name in kept)

    def run(self) -> int:
        """Write what is missing, check all, and give the directory the partition's name.

        Returns
        -------
        int
            The bytes that were written; 0 of a partition that was there before, and is the same.

        Raises
        ------
        AlreadyExistsError
            The log directory has another log of this partition; it was not changed.
        CorruptLogError
            The segments of the bucket are damaged, or not of one log.
        DiskFullError, WriteError, FsyncFailedError, LogPermissionError
            The directory cannot be written. What is whole is kept for the next run.
        EncryptionKeyError, LogTruncatedError, LogNotFoundError, ReadIOError, …
            As `TieredSegment.pieces`.
        """
        if self._target.exists(self.name):
            self._check_same()
            return 0
        if not self._target.exists(self._part):
            self._target.make_directory(self._part)
        with closing(self._open(self._part)) as directory:
            written = self._write_files(directory)
            self._build_indexes(directory)
            directory.sync(Barrier.MOVED_NAMES)
            # before it has its name: a broker would bring deleted records back
            planned = self._planned
            self._put_lines(planned.log_start_offset, planned.log_end_offset)
            try:
                self._check(self._part)
            except CorruptLogError:
                directory.unlink(RECEIPT, missing_ok=True)  # the next run fetches all of it
                directory.sync(Barrier.MOVED_NAMES)
                raise
        self._target.rename(self._part, self.name)
        self._target.sync(Barrier.RENAMED_DIRECTORY)
        return written

    # ---- the files -------------------------------------------------------------------------------

    def _write_files(self, directory: Directory) -> int:
        """Bring all planned files to stable storage; keep those of an earlier run."""
        planned = self._planned
        kept = self._kept(directory)
        for name in directory.names():
            if name not in kept and name != RECEIPT:
                directory.unlink(name)
        if self._read_receipt(directory) != planned.receipt:
            # what an earlier run fetched from another copy is gone by now, durably
            directory.sync(Barrier.MOVED_NAMES)
            data = json.dumps({"version": 0, "files": planned.receipt}, indent=0).encode()
            directory.write_file_atomically(RECEIPT, data, FileBarrier.SHARED_CHECKPOINT)
        missing = [file for file in planned.files if file.name not in kept]
        self._add_done(planned.size_bytes - sum(file.size_bytes for file in missing))
        with ThreadPoolExecutor(self._writers) as pool:
            waiting = [pool.submit(self._write_file, directory, file) for file in missing]
            try:
                for one in as_completed(waiting):
                    one.result()
            except BaseException:
                self._is_stopped = True
                for one in waiting:
                    one.cancel()
                raise
        return sum(file.size_bytes for file in missing)

    def _write_file(self, directory: Directory, file: PlannedFile) -> None:
        part, position = file.name + _PART, 0
        with DataFile(directory, part, create=True) as writing:
            for piece in file.pieces():
                if self._is_stopped:
                    return
                writing.write(position, piece)
                position += len(piece)
                self._add_done(len(piece))
            if position != file.size_bytes:
                raise CorruptLogError(
                    "the bucket gave another number of bytes than its listing says",
                    file=f"{directory.path}/{file.name}",
                    found=f"{position} bytes",
                    expected=f"{file.size_bytes} bytes",
                )
            writing.sync(Barrier.MOVED_RECORDS)
        directory.rename(part, file.name)

    def _kept(self, directory: Directory) -> set[str]:
        """Return the files that an earlier run has written, from the same copies."""
        receipt = self._read_receipt(directory)
        names = set(directory.names(ordered=False))
        return {
            file.name
            for file in self._planned.files
            if receipt.get(file.name) == [file.size_bytes, file.source]
            and file.name in names
            and directory.info(file.name).size == file.size_bytes
        }

    def _read_receipt(self, directory: Directory) -> dict[str, Any]:
        try:
            read = json.loads(directory.read_file(RECEIPT, _MAX_RECEIPT_BYTES))
        except (LogNotFoundError, LimitExceededError, NotALogError, ValueError):
            return {}
        files = read.get("files") if isinstance(read, dict) else None
        return files if isinstance(files, dict) else {}

    def _build_indexes(self, directory: Directory) -> None:
        """Make the indexes of segments that are cut as a broker's recovery makes them [SEG-40]."""
        planned = self._planned
        cut = [run for run in planned.runs if not run.is_whole]
        if not cut:
            return
        before = set(directory.names(ordered=False))
        codecs = codec_table()
        context = segment_context(
            directory, codecs, LogConfig(), writable=True, kafka_profile=True, heap_indexes=True
        )
        epochs = LeaderEpochFileCache.read(directory, writable=True)
        epochs = LeaderEpochFileCache(directory) if epochs is None else epochs
        for run in cut:
            segment = Segment(context, run.base_offset)
            aborted = TransactionIndex(directory, run.base_offset)
            with _producers_at(directory, run.base_offset) as producers:
                try:
                    lost = KafkaRecovery(segment, aborted, producers, epochs, codecs).recover()
                finally:
                    segment.close()
                    aborted.close()
                if lost:
                    raise CorruptLogError(
                        "bytes of the segment are no batches",
                        file=run.segment.log_name,
                        position=run.high - lost,
                        found=f"{lost} bytes that were cut off",
                        expected="batches up to the end",
                    )
                _write_snapshot(directory, producers)
        for name in {*directory.names(ordered=False)} - before:
            with DataFile(directory, name) as file:
                file.sync(Barrier.MOVED_RECORDS)

    # ---- the checks ------------------------------------------------------------------------------

    def _check(self, name: str) -> None:
        """Raise CorruptLogError unless the directory holds the planned log, whole and sound."""
        planned, path = self._planned, f"{self._target.path}/{name}"
        with closing(self._open(name)) as directory:
            found = {one: directory.info(one).size for one in directory.names()}
        for file in planned.files:
            if found.get(file.name) != file.size_bytes:
                size = found.get(file.name)
                raise CorruptLogError(
                    "the file is not as it was written",
                    file=f"{path}/{file.name}",
                    found="no file" if size is None else f"{size} bytes",
                    expected=f"{file.size_bytes} bytes",
                )
        done = self._done_bytes

        def progress(_: str, checked: int, total: int) -> None:
            size = planned.size_bytes
            self._report(done + size * checked // max(total, 1))

        report = check_partition(
            path, progress, scan_segment=self._scan_segment, as_=planned.topic_partition
        )
        self._raise_finding(report)
        ends = (report.log_start_offset, report.log_end_offset)
        expected = (planned.log_start_offset, planned.log_end_offset)
        if ends != expected:
            raise CorruptLogError(
                "the log does not begin and end as the bucket says",
                file=path,
                found=f"offsets {ends[0]} to {ends[1]}",
                expected=f"offsets {expected[0]} to {expected[1]}",
            )
        self._report(2 * planned.size_bytes)

    def _scan_segment(self, segment: Segment, **how: Any) -> tuple[BatchHeaders, ScanResult]:
        """Read the batches of a segment, and compare their epochs with the lineage [SEL-4]."""
        headers, result = scan_all(segment, **how)
        lineage = self._planned.lineage
        starts = np.array([entry.start_offset for entry in lineage], np.int64)
        epochs = np.array([entry.epoch for entry in lineage], np.int64)
        live = headers[headers["last_offset"] >= starts[0]]
        place = np.searchsorted(starts, np.maximum(live["base_offset"], starts[0]), "right") - 1
        has_epoch = live["magic"] >= CURRENT_MAGIC
        wrong = np.flatnonzero(has_epoch & (live["partition_leader_epoch"] != epochs[place]))
        if len(wrong):
            batch = live[wrong[0]]
            raise _of_another_leader(
                self._object_of(segment.base_offset),
                int(batch["position"]),
                int(batch["base_offset"]),
                int(batch["partition_leader_epoch"]),
                int(epochs[place[wrong[0]]]),
            )
        return headers, result

    def _raise_finding(self, report: VerifyReport) -> None:
        if report.ok:
            return
        finding = report.findings[0]
        base = next((file.offset for file in segment_files([finding.file])), None)
        more = len(report.findings) - 1
        raise CorruptLogError(
            f"the check of what was fetched failed: {report.problems[0]}"
            + (f" (and {more} more findings)" if more else ""),
            file=self._object_of(base),
            position=finding.position,
            found=finding.found,
            expected=finding.expected,
        )

    def _object_of(self, base_offset: int | None) -> str:
        """Return the object that a file comes from, for people."""
        runs = [run for run in self._planned.runs if run.base_offset == base_offset]
        return runs[0].segment.log_name if runs else f"{self._target.path}/{self._part}"

    def _check_same(self) -> None:
        """Raise AlreadyExistsError unless the partition that is there is the planned one."""
        with closing(self._open(self.name)) as directory:
            receipt = self._read_receipt(directory)
        if receipt != self._planned.receipt:
            what = "no restore wrote it" if not receipt else "it was restored from other segments"
            raise self._exists(f"{what}, or with another topic id")
        try:
            self._check(self.name)
        except CorruptLogError as error:
            raise self._exists(f"it was used or damaged since it was restored: {error}") from error

    def _exists(self, why: str) -> AlreadyExistsError:
        return AlreadyExistsError(
            f"the partition is there already, and was not changed: {why}. Move its directory away"
            " to restore it",
            file=f"{self._target.path}/{self.name}",
            found="another log",
            expected="no directory, or what an earlier restore of these segments wrote",
        )

    # ---- around them -----------------------------------------------------------------------------

    def _put_lines(self, log_start_offset: int, recovery_point: int) -> None:
        """Write the checkpoints of the log directory [CKP-10, CKP-11]."""
        lines = {
            LOG_START_OFFSET_CHECKPOINT: log_start_offset,
            RECOVERY_POINT_CHECKPOINT: recovery_point,
        }
        for name, offset in lines.items():
            self._checkpoints.lower(name, self._planned.topic_partition, offset)

    def _open(self, name: str) -> Directory:
        return Directory(f"{self._target.path}/{name}", self._target.environment)

    def _add_done(self, count: int) -> None:
        with self._mutex:
            self._done_bytes += count
            self._report(self._done_bytes)

    def _report(self, done: int) -> None:
        if self._progress is not None:
            self._progress(self.name, done, 2 * self._planned.size_bytes)


@contextmanager
def _producers_at(directory: Directory, offset: int) -> Iterator[ProducerStateManager]:
    """Give the producers of the snapshot at *offset*; none where there is no such snapshot.

    It is read in a folder of its own: to load one removes all others.
    """
    name = file_name(offset, "snapshot")
    with (
        TemporaryDirectory(prefix="segstore-") as folder,
        closing(Directory(folder)) as alone,
    ):
        if directory.exists(name):
            alone.write_file_atomically(name, directory.read_file(name), FileBarrier.SNAPSHOT)
        producers = ProducerStateManager(directory.path, alone, kafka_profile=True)
        # at time 0 no producer has expired: the state is that of the broker then
        producers.truncate_and_reload(0, offset, 0)
        producers.update_map_end_offset(offset)
        yield producers


def _write_snapshot(directory: Directory, producers: ProducerStateManager) -> None:
    """Write the snapshot at the end of what *producers* have seen, where there is none."""
    name = file_name(producers.map_end_offset, "snapshot")
    written = None if directory.exists(name) else producers.take_snapshot()
    if written is not None:
        data = Path(written.path).read_bytes()
        directory.write_file_atomically(name, data, FileBarrier.SNAPSHOT)
