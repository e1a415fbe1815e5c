"""Which remote segments belong to a log: those of its own history of leader epochs.

An unclean election leaves segments of a lost branch in remote storage. They have offsets that the
log has too, and other records.

Source: [TIER-32, TIER-40, TIER-50, TIER-51], Kafka ``RemoteLogManager``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.remote.metadata.segment_metadata import RemoteLogSegmentState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from segstore.log.unified_log import UnifiedLog
    from segstore.remote.metadata.remote_log_metadata_manager import RemoteLogMetadataManager
    from segstore.remote.metadata.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
    from segstore.types import EpochEntry


class OffsetAndEpoch(NamedTuple):
    """The last offset of something, and the leader epoch that it was written in."""

    offset: int
    epoch: int


NOTHING_REMOTE: Final = OffsetAndEpoch(-1, -1)


def filter_epochs(epochs: Sequence[EpochEntry]) -> tuple[EpochEntry, ...]:
    """Return the epochs that have records: of those with the same start, the last [TIER-50].

    Source: Kafka ``buildFilteredLeaderEpochMap``.
    """
    replaced = (one.start_offset == following.start_offset for one, following in pairwise(epochs))
    kept = [one for one, is_empty in zip(epochs[:-1], replaced, strict=True) if not is_empty]
    return (*kept, *epochs[-1:])


def is_within_lineage(
    segment: RemoteLogSegmentMetadata, log_end_offset: int, lineage: Sequence[EpochEntry]
) -> bool:
    """Whether a remote segment has the records of the log, from the log start on [TIER-51].

    Parameters
    ----------
    segment : RemoteLogSegmentMetadata
        Of any state.
    log_end_offset : int
        Exclusive.
    lineage : sequence of EpochEntry
        What `filter_epochs` made of the epochs of the log. Without one no segment is the log's.

    Source: Kafka ``isRemoteSegmentWithinLeaderEpochs``.
    """
    own = filter_epochs(segment.segment_leader_epochs)
    is_apart = not lineage or segment.end_offset >= log_end_offset
    if is_apart or not lineage[0].epoch <= own[-1].epoch <= lineage[-1].epoch:
        return False
    # the epochs before were deleted from the log, with the records below its start
    shared = [entry for entry in own if entry.epoch >= lineage[0].epoch]
    epochs = [entry.epoch for entry in lineage]
    if shared[0].epoch not in epochs:
        return False
    place = epochs.index(shared[0].epoch)
    if place > 0 and shared[0].start_offset < lineage[place].start_offset:
        return False
    rest = lineage[place + 1 :]
    if tuple(shared[1:]) != tuple(rest[: len(shared) - 1]):
        return False
    next_of_log = rest[len(shared) - 1 : len(shared)]
    return not next_of_log or segment.end_offset < next_of_log[0].start_offset


def find_highest_remote_offset(
    log: UnifiedLog, metadata: RemoteLogMetadataManager, partition: TopicIdPartition
) -> OffsetAndEpoch:
    """Return the last offset of the log that was ever copied, as Kafka finds it [TIER-40].

    From the latest epoch down, the first of which something was finished; never beyond the end of
    that epoch in the log.
    """
    for entry in reversed(log.leader_epochs):
        highest = metadata.highest_offset_for_epoch(partition, entry.epoch)
        if highest is not None:
            epoch, end = log.end_offset_for_epoch(entry.epoch) or (entry.epoch, 0)
            return OffsetAndEpoch(min(end - 1, highest), epoch if end <= highest else entry.epoch)
    return NOTHING_REMOTE


def find_log_start_offset(
    log: UnifiedLog, metadata: RemoteLogMetadataManager, partition: TopicIdPartition
) -> int:
    """Return where the log starts, remote part included, as Kafka finds it [TIER-32].

    The start of the first segment, in any state, of the earliest epoch that has one; without any,
    the local log start.
    """
    for entry in log.leader_epochs:
        for segment in metadata.list_remote_log_segments(partition, entry.epoch):
            return segment.start_offset
    return log.local_log_start_offset


def readable_segments(
    log: UnifiedLog, metadata: RemoteLogMetadataManager, partition: TopicIdPartition
) -> list[RemoteLogSegmentMetadata]:
    """Return the finished segments of the log's lineage, by start offset; each once."""
    lineage, end = filter_epochs(log.leader_epochs), log.log_end_offset
    found: dict[object, RemoteLogSegmentMetadata] = {}
    for entry in lineage:
        for segment in metadata.list_remote_log_segments(partition, entry.epoch):
            if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
                found[segment.segment_id] = segment
    whole = [one for one in found.values() if is_within_lineage(one, end, lineage)]
    return sorted(whole, key=lambda one: (one.start_offset, one.end_offset))


def end_of_contiguous(segments: Iterable[RemoteLogSegmentMetadata], start_offset: int) -> int:
    """Return the first offset from *start_offset* on that no segment has [DUR-140].

    Parameters
    ----------
    segments : iterable of RemoteLogSegmentMetadata
        By start offset.
    start_offset : int
        Returned where no segment has it.
    """
    end = start_offset
    for segment in segments:
        if segment.start_offset > end:
            break
        end = max(end, segment.end_offset + 1)
    return end
