"""Copies of a log that hold what the log does not have: it is not the one that was copied.

Its directory was made again, or is an older state of itself. Both are then acknowledged records:
what is here must not pass for what is there, nor take its place [DUR-140].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.errors import IllegalStateError
from segstore.log.files.profile import Profile
from segstore.remote.log_manager.copied_end import copied_from, first_offset_here
from segstore.remote.log_manager.lineage import (
    filter_epochs,
    is_within_lineage,
    readable_segments,
)
from segstore.remote.metadata.segment_metadata import RemoteLogSegmentState
from segstore.remote.storage.segment_files import object_name

if TYPE_CHECKING:
    from segstore.log.unified_log import UnifiedLog
    from segstore.remote.log_manager.remote_log_task import RemoteLogParts
    from segstore.remote.metadata.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition


def refuse_other_history(
    log: UnifiedLog, parts: RemoteLogParts, partition: TopicIdPartition
) -> None:
    """Raise where copies of the log's leader epochs have records that the log has not [DUR-140].

    They end behind the log, or are whole and have other records. A truncation of a tiered log
    begins a new epoch: its copies are of another one. Kafka's profile does not look.

    Raises
    ------
    IllegalStateError
        Nothing of the log is to be copied, or deleted, here or there.
    RemoteStorageError
        A copy cannot be read now.
    LogTruncatedError
        The log was truncated meanwhile: what was found was of no state of it.
    """
    if log.profile is Profile.KAFKA:
        return
    generation = log._settled_generation()  # noqa: SLF001 - asked by its manager
    try:
        _refuse(log, parts, partition)
    finally:
        log._require_uncut(generation)  # noqa: SLF001 - as above


def _refuse(log: UnifiedLog, parts: RemoteLogParts, partition: TopicIdPartition) -> None:
    end = log.log_end_offset  # before the epochs: a truncation may come between
    lineage = filter_epochs(log.leader_epochs)
    for one in parts.metadata.list_remote_log_segments(partition):
        if (
            one.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
            and one.end_offset >= end
            and is_within_lineage(one, one.end_offset + 1, lineage)
        ):
            raise _error(log, one, f"a log that ends at {end}")
    first_here = first_offset_here(log)
    copied_from(first_here, log, parts, partition)  # each is compared once
    for one in readable_segments(log, parts.metadata, partition):
        if one.end_offset >= first_here and one.segment_id in parts.hold_others:
            raise _error(log, one, "other records in the log, of the same leader epoch")


def _error(log: UnifiedLog, copy: RemoteLogSegmentMetadata, found: str) -> IllegalStateError:
    return IllegalStateError(
        f"remote storage has records of {log.topic_partition} that are not in the log here: its"
        " directory was made again, is an older one, or is damaged. Nothing is copied or deleted,"
        " here or there. Move the directory away, and restore_bucket brings the records back. Or"
        " remote.storage.enable=false with remote.log.delete.on.disable=true deletes the copies:"
        " then the log is what is here, and may be tiered again",
        file=object_name(copy),
        found=found,
        expected=f"the records from {copy.start_offset} to {copy.end_offset}",
    )
