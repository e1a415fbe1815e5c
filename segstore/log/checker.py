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
    from segstore.types import TopicPartition

    Progress = Callable[[str, int, int], None]

SCRUB_BYTES_PER_SECOND: Final = 64 * 1024 * 1024


def verify(
    local_log: LocalLog,
    offsets: LogOffsets,
    topic_partition: TopicPartition,
    opened: RecoveryReport,
    progress: Progress | None,
) -> VerifyReport:
    """Check every batch, index, sidecar and small file of a log; changes nothing.

    Parameters
    ----------
    topic_partition : TopicPartition
        As the log was opened; a reader's directory may have another name.
    opened : RecoveryReport
        Of the open: records that it found missing are missing still.
    progress : callable or None
        As of `Log.verify`.
    """
    from segstore.log.check.segment_check import scan_all

    def note(_path: str, done: int, total: int) -> None:
        if progress is not None:
            progress("verify", done, total)

    return _check(local_log, offsets, topic_partition, opened, scan_all, note)


def scrub(  # noqa: PLR0913 - the parts of a log
    local_log: LocalLog,
    offsets: LogOffsets,
    topic_partition: TopicPartition,
    opened: RecoveryReport,
    bytes_per_second: int | None,
    progress: Progress | None,
) -> VerifyReport:
    """As `verify`, of the ``.log`` files as they are on the disk, past the page cache."""
    from segstore.log.check.uncached_scan import UncachedScan

    total = sum(segment.size_bytes for segment in local_log.segments.as_tuple)

    def note(done: int) -> None:
        if progress is not None:
            progress("scrub", done, total)

    scan = UncachedScan(bytes_per_second, note)
    return _check(local_log, offsets, topic_partition, opened, scan, None)


def _check(  # noqa: PLR0913 - the parts of a log
    local_log: LocalLog,
    offsets: LogOffsets,
    topic_partition: TopicPartition,
    opened: RecoveryReport,
    scan_segment: SegmentScan,
    progress: Progress | None,
) -> VerifyReport:
    from segstore.log.check.partition_check import check_directory

    handle = None if local_log.is_followed else _open_log(local_log, offsets, opened)
    report = check_directory(
        local_log.directory,
        progress,
        scan_segment=scan_segment,
        open_log=handle,
        as_=topic_partition if handle is None else None,
    )
    if handle is not None and opened.lost_state is not None:
        report.notes.append(f"{opened.lost_state}: no file shows whether records are missing")
    if handle is not None and opened.doubtful_epochs is not None:
        report.notes.append(f"{opened.doubtful_epochs}: the open rebuilt the epochs")
    return report


def _open_log(local_log: LocalLog, offsets: LogOffsets, opened: RecoveryReport) -> OpenLog:
    """Return what this handle, which writes the log, knows better than its files."""
    from segstore.log.check.partition_check import OpenLog
    from segstore.log.local.transaction_index_check import wrong_indexes
    from segstore.log.recovery.forecast import OpenForecast

    start, end = offsets.log_start_offset, local_log.log_end
    below = max((behind for _, behind in opened.maybe_missing_ranges), default=0)
    is_gone = (opened.log_start_offset < start >= below) or local_log.truncations.reach(below)
    report = replace(
        opened.copy(),
        log_start_offset=start,
        log_end_offset=end.message_offset,
        created=False,
        set_aside=[],
        lost_state=None,
        doubtful_epochs=None,
        maybe_missing=None if is_gone else opened.maybe_missing,
    )
    return OpenLog(
        OpenForecast(report=report),
        end.segment_base_offset,
        end.relative_position_in_segment,
        lambda: wrong_indexes(local_log, start, may_grow=True),
    )
