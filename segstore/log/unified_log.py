"""The log of one partition as a user sees it.

State, roll, flush, close (Kafka ``UnifiedLog``). What reads, appends and truncates is in its bases,
`LogReader`, `LogAppender` and `LogTruncator`; `log_opener` makes it.
"""

from __future__ import annotations

import logging
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING

import segstore._core as _core
from segstore.arguments import flag, integer, refuse_pickle
from segstore.errors import DiskFullError, FsyncFailedError, IllegalStateError
from segstore.log.directory.clean_shutdown_marker import CleanShutdownMarker
from segstore.log.directory.copied_log import place_of
from segstore.log.directory.log_dir_failure_channel import IO_ERRORS
from segstore.log.directory.partition_metadata_file import PartitionMetadataFile
from segstore.log.directory.profile import Profile
from segstore.log.ending import Ending, told_once
from segstore.log.flusher import Flusher
from segstore.log.kafka_flusher import KafkaFlusher
from segstore.log.local.local_log import LocalLog
from segstore.log.local.seen_end import SeenEnd
from segstore.log.local.segment import Segment
from segstore.log.log_checksums import LogChecksums
from segstore.log.log_follower import LogFollower
from segstore.log.log_offsets import LogOffsets

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn, Self

    from segstore._core import CodecTable, Directory, SegmentContext
    from segstore.log.directory.holdings import Holdings
    from segstore.log.directory.log_places import LogPlaces
    from segstore.log.loader.loaded_log import LoadedLog
    from segstore.log.loader.recovery_report import RecoveryReport
    from segstore.log.open_options import OpenOptions
    from segstore.log.surroundings import Surroundings
    from segstore.types import LogOffsetMetadata

_log = logging.getLogger(__name__)


class UnifiedLog(LogChecksums):
    """One partition's log; any number of threads append and read. Made by `segstore.open`.

    Attributes
    ----------
    topic_partition : TopicPartition
        From the directory's name.
    path : str
        The directory, absolute.
    config : LogConfig
        The settings that the log goes by; `update_config` changes them.
    durability : Durability
        When an append returns, as ``durability=`` and the flush settings of *config* say.
    profile : Profile
        ``Profile.SAFE``, or ``Profile.KAFKA`` with ``recovery="kafka"``.
    read_only : bool
        The log takes no changes, and another process may be writing it.
    report : RecoveryReport
        What the open found and did.
    ending : Ending
        Its end, by `close`, `close_quietly` or `delete`: also who waits for it.
    """

    def __init__(  # noqa: PLR0913, PLR0915 - put together by log_opener
        self,
        places: LogPlaces,
        loaded: LoadedLog,
        context: SegmentContext,
        codecs: CodecTable,
        options: OpenOptions,
        report: RecoveryReport,
        holdings: Holdings,
        surroundings: Surroundings,
    ) -> None:
        config = options.config
        self.topic_partition = places.topic_partition
        self.path: str = places.directory.path
        self.config = config
        self.profile = options.profile
        self._chosen_durability = options.durability
        self.durability = durability = options.durability.with_flush_settings(config)
        self.read_only = holdings.lock is None
        self.report, self._remote_offset_reader = report, options.remote_offset_reader
        self._process_id = _core.process_id()
        self._is_closed = True  # until it is open to somebody: an open that fails warns of nothing
        self._places = places
        self._directory: Directory = places.directory
        self._codecs, self._holdings = codecs, holdings
        self._failures, self._on_new_name = surroundings.failures, surroundings.on_new_name
        self._background = background = surroundings.background(
            f"segstore-{self.topic_partition}", holdings.lock
        )
        self._append_lock, self.ending = _core.AppendLock(), Ending(background.runs_this_thread)
        self._epochs, self._state_file = loaded.epochs, loaded.state_file
        seen_end = None
        if self.read_only:
            seen_end = SeenEnd(places, context, loaded.segments, loaded.log_end)
        producers = loaded.producer_state
        published = _core.PublishedEnd() if producers is None else producers.published
        self._local_log = LocalLog(
            self._directory,
            context,
            config,
            loaded.segments,
            loaded.log_end,
            published,
            self._background,
            codecs,
            may_have_gaps=loaded.may_have_gaps or self.profile is Profile.KAFKA,
            first_missing_offset=loaded.first_missing_offset,
            checksum_sidecars=self._sidecars(loaded, options),
            seen_end=seen_end,
        )
        self._offsets = LogOffsets(
            self._local_log,
            loaded.producer_state,
            loaded.log_start_offset,
            replicated=options.replicated,
            profile=self.profile,
        )
        self._topic_id = loaded.topic_id
        self._follower = None
        if seen_end is not None:
            self._follower = LogFollower(
                self._local_log,
                seen_end,
                self._offsets,
                places,
                context,
                loaded.recovery_point,
                loaded.topic_id,
            )
            self._is_closed = False
            return
        if loaded.producer_state is None:
            raise IllegalStateError("a log that is written needs its producers", file=self.path)
        self._producers = loaded.producer_state
        flusher = KafkaFlusher if self.profile is Profile.KAFKA else Flusher
        self._flusher = flusher(
            self._local_log,
            self._append_lock,
            durability,
            self._background,
            self.topic_partition,
            loaded.recovery_point,
            surroundings.failures,
        )
        self._let_handlers_know(loaded)
        self._keeps_remote_part = loaded.keeps_remote_part
        self._use_config(config)
        self._flusher.raise_recovery_point(self.local_log_start_offset)
        if self.profile is Profile.SAFE and loaded.recovery_point < loaded.log_end.message_offset:
            self._flusher.settle_later(loaded.log_start_offset)
        self._offsets.update_first_unstable_offset()
        self._partition_metadata = PartitionMetadataFile(self._directory)
        if options.topic_id is not None:
            self._take_topic_id(options.topic_id)
        for one in loaded.awaiting_deletion:
            unlink = one.delete_files if isinstance(one, Segment) else one.delete_if_exists
            self._local_log.unlink_later(unlink)
        self._opened_ms = self._now_ms()
        if self.profile is Profile.KAFKA or not self._producers.is_empty:
            self._expire_producers_later()
        self._is_closed = False

    def _let_handlers_know(self, loaded: LoadedLog) -> None:
        """Let a signal's handler that changes the log while a file is written be told before it."""
        files = loaded.state_file, self._local_log.checksum_sidecars
        for one in files:
            if one is not None:
                self._append_lock.comes_before(one.lock)
        self._append_lock.comes_before(self._producers.sync_lock)

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
            self._begin_change()
            return self._roll(expected_next_offset)

    def flush(self, *, force_active_segment: bool = False) -> int:
        """Bring everything appended so far to stable storage; returns the durable offset.

        Parameters
        ----------
        force_active_segment : bool
            Also when it is empty: its files are made and synced, as before a clean stop [FLU-3].

        Raises
        ------
        FsyncFailedError
            The sync failed: the log is read-only from here on [DUR-35].
        """
        self._require_writable()
        flag("force_active_segment", force_active_segment)
        flusher = self._flusher
        if isinstance(flusher, KafkaFlusher):
            return flusher.flush_up_to(self.log_end_offset, inclusive=force_active_segment)
        durable_offset = flusher.flush()
        if force_active_segment:
            flusher.sync_active_segment()
        try:
            flusher.write_recovery_point()
        except DiskFullError:  # the records are safe; the next open checks more than it needs to
            _log.warning("%s: no room for the recovery point", self.path)
        except FsyncFailedError as error:
            flusher.poison(error)
            raise
        return durable_offset

    def flush_up_to_offset_exclusive(self, offset: int) -> int:
        """Bring what is below *offset* to stable storage, or more; returns the durable offset.

        Source: [FLU-1]; Kafka ``UnifiedLog.flushUptoOffsetExclusive``.
        """
        self._require_writable()
        offset = integer("offset", offset)
        flusher = self._flusher
        if isinstance(flusher, KafkaFlusher):
            return flusher.flush_up_to(offset, inclusive=False)
        return self.flush() if offset > self.durable_offset else self.durable_offset

    # ---- reading what others write ---------------------------------------------------------------

    def refresh(self) -> int:
        """Look for what another process wrote since.

        Returns the log end. Nothing to do for a writer.

        Raises
        ------
        LogTruncatedError
            The writer cut the log below what was seen; this handle shows the log as it is now.
        LogNotFoundError
            The log was deleted; one that was made in its place is not followed.
        InconsistentTopicIdError
            The same, where ``partition.metadata`` has another topic's id; the error has both.
        """
        self._require_open()
        follower = self._follower
        if follower is not None:
            with self._append_lock:
                follower.refresh()
        return self.log_end_offset

    def _is_in_place(self) -> bool:
        """Whether a reader's directory is still at its path, and of the same topic."""
        return self._follower is None or self._follower.is_in_place()

    # ---- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Sync, trim, write checkpoints and the clean marker, let go of everything.

        Twice is harmless.

        Raises
        ------
        SegstoreError
            A step failed: what was synced is safe, the next open recovers the rest [DUR-24].
        """
        with nullcontext() if self.read_only else self._flusher.poisoned_by(*IO_ERRORS):
            self._end(lambda: None if self.read_only else self._close_cleanly())

    def _close_cleanly(self) -> None:
        self._require_not_failed()
        local_log, is_safe = self._local_log, self.profile is Profile.SAFE
        with self._append_lock:
            local_log.settle()  # no mark on what was interrupted
            if is_safe:
                self._settle_notes()
            self._flush_topic_id()
            self._offsets.listen(None)
        active = local_log.segments.active_segment
        if is_safe:
            self._flusher.flush()
            active.on_become_inactive()
            active.flush(_core.Barrier.CLOSED_RECORDS, indexes=True)
        elif self._places.takes_marks and isinstance(self._flusher, KafkaFlusher):
            self._flusher.flush_up_to(self.log_end_offset, inclusive=True)  # what it says is there
        self._take_last_snapshot()
        data_end = active.read_next_offset()[0] if is_safe else self.log_end_offset
        size = active.size_bytes
        sizes = local_log.segments.size_in_bytes
        if is_safe:
            self._rebuild_indexes_at_last()
        local_log.close(unlink=is_safe)
        if is_safe:
            self._epochs.flush()
        marker = CleanShutdownMarker(
            data_end,
            active.base_offset,
            size,
            self._epochs.latest_entry,
            len(local_log.segments),
            sizes,
            self.log_start_offset,
            *place_of(local_log.directory, active.base_offset),
        )
        self._flusher.end()  # no flush that came just before writes a recovery point beside this
        self._require_not_failed()  # nor a log beside it, meanwhile [LOC-27]
        self._places.mark_clean(self.log_start_offset, marker)

    def close_quietly(self) -> None:
        """Let go of everything and write nothing.

        As if the process had died (Kafka ``closeQuietly``).
        """
        self._end(lambda: None)

    def _let_go(self) -> None:
        self._background.close()  # once more, when that was interrupted
        try:
            if not self.read_only:
                self._flusher.end()
        finally:
            self._local_log.close_quietly()
            self._holdings.let_go()
        self.ending.is_over = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        with told_once(error):
            self.close()

    def __del__(
        self,
        warn: Callable[..., None] = warnings.warn,
        process_id: Callable[[], int] = _core.process_id,
    ) -> None:
        # at the interpreter's end a module's names may be gone before the last log is
        if getattr(self, "_is_closed", True) or self._process_id != process_id():
            return
        self._background.drop()
        if not self.read_only:
            message = (
                f"the log {self.path} was dropped without close(): the next open will recover it"
            )
            warn(message, ResourceWarning, source=self)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        refuse_pickle(
            f"the log {self.topic_partition}",
            "pass its path, and open it there: segstore.open(path, read_only=True)",
        )

    def __repr__(self) -> str:
        if self._is_closed:
            return f"<UnifiedLog {self.topic_partition}, closed>"
        return (
            f"<UnifiedLog {self.topic_partition}, offsets {self.log_start_offset} to"
            f" {self.log_end_offset}{', read-only' if self.read_only else ''}>"
        )
