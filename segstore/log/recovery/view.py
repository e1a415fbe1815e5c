"""Opening a log to read it, while another process may be writing it.

The survey and the judge are those of an open for writing. A reader refuses less: it shows what is
there, and reports what is damaged or missing.

Source: [DUR-71, DUR-51].
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from segstore._core import is_any_replaced
from segstore.errors import (
    CorruptLogError,
    CorruptRecordError,
    LogLockedError,
    LogNotFoundError,
    LogTruncatedError,
    NotALogError,
    ReadIOError,
    ResourceError,
    SegstoreError,
)
from segstore.log.files.checkpoints import LOG_STATE, RESTART_MARKER, LogState
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
from segstore.log.files.log_state_file import uncut_generation
from segstore.log.files.partition_directory import list_during_writes
from segstore.log.files.partition_lock import check_no_writer
from segstore.log.files.recovery_advice import missing_records
from segstore.log.local.batch_search import is_followed_by_batch
from segstore.log.local.segments import Segments, floor_index
from segstore.log.recovery.epoch_changes import epoch_changes, fits, latest_epoch, note_epochs
from segstore.log.recovery.found_epochs import find_epochs
from segstore.log.recovery.judge import (
    clean_end,
    note_epochs_found,
    state_of_last_writer,
    with_marker_recovery_point,
)
from segstore.log.recovery.loaded_log import LoadedLog
from segstore.log.recovery.log_beginning import (
    contradiction_of,
    count_deleted,
    first_missing_offset,
    missing_before,
    with_possible_log_start,
)
from segstore.log.recovery.lost_epochs import believed_state, note_maybe_missing
from segstore.log.recovery.survey import Survey, read_small_files
from segstore.number_limits import MAX_LONG
from segstore.types import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segstore._core import BatchTable, Directory, ScanResult, SegmentContext
    from segstore.log.files.checkpoint_store import CheckpointStore
    from segstore.log.files.stored_state import StoredState
    from segstore.log.local.segment import Segment
    from segstore.log.recovery.found_epochs import FoundEpochs
    from segstore.log.recovery.recovery_report import RecoveryReport
    from segstore.log.recovery.survey import SmallFiles


_LOOKS: Final = 4
_ATTEMPTS: Final = 50
_ATTEMPTS_BESIDE_A_WRITER: Final = 550
"""For the segment that it is about to make: five seconds."""
_PAUSE_SECONDS: Final = 0.001
_LONGEST_PAUSE_SECONDS: Final = 0.01


class LogView:
    """Looks at one partition directory as it stands; changes nothing.

    Parameters
    ----------
    directory : Directory
        The partition's.
    checkpoint_store : CheckpointStore
        Checkpoints and markers.
    context : SegmentContext
        Shared by the segments; read-only.
    report : RecoveryReport
        Filled in.
    """

    def __init__(
        self,
        directory: Directory,
        checkpoint_store: CheckpointStore,
        context: SegmentContext,
        report: RecoveryReport,
        *,
        remote_log_enabled: bool = False,
    ) -> None:
        self._remote_log_enabled = remote_log_enabled
        self._directory = directory
        self._checkpoint_store = checkpoint_store
        self._context = context
        self._report = report
        self._seen_loss: tuple[object, ...] | None = None
        """What the look before found missing: a truncation beside it looks so, once."""

    def load(self) -> LoadedLog:
        """Return the log as it stands; nothing on disk is changed [DUR-71].

        A bad tail ends the log for this handle; damage below the recovery point is reported.
        Beside a writer that deletes what was listed, or cuts what is read, the next look is
        another [DUR-77, DUR-78].

        Raises
        ------
        ResourceError
            The writer was faster, so many times in a row that it may be so for ever [DUR-103], or
            has emptied the log, and has not come to making the new segment.
        LogTruncatedError, CorruptRecordError
            It cut the log at each of so many looks.
        """
        report, gone, truncations_count = self._report, None, 0
        for _ in range(_ATTEMPTS):
            self._report = report.copy()
            try:
                loaded = self._look()
                self._check_of_one_log(loaded.segments)
            except LogNotFoundError as error:
                gone = error
            except (CorruptRecordError, LogTruncatedError):  # a file became shorter under the look
                truncations_count += 1
                if truncations_count > _LOOKS:
                    raise
            else:
                report.copy_from(self._report)
                return loaded
        raise ResourceError(
            "the log's writer deletes its segments faster than they can be opened:"
            f" {_ATTEMPTS} times in a row a segment that had just been listed was gone; open the"
            " log again",
            file=self._directory.path,
        ) from gone

    def _check_of_one_log(self, segments: Segments) -> None:
        """Raise LogTruncatedError when a file that was read is not the one of its name any more."""
        if is_any_replaced(segments):
            raise LogTruncatedError(
                "the log's writer truncates it, and appends again, while it is opened",
                file=self._directory.path,
                found="other files of the same names",
                expected="those that were read",
            )

    def _look(self) -> LoadedLog:
        generation = uncut_generation(self._directory)
        stored = self._checkpoint_store.read()
        self._report.warnings += stored.warnings
        survey = self._survey(stored)
        segments, end_of = survey.segments, survey.end_of
        self._note_swaps(survey)
        self._report.warnings += survey.note_warnings()
        stored = with_possible_log_start(stored, segments, self._report, end_of)
        self._note_contradiction(stored, survey)
        live = segments[count_deleted(segments, stored.log_start_offset, end_of) :]
        small, epochs, is_as_marked, written = self._epochs_and_state(survey, stored, live)
        note_epochs_found(epochs, self._report)
        state = believed_state(written, live, stored, epochs)
        may_have_gaps = state is None or not state.fits(epochs.noted_entry)
        note_maybe_missing(
            small, written, live, stored, epochs, self._report, end_of, is_for_writing=False
        )
        swapped_end = survey.leftovers.swapped_end
        if state is not None:
            state = replace(state, contiguous_from=max(state.contiguous_from, swapped_end))
            # a crash may have left any of those that were being deleted
            del segments[: count_deleted(segments, state.local_log_start_offset, end_of)]
        first_missing = self._first_missing(segments, stored, epochs, state, survey)
        cache = LeaderEpochFileCache(None, epochs.entries)
        clean = clean_end(survey, stored, segments, self._report, is_as_marked=is_as_marked)
        if clean is not None:
            recovery_point, end, position = clean, clean, segments[-1].size_bytes
            safe_below = clean
        else:
            noted = () if epochs.noted_entry is None else (epochs.noted_entry,)
            marked = with_marker_recovery_point(stored, noted, state, self._report)
            end, position = self._readable_end(survey, marked, cache, state)
            recovery_point, safe_below = min(marked.recovery_point or 0, end), stored.safe_below
        cache.truncate_from_end(end + 1)  # an epoch without records yet is the leader's latest
        cache.truncate_from_start(stored.log_start_offset)
        self._report.warnings += _below_log_start(segments, end, stored, state)
        end = max(end, stored.log_start_offset)
        log_end = LogOffsetMetadata(end, segments[-1].base_offset, position)
        report = self._report
        # what a writer deletes is no part of the log, and what is damaged there of no account
        del segments[
            : min(count_deleted(segments, stored.log_start_offset, end_of), len(segments) - 1)
        ]
        report.log_start_offset = stored.log_start_offset
        if not self._remote_log_enabled:  # else what lies before the first segment is read too
            report.log_start_offset = max(stored.log_start_offset, segments[0].base_offset)
            if state is not None and stored.log_start_offset < state.local_log_start_offset:
                report.warnings.append(
                    f"offsets {stored.log_start_offset} to {report.log_start_offset} are in remote"
                    " storage, and are not read: --remote of a command, remote= of open_dir, or"
                    " remote_log_reader= of segstore.open reads them"
                )
        report.log_end_offset, report.segments = end, len(segments)
        report.recovery_point = end if report.clean else safe_below
        report.had_recovery_point = report.clean or stored.recovery_point is not None
        if first_missing is not None:
            missing = missing_before(segments[0], first_missing)
            self._note_damage(f"{segments[0].name}: {missing}")
        return LoadedLog(
            Segments(segments),
            report.log_start_offset,
            log_end,
            recovery_point,
            cache,
            None,
            may_have_gaps=may_have_gaps or swapped_end > 0,
            generation=generation,
        )

    def _epochs_and_state(
        self, survey: Survey, stored: StoredState, live: Sequence[Segment]
    ) -> tuple[SmallFiles, FoundEpochs, bool, LogState | None]:
        """Read both; again where its writer may have changed one of them between our looks."""
        for _ in range(_LOOKS):
            epochs = find_epochs(
                self._directory,
                lambda: LogState.read(self._directory, is_for_writing=False),
                live,
                stored.log_start_offset,
                lambda latest: fits(stored.own_marker, survey.segments, latest),
                is_for_writing=False,
            )
            is_as_marked = fits(stored.own_marker, survey.segments, epochs.noted_entry)
            small = read_small_files(self._directory, is_for_writing=False)
            written = state_of_last_writer(small, stored, survey.segments, epochs.noted_entry)
            if not small.has_state or believed_state(written, live, stored, epochs) is not None:
                break
        return small, epochs, is_as_marked, written

    def _first_missing(
        self,
        segments: Sequence[Segment],
        stored: StoredState,
        epochs: FoundEpochs,
        state: LogState | None,
        survey: Survey,
    ) -> int | None:
        """Return the first of the records that are missing before the first segment."""
        told, end_of, shown = epochs.entries, survey.end_of, survey.first_shown_before
        missing = first_missing_offset(segments, stored, told, state, end_of, shown)
        if missing is None:  # or its writer deleted it while we looked [DUR-19]
            return None
        now = max(stored.log_start_offset, self._checkpoint_store.read().log_start_offset)
        stored = replace(stored, log_start_offset=now)
        return first_missing_offset(segments, stored, told, state, end_of, shown)

    def _note_swaps(self, survey: Survey) -> None:
        found = survey.leftovers
        self._report.warnings += [
            f"a damaged .swap segment at {base} is ignored" for base in found.damaged
        ]
        if found.ranges:
            first, end = found.ranges[0][0], max(end for _, end in found.ranges)
            self._report.warnings.append(
                f"a compaction was interrupted: offsets {first} to {end} are read from .swap files"
            )

    def _survey(self, stored: StoredState) -> Survey:
        directory = self._directory
        for attempt in range(_ATTEMPTS_BESIDE_A_WRITER):
            # asked before the look: what says so goes when the new segment is there
            is_awaited = attempt < _ATTEMPTS or _is_being_emptied(directory)
            listing, bases = list_during_writes(directory)
            survey = Survey(directory, self._context, stored, listing, bases, is_for_writing=False)
            if survey.segments:
                return survey
            if not is_awaited:
                break
            if directory.has_segments():
                continue  # its writer deleted all that was there when we looked
            if not self._has_state() and not directory.exists(RESTART_MARKER):
                break
            # a full truncation may be under way: it syncs before it makes the new one [DUR-18]
            time.sleep(min(_PAUSE_SECONDS * (attempt + 1), _LONGEST_PAUSE_SECONDS))
        else:
            raise ResourceError(
                "the log's writer has removed all records, and has not made the new segment yet;"
                " open the log again",
                file=directory.path,
                found="no .log file, and a writer",
                expected="the segment that it is about to make",
            )
        raise NotALogError(
            "the directory holds no .log file: there is no log to read",
            file=directory.path,
            found="no .log file",
            expected="one .log file at least",
        )

    def _note_contradiction(self, found: StoredState, survey: Survey) -> None:
        if contradiction_of(found, survey.segments, survey.path, survey.end_of) is None:
            return
        now = self._checkpoint_store.read()
        if (now.own_marker, now.parent_is_clean) == (found.own_marker, found.parent_is_clean):
            self._note_damage(
                f"the log was closed cleanly, and its log start {found.log_start_offset} does not"
                " fit its end: one of the two is not what was written"
            )

    def _has_state(self) -> bool:
        return self._directory.exists(LOG_STATE)

    def _readable_end(
        self,
        survey: Survey,
        found: StoredState,
        epochs: LeaderEpochFileCache,
        state: LogState | None,
    ) -> tuple[int, int]:
        """Return the log end of an unclean log and its byte in the last segment that counts.

        The survey's segments lose those behind the first bad batch.
        """
        segments, safe_below = survey.segments, found.safe_below
        first = floor_index(segments, safe_below)
        self._note_gaps(segments[: first + 1], state, found.log_start_offset)
        end, position = segments[first].base_offset, 0
        for index in range(first, len(segments)):
            segment = segments[index]
            missing = max(end, found.log_start_offset, state.contiguous_from if state else 0)
            if index > first and state is not None and segment.base_offset > missing:
                self._report.reason = missing_records(missing, segment.base_offset)
                self._note_early_end(f"{self._report.reason}; what follows is not read")
                del segments[index:]
                break
            start, expected = 0, max(end, segment.base_offset)
            if index == first:
                start, expected = _batch_of(segment, safe_below)
            contiguous = state is not None and expected >= state.contiguous_from
            for table, scan in self._windows(
                survey, segment, start, expected, safe_below, contiguous=contiguous
            ):
                note_epochs(epochs, epoch_changes(table, latest_epoch(epochs)))
                end, position = max(scan.next_offset, segment.base_offset), scan.valid_bytes
            self._report.scanned_bytes += position - start
            jumped = survey.jumped_batch(segment, scan, state, start)
            if jumped is not None:  # what reached further is no end of the log
                end, position = jumped.first_offset, jumped.position
            if jumped is None and survey.goes_on_after(segment, scan):
                continue
            if scan.stop != "complete" or jumped is not None:
                is_damage = (
                    end < safe_below
                    or jumped is not None
                    or any(later.size_bytes for later in segments[index + 1 :])
                    or self._hides_records(segment, scan, end, contiguous=contiguous)
                )
                if is_damage:
                    self._require_read_twice(found, end)
                torn = f"{segment.name}: an incomplete batch at position {position}"
                self._note_bad_end(end, str(jumped or scan.why or torn), is_damage=is_damage)
                del segments[index + 1 :]
                break
        else:
            if found.lacks_records_from(end):
                self._require_read_twice(found, end)
                self._note_early_end(
                    f"the log ends at offset {end}: records from there to {safe_below - 1} had been"
                    " synced, and are missing"
                )
        return end, position

    def _windows(  # noqa: PLR0913 - as a scan takes it, and what is known
        self,
        survey: Survey,
        segment: Segment,
        start: int,
        expected: int,
        safe_below: int,
        *,
        contiguous: bool,
    ) -> Iterator[tuple[BatchTable, ScanResult]]:
        """Scan *segment* from *start* on; what the disk does not give out is reported [DUR-33].

        The scan goes on after it. Where no batch follows in the file, the segment reaches to the
        next one, and the last segment to the recovery point: records are unreadable there, and not
        missing.
        """
        how: dict[str, Any] = {"check_order": True, "contiguous": contiguous}
        try:
            for table, scan in segment.scan_tables(
                start_position=start, expected_offset=expected, **how
            ):
                yield table, scan
                start, expected = scan.valid_bytes, scan.next_offset
        except ReadIOError:
            unreadable = survey.unreadable_parts(segment).ranges
        else:
            return
        for lost in unreadable:
            lost_end = lost.position + lost.size_bytes
            if lost_end <= start:
                continue
            end = max(start, lost.position)
            for table, scan in segment.scan_tables(
                start_position=start, end_position=end, expected_offset=expected, **how
            ):
                yield table, scan
                start, expected = scan.valid_bytes, scan.next_offset
            if scan.stop != "complete":
                return
            behind = lost.next_offset
            if behind is None:
                following = survey.following(segment)
                known_end = safe_below if following == MAX_LONG else following
                behind = known_end if known_end > expected else None
            self._report.reason = str(lost._replace(next_offset=behind))
            if behind is None:
                self._note_early_end(self._report.reason)
                return
            self._note_damage(self._report.reason)
            start, expected = lost_end, behind
        yield from segment.scan_tables(start_position=start, expected_offset=expected, **how)

    def _require_read_twice(self, found: StoredState, end: int) -> None:
        """Raise LogTruncatedError, for another look, unless the last one found this very loss.

        A truncation lowers the recovery point before it cuts [DUR-16]: who has read the old one,
        and then the log behind the cut, sees what a loss looks like. The writer may have raised it
        to the same offset again since: to read it once more would not tell. Where it appends
        again behind the cut, what was listed may end within a batch, or seem to jump.
        """
        loss = (found.recovery_point, found.own_marker, end)
        if loss != self._seen_loss:
            self._seen_loss = loss
            raise LogTruncatedError(
                "the log's writer truncates it while it is opened",
                file=self._directory.path,
                found=f"end offset {end}",
                expected="what the look before found",
            )

    def _note_gaps(
        self, segments: list[Segment], state: LogState | None, log_start_offset: int
    ) -> None:
        """Report what is missing below the recovery point; reading there is an error [DUR-79]."""
        if state is None:
            return
        for segment, following in pairwise(segments):
            try:
                end, ends_clean = segment.read_next_offset()
            except LogNotFoundError:
                continue  # its writer deleted it while we looked
            except SegstoreError as error:
                told = error.text_within(segment.path)
                self._report.warnings.append(f"{segment.name} cannot be read to its end: {told}")
                continue
            missing = max(end, segment.base_offset, state.contiguous_from, log_start_offset)
            if missing >= following.base_offset:
                continue
            if ends_clean:
                what = missing_records(missing, following.base_offset)
                self._note_damage(f"{what} before {following.name}")
            else:
                self._note_damage(
                    f"{segment.name} ends in bytes that are no batch, after offset {end - 1}"
                )

    def _hides_records(
        self, segment: Segment, scan: ScanResult, end: int, *, contiguous: bool
    ) -> bool:
        """Whether records follow the bytes that ended *scan*, or stand there at other offsets.

        Behind a write that is not finished there is none; it may have been finished since [DUR-76].
        """
        position = scan.valid_bytes
        if scan.stop != "order" and not is_followed_by_batch(self._directory, segment, position):
            return False
        try:
            now = segment.scan_result(
                start_position=position,
                check_order=True,
                expected_offset=end,
                contiguous=contiguous,
                max_batches=1,
            )
        except ReadIOError:  # behind it: a read takes more than one batch
            return True
        return now.batches_count == 0

    def _note_bad_end(self, end: int, why: str, *, is_damage: bool) -> None:
        self._report.reason = why
        if is_damage:
            self._note_early_end(f"damaged at offset {end}: {why}; what follows is not read")

    def _note_early_end(self, text: str) -> None:
        self._report.early_end = _with(self._report.early_end, text)
        self._note_damage(text)

    def _note_damage(self, text: str) -> None:
        self._report.damage = _with(self._report.damage, text)
        self._report.warnings.append(text)


def _with(told: str | None, text: str) -> str:
    return text if told is None else f"{told}; {text}"


def _batch_of(segment: Segment, offset: int) -> tuple[int, int]:
    """Return position and base offset of the batch with *offset*, or of the last one.

    The beginning of the segment when that cannot be told, or when the batch found begins behind
    *offset*: only the batches before it show whether its base offset, which no CRC covers, is true.
    """
    try:
        found = segment.translate_offset(offset)
        if found is None:
            next_offset, _ = segment.read_next_offset()
            found = segment.translate_offset(next_offset - 1)
    except (CorruptRecordError, CorruptLogError, ReadIOError):
        found = None
    if found is None or found.base_offset > offset:
        return 0, segment.base_offset
    return found.position, found.base_offset


def _is_being_emptied(directory: Directory) -> bool:
    """Whether somebody has the log open for writing, and what empties it has noted that.

    After a crash the note stands, and nobody makes the new segment before the next open.
    """
    if not directory.exists(RESTART_MARKER):
        state = LogState.read(directory, is_for_writing=False)
        if state is None or not state.is_being_emptied:
            return False
    try:
        check_no_writer(directory.path)
    except LogLockedError:
        return True
    return False


def _below_log_start(
    segments: Sequence[Segment], end: int, found: StoredState, state: LogState | None
) -> list[str]:
    """Return what a reader is warned of: records that all lie below the log start; else nothing.

    Unless ``.segstore`` says that they are to go. A crash may have left the log so, within a
    deletion; a log start that is not what was written looks the same, and hides them all.
    """
    start = found.log_start_offset
    if end >= start or not any(segment.size_bytes for segment in segments):
        return []
    if state is not None and state.is_being_emptied:
        return []
    warning = f"the log start {start} lies above the log end {end}: reads return no record"
    return [f"{warning}; `segstore verify` shows what the next open for writing does"]
