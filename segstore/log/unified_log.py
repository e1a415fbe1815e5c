"""The log of one partition as a user sees it.

Open, append, read, truncate, close (Kafka ``UnifiedLog``).
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from segstore import _core
from segstore.config import MAX_LONG, LogConfig
from segstore.errors import (
    DiskFullError,
    FsyncFailedError,
    IllegalArgumentError,
    SegstoreError,
)
from segstore.log.background import BackgroundWorker
from segstore.log.checkpoints import CleanShutdownMarker
from segstore.log.durability import Durability
from segstore.log.flusher import Flusher
from segstore.log.local_log import LocalLog, out_of_range
from segstore.log.log_appender import LogAppender
from segstore.log.log_follower import LogFollower
from segstore.log.log_loader import LogLoader
from segstore.log.log_places import LogPlaces
from segstore.log.partition_lock import PartitionLock
from segstore.log.partition_path import (
    check_file_system,
    open_parent_directory,
    open_partition_directory,
)
from segstore.log.producer_input import ProducerInput
from segstore.log.recovery_report import RecoveryReport
from segstore.records.compression import codec_table, compression_level
from segstore.records.record_builder import codec_of
from segstore.types import Codec

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from segstore._core import CodecTable, Directory, SegmentContext
    from segstore.log.log_loader import LoadedLog
    from segstore.log.segment import Segment
    from segstore.types import LogOffsetMetadata

RECOVERIES = ("safe",)

_log = logging.getLogger(__name__)


class UnifiedLog(LogAppender):
    """One partition's log; any number of threads append and read. Made by `segstore.open`.

    Attributes
    ----------
    topic_partition : TopicPartition
        From the directory's name.
    path : str
        The directory.
    config : LogConfig
        Settings.
    read_only : bool
        The log takes no changes, and another process may be writing it.
    report : RecoveryReport
        What the open found and did.
    """

    def __init__(  # noqa: PLR0913 - put together by log_opener
        self,
        places: LogPlaces,
        loaded: LoadedLog,
        context: SegmentContext,
        codecs: CodecTable,
        config: LogConfig,
        durability: Durability,
        report: RecoveryReport,
        lock: PartitionLock | None,
    ) -> None:
        self.topic_partition = places.topic_partition
        self.path: str = places.directory.path
        self.config = config
        self.durability = durability
        self.read_only = lock is None
        self.report = report
        self._process_id = _core.process_id()
        self._is_closed = False
        self._places = places
        self._directory: Directory = places.directory
        self._codecs = codecs
        self._lock = lock
        self._append_lock = threading.Lock()
        self._background = BackgroundWorker(f"segstore-{self.topic_partition}")
        self._epochs = loaded.epochs
        self._state = loaded.state
        self._log_start_offset = loaded.log_start_offset
        self._local_log = LocalLog(
            self._directory, context, config, loaded.segments, loaded.log_end, self._background
        )
        self._follower: LogFollower | None = None
        if self.read_only:
            self._follower = LogFollower(self, places, context, loaded)
            return
        codec = codec_of(config)
        self._batch_bytes = _uncompressed_batch_bytes(config, codec)
        self._builder_config = config.with_changes(max_message_bytes=self._batch_bytes)
        self._batch_options = _core.BatchOptions(
            codec=int(codec), level=compression_level(codec, config)
        )
        self._stamps_append_time = config.message_timestamp_type == "LogAppendTime"
        self._input = ProducerInput(config, codecs)
        self._flusher = Flusher(
            self._local_log,
            self._append_lock,
            durability,
            self._background,
            self.topic_partition,
            loaded.recovery_point,
        )
        self._syncs_on_append = durability.sync or durability.messages != MAX_LONG
        self._has_window = durability.seconds is not None

    # ---- state -----------------------------------------------------------------------------------

    @property
    def recovery_point(self) -> int:
        """What the next open will not check again.

        The checkpoint on disk, at or below the durable offset.
        """
        follower = self._follower
        return self._flusher.recovery_point if follower is None else follower.recovery_point

    @property
    def _durable(self) -> LogOffsetMetadata:
        follower = self._follower
        return self._flusher.durable if follower is None else follower.durable

    def stats(self) -> dict[str, int | str | bool]:
        """Return counters and sizes; the names follow Kafka's metrics."""
        self._require_open()
        segments = self._local_log.segments
        return {
            "topic": self.topic_partition.topic,
            "partition": self.topic_partition.partition,
            "log_start_offset": self.log_start_offset,
            "log_end_offset": self.log_end_offset,
            "durable_offset": self.durable_offset,
            "recovery_point": self.recovery_point,
            "num_log_segments": len(segments),
            "size": segments.size_in_bytes,
            "active_segment_base_offset": segments.active_segment.base_offset,
            "latest_leader_epoch": -1 if (epoch := self._epochs.latest_epoch) is None else epoch,
            "durability": str(self.durability),
            "read_only": self.read_only or self._flusher.failure is not None,
        }

    # ---- roll, flush -----------------------------------------------------------------------------

    def roll(self, expected_next_offset: int | None = None) -> Segment:
        """Begin a new segment at the log end; returns it [ROL-1]."""
        self._require_writable()
        with self._append_lock:
            self._require_writable()
            sealed = self._local_log.segments.active_segment
            created = self._local_log.roll(expected_next_offset)
        self._flusher.segment_was_sealed(sealed)
        return created

    def flush(self) -> int:
        """Bring everything appended so far to stable storage; returns the durable offset.

        Raises
        ------
        FsyncFailedError
            The sync failed: the log is read-only from here on [DUR-35].
        """
        self._require_writable()
        durable_offset = self._flusher.flush()
        try:
            self._flusher.write_recovery_point()
        except DiskFullError:  # the records are safe; the next open checks more than it needs to
            _log.warning("%s: no room for the recovery point", self.path)
        except FsyncFailedError as error:
            self._flusher.poison(error)
            raise
        return durable_offset

    # ---- truncate, delete ------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Remove the records from *offset* on, durably; returns whether there were any.

        Source: [TRU-1..TRU-3].

        A batch that holds *offset* goes whole; the next append gets *offset* all the same [TRU-5].
        """
        self._require_writable()
        if offset < 0:
            raise IllegalArgumentError(f"offset {offset} is negative", found=str(offset))
        with self._append_lock:
            self._require_writable()
            if offset >= self.log_end_offset:
                if self._epochs.truncate_from_end(self.log_end_offset):
                    self._epochs.flush()
                    self._save_state()
                return False
            if offset < self._local_log.segments.first_segment.base_offset:
                self._truncate_fully(offset)
            else:
                self._truncate(offset)
            return True

    def _truncate(self, offset: int) -> None:
        local_log, flusher = self._local_log, self._flusher
        with _PoisonOnError(flusher):
            was_durable = flusher.durable.message_offset >= offset
            kept_end = local_log.end_of_data_below(offset)
            flusher.lower_recovery_point(min(offset, kept_end))
            local_log.truncate_to(offset)
            self._epochs.truncate_from_end(offset)
            self._epochs.flush()
            self._save_state(contiguous_from=None if kept_end == offset else offset)
            if offset < self._log_start_offset:
                self._log_start_offset = offset
                self._places.write_log_start(offset)
            if was_durable:
                flusher.note_durable(local_log.log_end)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records, durably, and go on at *offset* [TRU-4]."""
        self._require_writable()
        if offset < 0:
            raise IllegalArgumentError(f"offset {offset} is negative", found=str(offset))
        with self._append_lock:
            self._require_writable()
            self._truncate_fully(offset)

    def _truncate_fully(self, offset: int) -> None:
        with _PoisonOnError(self._flusher):
            self._flusher.lower_recovery_point(min(offset, self._log_start_offset))
            self._places.write_log_start(offset)
            self._local_log.truncate_fully_and_start_at(offset)
            self._log_start_offset = offset
            self._epochs.clear_and_flush()
            state = self._state
            self._save_state(None if state is None else min(state.contiguous_from, offset))
            self._flusher.note_durable(self._local_log.log_end)

    def delete_records(self, before_offset: int) -> int:
        """Remove the records below *before_offset*; returns the log start offset, durable [LST-4].

        Files go when all of their records are below it, and are unlinked after
        ``file_delete_delay_ms``.

        Parameters
        ----------
        before_offset : int
            At most the high watermark; -1 = the high watermark.

        Raises
        ------
        OffsetOutOfRangeError
            It is above the high watermark, or negative.
        """
        self._require_writable()
        if self.config.cleanup_policy == "compact":
            raise IllegalArgumentError("records of a compacted log are deleted by compaction")
        with self._append_lock:
            self._require_writable()
            offset = self.high_watermark if before_offset == -1 else before_offset
            if not 0 <= offset <= self.high_watermark:
                raise out_of_range(offset, self._log_start_offset, self.high_watermark)
            if offset > self._log_start_offset:
                self._places.write_log_start(offset)
                self._log_start_offset = offset
                self._epochs.truncate_from_start(offset)
                self._epochs.flush()
                self._save_state()
                self._delete_segments_below(offset)
            return self._log_start_offset

    def _delete_segments_below(self, offset: int) -> None:
        """Delete the segments that end at or below the log start; the active one stays [RET-5]."""
        segments = self._local_log.segments.as_tuple
        goes = [
            segment for segment, following in pairwise(segments) if following.base_offset <= offset
        ]
        if goes:
            try:
                self._local_log.delete_segments(goes)
            except FsyncFailedError as error:
                self._flusher.poison(error)
                raise

    # ---- reading what others write ---------------------------------------------------------------

    def refresh(self) -> int:
        """Look for what another process wrote since.

        Returns the log end. Nothing to do for a writer.

        Raises
        ------
        LogTruncatedError
            The writer cut the log below what was seen; this handle shows the shorter log now.
        """
        self._require_open()
        if self._follower is not None:
            with self._append_lock:
                self._follower.refresh()
        return self.log_end_offset

    # ---- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Sync, trim, write checkpoints and the clean marker, let go of everything.

        Twice is harmless.

        Raises
        ------
        SegstoreError
            A step failed: what was synced is safe, the next open recovers the rest [DUR-24].
        """
        if self.closed:
            return
        self._require_open()
        with self._append_lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._background.close()
        try:
            if not self.read_only:
                self._close_cleanly()
        finally:
            self._let_go()

    def _close_cleanly(self) -> None:
        if self._flusher.failure is not None:
            self._refuse(self._flusher.failure)
        local_log = self._local_log
        self._flusher.flush()
        active = local_log.segments.active_segment
        active.on_become_inactive()
        active.flush(indexes=True)
        data_end, _ = active.read_next_offset()
        size = active.size_bytes
        local_log.close()
        self._epochs.flush()
        marker = CleanShutdownMarker(data_end, active.base_offset, size, self._epochs.latest_entry)
        self._places.mark_clean(self._log_start_offset, marker)

    def close_quietly(self) -> None:
        """Let go of everything and write nothing.

        As if the process had died (Kafka ``closeQuietly``).
        """
        if self._is_closed:
            return
        self._require_open()
        self._is_closed = True
        self._background.close()
        self._let_go()

    def _let_go(self) -> None:
        self._local_log.close_quietly()
        if self._lock is not None:
            self._lock.release()
        self._directory.close()
        if self._places.parent is not None:
            self._places.parent.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        if getattr(self, "_is_closed", True) or self._process_id != _core.process_id():
            return
        if not self.read_only:
            message = (
                f"the log {self.path} was dropped without close(): the next open will recover it"
            )
            warn(message, ResourceWarning, source=self)

    def __repr__(self) -> str:
        if self._is_closed:
            return f"<UnifiedLog {self.topic_partition}, closed>"
        return (
            f"<UnifiedLog {self.topic_partition}, offsets {self.log_start_offset} to"
            f" {self.log_end_offset}{', read-only' if self.read_only else ''}>"
        )


def _uncompressed_batch_bytes(config: LogConfig, codec: Codec) -> int:
    """Return how large a batch may become before it is compressed: a codec may also expand it."""
    limit = min(config.max_message_bytes, config.roll_bytes)
    return limit if codec is Codec.NONE else max(limit - limit // 8 - 64, 1)


class _PoisonOnError:
    """What fails half-way through a truncation leaves memory and disk apart: no more writes.

    Source: [DUR-38].
    """

    def __init__(self, flusher: Flusher) -> None:
        self._flusher = flusher

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, SegstoreError):
            self._flusher.poison(error)


def open(  # noqa: PLR0913 - the front door
    path: str | os.PathLike[str],
    *,
    durability: str = "sync",
    recovery: str = "safe",
    read_only: bool = False,
    config: LogConfig | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    allow_network_fs: bool = False,
    parent_is_locked: bool = False,
    **settings: Any,
) -> UnifiedLog:
    """Open the log of one partition, and make it when it is not there.

    Parameters
    ----------
    path : path
        A directory ``<topic>-<partition>``, of this library or a broker's.
    durability : str
        When an append returns: ``sync`` (the default), ``messages=N``, ``seconds=S`` or ``none``.
    recovery : str
        ``safe``: data that had been synced is never dropped to make an open succeed.
    read_only : bool
        Take no lock and change nothing; another process may be writing.
    config : LogConfig or None
        Kafka's topic settings.
    progress : callable or None
        Called with a phase, the work done and the work to do, while an unclean log is recovered.
    allow_network_fs : bool
        Write on NFS, CIFS or FUSE, where locks and syncs may not hold what they promise [DUR-72].
    parent_is_locked : bool
        For who holds the ``.lock`` of the directory above.
    **settings
        Fields of `LogConfig`: ``segment_bytes=64 * 1024 * 1024``.

    Returns
    -------
    UnifiedLog
        Its ``report`` says what was found and done.

    Raises
    ------
    LogNotFoundError
        There is nothing at *path* to read.
    NotALogError, InvalidTopicError
        The path is not that of a partition.
    LogLockedError
        Another writer has it.
    CorruptLogError
        Data that had been synced is damaged; ``read_only=True`` opens it.
    IllegalArgumentError
        A setting that does not exist, or is out of range.
    """
    began = _core.monotonic_ns()
    full_path = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - links are not resolved
    if recovery not in RECOVERIES:
        raise IllegalArgumentError(
            f"recovery {recovery!r} does not exist yet: use 'safe'",
            found=repr(recovery),
            expected="'safe'",
        )
    mode = Durability.parse(durability)
    log_config = (config or LogConfig()).with_changes(**settings)
    directory, topic_partition = open_partition_directory(full_path, read_only=read_only)
    parent = None
    lock = None
    try:
        parent = open_parent_directory(full_path)
        if not read_only:
            check_file_system(directory, allowed=allow_network_fs)
            lock = PartitionLock.acquire(directory, parent, parent_is_locked=parent_is_locked)
        report = RecoveryReport(mode=recovery)
        codecs = codec_table(log_config.max_decompressed_batch_bytes)
        context = _core.SegmentContext(
            directory,
            codecs,
            writable=not read_only,
            heap_indexes=read_only,
            preallocate=log_config.preallocate,
            index_interval_bytes=log_config.index_interval_bytes,
            max_index_bytes=log_config.segment_index_bytes,
            segment_bytes=log_config.roll_bytes,
        )
        places = LogPlaces(directory, parent, topic_partition)
        loader = LogLoader(directory, places, context, report, progress)
        loaded = loader.load_for_reading() if read_only else loader.load_for_writing()
        mode = mode.with_flush_settings(log_config)
        log = UnifiedLog(places, loaded, context, codecs, log_config, mode, report, lock)
        report.seconds = (_core.monotonic_ns() - began) / 1e9
    except BaseException:
        if lock is not None:
            lock.release()
        directory.close()
        if parent is not None:
            parent.close()
        raise
    return log
