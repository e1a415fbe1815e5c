"""Where a log ends that was not closed cleanly, and what is damage: a function of the survey.

Source: [DUR-50..DUR-63, LDR-20..LDR-28].

Everything from the recovery point's segment on is read and checked. The first bad batch at or above
the recovery point ends the log: of what follows nobody knows whether it had been synced. The same
below it is damage, and damage is never repaired by dropping data.
"""

from __future__ import annotations

from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from segstore._core import size_of_segments
from segstore.errors import CorruptRecordError, SegstoreError
from segstore.log.files.recovery_advice import missing_records
from segstore.log.local.segments import floor_index
from segstore.log.recovery.overflow_split import OverflowedSegmentError
from segstore.log.recovery.refusals import NO_DAMAGE, damage, lost_end, missing_between
from segstore.log.recovery.survey import HowToScan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from segstore._core import ScanResult
    from segstore.log.files.checkpoints import LogState
    from segstore.log.files.stored_state import StoredState
    from segstore.log.local.segment import Segment
    from segstore.log.recovery.recovery_report import RecoveryReport
    from segstore.log.recovery.survey import ScannedSegment, Survey
    from segstore.types import EpochEntry


class Cut(NamedTuple):
    """The end of a file that goes."""

    segment: Segment
    position: int
    holds_batches: bool
    """Records in it may have been acknowledged: all of it is kept."""


class Tail(NamedTuple):
    """The log from the recovery point's segment on, as it is to be."""

    below: tuple[Segment, ...]
    """The segments before it."""
    repairs: tuple[tuple[Segment, int], ...]
    """Of those with a damaged index or padding, and where their batches end."""
    scanned: tuple[ScannedSegment, ...]
    """At least one; the last one's file may have to be cut."""
    later: tuple[Segment, ...]
    """Segments after the end, to be quarantined."""
    next_offset: int
    cut: Cut | None
    reason: str | None
    """Why the log ends before its files do."""

    @property
    def epochs(self) -> list[EpochEntry]:
        """Where the leader epoch changes in the segments that were read."""
        return [entry for scanned in self.scanned for entry in scanned.epochs]


def judge_tail(  # noqa: PLR0913 - what is known, and who is told
    survey: Survey,
    live: Sequence[Segment],
    stored: StoredState,
    known: LogState | None,
    report: RecoveryReport,
    progress: Callable[[str, int, int], None] | None,
) -> Tail:
    """Judge the segments of a log that was not closed cleanly.

    Parameters
    ----------
    live : sequence of Segment
        From the log start on, at least one.
    stored : StoredState
        Its recovery point; without one everything is checked, from the log start [DUR-63].
    known : LogState or None
        What this log may count on; None = base offsets ascend, nothing else [DUR-64].

    Raises
    ------
    CorruptLogError
        Data below the recovery point is damaged or missing.
    OverflowedSegmentError
        A segment is to be split first [LDR-30].
    """
    first = floor_index(live, stored.safe_below)
    repairs = _check_sealed(survey, live[: first + 1], known)
    tail = _find_end(survey, live[first:], stored, known, report, progress)
    tail = tail._replace(below=tuple(live[:first]), repairs=tuple(repairs))
    if tail.reason is not None:
        cut_bytes = 0 if tail.cut is None else tail.cut.segment.size_bytes - tail.cut.position
        report.truncated_bytes = cut_bytes + size_of_segments(tail.later)
        report.truncated_from_offset = tail.next_offset
        report.reason = tail.reason
    report.rewritten_bytes = sum(one.bytes_above for one in tail.scanned)
    if survey.had_failed_sync:
        report.rewritten_bytes = sum(one.result.valid_bytes for one in tail.scanned)
        ends = {segment.base_offset: end for segment, end in repairs}
        report.rewritten_bytes += sum(
            ends.get(one.base_offset, one.size_bytes) for one in tail.below
        )
        report.rewritten = report.rewritten_bytes > 0
        report.warnings.append("a sync had failed: all that there is was written again at once")
    return tail


# ---- below the recovery point --------------------------------------------------------------------


def _check_sealed(
    survey: Survey, segments: Sequence[Segment], known: LogState | None
) -> list[tuple[Segment, int]]:
    """Compare ends and beginnings of the segments below the recovery point.

    Returns those with a damaged index, or padding, and where the batches of each end. Source:
    [DUR-51, DUR-54].
    """
    repairs = []
    for segment, following in pairwise(segments):
        try:
            next_offset, ends_clean = survey.end_of(segment)
        except NO_DAMAGE:
            raise
        except SegstoreError as error:
            raise damage(survey.path, segment, "cannot be read to its end", error) from error
        end = None if ends_clean else _end_to_repair(survey, segment, following, next_offset)
        if next_offset > following.base_offset:
            raise damage(
                survey.path, segment, f"reaches offset {next_offset - 1}, into the next segment"
            )
        if _is_after_gap(known, following, next_offset):
            raise missing_between(survey.path, following, next_offset)
        if (
            ends_clean
            and segment.base_offset not in survey.lacks_indexes
            and survey.has_damaged_index(segment)
        ):
            end = _end_to_repair(survey, segment, following, next_offset)
        if end is not None:
            repairs.append((segment, end))
    return repairs


def _end_to_repair(survey: Survey, segment: Segment, following: Segment, next_offset: int) -> int:
    """Return where the batches of a segment below the recovery point end; zeros follow at most.

    A damaged batch in the middle is no end: nothing that was synced is cut [DUR-51].
    """
    scan, is_overflowed, ends_in_zeros = survey.whole_scan(segment)
    if is_overflowed:
        raise OverflowedSegmentError(segment)
    if scan.next_offset < next_offset:
        said = f"is damaged after offset {scan.next_offset - 1}"
        raise damage(survey.path, segment, said, scan.why)
    if scan.stop != "complete" and not (
        following.base_offset == scan.next_offset and ends_in_zeros
    ):
        raise damage(
            survey.path,
            segment,
            f"ends in bytes that are no batch, after offset {scan.next_offset - 1}",
        )
    return scan.valid_bytes


def _is_after_gap(known: LogState | None, segment: Segment, next_offset: int) -> bool:
    """Whether offsets are missing before *segment* in a log that has none missing [DUR-54]."""
    return known is not None and segment.base_offset > max(next_offset, known.contiguous_from)


# ---- from the recovery point on ------------------------------------------------------------------


def _find_end(  # noqa: PLR0913 - as `judge_tail`
    survey: Survey,
    segments: Sequence[Segment],
    stored: StoredState,
    known: LogState | None,
    report: RecoveryReport,
    progress: Callable[[str, int, int], None] | None,
) -> Tail:
    """Read up to the end of the log."""
    total = size_of_segments(segments)
    scanned: list[ScannedSegment] = []
    reason: str | None = None
    next_offset = segments[0].base_offset

    def how(base_offset: int, expected: int, previous_epoch: int) -> HowToScan:
        return HowToScan(
            expected_offset=max(expected, base_offset),
            contiguous=known is not None and base_offset >= known.contiguous_from,
            check_epochs=known is not None and base_offset >= known.epochs_ordered_from,
            previous_epoch=previous_epoch,
        )

    log_start, point = stored.log_start_offset, stored.recovery_point or 0
    scans = survey.scan_tail(segments, how, log_start, point, known)
    for segment, following in zip_longest(segments, segments[1:]):
        if scanned and _is_after_gap(known, segment, next_offset):
            if stored.lacks_records_from(next_offset):
                raise missing_between(survey.path, segment, next_offset)
            reason = missing_records(next_offset, segment.base_offset)
            break
        found = next(scans)
        scanned.append(found)
        next_offset = found.next_offset
        report.scanned_bytes += found.result.valid_bytes
        if progress is not None:
            progress("recover", report.scanned_bytes, total)
        reason = _why_it_ends(survey, found, following, stored)
        if reason is not None:
            break
    if stored.lacks_records_from(next_offset):
        raise lost_end(survey.path, scanned[-1].segment, next_offset, stored)
    last, cut = scanned[-1], None
    if last.is_cut:
        end = last.result.valid_bytes
        holds = last.result.stop == "order" or survey.may_hold_batch(last.segment, end)
        cut = Cut(last.segment, end, holds)
    later = tuple(segments[len(scanned) :])
    return Tail((), (), tuple(scanned), later, next_offset, cut, reason)


def _why_it_ends(
    survey: Survey, found: ScannedSegment, following: Segment | None, stored: StoredState
) -> str | None:
    """Say why the log ends in a segment before its files do, None where it goes on."""
    reason, scan = None, found.result
    if following is not None and survey.holds_only_later(found, following):
        what = f"holds no record below offset {following.base_offset}, where the next one begins"
        raise damage(survey.path, found.segment, what, scan.why)
    if following is not None and found.overlapping_epoch is not None:
        _check_overlap(survey, found.overlapping_epoch, following)
        reason = f"the segment before reaches beyond {following.base_offset}"
    continues = following is not None and following.base_offset == found.next_offset
    if scan.stop == "complete" or (continues and survey.is_zero(found.segment, scan.valid_bytes)):
        return reason
    _require_tail(survey, found, stored)
    at = scan.valid_bytes
    return str(scan.why or f"{found.segment.name}: an incomplete batch at {at}")


def _check_overlap(survey: Survey, lower_epoch: int, following: Segment) -> None:
    """A segment reaches into the next: its batches are newer, or the log is damaged [DUR-54].

    The next one begins above the recovery point: below it no overlap is let through.
    """
    if 0 <= lower_epoch < survey.first_epoch_of(following):
        raise damage(
            survey.path, following, "overlaps the segment before it, in a newer leader epoch"
        )


def _require_tail(survey: Survey, found: ScannedSegment, stored: StoredState) -> None:
    """Raise unless what ends the log is at or above the recovery point [DUR-51, DUR-63]."""
    point, segment, scan = stored.recovery_point, found.segment, found.result
    bad = survey.bad_end(found, has_recovery_point=point is not None)
    if bad.is_overflowed:
        raise OverflowedSegmentError(segment)
    why = scan.why or _incomplete(segment, scan)
    if point is not None and scan.next_offset < point:
        what = f"records from {scan.next_offset} to {point - 1} had been synced"
        raise damage(survey.path, segment, what, why) from scan.why
    if point is None and scan.stop == "order" and not bad.is_torn_or_copy:
        raise damage(survey.path, segment, "there is no recovery point", why) from scan.why


def _incomplete(segment: Segment, scan: ScanResult) -> SegstoreError:
    there = f"{segment.size_bytes - scan.valid_bytes} bytes up to the end of the file"
    return CorruptRecordError(
        "an incomplete batch", position=scan.valid_bytes, found=there, expected="all of it"
    )
