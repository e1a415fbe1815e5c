"""The entries of a transaction index against the batches that they name [TXX-1, DUR-7, DUR-53].

Without a checksum an entry can still be compared: its last offset is that of an ABORT marker of its
producer, what begins at its first offset is a transactional batch of the same one, and none of his
transactions ends between the two. That entries are missing does not show.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn

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
    from collections.abc import Collection, Iterable, Iterator, Mapping

    import numpy as np

    from segstore._core import CodecTable, FetchedBytes
    from segstore.log.local.segment import Segment
    from segstore.log.local.segments import Segments
    from segstore.log.local.transaction_index import AbortedTransaction

_ABORT, _COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT
_MARKER_FLAGS: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG


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
    checked: dict[int, tuple[int, AbortedTransaction]] = {}
    for number, entry in enumerate(entries):
        problem = _problem_of_offsets(entry, previous, end)
        if problem is None:
            problem = _problem_of_marker(entry, segment, codecs)
        if problem is None:
            problem = _problem_of_beginning(entry, segments)
        if problem is not None:
            _refuse(number, problem)
        previous = entry.last_offset
        checked[previous] = number, entry
    if checked:
        _check_beginnings(checked, segments, codecs)


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
    is_marker = int(row["attributes"]) & _MARKER_FLAGS == _MARKER_FLAGS
    if (
        is_marker
        and int(row["producer_id"]) == entry.producer_id
        and int(row["base_offset"]) <= entry.last_offset
        and all(kind is _ABORT for kind in _kinds_of(batch, codecs))
    ):
        return None
    return f"names offset {entry.last_offset}, where producer {entry.producer_id} aborted nothing"


def _problem_of_beginning(entry: AbortedTransaction, segments: Segments) -> str | None:
    segment = segments.floor_segment(entry.first_offset)
    found = None if segment is None else _batch_at(segment, entry.first_offset)
    if found is None or int(found[0]["base_offset"]) > entry.first_offset:
        return None  # deleted or compacted
    row, _ = found
    is_data = int(row["attributes"]) & _MARKER_FLAGS == TRANSACTIONAL_FLAG
    if is_data and int(row["producer_id"]) == entry.producer_id:
        return None
    return f"names offset {entry.first_offset}, where producer {entry.producer_id} began nothing"


def _check_beginnings(
    entries: Mapping[int, tuple[int, AbortedTransaction]], segments: Segments, codecs: CodecTable
) -> None:
    """Refuse an entry that begins before the end of an earlier transaction of its producer.

    Records that he has committed would be hidden. A beginning that was deleted can be compared with
    nothing else. The headers from the lowest beginning on are looked at once.
    """
    wanted = {entry.producer_id for _, entry in entries.values()}
    begin = min(entry.first_offset for _, entry in entries.values())
    ended: dict[int, int] = {}  # the last marker by producer id
    for segment, row in _markers_of(wanted, begin, max(entries), segments):
        producer_id, offset = int(row["producer_id"]), int(row["base_offset"])
        number, entry = entries.get(int(row["last_offset"]), (0, None))
        if entry is not None and ended.get(producer_id, -1) >= entry.first_offset:
            _refuse(
                number,
                f"begins at offset {entry.first_offset}, and producer {producer_id} ended a"
                f" transaction at {ended[producer_id]}, before its marker",
            )
        found = _batch_at(segment, offset)
        if found is not None and not {_ABORT, _COMMIT}.isdisjoint(_kinds_of(found[1], codecs)):
            ended[producer_id] = offset


def _markers_of(
    producer_ids: Collection[int], begin: int, last_offset: int, segments: Segments
) -> Iterator[tuple[Segment, np.void]]:
    """Yield headers of control batches; what lies behind damage in a segment is not looked at."""
    for segment in segments.values(begin, last_offset + 1):
        with suppress(CorruptRecordError, CorruptLogError):
            place = segment.translate_offset(max(begin, segment.base_offset))
            if place is None:
                continue
            for headers, _ in segment.scan_windows(start_position=place.position, check_crc=False):
                is_marker = (headers["attributes"] & _MARKER_FLAGS == _MARKER_FLAGS) & (
                    headers["magic"] > 1
                )
                for row in headers[is_marker & (headers["base_offset"] <= last_offset)]:
                    if int(row["producer_id"]) in producer_ids:
                        yield segment, row


def _kinds_of(batch: FetchedBytes, codecs: CodecTable) -> list[ControlRecordType]:
    """Return what its records end a transaction with; compaction may leave none."""
    try:
        return [parse_control_key(one.key).type for one in iterate_raw_records(batch, codecs)]
    except (CorruptRecordError, InvalidRecordError):
        return [ControlRecordType.UNKNOWN]


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
