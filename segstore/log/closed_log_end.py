"""Where a log ends that nobody has changed since its clean close, without opening it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import Directory, SegmentContext
from segstore.errors import SegstoreError
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LOG_START_OFFSET_CHECKPOINT,
    MAX_MARKER_BYTES,
    RECOVERY_POINT_CHECKPOINT,
)
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from segstore.log.local.segment import Segment
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    from segstore.log.files.log_directory_checkpoints import LogDirectoryCheckpoints
    from segstore.types import TopicPartition


def closed_log_end(
    path: str, topic_partition: TopicPartition, above: LogDirectoryCheckpoints
) -> int | None:
    """Return the log end offset that an open would find, None where only an open can tell.

    It judges nothing. The fingerprint shows that each file is as the clean close left it, and the
    last batch has to be where the log ended: no time shows bytes that a disk has lost. Whatever is
    different, or cannot be read, is for the open to judge and to report.

    Parameters
    ----------
    path : str
        The partition's directory.
    topic_partition : TopicPartition
        Its name, for the lines of the log directory.
    above : LogDirectoryCheckpoints
        Those of the log directory: a broker may have written there since.

    Source: [DUR-24, DUR-51, DUR-65].
    """
    try:
        directory = Directory(path)
        try:
            marker = CleanShutdownMarker.parse(
                directory.read_file(CLEAN_SHUTDOWN_MARKER, MAX_MARKER_BYTES)
            )
            if marker is None or not marker.has_crc or marker.files_fingerprint is None:
                return None
            start, end = marker.log_start_offset or 0, marker.log_end_offset
            if start > end or not _agree(above, topic_partition, start, end):
                return None
            if directory.fingerprint(CLEAN_SHUTDOWN_MARKER) != marker.files_fingerprint:
                return None
            context = SegmentContext(directory, codec_table(), writable=False, heap_indexes=True)
            active = Segment(context, marker.active_base_offset)
            try:
                return end if active.read_next_offset() == (end, True) else None
            finally:
                active.close_quietly()
        finally:
            directory.close()
    except SegstoreError:
        return None


def _agree(
    above: LogDirectoryCheckpoints, topic_partition: TopicPartition, start: int, end: int
) -> bool:
    """Whether the log directory's lines, where there are any, say what the close said."""
    log_start = above.offset(LOG_START_OFFSET_CHECKPOINT, topic_partition)
    recovery_point = above.offset(RECOVERY_POINT_CHECKPOINT, topic_partition)
    return (log_start or 0) <= start and recovery_point in {None, end}
