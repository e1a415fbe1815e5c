"""What state a log is in: a function of the survey; nothing is changed.

Source: [LDR-*, DUR-50..DUR-64]. A log that was not closed cleanly is judged in `judge_tail`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from segstore.errors import CorruptLogError, CorruptRecordError
from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT, LOG_STATE
from segstore.log.files.partition_directory import (
    DELETED_FILE_SUFFIX,
    INDEX_FILE_SUFFIXES,
    LOG_FILE_SUFFIX,
)
from segstore.log.local.segments import floor_index
from segstore.log.recovery.epoch_changes import fits, fits_end
from segstore.log.recovery.judge_tail import Tail, judge_tail
from segstore.log.recovery.log_beginning import (
    contradiction_of,
    count_deleted,
    first_missing_offset,
    may_be_impossible,
    require_begin,
    with_possible_log_start,
    without_gap_from,
)
from segstore.log.recovery.lost_epochs import believed_state, note_maybe_missing
from segstore.log.recovery.overflow_split import OverflowedSegmentError
from segstore.log.recovery.recovery_report import RecoveryReport
from segstore.log.recovery.survey import index_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from segstore.log.files.checkpoints import LogState
    from segstore.log.files.stored_state import StoredState
    from segstore.log.local.missing_records import MissingRecords
    from segstore.log.local.segment import Segment
    from segstore.log.recovery.found_epochs import FoundEpochs
    from segstore.log.recovery.survey import SmallFiles, Survey
    from segstore.types import EpochEntry

_WAYS_OUT = (
    "Restore the directory from a copy; where the records are not missed, remove it: then a new"
    " log begins"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a log is, and what of its files may be believed.

    Attributes
    ----------
    stored : StoredState
        Log start and recovery point, as they count; the clean markers, where they are believed.
    deleted, live : tuple of Segment
        Those whose records were deleted, and the others.
    epochs : FoundEpochs
        The leader epochs.
    known : LogState or None
        What of ``.segstore`` holds.
    is_own : bool
        This library alone has written since.
    is_as_marked : bool
        The files are those of the clean marker.
    tail : Tail or None
        Where the log was not closed cleanly.
    log_end_offset : int
        Where it ends.
    lost_indexes : tuple
        Segments, each with the names of index files that are made again.
    missing : tuple of MissingRecords
        What index files prove that are rebuilt: it is noted before.
    split : Segment or None
        To be split first: what comes then is another survey.
    synced_end : int or None
        The end of a log that was closed cleanly: every record below it is durable.
    named_after_end : tuple of str
        Indexes without a ``.log`` that list records after the end: they are kept.
    """

    stored: StoredState
    deleted: tuple[Segment, ...] = ()
    live: tuple[Segment, ...] = ()
    epochs: FoundEpochs
    known: LogState | None = None
    is_own: bool = False
    is_as_marked: bool = False
    tail: Tail | None = None
    log_end_offset: int = 0
    lost_indexes: tuple[tuple[Segment, tuple[str, ...]], ...] = ()
    missing: tuple[MissingRecords, ...] = ()
    split: Segment | None = None
    synced_end: int | None = None
    named_after_end: tuple[str, ...] = ()

    @property
    def were_deleted(self) -> bool:
        """Whether something says that what lies below a log start above the end was deleted.

        The clean marker says that it was, or ``.segstore`` that it was to be [TRU-4].
        """
        marker, log_start = self.stored.own_marker, self.stored.log_start_offset
        is_true = marker is not None and marker.has_crc and marker.log_start_offset == log_start
        return (self.tail is None and self.is_as_marked and is_true) or (
            self.known is not None and self.known.is_being_emptied
        )


class Start(NamedTuple):
    """What the small files say of the log as a whole."""

    stored: StoredState
    """Log start and recovery point, as they count; the clean markers, where they are believed."""
    writes_log_start: bool = False
    """It comes to the disk while the clean markers stand: nothing else says it."""
    writes_recovery_point: bool = False


def judge_start(survey: Survey, report: RecoveryReport) -> Start:
    """Judge the small files of a log that is opened for writing, and whether it is one.

    Raises
    ------
    CorruptLogError
        The log is refused.
    """
    before, stored = survey.stored, _settled(survey, report)
    survey.mark.require_same_log(stored.log_start_offset)
    report.set_aside += [name for name in survey.mark.beside if name not in report.set_aside]
    require_log_file(survey)
    report.created = not survey.segments
    return Start(
        replace(stored, log_start_is_markers=False),
        stored.log_start_offset != before.log_start_offset or before.log_start_is_markers,
        before.recovery_point is None and stored.recovery_point is not None,
    )


def judge(
    survey: Survey,
    stored: StoredState,
    report: RecoveryReport,
    progress: Callable[[str, int, int], None] | None = None,
    *,
    is_again: bool = False,
) -> Judgement:
    """Judge a log that is opened for writing.

    Parameters
    ----------
    stored : StoredState
        As `judge_start` has found it.
    report : RecoveryReport
        Takes what was found.
    progress : callable or None
        Called with ``"recover"``, bytes checked, bytes to check.
    is_again : bool
        A segment was split: what the small files tell is reported already.

    Raises
    ------
    CorruptLogError
        Data that had been synced is damaged or missing: the log is refused.
    """
    found = _judge_beginning(survey, stored, RecoveryReport() if is_again else report)
    try:
        return _judge_end(survey, found, report, progress)
    except OverflowedSegmentError as overflow:
        end = survey.end_of(found.live[-1])[0] if report.clean else None
        return replace(found, split=overflow.segment, synced_end=end)


def _settled(survey: Survey, report: RecoveryReport) -> StoredState:
    """Return what the small files say, but for what cannot be true [DUR-21, DUR-24, DUR-35].

    Raises
    ------
    CorruptLogError
        A clean stop, the end of the log and its log start contradict each other.
    """
    stored = survey.stored
    if may_be_impossible(stored):
        stored = with_possible_log_start(stored, survey.segments, report, survey.end_of)
        refusal = contradiction_of(stored, survey.segments, survey.path, survey.end_of)
        if refusal is not None:
            raise refusal
    is_clean = stored.parent_is_clean or stored.own_marker is not None
    if is_clean and survey.had_failed_sync:
        # the stop was one of a broker, or of Kafka's profile, which know no mark: they raised the
        # recovery point over pages that may not be on the disk
        report.warnings.append(
            "a sync failed before the clean close: the clean shutdown marker is ignored"
        )
        stored = replace(stored, parent_is_clean=False, own_marker=None, recovery_point=None)
    marker, state = stored.own_marker, survey.small.state
    if stored.recovery_point is None and marker is not None and state is not None:
        entries = survey.checkpoint_entries()
        if state.fits(marker.latest_epoch):
            stored = with_marker_recovery_point(stored, entries, state, report)
    return stored


def with_marker_recovery_point(
    stored: StoredState,
    entries: Sequence[EpochEntry] | None,
    state: LogState | None,
    report: RecoveryReport,
) -> StoredState:
    """Return *stored*; a lost recovery point is where the clean marker says that the log ended.

    Everything below it had been synced when that was written [DUR-24], and no writer since has left
    it in place but a broker, which raises the leader epoch or has a recovery point [DUR-63].

    Parameters
    ----------
    entries : sequence of EpochEntry or None
        Of the leader-epoch checkpoint; None where it is lost too: then nothing speaks of a broker.
    state : LogState or None
        What ``.segstore`` says, if anything.
    """
    marker = stored.own_marker
    if stored.recovery_point is not None or marker is None or state is None:
        return stored
    if entries is not None and marker.latest_epoch != (entries[-1] if entries else None):
        return stored
    end = marker.log_end_offset
    report.warnings.append(f"there is no recovery point; the log was closed cleanly at {end}")
    return replace(stored, recovery_point=end)


def require_log_file(survey: Survey) -> None:
    """Refuse a directory of this library without a ``.log`` in which something shows of records.

    ``.segstore`` is first written when the first ``.log`` is durable, and from then on there is
    always one; but for a full truncation, which notes there what it is about to do [DUR-18], and
    an open that was setting all aside.

    Raises
    ------
    CorruptLogError
        All ``.log`` files are missing.
    NotALogError
        The leader-epoch checkpoint is no file: what it said is unknown, and no log begins with it.
    """
    state = survey.small.state
    if survey.segments or not survey.small.has_state or survey.mark.stands:
        return
    if state is not None and state.is_being_emptied:
        return
    lost = survey.lost_logs()
    if lost.deleted is not None:
        raise _no_log_file(
            survey,
            f"{lost.deleted} holds records",
            f"Rename it to {lost.deleted.removesuffix(DELETED_FILE_SUFFIX)} and open the log"
            " again, or restore the directory from a copy",
        )
    shown_by = lost.shown_by
    if state is not None and state.latest_epoch is not None:
        shown_by = LOG_STATE
    elif survey.checkpoint_entries(must_be_file=shown_by is None):
        shown_by = LEADER_EPOCH_CHECKPOINT
    if shown_by is not None:
        raise _no_log_file(survey, f"{shown_by} shows that there were records", _WAYS_OUT)


def _no_log_file(survey: Survey, shown: str, advice: str) -> CorruptLogError:
    return CorruptLogError(
        f"there is no .log file, but {shown}: they are missing. Nothing was removed. {advice}",
        file=survey.path,
        found="no .log file",
        expected="the segments of the log",
    )


def _judge_beginning(survey: Survey, stored: StoredState, report: RecoveryReport) -> Judgement:
    """Judge epochs, ``.segstore`` and where the log begins."""
    segments, start, end_of = survey.segments, stored.log_start_offset, survey.end_of
    first = count_deleted(segments, start, end_of)
    epochs = survey.find_epochs(
        segments[first:],
        start,
        lambda latest: fits(stored.own_marker, segments, latest),
        is_for_writing=True,
    )
    note_epochs_found(epochs, report)
    report.warnings += survey.note_warnings()
    is_as_marked = fits(stored.own_marker, segments, epochs.noted_entry)
    small = survey.small
    state = state_of_last_writer(small, stored, segments, epochs.noted_entry)
    known = believed_state(state, segments[first:], stored, epochs)
    if known is not None:  # those that the local log start says were being deleted [DUR-19]
        first = max(first, count_deleted(segments, known.local_log_start_offset, end_of))
    live = segments[first:]
    note_maybe_missing(small, state, live, stored, epochs, report, end_of, is_for_writing=True)
    require_begin(
        live,
        first_missing_offset(
            live,
            stored,
            epochs.entries,
            known,
            end_of,
            survey.first_shown_before,
            is_for_writing=True,
        ),
    )
    return Judgement(
        stored=stored,
        deleted=tuple(segments[:first]),
        live=tuple(live),
        epochs=epochs,
        known=without_gap_from(known, live, start),
        is_own=state is not None and state.fits(epochs.noted_entry),
        is_as_marked=is_as_marked,
    )


def note_epochs_found(epochs: FoundEpochs, report: RecoveryReport) -> None:
    """Report what was wrong with the leader-epoch checkpoint."""
    if epochs.unreadable is not None:
        report.warnings.append(epochs.unreadable)
    if epochs.contradiction is not None:
        report.doubtful_epochs = epochs.contradiction
        report.warnings.append(f"{epochs.contradiction}: the epochs are rebuilt from the batches")
    if epochs.is_rebuilt:
        report.rebuilt.append(LEADER_EPOCH_CHECKPOINT)


def state_of_last_writer(
    small: SmallFiles,
    stored: StoredState,
    segments: Sequence[Segment],
    latest: EpochEntry | None,
) -> LogState | None:
    """Return what ``.segstore`` says, None when a broker has closed the log since [DUR-64].

    A broker that wrote has moved the end of the log. A sealed segment that is another one now is
    not enough: it may be lost, and only ``.segstore`` says that its records were there [DUR-54].
    """
    if stored.parent_is_clean and not fits_end(stored.own_marker, segments, latest):
        return None
    return small.state


def _judge_end(
    survey: Survey,
    found: Judgement,
    report: RecoveryReport,
    progress: Callable[[str, int, int], None] | None,
) -> Judgement:
    """Judge where the log ends, and what of its index files is made again."""
    stored, live = found.stored, found.live
    if not live:
        _require_no_synced_records(survey, found)
        report.clean = True
        return replace(found, log_end_offset=stored.log_start_offset)
    end = clean_end(survey, stored, live, report, is_as_marked=found.is_as_marked)
    if end is not None:
        if not (stored.own_marker is not None and found.is_as_marked):  # else it knows the end
            _note_named_behind(survey, live[-1], end, report)
            found = replace(found, named_after_end=_lone_after(survey, end))
        lost = _lost_indexes_of_clean_log(survey, live)
        missing = _missing_beside(survey, live, lost)
        return replace(
            found,
            log_end_offset=end,
            lost_indexes=tuple(lost),
            missing=tuple(missing),
            synced_end=end,
        )
    below = live[: floor_index(live, stored.safe_below)]
    lost = [(segment, (*names,)) for segment in below if (names := survey.lost_indexes(segment))]
    overflowed = [one for one, _ in lost if survey.whole_scan(one).is_overflowed]
    for segment, _ in lost:
        if segment not in overflowed:
            _require_whole(survey, segment)
    if found.known is None or found.known.contiguous_from > live[0].base_offset:
        missing = survey.missing_between(live)  # else a gap is an error, or ends the log
        report.warnings += [str(one) for one in missing]
    else:
        missing = _missing_beside(survey, live, lost)
    tail = judge_tail(survey, live, stored, found.known, report, progress)
    if overflowed:  # behind all that refuses the log
        raise OverflowedSegmentError(overflowed[0])
    if tail.reason is None and tail.cut is None:
        _note_named_behind(survey, live[-1], tail.next_offset, report)
    repaired = {segment.base_offset for segment, _ in tail.repairs}
    lost = [(segment, names) for segment, names in lost if segment.base_offset not in repaired]
    return replace(
        found,
        tail=tail,
        log_end_offset=tail.next_offset,
        lost_indexes=tuple(lost),
        missing=tuple(missing),
        named_after_end=_lone_after(survey, tail.next_offset),
    )


def _lone_after(survey: Survey, end_offset: int) -> tuple[str, ...]:
    """Return the indexes without a ``.log`` that list records after the end of the log [DUR-7].

    The ``.log`` is lost, or a crash of the system kept the index and not the records.
    """
    first = max(end_offset, survey.stored.log_start_offset)
    return tuple(one.name for one in survey.lone_indexes() if one.base_offset >= first)


def _note_named_behind(
    survey: Survey, last: Segment, end_offset: int, report: RecoveryReport
) -> None:
    """Report records of which only the index of the last segment knows: it is rebuilt [DUR-7]."""
    offset = survey.named_behind(last, end_offset)
    if offset is not None:
        report.warnings.append(
            f"the log ends at offset {end_offset}, and {index_names(last)[0]} names offset"
            f" {offset}: records may be missing, or the index was on the disk before them"
        )


def _missing_beside(
    survey: Survey, live: Sequence[Segment], lost: Sequence[tuple[Segment, tuple[str, ...]]]
) -> list[MissingRecords]:
    """Return what is missing by an index that goes, since it is rebuilt or has no ``.log``."""
    indexes = {live.index(segment) for segment, _ in lost}
    for kind in INDEX_FILE_SUFFIXES:
        alone = survey.listing.base_offsets(kind, lacking=LOG_FILE_SUFFIX)
        indexes |= {floor_index(live, base) for base in alone if base > live[0].base_offset}
    return [
        one for index in sorted(indexes) for one in survey.missing_between(live[index : index + 2])
    ]


def _require_no_synced_records(survey: Survey, found: Judgement) -> None:
    """Refuse a directory without a ``.log`` whose records had been synced, or are listed.

    A line in the log directory's checkpoint alone may be that of a partition that was removed. With
    ``.segstore``, `require_log_file` has looked for an index that lists records.
    """
    point, start = found.stored.recovery_point, found.stored.log_start_offset
    if survey.mark.stands:
        return
    small = survey.small
    is_ours = found.epochs.entries or small.has_state or small.has_recovery_point
    if point is not None and point > start and is_ours:
        raise _no_log_file(survey, f"records up to {point - 1} had been synced", _WAYS_OUT)
    lone = [one for one in survey.lone_indexes() if one.last_offset >= start]
    if lone and not (survey.segments or small.has_state):
        shown = f"{lone[0].name} shows that there were records"
        error = _no_log_file(survey, shown, _WAYS_OUT)
        raise error.lacks(max(start, lone[0].base_offset), lone[-1].last_offset + 1)


def clean_end(
    survey: Survey,
    stored: StoredState,
    segments: Sequence[Segment],
    report: RecoveryReport,
    *,
    is_as_marked: bool,
) -> int | None:
    """Return the log end after a clean stop, None when it was none or does not look it [DUR-51]."""
    report.clean = False
    marker = stored.own_marker
    if not stored.parent_is_clean and marker is None:
        report.reason = "no clean shutdown marker"
        return None
    active = segments[-1]
    try:
        end, ends_clean = survey.end_of(active)
    except (CorruptRecordError, CorruptLogError) as error:
        report.reason = f"there is a clean shutdown marker, but {error}"
        return None
    if not ends_clean:
        report.reason = (
            f"there is a clean shutdown marker, but {active.name} ends in bytes that are no batch"
        )
        return None
    if stored.lacks_records_from(end):
        report.reason = (
            f"there is a clean shutdown marker, but the log ends at offset {end}, below the"
            f" recovery point {stored.recovery_point}"
        )
        return None
    if (
        not stored.parent_is_clean
        and marker is not None
        and not (marker.log_end_offset == end and is_as_marked)
    ):
        report.reason = (
            "another program wrote to the log, or took files out of it, since it was closed cleanly"
        )
        return None
    report.clean = True
    return end


def synced_end_beside_swaps(survey: Survey, stored: StoredState) -> int | None:
    """Return where a log ends that a broker closed cleanly, before its ``.swap`` files count.

    None where a ``.swap`` file takes the place of the last segment: the end may be another one.
    """
    segments = survey.segments
    if not (stored.parent_is_clean and segments):
        return None
    if any(end > segments[-1].base_offset for _, end in survey.leftovers.ranges):
        return None
    return clean_end(survey, stored, segments, RecoveryReport(), is_as_marked=False)


def _lost_indexes_of_clean_log(
    survey: Survey, live: Sequence[Segment]
) -> list[tuple[Segment, tuple[str, ...]]]:
    """Return which index files are made again behind a clean stop [DUR-8].

    The names are enough, and for the active segment the look at its end [DUR-51]. Any other index
    that cannot be one is met when it is first used, and is made again when the segment is sealed or
    closed [DUR-53]. Damaged batches stop no clean open that does not miss a file: look-ups go
    without the index then.
    """
    lacking = survey.lacks_indexes
    looked_at = [one for one in live[:-1] if one.base_offset in lacking] if lacking else []
    lost = []
    for segment in (*looked_at, live[-1]):
        is_missing = segment.base_offset in lacking
        names = tuple(survey.lost_indexes(segment))
        if not names and segment.size_bytes and segment.index_damaged:
            names = tuple(index_names(segment))
        if not names:
            continue
        if is_missing:
            _require_whole(survey, segment)
        elif (scan := survey.whole_scan(segment)).is_overflowed:
            raise OverflowedSegmentError(segment)
        elif scan.result.stop != "complete":
            continue
        lost.append((segment, names))
    return lost


def _require_whole(survey: Survey, segment: Segment) -> None:
    """Refuse a segment whose index is lost, and whose batches are damaged."""
    scan, is_overflowed, _ = survey.whole_scan(segment)
    if is_overflowed:
        raise OverflowedSegmentError(segment)
    if scan.stop != "complete":
        raise CorruptLogError(
            f"cannot be indexed: {scan.why or 'it ends in an incomplete batch'}",
            file=segment.name,
            position=scan.valid_bytes,
            found=f"{scan.valid_bytes} bytes of batches",
            expected=f"{segment.size_bytes} bytes, the size of the file",
        ) from scan.why
