"""Whether what recovery found above the recovery point is on the disk [DUR-36].

A sync brings there what the kernel has not written yet, and tells of an error that nobody was told
of: a power cut takes nothing of what this open shows. What a sync does not bring there are pages
that count as clean after a sync that failed. The core leaves a mark when it was told of one, and
then they are written again at once; but who was told may have been another program. So they are
written again in any case before anything changes, and are not called durable until then.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from segstore._core import Barrier
from segstore.log.files.checkpoints import SYNC_FAILED_MARK
from segstore.log.local.tail_rewrite import bytes_from, rewrite_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore._core import Directory
    from segstore.log.files.stored_state import StoredState
    from segstore.log.local.segment import Segment
    from segstore.log.recovery.recovery_report import RecoveryReport


def after_failed_sync(
    found: StoredState, directory: Directory, report: RecoveryReport
) -> StoredState:
    """Do not believe a clean stop that came after a sync which failed [DUR-35, DUR-36].

    It was one of a broker, or of a handle with Kafka's profile, which know no mark: they raised the
    recovery point over pages that may not be on the disk. All is read, and written, again. Of the
    log start that says nothing: it is settled before.
    """
    is_clean = found.parent_is_clean or found.own_marker is not None
    if not is_clean or not directory.exists(SYNC_FAILED_MARK):
        return found
    report.warnings.append(
        "a sync had failed before the stop that calls itself clean: it is not believed"
    )
    return replace(found, parent_is_clean=False, own_marker=None, recovery_point=None)


def bring_to_disk(
    synced: Sequence[Segment],
    segments: Sequence[Segment],
    recovery_point: int,
    directory: Directory,
    report: RecoveryReport,
) -> bool:
    """Sync what there is from *recovery_point* on; returns whether it was written again too.

    Records below the log start, in its segment, are part of it: recovery reads them [DUR-51].
    Behind a mark all is written again, also what is *synced*, the segments before it: who does not
    know the mark may have raised the recovery point over pages of that sync, and the clean marker
    that could tell is gone when an open was killed.
    """
    is_marked = directory.exists(SYNC_FAILED_MARK)
    if is_marked:
        segments, recovery_point = [*synced, *segments], 0
    report.rewritten_bytes = bytes_from(segments, recovery_point)
    is_rewritten = is_marked or not report.rewritten_bytes
    if is_rewritten:
        rewrite_from(segments, recovery_point)
    else:
        for segment in segments:
            segment.flush(Barrier.RECOVERY_RECORDS)
    directory.sync(Barrier.RECOVERY_NAMES)
    if is_marked:
        report.rewritten = report.rewritten_bytes > 0
        report.warnings.append("a sync had failed: all that there is was written again at once")
        directory.unlink(SYNC_FAILED_MARK)
    return is_rewritten
