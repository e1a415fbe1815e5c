"""Opening a log exactly as a broker does (Kafka ``LogLoader``), its losses included [DUR-62].

For ``recovery="kafka"``; `LogLoader` is that of ``safe``. No file but Kafka's is read or written.

Source: [LDR-1..LDR-34]; the *Port* notes there do not hold here.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from segstore._core import base_offset_of
from segstore.errors import (
    CorruptCheckpointError,
    CorruptIndexError,
    IllegalStateError,
    InvalidOffsetError,
    LogSegmentOffsetOverflowError,
)
from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
from segstore.log.files.partition_directory import (
    DELETE_DIRECTORY_SUFFIX,
    DELETED_FILE_SUFFIX,
    INDEX_ENTRY_BYTES,
    INDEX_FILE_SUFFIXES,
    LOG_FILE_SUFFIX,
    file_name,
    offset_from_file_name,
)
from segstore.log.kafka_profile.kafka_recovery import KafkaRecovery
from segstore.log.kafka_profile.swap_files import SwapFiles, file_names
from segstore.log.local.segment import Segment, open_named_segment
from segstore.log.local.segments import Segments
from segstore.log.local.transaction_index import LOADED_VERSIONS, TransactionIndex
from segstore.log.producers.producer_state_rebuild import rebuild_producer_state
from segstore.log.recovery.loaded_log import LoadedLog
from segstore.log.recovery.overflow_split import split_overflowed_segment
from segstore.number_limits import MAX_LONG
from segstore.types import CURRENT_MAGIC, LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from segstore._core import CodecTable, Directory, SegmentContext
    from segstore.log.files.checkpoint_store import CheckpointStore
    from segstore.log.producers.producer_state_manager import ProducerStateManager
    from segstore.log.producers.snapshot_file import SnapshotFile
    from segstore.log.recovery.recovery_report import RecoveryReport

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")


class _RecoveryOffsets(NamedTuple):
    """Where the log ends, and below which offset nothing needs recovery (Kafka's)."""

    recovery_point: int
    next_offset: int


class KafkaLogLoader:
    """Loads one partition directory.

    Parameters
    ----------
    directory, checkpoint_store, context, report, progress
        As for `load_to_write`; the context with ``kafka_profile``.
    codecs : CodecTable
        For the records of control batches.
    new_producer_state : callable
        Gives an empty producer state over the directory, for which the snapshots are listed.
    now_ms : int
        Wall clock: expired producers are not loaded.
    """

    def __init__(  # noqa: PLR0913 - what an open brings along
        self,
        directory: Directory,
        checkpoint_store: CheckpointStore,
        context: SegmentContext,
        report: RecoveryReport,
        progress: Callable[[str, int, int], None] | None = None,
        *,
        codecs: CodecTable,
        new_producer_state: Callable[[], ProducerStateManager],
        now_ms: int,
        remote_log_enabled: bool = False,
    ) -> None:
        self._directory = directory
        self._context = context
        self._report = report
        self._progress = progress
        self._codecs = codecs
        self._new_producer_state = new_producer_state
        self._now_ms = now_ms
        self._remote_log_enabled = remote_log_enabled
        self._checkpoint_store = checkpoint_store
        found = checkpoint_store.read()
        self._was_clean = found.parent_is_clean or found.own_marker is not None
        self._log_start_offset = found.log_start_offset
        self._recovery_point = found.recovery_point or 0
        self._segments: dict[int, Segment] = {}
        self._recovering: Segment | None = None
        """Which `LogSegmentOffsetOverflowError` is about."""
        self._taken_out: list[Segment | SnapshotFile] = []
        self._epochs = _epoch_cache(directory)
        self._producer_state = new_producer_state()

    def load(self) -> LoadedLog:
        """Bring the directory in order as a broker would, and return the log.

        Raises
        ------
        SegstoreError
            A broker would not load the log either; what it had done to the files is done.
        """
        try:
            return self._load()
        except BaseException:
            for one in (*self._segments.values(), *self._taken_out):
                if isinstance(one, Segment):
                    one.close_quietly()
            raise

    def _load(self) -> LoadedLog:
        self._checkpoint_store.remove_clean_markers()
        SwapFiles(self._directory, self._context, self._report).sort_out()
        self._report.clean = self._was_clean
        self._retry_on_offset_overflow(self._load_segment_files)
        self._report.created = not self._segments
        if self._directory.path.endswith(DELETE_DIRECTORY_SUFFIX):
            if not self._segments:
                self._create_segment(0)
            offsets = _RecoveryOffsets(0, 0)  # segments or not: nothing is appended any more
        else:
            offsets = self._retry_on_offset_overflow(self._recover_log)
            self._in_order().active_segment.prepare_for_appends()
        segments = self._in_order()
        log_start_offset = self._log_start_offset
        if not self._remote_log_enabled:  # else what lies before the first segment is there
            log_start_offset = max(log_start_offset, segments.first_segment.base_offset)
        if self._epochs.truncate_from_end(offsets.next_offset):
            self._epochs.flush(force=True)
        if self._epochs.truncate_from_start(self._log_start_offset):
            self._epochs.flush(force=True)
        state = self._producer_state
        if not state.is_empty:
            raise IllegalStateError("loading a log has touched its producer state")
        state.snapshots.remove_strays(segments.base_offsets)
        rebuild_producer_state(
            state,
            segments,
            self._codecs,
            log_start_offset=log_start_offset,
            last_offset=offsets.next_offset,
            now_ms=self._now_ms,
            from_clean_shutdown=self._was_clean,
        )
        active = segments.active_segment
        self._fill_report(segments, log_start_offset, offsets)
        return LoadedLog(
            segments,
            log_start_offset,
            LogOffsetMetadata(offsets.next_offset, active.base_offset, active.size_bytes),
            offsets.recovery_point,
            self._epochs,
            None,
            may_have_gaps=True,
            producer_state=state,
            awaiting_deletion=tuple(self._taken_out),
        )

    def _in_order(self) -> Segments:
        return Segments(self._segments.values())

    def _create_segment(self, base_offset: int) -> None:
        self._segments[base_offset] = Segment(self._context, base_offset, create=True)

    # ---- the fourth pass -------------------------------------------------------------------------

    def _retry_on_offset_overflow(self, step: Callable[[], _Answer]) -> _Answer:
        """Run *step*; split a segment whose offsets do not fit, and begin again [LDR-30]."""
        while True:
            try:
                return step()
            except LogSegmentOffsetOverflowError as error:
                overflowed = self._recovering
                if overflowed is None:
                    raise
                _log.info("%s: the segment is split", error)
            split = split_overflowed_segment(
                overflowed, self._in_order(), self._directory, self._context
            )
            self._segments = {segment.base_offset: segment for segment in split.segments}
            if split.taken_out:
                self._taken_out += split.taken_out
            else:
                overflowed.close_quietly()
            self._take_out_snapshots(split.vanished)

    def _load_segment_files(self) -> None:
        """Open every segment, in file order; recover those without an offset index [LDR-10..14]."""
        for segment in self._segments.values():
            segment.close()
        self._segments.clear()
        for name in file_names(self._directory):
            if name.endswith(tuple(f".{kind}" for kind in INDEX_FILE_SUFFIXES)):
                base = offset_from_file_name(name)
                if not self._directory.exists(file_name(base, LOG_FILE_SUFFIX)):
                    self._directory.unlink(name)
                    self._report.removed.append(name)
            elif name.endswith(f".{LOG_FILE_SUFFIX}"):
                self._load_segment(offset_from_file_name(name))

    def _load_segment(self, base_offset: int) -> None:
        has_index, has_time_index = (
            self._directory.exists(file_name(base_offset, kind)) for kind in INDEX_ENTRY_BYTES
        )
        segment = open_named_segment(self._directory, self._context, base_offset)
        try:
            if not has_index:
                self._recover_segment(segment)
            else:
                if not has_time_index:
                    self._directory.make_file(file_name(base_offset, "timeindex"))
                try:
                    self._transaction_index(segment).sanity_check(LOADED_VERSIONS)
                except CorruptIndexError as error:
                    _log.warning("%s: the segment is recovered", error)
                    self._recover_segment(segment)
        except LogSegmentOffsetOverflowError:
            raise  # it is looked at yet
        except BaseException:
            segment.close_quietly()
            raise
        self._segments[base_offset] = segment

    # ---- recovery --------------------------------------------------------------------------------

    def _recover_segment(self, segment: Segment) -> int:
        """Recover one segment; returns the bytes cut [LDR-16].

        Its producers are those of the segments before it, in a state of its own [LDR-17].
        """
        self._recovering = segment
        state = self._new_producer_state()
        rebuild_producer_state(
            state,
            self._in_order(),
            self._codecs,
            log_start_offset=self._log_start_offset,
            last_offset=segment.base_offset,
            now_ms=self._now_ms,
            from_clean_shutdown=False,
        )
        self._report.scanned_bytes += segment.size_bytes
        index = self._transaction_index(segment)
        cut = KafkaRecovery(segment, index, state, self._epochs, self._codecs).recover()
        self._report.rebuilt += [file_name(segment.base_offset, kind) for kind in INDEX_ENTRY_BYTES]
        state.take_snapshot()
        return cut

    def _transaction_index(self, segment: Segment) -> TransactionIndex:
        return TransactionIndex(self._directory, segment.base_offset, cut_torn_entry=False)

    def _recover_log(self) -> _RecoveryOffsets:
        """Recover what may not be on disk, and find the end of the log [LDR-20..LDR-27]."""
        if not self._was_clean:
            self._recover_unflushed_segments()
        kept_end = self._delete_segments_below_log_start()
        if not self._segments:
            self._create_segment(self._log_start_offset)
        if self._was_clean and kept_end is not None:
            return _RecoveryOffsets(kept_end, kept_end)
        end = kept_end
        if end is None:
            end = self._read_next_offset(self._in_order().active_segment)
        return _RecoveryOffsets(min(self._recovery_point, end), end)

    def _recover_unflushed_segments(self) -> None:
        unflushed = self._in_order().values(self._recovery_point, MAX_LONG)
        total = sum(segment.size_bytes for segment in unflushed)
        for number, segment in enumerate(unflushed):
            try:
                cut = self._recover_segment(segment)
            except InvalidOffsetError as error:  # an I/O error deletes nothing [DUR-6]
                _log.warning("%s: the segment is emptied: %s", segment.path, error)
                cut = segment.truncate_to(segment.base_offset)
                self._transaction_index(segment).truncate_to(segment.base_offset)
                self._report.reason = f"{segment.name}: {error}"
            if cut > 0:
                end = self._read_next_offset(segment)
                self._note_truncation(segment, end, cut, unflushed[number + 1 :])
                self._take_out(unflushed[number + 1 :])
                self._take_out_snapshots([one.base_offset for one in unflushed[number + 1 :]])
                break
            if self._progress is not None:
                self._progress("recover", self._report.scanned_bytes, total)

    def _delete_segments_below_log_start(self) -> int | None:
        """Return the log end; None, and no segment is left, when it is below the log start.

        Source: [LDR-25].
        """
        if not self._segments:
            return None
        segments = self._in_order()
        end = self._read_next_offset(segments.active_segment)
        if end >= self._log_start_offset:
            return end
        self._report.warnings.append(
            f"the log start {self._log_start_offset} lies above the end {end}: the log begins again"
        )
        self._take_out(segments)
        self._epochs.clear_and_flush()
        self._producer_state.truncate_fully_and_start_at(self._log_start_offset)
        return None

    def _read_next_offset(self, segment: Segment) -> int:
        """Return the end of *segment*; fails where a broker's look-up of its last entry does.

        That one asks the batch there for its first offset, and an old compressed one has it in its
        records [LDR-28].
        """
        last_entry, _ = segment.offset_index_lookup(MAX_LONG)
        batch = segment.translate_offset(last_entry)
        if batch is not None and batch.first_batch_magic < CURRENT_MAGIC:
            size = batch.first_batch_size
            base_offset_of(
                self._directory.read_range(segment.name, batch.position, size), self._codecs
            )
        return segment.read_next_offset()[0]

    def _take_out(self, segments: Iterable[Segment]) -> None:
        """Rename segments to ``.deleted``, to be deleted later [LOC-19, LOC-20]."""
        for segment in list(segments):
            del self._segments[segment.base_offset]
            segment.change_suffix(DELETED_FILE_SUFFIX)
            self._taken_out.append(segment)
            self._report.removed.append(segment.name)

    def _take_out_snapshots(self, base_offsets: Iterable[int]) -> None:
        for base in base_offsets:
            snapshot = self._producer_state.snapshots.mark_for_deletion(base)
            if snapshot is not None:
                self._taken_out.append(snapshot)

    # ---- the report ------------------------------------------------------------------------------

    def _note_truncation(
        self, segment: Segment, end: int, cut: int, later: Collection[Segment]
    ) -> None:
        report = self._report
        report.truncated_from_offset = end
        report.truncated_bytes += cut + sum(one.size_bytes for one in later)
        report.reason = report.reason or f"{segment.name} ends in bytes that are no batch"

    def _fill_report(
        self, segments: Segments, log_start_offset: int, offsets: _RecoveryOffsets
    ) -> None:
        report = self._report
        report.log_start_offset = log_start_offset
        report.log_end_offset = offsets.next_offset
        report.recovery_point = offsets.recovery_point
        report.segments = len(segments)
        report.warnings += [
            f"{error}: the snapshot was deleted" for error in self._producer_state.snapshots.refused
        ]


def _epoch_cache(directory: Directory) -> LeaderEpochFileCache:
    """Read the leader-epoch checkpoint; an empty one is made where there is none [EPC-12]."""
    try:
        cache = LeaderEpochFileCache.read(directory, writable=True)
    except CorruptCheckpointError as error:
        error.file = f"{directory.path}/{LEADER_EPOCH_CHECKPOINT}"
        raise
    if cache is not None:
        return cache
    directory.make_file(LEADER_EPOCH_CHECKPOINT)
    return LeaderEpochFileCache(directory)
