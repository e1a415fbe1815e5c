"""Carries out what an open for writing has planned: the only part of recovery that writes.

A crash anywhere in it leaves a log that is judged as before, so that the next open does the rest.

Source: [DUR-36, DUR-52, DUR-55..DUR-59].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore._core import Barrier
from segstore.errors import CorruptLogError
from segstore.log.files.checkpoints import MISSING_RECORDS, SYNC_FAILED_MARK
from segstore.log.files.kept_aside import kept_indexes, take_out
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
from segstore.log.files.log_state_file import (
    LogStateFile,
    allow_gaps_below,
    announce_cut,
    state_after_open,
)
from segstore.log.files.missing_records_file import forget_ranges_from
from segstore.log.files.partition_directory import SWAP_FILE_SUFFIX
from segstore.log.local.missing_records import note
from segstore.log.local.segment import Segment
from segstore.log.local.segments import Segments
from segstore.log.local.tail_rewrite import rewrite_from
from segstore.log.producers.snapshot_file import SNAPSHOT_FILE_SUFFIX
from segstore.log.producers.snapshot_files import remove_snapshots_at
from segstore.log.recovery.epoch_changes import note_epochs
from segstore.log.recovery.loaded_log import LoadedLog
from segstore.log.recovery.overflow_split import split_overflowed_segment
from segstore.log.recovery.quarantine import Quarantine, set_aside
from segstore.log.recovery.survey import HowToScan
from segstore.types import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore._core import Directory, SegmentContext
    from segstore.log.files.checkpoint_store import CheckpointStore
    from segstore.log.recovery.judge import Start
    from segstore.log.recovery.judge_tail import Tail
    from segstore.log.recovery.plan import LeftoversPlan, Plan, SetAside
    from segstore.log.recovery.recovery_report import RecoveryReport
    from segstore.log.recovery.survey import Survey

_CUT_NOWHERE: Final = -1


class Repair:
    """Changes one partition directory.

    Parameters
    ----------
    directory : Directory
        Locked.
    context : SegmentContext
        For the segments that are made.
    checkpoint_store : CheckpointStore
        Checkpoints and markers.
    report : RecoveryReport
        Takes what is only known when it is done.
    """

    def __init__(
        self,
        directory: Directory,
        context: SegmentContext,
        checkpoint_store: CheckpointStore,
        report: RecoveryReport,
    ) -> None:
        self._directory = directory
        self._context = context
        self._checkpoint_store = checkpoint_store
        self._report = report

    # ---- what comes first ------------------------------------------------------------------------

    def begin(self, start: Start, synced_end: int | None, *, changes_log: bool) -> None:
        """Remove the clean markers if the log changes [DUR-24]; what only they say comes before.

        Parameters
        ----------
        start : Start
            What the small files say.
        synced_end : int or None
            The end of a log that was closed cleanly. Without the markers only the recovery point
            says that the records below it are durable.
        changes_log : bool
            The repair changes segments, indexes or the log start.

        Raises
        ------
        DiskFullError
            No room for it. The markers stay: without them damage of what had been synced would look
            like an end that was not, and be cut [DUR-6, DUR-30].
        """
        stored = start.stored
        if start.writes_log_start:
            self._checkpoint_store.write_log_start(stored.log_start_offset)
        # a mapped index is longer than its entries [DUR-25]
        removes_markers = changes_log or not self._context.heap_indexes
        point = stored.recovery_point
        is_lost = start.writes_recovery_point or (changes_log and stored.recovery_point_is_shown)
        if removes_markers and synced_end is not None and synced_end > (point or 0):
            point, is_lost = synced_end, True
        if is_lost and point is not None:
            self._checkpoint_store.write_recovery_point(point)
        if removes_markers:
            self._checkpoint_store.remove_clean_markers()

    def clear_leftovers(self, survey: Survey, plan: LeftoversPlan) -> None:
        """Finish or undo what was interrupted."""
        found, directory = survey.leftovers, self._directory
        if not (plan.others or found.has_swaps):
            return
        if plan.first:  # without the .cleaned files they would look complete
            self._unlink(plan.first)
            directory.sync(Barrier.LEFTOVERS_INCOMPLETE)
        self._unlink(plan.others)
        for base, name in plan.damaged:
            set_aside(directory, base, name, SWAP_FILE_SUFFIX)
        if found.ranges:
            allow_gaps_below(directory, found.swapped_end)
            self._unlink(plan.replaced)
            directory.sync(Barrier.LEFTOVERS_REPLACED)
        for file in found.renamed:
            directory.rename(file.name, file._replace(suffix="").name)
        directory.sync(Barrier.LEFTOVERS_GONE)

    def split(self, survey: Survey, overflowed: Segment, sidecars: tuple[str, ...]) -> None:
        """Put several segments in the place of one whose offsets do not fit it [LDR-30, DUR-20]."""
        self._unlink_durably(sidecars)
        before = Segments(survey.segments)
        split = split_overflowed_segment(overflowed, before, self._directory, self._context)
        for old in split.taken_out:
            old.delete_files()
            old.close_quietly()
        for segment in split.segments:
            segment.close_quietly()
        self._report.removed += remove_snapshots_at(self._directory, set(split.vanished))
        self._report.warnings.append(
            f"{overflowed.name} held offsets that do not fit its base offset: it was split into"
            f" {len(split.segments) - len(before) + 1} segments"
        )

    # ---- the plan --------------------------------------------------------------------------------

    def carry_out(self, survey: Survey, plan: Plan) -> LoadedLog:
        """Do all of it, and return the log, all of it synced."""
        known = plan.judgement.known
        generation = 0 if known is None else known.generation_at_rest
        is_new = known is None and self._report.created
        cuts_records = plan.cuts_records(survey.is_zero)
        if not is_new and (known is None or cuts_records):
            generation = announce_cut(self._directory)
        was_cut = cuts_records or (known is not None and known.generation % 2 == 1)
        self._unlink_durably(plan.stale_sidecars)
        missing = plan.judgement.missing
        note(self._directory, missing)
        self._remove_segments(plan.tail.deleted)
        self._unlink_durably(plan.tail.sidecars)
        if plan.judgement.tail is not None:
            self._repair_tail(plan, plan.judgement.tail)
        take_out(self._directory, plan.lone_indexes, plan.judgement.named_after_end)
        self._rebuild_lost_indexes(plan)
        segments = self._end_deletions(survey, plan)
        if plan.lone_indexes or self._report.rebuilt:  # else none was kept
            before, now = survey.listing.others, self._directory.names()
            self._report.quarantined += sorted({*kept_indexes(now)}.difference(before))
        if missing or MISSING_RECORDS in survey.listing.others:
            # a truncation removes records first, then the ranges among them: it may have died
            forget_ranges_from(self._directory, plan.log_end_offset)
        ends_epochs = plan.may_have_copies and was_cut
        return self._load(survey, plan, segments, generation, ends_epochs=ends_epochs)

    def _repair_tail(self, plan: Plan, tail: Tail) -> None:
        """Set aside, cut, rebuild indexes; may be repeated after a crash at any point [DUR-56]."""
        for segment, end in tail.repairs:
            self._rebuild(segment, HowToScan(segment.base_offset), end)
        if tail.cut is not None:
            segment, position, holds = tail.cut
            names, warnings = Quarantine(self._directory).keep_tail(
                segment.name, position, segment.size_bytes, holds_batches=holds
            )
            self._report.quarantined += names
            self._report.warnings += warnings
        self._set_aside(plan.tail.later)
        for one in tail.scanned:  # all checksums of a whole one fit
            end = one.result.valid_bytes
            self._rebuild(one.segment, one.how, end, check_crc=one.is_cut)
        self._bring_to_disk(plan, tail)

    def _rebuild(
        self, segment: Segment, how: HowToScan, valid_bytes: int, *, check_crc: bool = True
    ) -> None:
        """Rebuild both indexes, and cut behind *valid_bytes*; nothing unless its batches end there.

        Raises
        ------
        CorruptLogError
            They did when it was judged.
        """
        cut_at = valid_bytes if valid_bytes < segment.size_bytes else _CUT_NOWHERE
        _, recovery = segment.recover(
            cut_at=cut_at, check_crc=check_crc, table=False, **how._asdict()
        )
        if recovery.scan.valid_bytes != valid_bytes:
            raise CorruptLogError(
                "was read twice, with two results",
                file=segment.path,
                position=min(recovery.scan.valid_bytes, valid_bytes),
                found=f"{recovery.scan.valid_bytes} good bytes",
                expected=f"{valid_bytes}, as before",
            ) from recovery.scan.why

    def _bring_to_disk(self, plan: Plan, tail: Tail) -> None:
        """Sync what there is from the recovery point on, or write it again too [DUR-36].

        A sync brings to the disk what the kernel has not written yet, and tells of an error that
        nobody was told of. What it does not bring there are pages that count as clean after a sync
        that failed. Where a mark says that one has, all is written again at once, also below the
        recovery point: who does not know the mark may have raised that over pages of that sync.
        Another program may have been told without a mark: so all is written again in any case
        before anything changes, and is not called durable until then.
        """
        kept = [one.segment for one in tail.scanned]
        point = plan.judgement.stored.recovery_point or 0
        if plan.had_failed_sync:
            rewrite_from([*tail.below, *kept], 0)
        elif plan.has_nothing_to_rewrite:
            rewrite_from(kept, point)
        else:
            for segment in kept:
                segment.flush(Barrier.RECOVERY_RECORDS)
        self._directory.sync(Barrier.RECOVERY_NAMES)
        if plan.had_failed_sync:
            self._directory.unlink(SYNC_FAILED_MARK)

    def _rebuild_lost_indexes(self, plan: Plan) -> None:
        for segment, _ in plan.judgement.lost_indexes:
            self._rebuild(segment, HowToScan(segment.base_offset), segment.size_bytes)
            if segment is not plan.judgement.live[-1]:
                segment.flush(Barrier.RECOVERY_RECORDS, indexes=True)

    def _end_deletions(self, survey: Survey, plan: Plan) -> tuple[Segment, ...]:
        """Take out what lies below the log start; where that is all there was the log restarts.

        Where there is nothing to take out any more that comes to the disk first: who emptied the
        log may have died before its sync, and a segment that came back would lie beside the new one
        [DUR-18].
        """
        restart, begin = plan.restart, plan.begin
        self._unlink_durably(begin.sidecars)
        if restart is not None and restart.syncs_first:
            self._directory.sync(Barrier.EMPTYING_FIRST)
        if begin.mark is not None:
            survey.mark.set(begin.mark)
        self._set_aside(begin.set_aside)
        if restart is None:
            self._remove_segments(begin.deleted)
            return plan.live
        created = self._make_segment(restart.base_offset)
        self._remove_segments(begin.deleted)  # behind the new name
        return (created,)

    def _make_segment(self, base_offset: int) -> Segment:
        return Segment(self._context, base_offset, create=True)

    def _load(
        self,
        survey: Survey,
        plan: Plan,
        segments: tuple[Segment, ...],
        generation: int,
        *,
        ends_epochs: bool,
    ) -> LoadedLog:
        """Write the small files, and return the log.

        Where records were cut that may be in remote storage, with *ends_epochs*, another epoch
        begins: those written there next are no such copies' [DUR-141].
        """
        found, report, tail = plan.judgement, self._report, plan.judgement.tail
        is_shown = found.stored.recovery_point_is_shown
        end, start, point = (
            plan.log_end_offset,
            found.stored.log_start_offset,
            found.stored.recovery_point,
        )
        epochs = LeaderEpochFileCache(
            self._directory, found.epochs.entries, found.epochs.written_entry
        )
        if tail is not None:
            note_epochs(epochs, tail.epochs)
        latest = epochs.latest_epoch
        if plan.restart is not None and plan.restart.forgets_epochs and not ends_epochs:
            epochs.clear_and_flush()  # and the new name is durable before .segstore says less
        active = segments[-1]
        active.prepare_for_appends()
        epochs.truncate_from_start(start)  # may move an entry to the log end
        epochs.truncate_from_end(end + plan.may_have_copies)
        if ends_epochs and latest is not None:
            epochs.note(latest + 1, end)
        state = state_after_open(found.known, end, epochs, generation=generation)
        state_file = LogStateFile(self._directory, state)
        epochs.flush(force=found.epochs.is_rebuilt)
        epochs.before_write = state_file.announce_epoch
        scanned = () if tail is None or plan.restart is not None else tail.scanned
        old_points = {end, None if report.created else -1}
        is_as_listed = report.clean and not report.removed
        return LoadedLog(
            Segments(segments),
            report.log_start_offset,
            LogOffsetMetadata(end, active.base_offset, active.size_bytes),
            end if plan.is_rewritten else point or 0,
            epochs,
            state_file,
            recovered=frozenset(one.segment.base_offset for one in scanned),
            keeps_remote_part=plan.keeps_remote_part,
            checksum_sidecars=plan.checksum_sidecars,
            with_producers=frozenset(
                one.segment.base_offset for one in scanned if one.has_producers
            ),
            restart_marker=survey.mark if survey.mark.stands else None,
            moves_recovery_point=plan.is_rewritten and (is_shown or point not in old_points),
            snapshot_offsets=(
                survey.listing.base_offsets(SNAPSHOT_FILE_SUFFIX) if is_as_listed else None
            ),
        )

    # ---- files -----------------------------------------------------------------------------------

    def _unlink(self, names: Iterable[str]) -> None:
        for name in names:
            self._directory.unlink(name, missing_ok=True)

    def _unlink_durably(self, names: tuple[str, ...]) -> None:
        self._unlink(names)
        if names:
            self._directory.sync(Barrier.LEFTOVERS_GONE)

    def _remove_segments(self, segments: tuple[Segment, ...]) -> None:
        """Remove files; the names of the segments behind them come to the disk first [DUR-54]."""
        if not segments:
            return
        self._directory.sync(Barrier.RECOVERY_NAMES)
        for segment in segments:
            segment.delete_files()
            segment.close_quietly()
        self._directory.sync(Barrier.LEFTOVERS_DELETED)

    def _set_aside(self, segments: tuple[SetAside, ...]) -> None:
        """Take segments out, in this order: what is left is a prefix at any time."""
        for segment, name in segments:
            if name is None:
                segment.delete_files()
            else:
                set_aside(self._directory, segment.base_offset, name)
            segment.close_quietly()
        if segments:
            self._directory.sync(Barrier.RECOVERY_SET_ASIDE)
