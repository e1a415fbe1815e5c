"""Checks of a whole log while it is in use, and the default rate of a scrub [DUR-50, DUR-60]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.log.check.stable_read import CHANGED, read_while_stable
from segstore.log.files.partition_directory import LOG_FILE_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.log.check.log_verifier import VerifyReport
    from segstore.log.local.local_log import LocalLog
    from segstore.log.log_offsets import LogOffsets
    from segstore.log.recovery.recovery_report import RecoveryReport

    Progress = Callable[[str, int, int], None]

SCRUB_BYTES_PER_SECOND: Final = 64 * 1024 * 1024


class Checker:
    """Looks at every byte of a log and changes none.

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

    def verify(self, progress: Progress | None, refresh: Callable[[], object]) -> VerifyReport:
        """Check every batch and every index entry.

        Parameters
        ----------
        refresh : callable
            Lets a handle that reads look at the log again.
        """
        from segstore.log.check.log_verifier import verify_log

        return self._checked(
            lambda: verify_log(
                self._local_log, self._offsets.log_start_offset, progress, self._report
            ),
            refresh,
        )

    def scrub(
        self,
        bytes_per_second: int | None,
        progress: Progress | None,
        refresh: Callable[[], object],
    ) -> VerifyReport:
        """As `verify`, of the sealed segments as they are on the disk, past the page cache."""
        from segstore.log.check.log_verifier import verify_log
        from segstore.log.check.uncached_scan import UncachedScan

        def look() -> VerifyReport:
            sealed = self._local_log.segments.as_tuple[:-1]
            size = sum(segment.size_bytes for segment in sealed)
            return verify_log(
                self._local_log,
                self._offsets.log_start_offset,
                None,
                self._report,
                sealed_only=True,
                scan_segment=UncachedScan(bytes_per_second, progress, size),
            )

        return self._checked(look, refresh)

    def _checked(
        self, look: Callable[[], VerifyReport], refresh: Callable[[], object]
    ) -> VerifyReport:
        """Return what *look* reports; beside a writer in another process, what it reports again.

        That the log was cut is told once, as by any other read [DUR-77].
        """
        local_log = self._local_log
        if not local_log.is_followed:
            return look()
        looks = 0

        def look_again() -> VerifyReport:
            nonlocal looks
            looks += 1
            if looks > 1:
                refresh()
            return look()

        def is_of_newest(report: VerifyReport) -> bool:
            bad = [check.base_offset for check in report.segments if check.problems]
            there = local_log.directory.segment_listing().base_offsets(LOG_FILE_SUFFIX)
            return report.missing is not None or not there or there[-1] in bad

        report, is_stable = read_while_stable(
            local_log.directory,
            look_again,
            lambda each: each.ok,
            min_attempts=2,
            is_of_newest=is_of_newest,
        )
        if not is_stable:
            report.notes.append(CHANGED)
        return report
