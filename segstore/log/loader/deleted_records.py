"""Segments below the log start: their records were deleted, and acked as such [DUR-18]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import Barrier
from segstore.errors import ResourceError, SegstoreError
from segstore.log.local.segments import floor_index

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import Directory
    from segstore.log.loader.quarantine import Quarantine
    from segstore.log.loader.recovery_report import RecoveryReport
    from segstore.log.local.segment import Segment


def count_deleted(segments: list[Segment], log_start_offset: int) -> int:
    """Count the first segments that end at or below the log start.

    By what is in them: one may reach into the next, which is damage that is told later [DUR-54].
    """
    floor = floor_index(segments, log_start_offset)
    for index, segment in enumerate(segments[:floor]):
        try:
            end, _ = segment.read_next_offset()
        except ResourceError:
            raise
        except SegstoreError:
            return index
        if end > log_start_offset:
            return index
    return floor


def remove_deleted(segments: list[Segment], directory: Directory, report: RecoveryReport) -> None:
    """Remove the files of *segments*, all of whose records lie below the log start.

    The names of the segments behind them come first: they may be as new as the crash [DUR-54].
    """
    if segments:
        directory.sync(Barrier.RECOVERY_NAMES)
    for segment in segments:
        segment.delete_files()
        segment.close_quietly()
        report.removed.append(segment.name)
    if segments:
        directory.sync(Barrier.LEFTOVERS_DELETED)


def start_anew(
    segments: list[Segment],
    make_segment: Callable[[], Segment],
    directory: Directory,
    quarantine: Quarantine,
) -> None:
    """Put one empty segment at the log start in the place of *segments*, which are set aside.

    It is made before the last of them goes: after a crash there is a ``.log`` [DUR-54]. And not
    before: then those that are left would count as deleted. Source: [LDR-25, LDR-26].
    """
    _set_aside(segments[1:], directory, quarantine)
    created = make_segment()
    directory.sync(Barrier.RECOVERY_BEGIN)
    _set_aside(segments[:1], directory, quarantine)
    segments[:] = [created]


def _set_aside(segments: list[Segment], directory: Directory, quarantine: Quarantine) -> None:
    for segment in reversed(segments):
        if segment.size_bytes > 0:
            quarantine.set_aside(segment.base_offset)
        else:
            segment.delete_files()
        segment.close_quietly()
    if segments:
        directory.sync(Barrier.RECOVERY_SET_ASIDE)
