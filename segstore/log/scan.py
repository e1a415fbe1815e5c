"""A range of a log, read lazily: as records, tuples, batches or Arrow, chunk by chunk [DUR-79]."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, overload

from segstore._core import ColumnDecoder, decode_tuples, iterate_records
from segstore.arguments import (
    flag,
    integer,
    isolation_of,
    names,
    natural,
    positive,
    refuse_pickle,
    timestamp,
)
from segstore.errors import IllegalArgumentError, OffsetOutOfRangeError, SegstoreError
from segstore.log.chunk_reader import CHUNK_BYTES
from segstore.log.header_count import count_in_headers
from segstore.notebook import FIRST_OFFSETS, as_html, first_records
from segstore.number_limits import MAX_LONG, MIN_LONG
from segstore.records.arrow_rows import ArrowRows, has_transactions
from segstore.records.columns import (
    KAFKA_COLUMNS,
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
    decode_to_batches,
)
from segstore.records.compression import codec_table
from segstore.records.record_batch import RecordBatch
from segstore.types import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime
    from typing import Literal, NoReturn, TypedDict, Unpack

    from segstore._core import (
        AbortedTransactions,
        ArrowBatch,
        BatchHeaders,
        CodecTable,
        OffsetMap,
        Record,
    )
    from segstore.log.chunk_reader import Chunk, Chunks
    from segstore.log.local.segment import Segment
    from segstore.log.record_dataset import RecordDataset
    from segstore.log.recovery.salvage_report import LostRange
    from segstore.types import IsolationName, TopicPartition

    class LogQueryOptions(TypedDict, total=False):
        """What a scan of a log takes of a user; `Log.scan` describes it."""

        start_offset: int | None
        end_offset: int | None
        columns: Sequence[str] | None
        start_timestamp: int | datetime | None
        end_timestamp: int | datetime | None
        isolation: Isolation | IsolationName
        check_crcs: bool
        on_damage: Literal["raise", "skip"]

    class _DecoderOptions(TypedDict, total=False):
        """What the passes over one range do not have in common; as for `ColumnDecoder`."""

        microseconds: bool
        last_offsets: OffsetMap
        notes_last_offsets: bool


_ON_DAMAGE: Final = ("raise", "skip")


class LogQuery(NamedTuple):
    """What a user asks of a log, checked as far as the log need not be asked."""

    start_offset: int | None
    end_offset: int | None
    columns: Sequence[str] | None
    start_timestamp: int | None
    end_timestamp: int | None
    isolation: Isolation
    check_crcs: bool
    skips_damage: bool

    @classmethod
    def of(  # noqa: PLR0913 - the parts of a query
        cls,
        start_offset: int | None = None,
        end_offset: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        start_timestamp: int | datetime | None = None,
        end_timestamp: int | datetime | None = None,
        isolation: Isolation | IsolationName = Isolation.LOG_END,
        check_crcs: bool = True,
        on_damage: Literal["raise", "skip"] = "raise",
    ) -> LogQuery:
        """Check the arguments of `Log.scan`, which describes them; the columns excepted."""
        flag("check_crcs", check_crcs)
        start = None if start_offset is None else integer("start_offset", start_offset)
        end = None if end_offset is None else integer("end_offset", end_offset)
        check_range(start, end, "offset")
        low, high = timestamp_bounds(start_timestamp, end_timestamp)
        skips = skips_damage(on_damage, check_crcs=check_crcs)
        return cls(start, end, columns, low, high, isolation_of(isolation), check_crcs, skips)


class LogScan(ArrowRows):
    """The records with offsets ``[start_offset, end_offset)`` of a log, read lazily.

    While the log is open you can iterate it any number of times; the range stays the same.
    Records appended after the scan was created are not in it.

    Attributes
    ----------
    start_offset, end_offset : int
        The range.
    columns : tuple of str
        Columns of the Arrow methods, with the names of Spark's Kafka source.
    """

    __slots__ = (
        "_aborted",
        "_check_crcs",
        "_chunks",
        "_codecs",
        "_owner",
        "_timestamps",
        "_topic_partition",
        "columns",
        "end_offset",
        "start_offset",
    )

    def __init__(  # noqa: PLR0913 - the parts of a query
        self,
        chunks: Chunks,
        codecs: CodecTable,
        topic_partition: TopicPartition,
        *,
        start_offset: int,
        end_offset: int,
        aborted: AbortedTransactions | None = None,
        columns: Sequence[str] | None = None,
        start_timestamp: int | None = None,
        end_timestamp: int | None = None,
        check_crcs: bool = True,
    ) -> None:
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.columns = tuple(KAFKA_COLUMNS) if columns is None else names("columns", columns)
        self._codecs = codecs
        self._topic_partition = topic_partition
        self._aborted = aborted
        self._timestamps = (
            MIN_LONG if start_timestamp is None else start_timestamp,
            MAX_LONG if end_timestamp is None else end_timestamp,
        )
        self._chunks = chunks
        self._check_crcs = check_crcs
        self._owner: object = None  # kept as long as the scan or a part of it
        # A column that does not exist is an error here, not in the middle.
        self._decoder(columns if isinstance(columns, str) else None)

    @property
    def skipped(self) -> tuple[LostRange, ...]:
        """What the last pass over the range has left out so far, in the order of the log.

        Empty unless ``on_damage="skip"`` was set. Each item has the file, position and size of the
        unreadable bytes, the offsets of their records, and the reason.
        """
        return tuple(self._chunks.skipped)

    # ---- records ---------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Record]:
        """Yield the records; control records are left out.

        Raises
        ------
        CorruptRecordError, CorruptLogError
            Where the log is damaged, after the records before it.
        LogTruncatedError
            Records of the range were cut off since the scan was made [DUR-77].
        """
        topic, partition = self._topic_partition
        low, high = self._timestamps
        everything = low == MIN_LONG and high == MAX_LONG
        high += high == MAX_LONG  # no bound: the largest time is within, as in columns
        for chunk in self._chunks:
            records = iterate_records(
                chunk.data,
                self._codecs,
                start_offset=self.start_offset,
                end_offset=self.end_offset,
                check_crc=self._check_crcs,
                topic=topic,
                partition=partition,
                aborted=self._aborted,
            )
            try:
                if everything:
                    yield from records
                else:
                    yield from (one for one in records if low <= (one.timestamp or 0) < high)
            except SegstoreError as error:
                self._chunks.explain(error, chunk)
                raise

    def __len__(self) -> int:
        """Return the number of records: gaps, markers and what is left out do not count.

        The headers of the batches say it, as in ``count(by_headers=True)``. `count` reads records.
        """
        return self.count(by_headers=True)

    def __bool__(self) -> bool:
        """Whether there is a record; the first one is looked for."""
        return any(self._counts(by_headers=True))

    @overload
    def __getitem__(self, key: int) -> Record: ...

    @overload
    def __getitem__(self, key: slice) -> LogScan: ...

    def __getitem__(self, key: int | slice) -> Record | LogScan:
        """Return the record at an offset, or a scan of a part of the range.

        Parameters
        ----------
        key : int or slice
            An offset; offsets are not counted from the end. A slice ``a:b`` is what the scan has of
            the offsets ``[a, b)``.

        Raises
        ------
        OffsetOutOfRangeError
            The scan has no record at that offset; the error names the next one. It is an
            `IndexError`.
        """
        if isinstance(key, slice):
            start, end = slice_bounds(key)
            first = self.start_offset if start is None else start
            return self._part(first, self.end_offset if end is None else end)
        offset = integer("an offset", key)
        if offset < 0:
            raise OffsetOutOfRangeError(
                "no record has a negative offset, and offsets are not counted from the end:"
                " log[log.log_end_offset - 1] is the last one, unless a marker is there",
                found=f"offset {offset}",
                expected="an offset of the log",
            )
        for record in self._part(offset, self.end_offset, chunk_bytes=1):  # a batch
            if record.offset == offset:
                return record
            raise self._no_record(offset, f"offset {record.offset}, the next one with a record")
        raise self._no_record(offset, "an offset with a record; none comes after it")

    __reversed__ = None  # by offsets from 0 to the number of records it would be wrong

    def _no_record(self, offset: int, expected: str) -> OffsetOutOfRangeError:
        return OffsetOutOfRangeError(
            f"no record of {self._topic_partition} has offset {offset} here",
            found=f"offset {offset}",
            expected=expected,
        )

    @property
    def _has_index(self) -> bool:
        """Whether a part is found without reading what is before it."""
        return self._chunks.has_index

    def _part(
        self,
        start_offset: int,
        end_offset: int,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        timestamps: tuple[int, int] = (MIN_LONG, MAX_LONG),
    ) -> LogScan:
        """Return what the scan has of a range, as of the moment of the scan."""
        start = min(max(start_offset, self.start_offset), max(self.start_offset, self.end_offset))
        end = max(start, min(end_offset, self.end_offset))
        low, high = max(self._timestamps[0], timestamps[0]), min(self._timestamps[1], timestamps[1])
        part = LogScan(
            self._chunks.part(start, end, chunk_bytes, low),
            self._codecs,
            self._topic_partition,
            start_offset=start,
            end_offset=end,
            aborted=self._aborted,
            columns=self.columns,
            start_timestamp=low,
            end_timestamp=high,
            check_crcs=self._check_crcs,
        )
        part._owner = self._owner
        return part

    def tuples(self) -> list[tuple[int, int, bytes | None, bytes | None]]:
        """Return (offset, timestamp, key, value) of all records, without headers."""
        low, high = self._timestamps
        everything = low == MIN_LONG and high == MAX_LONG
        high += high == MAX_LONG  # no bound: the largest time is within, as in columns
        rows: list[tuple[int, int, bytes | None, bytes | None]] = []
        for chunk in self._chunks:
            try:
                more = decode_tuples(
                    chunk.data,
                    self._codecs,
                    start_offset=self.start_offset,
                    end_offset=self.end_offset,
                    check_crc=self._check_crcs,
                    aborted=self._aborted,
                )
            except SegstoreError as error:
                self._chunks.explain(error, chunk)
                raise
            rows += more if everything else [row for row in more if low <= row[1] < high]
        return rows

    def count(self, *, by_headers: bool = False) -> int:
        """Return the number of records; by default the records themselves are counted.

        Parameters
        ----------
        by_headers : bool
            True: trust the batch headers, and do not check CRCs or the order of records in a batch.
            Records are read only if the range ends inside a batch with gaps, the header cannot be
            true, or the magic is 0 or 1. Gaps, markers, aborted transactions and compacted records
            are left out too. A range of timestamps is counted record by record. What is in remote
            storage alone is fetched as a whole: no index there says where each batch begins.
        """
        return sum(self._counts(by_headers=by_headers))

    def _counts(self, *, by_headers: bool) -> Iterator[int]:
        """Yield numbers of records, of one piece of the range after the other."""
        if not by_headers or self._timestamps != (MIN_LONG, MAX_LONG):
            for batch in self._arrow_batches(("offset",)):
                yield batch.rows_count
            return
        start, end = self.start_offset, self.end_offset
        for chunk in self._chunks.headers_only():
            yield count_in_headers(chunk, start, end, self._aborted, self._codecs)

    def headers(self) -> Iterator[tuple[Segment, BatchHeaders]]:
        """Yield the batch headers of the range, control batches too, without reading records.

        What is in remote storage alone is fetched as a whole.

        Yields
        ------
        segment, headers
            At most 131,072 rows of the batch-header table, all of one segment; ``position`` is a
            byte in its ``.log``.

        Raises
        ------
        CorruptLogError, LogTruncatedError
            As in iteration; checksums are not compared.
        """
        for chunk in self._chunks.headers_only():
            yield chunk.segment, chunk.headers

    def cuts(self, max_bytes: int) -> list[int]:
        """Return the offsets at which to cut the range into parts of *max_bytes* bytes.

        Each is the base offset of a batch; the first part begins with the range. The bytes are
        those of whole stored batches; a batch larger than *max_bytes* is a part of its own.

        Parameters
        ----------
        max_bytes : int
            At least 1.
        """
        return list(self._chunks.cuts(positive("max_bytes", max_bytes)))

    def _parts(self, max_bytes: int) -> Iterator[LogScan]:
        """Yield scans of the parts, one behind the other, to be read apart."""
        start = self.start_offset
        try:
            for cut in self._chunks.cuts(max_bytes):
                yield self._part(start, cut, chunk_bytes=max_bytes)
                start = cut
        except SegstoreError:  # the last part raises it, behind the records before the damage
            pass
        yield self._part(start, self.end_offset, chunk_bytes=max_bytes)

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the batches that overlap the range, control batches too.

        Positions are bytes in the file.
        """
        topic, partition = self._topic_partition
        for chunk in self._chunks:
            headers = chunk.headers.copy()
            headers["position"] += chunk.position
            for header, place in zip(headers, chunk.headers["position"], strict=True):
                data = chunk.data[int(place) : int(place) + int(header["size_bytes"])]
                yield RecordBatch(header, data, self._codecs, topic=topic, partition=partition)

    # ---- Arrow -----------------------------------------------------------------------------------

    def _arrow_batches(
        self,
        columns: Sequence[str],
        rows: int = MAX_BATCH_ROWS,
        max_bytes: int = MAX_BATCH_BYTES,
        *,
        first_rows: int | None = None,
        on_chunk: Callable[[Chunk], None] | None = None,
        **options: Unpack[_DecoderOptions],
    ) -> Iterator[ArrowBatch]:
        """Yield Arrow batches; *on_chunk* gets the stored batches before the rows of them come."""
        current: Chunk | None = None

        def chunks_of_bytes() -> Iterator[memoryview]:
            nonlocal current
            for chunk in self._chunks:
                current = chunk
                if on_chunk is not None:
                    on_chunk(chunk)
                yield chunk.data

        try:
            decoder = self._decoder(columns, **options)
            yield from decode_to_batches(chunks_of_bytes(), decoder, rows, max_bytes, first_rows)
        except SegstoreError as error:
            if current is not None:
                self._chunks.explain(error, current)
            raise

    def dataset(self) -> RecordDataset:
        """Return the rows as a dataset of pyarrow, as `Log.dataset`; the range stays the same."""
        from segstore.log.record_dataset import RecordDataset, RecordSource

        return RecordDataset(RecordSource(self.columns, lambda: [self]))

    def _has_undecided(self) -> bool:
        if self._aborted is not None:
            return False
        with suppress(SegstoreError):  # reading raises it, after the records before it
            return any(has_transactions(headers) for _, headers in self.headers())
        return False

    def _decoder(
        self, columns: Sequence[str] | None = None, **options: Unpack[_DecoderOptions]
    ) -> ColumnDecoder:
        low, high = self._timestamps
        topic, partition = self._topic_partition
        return ColumnDecoder(
            self._codecs,
            self.columns if columns is None else columns,
            check_crc=self._check_crcs,
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            start_timestamp=low,
            end_timestamp=high,
            topic=topic,
            partition=partition,
            aborted=self._aborted,
            **options,
        )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        refuse_pickle(
            f"a scan of {self._topic_partition}",
            "pass the path of the log and the offsets, and scan it there; to_arrow() and tuples() "
            "give rows that can be passed",
        )

    @as_html
    def _repr_html_(self) -> Iterator[tuple[str, object]]:
        yield "columns", ", ".join(self.columns)
        yield "first records", first_records(self._first(), self.columns)

    def _first(self) -> LogScan:
        """Return the part that a notebook looks into; it is read batch by batch."""
        end = min(self.start_offset + FIRST_OFFSETS, self.end_offset)
        return self._part(self.start_offset, end, chunk_bytes=1)

    def __repr__(self) -> str:
        return f"LogScan({self._topic_partition}, offsets {self.start_offset} to {self.end_offset})"


def checked_columns(columns: Sequence[str] | None) -> tuple[str, ...]:
    """Return a projection as it stands in scans; raises IllegalArgumentError."""
    found = tuple(KAFKA_COLUMNS) if columns is None else names("columns", columns)
    ColumnDecoder(codec_table(), columns if isinstance(columns, str) else found)
    return found


def timestamp_bounds(
    start: int | datetime | None, end: int | datetime | None
) -> tuple[int | None, int | None]:
    """Return both bounds in ms; a reversed range is refused."""
    low = None if start is None else timestamp("start_timestamp", start)
    high = None if end is None else timestamp("end_timestamp", end)
    check_range(low, high, "timestamp", f"from {start} to {end}")
    return low, high


def skips_damage(on_damage: str, *, check_crcs: bool) -> bool:
    """Whether a scan leaves out what is damaged; raises IllegalArgumentError."""
    if on_damage not in _ON_DAMAGE:
        raise IllegalArgumentError(
            "on_damage must be 'raise' or 'skip'", found=repr(on_damage), expected="raise or skip"
        )
    if on_damage == "skip" and not check_crcs:
        raise IllegalArgumentError(
            "on_damage='skip' finds damage by checksums: it needs check_crcs=True",
            found="check_crcs=False",
            expected="check_crcs=True",
        )
    return on_damage == "skip"


def slice_bounds(key: slice) -> tuple[int | None, int | None]:
    """Return the offsets of a slice, None where it has none.

    Raises
    ------
    ArgumentTypeError, IllegalArgumentError
        It has a step, a negative offset or something else, or is reversed.
    """
    if key.step is not None:
        raise IllegalArgumentError(
            "a slice of a log is a scan, which has no step: use log[a:b]",
            found=f"a step of {key.step!r}",
            expected="no step",
        )
    start = None if key.start is None else natural("the start of a slice", key.start)
    end = None if key.stop is None else natural("the end of a slice", key.stop)
    check_range(start, end, "offset")
    return start, end


def check_range(start: int | None, end: int | None, what: str, shown: str | None = None) -> None:
    """Refuse a reversed range, which is *shown* so, and ends that are no integers."""
    for name, value in ((f"start_{what}", start), (f"end_{what}", end)):
        if value is not None:
            integer(name, value)
    if start is not None and end is not None and end < start:
        raise IllegalArgumentError(
            f"the {what} range {shown or f'from {start} to {end}'} is reversed",
            found=f"{start} to {end}",
            expected="start at or below end",
        )
