"""Checks of one segment: its batches, both indexes, the padding behind their entries.

Source: [DUR-50, DUR-53, DUR-54].
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from segstore._core import LogSegment, SegmentContext
from segstore.errors import ClosedError, SegstoreError
from segstore.log.files.partition_directory import INDEX_ENTRY_BYTES, file_name
from segstore.log.files.recovery_advice import missing_records
from segstore.records.compression import codec_table
from segstore.records.records_count import count_records
from segstore.types import CURRENT_MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from segstore._core import BatchHeaders, Directory, ScanResult
    from segstore.log.local.segment import Segment
    from segstore.log.local.written_order import WrittenOrder
    from segstore.types import OffsetPosition, TimestampOffset

    SegmentScan = Callable[[Segment, int], tuple[BatchHeaders, ScanResult]]
    """Gives the headers of all good batches of a segment, which begin at that offset or above, and
    where and why these end."""

PIECE_BYTES: Final = 65536


@dataclass(slots=True, kw_only=True)
class SegmentCheck:
    """What was found in one segment."""

    base_offset: int
    next_offset: int
    size_bytes: int
    valid_bytes: int
    batches: int
    records: int
    """In the good batches, as far as these can be opened."""
    uncounted_batches: int = 0
    """Good batches that had to be opened to count their records, and could not be."""
    last_epoch: int = -1
    """The last leader epoch up to its end, where the log says that they ascend; else -1."""
    fits_sidecar: bool = False
    """It has a checksum sidecar, and is byte for byte what that says."""
    problems: list[str] = field(default_factory=list)


def scan_all(segment: Segment, expected_offset: int) -> tuple[BatchHeaders, ScanResult]:
    """Read a segment through the page cache, as fast as it goes."""
    return segment.scan(check_order=True, expected_offset=expected_offset)


def check_segment(  # noqa: PLR0913 - a segment, and what the log says of its place
    directory: Directory,
    segment: Segment,
    expected_offset: int,
    *,
    is_behind_gap: bool,
    written_order: WrittenOrder,
    last_epoch: int = -1,
    scan_segment: SegmentScan = scan_all,
) -> SegmentCheck:
    """Check one segment, whose first offset is *expected_offset* or above.

    Parameters
    ----------
    directory : Directory
        Of the partition.
    segment : Segment
        Open for reading.
    expected_offset : int
        Behind the last one of the segment before.
    is_behind_gap : bool
        Whether records are missing where there is a gap before it.
    written_order : WrittenOrder
        What the log says of its gaps and epochs.
    last_epoch : int
        That of the segment before.
    scan_segment : callable
        How its bytes are read.
    """
    base = segment.base_offset
    check = SegmentCheck(
        base_offset=base,
        next_offset=base,
        size_bytes=segment.size_bytes,
        valid_bytes=0,
        batches=0,
        records=0,
        last_epoch=last_epoch,
    )
    if base < expected_offset:
        check.problems.append(f"the segment before reaches to offset {expected_offset - 1}")
    elif is_behind_gap:
        check.problems.append(f"{missing_records(expected_offset, base)} before it")
    try:
        headers, scan = scan_segment(segment, max(base, expected_offset))
    except ClosedError:
        raise
    except SegstoreError as error:
        check.problems.append(str(error))
        return check
    check.next_offset = max(base, scan.next_offset)
    check.valid_bytes = scan.valid_bytes
    check.batches = len(headers)
    if len(headers):  # behind the scan: a writer says that there will be a gap before there is one
        _check_written_order(headers, written_order, max(base, expected_offset), check)
    _count_records(directory, segment, headers, check)
    if scan.stop != "complete":
        left = check.size_bytes - scan.valid_bytes
        why = scan.why or f"an incomplete batch at position {scan.valid_bytes}"
        check.problems.append(f"{why}; {left} bytes behind the last good batch")
        return check
    try:
        _check_indexes(directory, segment, headers, check)
    except SegstoreError as error:
        check.problems.append(str(error))
    return check


def _count_records(
    directory: Directory, segment: Segment, headers: BatchHeaders, check: SegmentCheck
) -> None:
    """Add up what is in the batches; what cannot be opened because it is damaged is a problem."""
    name = file_name(segment.base_offset, "log")
    found = count_records(headers, partial(directory.read_range, name), codec_table())
    check.records = found.total
    check.uncounted_batches = len(found.uncounted)
    for row, error in found.damaged:
        error.file, error.position = segment.path, int(headers["position"][row])
        check.problems.append(str(error))


def _check_written_order(
    headers: BatchHeaders, written_order: WrittenOrder, expected_offset: int, check: SegmentCheck
) -> None:
    """No offset is missing, and no leader epoch goes down, where the writer says so [DUR-64].

    No CRC covers either; which of two batches is wrong, they do not tell.
    """
    state = written_order.state
    if state is None:
        return
    gap = written_order.first_gap(headers, expected_offset)
    if gap is not None:
        batch = headers[gap[0]]
        missing = missing_records(gap[1], int(batch["base_offset"]))
        check.problems.append(f"{missing} before position {batch['position']}")
    is_reported = headers["base_offset"] >= state.epochs_ordered_from
    is_old = headers["magic"] < CURRENT_MAGIC  # it has ended all before it [APP-10]
    rows = np.flatnonzero(is_reported & (is_old | (headers["partition_leader_epoch"] >= 0)))
    told = np.where(is_old, -1, headers["partition_leader_epoch"])[rows]
    epochs = np.append(check.last_epoch, told)
    check.last_epoch = int(epochs[-1])
    lower = (epochs[1:] < epochs[:-1]) & (epochs[1:] >= 0)
    if lower.any():
        number = int(np.argmax(lower))
        batch = headers[rows[number]]
        check.problems.append(
            f"the batch at position {batch['position']}, offset {batch['base_offset']}, has leader"
            f" epoch {epochs[number + 1]} behind a batch of epoch {epochs[number]}: one of the two"
            " is not what was written"
        )


def _entries_on_disk(
    directory: Directory, segment: Segment
) -> tuple[Sequence[OffsetPosition], Sequence[TimestampOffset]]:
    """Read both indexes from their files: those of *segment* may have been in memory for long.

    Of an active segment the last entries may be in memory only [DUR-25], and behind those of a file
    with room for more, as Kafka makes it, lie what was cut off.
    """
    offsets_known = len(segment.offset_index_entries())
    times_known = len(segment.time_index_entries())
    context = SegmentContext(directory, codec_table(), writable=False, heap_indexes=True)
    on_disk = LogSegment(context, segment.base_offset, suffix=segment.suffix)
    try:
        return (
            on_disk.offset_index_entries()[:offsets_known],
            on_disk.time_index_entries()[:times_known],
        )
    finally:
        on_disk.close_quietly()


def _check_indexes(
    directory: Directory, segment: Segment, headers: BatchHeaders, check: SegmentCheck
) -> None:
    """Look at the entries of what was read; others are of batches that came since."""
    offset_entries, time_entries = _entries_on_disk(directory, segment)
    # asked for behind them: who adds an entry has written its batch
    if directory.info(f"{segment.name}{segment.suffix}").size > check.valid_bytes:
        next_offset = check.next_offset
        offset_entries = [entry for entry in offset_entries if entry[0] < next_offset]
        time_entries = [entry for entry in time_entries if entry[1] < next_offset]
    _check_offset_index(segment, offset_entries, headers, check)
    _check_time_index(time_entries, headers, check)


def _check_offset_index(
    segment: Segment,
    entries: Sequence[OffsetPosition],
    headers: BatchHeaders,
    check: SegmentCheck,
) -> None:
    """Each entry is the position of a batch, and no lower offset than that batch's last.

    Source: [OFX-1, DUR-53].
    """
    batches = {
        int(position): int(last)
        for position, last in zip(headers["position"], headers["last_offset"], strict=True)
    }
    previous = segment.base_offset - 1
    for number, (offset, position) in enumerate(entries):
        last = batches.get(position)
        if offset >= check.next_offset:
            check.problems.append(
                f"offset index entry {number} says offset {offset}, the segment ends before"
                f" {check.next_offset}"
            )
            return
        if offset <= previous or last is None or last > offset:
            check.problems.append(
                f"offset index entry {number} says offset {offset} is at {position},"
                f" where {'no batch begins' if last is None else f'a batch up to {last} begins'}"
            )
            return
        previous = offset


def check_padding(directory: Directory, segment: Segment, check: SegmentCheck) -> None:
    """Behind the entries, which end where keys do not increase, there is nothing but zeros.

    Source: [DUR-80].
    """
    offset_entries, time_entries = _entries_on_disk(directory, segment)
    offset_bytes = len(offset_entries) * INDEX_ENTRY_BYTES["index"]
    time_bytes = len(time_entries) * INDEX_ENTRY_BYTES["timeindex"]
    for kind, start in (("index", offset_bytes), ("timeindex", time_bytes)):
        name = file_name(segment.base_offset, kind)
        position = start
        while directory.exists(name) and (
            rest := directory.read_range(name, position, PIECE_BYTES)
        ):
            if rest.strip(b"\0"):
                check.problems.append(f"{name}: bytes from {start} on are no entries")
                break
            position += len(rest)


def _check_time_index(
    entries: Sequence[TimestampOffset], headers: BatchHeaders, check: SegmentCheck
) -> None:
    """Each entry is the largest timestamp up to its offset [TMX-1]."""
    if not len(headers):
        return
    running_max = np.maximum.accumulate(headers["max_timestamp"])
    for number, (timestamp, offset) in enumerate(entries):
        whole = int(np.searchsorted(headers["last_offset"], offset, side="right")) - 1
        begun = int(np.searchsorted(headers["base_offset"], offset, side="right")) - 1
        at_least = int(running_max[whole]) if whole >= 0 else -1
        at_most = int(running_max[begun]) if begun >= 0 else -1
        if not at_least <= timestamp <= at_most:
            check.problems.append(
                f"time index entry {number} says {timestamp} is the largest timestamp up to offset"
                f" {offset}, which is {at_most}"
            )
            return
