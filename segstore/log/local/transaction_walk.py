"""Following the transactions of a log batch by batch, as far as its bytes can be believed.

What was walked is an immutable object, from which a later walk goes on. Headers come in tables that
memory has room for; the bytes of transactional and control batches are read in runs, and their
checksums are right before their bits decide anything.

Source: [TXX-*, PSM-16, PSM-17, DUR-79]; Kafka ``ProducerStateManager``.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from segstore._core import iterate_raw_records, scan_batches
from segstore.errors import CorruptLogError, SegstoreError
from segstore.records.control_record import ControlRecordType, parse_control_key
from segstore.types import BATCH_HEADER_BYTES, CONTROL_FLAG, CURRENT_MAGIC, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    from segstore._core import BatchHeaders, CodecTable
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment
    from segstore.log.local.segments import Segments
    from segstore.types import LogOffsetMetadata

RUN_BYTES: Final = 1024 * 1024
"""Of batches whose bytes are read at once; a larger batch is a run by itself."""
ENDING_ROWS: Final = 16
"""How many headers at the end of what was walked tell whether it is still the same."""
_MARKER_BYTES: Final = 1024
_LENGTH: Final = struct.Struct(">qi")
_MAGIC_POSITION: Final = 16


class Damage(NamedTuple):
    """Where a log stops being batches, or one of its batches what was written."""

    offset: int
    """Nothing is known of records from here on."""
    file: str
    position: int
    reason: str

    def error(self) -> CorruptLogError:
        """Return a new error that says so."""
        return CorruptLogError(
            f"what is committed behind offset {self.offset} cannot be told: {self.reason}",
            file=self.file,
            position=self.position,
            found="damaged batches",
            expected="the ends of transactions",
        )


class Ending(NamedTuple):
    """The last headers that were walked in a segment."""

    segment_base_offset: int
    headers: BatchHeaders

    def is_still_in(self, segment: Segment) -> bool:
        """Whether the same batches are there; another process may have cut them [DUR-77]."""
        last = self.headers[-1]
        end = int(last["position"]) + int(last["size_bytes"])
        if end > segment.size_bytes:
            return False
        found, _ = segment.scan(
            start_position=int(self.headers["position"][0]), end_position=end, check_crc=False
        )
        return found.tobytes() == self.headers.tobytes()


class Walked(NamedTuple):
    """Immutable: which transactions are known, and the place up to which they are."""

    next_offset: int
    segment_base_offset: int
    position: int
    under_way: dict[int, int]
    """First offset by producer id; never changed."""
    aborted: tuple[tuple[int, int, int], ...]
    """Producer id, first offset and marker, ascending by marker."""
    endings: tuple[Ending, ...] = ()
    """Of the last two segments with batches."""
    damage: Damage | None = None
    """Why the walk ended before the log does."""


class TransactionWalk:
    """One walk on from *known*, up to the log end as it was taken.

    Parameters
    ----------
    segments, end : Segments, LogOffsetMetadata
        The log, as it was at one moment.
    known : Walked
        Where to begin. Its segment is one of *segments*.
    """

    def __init__(
        self,
        local_log: LocalLog,
        codecs: CodecTable,
        segments: Segments,
        end: LogOffsetMetadata,
        known: Walked,
    ) -> None:
        self._local_log = local_log
        self._codecs = codecs
        self._segments = segments
        self._end = end
        self._known = known
        self._next_offset = known.next_offset
        self._segment_base_offset = known.segment_base_offset
        self._position = known.position
        self._under_way = dict(known.under_way)
        self._aborted: list[tuple[int, int, int]] = []
        self._endings = known.endings
        self._damage: Damage | None = None

    def walk(self) -> Walked:
        """Return what is known at the end, or at the first damage."""
        before = None
        for segment in self._segments.values(
            self._known.segment_base_offset, self._end.segment_base_offset + 1
        ):
            if before is not None:
                self._step_into(segment, before)
            if self._damage is None:
                self._walk_segment(segment)
            if self._damage is not None:
                break
            before = segment
        else:
            self._next_offset = self._end.message_offset
        return Walked(
            self._next_offset,
            self._segment_base_offset,
            self._position,
            self._under_way,
            self._known.aborted + tuple(self._aborted),
            self._endings,
            self._damage,
        )

    def _step_into(self, segment: Segment, before: Segment) -> None:
        """Go on at the beginning of *segment*, unless records are missing before it [DUR-79]."""
        if self._next_offset < segment.base_offset:
            try:
                self._local_log.check_no_gap(before, segment)
            except CorruptLogError as error:
                self._stop(before, self._position, error.message)
                return
        self._segment_base_offset, self._position = segment.base_offset, 0
        self._next_offset = max(self._next_offset, segment.base_offset)

    def _stop(self, segment: Segment, position: int, reason: str) -> None:
        self._damage = Damage(self._next_offset, segment.path, position, reason)

    def _walk_segment(self, segment: Segment) -> None:
        is_last = segment.base_offset == self._end.segment_base_offset
        end = self._end.relative_position_in_segment if is_last else segment.size_bytes
        if self._position >= end:
            return
        valid_bytes, stop = self._position, "complete"
        for headers, result in segment.scan_windows(
            start_position=self._position,
            end_position=end,
            check_crc=False,
            check_order=True,
            expected_offset=segment.base_offset,
        ):
            taken = self._take(segment, headers, end)
            self._note_walked(segment, headers[:taken])
            if self._damage is not None:
                return
            valid_bytes, stop = result.valid_bytes, result.stop
        if valid_bytes < end:
            if stop == "corrupt":
                self._take_marker_of_other_magic(segment, end)
            self._stop(segment, valid_bytes, f"bytes {valid_bytes} to {end} are no batches")

    def _note_walked(self, segment: Segment, headers: BatchHeaders) -> None:
        if not len(headers):
            return
        last = headers[-1]
        self._next_offset = int(last["last_offset"]) + 1
        self._position = int(last["position"]) + int(last["size_bytes"])
        if self._damage is not None:
            self._damage = self._damage._replace(offset=self._next_offset)
        ending = headers[-ENDING_ROWS:].copy()
        earlier = self._endings
        if earlier and earlier[-1].segment_base_offset == segment.base_offset:
            ending = np.concatenate((earlier[-1].headers, ending))[-ENDING_ROWS:]
            earlier = earlier[:-1]
        self._endings = (*earlier[-1:], Ending(segment.base_offset, ending))

    # ---- batches ---------------------------------------------------------------------------------

    def _take(self, segment: Segment, headers: BatchHeaders, end: int) -> int:
        """Follow the transactions of *headers*; returns how many of them are good."""
        wanted = (headers["attributes"] & (TRANSACTIONAL_FLAG | CONTROL_FLAG)) != 0
        wanted &= headers["magic"] > 1
        wanted &= headers["base_offset"] >= self._known.next_offset
        for first, behind in _runs(headers, np.flatnonzero(wanted)):
            position = int(headers["position"][first])
            size = int(headers["position"][behind - 1]) + int(headers["size_bytes"][behind - 1])
            size -= position
            data = memoryview(b"")
            fetched = segment.read(
                int(headers["base_offset"][first]),
                size,
                end,
                min_one_message=True,
                start_position=position,
            )
            if fetched is not None and fetched.position == position:
                data = memoryview(fetched)[:size]
            good, reason = self._take_run(data, behind - first)
            if good < behind - first:
                bad = first + good
                self._stop(segment, int(headers["position"][bad]), reason)
                return bad
        return len(headers)

    def _take_run(self, data: memoryview, count: int) -> tuple[int, str]:
        """Follow *count* batches; returns how many are good, and what is wrong with the next."""
        headers, result = scan_batches(data, check_crc=True)
        why = "the batch is cut" if result.why is None else result.why.message
        rows = (
            headers[name].tolist()
            for name in ("attributes", "producer_id", "base_offset", "position", "size_bytes")
        )
        for number, row in enumerate(zip(*rows, strict=True)):
            attributes, producer_id, offset, position, size = row
            if not attributes & TRANSACTIONAL_FLAG:
                continue
            if not attributes & CONTROL_FLAG:
                self._under_way.setdefault(producer_id, offset)
                continue
            try:
                kind = self._kind_of_marker(data[position : position + size])
            except SegstoreError as error:
                return number, error.message
            self._end_transaction(producer_id, offset, kind)
        return min(len(headers), count), why

    def _kind_of_marker(self, batch: Buffer) -> ControlRecordType:
        """Return what a control batch says; only its first record counts [6]."""
        for record in iterate_raw_records(batch, self._codecs):
            return parse_control_key(record.key).type
        return ControlRecordType.UNKNOWN  # compaction can leave a batch without its record

    def _end_transaction(self, producer_id: int, offset: int, kind: ControlRecordType) -> None:
        if kind not in {ControlRecordType.ABORT, ControlRecordType.COMMIT}:
            return
        first_offset = self._under_way.pop(producer_id, None)
        if kind is ControlRecordType.ABORT and first_offset is not None:
            self._aborted.append((producer_id, first_offset, offset))

    def _take_marker_of_other_magic(self, segment: Segment, end: int) -> None:
        """Let a marker count whose magic alone is damaged: the checksum of all behind it is right.

        The magic is not under the checksum. The batch stays damaged for every reader.
        """
        size = min(end - self._position, _MARKER_BYTES)
        try:
            name = segment.name
            data = bytearray(self._local_log.directory.read_range(name, self._position, size))
            if len(data) < BATCH_HEADER_BYTES:
                return
            offset, length = _LENGTH.unpack_from(data)
            data[_MAGIC_POSITION] = CURRENT_MAGIC
            batch = data[: max(_LENGTH.size + length, 0)]
            headers, _ = scan_batches(batch, check_crc=True)
            if len(headers) == 1 and offset == self._next_offset:
                attributes = int(headers["attributes"][0])
                if attributes & TRANSACTIONAL_FLAG and attributes & CONTROL_FLAG:
                    kind = self._kind_of_marker(batch)
                    self._end_transaction(int(headers["producer_id"][0]), offset, kind)
        except SegstoreError:
            return


def _runs(headers: BatchHeaders, wanted: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield (first, behind) of rows that lie one behind the other, in about `RUN_BYTES`."""
    if not len(wanted):
        return
    sizes = headers["size_bytes"].tolist()
    rows: list[int] = wanted.tolist()
    first, behind, size = rows[0], rows[0], 0
    for row in rows:
        if row != behind or (size > 0 and size + sizes[row] > RUN_BYTES):
            yield first, behind
            first, size = row, 0
        behind = row + 1
        size += sizes[row]
    yield first, behind
