"""The index files of one segment against the batches of its ``.log`` [DUR-53, format.md 13].

Entries for offsets in the gap behind the segment are no damage of the index: they prove that
records are missing, and `segstore.log.check.gap_check` reports that. Behind the last segment they
show that records may be missing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from segstore.log.check.unreadable_file import UNREADABLE_ERRORS, unreadable_file
from segstore.log.files.partition_directory import MAX_INDEX_BYTES, file_name
from segstore.log.findings.finding import Action, Finding, FindingCode, Records
from segstore.log.local.missing_records import (
    INDEX_ENTRIES,
    index_entries,
    is_all_zero,
    named_behind,
    used_entries,
)
from segstore.numpy_on_demand import np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from segstore._core import Directory, ScanResult

    _Problem = tuple[int, str]
    """Number of the entry, and what is wrong."""


def index_findings(  # noqa: C901, PLR0913 - all that the verdict depends on
    directory: Directory,
    base_offset: int,
    rows: NDArray[np.void],
    scan: ScanResult,
    next_base_offset: int | None,
    end_offset: int | None,
    *,
    is_trimmed: bool,
    is_end_known: bool,
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
    end_offset : int or None
        Behind the good batch that ends the ``.log``; None where bytes that are none end it.
    is_trimmed : bool
        A broker believes that there is no room behind the last entry: the segment is sealed, or a
        broker's clean marker is there.
    is_end_known : bool
        The clean marker of the partition says where the log ends: no record was behind it.
    """
    is_sealed = next_base_offset is not None
    behind = None
    if not is_sealed and end_offset is not None and not is_end_known:
        end = max(end_offset, base_offset)
        size = directory.info(file_name(base_offset, "log")).size
        last = named_behind(directory, base_offset, end, size)
        behind = None if last is None else (end, last)
    for kind in INDEX_ENTRIES:
        name = file_name(base_offset, kind)
        if not directory.exists(name):
            if len(rows):  # without a batch there is nothing to list, and no open makes the file
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
            yield _finding(name, 0, f"{size} bytes", f"{MAX_INDEX_BYTES} at most")
            continue
        entries = index_entries(kind, data)
        used = used_entries(entries)
        if is_all_zero(used) and not (kind == "timeindex" and scan.max_timestamp == 0):
            used = used[:0]
        problem = _judge(kind, used, base_offset, rows, scan, next_base_offset)
        if problem is None and kind == "timeindex":
            problem = _judge_last_time(used, scan) if is_sealed and is_trimmed else None
        elif problem is None and behind is not None:  # damage before it hides it from the batches
            what = f"names offset {behind[1]}, the segment ends at {behind[0] - 1}"
            problem = len(used) - 1, what, behind[1]
        if problem is not None:
            yield _wrong_entry(name, entries.itemsize, problem, behind)
        elif is_trimmed and len(used) < len(entries):
            position = len(used) * entries.itemsize
            yield Finding(
                code=FindingCode.INDEX_PADDED,
                file=name,
                position=position,
                size_bytes=len(data) - position,
                found=f"{len(entries) - len(used)} entries without a batch after {len(used)}",
                action=Action.RECOVER,
                repaired=True,
            )
        elif len(data) % entries.itemsize:
            whole = len(entries) * entries.itemsize
            yield _finding(name, whole, f"{len(data)} bytes", f"a multiple of {entries.itemsize}")


def _judge(  # noqa: PLR0913 - an index, and what it is compared with
    kind: str,
    used: NDArray[np.void],
    base_offset: int,
    rows: NDArray[np.void],
    scan: ScanResult,
    next_base_offset: int | None,
) -> tuple[int, str, int | None] | None:
    """Return which entry is wrong, how, and its offset; None when none is."""
    judged, problem = used, _judge_order(kind, used, base_offset)
    if problem is None and next_base_offset is not None and scan.stop == "complete":
        offsets = used["relative_offset"].astype(np.int64) + base_offset
        judged = used[~((offsets >= scan.next_offset) & (offsets < next_base_offset))]
    judge = _judge_offsets if kind == "index" else _judge_times
    problem = problem or judge(judged, base_offset, rows, scan)
    if problem is None:
        return None
    number, found = problem
    at = judged["relative_offset"][number : number + 1].tolist()
    return number, found, base_offset + at[0] if at else None


def _finding(
    name: str, position: int, found: str, expected: str | None, offset: int | None = None
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


def _wrong_entry(
    name: str,
    entry_bytes: int,
    problem: tuple[int, str, int | None],
    behind: tuple[int, int] | None,
) -> Finding:
    """Return the finding; *behind* are offsets that the index names after the log end."""
    number, found, offset = problem
    wrong = _finding(name, number * entry_bytes, f"entry {number}: {found}", None, offset)
    if behind is None:
        return wrong
    return replace(wrong, records=Records.MAYBE_MISSING, lost=(behind,))


def _first(wrong: NDArray[np.bool_]) -> int | None:
    found = np.flatnonzero(wrong)
    return int(found[0]) if len(found) else None


def _judge_order(kind: str, entries: NDArray[np.void], base_offset: int) -> _Problem | None:
    """Offsets increase, and times; so entries for a gap behind the segment are the last ones."""
    offsets = entries["relative_offset"].astype(np.int64) + base_offset
    if kind == "index":
        falling = _first(np.diff(offsets) <= 0)
        if falling is None:
            return None
        number = falling + 1
        return number, f"offset {offsets[number]} follows {offsets[falling]}: offsets must increase"
    times = entries["timestamp"].astype(np.int64)
    falling = _first((np.diff(times) <= 0) | (np.diff(offsets) < 0))
    if falling is None:
        return None
    number = falling + 1
    return number, (
        f"time {times[number]} at offset {offsets[number]} follows time {times[falling]} at "
        f"{offsets[falling]}: both must increase"
    )


def _judge_offsets(
    entries: NDArray[np.void], base_offset: int, rows: NDArray[np.void], scan: ScanResult
) -> _Problem | None:
    """Every entry points at the start of a batch that begins at or below the entry's offset."""
    positions = entries["position"].astype(np.int64)
    offsets = entries["relative_offset"].astype(np.int64) + base_offset
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


def _judge_times(
    entries: NDArray[np.void], base_offset: int, rows: NDArray[np.void], scan: ScanResult
) -> _Problem | None:
    """Up to an entry's offset no batch is later than the entry says."""
    times = entries["timestamp"].astype(np.int64)
    offsets = entries["relative_offset"].astype(np.int64) + base_offset
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


def _judge_last_time(
    entries: NDArray[np.void], scan: ScanResult
) -> tuple[int, str, int | None] | None:
    """The last entry of a sealed segment has the largest timestamp: a broker takes it for that."""
    last = int(entries["timestamp"][-1]) if len(entries) else -1
    if scan.stop != "complete" or last >= scan.max_timestamp:
        return None
    return len(entries), f"is missing, and records have times up to {scan.max_timestamp}", None
