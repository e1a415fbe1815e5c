"""What a reader of committed data sees: the last stable offset, and the transactions left out.

Computed when it is asked for, from ``.txnindex`` files, the newest producer snapshot that is known
to be on disk, and the control batches behind it.

Source: [TXX-*, PSM-*]; Kafka ``ProducerStateManager``, ``TransactionIndex``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import AbortedTransactions, iterate_raw_records
from segstore.log.partition_directory import file_name, segment_files
from segstore.log.producer_snapshot import open_transactions
from segstore.log.transaction_index import read_transaction_index
from segstore.records.control_record import ControlRecordType, parse_control_key

if TYPE_CHECKING:
    from segstore._core import CodecTable, Directory
    from segstore.log.local_log import LocalLog
    from segstore.log.segment import Segment

TRANSACTIONAL_ATTRIBUTE: Final = 0x10
CONTROL_ATTRIBUTE: Final = 0x20
MARKER_READ_BYTES: Final = 1024


class CommittedView(NamedTuple):
    """Immutable."""

    last_stable_offset: int
    """Everything below belongs to no transaction, or to one that is over."""
    aborted: AbortedTransactions
    state: tuple[object, ...]
    """What the log was like: a view holds as long as this does."""


def current_view(
    last: CommittedView | None,
    local_log: LocalLog,
    codecs: CodecTable,
    log_start_offset: int,
    flushed_offset: int,
) -> CommittedView:
    """Compute the view of the log as it is, or return the *last* one when nothing has changed.

    Parameters
    ----------
    flushed_offset : int
        Snapshots above it may be newer than the transaction index they belong to.
    """
    end, segments = local_log.log_end, local_log.segments
    state = (end, segments, log_start_offset, local_log.generation)
    if last is not None and last.state == state:
        return last
    directory, log_end_offset = local_log.directory, end.message_offset
    aborted: dict[tuple[int, int], int] = {}
    whole = True
    for segment in segments:
        entries = read_transaction_index(directory, segment.base_offset)
        whole = whole and entries is not None
        for producer_id, first_offset, last_offset in entries or ():
            aborted[producer_id, last_offset] = first_offset
    start, under_way = _newest_snapshot(directory, flushed_offset) if whole else (-1, {})
    ends = [*segments.base_offsets[1:], log_end_offset]
    for segment, following in zip(segments, ends, strict=True):
        if following > start:
            _walk(segment, codecs, start, log_end_offset, under_way, aborted)
    first_unstable = min(under_way.values(), default=log_end_offset)
    return CommittedView(
        max(first_unstable, log_start_offset),
        AbortedTransactions((producer, first, end) for (producer, end), first in aborted.items()),
        state,
    )


def _newest_snapshot(directory: Directory, flushed_offset: int) -> tuple[int, dict[int, int]]:
    """Return the offset of the newest good producer snapshot and the transactions open there."""
    offsets = sorted(
        file.offset
        for file in segment_files(directory.names())
        if file.kind == "snapshot" and not file.suffix and file.offset <= flushed_offset
    )
    for offset in reversed(offsets):
        found = open_transactions(directory.read_file(file_name(offset, "snapshot")))
        if found is not None:
            return offset, found
    return -1, {}


def _walk(  # noqa: PLR0913 - what is walked, and the two tables that the walk fills
    segment: Segment,
    codecs: CodecTable,
    start: int,
    end: int,
    under_way: dict[int, int],
    aborted: dict[tuple[int, int], int],
) -> None:
    """Follow the transactions of the batches in ``[start, end)``."""
    headers, _ = segment.scan(check_crc=False)
    wanted = (headers["attributes"] & TRANSACTIONAL_ATTRIBUTE) != 0
    wanted &= (headers["base_offset"] >= start) & (headers["base_offset"] < end)
    wanted &= headers["magic"] > 1
    for header in headers[wanted]:
        producer_id = int(header["producer_id"])
        offset = int(header["base_offset"])
        if not header["attributes"] & CONTROL_ATTRIBUTE:
            under_way.setdefault(producer_id, offset)
            continue
        kind = _marker(segment, codecs, offset, int(header["size_bytes"]))
        if kind is ControlRecordType.ABORT and producer_id in under_way:
            aborted.setdefault((producer_id, offset), under_way[producer_id])
        if kind in {ControlRecordType.ABORT, ControlRecordType.COMMIT}:
            under_way.pop(producer_id, None)


def _marker(segment: Segment, codecs: CodecTable, offset: int, size: int) -> ControlRecordType:
    """Return what the control batch at *offset* says; only its first record counts [6]."""
    fetched = segment.read(offset, size, segment.size_bytes, min_one_message=True)
    if fetched is None:
        return ControlRecordType.UNKNOWN
    for record in iterate_raw_records(fetched, codecs, check_crc=True):
        return parse_control_key(record.key).type
    return ControlRecordType.UNKNOWN  # compaction can leave a marker's batch without its record
