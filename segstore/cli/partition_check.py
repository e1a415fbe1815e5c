"""A partition's directory, checked without opening it for writing: batches, indexes, small files.

Every check says what was found, what it means and what to do. Nothing is written and no lock is
taken [DUR-71], so of a log that somebody is writing the end may look torn for a moment.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from segstore.cli.finding import Finding
from segstore.cli.index_check import check_indexes
from segstore.cli.state_check import check_state_files, read_state
from segstore.errors import SegstoreError
from segstore.log.partition_directory import file_name, segment_base_offsets, segment_files

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from segstore._core import LogSegment, ScanResult
    from segstore.cli.state_check import PartitionState

NO_NEXT_SEGMENT = 2**63 - 1


@dataclass(slots=True)
class PartitionCheck:
    """What the check of one partition saw."""

    path: str
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    log_start_offset: int = 0
    log_end_offset: int = 0
    recovery_point: int = 0
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def check_partition(
    path: str, progress: Callable[[str, int, int], None] | None = None
) -> PartitionCheck:
    """Check the partition at *path*.

    Parameters
    ----------
    path : str
        The partition's directory.
    progress : callable, optional
        Called with the path, bytes checked so far and bytes in all.

    Raises
    ------
    LogNotFoundError, NotALogError, LogPermissionError, ReadIOError
        The directory cannot be read; damage is no exception but a finding.
    """
    import segstore._core as _core
    from segstore.records.compression import codec_table

    check = PartitionCheck(path)
    directory = _core.Directory(path)
    try:
        names = directory.names()
        bases = segment_base_offsets(names)
        state = read_state(directory, path, check.findings)
        check.segments = len(bases)
        check.log_start_offset = max(state.log_start_offset or 0, bases[0] if bases else 0)
        check.recovery_point = (
            check.log_start_offset if state.recovery_point is None else state.recovery_point
        )
        sizes = [directory.info(file_name(base, "log")).size for base in bases]
        check.size_bytes = sum(sizes)
        context = _core.SegmentContext(directory, codec_table(), writable=False)
        expected, epoch, done = 0, -1, 0
        for number, (base, size) in enumerate(zip(bases, sizes, strict=True), start=1):
            following = bases[number] if number < len(bases) else None
            segment = _core.LogSegment(context, base)
            try:
                rows, scan = _scan(segment, base, following, expected, epoch, state)
            finally:
                segment.close()
            check.batches += len(rows)
            check.records += int(rows["records_count"].sum())
            expected, epoch = scan.next_offset, scan.last_epoch
            _judge_scan(check, base, len(bases) - number, size, scan)
            sealed = following is not None
            check_indexes(directory, base, rows, scan, check.findings, sealed=sealed)
            done += size
            if progress is not None:
                progress(path, done, check.size_bytes)
        check.log_end_offset = max(expected, bases[-1] if bases else 0)
        check_state_files(directory, names, state, check.log_end_offset, check.findings)
        leftovers = [file.name for file in segment_files(names) if file.suffix]
        leftovers += [name for name in names if name.endswith(".tmp")]
        check.notes += [f"{name}: left over from an interrupted operation" for name in leftovers]
    finally:
        directory.close()
    return check


def _scan(  # noqa: PLR0913 - what one segment's scan depends on
    segment: LogSegment,
    base: int,
    following: int | None,
    expected: int,
    epoch: int,
    state: PartitionState,
) -> tuple[np.ndarray[Any, np.dtype[np.void]], ScanResult]:
    contiguous = state.contiguous_from is not None and base >= state.contiguous_from
    ordered = state.epochs_ordered_from is not None and base >= state.epochs_ordered_from
    return segment.scan(
        check_crc=True,
        check_order=True,
        contiguous=contiguous,
        check_epochs=ordered,
        expected_offset=max(expected, base),
        next_segment_base_offset=NO_NEXT_SEGMENT if following is None else following,
        previous_epoch=epoch,
    )


def _judge_scan(
    check: PartitionCheck, base: int, later_segments: int, size: int, scan: ScanResult
) -> None:
    """Turn what stopped a scan before the end of its file into a finding [DUR-50, DUR-51]."""
    if scan.stop == "complete":
        return
    rest = size - scan.valid_bytes
    if scan.stop == "incomplete":
        what = f"{rest} bytes behind the last whole batch are no whole batch"
    else:
        why = scan.why.message if isinstance(scan.why, SegstoreError) else str(scan.why)
        what = f"{why}; {rest} bytes from here to the end of the file are not read"
    recover = f"`segstore recover {check.path}` cuts these {rest} bytes and keeps a copy of them"
    if scan.next_offset < check.recovery_point:
        meaning = (
            f"records from offset {scan.next_offset} on were once safe and cannot be read: the "
            "file was changed or the disk lost them"
        )
        advice = (
            "restore this file from a copy; until then open the log with read_only=True, which "
            "reads what lies before and refuses what lies behind"
        )
    elif later_segments:
        meaning = (
            "these bytes were not yet known to be safe when the writer stopped, and what follows "
            "a hole is not used"
        )
        advice = f"{recover}, and sets the later segments ({later_segments}) aside"
    else:
        meaning = "the writer stopped in the middle of a write; nothing that was safe is lost"
        advice = recover
    check.findings.append(
        Finding(
            file=file_name(base, "log"),
            position=scan.valid_bytes,
            offset=scan.next_offset,
            what=what,
            meaning=meaning,
            advice=advice,
        )
    )
