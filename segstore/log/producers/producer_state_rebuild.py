"""The producer state of a log that is opened or cut (Kafka ``UnifiedLog.rebuildProducerState``).

The newest snapshot within the log, and what the batches behind it say. Only batches with a producer
id are looked at, and of those only the headers; a marker's record is read.

Source: [PSM-70..PSM-74, SEG-42].
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from segstore._core import iterate_raw_records
from segstore.errors import DiskFullError, ResourceError
from segstore.log.local.transaction_index import TransactionIndex
from segstore.log.producers.producer_batch import producer_batches
from segstore.log.producers.producer_updates import ProducerUpdates
from segstore.types import AppendOrigin

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from segstore._core import BatchHeaders, CodecTable, Directory, RawRecord
    from segstore.log.local.segment import Segment
    from segstore.log.local.segments import Segments
    from segstore.log.local.transaction_index import AbortedTransaction
    from segstore.log.producers.producer_batch import ProducerBatch
    from segstore.log.producers.producer_state_manager import ProducerStateManager

_log = logging.getLogger(__name__)


def rebuild_producer_state(  # noqa: PLR0913 - what is read, and which part of it
    state: ProducerStateManager,
    segments: Segments,
    codecs: CodecTable,
    *,
    log_start_offset: int,
    last_offset: int,
    now_ms: int,
    from_clean_shutdown: bool,
    believes_empty_state: bool = True,
) -> None:
    """Bring *state* to *last_offset*, and write the snapshots that the next open starts from.

    Parameters
    ----------
    state : ProducerStateManager
        Its map end offset is *last_offset* at return.
    segments : Segments
        Of the log.
    log_start_offset, last_offset : int
        The log's range; the last one is exclusive.
    now_ms : int
        Wall clock: expired producers are not loaded.
    from_clean_shutdown : bool
        A log that was closed cleanly and has no snapshot has no producers: nothing is read.
    believes_empty_state : bool
        Kafka's: who was not known before a truncation wrote nothing that is left. But he may only
        have been forgotten, and a transaction of his be open again without its marker.

    Raises
    ------
    CorruptRecordError
        A batch on the way is damaged.
    """
    bases = segments.base_offsets[-2:]
    if state.latest_snapshot_offset is None and from_clean_shutdown:  # [PSM-71]
        for offset in (*bases, last_offset):
            state.update_map_end_offset(offset)
            _take_snapshot(state)
        return
    was_empty = state.is_empty and state.map_end_offset >= last_offset
    was_empty = was_empty and believes_empty_state  # [PSM-73]
    state.truncate_and_reload(log_start_offset, last_offset, now_ms)
    if last_offset > state.map_end_offset and not was_empty:
        for segment in segments.values(state.map_end_offset, last_offset):
            start = max(segment.base_offset, state.map_end_offset, log_start_offset)
            state.update_map_end_offset(start)
            if segment.base_offset in (*bases, last_offset):
                _take_snapshot(state)
            is_last = segment is segments.floor_segment(last_offset)
            _load_producers(state, segment, codecs, start, last_offset if is_last else None)
    state.update_map_end_offset(last_offset)
    _take_snapshot(state)


def rebuild_transaction_indexes(  # noqa: PLR0913 - what is read, and which part of it
    state: ProducerStateManager,
    segments: Segments,
    recovered: Sequence[Segment],
    codecs: CodecTable,
    directory: Directory,
    *,
    log_start_offset: int,
    now_ms: int,
    with_producers: Container[int],
) -> None:
    """Make the transaction index of each recovered segment anew [SEG-40, SEG-42, DUR-52].

    On the way *state* is brought to the end of the last one, and written down there.

    Parameters
    ----------
    recovered : sequence of Segment
        Ascending, the last ones of *segments*; every batch in them was checked.
    with_producers : container of int
        Base offsets of those that hold batches with a producer id; the others are not read again.
    """
    base_offset = recovered[0].base_offset
    rebuild_producer_state(
        state,
        segments,
        codecs,
        log_start_offset=log_start_offset,
        last_offset=base_offset,
        now_ms=now_ms,
        from_clean_shutdown=False,
    )
    for segment in recovered:
        # As a roll leaves it [ROL-1]: what is copied to remote storage has it with it [TIER-37].
        state.update_map_end_offset(max(state.map_end_offset, segment.base_offset))
        _take_snapshot(state)
        index = TransactionIndex(directory, segment.base_offset)
        index.delete_if_exists()
        index = TransactionIndex(directory, segment.base_offset)
        if segment.base_offset not in with_producers:
            state.update_map_end_offset(max(state.map_end_offset, segment.read_next_offset()[0]))
            continue
        for headers, _ in segment.scan_windows(check_crc=False):
            recover_producer_state(state, segment, headers, codecs, index.append)
        index.flush()
    _take_snapshot(state)


def recover_producer_state(
    state: ProducerStateManager,
    segment: Segment,
    headers: BatchHeaders,
    codecs: CodecTable,
    write_aborted: Callable[[AbortedTransaction], None] | None,
) -> None:
    """Take in batches of a segment that is being recovered, one by one [SEG-42].

    Parameters
    ----------
    headers : BatchHeaders
        Of the batches; a segment can be recovered in parts.
    write_aborted : callable or None
        Takes the aborted transactions.
    """
    for batch in producer_batches(headers):
        updates = ProducerUpdates(state, AppendOrigin.REPLICATION)
        updates.append(batch, records=control_records(segment, batch, codecs))
        updates.commit(write_aborted)
    current = headers["last_offset"][headers["magic"] > 1]
    if len(current):
        state.update_map_end_offset(int(current[-1]) + 1)


def control_records(
    segment: Segment, batch: ProducerBatch, codecs: CodecTable
) -> Iterator[RawRecord]:
    """Yield the records of a control batch in *segment*; nothing is read for data.

    A marker whose record compaction has removed yields none.
    """
    if not batch.is_control:
        return
    fetched = segment.read(
        batch.base_offset,
        batch.size_bytes,
        segment.size_bytes,
        min_one_message=True,
        start_position=batch.position,
    )
    if fetched is not None:
        yield from iterate_raw_records(fetched, codecs)


def _take_snapshot(state: ProducerStateManager) -> None:
    """Write a snapshot if the disk has room: never a gate for opening a log [DUR-22]."""
    try:
        state.take_snapshot()
    except (DiskFullError, ResourceError) as error:
        _log.warning("no producer snapshot at offset %d: %s", state.map_end_offset, error)


def _load_producers(
    state: ProducerStateManager,
    segment: Segment,
    codecs: CodecTable,
    start_offset: int,
    end_offset: int | None,
) -> None:
    """Take in the batches from *start_offset* on [PSM-72]; the transaction index stays as it is."""
    first = segment.translate_offset(start_offset)
    if first is None:
        return
    end = segment.size_bytes
    if end_offset is not None and (found := segment.translate_offset(end_offset)) is not None:
        end = found.position
    updates = ProducerUpdates(state, AppendOrigin.REPLICATION)
    windows = segment.scan_windows(start_position=first.position, end_position=end, check_crc=False)
    for headers, result in windows:
        for batch in producer_batches(headers):
            updates.append(batch, records=control_records(segment, batch, codecs))
        if result.why is not None:
            raise result.why.locate(segment.path)
    updates.commit()
