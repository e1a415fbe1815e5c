"""A partition's directory, checked without opening it for writing: batches, indexes, small files.

Every check says what was found, what it means and what to do. Nothing is written and no lock is
taken [DUR-71]: what is found in a log that somebody changes meanwhile is looked at again.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from segstore.cli.check_result import OPEN_REBUILDS, Finding, PartitionCheck
from segstore.cli.index_check import check_indexes
from segstore.cli.log_start_check import opened_log_start
from segstore.cli.records_check import check_records
from segstore.cli.restart_check import is_of_marker, refused_marker
from segstore.cli.sidecar_findings import compare_with_sidecars
from segstore.cli.small_file_findings import judge_small_files
from segstore.cli.state_check import check_state_files, read_state
from segstore.errors import CorruptLogError, SegstoreError
from segstore.log.check.stable_read import CHANGED, read_while_stable
from segstore.log.files.partition_directory import file_name, segment_files
from segstore.log.files.recovery_advice import recovery_advice, salvage_hint
from segstore.log.recovery.forecast import OpenForecast, forecast_open
from segstore.log.recovery.quarantined_file import quarantined_files
from segstore.log.salvage.lost_records import lost_records, runs_text

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from segstore._core import Directory, LogSegment, ScanResult
    from segstore.cli.state_check import PartitionState
    from segstore.log.salvage.lost_records import LostRecords

NO_NEXT_SEGMENT = 2**63 - 1
INDEX_FILES = (".index", ".timeindex")
TRANSACTION_INDEX_FILES = ".txnindex"
LEFT_AS_IT_IS = (
    "an open for writing does not read this far and leaves it; reads that come to these bytes "
    "fail, others work"
)


def check_partition(
    path: str, progress: Callable[[str, int, int], None] | None = None
) -> PartitionCheck:
    """Check the partition at *path*.

    Parameters
    ----------
    path : str
        The partition's directory.
    progress : callable, optional
        Called with the path, bytes checked so far and bytes in all.

    Raises
    ------
    LogNotFoundError, NotALogError, LogPermissionError, ReadIOError
        The directory cannot be read; damage is no exception but a finding.
    """
    import segstore._core as _core

    directory = _core.Directory(path)
    try:
        check, is_stable = read_while_stable(
            directory, lambda: _look_at(directory, progress), lambda each: not each.findings
        )
    finally:
        directory.close()
    if not is_stable:
        check.notes.append(CHANGED)
    return check


def _look_at(
    directory: Directory, progress: Callable[[str, int, int], None] | None
) -> PartitionCheck:
    import segstore._core as _core
    from segstore.records.compression import codec_table

    path = directory.path
    check = PartitionCheck(path, forecast=forecast_open(path))
    names = directory.names()
    bases = _core.SegmentListing(names).base_offsets("log")
    opened = opened_log_start(check.forecast)
    state = read_state(directory, path, check.findings, opened)
    check.segments = len(bases)
    start = (state.log_start_offset or 0) if opened is None else opened
    check.log_start_offset = max(start, bases[0] if bases else 0)
    check.recovery_point = (
        check.log_start_offset if state.recovery_point is None else state.recovery_point
    )
    sizes = [directory.info(file_name(base, "log")).size for base in bases]
    check.size_bytes = sum(sizes)
    context = _core.SegmentContext(directory, codec_table(), writable=False)
    expected, epoch, done = 0, -1, 0
    for number, (base, size) in enumerate(zip(bases, sizes, strict=True), start=1):
        following = bases[number] if number < len(bases) else None
        segment = _core.LogSegment(context, base)
        try:
            rows, scan = _scan(segment, base, following, expected, epoch, state)
        finally:
            segment.close()
        check.batches += len(rows)
        check_records(check, directory, base, rows)
        expected = scan.next_offset
        epoch = -1 if _is_of_epochs(scan) else scan.last_epoch  # which of the two nothing tells
        find = partial(lost_records, directory, context, base, state.log_state)
        _judge_scan(check, base, size, scan, _Loss(check, scan, following, find))
        sealed = following is not None
        check_indexes(directory, base, rows, scan, check.findings, sealed=sealed)
        done += size
        if progress is not None:
            progress(path, done, check.size_bytes)
    check.log_end_offset = max(expected, bases[-1] if bases else 0)
    forecast = check.forecast
    restarts = bases and forecast.report.set_aside and start > check.log_end_offset
    if opened is not None and not forecast.report.created and not restarts:
        check.log_end_offset = forecast.report.log_end_offset
    check_state_files(directory, names, state, check)
    check.findings = _with_outcomes(check.forecast, check.findings)
    _judge_open(check)
    judge_small_files(check)
    check.findings += compare_with_sidecars(check, directory, context, bases[:-1], state)
    check.findings.sort(key=_severity)
    check.quarantined = quarantined_files(directory, context, bases, check.log_start_offset)
    leftovers = [file.name for file in segment_files(names) if file.suffix]
    leftovers += [name for name in names if name.endswith(".tmp")]
    check.notes += [f"{name}: left over from an interrupted operation" for name in leftovers]
    return check


def _scan(  # noqa: PLR0913 - what one segment's scan depends on
    segment: LogSegment,
    base: int,
    following: int | None,
    expected: int,
    epoch: int,
    state: PartitionState,
) -> tuple[np.ndarray[Any, np.dtype[np.void]], ScanResult]:
    contiguous = state.contiguous_from is not None and base >= state.contiguous_from
    ordered = state.epochs_ordered_from is not None and base >= state.epochs_ordered_from
    return segment.scan(
        check_crc=True,
        check_order=True,
        contiguous=contiguous,
        check_epochs=ordered,
        expected_offset=max(expected, base),
        next_segment_base_offset=NO_NEXT_SEGMENT if following is None else following,
        previous_epoch=epoch,
    )


def _is_of_epochs(scan: ScanResult) -> bool:
    """Whether it has stopped between two batches whose leader epochs go back."""
    why = scan.why
    expected = (why.expected or "") if isinstance(why, SegstoreError) else ""
    return scan.stop == "order" and expected.startswith("a leader epoch")


def _judge_scan(check: PartitionCheck, base: int, size: int, scan: ScanResult, loss: _Loss) -> None:
    """Turn what stopped a scan before the end of its file into a finding [DUR-50, DUR-51].

    What it means, and what to do, is what an open for writing would make of it.
    """
    if scan.stop == "complete":
        return
    rest = size - scan.valid_bytes
    if scan.stop == "incomplete":
        what = f"{rest} bytes behind the last whole batch are no whole batch"
    else:
        why = scan.why.message if isinstance(scan.why, SegstoreError) else str(scan.why)
        what = f"{why}; {rest} bytes from here to the end of the file are not read"
    meaning, advice, repaired = _outcome(check, base, size, scan, loss)
    check.findings.append(
        Finding(
            file=file_name(base, "log"),
            position=scan.valid_bytes,
            offset=scan.next_offset,
            what=what,
            meaning=meaning,
            advice=advice,
            repaired=repaired,
        )
    )


def _outcome(
    check: PartitionCheck, base: int, size: int, scan: ScanResult, loss: _Loss
) -> tuple[str, str, bool]:
    """Return what bad bytes mean, what to do, and whether an open for writing removes them."""
    forecast = check.forecast
    recover = f"`segstore recover {check.path}`"
    refused = f"as any open for writing does; {recovery_advice(check.path)}"
    left = f"{LEFT_AS_IT_IS}; {salvage_hint(check.path)}"
    cut_at = forecast.truncations.get(base)
    if forecast.error is not None:
        return (
            str(loss),
            f"restore this file from a copy; {recover} refuses the log, {refused}",
            False,
        )
    if forecast.split == base:
        return (
            "the segment is of an old broker: an index cannot name offsets so far above its base",
            f"{recover} splits it, and loses nothing",
            True,
        )
    if forecast.sets_aside(base):
        return (
            "the segment lies behind the end of the log as far as it is good",
            f"{recover} sets the whole file aside: {forecast.report.reason}",
            True,
        )
    if cut_at is None or cut_at > scan.valid_bytes:
        return (
            str(loss),
            f"restore this file from a copy: {recover} cannot repair it, {left}",
            False,
        )
    later = len(forecast.report.set_aside)
    if not forecast.keeps_tail_of(base):
        meaning = (
            "there is nothing but zeros: room that was allocated ahead, or a write whose data "
            f"never reached the disk; {_known_of_tail(check)}"
        )
        kept = ", of which no copy is needed"
    elif scan.stop == "incomplete" and not later:
        meaning = (
            "the last batch is not whole, as when a writer stopped in the middle of a write; "
            f"{_known_of_tail(check)}"
        )
        kept = " and keeps a copy of them"
    else:
        meaning = (
            "good batches may follow in these bytes, but what follows a hole is not used; "
            f"{_known_of_tail(check)}"
        )
        kept = " and keeps a copy of them"
    advice = f"{recover} cuts these {size - cut_at} bytes{kept}"
    return (
        meaning,
        f"{advice}, and sets the later segments ({later}) aside" if later else advice,
        True,
    )


def _known_of_tail(check: PartitionCheck) -> str:
    """Say what is known of records that a recovery cuts or sets aside, and no more."""
    report = check.forecast.report
    if not report.had_recovery_point:
        return "there is no recovery point: they may have been acknowledged, and synced"
    return (
        f"none of it lies below the recovery point {report.recovery_point}, but an append that was "
        "acknowledged since may be in it"
    )


def _judge_open(check: PartitionCheck) -> None:
    """Add what only the open finds: records that are missing, segments that overlap [DUR-54]."""
    forecast = check.forecast
    error = forecast.error
    if isinstance(error, CorruptLogError) and is_of_marker(error):
        check.findings.append(refused_marker(error))
    elif isinstance(error, CorruptLogError):
        if not any(map(_is_of_records, check.findings)):
            check.findings.append(
                Finding(
                    file=os.path.basename(error.file or check.path),  # noqa: PTH119 - a name
                    what=error.message,
                    meaning="records that were once safe are missing or cannot be read",
                    advice=f"restore the directory from a copy; {_advice(check)}",
                    repaired=False,
                )
            )
    elif error is not None:
        check.notes.append(f"cannot be opened for writing: {error}")
    elif forecast.report.truncated_from_offset is not None and not any(
        finding.repaired and finding.file.endswith(".log") for finding in check.findings
    ):
        check.findings.append(
            Finding(
                file=file_name(check.log_start_offset, "log"),
                offset=forecast.report.truncated_from_offset,
                what=forecast.report.reason or "the log ends here",
                meaning=f"what follows a hole is not used; {_known_of_tail(check)}",
                advice=f"`segstore recover {check.path}` sets what follows aside",
                repaired=True,
            )
        )


def _is_of_records(finding: Finding) -> bool:
    return finding.file.endswith(".log") and finding.position is not None


def _severity(finding: Finding) -> int:
    """Lost records come first, then what an open takes out of the log, then derived files."""
    if finding.file.endswith(".log"):
        return 1 if finding.repaired else 0
    return 3 if finding.file.endswith(INDEX_FILES) else 2


def _advice(check: PartitionCheck) -> str:
    return recovery_advice(check.path) if check.segments else "there is nothing left to salvage"


class _Loss(NamedTuple):
    """Says which records a reader does not get, when it is asked: that takes another look.

    Never more than up to the next segment: what damaged bytes say of themselves is no measure, no
    CRC covers a base offset.
    """

    check: PartitionCheck
    scan: ScanResult
    following: int | None
    find: Callable[[int, int | None], LostRecords]

    def __str__(self) -> str:
        first, end = self.scan.next_offset, self.following
        was_safe = first < self.check.recovery_point
        if end is None and was_safe:
            end = self.check.recovery_point
        lost = self.find(first, None if end is None or end <= first else end)
        if not lost.are_any:
            return (
                "no record is lost: all batches are whole, but other bytes are between them, or a"
                " leader epoch, which no CRC covers, is not what was written"
            )
        text = f"{lost} cannot be read"
        if was_safe:
            verb, them = ("were", "them") if lost.are_many else ("was", "it")
            text = (
                f"{lost} {verb} once safe and cannot be read: the file was changed or the disk lost"
                f" {them}"
            )
        if lost.whole:
            text += f"; of what is behind, {runs_text(lost.whole)} can be salvaged"
        return text


def _with_outcomes(forecast: OpenForecast, findings: list[Finding]) -> list[Finding]:
    """Say of each derived file what an open for writing does about it."""
    judged = []
    removed = {*forecast.report.removed}
    for finding in findings:
        if finding.repaired is not None or not finding.file.endswith(INDEX_FILES):
            judged.append(finding)
        elif forecast.error is not None:
            advice = "nothing is rebuilt while opens for writing refuse the log"
            judged.append(replace(finding, advice=advice, repaired=False))
        elif (
            finding.file in removed
            or (base := int(finding.file[:20])) in forecast.reindexed
            or forecast.sets_aside(base)
        ):
            judged.append(replace(finding, advice=OPEN_REBUILDS, repaired=True))
        else:  # `recover` takes it away, so that the open builds it
            judged.append(replace(finding, repaired=True))
    return judged
