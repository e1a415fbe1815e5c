"""What the readers of one log get from its part in remote storage.

Only what is no more here is asked for there: local files are the log's own, and cost no request.

Source: [TIER-2, TIER-65..TIER-69, DUR-141, DUR-144].
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, cast

from segstore._core import AbortedTransactions, BatchTable, scan_headers
from segstore.errors import CorruptLogError, SegstoreError
from segstore.log.chunk_reader import Chunk, not_in_order
from segstore.log.local.local_log import out_of_range
from segstore.log.remote_tier import only_in_remote_storage
from segstore.number_limits import MAX_LONG
from segstore.types import CURRENT_MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from segstore._core import BatchHeaders
    from segstore.log.local.segment import Segment
    from segstore.log.log_parts import LogParts
    from segstore.log.remote_tier import RemoteRead, RemoteTier


class RemoteBytes(NamedTuple):
    """Batches of a remote segment; it is to their chunk what the segment is to a local one."""

    path: str
    """What the storage calls it."""
    base_offset: int
    data: memoryview
    position: int
    """Of the data in the segment."""

    def read_into(self, buffer: bytearray, position: int) -> None:
        """Fill *buffer* with the bytes from *position* in the segment on."""
        begin = position - self.position
        buffer[:] = self.data[begin : begin + len(buffer)]


class RemoteReads:
    """Reads what a log has in remote storage alone; any number of threads may.

    Parameters
    ----------
    refresh : callable
        Looks for what another process has written, or deleted here, since.
    """

    def __init__(self, parts: LogParts, refresh: Callable[[], object]) -> None:
        self._refresh = refresh
        self._remote = parts.remote
        self._local_log = parts.local_log
        self._offsets = parts.offsets
        self._epochs = parts.loaded.epochs
        self._checkpoint_store = parts.checkpoint_store

    @property
    def are_possible(self) -> bool:
        """Whether there is a remote part, and something that reads there."""
        tier = self._remote.tier
        return tier is not None and tier.has_reader

    @property
    def local_start(self) -> int:
        """Below it nothing is here; it rises while the log is read."""
        return self._local_log.segments.first_segment.base_offset

    def hold(self, offset: int) -> bool:
        """Whether records at *offset* have to come from remote storage."""
        return self.are_possible and offset < self.local_start

    def took_over(self, offset: int) -> bool:
        """Whether records that could not be read here have gone to remote storage meanwhile."""
        if self.are_possible and not self.hold(offset):
            with suppress(SegstoreError):  # what failed here is raised
                self._refresh()
        return self.hold(offset)

    def read(
        self, offset: int, max_bytes: int, *, min_one_message: bool, is_committed: bool = False
    ) -> RemoteRead:
        """Read from remote storage, as `RemoteLogReader.read` does.

        Markers may go from here to there between the searches for aborted transactions: there
        first, then here. Such a read is done again.

        Raises
        ------
        OffsetOutOfRangeError
            *offset* is below the log start, or was cut off, or nothing there holds it.
        """
        if not is_committed:
            return self._read(offset, max_bytes, min_one_message, is_committed=False)
        while True:
            local_start = self.local_start
            found = self._read(offset, max_bytes, min_one_message, is_committed=True)
            if self.local_start == local_start:
                return found

    def _read(
        self,
        offset: int,
        max_bytes: int,
        min_one_message: bool,  # noqa: FBT001 - as the caller gave it
        *,
        is_committed: bool,
    ) -> RemoteRead:
        tier = self._tier_at(offset)
        try:
            return tier.read(
                self._checkpoint_store.topic_partition,
                offset,
                max_bytes,
                min_one_message=min_one_message,
                leader_epochs=self._epochs.entries,
                is_committed=is_committed,
                local_aborted_transactions=self._local_log.aborted_from,
            )
        except SegstoreError as error:
            self._raise_if_expired(offset, error)
            raise

    def chunk(self, offset: int, max_bytes: int, end_offset: int) -> Chunk | None:
        """Return the next batches from *offset* on that are in remote storage alone.

        None: there is none below *end_offset*, and below where the log begins here.

        Raises
        ------
        CorruptLogError
            What the storage gave are no batches, or they are not in order.
        """
        local_start = self.local_start
        found = self.read(offset, max_bytes, min_one_message=True)
        data = memoryview(found.records)
        if not data.nbytes:
            return None
        table, result = scan_headers(data)
        position = max(found.offset_metadata.relative_position_in_segment, 0)
        if result.batches_count == 0:
            if result.why is not None:
                raise result.why.locate(found.object_name, position)
            raise CorruptLogError(
                f"{data.nbytes} bytes of a remote segment hold no whole batch",
                file=found.object_name,
                position=position,
                found=f"{data.nbytes} bytes",
                expected="a batch",
            )
        data = data[: result.valid_bytes]
        base_offset = found.offset_metadata.segment_base_offset
        place = RemoteBytes(found.object_name, base_offset, data, position)
        chunk = Chunk(data, table, cast("Segment", place), position)
        _check_order(chunk, offset)
        if table.is_without_gap and table.last_offset < min(local_start, end_offset):
            return chunk
        count = _count_before(chunk.headers, local_start, end_offset)
        if count == 0:
            return None
        return chunk if count == len(table) else chunk.before(count)

    def first_of_time(self, timestamp: int, offset: int) -> int:
        """Return the offset of the first record of that time or a later one, from *offset* on.

        *offset* itself where remote storage does not say it.
        """
        found = self._tier_at(offset).search(
            self._checkpoint_store.topic_partition, timestamp, offset, self._epochs.entries
        )
        return offset if found is None else found.offset

    def aborted(
        self, offset: int, end_offset: int, here: Iterable[Sequence[int]]
    ) -> AbortedTransactions:
        """Return what was aborted of a range, as the remote transaction indexes say, and *here*.

        Parameters
        ----------
        here : iterable of sequence of int
            Producer id, first offset and marker of what is known here.
        """
        tier = self._tier_at(offset)
        try:
            there = [
                *tier.aborted_transactions(
                    self._checkpoint_store.topic_partition, offset, end_offset, self._epochs.entries
                )
            ]
        except SegstoreError as error:
            self._raise_if_expired(offset, error)
            raise
        first_offsets: dict[tuple[int, int], int] = {}
        for producer_id, first_offset, marker, *_ in (*there, *here):  # one may be known twice
            known = first_offsets.get((producer_id, marker), first_offset)
            first_offsets[producer_id, marker] = min(first_offset, known)
        return AbortedTransactions(
            (producer_id, first, marker) for (producer_id, marker), first in first_offsets.items()
        )

    def _tier_at(self, offset: int) -> RemoteTier:
        tier = self._remote.tier
        if offset < self._offsets.log_start_offset:
            raise self._out_of_range(offset)
        if tier is None:  # it was ended meanwhile
            start, end = self._offsets.log_start_offset, self._local_log.log_end.message_offset
            directory = self._local_log.directory
            raise only_in_remote_storage(offset, start, self.local_start, end, directory)
        return tier

    def _raise_if_expired(self, offset: int, error: SegstoreError) -> None:
        """Say so where what failed is no more the log's: its writer, if another, deleted it."""
        with suppress(SegstoreError):  # what failed there is raised
            self._refresh()
        if offset < self._offsets.log_start_offset:
            raise self._out_of_range(offset) from error

    def _out_of_range(self, offset: int) -> SegstoreError:
        local_log, log_start = self._local_log, self._offsets.log_start_offset
        end = local_log.log_end.message_offset
        return out_of_range(offset, log_start, end, local_log.directory)


def batches_below(found: RemoteRead, end_offset: int) -> bytes | memoryview:
    """Return what was read without the batches that begin at *end_offset* or behind it."""
    if found.end_offset <= end_offset:
        return found.records
    records = memoryview(found.records)
    table, result = scan_headers(records)
    if result.batches_count == 0 or table.last_offset < end_offset:
        return records
    headers = table.array
    count = _count_before(headers, MAX_LONG, end_offset)
    return records if count == len(headers) else records[: int(headers["position"][count])]


def _check_order(chunk: Chunk, offset: int) -> None:
    """Raise unless each batch begins behind the one before, and the first one reaches *offset*."""
    table = chunk.table
    row = None
    if table.first_last_offset < offset:
        row, found = 0, f"offsets {table.base_offset} to {table.first_last_offset}"
        expected = f"offsets to {offset} at least"
    elif not table.is_without_gap and (wrong := not_in_order(chunk.headers)) is not None:
        row, then = wrong
        found = f"offsets to {int(chunk.headers['last_offset'][row])}, and then {then}"
        expected = "offsets that ascend"
    if row is not None:
        raise CorruptLogError(
            "the batches of a remote segment are not in order",
            file=chunk.segment.path,
            position=chunk.position + int(chunk.headers["position"][row]),
            found=found,
            expected=expected,
        )


def _count_before(headers: BatchHeaders, local_start: int, end_offset: int) -> int:
    """Return how many of the batches lie below *local_start*, and begin below *end_offset*.

    The header of an old compressed batch has only its last offset. One of them that follows a batch
    that ends below *end_offset* counts: it may begin there.
    """
    last = headers["last_offset"]
    count = min(int((last < local_start).sum()), int((last < end_offset - 1).sum()) + 1)
    count = min(count, len(last))
    if count and int(headers["magic"][count - 1]) >= CURRENT_MAGIC:
        count -= int(headers["base_offset"][count - 1]) >= end_offset
    return count


def without_data(chunk: Chunk) -> Chunk:
    """Return the headers alone, with positions in the segment."""
    headers = chunk.headers.copy()
    headers["position"] += chunk.position
    return Chunk(memoryview(b""), BatchTable(headers), chunk.segment, 0)
