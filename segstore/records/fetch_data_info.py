"""What a read returns: bytes of batches, and ways to look at them (Kafka ``FetchDataInfo``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from segstore._core import (
    ArrowStream,
    ColumnDecoder,
    FetchedRecords,
    iterate_records,
    scan_batches,
)
from segstore.arguments import refuse_pickle
from segstore.errors import SegstoreError
from segstore.number_limits import MAX_LONG
from segstore.records.arrow_rows import has_transactions, refuse_undecided
from segstore.records.columns import (
    KAFKA_COLUMNS,
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
    decode_to_batches,
    record_columns,
    to_table,
)
from segstore.records.compression import codec_table
from segstore.records.memory_records import batches_of
from segstore.records.transferable_channel import TransferableRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import NoReturn, Protocol

    from typing_extensions import Buffer

    from segstore._core import AbortedTransactions, BatchHeaders, CodecTable, Record
    from segstore.record_columns import RecordColumns
    from segstore.records.record_batch import RecordBatch
    from segstore.records.transferable_channel import TransferableChannel
    from segstore.types import LogOffsetMetadata

    class FetchCheck(Protocol):
        """What a fetch asks of the log that it is from."""

        @property
        def order(self) -> Callable[[FetchDataInfo], tuple[int, SegstoreError] | None]:
            """Says what is not in order."""

        def explain(self, error: SegstoreError, fetched: FetchDataInfo) -> None:
            """Let an error say where a reader goes on."""


__all__ = ["FetchDataInfo"]

Piece = TypeVar("Piece")


class FetchDataInfo(FetchedRecords, TransferableRecords):
    """The result of one read; it owns its bytes and stays usable after the log is closed.

    The bytes begin with the batch that holds the requested offset, so they may hold records below
    it. The last batch may be cut. Iteration leaves both out.

    Parameters
    ----------
    records : Buffer
        The bytes as they are in the log.
    fetch_offset_metadata : LogOffsetMetadata
        Base offset and position of the first batch [RD-6].
    start_offset : int or None
        The requested offset; None = that of *fetch_offset_metadata*.
    first_entry_incomplete : bool
        True when not even the first batch is whole.
    end_offset : int
        Records from it on are left out: the bound of the isolation at the time of the read, or the
        base offset of the next segment.
    aborted : AbortedTransactions or None
        Transactions whose records are left out, although the bytes hold them.
    aborted_below : int
        An offset after the bytes; transactions aborted from there on do not count.
    codecs, topic, partition, check_crcs
        How records are decoded, and the topic and partition that they have.
    file : str or None
        File that errors name, with a position in it; None: positions are in the bytes.
    check_order : FetchCheck or None
        Checks, before records are returned, that the batches are in the order in which they were
        written, which no CRC covers. Adds to an error where a reader can go on.
    """

    __slots__ = ()

    def __init__(  # noqa: PLR0913 - what a fetch knows, each by its name
        self,
        records: Buffer,
        fetch_offset_metadata: LogOffsetMetadata,
        *,
        start_offset: int | None = None,
        first_entry_incomplete: bool = False,
        end_offset: int = MAX_LONG,
        aborted: AbortedTransactions | None = None,
        aborted_below: int = MAX_LONG,
        codecs: CodecTable | None = None,
        topic: str = "",
        partition: int = -1,
        check_crcs: bool = True,
        file: str | None = None,
        check_order: FetchCheck | None = None,
    ) -> None:
        super().__init__(
            records,
            fetch_offset_metadata,
            start_offset=(
                fetch_offset_metadata.message_offset if start_offset is None else start_offset
            ),
            first_entry_incomplete=first_entry_incomplete,
            end_offset=end_offset,
            aborted=aborted,
            aborted_below=aborted_below,
            codecs=codec_table() if codecs is None else codecs,
            topic_partition=(topic, partition),
            check_crcs=check_crcs,
            file=file,
            check_order=check_order,
        )

    def transfer_to(self, channel: TransferableChannel, position: int, count: int) -> int:
        """Send up to *count* bytes from *position* on in one step; returns how many were sent."""
        return channel.write(self.records[position : position + count])

    @property
    def aborted_transactions(self) -> list[tuple[int, int]] | None:
        """Producer id and first offset of each aborted transaction in the bytes, by last offset.

        None unless the fetch was ``read_committed`` (Kafka ``FetchDataInfo.abortedTransactions``).
        Source: [LOC-9].
        """
        if self._aborted is None:
            return None
        return self._aborted.between(self.start_offset, self._aborted_below)

    @property
    def headers(self) -> BatchHeaders:
        """One row for each whole batch; positions count from 0, and CRCs are not compared."""
        if self._headers is None:
            self._headers, result = scan_batches(self.records, check_crc=False)
            if result.why is not None:
                raise self._located(result.why)
        return self._headers

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the whole batches."""
        return batches_of(
            self.headers, self.records, self._codecs, topic=self._topic, partition=self._partition
        )

    def __iter__(self) -> Iterator[Record]:
        """Yield the data records from the requested offset on, below ``end_offset``."""
        data, misplaced = self._in_order()
        records = iterate_records(
            data,
            self._codecs,
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            check_crc=self._check_crcs,
            topic=self._topic,
            partition=self._partition,
            aborted=self._aborted,
        )
        return self._naming_the_file(records, misplaced)

    def _naming_the_file(
        self, pieces: Iterator[Piece], misplaced: SegstoreError | None
    ) -> Iterator[Piece]:
        try:
            yield from pieces
        except SegstoreError as error:
            self._located(error)
            raise
        if misplaced is not None:
            raise self._located(misplaced)

    def _located(self, error: SegstoreError) -> SegstoreError:
        position = self.fetch_offset_metadata.relative_position_in_segment
        if self.file is not None:
            error.locate(self.file, position)
        if self._check_order is not None:
            self._check_order.explain(error, self)
        return error

    def _in_order(self) -> tuple[memoryview, SegstoreError | None]:
        """Return the bytes that may be shown, and what is to be told behind them."""
        misplaced = None if self._check_order is None else self._check_order.order(self)
        if misplaced is None:
            return self.records, None
        end, error = misplaced
        return self.records[:end], error

    def _stream(self, columns: Sequence[str] | None) -> ArrowStream:
        data, misplaced = self._in_order()
        decoder = ColumnDecoder(
            self._codecs,
            KAFKA_COLUMNS if columns is None else columns,
            check_crc=self._check_crcs,
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            topic=self._topic,
            partition=self._partition,
            aborted=self._aborted,
        )
        batches = decode_to_batches([data], decoder, MAX_BATCH_ROWS, MAX_BATCH_BYTES)
        return ArrowStream(decoder, self._naming_the_file(batches, misplaced))

    def to_arrow(self, columns: Sequence[str] | None = None) -> Any:
        """Return the records as a ``pyarrow.Table``; by default with the columns of a scan."""
        return to_table(self._stream(columns))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the records to any Arrow consumer: pandas, polars, DuckDB, pyarrow."""
        return self._stream(None).__arrow_c_stream__(requested_schema)

    def _columns_to_append(self, named: RecordColumns) -> ArrowStream:
        if self._aborted is None:
            headers, _ = scan_batches(self.records, check_crc=False)
            if has_transactions(headers):
                refuse_undecided("the fetch")
        return self._stream(record_columns(KAFKA_COLUMNS, named))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        refuse_pickle(
            "a fetch",
            "pass bytes(fetch.records), and read them as segstore.MemoryRecords",
        )

    def __repr__(self) -> str:
        return f"FetchDataInfo(offset={self.start_offset}, size_bytes={self.size_bytes})"
