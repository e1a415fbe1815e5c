"""Whole batches of a range of a log, chunk by chunk, as the log was when the range was taken."""

from __future__ import annotations

import contextlib
from copy import copy
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from segstore._core import BatchTable, base_offset_of, scan_batches, scan_headers
from segstore.errors import (
    ClosedError,
    CorruptLogError,
    CorruptRecordError,
    ReadIOError,
    SegstoreError,
)
from segstore.log.damage_errors import DAMAGE, batch_behind_damage, explain, file_of
from segstore.log.files.recovery_advice import salvage_hint
from segstore.log.local.local_log import out_of_range
from segstore.log.split_offsets import Span, split_offsets
from segstore.number_limits import MIN_LONG
from segstore.numpy_on_demand import np
from segstore.types import CURRENT_MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self, TypeAlias

    from segstore._core import BatchHeaders, CodecTable, FetchedBytes
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment
    from segstore.log.local.segments import Segments
    from segstore.log.recovery.readable_batches import BatchPlace
    from segstore.log.recovery.salvage_report import LostRange
    from segstore.types import LogOffsetMetadata

    _ChunksOf: TypeAlias = Callable[[Segment, int, int | None], Iterator["Chunk"]]

CHUNK_BYTES: Final = 1024 * 1024
LEAST_CHUNK_BYTES: Final = 16 * 1024
"""Of a range with few records; less is hardly cheaper to read."""
_BASE_OFFSET_BYTES: Final = 8  # what a batch begins with
_LENGTH_END: Final = 12


class Chunk(NamedTuple):
    """Whole batches of one segment, one behind the other."""

    data: memoryview
    table: BatchTable
    segment: Segment
    position: int
    """Byte of the first batch in the segment."""

    @property
    def headers(self) -> BatchHeaders:
        """The headers of the batches."""
        return self.table.array

    @property
    def last_offset(self) -> int:
        """The last offset of the last batch."""
        return self.table.last_offset

    def before(self, row: int) -> Chunk:
        """Return the batches before one."""
        headers, end = self.headers, int(self.headers["position"][row])
        return self._replace(data=self.data[:end], table=BatchTable(headers[:row]))

    def row_at(self, position: int | None) -> int:
        """Return which of the batches a byte of the data is in."""
        return max(int(np.searchsorted(self.headers["position"], position or 0, "right")) - 1, 0)

    def offset_at(self, position: int | None) -> int:
        """Return the base offset of the batch that a byte of the segment is in."""
        return int(self.headers["base_offset"][self.row_at((position or 0) - self.position)])

    def around(self, row: int) -> tuple[Chunk, Chunk, Chunk]:
        """Return the batches before one, that one, and those behind it."""
        begin = int(self.headers["position"][row])
        ends = (begin, begin + int(self.headers["size_bytes"][row]), self.data.nbytes)
        parts, position = [], 0
        for rows, end in zip(np.split(self.headers, [row, row + 1]), ends, strict=True):
            headers = rows.copy()
            headers["position"] -= position
            data = self.data[position:end]
            parts.append(Chunk(data, BatchTable(headers), self.segment, self.position + position))
            position = end
        return parts[0], parts[1], parts[2]

    @contextlib.contextmanager
    def naming_the_file(self) -> Iterator[None]:
        """Give file and position in it to an error about the bytes of this chunk."""
        try:
            yield
        except SegstoreError as error:
            error.locate(self.segment.path, self.position)
            raise


class Chunks(Protocol):
    """Where a scan has its batches from; may be iterated any number of times."""

    @property
    def has_index(self) -> bool:
        """Whether a part is found without reading what is before it."""

    @property
    def skipped(self) -> Sequence[LostRange]:
        """What the last pass has left out."""

    def __iter__(self) -> Iterator[Chunk]:
        """Yield whole batches."""

    def headers_only(self) -> Iterator[Chunk]:
        """Yield their headers, with positions in the file."""

    def cuts(self, max_bytes: int) -> Iterator[int]:
        """Yield base offsets that split the range into parts of *max_bytes* bytes."""

    def part(
        self, start_offset: int, end_offset: int, chunk_bytes: int, start_timestamp: int
    ) -> Self:
        """Return where a part of the range has them from, as of the same moment.

        Parameters
        ----------
        chunk_bytes : int
            No larger chunks are wanted, but for a larger batch.
        start_timestamp : int
            Batches without such a timestamp or a later one need not come.
        """

    def explain(self, error: SegstoreError, chunk: Chunk) -> None:
        """Complete an error about the bytes of *chunk*: its file, and where a reader goes on."""


class ChunkReader:
    """Reads offsets ``[start_offset, end_offset)``; may be iterated any number of times.

    Parameters
    ----------
    local_log : LocalLog
        Read while others append to it, cut it or delete from it.
    codecs : CodecTable
        To name the offsets of old compressed batches behind damage.
    bound : LogOffsetMetadata
        The log end when the range was taken.
    truncations_done : int
        How often the log had been cut then.
    start_timestamp : int
        In ms: segments and batches before the first one with such a timestamp are left out, as far
        as the index tells; ``MIN_LONG`` for none.
    end_error : callable or None
        Returns why the range ends before what was asked for; raised behind its last chunk.
    take_over_replaced : callable
        See `nothing_replaced`.

    Attributes
    ----------
    has_index : bool
        True.
    skipped : tuple
        Empty: nothing is left out.
    """

    has_index = True
    skipped = ()

    __slots__ = (
        "_bound",
        "_chunk_bytes",
        "_codecs",
        "_end_error",
        "_end_offset",
        "_first_offset",
        "_local_log",
        "_replacements_count",
        "_start_offset",
        "_start_timestamp",
        "_take_over_replaced",
        "_truncations_done",
    )

    def __init__(  # noqa: PLR0913 - the parts of a range
        self,
        local_log: LocalLog,
        codecs: CodecTable,
        *,
        start_offset: int,
        end_offset: int,
        bound: LogOffsetMetadata,
        truncations_done: int,
        take_over_replaced: Callable[[], bool],
        start_timestamp: int = MIN_LONG,
        end_error: Callable[[], SegstoreError] | None = None,
    ) -> None:
        self._local_log = local_log
        self._codecs = codecs
        self._start_offset = start_offset
        # a log may begin below its first segment [TRU-4]; what is deleted later is gone [DUR-78]
        self._first_offset = max(start_offset, local_log.segments.first_segment.base_offset)
        self._end_offset = end_offset
        self._bound = bound
        self._truncations_done = truncations_done
        self._replacements_count = local_log.replacements_count
        self._take_over_replaced = take_over_replaced
        self._start_timestamp = start_timestamp
        self._end_error = end_error
        self._chunk_bytes = CHUNK_BYTES

    def __iter__(self) -> Iterator[Chunk]:
        """Yield whole batches of the range, as the log was when the scan was made [DUR-77]."""
        return self._unless_truncated(self._chunks_of)

    def headers_only(self) -> Iterator[Chunk]:
        """Yield the headers of the same batches, without data: records are not read.

        Positions are those in the segment.
        """
        return self._unless_truncated(self._headers_of)

    def _unless_truncated(self, chunks_of: _ChunksOf) -> Iterator[Chunk]:
        chunks = self._chunks_as_they_are(chunks_of, self._first_offset)
        read_up_to = self._start_offset
        while read_up_to < self._end_offset:
            try:
                chunk = next(chunks, None)
            except SegstoreError as error:
                self._local_log.check_not_changed(self._truncations_done, self._end_offset, error)
                if self._take_over_replaced():
                    first = max(read_up_to, self._first_offset)
                    chunks = self._chunks_as_they_are(chunks_of, first)
                    continue
                if isinstance(error, ClosedError):  # it names no log, and a scan may have several
                    path = self._local_log.directory.path
                    raise ClosedError("the log is closed", file=path) from error
                explain(error, self._local_log, read_up_to, self._codecs, may_begin_there=True)
                raise
            read_up_to = self._end_offset
            if chunk is not None:
                read_up_to = min(read_up_to, chunk.last_offset + 1)
            self._local_log.check_not_truncated(self._truncations_done, read_up_to)
            if chunk is not None:
                yield from self._of_the_lineage(chunk)
        if self._end_error is not None:
            raise self._end_error()

    def _of_the_lineage(self, chunk: Chunk) -> Iterator[Chunk]:
        """Hand out the batches before one of a lost branch, then raise [DUR-141]."""
        order, other = self._local_log.written_order, None
        if not order.has_all(chunk.table):
            other = order.first_of_other_epoch(chunk.headers, chunk.segment.path, chunk.position)
        if other is None:
            yield chunk
            return
        row, error = other
        if row:
            yield chunk.before(row)
        self._local_log.name_origin(error)
        raise error

    def explain(self, error: SegstoreError, chunk: Chunk) -> None:
        """Name the file of an error about the bytes of *chunk*, and where the next batch begins."""
        error.locate(chunk.segment.path, chunk.position)
        explain(error, self._local_log, chunk.offset_at(error.position), self._codecs)

    def part(
        self, start_offset: int, end_offset: int, chunk_bytes: int, start_timestamp: int
    ) -> Self:
        """Return a reader of a part of the range: what was known of the log holds for it too."""
        part = copy(self)
        part.narrow(start_offset, end_offset, chunk_bytes, start_timestamp)
        return part

    def narrow(
        self, start_offset: int, end_offset: int, chunk_bytes: int, start_timestamp: int
    ) -> None:
        """Read from now on only a part of the range."""
        self._chunk_bytes = min(self._chunk_bytes, chunk_bytes)
        self._start_timestamp = max(self._start_timestamp, start_timestamp)
        self._start_offset = start_offset
        self._first_offset = max(self._first_offset, start_offset)
        if end_offset < self._end_offset:
            self._end_offset, self._end_error = end_offset, None

    def cuts(self, max_bytes: int) -> Iterator[int]:
        """Yield base offsets that split the range into parts of *max_bytes* bytes."""
        return split_offsets(self._spans(), max_bytes)

    def _chunks_as_they_are(self, chunks_of: _ChunksOf, offset: int) -> Iterator[Chunk]:
        """Yield whole batches that reach into the range, from *offset* on, segment by segment."""
        local_log = self._local_log
        if self._replacements_count != local_log.replacements_count:
            self._replacements_count = local_log.replacements_count
            self._bound = local_log.replaced_bound(self._bound)
        segments = self._segments()
        segment = segments.floor_segment(offset)
        while segment is not None and offset < self._end_offset:
            begin = self._first_offset_of_interest(segment, offset)
            if begin is not None:
                for chunk in self._in_segment(segment, begin, chunks_of):
                    yield chunk
                    offset = chunk.last_offset + 1
            following = segments.higher_segment(segment.base_offset)
            if following is not None:
                if begin is not None and self._end_offset > offset != following.base_offset:
                    self._local_log.check_no_gap(segment, following)
                offset = max(offset, following.base_offset)
            segment = following

    def _in_segment(self, segment: Segment, offset: int, chunks_of: _ChunksOf) -> Iterator[Chunk]:
        """Yield the batches of *segment* from *offset* on, up to damage.

        Where the way to the first batch of the range leads through damage, or the disk does not
        give out all bytes of a chunk, the segment is searched for what can be read there.
        """
        end_position = self._end_position(segment)
        position: int | None = None
        while offset < self._end_offset and (position or 0) < end_position:
            try:
                for chunk in self._in_order(offset, chunks_of(segment, offset, position)):
                    yield chunk
                    offset = chunk.last_offset + 1
            except DAMAGE as error:
                if offset > self._first_offset and not isinstance(error, ReadIOError):
                    raise
                place = batch_behind_damage(self._local_log, segment, offset, self._codecs)
                if place is None or place.position >= end_position:
                    raise
            else:
                return
            for chunk in self._found(segment, place, headers_only=chunks_of == self._headers_of):
                yield from self._within_range(chunk)
            offset, position = place.next_offset, place.readable_to

    def _in_order(self, expected_offset: int, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Hand out the batches of one segment whose offsets follow each other."""
        for chunk in chunks:
            for part in self._as_written(chunk, expected_offset):
                yield from self._within_segment(part, expected_offset)
            expected_offset = chunk.last_offset + 1

    def _found(self, segment: Segment, place: BatchPlace, *, headers_only: bool) -> Iterator[Chunk]:
        """Yield the batches at *place*, up to where they can be read; no byte behind is read."""
        file = file_of(self._local_log, segment)
        position, end = place.position, place.readable_to
        while position < end:
            data = file.read(position, min(self._chunk_bytes, end - position))
            headers, result = scan_batches(data, check_crc=False)
            if not len(headers):  # one that is larger than a chunk
                data = file.read(position, _LENGTH_END + int.from_bytes(data[8:_LENGTH_END]))
                headers, result = scan_batches(data, check_crc=False)
            if not len(headers):
                raise _bad_end(segment, position, end)
            if headers_only:
                headers["position"] += position
                yield Chunk(memoryview(b""), BatchTable(headers), segment, 0)
            else:
                whole = memoryview(data)[: result.valid_bytes]
                yield Chunk(whole, BatchTable(headers), segment, position)
            position += result.valid_bytes

    def _segments(self) -> Segments:
        """Return the log's segments as they are now; those of the range may be gone [DUR-78]."""
        local_log = self._local_log
        segments, end = local_log.segments, local_log.log_end.message_offset
        first = segments.first_segment.base_offset
        if self._first_offset < first and self._start_offset < self._end_offset:
            raise out_of_range(self._start_offset, first, end, local_log.directory)
        return segments

    def _first_offset_of_interest(self, segment: Segment, offset: int) -> int | None:
        """Skip what is older than the range of timestamps, None for all of the segment."""
        low = self._start_timestamp
        if low == MIN_LONG or segment.size_bytes == 0:
            return offset
        max_position = self._local_log.max_position(segment, self._bound)
        first = max(offset, segment.base_offset)
        try:
            if segment.latest_possible_timestamp() < low:
                return None
            found = segment.find_offset_by_timestamp(low, first, max_position)
        except DAMAGE:
            return offset  # who reads on comes to the damage, or behind it
        return None if found is None else max(found.offset, offset)

    def _end_position(self, segment: Segment) -> int:
        """Byte of *segment* at which the visible batches end; 0 = it has none."""
        position = self._local_log.max_position(segment, self._bound)
        return max(0, min(position, segment.size_bytes))

    def _spans(self) -> Iterator[Span]:
        """Yield which bytes of each segment the range is in; headers are looked up, no more."""
        segments = self._segments()
        for segment in segments.values(self._start_offset, self._end_offset):
            first_offset = self._first_offset_of_interest(
                segment, max(self._start_offset, segment.base_offset)
            )
            if first_offset is None:
                continue
            begin, end, _ = self._bytes_of(segment, first_offset)
            if 0 <= begin < end:
                next_offset = self._local_log.end_of_segment(segment.base_offset)
                yield Span(segment, begin, end, first_offset, min(next_offset, self._end_offset))

    def _bytes_of(self, segment: Segment, offset: int) -> tuple[int, int, int]:
        """Return where the batches from *offset* to the end of the range begin and end.

        And where one behind them ends that shows where the range does. A begin of -1: there is
        none, but a gap at the segment's end, or bytes that are no batch.
        """
        end = self._end_position(segment)
        try:
            first = segment.translate_offset(max(offset, segment.base_offset), end)
        except DAMAGE:
            place = batch_behind_damage(self._local_log, segment, offset, self._codecs)
            if place is None:
                raise
            first = segment.translate_offset(offset, end, start_position=place.position)
        behind = end
        try:
            last = segment.translate_offset(max(self._end_offset - 1, segment.base_offset), end)
        except DAMAGE:
            last = None  # told by who comes there
        if last is not None:  # one that begins behind the range: that ends in a gap
            at, magic = (last.position, last.first_batch_size), last.first_batch_magic
            is_within = self._begins_within(segment, at, last.base_offset, magic)
            behind = last.position + last.first_batch_size
            end = behind if is_within else last.position
        return -1 if first is None else first.position, end, behind

    def _headers_of(self, segment: Segment, offset: int, position: int | None) -> Iterator[Chunk]:
        begin, _, stop_at = self._bytes_of(segment, offset)
        for window, result in segment.scan_windows(
            start_position=max(begin, 0) if position is None else position,
            end_position=stop_at,
            check_crc=False,
            check_order=True,
            expected_offset=segment.base_offset if position is None else offset,
        ):
            headers = window[int((window["last_offset"] < offset).sum()) :]
            if len(headers):
                found = Chunk(memoryview(b""), BatchTable(headers), segment, 0)
                yield from self._up_to_end(found, offset)
                offset = int(headers["last_offset"][-1]) + 1
            if result.valid_bytes < stop_at and result.stop != "limit":
                if result.stop == "order" and result.why is not None:
                    why = result.why.locate(segment.path)
                    raise _not_ascending(segment, why.position, why.found, why.expected) from why
                if result.why is not None:
                    raise result.why.locate(segment.path)
                raise _bad_end(segment, result.valid_bytes, stop_at)

    def _chunks_of(self, segment: Segment, offset: int, position: int | None) -> Iterator[Chunk]:
        end_position = self._end_position(segment)
        if self._local_log.is_fetched and position is None:
            _, _, end_position = self._bytes_of(segment, offset)
        while offset < self._end_offset and (position or 0) < end_position:
            fetched = _read(segment, offset, self._chunk_bytes, end_position, position or 0)
            if fetched is None or fetched.size_bytes == 0:
                if position is not None and fetched is None:
                    raise _bad_end(segment, position, end_position)
                return
            if position is not None and fetched.position != position:
                raise _bad_end(segment, position, end_position)
            first = segment.base_offset if position is None else offset
            chunk, disorder = self._whole_batches(segment, fetched, first, offset, end_position)
            if len(chunk.table):
                position = chunk.position + chunk.data.nbytes
                yield from self._up_to_end(chunk, offset)
                offset = chunk.last_offset + 1
            if disorder is not None and offset < self._end_offset:
                raise disorder

    def _whole_batches(
        self,
        segment: Segment,
        fetched: FetchedBytes,
        first_offset: int,
        offset: int,
        end_position: int,
    ) -> tuple[Chunk, CorruptLogError | None]:
        """Check bounds and order of the batches that were read; the last may be cut.

        Returns those that are in order, and what is wrong behind them [DUR-50]. Of two that are not
        nobody knows which one is: neither is handed out, wherever the chunk ends.
        """
        table, result = scan_headers(fetched)
        if result.why is not None and result.batches_count == 0:
            raise result.why.locate(segment.path, fetched.position)
        if result.batches_count == 0:
            raise _bad_end(segment, fetched.position, fetched.position + fetched.size_bytes)
        chunk = Chunk(memoryview(fetched)[: result.valid_bytes], table, segment, fetched.position)
        disorder = self._disorder(chunk, fetched, first_offset, offset, end_position)
        if disorder is None:
            return chunk, None
        row, found, expected = disorder
        place = int(chunk.headers["position"][row])
        error = _not_ascending(segment, fetched.position + place, found, expected)
        return chunk.before(row), error

    def _disorder(
        self,
        chunk: Chunk,
        fetched: FetchedBytes,
        first_offset: int,
        offset: int,
        end_position: int,
    ) -> tuple[int, str, str] | None:
        """Return the row before which the order is wrong, what was found and what was expected."""
        table = chunk.table
        if table.base_offset < first_offset or table.first_last_offset < offset:
            found = f"offsets {table.base_offset} to {table.first_last_offset}"
            return 0, found, f"offsets from {first_offset} on, to {offset} at least"
        wrong = None if table.is_without_gap else not_in_order(chunk.headers)
        if wrong is None:
            then = _lower_offset_behind(
                chunk.segment, fetched, chunk.data.nbytes, table.last_offset, end_position
            )
            if then is None:
                return None
            wrong = len(table) - 1, then
        row, then = wrong
        base, last = (chunk.headers[name][row] for name in ("base_offset", "last_offset"))
        return row, f"offsets {base} to {last}, and then {then}", "offsets that ascend"

    def _as_written(self, chunk: Chunk, expected_offset: int) -> Iterator[Chunk]:
        """Hand out the batches before one that leaves out offsets, then raise [DUR-50, DUR-79]."""
        written_order, table = self._local_log.written_order, chunk.table
        gap = None
        if not table.is_without_gap or table.base_offset > expected_offset:
            gap = written_order.first_gap(chunk.headers, expected_offset)
        if gap is None:
            yield chunk
            return
        row, missing = gap
        position, found = (int(chunk.headers[name][row]) for name in ("position", "base_offset"))
        if row:
            yield chunk.before(row)
        raise written_order.other_than_written(
            chunk.segment.path, chunk.position + position, found, missing
        )

    def _within_segment(self, chunk: Chunk, reached: int) -> Iterator[Chunk]:
        """Hand out the batches before one that reaches into the next segment, then raise [DUR-54].

        Where they, or those before *reached*, end at the next segment, it has the others too, as
        where files of another replica were copied over. The last batch of the range may be all
        there is: of others the following one is asked.
        """
        local_log = self._local_log
        end = local_log.end_of_segment(chunk.segment.base_offset)
        if chunk.table.is_without_gap and chunk.last_offset < end:
            yield chunk
            return
        last_offsets = chunk.headers["last_offset"]
        within = int((last_offsets < end).sum())
        if within == len(last_offsets):
            yield chunk
            return
        position = int(chunk.headers["position"][within])
        if within:
            yield chunk.before(within)
            reached = int(last_offsets[within - 1]) + 1
        if reached < end:
            place = chunk.position + position
            local_log.check_within(chunk.segment, int(last_offsets[within]), place)

    def _begins_within(
        self, segment: Segment, at: tuple[int, int], base_offset: int, magic: int
    ) -> bool:
        """Whether a batch begins before the end of the range.

        The header of an old compressed batch has its last offset, so the batch is opened. One that
        cannot be opened counts: the read of it raises the error. One that claims to lie beyond the
        end of the log does not count.

        Parameters
        ----------
        at : tuple of int
            Its position in the segment, and its size.
        """
        if base_offset < self._end_offset or magic >= CURRENT_MAGIC:
            return base_offset < self._end_offset
        try:
            data = self._local_log.directory.read_range(segment.name, *at)
            return base_offset_of(data, self._codecs) < self._end_offset
        except SegstoreError:
            end = self._local_log.end_of_segment(segment.base_offset)
            return base_offset < min(end, self._bound.message_offset)

    def _rows_within(self, chunk: Chunk) -> int:
        """Return how many of the batches begin before the end of the range."""
        if chunk.table.is_without_gap and chunk.last_offset < self._end_offset:
            return len(chunk.table)
        headers = chunk.headers
        count = int((headers["base_offset"] < self._end_offset).sum())
        if count < len(headers):
            row = headers[count]
            at = chunk.position + int(row["position"]), int(row["size_bytes"])
            base_offset, magic = int(row["base_offset"]), int(row["magic"])
            count += self._begins_within(chunk.segment, at, base_offset, magic)
        return count

    def _within_range(self, chunk: Chunk) -> Iterator[Chunk]:
        """Leave out the batches behind the end of the range."""
        within = self._rows_within(chunk)
        if within:
            yield chunk if within == len(chunk.table) else chunk.before(within)

    def _up_to_end(self, chunk: Chunk, reached: int) -> Iterator[Chunk]:
        """Do the same with batches that a look-up has found; *reached* is what it looked for.

        One beyond the end of its segment, or of the log, may hide batches of the range [DUR-79].
        Where every offset was written, one behind the range shows that those up to it are missing
        [DUR-50]. A segment that the cleaner made has batches that were appended after the scan was
        made.
        """
        yield from self._within_range(chunk)
        local_log = self._local_log
        within = self._rows_within(chunk)
        if within == len(chunk.table):
            return
        headers = chunk.headers
        reached = int(headers["last_offset"][within - 1]) + 1 if within else reached
        if reached >= self._end_offset or local_log.is_kafkas:
            return
        found, segment = int(headers["base_offset"][within]), chunk.segment
        log_end = local_log.log_end if segment.is_cleaned else self._bound
        end = min(local_log.end_of_segment(segment.base_offset), log_end.message_offset)
        position = chunk.position + int(headers["position"][within])
        if found >= end > reached:
            raise CorruptLogError(
                "the base offset of a batch is not what was written: it lies beyond the end;"
                f" {salvage_hint(segment.directory_path)}",
                file=segment.path,
                position=position,
                found=f"offset {found}",
                expected=f"an offset below {end}",
            )
        is_new = int(headers["magic"][within]) >= CURRENT_MAGIC
        if found > reached and is_new and local_log.written_order.is_contiguous_from(reached):
            raise local_log.written_order.other_than_written(segment.path, position, found, reached)


def _read(
    segment: Segment, offset: int, size: int, end_position: int, position: int
) -> FetchedBytes | None:
    """Read whole batches, one at least; of a size of 0 no byte, but what the first one is."""
    return segment.read(
        offset, size, end_position, min_one_message=size > 0, start_position=position
    )


def not_in_order(headers: BatchHeaders) -> tuple[int, int] | None:
    """Return the first batch that ends before it begins, or in which the next one begins.

    And the offset that shows it; None where the offsets ascend.
    """
    base, last = headers["base_offset"], headers["last_offset"]
    is_wrong = last < base
    is_wrong[:-1] |= base[1:] <= last[:-1]
    if not is_wrong.any():
        return None
    row = int(np.argmax(is_wrong))
    return row, int(base[row] if last[row] < base[row] else base[row + 1])


def _lower_offset_behind(
    segment: Segment, fetched: FetchedBytes, size: int, last_offset: int, end_position: int
) -> int | None:
    """Return the base offset of the batch behind the first *size* bytes that were fetched.

    None: it is above *last_offset*; the visible bytes end there, or cannot be read as a batch: that
    is told by who comes there. Nearly always the beginning of it was fetched too, and is believed
    where it is in order; else it is asked for.
    """
    position = fetched.position + size
    if position >= end_position:
        return None
    beginning = memoryview(fetched)[size : size + _BASE_OFFSET_BYTES]
    is_there = len(beginning) == _BASE_OFFSET_BYTES
    if is_there and int.from_bytes(beginning, "big", signed=True) > last_offset:
        return None
    try:
        behind = _read(segment, MIN_LONG, 0, end_position, position)
    except (CorruptRecordError, CorruptLogError):
        return None
    return None if behind is None or behind.base_offset > last_offset else behind.base_offset


def _not_ascending(
    segment: Segment, position: int | None, found: str | None, expected: str | None
) -> CorruptLogError:
    return CorruptLogError(
        f"the offsets of the batches do not ascend; {salvage_hint(segment.directory_path)}",
        file=segment.path,
        position=position,
        found=found,
        expected=expected,
    )


def _bad_end(segment: Segment, position: int, end_position: int) -> CorruptLogError:
    return CorruptLogError(
        f"bytes {position} to {end_position} are no batches;"
        f" {salvage_hint(segment.directory_path)}",
        file=segment.path,
        position=position,
        found="bytes that are no batch",
        expected="a batch",
    )
