"""Records that stay in their segment until they are sent or read (Kafka ``FileRecords``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.errors import IllegalArgumentError
from segstore.log.arguments import natural
from segstore.records.transferable_channel import TransferableRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore._core import LogSegment, Record
    from segstore.records.fetch_data_info import FetchDataInfo
    from segstore.records.record_batch import RecordBatch
    from segstore.records.transferable_channel import TransferableChannel
    from segstore.types import LogOffsetMetadata


class FileRecords(TransferableRecords):
    """The bytes of one fetch, still in the file: made by ``UnifiedLog.slice``.

    They begin with the batch that holds the requested offset and may end in the middle of one
    [SEG-21]. The log must be open as long as they are used; segments that retention deletes
    meanwhile stay readable, a truncation below their end is noticed [DUR-77].

    Parameters
    ----------
    segment : LogSegment or None
        None: nothing is visible there.
    position, size_bytes : int
        The bytes, in the ``.log``.
    check_not_cut : callable
        Called with the end of the bytes in the ``.log``; raises when they were cut since.
    describe : callable
        Makes the `FetchDataInfo` of the bytes, when they are read, and their place.
    fetch_offset_metadata : LogOffsetMetadata
        Base offset and place of the first batch [RD-6].
    first_entry_incomplete : bool
        True when not even the first batch is whole.
    """

    __slots__ = (
        "_check_not_cut",
        "_describe",
        "_segment",
        "_size_bytes",
        "fetch_offset_metadata",
        "first_entry_incomplete",
        "position",
    )

    def __init__(  # noqa: PLR0913 - what a fetch found, each by its name
        self,
        segment: LogSegment | None,
        position: int,
        size_bytes: int,
        *,
        check_not_cut: Callable[[int], None],
        describe: Callable[[bytearray, LogOffsetMetadata], FetchDataInfo],
        fetch_offset_metadata: LogOffsetMetadata,
        first_entry_incomplete: bool = False,
    ) -> None:
        self._segment = segment
        self._size_bytes = size_bytes
        self._check_not_cut = check_not_cut
        self._describe = describe
        self.position = position
        self.fetch_offset_metadata = fetch_offset_metadata
        self.first_entry_incomplete = first_entry_incomplete

    @property
    def size_bytes(self) -> int:
        """Bytes, those of a cut batch at the end included (Kafka ``sizeInBytes``)."""
        return self._size_bytes

    def slice(self, position: int, size: int) -> FileRecords:
        """Return a part of the records: *size* bytes from *position* on, or up to the end.

        Only one that begins where a batch does can be read as records.

        Raises
        ------
        IllegalArgumentError
            A negative argument, or a position behind the end.

        Source: Kafka ``FileRecords.slice``.
        """
        start, length = natural("position", position), natural("size", size)
        if start > self._size_bytes:
            raise IllegalArgumentError(
                f"position {start} is behind the end of {self._size_bytes} bytes",
                found=str(start),
                expected=f"0 to {self._size_bytes}",
            )
        place = self.position + start
        return FileRecords(
            self._segment,
            place,
            min(length, self._size_bytes - start),
            check_not_cut=self._check_not_cut,
            describe=self._describe,
            fetch_offset_metadata=self.fetch_offset_metadata._replace(
                relative_position_in_segment=place
            ),
            first_entry_incomplete=self.first_entry_incomplete,
        )

    def transfer_to(self, channel: TransferableChannel, position: int, count: int) -> int:
        """Send up to *count* bytes from *position* on in one step, without a copy where possible.

        The log is asked before and behind: what was sent while it was truncated is no success.
        """
        if self._segment is None:
            return 0
        end = self.position + self._size_bytes
        self._check_not_cut(end)
        try:
            return channel.transfer_from(self._segment, self.position + position, count)
        finally:
            self._check_not_cut(end)  # an error, too, may come from a cut

    def read(self) -> FetchDataInfo:
        """Read the bytes into memory: the same as ``UnifiedLog.read`` had given."""
        data = bytearray(self._size_bytes)
        if self._segment is not None:
            try:
                self._segment.read_into(data, self.position)
            finally:
                self._check_not_cut(self.position + self._size_bytes)
        return self._describe(data, self.fetch_offset_metadata)

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the whole batches, from memory."""
        return self.read().batches()

    def __iter__(self) -> Iterator[Record]:
        """Yield the records as a `FetchDataInfo` does."""
        return iter(self.read())

    def __repr__(self) -> str:
        end = self.position + self._size_bytes
        name = "nothing" if self._segment is None else f"bytes {self.position} to {end}"
        return f"FileRecords({name}, offset={self.fetch_offset_metadata.message_offset})"
