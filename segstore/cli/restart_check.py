"""Findings of verify about an open that was setting a whole log aside [DUR-54]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.cli.check_result import Finding
from segstore.log.files.checkpoints import LOG_START_OFFSET_CHECKPOINT, RESTART_MARKER
from segstore.log.recovery.restart_marker import missing_files_text

if TYPE_CHECKING:
    from segstore.errors import CorruptLogError
    from segstore.log.recovery.restart_marker import RestartMarker


def is_of_marker(error: CorruptLogError) -> bool:
    """Whether an open is refused since the log starts elsewhere than the mark says."""
    return error.file is not None and error.file.endswith(f"/{RESTART_MARKER}")


def refused_marker(error: CorruptLogError) -> Finding:
    """Return the finding of a log that is refused so."""
    return Finding(
        file=RESTART_MARKER,
        what=error.message,
        meaning="no open for writing goes on before that",
        advice="do that, and verify again",
        repaired=False,
    )


def standing_marker(mark: RestartMarker) -> Finding:
    """Return the finding of a log with which the next open goes on."""
    way = mark.hint()
    if mark.has_names:  # in this order: an open in between is refused
        way = f"write the right log start into it. {way}"
    return Finding(
        file=RESTART_MARKER,
        what="an open for writing was setting the whole log aside, and was not done",
        meaning="the log start lay above the log end; the next open for writing ends it",
        advice=f"where {LOG_START_OFFSET_CHECKPOINT} is not what was written: {way[0].lower()}"
        f"{way[1:]}",
        repaired=True,
    )


def lost_files(mark: RestartMarker) -> Finding:
    """Return the finding of files that were set aside and taken away [DUR-7]."""
    return Finding(
        file=RESTART_MARKER,
        what=f"names what an open for writing has set aside: {missing_files_text(mark.missing)}",
        meaning=mark.missing_records(),
        advice="restore the directory from a copy, or go on without these records",
        repaired=False,
    )


def lies_beside(mark: RestartMarker, log_end_offset: int) -> bool:
    """Whether the log ends where it does since the rest stands aside: the mark tells of that."""
    if mark.content is None:
        return mark.has_names
    return log_end_offset < mark.content.log_start_offset
