"""Opening a log: from the names in a directory to segments, offsets and epochs.

Source: [LDR-*, DUR-50..DUR-58].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import open_segments
from segstore.errors import CorruptLogError, CorruptRecordError
from segstore.log.files.checkpoints import LogState
from segstore.log.files.log_state_file import LogStateFile, state_after_open
from segstore.log.files.partition_directory import LOG_FILE_SUFFIX
from segstore.log.files.recovery_advice import restart_warning
from segstore.log.local.missing_records import note_missing
from segstore.log.local.segment import Segment
from segstore.log.local.segments import Segments, floor_index
from segstore.log.producers.snapshot_file import SNAPSHOT_FILE_SUFFIX
from segstore.log.producers.snapshot_files import remove_snapshots_at
from segstore.log.recovery.deleted_records import DeletedSegments, count_deleted
from segstore.log.recovery.epoch_changes import fits, note_epochs
from segstore.log.recovery.epoch_loading import read_epochs
from segstore.log.recovery.leftovers import Leftovers
from segstore.log.recovery.loaded_log import LoadedLog
from segstore.log.recovery.log_recovery import LogRecovery
from segstore.log.recovery.log_start_recovery import (
    first_missing_offset,
    kept_remote_part,
    persisted_log_start,
    require_begin,
    without_gap_from,
)
from segstore.log.recovery.lost_epochs import believed_state, note_maybe_missing
from segstore.log.recovery.lost_indexes import LostIndexes
from segstore.log.recovery.lost_log_files import require_no_synced_records
from segstore.log.recovery.overflow_split import OverflowedSegmentError, split_overflowed_segment
from segstore.log.recovery.quarantine import Quarantine
from segstore.log.recovery.recovered_tail import after_failed_sync
from segstore.log.recovery.recovery_point_from_marker import persisted_recovery_point
from segstore.log.recovery.sidecar_cleanup import SidecarCleanup
from segstore.types import LogOffsetMetadata

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable

    from segstore._core import Directory, SegmentContext
    from segstore.log.files.checkpoint_store import CheckpointStore
    from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
    from segstore.log.files.stored_state import StoredState
    from segstore.log.recovery.recovery_report import RecoveryReport


class LogLoader:
    """Loads one partition directory (Kafka ``LogLoader``), in the ``safe`` way.

    Parameters
    ----------
    directory : Directory
        Locked already when it is opened for writing.
    checkpoint_store : CheckpointStore
        Checkpoints and markers.
    context : SegmentContext
        Shared by the segments; read-only for a reader.
    report : RecoveryReport
        Filled in.
    progress : callable or None
        Called with a phase, the work done and the work to do.
    remote_log_enabled : bool
        The log begins at its log start, also where that lies below the first segment [LDR-9].
    gives_up_remote_part : bool
        Otherwise a log that an earlier handle has left in remote storage begins there too.
    """

    def __init__(  # noqa: PLR0913 - what an open brings along
        self,
        directory: Directory,
        checkpoint_store: CheckpointStore,
        context: SegmentContext,
        report: RecoveryReport,
        progress: Callable[[str, int, int], None] | None = None,
        *,
        remote_log_enabled: bool = False,
        gives_up_remote_part: bool = False,
    ) -> None:
        self._directory = directory
        self._checkpoint_store = checkpoint_store
        self._context = context
        self._report = report
        self._progress = progress
        self._remote_log_enabled = remote_log_enabled
        self._remote_part_is_reported = remote_log_enabled or gives_up_remote_part
        self._recovered: list[int] = []
        self._with_producers: list[int] = []
        self._is_rewritten = True

    def load(self) -> LoadedLog:
        """Bring the directory in order and return the log, all of it synced.

        Raises
        ------
        CorruptLogError
            Data that had been synced is damaged or missing; no record was changed.
        """
        found = self._persisted_state()
        quarantine = Quarantine(self._directory, self._report)
        self._deleted = DeletedSegments(
            self._directory, found.log_start_offset, quarantine, self._report
        )
        leftovers = Leftovers(self._directory, self._context, self._report)
        listing = leftovers.clear(quarantine, self._checkpoint_store.remove_clean_markers)
        lost_indexes = LostIndexes(
            self._directory, self._report, listing, self._context.most_index_bytes
        )
        segments = self._open_segments(listing.base_offsets(LOG_FILE_SUFFIX))
        self._report.created = not segments
        self._sidecars = SidecarCleanup(self._directory, listing.others, self._report)
        epochs, known, is_as_marked = self._read_what_is_known(segments, found)
        require_begin(
            segments, first_missing_offset(segments, found, epochs, known, is_for_writing=True)
        )
        known = without_gap_from(known, segments, found.log_start_offset)
        if self._report.created:
            self._checkpoint_store.remove_clean_markers()
            require_no_synced_records(self._directory, found, epochs)
            log_end_offset, self._report.clean = found.log_start_offset, True
        elif (clean_end := self._clean_end(found, segments, is_as_marked=is_as_marked)) is not None:
            log_end_offset = clean_end
        else:
            if found.recovery_point is not None and found.recovery_point_is_shown:
                self._checkpoint_store.write_recovery_point(found.recovery_point)
            self._checkpoint_store.remove_clean_markers()
            lost_indexes.check(segments[: floor_index(segments, found.safe_below)])
            self._note_missing(segments, known)
            log_end_offset = self._recover(segments, found, epochs, known, quarantine)
        leftovers.remove_indexes_without_log(listing if self._report.clean else None)
        log_end_offset = self._end_with_indexes(segments, lost_indexes, log_end_offset)
        if self._finish_deletions(
            segments, found, known, log_end_offset, is_as_marked=is_as_marked
        ):
            self._is_rewritten, log_end_offset = True, found.log_start_offset
            if not self._report.created or epochs.entries or known is not None:
                epochs.clear_and_flush()  # and the new name is durable before .segstore says less
        active = segments[-1]
        active.prepare_for_appends()
        epochs.truncate_from_start(found.log_start_offset)  # may move an entry to the log end
        epochs.truncate_from_end(log_end_offset)
        state_file = LogStateFile(self._directory, state_after_open(known, log_end_offset, epochs))
        epochs.flush()
        epochs.before_write = state_file.announce_epoch
        old_points = {log_end_offset, None if self._report.created else -1}
        log_end = LogOffsetMetadata(log_end_offset, active.base_offset, active.size_bytes)
        kept = None if self._remote_part_is_reported else kept_remote_part(known, segments, found)
        if kept is not None:
            self._remote_log_enabled = True
            self._report.warnings.append(kept)
        self._fill_report(segments, found, log_end_offset)
        return LoadedLog(
            Segments(segments),
            self._report.log_start_offset,
            log_end,
            log_end_offset if self._is_rewritten else found.recovery_point or 0,
            epochs,
            state_file,
            recovered=self._recovered_of(segments),
            keeps_remote_part=kept is not None,
            checksum_sidecars=frozenset(self._sidecars.base_offsets),
            with_producers=frozenset(self._with_producers),
            restart_marker=self._deleted.mark if self._deleted.mark.stands else None,
            moves_recovery_point=self._is_rewritten
            and (found.recovery_point_is_shown or found.recovery_point not in old_points),
            snapshot_offsets=(
                listing.base_offsets(SNAPSHOT_FILE_SUFFIX)
                if self._report.clean and not self._report.removed
                else None
            ),
        )

    def _persisted_state(self) -> StoredState:
        """Return what is known besides the segments; the clean markers stand.

        What needs them is settled, and written down: the first repair removes them [DUR-24].
        """
        found = self._checkpoint_store.read()
        self._report.warnings += found.warnings
        found = persisted_log_start(found, self._checkpoint_store, self._context, self._report)
        found = after_failed_sync(found, self._directory, self._report)
        found = persisted_recovery_point(found, self._checkpoint_store, self._report)
        if not self._context.heap_indexes:  # a mapped index is longer than its entries [DUR-25]
            self._checkpoint_store.remove_clean_markers()
        return found

    def _finish_deletions(
        self,
        segments: list[Segment],
        found: StoredState,
        known: LogState | None,
        log_end_offset: int,
        *,
        is_as_marked: bool,
    ) -> bool:
        """Take out what lies below the log start; returns whether that was all there is.

        The clean marker says that it was deleted, or ``.segstore`` that it was to go [TRU-4].
        """
        report, log_start, marker = self._report, found.log_start_offset, found.own_marker
        is_true = marker is not None and marker.has_crc and marker.log_start_offset == log_start
        were_deleted = (report.clean and is_as_marked and is_true) or (
            known is not None and known.is_being_emptied
        )
        deleted, was_created = self._deleted, report.created
        if deleted.segments or log_end_offset < log_start:
            self._checkpoint_store.remove_clean_markers()
        if restarts := not segments or log_end_offset < log_start:
            self._sidecars.remove_from(0)
            deleted.restart(
                segments,
                lambda: self._make_segment(log_start),
                log_end_offset,
                were_deleted=were_deleted,
            )
        else:
            deleted.finish(were_deleted=were_deleted)
        is_reported = restarts and not was_created and not (report.clean and were_deleted)
        if deleted.was_begun:
            is_reported = bool(report.set_aside or deleted.lost)
            report.created = report.clean = False
            if report.reason is None:
                report.reason = "an open before was setting all there is aside, and was not done"
        if is_reported:
            report.warnings.append(
                restart_warning(log_start, sorted(report.set_aside), deleted.lost)
            )
        return restarts

    def _open_segments(self, base_offsets: array[int]) -> list[Segment]:
        """Look up the sizes of all segments; their files are not opened."""
        return open_segments(Segment, self._context, base_offsets)

    def _make_segment(self, base_offset: int) -> Segment:
        return Segment(self._context, base_offset, create=True)

    def _clean_end(
        self, found: StoredState, segments: list[Segment], *, is_as_marked: bool
    ) -> int | None:
        """Return the log end after a clean stop, None when it was none or does not look it.

        Source: [DUR-51].
        """
        report = self._report
        report.clean = False
        marker = found.own_marker
        if not found.parent_is_clean and marker is None:
            report.reason = "no clean-shutdown marker"
            return None
        active = segments[-1]
        try:
            end, ends_clean = active.read_next_offset()
        except (CorruptRecordError, CorruptLogError) as error:
            report.reason = f"marked clean, but {error}"
            return None
        if not ends_clean:
            report.reason = f"marked clean, but {active.name} ends in bytes that are no batch"
            return None
        if found.lacks_records_from(end):
            report.reason = (
                f"marked clean, but the log ends at offset {end}, below the recovery point"
                f" {found.recovery_point}"
            )
            return None
        if (
            not found.parent_is_clean
            and marker is not None
            and not (marker.log_end_offset == end and is_as_marked)
        ):
            report.reason = (
                "another program wrote to the log, or took files out of it, since it was closed"
                " cleanly"
            )
            return None
        report.clean = True
        return end

    def _recover(
        self,
        segments: list[Segment],
        found: StoredState,
        epochs: LeaderEpochFileCache,
        state: LogState | None,
        quarantine: Quarantine,
    ) -> int:
        recovered = None
        while recovered is None:
            recovery = LogRecovery(
                self._directory,
                self._report,
                quarantine,
                state,
                self._progress,
                self._sidecars,
                self._deleted.log_ends_at,
            )
            try:
                recovered = recovery.recover(segments, found)
            except OverflowedSegmentError as overflow:
                self._split(overflow.segment, segments)
        segments[:] = recovered.segments
        self._recovered += recovered.base_offsets
        self._with_producers = recovered.with_producers
        self._is_rewritten = recovered.is_rewritten
        note_epochs(epochs, recovered.epochs)
        return recovered.next_offset

    def _note_missing(self, segments: list[Segment], known: LogState | None) -> None:
        """Keep what old indexes prove to be missing: recovery rebuilds them [DUR-7].

        Where the log is known to have no gap, one is an error, or ends the log.
        """
        if known is None or known.contiguous_from > segments[0].base_offset:
            found = note_missing(self._directory, segments)
            self._report.warnings += [str(one) for one in found]

    def _recovered_of(self, segments: list[Segment]) -> frozenset[int]:
        recovered = frozenset(self._recovered)
        if not recovered:
            return recovered
        return recovered.intersection(segment.base_offset for segment in segments)

    def _end_with_indexes(
        self, segments: list[Segment], lost_indexes: LostIndexes, log_end_offset: int
    ) -> int:
        """Make missing indexes anew; returns the log end, which a split may show to lie behind."""
        remove_clean_markers = self._checkpoint_store.remove_clean_markers
        for overflowed in lost_indexes.rebuild(segments, remove_clean_markers):
            self._split(overflowed, segments)
            log_end_offset = max(log_end_offset, segments[-1].read_next_offset()[0])
        return log_end_offset

    def _split(self, overflowed: Segment, segments: list[Segment]) -> None:
        """Put several segments in the place of one whose offsets do not fit it [LDR-30, DUR-20]."""
        self._sidecars.remove_from(overflowed.base_offset)
        split = split_overflowed_segment(
            overflowed, Segments(segments), self._directory, self._context
        )
        for old in split.taken_out:
            old.delete_files()
            old.close_quietly()
        self._report.removed += remove_snapshots_at(self._directory, set(split.vanished))
        self._report.warnings.append(
            f"{overflowed.name} held offsets that do not fit its base offset: it was split into"
            f" {len(split.segments) - len(segments) + 1} segments"
        )
        segments[:] = split.segments

    def _read_what_is_known(
        self, segments: list[Segment], found: StoredState
    ) -> tuple[LeaderEpochFileCache, LogState | None, bool]:
        """Read epochs and ``.segstore``, and whether the log is as its clean marker says.

        Checksum sidecars go that may not be true. Segments that a log start, or the local one, says
        were being deleted [DUR-19] are no more among the others, and go when the log is accepted.
        """
        first = count_deleted(segments, found.log_start_offset)
        epochs = read_epochs(
            self._directory,
            segments[first:],
            found.log_start_offset,
            self._report,
            writable=True,
        )
        is_as_marked = fits(found.own_marker, segments, epochs)
        state = self._read_state(found, is_as_marked=is_as_marked)
        known = believed_state(state, segments[first:], found, epochs)
        if known is not None:
            first = max(first, count_deleted(segments, known.local_log_start_offset))
        self._deleted.segments = segments[:first]
        del segments[:first]
        note_maybe_missing(
            self._directory, state, segments, found, epochs, self._report, is_for_writing=True
        )
        is_own = state is not None and state.fits(epochs.latest_entry)  # else others may be here
        self._sidecars.keep_valid(segments, is_known=is_own)
        return epochs, known, is_as_marked

    def _read_state(self, found: StoredState, *, is_as_marked: bool) -> LogState | None:
        """Return what ``.segstore`` says, None when a broker has closed the log since [DUR-64]."""
        marker = found.own_marker
        if found.parent_is_clean and not (
            is_as_marked and marker is not None and marker.segments is not None
        ):
            return None
        return LogState.read(self._directory)

    def _fill_report(
        self, segments: list[Segment], found: StoredState, log_end_offset: int
    ) -> None:
        report = self._report
        report.log_start_offset = found.log_start_offset
        if not self._remote_log_enabled:
            report.log_start_offset = max(found.log_start_offset, segments[0].base_offset)
        report.log_end_offset = log_end_offset
        report.recovery_point = log_end_offset if report.clean else found.safe_below
        report.had_recovery_point = report.clean or found.recovery_point is not None
        report.segments = len(segments)
