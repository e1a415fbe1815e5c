"""The contract of who keeps the metadata of remote segments [TIER-20, TIER-21, TIER-22].

Kafka's methods that change something return futures. Here they return when the change is durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from segstore._core import ChangeCounter
    from segstore.remote.metadata.segment_metadata import (
        RemoteLogSegmentMetadata,
        RemoteLogSegmentMetadataUpdate,
        RemotePartitionDeleteMetadata,
        TopicIdPartition,
    )


@runtime_checkable
class RemoteLogMetadataManager(Protocol):
    """Keeps which segments of which partitions are in remote storage (KIP-405).

    Several threads may call it. Each method raises RemoteStorageError where it fails, or
    RetriableRemoteStorageError where the same call may succeed later.
    """

    def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Note that a copy begins, durably.

        Raises
        ------
        IllegalArgumentError
            The state is not COPY_SEGMENT_STARTED.
        """

    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Note the next state of a copy, durably.

        Raises
        ------
        IllegalArgumentError
            The state is COPY_SEGMENT_STARTED.
        """

    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the finished segment that has *offset* in that epoch [TIER-28]."""

    def highest_offset_for_epoch(
        self, partition: TopicIdPartition, leader_epoch: int
    ) -> int | None:
        """Return the highest offset that was ever finished in an epoch [TIER-27]."""

    def list_remote_log_segments(
        self, partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> Iterable[RemoteLogSegmentMetadata]:
        """Return the segments of a partition in any state but deleted, by start offset [TIER-29].

        With *leader_epoch*, those of that epoch.
        """

    def remote_log_size(self, partition: TopicIdPartition, leader_epoch: int) -> int:
        """Return the bytes of all segments that `list_remote_log_segments` gives for an epoch."""

    def next_segment_with_transaction_index(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the segment of *offset*, or the next one in its epoch with aborted transactions.

        Source: [TIER-22].
        """

    def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Note how far the deletion of a partition is, durably [TIER-24]."""

    def is_ready(self, partition: TopicIdPartition) -> bool:
        """Whether everything about the partition is loaded [TIER-22, TIER-31]."""

    def on_partition_leadership_changes(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        """Load what is known of these partitions: they are about to be used."""

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        """Forget these partitions: they are used no more [TIER-91]."""

    def close(self) -> None:
        """Release what it holds; idempotent."""


class SegmentRange(NamedTuple):
    """A finished segment, and for which offsets of a leader epoch it is the one that is found."""

    metadata: RemoteLogSegmentMetadata
    first_offset: int
    last_offset: int
    changes: ChangeCounter
    """Of the partition: all of this holds as long as its count is the next number."""
    changes_count: int


@runtime_checkable
class WatchedMetadata(Protocol):
    """A `RemoteLogMetadataManager` that also says how long an answer holds: no part of KIP-405."""

    def segment_range(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> SegmentRange | None:
        """Return the finished segment of an offset, and for which others it is the one."""
