"""Fetches whose bytes stay in the file, to be sent without a copy.

Source: [RD-1, RD-6, SEG-19..SEG-21, DUR-79].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.arguments import flag, integer, isolation_of, natural
from segstore.config import MAX_INT
from segstore.errors import SegstoreError
from segstore.log.file_records import FileRecords
from segstore.log.timestamp_reader import TimestampReader
from segstore.records.fetch_data_info import FetchDataInfo
from segstore.records.message_set_reader import MAX_CHUNK_BYTES, MessageSetReader
from segstore.records.message_set_receive import FETCH_MAX_BYTES
from segstore.types import Isolation

if TYPE_CHECKING:
    from segstore._core import AbortedTransactions, SegmentSlice
    from segstore.types import IsolationName, LogOffsetMetadata

_LOG_END: Final = Isolation.LOG_END


class SliceReader(TimestampReader):
    """What finds records and leaves them where they are."""

    def slice(
        self,
        offset: int,
        max_bytes: int,
        isolation: Isolation | IsolationName = Isolation.LOG_END,
        *,
        min_one_message: bool = True,
        check_crcs: bool = False,
    ) -> FileRecords:
        """Find what `read` would return and leave it in the file, to be sent as it is.

        Parameters
        ----------
        offset, max_bytes, isolation, min_one_message
            As in `read`, with Kafka's semantics of one fetch from one segment.
        check_crcs : bool
            Check all whole batches, their CRC too, before anything can go out; else only the
            headers on the way to the first batch are looked at, as in a fetch [DUR-79].

        Returns
        -------
        FileRecords
            ``write_to`` sends it to a socket, pipe or file without a copy through this process.

        Raises
        ------
        OffsetOutOfRangeError
            *offset* is below the log start or above the log end.
        CorruptRecordError
            With *check_crcs*: a batch is damaged.

        Source: Kafka ``UnifiedLog.read``, ``FileRecords.slice``.
        """
        if isolation is _LOG_END and check_crcs is False:
            found = self._slice_by_lane(offset, max_bytes, min_one_message)
            if found is not None:
                return found
        return self._slice(offset, max_bytes, isolation, min_one_message, check_crcs)

    def _slice(
        self,
        offset: int,
        max_bytes: int,
        isolation: Isolation | IsolationName,
        min_one_message: bool,  # noqa: FBT001 - as the caller gave it
        check_crcs: bool,  # noqa: FBT001
    ) -> FileRecords:
        self._require_open()
        offset, max_bytes = integer("offset", offset), natural("max_bytes", max_bytes)
        flag("min_one_message", min_one_message)
        flag("check_crcs", check_crcs)
        local_log = self._local_log
        cuts_done = local_log.cuts.done
        self._check_log_start_offset(offset)
        visible = self._visible(isolation, offset, min(max_bytes, MAX_INT))
        self._require_in_range(offset, self._first_offset_here)
        bound = visible.bound
        try:
            metadata, found = local_log.slice(
                offset, min(max_bytes, MAX_INT), bound, min_one_message=min_one_message
            )
            if found is not None and check_crcs:
                _check_batches(found)
        except SegstoreError as error:
            local_log.check_not_torn(cuts_done, bound.message_offset, error)
            raise
        if visible.damage is not None and offset >= bound.message_offset:
            raise visible.damage.error()
        aborted, _ = visible.aborted_of_fetch(
            local_log, offset, metadata, None if found is None else found.size_bytes
        )
        return FileRecords(
            None if found is None else found.segment,
            metadata.relative_position_in_segment,
            0 if found is None else found.size_bytes,
            log=self,
            cuts_done=cuts_done,
            start_offset=offset,
            end_offset=min(
                bound.message_offset, local_log.end_of_segment(metadata.segment_base_offset)
            ),
            aborted=aborted,
            fetch_offset_metadata=metadata,
            first_entry_incomplete=found is not None and found.first_entry_incomplete,
        )

    def _check_slice_not_cut(self, cuts_done: int, base_offset: int, end_position: int) -> None:
        """Raise when bytes of a slice were cut since it was made [DUR-77]; `FileRecords` asks."""
        self._local_log.cuts.check_place_not_cut(cuts_done, base_offset, end_position)

    def _describe_slice(  # noqa: PLR0913 - what a slice knows, each by its name
        self,
        data: bytearray,
        place: LogOffsetMetadata,
        *,
        start_offset: int,
        end_offset: int,
        first_entry_incomplete: bool,
        aborted: AbortedTransactions | None,
        has_file: bool,
    ) -> FetchDataInfo:
        """Return the bytes of a slice as `read` had given them; `FileRecords` asks."""
        topic, partition = self.topic_partition
        upper_bound_offset = 0  # of no interest without a list
        if aborted is not None:
            upper_bound_offset = self._local_log.upper_bound_of_fetch(place, len(data))
        return FetchDataInfo(
            data,
            place,
            start_offset=start_offset,
            first_entry_incomplete=first_entry_incomplete,
            end_offset=end_offset,
            aborted=aborted,
            aborted_below=upper_bound_offset,
            codecs=self._codecs,
            topic=topic,
            partition=partition,
            file=self._file_of(place) if has_file else None,
            check_order=self._local_log.written_order,
        )

    def message_set_reader(
        self,
        *,
        max_chunk_bytes: int = MAX_CHUNK_BYTES,
        max_buffer_bytes: int = FETCH_MAX_BYTES,
        isolation: Isolation | IsolationName = Isolation.LOG_END,
    ) -> MessageSetReader:
        """Return what reads this log by offset and max chunk, as Kafka's design pages say.

        Parameters
        ----------
        max_chunk_bytes : int
            Size of a chunk; for a batch above it the read is tried again with twice the size.
        max_buffer_bytes : int
            Where that ends: a larger batch is a `LimitExceededError`.
        isolation : Isolation or str
            As in `read`.
        """
        isolation = isolation_of(isolation)

        def fetch(offset: int, max_bytes: int) -> FetchDataInfo:
            return self.read(offset, max_bytes, isolation, min_one_message=False)

        return MessageSetReader(
            fetch, max_chunk_bytes=max_chunk_bytes, max_buffer_bytes=max_buffer_bytes
        )


def _check_batches(found: SegmentSlice) -> None:
    """Check the whole batches, which end where the slice does or are followed by part of one."""
    _, result = found.segment.scan(
        start_position=found.position,
        end_position=found.position + found.size_bytes,
        check_order=True,
        expected_offset=found.base_offset,
        table=False,
    )
    if result.why is not None:
        raise result.why
