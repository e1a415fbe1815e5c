"""Records that are missing between two segments, as findings [DUR-7, DUR-54].

A gap is a finding where this library wrote the log without gaps, and where an index or an earlier
note proves that the ``.log`` had more records. Any other gap may be what compaction left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.log.files.checkpoints import MISSING_RECORDS
from segstore.log.files.partition_directory import file_name, parse_file_name
from segstore.log.findings.finding import Action, Finding, FindingCode, Records
from segstore.log.local.missing_records import missing_between

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore._core import Directory
    from segstore.log.files.checkpoints import LogState


def gap_finding(  # noqa: PLR0913 - two segments, and what is known of the log
    directory: Directory,
    base_offset: int,
    size_bytes: int,
    end_offset: int,
    next_base_offset: int,
    state: LogState | None,
    log_start_offset: int,
    lone_bases: Sequence[int] | None = None,
) -> Finding | None:
    """Return what is found about the gap between a segment and the next one; None for no gap.

    Parameters
    ----------
    directory : Directory
        The partition's.
    base_offset, size_bytes : int
        Of the segment, whose batches are all good.
    end_offset : int
        The offset behind its last batch; its base offset when it has none.
    next_base_offset : int
        Of the next segment.
    state : LogState or None
        What ``.segstore`` says, where that can be relied on.
    log_start_offset : int
        Records below it were deleted.
    lone_bases : sequence of int or None
        As `missing_between` takes them.
    """
    first = max(end_offset, log_start_offset)
    if first >= next_base_offset:
        return None
    if state is not None and first >= state.contiguous_from:
        return None  # the finding about the next segment says so
    missing = missing_between(
        directory, base_offset, first, next_base_offset, lone_bases=lone_bases
    )
    if missing:
        last = missing[-1]
        shown = parse_file_name(last.shown_by)
        is_gone = shown is not None and shown.offset != base_offset
        lost_file = file_name(base_offset if shown is None else shown.offset, "log")
        is_noted = last.shown_by == MISSING_RECORDS
        return Finding(
            code=FindingCode.RECORDS_MISSING,
            file=lost_file if is_gone else file_name(base_offset, "log"),
            position=None if is_gone else size_bytes,
            first_offset=missing[0].first_offset,
            last_offset=last.next_offset - 1,
            found="no such file" if is_gone else f"a file that ends after offset {end_offset - 1}",
            expected=f"records up to offset {last.next_offset - 1}, as {last.shown_by} shows",
            records=Records.MISSING,
            lost=tuple((one.first_offset, one.next_offset - 1) for one in missing),
            # a note has the offsets, and not which file held them
            action=Action.RESTORE_SEGMENTS if is_noted else Action.RESTORE,
        )
    if size_bytes == 0 and state is None:
        return Finding(
            code=FindingCode.RECORDS_MAYBE_MISSING,
            file=file_name(base_offset, "log"),
            position=0,
            first_offset=first,
            last_offset=next_base_offset - 1,
            found="0 bytes, as a lost file has, or one of which compaction kept no record",
            records=Records.MAYBE_MISSING,
            lost=((first, next_base_offset - 1),),
            action=Action.RESTORE,
        )
    return None
