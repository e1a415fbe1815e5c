"""The log of one partition as a user sees it.

State, roll, flush, close (Kafka ``UnifiedLog``). What reads, appends and truncates is in its bases,
`LogReader`, `LogAppender` and `LogTruncator`; `log_opener` makes it.
"""

from __future__ import annotations

import logging
import threading
import warnings
from typing import TYPE_CHECKING

import segstore._core as _core
from segstore.config import MAX_LONG
from segstore.errors import DiskFullError, FsyncFailedError
from segstore.log.arguments import callback
from segstore.log.checkpoints import CleanShutdownMarker
from segstore.log.flusher import Flusher
from segstore.log.local_log import LocalLog
from segstore.log.log_follower import LogFollower
from segstore.log.log_truncator import LogTruncator
from segstore.log.producer_input import ProducerInput
from segstore.records.compression import compression_level
from segstore.records.record_builder import codec_of
from segstore.types import Codec

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from segstore._core import CodecTable, Directory, SegmentContext
    from segstore.config import LogConfig
    from segstore.log.loaded_log import LoadedLog
    from segstore.log.log_opener import OpenOptions
    from segstore.log.log_places import LogPlaces
    from segstore.log.log_verifier import VerifyReport
    from segstore.log.partition_lock import PartitionLock
    from segstore.log.recovery_report import RecoveryReport
    from segstore.log.segment import Segment
    from segstore.log.surroundings import Surroundings
    from segstore.types import LogOffsetMetadata

_log = logging.getLogger(__name__)


class UnifiedLog(LogTruncator):
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
        options: OpenOptions,
        report: RecoveryReport,
        lock: PartitionLock | None,
        surroundings: Surroundings,
    ) -> None:
        config = options.config
        durability = options.durability.with_flush_settings(config)
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
        self._background = surroundings.background(f"segstore-{self.topic_partition}", lock)
        self._epochs = loaded.epochs
        self._state = loaded.state
        self._log_start_offset = loaded.log_start_offset
        self._local_log = LocalLog(
            self._directory, context, config, loaded.segments, loaded.log_end, self._background
        )
        self._local_log.may_have_gaps = loaded.may_have_gaps
        self._follower: LogFollower | None = None
        if self.read_only:
            self._follower = LogFollower(self._local_log, places, context, loaded)
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
        follower = self._follower
        if follower is not None:
            with self._append_lock:
                try:
                    follower.refresh()
                finally:
                    self._log_start_offset = follower.log_start_offset
        return self.log_end_offset

    # ---- checking --------------------------------------------------------------------------------

    def verify(self, progress: Callable[[str, int, int], None] | None = None) -> VerifyReport:
        """Check every batch and every index entry; changes nothing.

        Parameters
        ----------
        progress : callable or None
            Called with ``"verify"``, bytes checked, bytes to check.
        """
        from segstore.log.log_verifier import verify_log

        self._require_open()
        callback("progress", progress)
        return verify_log(self._local_log, progress)

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
        try:
            self._background.close()
            if not self.read_only:
                self._close_cleanly()
        finally:
            self._let_go()

    def _close_cleanly(self) -> None:
        if self._flusher.failure is not None:
            self._refuse(self._flusher.failure)
        local_log = self._local_log
        with self._append_lock:
            local_log.settle()  # no mark on what was interrupted
        self._flusher.flush()
        active = local_log.segments.active_segment
        active.on_become_inactive()
        active.flush(indexes=True)
        data_end, _ = active.read_next_offset()
        size = active.size_bytes
        sizes = local_log.segments.size_in_bytes
        local_log.close()
        self._epochs.flush()
        marker = CleanShutdownMarker(
            data_end,
            active.base_offset,
            size,
            self._epochs.latest_entry,
            len(local_log.segments),
            sizes,
            self._log_start_offset,
        )
        self._places.mark_clean(self._log_start_offset, marker)

    def close_quietly(self) -> None:
        """Let go of everything and write nothing.

        As if the process had died (Kafka ``closeQuietly``).
        """
        if self.closed:
            return
        self._require_open()
        with self._append_lock:  # who is inside an append leaves it first [DUR-70]
            if self._is_closed:
                return
            self._is_closed = True
        try:
            self._background.close()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._background.close()  # once more, when that was interrupted
        if not self.read_only:
            self._flusher.end()
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
        self._background.drop()
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
    """Return how large a batch may become before it is compressed: a codec may also expand it.

    What is compressed here can be read again: no limit of reading is below that of writing.
    """
    limit = min(config.max_message_bytes, config.roll_bytes)
    if codec is Codec.NONE:
        return limit
    reading = min(config.max_decompressed_batch_bytes, config.max_record_bytes)
    return min(max(limit - limit // 8 - 64, 1), reading)
