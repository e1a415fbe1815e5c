"""Reading a log from end to end: every batch, every index entry; writes nothing.

Source: [DUR-50, DUR-53, DUR-54].
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from segstore._core import SegmentContext
from segstore.errors import ClosedError, SegstoreError
from segstore.log.check.checksum_sidecar_check import check_sidecar
from segstore.log.check.segment_check import SegmentCheck, check_padding, check_segment, scan_all
from segstore.log.files.partition_directory import file_name
from segstore.log.local.transaction_index_check import wrong_indexes
from segstore.log.recovery.quarantined_file import quarantined_files
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import BatchHeaders
    from segstore.log.check.segment_check import SegmentScan
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment
    from segstore.log.recovery.quarantined_file import QuarantinedFile
    from segstore.log.recovery.recovery_report import RecoveryReport


MAY_BE_OF_OTHERS: Final = (
    "another program, as a broker, may have written to the log since: then this is no damage"
)


@dataclass(slots=True, kw_only=True)
class VerifyReport:
    """What was found in a log."""

    segments: list[SegmentCheck] = field(default_factory=list)
    quarantined: list[QuarantinedFile] = field(default_factory=list)
    """What opens for writing took out of the log: no problem of what is left."""
    notes: list[str] = field(default_factory=list)
    """What is no problem: checksum sidecars that may be of other bytes, a small file's loss."""
    seconds: float = 0.0
    missing: str | None = None
    """What the open had missed of the log where no file of it shows that: the damage it told of."""
    maybe_missing: str | None = None
    """Records that a small file would tell of which the open has found lost [DUR-7]."""

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong, with the file's name."""
        problems = [
            f"{check.base_offset:020d}: {problem}"
            for check in self.segments
            for problem in check.problems
        ]
        return [*problems, *filter(None, (self.missing, self.maybe_missing))]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def batches(self) -> int:
        """Good batches."""
        return sum(check.batches for check in self.segments)

    @property
    def records(self) -> int:
        """Records in them, control records included."""
        return sum(check.records for check in self.segments)

    @property
    def uncounted_batches(self) -> int:
        """Good batches whose records are not counted: damaged inside, or a codec is missing."""
        return sum(check.uncounted_batches for check in self.segments)

    @property
    def sidecars(self) -> int:
        """Segments that are, byte for byte, what their checksum sidecar says [DUR-60]."""
        return sum(check.fits_sidecar for check in self.segments)

    @property
    def size_bytes(self) -> int:
        """Bytes of all ``.log`` files."""
        return sum(check.size_bytes for check in self.segments)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        told = {"ok": self.ok, "problems": self.problems, "sidecars": self.sidecars}
        return asdict(self) | told

    def __str__(self) -> str:
        summary = (
            f"{len(self.segments)} segments, {self.batches} batches, {self.records} records,"
            f" {self.size_bytes} bytes in {self.seconds:.3f} s: "
        )
        verdict = "all good" if self.ok else f"{len(self.problems)} problems"
        taken_out = [f"quarantine: {file}" for file in self.quarantined]
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([f"{summary}{verdict}", *self.problems, *taken_out, *notes])


def _check_sealed(
    local_log: LocalLog, segment: Segment, check: SegmentCheck, report: VerifyReport
) -> None:
    """Add what its padding tells, and its checksum sidecar, where it has one [DUR-60, DUR-80]."""
    if not check.problems:
        check_padding(local_log.directory, segment, check)
    try:
        found = check_sidecar(
            local_log.directory,
            segment.base_offset,
            partial(all_headers, segment),
            is_believed=not local_log.written_order.has_gaps,
        )
    except ClosedError:
        raise
    except SegstoreError as error:
        check.problems.append(str(error))
        return
    if found is None:
        return
    check.fits_sidecar = found.fits
    if found.is_problem:
        check.problems.append(found.what)
    elif not found.fits:
        report.notes.append(f"{segment.base_offset:020d}: {found.what}; {MAY_BE_OF_OTHERS}")


def _take_over(
    opened: RecoveryReport, report: VerifyReport, local_log: LocalLog, log_start_offset: int
) -> None:
    """Add what the open has found that no file of the log shows, unless it was cut since."""
    end = local_log.log_end.message_offset
    if opened.log_end_offset == end and not report.problems:
        report.missing = opened.damage
    below = opened.maybe_missing_below
    is_gone = (opened.log_start_offset < log_start_offset >= below) or local_log.truncations.reach(
        below
    )
    if report.missing is None and not is_gone:
        report.maybe_missing = opened.maybe_missing
    if opened.doubtful_epochs is not None and report.maybe_missing is None:
        report.notes.append(opened.doubtful_epochs)
    if opened.lost_state is not None and report.maybe_missing is None:
        report.notes.append(f"{opened.lost_state}: whether records are missing nothing tells")


def all_headers(segment: Segment) -> BatchHeaders:
    """Return the headers of the batches of a segment, as far as they can be read."""
    tables = [headers for headers, _ in segment.scan_windows(check_crc=False)]
    return np.concatenate(tables)


def verify_log(  # noqa: PLR0913 - which segments of which log, and how
    local_log: LocalLog,
    log_start_offset: int,
    progress: Callable[[str, int, int], None] | None = None,
    opened: RecoveryReport | None = None,
    *,
    sealed_only: bool = False,
    scan_segment: SegmentScan = scan_all,
) -> VerifyReport:
    """Check all segments of *local_log*, as they are now.

    Parameters
    ----------
    local_log : LocalLog
        Open.
    log_start_offset : int
        Of the log.
    progress : callable or None
        Called with ``"verify"``, bytes checked, bytes to check.
    opened : RecoveryReport or None
        What its open has found.
    sealed_only : bool
        Leave the active segment out.
    scan_segment : callable
        How the bytes of a segment are read.
    """
    began, truncations_done = time.monotonic(), local_log.truncations.done
    report = VerifyReport()
    segments = local_log.segments.as_tuple
    active = segments[-1]
    if sealed_only:
        segments = segments[:-1]
    total = sum(segment.size_bytes for segment in segments)
    first_missing = local_log.first_missing_offset
    expected, last_epoch = first_missing or 0, -1
    for segment in segments:
        is_behind_gap = (
            first_missing is not None
            if not report.segments
            else expected < segment.base_offset
            and report.segments[-1].valid_bytes == report.segments[-1].size_bytes
            and local_log.written_order.is_contiguous_from(expected)
        )
        check = check_segment(
            local_log.directory,
            segment,
            expected,
            is_behind_gap=is_behind_gap,
            written_order=local_log.written_order,
            last_epoch=last_epoch,
            scan_segment=scan_segment,
        )
        if segment is not active:  # that one may be growing
            _check_sealed(local_log, segment, check, report)
        expected = max(expected, check.next_offset)
        last_epoch = check.last_epoch
        if check.problems and segment not in local_log.segments.as_tuple:
            continue  # deleted meanwhile, or cut
        report.segments.append(check)
        if progress is not None:
            progress("verify", report.size_bytes, total)
    wrong = {
        one.base_offset: one.problem
        for one in wrong_indexes(local_log, log_start_offset, may_grow=True)
    }
    for check in report.segments:
        if check.base_offset in wrong:
            name = file_name(check.base_offset, "txnindex")
            check.problems.append(f"{name}: {wrong[check.base_offset]}")
    if local_log.is_followed and report.problems:  # a log that its writer cut is not damaged
        local_log.check_not_changed(truncations_done, local_log.log_end.message_offset)
    if opened is not None:
        _take_over(opened, report, local_log, log_start_offset)
    directory = local_log.directory
    report.quarantined = quarantined_files(
        directory,
        SegmentContext(directory, codec_table(), writable=False, heap_indexes=True),
        [segment.base_offset for segment in segments],
        log_start_offset,
    )
    report.seconds = time.monotonic() - began
    return report
