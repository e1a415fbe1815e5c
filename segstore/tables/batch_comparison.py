"""Whether a log has the stored batches that a file of an export knows, and the file its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segstore._core import batch_header_dtype, scan_headers
from segstore.number_limits import MIN_LONG
from segstore.numpy_on_demand import np
from segstore.tables.batch_table import FIELDS
from segstore.types import CODEC_MASK, CURRENT_MAGIC, NO_PARTITION_LEADER_EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from segstore._core import BatchHeaders
    from segstore.log.scan import LogScan
    from segstore.tables.batch_table import NotedBatches

_SEEN_IN_ROWS = {"size_bytes", "crc", "records_count"}
"""Fields that another codec changes, or that say how many rows a file has."""
_OF_RAW = ("base_offset", "last_offset", "magic", "size_bytes", "crc")


def first_other_batch(
    scan: LogScan, tables: Iterator[NotedBatches], *, ignores_codec: bool, is_source: bool
) -> int | None:
    """Return the offset of the first batch of a log that is not the file's; None = all are.

    Of a batch of which the file has a part, the log may have another part, or all.

    Parameters
    ----------
    scan : LogScan
        Of the log, within the range of the file; headers are read.
    tables : iterator of NotedBatches
        Of the file.
    ignores_codec : bool
        Whether the batches of the log may have another codec.
    is_source : bool
        Whether the file was written from this log. Then all CRCs are equal; in a restored log a
        codec may have compressed the same records to other bytes.
    """
    position = scan.start_offset
    for batches in tables:
        ends = batches.headers["last_offset"]
        first, behind = np.searchsorted(ends, [scan.start_offset, scan.end_offset]).tolist()
        if first == behind:
            continue
        noted, raw = batches.headers[first:behind], batches.raw[first:behind]
        end = int(ends[behind - 1]) + 1
        found = _headers_of(scan._part(position, end))  # noqa: SLF001 - as of the same moment
        is_whole = noted["crc"] != 0
        found = found[~_are_in_parts(found, noted, is_whole, position)]
        is_raw = np.array([one is not None for one in raw], bool)[is_whole]
        expected = noted[is_whole]
        difference = _first_difference(
            found, expected, is_raw, ignores_codec=ignores_codec, is_source=is_source
        )
        if difference is None:
            difference = _first_wrong_bytes(
                expected[is_raw], [raw[n] for n in np.flatnonzero(is_whole) if raw[n] is not None]
            )
        if difference is not None:
            return difference
        position = end
    rest = _headers_of(scan._part(position, scan.end_offset))  # noqa: SLF001 - as above
    return int(rest["base_offset"][0]) if len(rest) else None


def first_misplaced_row(
    offsets: Iterator[NDArray[np.int64]], tables: Iterator[NotedBatches]
) -> int | None:
    """Return the offset from which the rows of a file do not fit its batches; None = they fit.

    Each row is within a batch, and each batch has as many rows as its table says.

    Parameters
    ----------
    offsets : iterator of array of int64
        Of the rows, ascending; no array is empty.
    tables : iterator of NotedBatches
        Of the same file.
    """
    rows = np.empty(0, np.int64)
    for batches in tables:
        headers = batches.headers
        last_offset = int(headers["last_offset"][-1])
        pieces = [rows]
        while (not len(pieces[-1]) or pieces[-1][-1] <= last_offset) and (
            more := next(offsets, None)
        ) is not None:
            pieces.append(more)
        rows = np.concatenate(pieces)
        until = np.searchsorted(rows, headers["last_offset"], "right")
        counts = np.diff(until, prepend=0)
        is_wrong = counts != headers["records_count"]
        # an old compressed batch has no base offset in its header
        begins = np.where(headers["magic"] < CURRENT_MAGIC, MIN_LONG, headers["base_offset"])
        has_rows = counts > 0
        is_wrong[has_rows] |= rows[until[has_rows] - counts[has_rows]] < begins[has_rows]
        if is_wrong.any():
            return int(headers["base_offset"][np.argmax(is_wrong)])
        rows = rows[until[-1] :]
    if not len(rows):
        rows = next(offsets, rows)
    return int(rows[0]) if len(rows) else None


def _headers_of(scan: LogScan) -> BatchHeaders:
    if scan.start_offset >= scan.end_offset:
        return np.zeros(0, batch_header_dtype())
    found = [headers for _, headers in scan.headers()]
    return np.concatenate([np.zeros(0, batch_header_dtype()), *found])


def _are_in_parts(
    found: BatchHeaders, noted: BatchHeaders, is_whole: NDArray[np.bool_], position: int
) -> NDArray[np.bool_]:
    """Return which batches lie where the file has a part of a batch."""
    before = np.concatenate([[position - 1], noted["last_offset"][:-1]])
    found_before = np.concatenate([[position - 1], found["last_offset"][:-1]])
    are_in = np.zeros(len(found), bool)
    for row in np.flatnonzero(~is_whole).tolist():  # the first one, the last one
        are_in |= (found["last_offset"] > before[row]) & (found_before < noted["last_offset"][row])
    return are_in


def _first_difference(
    found: BatchHeaders,
    expected: BatchHeaders,
    is_raw: NDArray[np.bool_],
    *,
    ignores_codec: bool,
    is_source: bool,
) -> int | None:
    count = min(len(found), len(expected))
    left, right, is_raw = found[:count], expected[:count], is_raw[:count]
    is_other = np.zeros(count, bool)
    for field in {*FIELDS.values()} - _SEEN_IN_ROWS - {"attributes"}:
        is_same = left[field] == right[field]
        if field == "partition_leader_epoch" and not is_source:  # an import gives one
            is_same |= right[field] == NO_PARTITION_LEADER_EPOCH
        is_other |= ~is_same
    ignored = CODEC_MASK if ignores_codec else 0
    is_other |= (left["attributes"] ^ right["attributes"]) & ~ignored != 0
    is_other |= ~is_raw & (left["records_count"] != right["records_count"])
    is_other |= (is_raw | is_source) & (left["crc"] != right["crc"])
    if is_other.any():
        row = int(np.argmax(is_other))
        return int(min(left["base_offset"][row], right["base_offset"][row]))
    more = found[count:] if len(found) > count else expected[count:]
    return int(more["base_offset"][0]) if len(more) else None


def _first_wrong_bytes(expected: BatchHeaders, raw: list[Any]) -> int | None:
    """Return the base offset of the first batch whose stored bytes are of another one."""
    found = scan_headers(b"".join(raw), check_crc=True)[0].array
    count = min(len(found), len(expected))
    is_other = np.ones(max(len(found), len(expected)), bool)
    is_other[:count] = False
    for field in _OF_RAW:
        is_other[:count] |= found[field][:count] != expected[field][:count]
    if not is_other.any():
        return None
    return int((expected if len(expected) > count else found)["base_offset"][np.argmax(is_other)])
