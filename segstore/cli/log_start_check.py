"""What verify says of the log start: what the next open for writing makes of it [DUR-21, DUR-65].

Of the batches nobody can tell it: it stands in the partition's own checkpoint, in that of the log
directory above, and in the clean marker of the partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.cli.check_result import OPEN_REBUILDS, Finding, PartitionCheck
from segstore.errors import CorruptCheckpointError, LimitExceededError
from segstore.log.files.checkpoint_store import CheckpointStore
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LOG_START_OFFSET_CHECKPOINT,
    read_offset,
)

if TYPE_CHECKING:
    from segstore._core import Directory
    from segstore.log.recovery.forecast import OpenForecast
    from segstore.types import TopicPartition

_ABOVE: Final = f"../{LOG_START_OFFSET_CHECKPOINT}"
_LOST: Final = (
    "where the log starts is told nowhere else: it counts from its first segment on, and records "
    "there that were deleted are read again"
)
_RESTORE: Final = (
    "restore this file before the log is opened for writing, which keeps the log start that it "
    "finds then; without it delete these records again"
)


def opened_log_start(forecast: OpenForecast) -> int | None:
    """Return where the log will start once it is opened for writing; None where nobody knows."""
    if forecast.error is not None or forecast.split is not None:
        return None
    return forecast.report.log_start_offset


def read_log_start(
    directory: Directory,
    parent: Directory,
    topic_partition: TopicPartition,
    findings: list[Finding],
    opened: int | None,
) -> tuple[int, int]:
    """Return the log start as an open reads it, and the greatest that a checkpoint says.

    A checkpoint that cannot be read is a finding.

    Parameters
    ----------
    opened : int or None
        What `opened_log_start` gave.
    """
    name = LOG_START_OFFSET_CHECKPOINT
    told: dict[str, int] = {}
    unreadable: dict[str, CorruptCheckpointError | LimitExceededError] = {}
    for place, file in ((directory, name), (parent, _ABOVE)):
        try:
            start = read_offset(place, name, topic_partition)
        except (CorruptCheckpointError, LimitExceededError) as error:
            unreadable[file] = error
        else:
            if start is not None:
                told[file] = start
    found = CheckpointStore(directory, parent, topic_partition).read()
    highest, start, marker = max(told.values(), default=0), found.log_start_offset, found.own_marker
    if marker is not None and marker.has_crc and marker.log_start_offset is not None:
        told = {CLEAN_SHUTDOWN_MARKER: marker.log_start_offset, **told}
    for file, unread in unreadable.items():
        meaning, advice = _meaning(told, start, start if opened is None else opened, file)
        findings.append(
            Finding(
                file=file,
                what=f"cannot be read: {unread.message}",
                meaning=meaning,
                advice=advice,
                repaired=True,
            )
        )
    return start, highest


def _meaning(told: dict[str, int], found: int, start: int, unreadable: str) -> tuple[str, str]:
    """Return what a log start that cannot be read means, and what to do.

    The marker is written behind the own checkpoint; a line of the log directory's only by a broker
    or at a clean stop.
    """
    where = next((file for file in told if told[file] == found), None)
    if where is None:
        return _LOST, _RESTORE
    if start == found:
        meaning = f"it counts as missing: the log starts at {start}, as {where} says"
    else:
        meaning = f"it counts as missing: the log starts at {start}; {where} says {found}"
    if where == _ABOVE and CLEAN_SHUTDOWN_MARKER not in told:
        return (
            f"{meaning}, which may be older than {unreadable}",
            f"if more was deleted, {_RESTORE}",
        )
    return meaning, OPEN_REBUILDS


def check_log_start(told: int | None, check: PartitionCheck) -> None:
    """Compare the log start that a checkpoint says with the log's end."""
    forecast, start = check.forecast, opened_log_start(check.forecast)
    if told is None or told <= check.log_end_offset:
        return
    repaired = None
    if start is not None and start < told:
        meaning, advice = f"it is not believed: the log starts at {start}", OPEN_REBUILDS
        repaired = True
    elif forecast.error is None and forecast.report.set_aside:
        meaning = "the log start lies above the log end: the next open for writing sets all of it "
        meaning += "aside"
        advice = "write the right log start into this file before the log is opened for writing"
    else:
        meaning = "no record can be read: all of them count as deleted"
        advice = "check that this is the partition that the checkpoint speaks of"
    check.findings.append(
        Finding(
            file=LOG_START_OFFSET_CHECKPOINT,
            offset=check.log_end_offset,
            what=f"says the log starts at {told}, it ends at {check.log_end_offset}",
            meaning=meaning,
            advice=advice,
            repaired=repaired,
        )
    )
