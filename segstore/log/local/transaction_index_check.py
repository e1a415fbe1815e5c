"""The entries of a transaction index against the batches that they name [TXX-1, DUR-7, DUR-53].

Without a checksum an entry can still be compared: its last offset is that of an ABORT marker of its
producer, and what begins at its first offset is a transactional batch of the same one. That entries
are missing does not show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from segstore._core import iterate_raw_records, scan_batches
from segstore.errors import (
    CorruptIndexError,
    CorruptLogError,
    CorruptRecordError,
    InvalidRecordError,
)
from segstore.records.control_record import ControlRecordType, parse_control_key
from segstore.types import CONTROL_FLAG, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from segstore._core import CodecTable, FetchedBytes
    from segstore.log.local.segment import Segment
    from segstore.log.local.segments import Segments
    from segstore.log.local.transaction_index import AbortedTransaction


def check_entries(
    entries: Iterable[AbortedTransaction],
    base_offset: int,
    segments: Segments,
    log_end_offset: int,
    codecs: CodecTable,
) -> None:
    """Compare the entries of the segment at *base_offset* with the log.

    Raises
    ------
    CorruptIndexError
        One of them is not what the batches say.
    """
    segment = segments.get(base_offset)
    if segment is None:
        return
    following = segments.higher_segment(base_offset)
    end = log_end_offset if following is None else following.base_offset
    previous = base_offset - 1
    for number, entry in enumerate(entries):
        problem = _problem_of_offsets(entry, previous, end)
        if problem is None:
            problem = _problem_of_marker(entry, segment, codecs)
        if problem is None:
            problem = _problem_of_beginning(entry, segments)
        if problem is not None:
            _refuse(number, problem)
        previous = entry.last_offset


def _refuse(number: int, problem: str) -> NoReturn:
    raise CorruptIndexError(
        f"entry {number} {problem}", found=f"entry {number}", expected="what the batches say"
    )


def _problem_of_offsets(entry: AbortedTransaction, previous: int, end: int) -> str | None:
    if not previous < entry.last_offset < end:
        return f"ends at offset {entry.last_offset}, not between {previous} and {end}"
    if not 0 <= entry.first_offset <= entry.last_offset:
        return f"begins at offset {entry.first_offset} and ends at {entry.last_offset}"
    if not 0 <= entry.last_stable_offset <= entry.last_offset + 1:
        return f"has the last stable offset {entry.last_stable_offset}, behind its marker"
    return None


def _problem_of_marker(
    entry: AbortedTransaction, segment: Segment, codecs: CodecTable
) -> str | None:
    found = _batch_at(segment, entry.last_offset)
    if found is None:
        return f"names a marker at offset {entry.last_offset}, where no batch can be read"
    row, batch = found
    flags = TRANSACTIONAL_FLAG | CONTROL_FLAG
    is_marker = int(row["attributes"]) & flags == flags and int(row["producer_id"]) == (
        entry.producer_id
    )
    if is_marker and int(row["base_offset"]) <= entry.last_offset:
        try:
            kinds = [parse_control_key(one.key).type for one in iterate_raw_records(batch, codecs)]
        except (CorruptRecordError, InvalidRecordError):
            kinds = [ControlRecordType.UNKNOWN]
        if all(kind is ControlRecordType.ABORT for kind in kinds):  # compaction may leave none
            return None
    return f"names offset {entry.last_offset}, where producer {entry.producer_id} aborted nothing"


def _problem_of_beginning(entry: AbortedTransaction, segments: Segments) -> str | None:
    segment = segments.floor_segment(entry.first_offset)
    found = None if segment is None else _batch_at(segment, entry.first_offset)
    if found is None or int(found[0]["base_offset"]) > entry.first_offset:
        return None  # deleted or compacted
    row, _ = found
    is_data = int(row["attributes"]) & (TRANSACTIONAL_FLAG | CONTROL_FLAG) == TRANSACTIONAL_FLAG
    if is_data and int(row["producer_id"]) == entry.producer_id:
        return None
    return f"names offset {entry.first_offset}, where producer {entry.producer_id} began nothing"


def _batch_at(segment: Segment, offset: int) -> tuple[np.void, FetchedBytes] | None:
    """Return header and bytes of the first batch that reaches *offset*; None without a good one."""
    try:
        batch = segment.read(offset, 1, segment.size_bytes, min_one_message=True)
        if batch is None:
            return None
        headers, _ = scan_batches(batch, check_crc=True)
    except (CorruptRecordError, CorruptLogError):
        return None
    return (headers[0], batch) if len(headers) else None
