"""The index files of one segment against the batches of its log [DUR-53, format.md 13]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from segstore.log.check.unreadable_file import UNREADABLE_ERRORS, unreadable_file
from segstore.log.files.partition_directory import file_name
from segstore.log.findings.finding import Action, Finding, FindingCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from segstore._core import Directory, ScanResult

MAX_INDEX_BYTES = 2**31 - 1

OFFSET_ENTRY = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])


def index_findings(
    directory: Directory,
    base_offset: int,
    rows: NDArray[np.void],
    scan: ScanResult,
    next_base_offset: int | None,
) -> Iterator[Finding]:
    """Yield what is wrong with both indexes of a segment, at most one finding a file.

    Parameters
    ----------
    directory : Directory
        The partition's.
    base_offset : int
        Of the segment.
    rows : array of headers
        Of the segment's good batches, as a scan returned them.
    scan : ScanResult
        Where that scan ended; entries for what lies behind cannot be judged.
    next_base_offset : int or None
        Of the next segment; None for the active one.
    """
    sealed = next_base_offset is not None
    for kind, layout, judge in (
        ("index", OFFSET_ENTRY, _judge_offsets),
        ("timeindex", TIME_ENTRY, _judge_times),
    ):
        name = file_name(base_offset, kind)
        if not directory.exists(name):
            if sealed or len(rows):  # that of an empty active segment comes with the first batch
                yield Finding(
                    code=FindingCode.INDEX_MISSING, file=name, action=Action.RECOVER, repaired=True
                )
            continue
        try:
            size = directory.info(name).size
            data = b"" if size > MAX_INDEX_BYTES else directory.read_file(name, MAX_INDEX_BYTES)
        except UNREADABLE_ERRORS as error:
            yield unreadable_file(directory, name, error)
            continue
        if size > MAX_INDEX_BYTES:
            yield _finding(name, 0, None, f"{size} bytes", f"at most {MAX_INDEX_BYTES} bytes")
            continue
        entries = np.frombuffer(data, layout, len(data) // layout.itemsize)
        used = _used(entries)
        problem = judge(used, base_offset, rows, scan)
        timed = sealed and kind == "timeindex" and len(rows) > 0
        timed = timed and scan.max_timestamp >= min(1, len(used))  # an entry of zeros is for time 0
        if problem is None and timed and _all_zero(used):
            problem = 0, f"is missing, though the segment holds records up to {scan.max_timestamp}"
        if problem is None and len(data) % layout.itemsize:
            problem = len(used), f"{len(data)} bytes are no multiple of {layout.itemsize}"
        if problem is not None:
            number, what = problem
            relative = int(used["relative_offset"][number]) if number < len(used) else None
            offset = None if relative is None else base_offset + relative
            yield _finding(name, number * layout.itemsize, offset, f"entry {number}: {what}", None)


def _finding(
    name: str, position: int, offset: int | None, found: str, expected: str | None
) -> Finding:
    return Finding(
        code=FindingCode.INDEX_CORRUPT,
        file=name,
        position=position,
        first_offset=offset,
        found=found,
        expected=expected,
        action=Action.RECOVER,
        repaired=True,
    )


def _used(entries: NDArray[np.void]) -> NDArray[np.void]:
    """Leave out the zeros of a file that is still preallocated, or was when its writer died."""
    unused = np.flatnonzero(entries["relative_offset"][1:] == 0)
    return entries[: unused[0] + 1] if len(unused) else entries


def _first(wrong: NDArray[np.bool_]) -> int | None:
    found = np.flatnonzero(wrong)
    return int(found[0]) if len(found) else None


def _judge_offsets(
    entries: NDArray[np.void], base_offset: int, rows: NDArray[np.void], scan: ScanResult
) -> tuple[int, str] | None:
    """Every entry points at the start of a batch that begins at or below the entry's offset."""
    positions = entries["position"].astype(np.int64)
    offsets = entries["relative_offset"].astype(np.int64) + base_offset
    if _all_zero(entries):
        return None
    falling = _first(np.diff(offsets) <= 0)
    if falling is not None:
        number = falling + 1
        return number, f"offset {offsets[number]} follows {offsets[falling]}: offsets must increase"
    known = positions < scan.valid_bytes
    row_numbers = np.searchsorted(rows["position"], positions[known])
    at_batch = np.zeros(len(entries), dtype=bool)
    at_batch[np.flatnonzero(known)] = (row_numbers < len(rows)) & (
        rows["position"][np.minimum(row_numbers, max(len(rows) - 1, 0))] == positions[known]
        if len(rows)
        else False
    )
    bad = _first(~at_batch & (known | (scan.stop == "complete")))
    if bad is not None:
        return bad, f"position {positions[bad]} is not where a batch begins"
    batches = rows[row_numbers]
    bad = _first(batches["last_offset"] > offsets[known])
    if bad is not None:
        last_offset = batches["last_offset"][bad]
        return bad, f"names offset {offsets[bad]}, the batch there ends at {last_offset}"
    bad = _first(offsets > scan.next_offset - 1) if scan.stop == "complete" else None
    if bad is not None:
        return bad, f"names offset {offsets[bad]}, the segment ends at {scan.next_offset - 1}"
    return None


def _judge_times(  # noqa: PLR0911 - a return for each thing that can be wrong
    entries: NDArray[np.void], base_offset: int, rows: NDArray[np.void], scan: ScanResult
) -> tuple[int, str] | None:
    """Times increase, and up to an entry's offset no batch is later than the entry says."""
    times = entries["timestamp"].astype(np.int64)
    offsets = entries["relative_offset"].astype(np.int64) + base_offset
    if _all_zero(entries):
        return None
    falling = _first((np.diff(times) <= 0) | (np.diff(offsets) < 0))
    if falling is not None:
        number = falling + 1
        return number, (
            f"time {times[number]} at offset {offsets[number]} follows time {times[falling]} at "
            f"{offsets[falling]}: both must increase"
        )
    if len(rows) == 0:
        return (0, "the segment is empty") if len(entries) and scan.stop == "complete" else None
    bad = _first((offsets < base_offset) | (offsets >= scan.next_offset))
    if bad is not None:
        if scan.stop != "complete":
            return None
        return bad, f"names offset {offsets[bad]}, the segment ends at {scan.next_offset - 1}"
    latest = np.maximum.accumulate(rows["max_timestamp"])
    whole = np.searchsorted(rows["last_offset"], offsets, side="right") - 1
    bad = _first((whole >= 0) & (latest[np.maximum(whole, 0)] > times))
    if bad is not None:
        later = latest[whole[bad]]
        return (
            bad,
            f"says nothing up to offset {offsets[bad]} is later than {times[bad]}: {later} is",
        )
    begun = np.searchsorted(rows["base_offset"], offsets, side="right") - 1
    bad = _first(latest[np.maximum(begun, 0)] < times)
    if bad is not None:
        return bad, f"says that a record up to offset {offsets[bad]} has the time {times[bad]}"
    return None


def _all_zero(entries: NDArray[Any]) -> bool:
    """Whether nothing was ever written: no entry, or the zeros of a preallocated file."""
    return len(entries) == 0 or (len(entries) == 1 and not entries.tobytes().strip(b"\0"))
