"""Reading a log from end to end: every batch, every index entry; writes nothing.

Source: [DUR-50, DUR-53, DUR-54].
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from segstore._core import SegmentContext
from segstore.errors import SegstoreError
from segstore.log.directory.partition_directory import INDEX_ENTRY_BYTES, file_name
from segstore.log.directory.ways_out import missing_records
from segstore.log.loader.quarantined_file import quarantined_files
from segstore.log.transaction_index_verifier import find_damaged_transaction_indexes
from segstore.records.compression import codec_table
from segstore.records.records_count import count_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import BatchHeaders, Directory
    from segstore.log.loader.quarantined_file import QuarantinedFile
    from segstore.log.loader.recovery_report import RecoveryReport
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment

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
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class VerifyReport:
    """What was found in a log."""

    segments: list[SegmentCheck] = field(default_factory=list)
    quarantined: list[QuarantinedFile] = field(default_factory=list)
    """What opens for writing took out of the log: no problem of what is left."""
    seconds: float = 0.0
    missing: str | None = None
    """What the open had missed of the log where no file of it shows that: the damage it told of."""

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong, with the file's name."""
        problems = [
            f"{check.base_offset:020d}: {problem}"
            for check in self.segments
            for problem in check.problems
        ]
        return problems if self.missing is None else [*problems, self.missing]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def batches(self) -> int:
        """Good batches."""
        return sum(check.batches for check in self.segments)

    @property
    def records(self) -> int:
        """Records in them, control records included."""
        return sum(check.records for check in self.segments)

    @property
    def uncounted_batches(self) -> int:
        """Good batches whose records are not counted: damaged inside, or a codec is missing."""
        return sum(check.uncounted_batches for check in self.segments)

    @property
    def size_bytes(self) -> int:
        """Bytes of all ``.log`` files."""
        return sum(check.size_bytes for check in self.segments)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return asdict(self) | {"ok": self.ok, "problems": self.problems}

    def __str__(self) -> str:
        summary = (
            f"{len(self.segments)} segments, {self.batches} batches, {self.records} records,"
            f" {self.size_bytes} bytes in {self.seconds:.3f} s: "
        )
        verdict = "all good" if self.ok else f"{len(self.problems)} problems"
        taken_out = [f"quarantine: {file}" for file in self.quarantined]
        return "\n".join([f"{summary}{verdict}", *self.problems, *taken_out])


def verify_log(
    local_log: LocalLog,
    log_start_offset: int,
    progress: Callable[[str, int, int], None] | None = None,
    opened: RecoveryReport | None = None,
) -> VerifyReport:
    """Check all segments of *local_log*, as they are now; *opened* is what its open has found."""
    began, cuts_done = time.monotonic(), local_log.cuts.done
    report = VerifyReport()
    segments = local_log.segments.as_tuple
    total = sum(segment.size_bytes for segment in segments)
    first_missing = local_log.first_missing_offset
    expected = first_missing or 0
    for segment in segments:
        is_behind_gap = (
            first_missing is not None
            if not report.segments
            else expected < segment.base_offset
            and report.segments[-1].valid_bytes == report.segments[-1].size_bytes
            and local_log.is_contiguous_from(expected)
        )
        check = _check_segment(local_log.directory, segment, expected, is_behind_gap=is_behind_gap)
        if not check.problems and segment is not segments[-1]:  # that one may be growing
            _check_padding(local_log.directory, segment, check)
        expected = max(expected, check.next_offset)
        report.segments.append(check)
        if progress is not None:
            progress("verify", report.size_bytes, total)
    if local_log.is_followed and report.problems:  # a log that its writer cut is not damaged
        local_log.check_not_torn(cuts_done, local_log.log_end.message_offset)
    damaged = find_damaged_transaction_indexes(local_log, codec_table(), log_start_offset)
    for check in report.segments:
        if check.base_offset in damaged:
            name = file_name(check.base_offset, "txnindex")
            check.problems.append(f"{name}: {damaged[check.base_offset]}")
    is_as_opened = opened is not None and opened.log_end_offset == local_log.log_end.message_offset
    if opened is not None and is_as_opened and not report.problems:
        report.missing = opened.damage
    directory = local_log.directory
    report.quarantined = quarantined_files(
        directory,
        SegmentContext(directory, codec_table(), writable=False, heap_indexes=True),
        [segment.base_offset for segment in segments],
        log_start_offset,
    )
    report.seconds = time.monotonic() - began
    return report


def _check_segment(
    directory: Directory, segment: Segment, expected_offset: int, *, is_behind_gap: bool
) -> SegmentCheck:
    base = segment.base_offset
    check = SegmentCheck(
        base_offset=base,
        next_offset=base,
        size_bytes=segment.size_bytes,
        valid_bytes=0,
        batches=0,
        records=0,
    )
    if base < expected_offset:
        check.problems.append(f"the segment before reaches to offset {expected_offset - 1}")
    elif is_behind_gap:
        check.problems.append(f"{missing_records(expected_offset, base)} before it")
    try:
        headers, scan = segment.scan(check_order=True, expected_offset=max(base, expected_offset))
    except SegstoreError as error:
        check.problems.append(str(error))
        return check
    check.next_offset = max(base, scan.next_offset)
    check.valid_bytes = scan.valid_bytes
    check.batches = len(headers)
    _count_records(directory, segment, headers, check)
    if scan.stop != "complete":
        left = check.size_bytes - scan.valid_bytes
        why = scan.why or f"an incomplete batch at position {scan.valid_bytes}"
        check.problems.append(f"{why}; {left} bytes behind the last good batch")
        return check
    try:
        _check_offset_index(segment, headers, check)
        _check_time_index(segment, headers, check)
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


def _check_offset_index(segment: Segment, headers: BatchHeaders, check: SegmentCheck) -> None:
    """Each entry is the position of a batch, and no lower offset than that batch's last.

    Source: [OFX-1, DUR-53].
    """
    batches = {
        int(position): int(last)
        for position, last in zip(headers["position"], headers["last_offset"], strict=True)
    }
    previous = segment.base_offset - 1
    for number, (offset, position) in enumerate(segment.offset_index_entries()):
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


def _check_padding(directory: Directory, segment: Segment, check: SegmentCheck) -> None:
    """Behind the entries, which end where keys do not increase, there is nothing but zeros.

    Source: [DUR-80].
    """
    offset_bytes = len(segment.offset_index_entries()) * INDEX_ENTRY_BYTES["index"]
    time_bytes = len(segment.time_index_entries()) * INDEX_ENTRY_BYTES["timeindex"]
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


def _check_time_index(segment: Segment, headers: BatchHeaders, check: SegmentCheck) -> None:
    """Each entry is the largest timestamp up to its offset [TMX-1]."""
    if not len(headers):
        return
    running_max = np.maximum.accumulate(headers["max_timestamp"])
    for number, (timestamp, offset) in enumerate(segment.time_index_entries()):
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
