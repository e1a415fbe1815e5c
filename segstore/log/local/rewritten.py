"""Whether a writer cut a log below the end that a reader has seen, and wrote it again [DUR-77].

What was cut may have grown to the same size, or beyond: then only the batches tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.errors import SegstoreError
from segstore.log.directory.partition_directory import LOG_FILE_SUFFIX, file_name
from segstore.log.local.segment import Segment

if TYPE_CHECKING:
    from segstore._core import Directory, SegmentContext
    from segstore.types import LogOffsetMetadata

_HEADER_BYTES: Final = 61
"""Of a batch: offsets, timestamps, and the CRC of everything in it."""


def is_rewritten(context: SegmentContext, end: LogOffsetMetadata) -> bool:
    """Whether good batches lie where *end* was, and none of them ends there.

    Reads the segment; for who has met bytes that are not what was expected. Damage is no rewriting.
    """
    position = end.relative_position_in_segment
    if not position:
        return False  # no batch was there
    segment, reached = None, 0
    try:
        segment = Segment(context, end.segment_base_offset)
        for headers, scan in segment.scan_windows(check_order=True):
            ends = headers["position"] + headers["size_bytes"]
            is_there = (ends == position) & (headers["last_offset"] + 1 == end.message_offset)
            if is_there.any():
                return False
            if scan.valid_bytes > position:
                return True
            reached = scan.valid_bytes
    except SegstoreError:  # the reader has an error already
        return False
    finally:
        if segment is not None:
            segment.close_quietly()
    return reached == position


class LastBatch:
    """The header of the batch that ends where a reader has seen the end of the log.

    Parameters
    ----------
    directory : Directory
        The partition's.
    segment : Segment
        The one that *end* lies in.
    end : LogOffsetMetadata
        As it was seen.
    """

    def __init__(self, directory: Directory, segment: Segment, end: LogOffsetMetadata) -> None:
        self._directory = directory
        self._end = end
        self._name = file_name(end.segment_base_offset, LOG_FILE_SUFFIX)
        self._position = -1
        self._header = b""
        if segment.base_offset != end.segment_base_offset or not end.relative_position_in_segment:
            return
        try:
            found = segment.translate_offset(end.message_offset - 1)
            if found is not None and found.position < end.relative_position_in_segment:
                self._position = found.position
                self._header = self._read()
        except SegstoreError:  # without it, nothing is known of the batch
            self._position = -1

    def is_replaced(self, end: LogOffsetMetadata) -> bool:
        """Whether something else stands there now; *end* is the one that the reader has seen."""
        if self._position < 0 or end != self._end:
            return False
        try:
            return self._read() != self._header
        except SegstoreError:
            return False

    def _read(self) -> bytes:
        size = min(_HEADER_BYTES, self._end.relative_position_in_segment - self._position)
        return self._directory.read_range(self._name, self._position, size)
