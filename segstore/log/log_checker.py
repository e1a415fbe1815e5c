"""Checks of a whole log while it is in use: `LogChecker.verify` and `LogChecker.scrub`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.arguments import callback, integer_within
from segstore.config import MAX_LONG
from segstore.log.directory.partition_directory import LOG_FILE_SUFFIX
from segstore.log.quiet_look import CHANGED, look_while_quiet
from segstore.log.slice_reader import SliceReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.log.loader.recovery_report import RecoveryReport
    from segstore.log.log_verifier import VerifyReport

SCRUB_BYTES_PER_SECOND: Final = 64 * 1024 * 1024


class LogChecker(SliceReader):
    """What looks at every byte of a log and changes none."""

    report: RecoveryReport

    def verify(self, progress: Callable[[str, int, int], None] | None = None) -> VerifyReport:
        """Check every batch and every index entry; changes nothing.

        Parameters
        ----------
        progress : callable or None
            Called with ``"verify"``, bytes checked, bytes to check.

        Raises
        ------
        LogTruncatedError
            Another process cut the log, which this handle has seen longer.
        """
        from segstore.log.log_verifier import verify_log

        self._require_open()
        callback("progress", progress)
        return self._looked_at(
            lambda: verify_log(self._local_log, self.log_start_offset, progress, self.report)
        )

    def scrub(
        self,
        *,
        bytes_per_second: int | None = SCRUB_BYTES_PER_SECOND,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> VerifyReport:
        """Check the sealed segments as they are on the disk, slowly; changes nothing.

        As `verify`, but for the active segment, and past the page cache: what the system has in
        memory of the ``.log`` files is dropped first, so that a disk that lost bits is found out
        while another copy is there to be had. Deletions, truncations and appends go on meanwhile.

        Parameters
        ----------
        bytes_per_second : int or None
            How fast it may read, 64 MiB; None = as fast as it goes.
        progress : callable or None
            Called with ``"scrub"``, bytes read, bytes to read.

        Returns
        -------
        VerifyReport
            Of the sealed segments.

        Raises
        ------
        ClosedError
            The log was closed, before or meanwhile.
        LogTruncatedError
            Another process cut the log, which this handle has seen longer.

        Notes
        -----
        [DUR-60]. The kernel keeps what is mapped, or not written back yet.
        """
        from segstore.log.cold_scan import ColdScan
        from segstore.log.log_verifier import verify_log

        self._require_open()
        if bytes_per_second is not None:
            integer_within("bytes_per_second", bytes_per_second, 1, MAX_LONG)
        callback("progress", progress)

        def look() -> VerifyReport:
            sealed = self._local_log.segments.as_tuple[:-1]
            size = sum(segment.size_bytes for segment in sealed)
            return verify_log(
                self._local_log,
                self.log_start_offset,
                None,
                self.report,
                sealed_only=True,
                scan_segment=ColdScan(bytes_per_second, progress, size),
            )

        return self._looked_at(look)

    def _looked_at(self, look: Callable[[], VerifyReport]) -> VerifyReport:
        """Return what *look* reports; beside a writer in another process, what it reports again.

        That the log was cut is told once, as by any other read [DUR-77].
        """
        local_log = self._local_log
        if not local_log.is_followed:
            return look()
        looks = 0

        def look_anew() -> VerifyReport:
            nonlocal looks
            looks += 1
            if looks > 1:
                self.refresh()
            return look()

        def is_of_newest(report: VerifyReport) -> bool:
            bad = [check.base_offset for check in report.segments if check.problems]
            there = local_log.directory.segment_listing().base_offsets(LOG_FILE_SUFFIX)
            return report.missing is not None or not there or there[-1] in bad

        report, is_quiet = look_while_quiet(
            local_log.directory,
            look_anew,
            lambda each: each.ok,
            least_looks=2,
            is_of_newest=is_of_newest,
        )
        if not is_quiet:
            report.notes.append(CHANGED)
        return report
