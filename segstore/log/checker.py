"""Checks of a whole log while it is in use, and the default rate of a scrub [DUR-50, DUR-60]."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.log.check.partition_check import OpenLog
    from segstore.log.check.segment_check import SegmentScan
    from segstore.log.check.verify_report import VerifyReport
    from segstore.log.local.local_log import LocalLog
    from segstore.log.log_offsets import LogOffsets
    from segstore.log.recovery.recovery_report import RecoveryReport

    Progress = Callable[[str, int, int], None]

SCRUB_BYTES_PER_SECOND: Final = 64 * 1024 * 1024


class Checker:
    """Looks at every byte of a log and changes none: the check of `segstore verify`.

    Parameters
    ----------
    report : RecoveryReport
        Of the open: records that it found missing are missing still.
    """

    __slots__ = ("_local_log", "_offsets", "_report")

    def __init__(self, local_log: LocalLog, offsets: LogOffsets, report: RecoveryReport) -> None:
        self._local_log = local_log
        self._offsets = offsets
        self._report = report

    def verify(self, progress: Progress | None) -> VerifyReport:
        """Check every batch, index, sidecar and small file."""
        from segstore.log.check.segment_check import scan_all

        def note(_path: str, done: int, total: int) -> None:
            if progress is not None:
                progress("verify", done, total)

        return self._check(scan_all, note)

    def scrub(self, bytes_per_second: int | None, progress: Progress | None) -> VerifyReport:
        """As `verify`, of the ``.log`` files as they are on the disk, past the page cache."""
        from segstore.log.check.uncached_scan import UncachedScan

        total = sum(segment.size_bytes for segment in self._local_log.segments.as_tuple)

        def note(done: int) -> None:
            if progress is not None:
                progress("scrub", done, total)

        return self._check(UncachedScan(bytes_per_second, note), None)

    def _check(self, scan_segment: SegmentScan, progress: Progress | None) -> VerifyReport:
        from segstore.log.check.partition_check import check_directory

        local_log = self._local_log
        handle = None if local_log.is_followed else self._open_log()
        report = check_directory(
            local_log.directory, progress, scan_segment=scan_segment, open_log=handle
        )
        if handle is not None and self._report.lost_state is not None:
            report.notes.append(f"{self._report.lost_state}: nothing tells if records are missing")
        return report

    def _open_log(self) -> OpenLog:
        """Return what this handle, which writes the log, knows better than its files."""
        from segstore.log.check.partition_check import OpenLog
        from segstore.log.local.transaction_index_check import wrong_indexes
        from segstore.log.recovery.forecast import OpenForecast

        local_log, opened, start = self._local_log, self._report, self._offsets.log_start_offset
        end, below = local_log.log_end, opened.maybe_missing_below
        is_gone = (opened.log_start_offset < start >= below) or local_log.truncations.reach(below)
        report = replace(
            opened.copy(),
            log_start_offset=start,
            log_end_offset=end.message_offset,
            set_aside=[],
            lost_state=None,
            maybe_missing=None if is_gone else opened.maybe_missing,
        )
        return OpenLog(
            OpenForecast(report=report),
            end.segment_base_offset,
            end.relative_position_in_segment,
            lambda: wrong_indexes(local_log, start, may_grow=True),
        )
