"""What an open for writing does to a log: a function of survey and judgement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from segstore.log.files.checksum_sidecar import sidecar_name
from segstore.log.files.partition_directory import (
    INDEX_FILE_SUFFIXES,
    LOG_FILE_SUFFIX,
    file_name,
)
from segstore.log.files.recovery_advice import restart_warning
from segstore.log.recovery.log_beginning import kept_remote_part
from segstore.log.recovery.quarantined_file import QuarantineNames, base_offset_of
from segstore.log.recovery.restart_marker import RestartMarkerContent, missing_files_text
from segstore.log.recovery.survey import index_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segstore.log.local.segment import Segment
    from segstore.log.recovery.judge import Judgement
    from segstore.log.recovery.judge_tail import Tail
    from segstore.log.recovery.recovery_report import RecoveryReport
    from segstore.log.recovery.restart_marker import RestartMarker
    from segstore.log.recovery.survey import Survey


class RemoteRecords(NamedTuple):
    """What a handle says of the part of a log that is in remote storage."""

    is_enabled: bool = False
    """The log begins at its log start, also where that lies below the first segment [LDR-9]."""
    is_given_up: bool = False
    """Otherwise a log that an earlier handle has left in remote storage begins there too."""
    may_be_copied: bool = False
    """The topic is a tiered one, or was, whether this handle reads remote storage or not."""


class SetAside(NamedTuple):
    """A segment that is taken out of the log."""

    segment: Segment
    name: str | None
    """Of its ``.log`` from then on; None = it holds no byte, and is removed."""


class Restart(NamedTuple):
    """The log begins again, with one empty segment at its log start [LDR-25, LDR-26]."""

    base_offset: int
    syncs_first: bool
    """The removal of the segments before may not be on the disk [DUR-18]."""
    forgets_epochs: bool


class LeftoversPlan(NamedTuple):
    """What becomes of the files of interrupted operations."""

    first: tuple[str, ...]
    """Names that go before the others."""
    others: tuple[str, ...]
    damaged: tuple[tuple[int, str], ...]
    """Base offsets of ``.swap`` segments, each with the name under which it is set aside."""
    replaced: tuple[str, ...]
    """In whose place ``.swap`` files come, and the checksum sidecars of these."""


class TailPlan(NamedTuple):
    """What goes while the segments from the recovery point on are repaired."""

    deleted: tuple[Segment, ...] = ()
    """Below the log start: first of all, as the repair may need their room."""
    sidecars: tuple[str, ...] = ()
    """Checksum sidecars of segments that are changed."""
    later: tuple[SetAside, ...] = ()
    """Segments behind the end of the log."""


class BeginPlan(NamedTuple):
    """What becomes of the segments below the log start."""

    sidecars: tuple[str, ...]
    """Their checksum sidecars, where nothing is left of the log."""
    mark: RestartMarkerContent | None
    """To be left before segments are set aside."""
    set_aside: tuple[SetAside, ...]
    """Nothing says that they were deleted."""
    deleted: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is done to a log; a crash anywhere leads to the same plan again [DUR-56].

    Attributes
    ----------
    judgement : Judgement
        Why, and what of it is repaired.
    live : tuple of Segment
        The segments that stay.
    stale_sidecars : tuple of str
        Checksum sidecars that may be of other bytes.
    tail : TailPlan
        What goes while the tail is repaired.
    lone_indexes : tuple of str
        Index files without a ``.log``.
    begin : BeginPlan
        What becomes of the segments below the log start.
    restart : Restart or None
        Nothing is left of the log.
    checksum_sidecars : frozenset of int
        Base offsets of those that are kept.
    may_have_copies : bool
        Records that go here, and epochs that end, may be in remote storage.
    keeps_remote_part, gives_up_remote_part : bool
        Records are in remote storage alone; they stay the log's, or do not.
    had_failed_sync : bool
        All is written again at once; then the mark goes.
    has_nothing_to_rewrite : bool
        No byte lies above the recovery point.
    """

    judgement: Judgement
    live: tuple[Segment, ...]
    stale_sidecars: tuple[str, ...]
    tail: TailPlan
    lone_indexes: tuple[str, ...]
    begin: BeginPlan
    restart: Restart | None
    checksum_sidecars: frozenset[int]
    may_have_copies: bool
    keeps_remote_part: bool
    gives_up_remote_part: bool
    had_failed_sync: bool
    has_nothing_to_rewrite: bool

    @property
    def changes_log(self) -> bool:
        """Whether segments, their indexes or the log start change; garbage that goes does not."""
        judgement, begin = self.judgement, self.begin
        is_changed = judgement.tail is not None or self.restart is not None
        is_changed = is_changed or self.gives_up_remote_part
        return bool(is_changed or judgement.lost_indexes or begin.deleted or begin.set_aside)

    def cuts_records(self, is_zero: Callable[[Segment, int], bool]) -> bool:
        """Whether bytes that a reader may have seen go from the end of the log, or all of them.

        Parameters
        ----------
        is_zero : callable
            Whether a file has only zeros from a position on: no reader has seen records there.
        """
        if self.restart is not None:
            return any(one.size_bytes for one in self.judgement.live)
        tail = self.judgement.tail
        if self.tail.later or tail is None:
            return bool(self.tail.later)
        ends = [(one.segment, one.result.valid_bytes) for one in tail.scanned if one.is_cut]
        ends += [(segment, end) for segment, end in tail.repairs if end < segment.size_bytes]
        ends += [] if tail.cut is None else [(tail.cut.segment, tail.cut.position)]
        return not all(is_zero(segment, end) for segment, end in ends)

    @property
    def log_end_offset(self) -> int:
        """Where the log ends then."""
        judgement, restart = self.judgement, self.restart
        return judgement.log_end_offset if restart is None else restart.base_offset

    @property
    def is_rewritten(self) -> bool:
        """Whether nothing is left to be written again before the first change [DUR-36]."""
        return (
            self.judgement.tail is None
            or self.restart is not None
            or self.had_failed_sync
            or self.has_nothing_to_rewrite
        )


class _Names:
    """Names that go, as the report has them; a directory is not ours, and stays."""

    def __init__(self, survey: Survey, report: RecoveryReport) -> None:
        self._survey = survey
        self.report = report
        self.sidecars = survey.sidecars
        self.quarantine = QuarantineNames(survey.names)

    def go(self, names: Iterable[str]) -> tuple[str, ...]:
        going = []
        for name in names:
            if self._survey.is_directory(name):
                self.report.warnings.append(f"{name} is no file, and was left where it is")
            else:
                self.report.removed.append(name)
                going.append(name)
        return tuple(going)

    def sidecars_go(self, base_offsets: Iterable[int]) -> tuple[str, ...]:
        gone = self.sidecars.intersection(base_offsets)
        self.sidecars -= gone
        return self.go(map(sidecar_name, sorted(gone)))

    def set_aside(self, base_offset: int, name: str | None = None) -> str:
        if name is None:
            name = self.quarantine.next_of(base_offset)
        self.report.set_aside.append(name)
        return name


def plan_leftovers(survey: Survey, report: RecoveryReport) -> LeftoversPlan:
    """Return what becomes of the files of interrupted operations; *report* says it then."""
    found, names = survey.leftovers, _Names(survey, report)
    first = names.go(found.incomplete)
    others = names.go(found.worthless)
    damaged = tuple((base, names.set_aside(base)) for base in found.damaged)
    report.warnings += [f"a damaged .swap segment at {base} was quarantined" for base, _ in damaged]
    gone = {sidecar_name(file.offset) for file in found.replaced}
    replaced = names.go(sorted(gone.intersection(survey.names())) if gone else ())
    replaced += names.go(file.name for file in found.replaced)
    return LeftoversPlan(first, others, damaged, replaced)


def plan_of(
    survey: Survey,
    judgement: Judgement,
    report: RecoveryReport,
    remote: RemoteRecords,
    *,
    is_foretold: bool = False,
) -> Plan:
    """Return what an open for writing does; *report* says all of it then.

    Parameters
    ----------
    is_foretold : bool
        The plan is not carried out: a tail that is cut is read for the names of its copies.
    """
    names = _Names(survey, report)
    restarts = not judgement.live or judgement.log_end_offset < judgement.stored.log_start_offset
    sealed = {one.base_offset for one in judgement.live[:-1]} if judgement.is_own else set()
    stale = names.sidecars_go(names.sidecars - sealed)
    tail = _plan_tail(survey, judgement, names, restarts=restarts, is_foretold=is_foretold)
    lone: tuple[str, ...] = ()
    for kind in INDEX_FILE_SUFFIXES:
        alone = survey.listing.base_offsets(kind, lacking=LOG_FILE_SUFFIX)
        found = (file_name(base_offset, kind) for base_offset in alone)
        lone += names.go(name for name in found if name not in survey.leftovers.incomplete)
    for segment, _ in judgement.lost_indexes:
        report.rebuilt += index_names(segment)
    kept = [
        name
        for name in lone
        if name in judgement.named_after_end or survey.unreadable_indexes([name])
    ]
    report.removed = [name for name in report.removed if name not in kept]
    if is_foretold:
        report.quarantined += map(survey.name_aside, kept)
    live = judgement.live[: len(judgement.live) - len(tail.later)]
    begin = _plan_begin(survey, judgement, names, tail, live if restarts else ())
    _note_restart(survey, judgement, report, restarts=restarts)
    remote_part = _remote_part(judgement, remote, restarts=restarts)
    plan = Plan(
        judgement=judgement,
        live=() if restarts else live,
        stale_sidecars=stale,
        tail=tail,
        lone_indexes=lone,
        begin=begin,
        restart=_restart(survey, judgement, report, begin) if restarts else None,
        checksum_sidecars=names.sidecars,
        may_have_copies=remote.may_be_copied or remote_part is not None,
        keeps_remote_part=remote_part is not None and not remote.is_given_up,
        gives_up_remote_part=remote_part is not None and remote.is_given_up,
        had_failed_sync=survey.had_failed_sync,
        has_nothing_to_rewrite=not report.rewritten_bytes,
    )
    report.warnings += [remote_part] if remote_part and plan.keeps_remote_part else []
    first = plan.live[0].base_offset if plan.live else plan.log_end_offset
    is_remote = remote.is_enabled or plan.keeps_remote_part
    report.log_start_offset = judgement.stored.log_start_offset
    if not is_remote:
        report.log_start_offset = max(report.log_start_offset, first)
    report.log_end_offset = plan.log_end_offset
    report.recovery_point = report.log_end_offset if report.clean else judgement.stored.safe_below
    report.had_recovery_point = report.clean or judgement.stored.recovery_point is not None
    report.segments = len(plan.live) or 1
    return plan


def _plan_tail(
    survey: Survey,
    judgement: Judgement,
    names: _Names,
    *,
    restarts: bool,
    is_foretold: bool,
) -> TailPlan:
    """Return what goes while the segments from the recovery point on are repaired."""
    tail, report = judgement.tail, names.report
    if tail is None:
        return TailPlan()
    deleted: tuple[Segment, ...] = ()
    if judgement.log_end_offset >= judgement.stored.log_start_offset and not survey.mark.stands:
        deleted = judgement.deleted
        report.removed += [segment.name for segment in deleted]
    changed = names.sidecars_go(_changed_in(tail, names.sidecars))
    if tail.cut is not None and (is_foretold or restarts):
        segment, position, holds_batches = tail.cut
        kept, warnings = survey.names_of_kept_tail(segment, position, holds_batches=holds_batches)
        names.quarantine.take(kept)
        if is_foretold:
            report.quarantined += kept
            report.warnings += warnings
    later = []
    for segment in reversed(tail.later):
        if segment.size_bytes > 0:
            later.append(SetAside(segment, names.set_aside(segment.base_offset)))
        else:
            later.append(SetAside(segment, None))
            report.removed.append(segment.name)
    for segment in [segment for segment, _ in tail.repairs] + [one.segment for one in tail.scanned]:
        report.rebuilt += index_names(segment)
    if not restarts:  # the producers are read from these again, and with them their transactions
        listed = {*survey.listing.base_offsets("txnindex")}
        bases = (one.segment.base_offset for one in tail.scanned)
        report.rebuilt += [file_name(base, "txnindex") for base in bases if base in listed]
    return TailPlan(deleted, changed, tuple(later))


def _changed_in(tail: Tail, sidecars: Iterable[int]) -> set[int]:
    """Return which segments a recovery cuts or sets aside: no checksum of them holds [DUR-60]."""
    last = tail.scanned[-1].segment.base_offset
    changed = {base for base in sidecars if base >= last}
    changed |= {one.segment.base_offset for one in tail.scanned if one.is_cut}
    changed |= {segment.base_offset for segment, end in tail.repairs if end < segment.size_bytes}
    return changed


def _plan_begin(
    survey: Survey,
    judgement: Judgement,
    names: _Names,
    tail: TailPlan,
    emptied: tuple[Segment, ...],
) -> BeginPlan:
    """Return what becomes of segments below the log start, and of those that are *emptied* too."""
    segments = (() if tail.deleted else judgement.deleted) + emptied
    sidecars = names.sidecars_go(names.sidecars) if emptied else ()
    is_known = judgement.were_deleted or not (emptied or survey.mark.stands)
    if is_known or not segments:
        names.report.removed += [segment.name for segment in segments]
        return BeginPlan(sidecars, None, (), segments)
    end = judgement.log_end_offset if emptied else 0
    content, aside = _set_aside(segments, judgement, names, survey.mark, end)
    return BeginPlan(sidecars, content, aside, ())


def _set_aside(
    segments: tuple[Segment, ...],
    judgement: Judgement,
    names: _Names,
    mark: RestartMarker,
    log_end_offset: int,
) -> tuple[RestartMarkerContent | None, tuple[SetAside, ...]]:
    """Take all out, and say so before; what an open before has named keeps its name [DUR-54].

    Unless that was given away. What a crash or a failed call leaves of them would count as deleted,
    or as a log that has lost all its files.
    """
    tail = judgement.tail
    sizes = {} if tail is None else {one.segment: one.result.valid_bytes for one in tail.scanned}
    full = [one for one in segments if sizes.get(one, one.size_bytes) > 0]
    names.report.removed += [one.name for one in segments if one not in full]
    before = mark.content
    named = {} if before is None else {base_offset_of(name): name for name in before.names}
    for segment in full:
        base = segment.base_offset
        if base not in named or names.quarantine.is_there(named[base]):
            named[base] = names.quarantine.next_of(base)
    if before is not None:
        log_end_offset = max(log_end_offset, before.log_end_offset)
    content, start = None, judgement.stored.log_start_offset
    listed = tuple(named[base] for base in sorted(named))
    if before is None or before.names != listed:
        content = RestartMarkerContent(start, log_end_offset, listed)
    aside = [
        SetAside(segment, names.set_aside(segment.base_offset, named[segment.base_offset]))
        if segment in full
        else SetAside(segment, None)
        for segment in reversed(segments)
    ]
    return content, tuple(aside)


def _restart(
    survey: Survey, judgement: Judgement, report: RecoveryReport, begin: BeginPlan
) -> Restart:
    has_epochs = bool(judgement.epochs.entries) or judgement.known is not None
    return Restart(
        judgement.stored.log_start_offset,
        syncs_first=not (begin.set_aside or begin.deleted) and survey.small.has_state,
        forgets_epochs=not report.created or has_epochs,
    )


def _note_restart(
    survey: Survey, judgement: Judgement, report: RecoveryReport, *, restarts: bool
) -> None:
    """Report that the log begins again, and what has become of the old one."""
    mark, lost, is_clean = survey.mark, "", judgement.tail is None
    if mark.missing:
        lost = f"{missing_files_text(mark.missing)}: {mark.missing_records()}"
    is_told = restarts and not report.created and not (is_clean and judgement.were_deleted)
    if mark.stands:
        is_told = bool(report.set_aside or lost)
        report.created = report.clean = False
        if report.reason is None:
            report.reason = "an earlier open was interrupted while it quarantined the whole log"
    if is_told:
        start = judgement.stored.log_start_offset
        report.warnings.append(restart_warning(start, sorted(report.set_aside), lost))


def _remote_part(judgement: Judgement, remote: RemoteRecords, *, restarts: bool) -> str | None:
    """Say which records remote storage alone has, of a log that is not opened as a tiered one."""
    if remote.is_enabled:
        return None
    start = judgement.stored.log_start_offset
    first = start if restarts else judgement.live[0].base_offset
    return kept_remote_part(judgement.known, first, judgement.stored)


def plan_split(survey: Survey, overflowed: Segment, report: RecoveryReport) -> tuple[str, ...]:
    """Return the checksum sidecars that go before a segment is split."""
    names = _Names(survey, report)
    return names.sidecars_go([one for one in names.sidecars if one >= overflowed.base_offset])
