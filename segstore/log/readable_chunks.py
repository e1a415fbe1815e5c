"""Chunks of what can be read of some files, and what was left out between them.

It takes the place of `ChunkReader` where a reader goes on behind damage, and where a file is read
without a log around it. An index is a hint at most, and no length is believed that leads nowhere.
"""

from __future__ import annotations

from copy import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from segstore._core import (
    AbortedTransactions,
    BatchTable,
    ColumnDecoder,
    iterate_raw_records,
    scan_headers,
)
from segstore.errors import CorruptRecordError, ReadIOError, SegstoreError
from segstore.log.chunk_reader import CHUNK_BYTES, Chunk
from segstore.log.damage_errors import DAMAGE, readable_from
from segstore.log.findings.finding import FindingCode
from segstore.log.local.batch_search import NOT_WHOLE
from segstore.log.recovery.readable_batches import (
    first_offset_of,
    next_readable_offset,
    stretches_of,
)
from segstore.log.recovery.salvage_report import LostRange
from segstore.number_limits import MAX_LONG
from segstore.numpy_on_demand import np
from segstore.records.columns import MAX_BATCH_BYTES, MAX_BATCH_ROWS, decode_to_batches
from segstore.records.control_record import ControlRecordType, parse_control_key
from segstore.types import CONTROL_FLAG, CURRENT_MAGIC, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from typing import Self

    from segstore._core import CodecTable
    from segstore.log.files.checkpoints import LogState
    from segstore.log.local.file_bytes import FileBytes
    from segstore.log.local.missing_records import MissingRecords

_NEVER_FOUND: Final = "these offsets had been given out, and no file holds their records"
_ELSEWHERE: Final = "{} has records there, but a later segment begins before them"
_ENDS_WITHIN: Final = "the file ends inside a batch: it was cut, or a write was interrupted"
_UNDECIDED: Final = "the end marker of their transaction may be in what is damaged or missing"


class ReadableChunks:
    """Whole batches of offsets ``[start_offset, end_offset)``, also those behind damage.

    Parameters
    ----------
    files : sequence of FileBytes
        In the order of their offsets.
    codecs : CodecTable
        A batch that no reader can decode is left out too.
    start_offset, end_offset : int
        The range; an end of 2^63-1 = the last whole batch.
    state : LogState or None
        From where on the log has no gap, where that is known.
    raises : bool
        Raise what is found instead of leaving it out.
    require_as_it_was : callable or None
        Called with the offset that was reached before a chunk is handed out; raises when the log
        was cut since the range was taken.
    known_end : int
        Offsets below it had been given out, as a checkpoint says; where the batches end before it,
        the others are left out.
    stands_alone : bool
        No log is around the files: that the last one ends inside a batch, and that one reaches
        over the beginning of the next, is told too.
    undecided : sequence of LostRange
        For `skipped`: transactions that are left out by who decodes the chunks. Only what of them
        lies in the range is noted.
    missing : sequence of MissingRecords
        What is proven to be missing between the files, whatever *state* says.

    Attributes
    ----------
    has_index : bool
        False: a part is looked for from the beginning of its file.
    skipped : list of LostRange
        What the last pass has left out so far, in its order; before it, what of *undecided* lies
        in the range.
    """

    has_index = False

    def __init__(  # noqa: PLR0913 - the parts of a range
        self,
        files: Sequence[FileBytes],
        codecs: CodecTable,
        *,
        start_offset: int,
        end_offset: int,
        state: LogState | None = None,
        raises: bool = False,
        require_as_it_was: Callable[[int], object] | None = None,
        known_end: int = 0,
        stands_alone: bool = False,
        undecided: Sequence[LostRange] = (),
        missing: Sequence[MissingRecords] = (),
    ) -> None:
        self._files = files
        self._codecs = codecs
        self._start_offset = start_offset
        self._end_offset = end_offset
        self._state = state
        self._raises = raises
        self._require_as_it_was = require_as_it_was
        self._known_end = known_end
        self._stands_alone = stands_alone
        self._undecided = [clipped for one in undecided if (clipped := self._clipped(one))]
        self.skipped: list[LostRange] = [*self._undecided]
        self._missing = missing

    def __iter__(self) -> Iterator[Chunk]:
        """Yield whole batches, each chunk of one file."""
        skipped = self.skipped = [*self._undecided]
        for file, rows in self._readable(skipped):
            ends = np.cumsum(rows["size"])
            first = 0
            while first < len(rows):
                before = int(ends[first - 1]) if first else 0
                behind = int(np.searchsorted(ends, before + CHUNK_BYTES, "right"))
                behind = max(behind, first + 1)
                position, size = int(rows["position"][first]), int(ends[behind - 1]) - before
                data = memoryview(file.read(position, size))
                table, _ = scan_headers(data)
                if self._require_as_it_was is not None:
                    reached = int(rows["last_offset"][behind - 1]) + 1
                    self._require_as_it_was(min(reached, self._end_offset))
                segment = cast("Any", file)
                yield from self._decodable(Chunk(data, table, segment, position), skipped)
                first = behind

    def headers_only(self) -> Iterator[Chunk]:
        """Yield the headers of the same batches, with their positions in the file."""
        for chunk in self:
            headers = chunk.headers.copy()
            headers["position"] += chunk.position
            yield Chunk(memoryview(b""), BatchTable(headers), chunk.segment, 0)

    def cuts(self, max_bytes: int) -> Iterator[int]:
        """Yield base offsets that split the range into parts of *max_bytes* bytes."""
        used = 0
        for chunk in self.headers_only():
            rows = zip(
                chunk.headers["base_offset"].tolist(),
                chunk.headers["size_bytes"].tolist(),
                strict=True,
            )
            for offset, size in rows:
                if used and used + size > max_bytes:
                    yield offset
                    used = 0
                used += size

    def part(
        self, start_offset: int, end_offset: int, chunk_bytes: int, start_timestamp: int
    ) -> Self:
        """Return what gives out a part of the range; its files are searched as for all of it."""
        del chunk_bytes, start_timestamp
        part = copy(self)
        part.narrow(start_offset, end_offset)
        return part

    def narrow(self, start_offset: int, end_offset: int) -> None:
        """Give out from now on only a part of the range."""
        self._start_offset, self._end_offset = start_offset, end_offset
        self._undecided = [clipped for one in self._undecided if (clipped := self._clipped(one))]
        self.skipped = [*self._undecided]

    def explain(self, error: SegstoreError, chunk: Chunk) -> None:
        """Name the file of an error about the bytes of *chunk*, and where the next batch begins."""
        error.locate(chunk.segment.path, chunk.position)
        if isinstance(error, DAMAGE) and not error.says_way_on:
            offset = chunk.offset_at(error.position)
            found = next_readable_offset(self._files, self._state, offset, self._codecs)
            readable_from(error, chunk.segment.path, offset, found)

    # ---- what can be read, and what not ----------------------------------------------------------

    def _readable(self, skipped: list[LostRange]) -> Iterator[tuple[FileBytes, np.ndarray]]:
        """Yield the batches of the range in stretches; note what lies between them."""
        reached = self._start_offset
        for file in self._files:
            if file.next_base_offset > reached:
                reached = yield from self._readable_in(file, reached, skipped)
            if reached >= self._end_offset:
                return

    def _readable_in(
        self, file: FileBytes, reached: int, skipped: list[LostRange]
    ) -> Generator[tuple[FileBytes, np.ndarray], None, int]:
        """Do the same for one file; returns the offset that is reached with it."""
        end, codecs, following = self._end_offset, self._codecs, file.next_base_offset
        pending: LostRange | None = None
        for stretch in stretches_of(file, self._state, reached):
            if stretch.lost is not None:
                pending = stretch.lost
                continue
            rows = stretch.rows[stretch.rows["last_offset"] >= reached]
            if len(rows):
                first = first_offset_of(file, rows[0], codecs)
                self._leave_out(file, pending, reached, min(first, end), skipped, next_offset=first)
                if first >= end:
                    return end
                reached = int(rows["last_offset"][-1]) + 1
                count = int(np.searchsorted(rows["base_offset"], end))
                if count < len(rows) and first_offset_of(file, rows[count], codecs) < end:
                    count += 1  # an old compressed one is known by its last offset
                yield file, rows[:count]
            pending = None
        if following == MAX_LONG:
            self._end_in(file, pending, reached, skipped)
            return reached
        unfit = pending is not None and pending.code is FindingCode.BATCH_OUT_OF_ORDER
        if pending is not None and unfit and self._stands_alone and reached >= following:
            overlap = pending._replace(
                first_offset=following,
                reason=_ELSEWHERE.format(file.name),
                code=FindingCode.SEGMENTS_OVERLAP,
            )
            self._note(file, overlap, skipped, following)
        self._leave_out(file, pending, reached, min(following, end), skipped, next_offset=following)
        return max(reached, following)

    def _end_in(
        self, file: FileBytes, pending: LostRange | None, reached: int, skipped: list[LostRange]
    ) -> None:
        """Note what ends the last file, but for a write that was not finished, and zeros."""
        if self._end_offset < MAX_LONG:
            self._leave_out(file, pending, reached, self._end_offset, skipped)
        elif reached < self._known_end:
            lost = pending or LostRange(
                file.name, file.size_bytes, 0, 0, None, _NEVER_FOUND, FindingCode.RECORDS_MISSING
            )
            self._leave_out(file, lost, reached, self._known_end, skipped)
        elif pending is not None and (
            pending.os_error is not None or not file.is_zero(pending.position, pending.size_bytes)
        ):
            lost = pending._replace(first_offset=reached)
            if pending.reason != NOT_WHOLE:
                self._note(file, lost, skipped, None)
            elif self._stands_alone:
                skipped.append(
                    lost._replace(reason=_ENDS_WITHIN, code=FindingCode.BATCH_INCOMPLETE)
                )

    def _leave_out(  # noqa: PLR0913 - a file, and a place in it
        self,
        file: FileBytes,
        lost: LostRange | None,
        first: int,
        behind: int,
        skipped: list[LostRange],
        *,
        next_offset: int | None = None,
    ) -> None:
        """Note that the records from *first* to below *behind* are left out, if there are any."""
        if lost is None:
            ranges = self._proven(first, behind)
        else:
            ranges = [lost._replace(first_offset=first, next_offset=behind)]
        for found in ranges:
            if found.next_offset is None or found.first_offset < found.next_offset:
                self._note(file, found, skipped, next_offset)

    def _proven(self, first: int, behind: int) -> list[LostRange]:
        """Return which offsets of a gap had records; compaction may have taken the others."""
        gapless_from = behind if self._state is None else self._state.contiguous_from
        ranges = [
            LostRange(
                "",
                0,
                0,
                max(first, one.first_offset),
                min(behind, one.next_offset, gapless_from),
                _ELSEWHERE.format(one.shown_by) if one.are_there else _NEVER_FOUND,
                FindingCode.SEGMENTS_OVERLAP if one.are_there else FindingCode.RECORDS_MISSING,
            )
            for one in self._missing
        ]
        missing = FindingCode.RECORDS_MISSING
        gap = LostRange("", 0, 0, max(first, gapless_from), behind, _NEVER_FOUND, missing)
        return [*ranges, gap]

    def _clipped(self, lost: LostRange) -> LostRange | None:
        """Return what of *lost* lies in the range; None without any."""
        first = max(lost.first_offset, self._start_offset)
        behind = self._end_offset
        if lost.next_offset is not None:
            behind = min(behind, lost.next_offset)
        return lost._replace(first_offset=first, next_offset=behind) if first < behind else None

    def _note(
        self, file: FileBytes, lost: LostRange, skipped: list[LostRange], next_offset: int | None
    ) -> None:
        if self._raises:
            error: SegstoreError = CorruptRecordError(
                lost.reason,
                file=file.path,
                position=lost.position,
                found="bytes that are no whole batch",
                expected=f"a batch from offset {lost.first_offset} on",
            )
            if lost.os_error is not None:
                error = ReadIOError(
                    lost.reason,
                    file=file.path,
                    position=lost.position,
                    os_error=lost.os_error,
                )
            raise readable_from(error, file.path, lost.first_offset, next_offset)
        skipped.append(lost)

    def _decodable(self, chunk: Chunk, skipped: list[LostRange]) -> Iterator[Chunk]:
        """Hand out the batches that can be decoded: a right checksum says nothing of that."""
        while len(chunk.table):
            decoder = ColumnDecoder(self._codecs, ("offset",), check_crc=False)
            try:
                for _ in decode_to_batches([chunk.data], decoder, MAX_BATCH_ROWS, MAX_BATCH_BYTES):
                    pass
            except DAMAGE as error:
                if self._raises:
                    yield chunk  # the records before come out, then the error
                    return
                row = chunk.row_at(error.position)
                before, bad, chunk = chunk.around(row)
                if row:
                    yield before
                skipped.append(self._undecodable(bad, error))
            else:
                yield chunk
                return

    def _undecodable(self, batch: Chunk, error: SegstoreError) -> LostRange:
        return LostRange(
            batch.segment.name,
            batch.position,
            batch.data.nbytes,
            max(int(batch.headers["base_offset"][0]), self._start_offset),
            min(int(batch.headers["last_offset"][0]) + 1, self._end_offset),
            error.message,
            FindingCode.RECORDS_CORRUPT,
        )


# ---- committed data ------------------------------------------------------------------------------


class Settled(NamedTuple):
    """What is known of the transactions of a damaged range."""

    aborted: AbortedTransactions
    """Those without records for a reader: aborted ones, and those of which nothing is known."""
    end_offset: int
    """The last stable offset."""
    undecided: list[LostRange]
    """The transactions whose end may be among what was left out."""


def settle_transactions(
    chunks: ReadableChunks,
    codecs: CodecTable,
    end_offset: int,
    open_before: Callable[[FileBytes], Mapping[int, int] | None] | None = None,
    open_at_start: Mapping[int, int] = MappingProxyType({}),
) -> Settled:
    """Decide each transaction by the next marker of its producer, unless something is missing.

    Records are left out whose transaction was open where the log is damaged: their marker may be
    what is lost. Records behind the damage are decided by the markers behind it. Nothing is read
    behind *end_offset* once all transactions are decided that begin before it.

    Parameters
    ----------
    chunks : ReadableChunks
        All up to the end of the log, from an offset on at which it is known what is open.
    end_offset : int
        Where visible data ends in any case, or is not asked for.
    open_before : callable or None
        For files between which offsets may be missing: {producer id: first offset} of the
        transactions that were open where a file begins; None where nothing says so.
    open_at_start : mapping of int to int
        The same of where *chunks* begin.
    """
    under_way = {producer: (first, first) for producer, first in open_at_start.items()}
    left_out: list[tuple[int, int, int]] = []
    undecided: list[LostRange] = []

    def give_up(goes_on: Mapping[int, int]) -> None:
        for producer_id, (first, last) in [*under_way.items()]:
            if goes_on.get(producer_id, MAX_LONG) <= last:
                continue
            del under_way[producer_id]
            left_out.append((producer_id, first, last))
            undecided.append(
                LostRange("", 0, 0, first, last + 1, _UNDECIDED, FindingCode.RECORDS_MAYBE_MISSING)
            )

    found = _with_losses(chunks, open_before)
    for chunk, goes_on in _until_decided(found, under_way, end_offset):
        if goes_on is not None:
            give_up(goes_on)
        if chunk is None:
            break
        headers = chunk.headers
        is_of_one = (headers["attributes"] & TRANSACTIONAL_FLAG != 0) & (
            headers["magic"] >= CURRENT_MAGIC
        )
        for row in headers[is_of_one]:
            producer_id, first = int(row["producer_id"]), int(row["base_offset"])
            if not row["attributes"] & CONTROL_FLAG:
                begin = under_way.get(producer_id, (first, first))[0]
                under_way[producer_id] = begin, int(row["last_offset"])
                continue
            position = int(row["position"])
            kind = _kind_of_marker(chunk.data[position : position + int(row["size_bytes"])], codecs)
            begun = under_way.pop(producer_id, None)
            if kind is ControlRecordType.ABORT and begun is not None:
                left_out.append((producer_id, begun[0], first))
    stable = min([end_offset, *(first for first, _ in under_way.values())])
    return Settled(AbortedTransactions(left_out), stable, undecided)


def _with_losses(
    chunks: ReadableChunks, open_before: Callable[[FileBytes], Mapping[int, int] | None] | None
) -> Iterator[tuple[Chunk | None, Mapping[int, int] | None]]:
    """Yield chunks, each with what goes on for certain if markers may be missing before it.

    The last one is None where they may be missing at the end.
    """
    known_losses = 0
    before: FileBytes | None = None
    reached = 0
    for chunk in chunks:
        file = cast("FileBytes", chunk.segment)
        goes_on: Mapping[int, int] | None = None
        if len(chunks.skipped) > known_losses:
            known_losses = len(chunks.skipped)
            goes_on = {}
        elif open_before is not None and before is not None and before is not file:
            goes_on = (open_before(file) or {}) if before.next_base_offset > reached else None
        yield chunk, goes_on
        before, reached = file, int(chunk.headers["last_offset"][-1]) + 1
    if len(chunks.skipped) > known_losses:
        yield None, {}


def _until_decided(
    found: Iterator[tuple[Chunk | None, Mapping[int, int] | None]],
    under_way: Mapping[int, tuple[int, int]],
    end_offset: int,
) -> Iterator[tuple[Chunk | None, Mapping[int, int] | None]]:
    """Yield chunks up to *end_offset*, and on while a transaction is open that began before it."""
    for chunk, goes_on in found:
        yield chunk, goes_on
        is_within = chunk is None or chunk.last_offset + 1 < end_offset
        if not is_within and all(first >= end_offset for first, _ in under_way.values()):
            return


def _kind_of_marker(batch: memoryview, codecs: CodecTable) -> ControlRecordType:
    for record in iterate_raw_records(batch, codecs):
        return parse_control_key(record.key).type
    return ControlRecordType.UNKNOWN  # compaction can leave a batch without its record
