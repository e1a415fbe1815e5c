"""Records that stay in their segment until they are sent or read (Kafka ``FileRecords``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import SlicedRecords
from segstore.arguments import natural, refuse_pickle
from segstore.errors import IllegalArgumentError
from segstore.records.transferable_channel import TransferableRecords

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

    from segstore._core import Record
    from segstore.records.fetch_data_info import FetchDataInfo
    from segstore.records.record_batch import RecordBatch
    from segstore.records.transferable_channel import TransferableChannel


class FileRecords(SlicedRecords, TransferableRecords):
    """The bytes of one fetch, still in the file; `Log.slice` returns one.

    The bytes begin with the batch that holds the requested offset, and the last batch may be cut
    [SEG-21]. Keep the log open while you use them. Segments that retention deletes stay readable; a
    truncation below their end raises an error [DUR-77].

    Parameters
    ----------
    segment : LogSegment or None
        None: nothing is visible there.
    position, size_bytes : int
        The bytes, in the ``.log``.
    log : Log
        The log of the bytes.
    truncations_done : int
        How many truncations of the log were complete before the lookup.
    start_offset, end_offset : int
        The requested offset, and where visible data ended.
    aborted : AbortedTransactions or None
        Transactions that are left out when the bytes are read as records.
    fetch_offset_metadata : LogOffsetMetadata
        Base offset and position of the first batch [RD-6].
    first_entry_incomplete : bool
        True when not even the first batch is whole.

    Attributes
    ----------
    position : int
        First byte in the ``.log``.
    size_bytes : int
        Number of bytes, with those of a cut batch at the end (Kafka ``sizeInBytes``).
    """

    __slots__ = ()

    def slice(self, position: int, size: int) -> FileRecords:
        """Return a part of the records: *size* bytes from *position* on, or up to the end.

        Only a part that begins with a batch can be read as records.

        Raises
        ------
        IllegalArgumentError
            A negative argument, or a position after the end.

        Source: Kafka ``FileRecords.slice``.
        """
        start, length = natural("position", position), natural("size", size)
        if start > self.size_bytes:
            raise IllegalArgumentError(
                f"position {start} is after the end of {self.size_bytes} bytes",
                found=str(start),
                expected=f"0 to {self.size_bytes}",
            )
        place = self.position + start
        return FileRecords(
            self._segment,
            place,
            min(length, self.size_bytes - start),
            log=self._log,
            truncations_done=self._truncations_done,
            start_offset=self._start_offset,
            end_offset=self._end_offset,
            aborted=self._aborted,
            fetch_offset_metadata=self.fetch_offset_metadata._replace(
                relative_position_in_segment=place
            ),
            first_entry_incomplete=self.first_entry_incomplete,
        )

    def transfer_to(self, channel: TransferableChannel, position: int, count: int) -> int:
        """Send up to *count* bytes from *position* on in one step, without a copy where possible.

        The call raises `LogTruncatedError` when the log is truncated before or during the transfer.
        """
        if self._segment is None:
            return 0
        self._check_not_truncated()
        try:
            return channel.transfer_from(self._segment, self.position + position, count)
        finally:
            self._check_not_truncated()  # an error, too, may come from a cut

    def read(self) -> FetchDataInfo:
        """Read the bytes into memory, as `Log.read` does."""
        data = bytearray(self.size_bytes)
        if self._segment is not None:
            try:
                self._segment.read_into(data, self.position)
            finally:
                self._check_not_truncated()
        fetched: FetchDataInfo = self._log._reader.describe_slice(  # noqa: SLF001 - of the log that made it
            data,
            self.fetch_offset_metadata,
            start_offset=self._start_offset,
            end_offset=self._end_offset,
            first_entry_incomplete=self.first_entry_incomplete,
            aborted=self._aborted,
            has_file=self._segment is not None,
        )
        return fetched

    def _check_not_truncated(self) -> None:
        end = self.position + self.size_bytes
        base_offset = self.fetch_offset_metadata.segment_base_offset
        self._log._reader.check_slice_not_truncated(  # noqa: SLF001 - as above
            self._truncations_done, base_offset, end
        )

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the whole batches, from memory."""
        return self.read().batches()

    def __iter__(self) -> Iterator[Record]:
        """Yield the records as a `FetchDataInfo` does."""
        return iter(self.read())

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        refuse_pickle(
            "a slice of a log",
            "pass bytes(slice.read().records), or the path of the log and the offset",
        )

    def __repr__(self) -> str:
        end = self.position + self.size_bytes
        name = "nothing" if self._segment is None else f"bytes {self.position} to {end}"
        return f"FileRecords({name}, offset={self.fetch_offset_metadata.message_offset})"
