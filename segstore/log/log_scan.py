"""A range of a log, read lazily: as records, tuples, batches or Arrow, chunk by chunk [DUR-79]."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from segstore._core import ArrowStream, ColumnDecoder, decode_tuples, iterate_records, scan_batches
from segstore.errors import CorruptLogError, IllegalArgumentError, SegstoreError
from segstore.log.arguments import integer
from segstore.records.columns import (
    KAFKA_COLUMNS,
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
    decode_to_batches,
    to_table,
)
from segstore.records.record_batch import RecordBatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segstore._core import (
        AbortedTransactions,
        ArrowBatch,
        BatchHeaders,
        CodecTable,
        FetchedBytes,
        Record,
    )
    from segstore.log.local_log import LocalLog
    from segstore.log.segment import Segment
    from segstore.types import LogOffsetMetadata, TopicPartition

CHUNK_BYTES: Final = 1024 * 1024
MIN_LONG: Final = -(2**63)
MAX_LONG: Final = 2**63 - 1
CONTROL_ATTRIBUTE: Final = 0x20


class Chunk(NamedTuple):
    """Whole batches of one segment, one behind the other."""

    data: memoryview
    headers: BatchHeaders
    segment: Segment
    position: int
    """Byte of the first batch in the segment."""

    @contextlib.contextmanager
    def naming_the_file(self) -> Iterator[None]:
        """Give file and position in it to an error about the bytes of this chunk."""
        try:
            yield
        except SegstoreError as error:
            raise _located(error, self.segment, self.position) from error.__cause__


class LogScan:
    """Offsets ``[start_offset, end_offset)`` of a log; reads nothing before it is asked for.

    It can be iterated any number of times, while the log is open, and gives the same range.
    What was appended after the scan was made is not in it.

    Attributes
    ----------
    start_offset, end_offset : int
        The range.
    columns : tuple of str
        What the Arrow methods give; the names of Spark's Kafka source.
    """

    __slots__ = (
        "_aborted",
        "_bound",
        "_check_crcs",
        "_codecs",
        "_cuts_done",
        "_local_log",
        "_timestamps",
        "_topic_partition",
        "columns",
        "end_offset",
        "start_offset",
    )

    def __init__(  # noqa: PLR0913 - the parts of a query
        self,
        local_log: LocalLog,
        codecs: CodecTable,
        topic_partition: TopicPartition,
        *,
        start_offset: int,
        end_offset: int,
        bound: LogOffsetMetadata,
        cuts_done: int,
        aborted: AbortedTransactions | None = None,
        columns: Sequence[str] | None = None,
        start_timestamp: int | None = None,
        end_timestamp: int | None = None,
        check_crcs: bool = True,
    ) -> None:
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.columns = tuple(KAFKA_COLUMNS if columns is None else columns)
        self._local_log = local_log
        self._codecs = codecs
        self._topic_partition = topic_partition
        self._bound = bound
        self._aborted = aborted
        self._cuts_done = cuts_done
        self._timestamps = (
            MIN_LONG if start_timestamp is None else start_timestamp,
            MAX_LONG if end_timestamp is None else end_timestamp,
        )
        self._check_crcs = check_crcs
        self._decoder(
            columns if isinstance(columns, str) else None
        )  # a column that does not exist is an error here, not in the middle

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
        for chunk in self._chunks():
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
            with chunk.naming_the_file():
                if everything:
                    yield from records
                else:
                    yield from (one for one in records if low <= (one.timestamp or 0) < high)

    def tuples(self) -> list[tuple[int, int, bytes | None, bytes | None]]:
        """Return (offset, timestamp, key, value) of all records."""
        low, high = self._timestamps
        everything = low == MIN_LONG and high == MAX_LONG
        rows: list[tuple[int, int, bytes | None, bytes | None]] = []
        for chunk in self._chunks():
            more = self._decoded(chunk, chunk.data)
            rows += more if everything else [row for row in more if low <= row[1] < high]
        return rows

    def count(self) -> int:
        """Return the number of records; of whole batches the headers tell, once their CRC is right.

        With ``check_crcs=False`` a count that fits the offsets is trusted.
        """
        if self._timestamps != (MIN_LONG, MAX_LONG):
            return sum(batch.rows_count for batch in self._arrow_batches(("offset",)))
        total = 0
        for chunk in self._chunks():
            headers = chunk.headers
            if self._check_crcs:
                _, result = scan_batches(chunk.data, check_crc=True)
                if result.why is not None:
                    raise _located(result.why, chunk.segment, chunk.position)
            if self._aborted is not None:
                headers = headers[~self._aborted.contain(headers)]
            whole = (headers["base_offset"] >= self.start_offset) & (
                headers["last_offset"] < self.end_offset
            )
            whole &= (headers["records_count"] >= 0) & (headers["magic"] > 1)
            offsets_count = headers["last_offset"] - headers["base_offset"] + 1
            whole &= headers["records_count"] <= offsets_count  # more is damage [DUR-87]
            is_data = (headers["attributes"] & CONTROL_ATTRIBUTE) == 0
            total += int(headers["records_count"][whole & is_data].sum())
            for row in headers[~whole]:
                begin = int(row["position"])
                data = chunk.data[begin : begin + int(row["size_bytes"])]
                total += len(self._decoded(chunk, data, begin))
        return total

    def _decoded(
        self, chunk: Chunk, data: memoryview, begin: int = 0
    ) -> list[tuple[int, int, bytes | None, bytes | None]]:
        with chunk._replace(position=chunk.position + begin).naming_the_file():
            return decode_tuples(
                data,
                self._codecs,
                start_offset=self.start_offset,
                end_offset=self.end_offset,
                check_crc=self._check_crcs,
                aborted=self._aborted,
            )

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the batches that reach into the range, control batches too.

        Positions are the file's.
        """
        topic, partition = self._topic_partition
        for chunk in self._chunks():
            headers = chunk.headers.copy()
            headers["position"] += chunk.position
            for header, place in zip(headers, chunk.headers["position"], strict=True):
                data = chunk.data[int(place) : int(place) + int(header["size_bytes"])]
                yield RecordBatch(header, data, self._codecs, topic=topic, partition=partition)

    # ---- Arrow -----------------------------------------------------------------------------------

    def arrow_batches(
        self, rows: int = MAX_BATCH_ROWS, max_bytes: int = MAX_BATCH_BYTES
    ) -> Iterator[ArrowBatch]:
        """Yield Arrow batches of about *rows* rows or *max_bytes* bytes."""
        return self._arrow_batches(self.columns, rows, max_bytes)

    def _arrow_batches(
        self, columns: Sequence[str], rows: int = MAX_BATCH_ROWS, max_bytes: int = MAX_BATCH_BYTES
    ) -> Iterator[ArrowBatch]:
        current: Chunk | None = None

        def chunks_of_bytes() -> Iterator[memoryview]:
            nonlocal current
            for chunk in self._chunks():
                current = chunk
                yield chunk.data

        try:
            yield from decode_to_batches(chunks_of_bytes(), self._decoder(columns), rows, max_bytes)
        except SegstoreError as error:
            if current is not None:
                _located(error, current.segment, current.position)
            raise

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table``; needs pyarrow."""
        return to_table(self._stream())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the rows to any Arrow consumer: pandas, polars, DuckDB, pyarrow."""
        return self._stream().__arrow_c_stream__(requested_schema)

    def _stream(self) -> ArrowStream:
        return ArrowStream(self._decoder(), self.arrow_batches())

    def _decoder(self, columns: Sequence[str] | None = None) -> ColumnDecoder:
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
        )

    # ---- chunks ----------------------------------------------------------------------------------

    def _chunks(self) -> Iterator[Chunk]:
        """Yield whole batches of the range, as the log was when the scan was made [DUR-77]."""
        chunks = self._chunks_as_they_are()
        read_up_to = self.start_offset
        while read_up_to < self.end_offset:
            try:
                chunk = next(chunks, None)
            except SegstoreError:
                self._local_log.check_not_cut(self._cuts_done, self.end_offset)
                raise
            read_up_to = self.end_offset
            if chunk is not None:
                read_up_to = min(read_up_to, int(chunk.headers["last_offset"][-1]) + 1)
            self._local_log.check_not_cut(self._cuts_done, read_up_to)
            if chunk is not None:
                yield chunk

    def _chunks_as_they_are(self) -> Iterator[Chunk]:
        """Yield whole batches that reach into the range, segment by segment."""
        segments = self._local_log.segments
        segment = segments.floor_segment(self.start_offset)
        offset = self.start_offset
        while segment is not None and offset < self.end_offset:
            begin = self._first_offset_of_interest(segment, offset)
            if begin is not None:
                for chunk in self._chunks_of(segment, begin):
                    yield chunk
                    offset = int(chunk.headers["last_offset"][-1]) + 1
            following = segments.higher_segment(segment.base_offset)
            if following is not None:
                if begin is not None and offset < min(self.end_offset, following.base_offset):
                    self._local_log.check_no_gap(segment, following)
                offset = max(offset, following.base_offset)
            segment = following

    def _first_offset_of_interest(self, segment: Segment, offset: int) -> int | None:
        """Skip what is older than the range of timestamps, None for all of the segment."""
        low, _ = self._timestamps
        if low == MIN_LONG or segment.size_bytes == 0:
            return offset
        if segment.largest_record_timestamp() < low:
            return None
        max_position = self._local_log.max_position(segment, self._bound)
        first = max(offset, segment.base_offset)
        found = segment.find_offset_by_timestamp(low, first, max_position)
        return None if found is None else max(found.offset, offset)

    def _chunks_of(self, segment: Segment, offset: int) -> Iterator[Chunk]:
        bound = self._bound
        is_last = segment.base_offset == bound.segment_base_offset
        end_position = bound.relative_position_in_segment if is_last else segment.size_bytes
        if segment.base_offset > bound.segment_base_offset:
            return
        position = -1
        while offset < self.end_offset and position < end_position:
            fetched = segment.read(
                offset,
                CHUNK_BYTES,
                end_position,
                min_one_message=True,
                start_position=max(position, 0),
            )
            if fetched is None or fetched.size_bytes == 0:
                if position >= 0 and fetched is None:
                    raise _bad_end(segment, position, end_position)
                return
            if position >= 0 and fetched.position != position:
                raise _bad_end(segment, position, end_position)
            chunk = self._whole_batches(segment, fetched, offset)
            position = chunk.position + chunk.data.nbytes
            yield from self._within_range(chunk)
            offset = int(chunk.headers["last_offset"][-1]) + 1

    def _whole_batches(self, segment: Segment, fetched: FetchedBytes, offset: int) -> Chunk:
        """Check bounds and order of the batches that were read; the last may be cut."""
        headers, result = scan_batches(fetched, check_crc=False)
        if result.why is not None and result.batches_count == 0:
            raise _located(result.why, segment, fetched.position)
        if result.batches_count == 0:
            raise _bad_end(segment, fetched.position, fetched.position + fetched.size_bytes)
        last = headers["last_offset"]
        base = headers["base_offset"]
        if base[0] < segment.base_offset or last[0] < offset or (base[1:] <= last[:-1]).any():
            raise CorruptLogError(
                "the offsets of the batches do not ascend",
                file=segment.path,
                position=fetched.position,
            )
        data = memoryview(fetched)[: result.valid_bytes]
        return Chunk(data, headers, segment, fetched.position)

    def _within_range(self, chunk: Chunk) -> Iterator[Chunk]:
        """Leave out the batches behind the end of the range."""
        headers = chunk.headers
        within = int((headers["base_offset"] < self.end_offset).sum())
        if within == 0:
            return
        if within < len(headers):
            end = int(headers["position"][within])
            chunk = chunk._replace(data=chunk.data[:end], headers=headers[:within])
        yield chunk

    def __repr__(self) -> str:
        return f"LogScan({self._topic_partition}, offsets {self.start_offset} to {self.end_offset})"


def check_range(start: int | None, end: int | None, what: str) -> None:
    """Refuse a reversed range, and ends that are no integers."""
    for name, value in ((f"start_{what}", start), (f"end_{what}", end)):
        if value is not None:
            integer(name, value)
    if start is not None and end is not None and end < start:
        raise IllegalArgumentError(
            f"the {what} range from {start} to {end} is reversed",
            found=f"{start} to {end}",
            expected="start at or below end",
        )


def _bad_end(segment: Segment, position: int, end_position: int) -> CorruptLogError:
    return CorruptLogError(
        f"bytes {position} to {end_position} are no batches",
        file=segment.path,
        position=position,
        found="bytes that are no batch",
        expected="a batch",
    )


def _located(error: Exception, segment: Segment, start: int) -> Exception:
    """Give the file's path and the position in it to an error about a buffer."""
    if isinstance(error, SegstoreError) and error.file is None:
        error.file = segment.path
        if error.position is not None:
            error.position += start
    return error
