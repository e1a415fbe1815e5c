"""Up to where a log is in remote storage, as its local retention goes by it.

Kafka takes the last offset that was ever finished in an epoch [TIER-40]. It is wrong where copies
have a gap, where the copied records were truncated and written again, and where remote segments
were deleted since. The safe profile counts finished segments of the log's lineage that follow each
other without a gap, from the first record that is here [DUR-140].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.log.files.profile import Profile
from segstore.remote.log_manager.lineage import (
    end_of_contiguous,
    find_highest_remote_offset,
    readable_segments,
)

if TYPE_CHECKING:
    from segstore.log.unified_log import UnifiedLog
    from segstore.remote.log_manager.remote_log_task import RemoteLogParts
    from segstore.remote.metadata.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition


def note_copied(
    log: UnifiedLog, parts: RemoteLogParts, partition: TopicIdPartition, generation: int
) -> int:
    """Tell the log up to where it is copied; return that last offset, -1 without any.

    Parameters
    ----------
    log : UnifiedLog
        The log.
    parts : RemoteLogParts
        Of its manager.
    partition : TopicIdPartition
        The partition, by its topic id.
    generation : int
        Of the log, before anything of it was looked at.

    Raises
    ------
    LogTruncatedError
        The log was truncated meanwhile: it was told nothing.

    Source: [TIER-3, TIER-44].
    """
    copied = _find_copied(log, parts, partition)
    log._note_copied(copied, generation)  # noqa: SLF001 - asked by its manager
    return copied


def first_offset_here(log: UnifiedLog) -> int:
    """Return where the records of the log begin that are in its directory."""
    return max(log.log_start_offset, log.segments()[0].base_offset)


def copied_from(
    offset: int, log: UnifiedLog, parts: RemoteLogParts, partition: TopicIdPartition
) -> list[RemoteLogSegmentMetadata]:
    """Return the segments of the log's lineage that have records from *offset* on, by their start.

    Those that count as copied [DUR-140].
    """
    finished = readable_segments(log, parts.metadata, partition)
    return [
        one for one in finished if one.end_offset >= offset and parts.counts_as_copied(log, one)
    ]


def _find_copied(log: UnifiedLog, parts: RemoteLogParts, partition: TopicIdPartition) -> int:
    highest = find_highest_remote_offset(log, parts.metadata, partition).offset
    if log.profile is Profile.KAFKA:
        return highest
    first_here = first_offset_here(log)
    copied = copied_from(first_here, log, parts, partition)
    end = end_of_contiguous(copied, first_here)
    return end - 1 if end > first_here else min(highest, first_here - 1)
