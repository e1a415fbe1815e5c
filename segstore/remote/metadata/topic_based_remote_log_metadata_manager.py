"""Keeps the metadata of remote segments in the topic ``__remote_log_metadata`` [TIER-20…TIER-30].

Kafka's manager of this name is a producer and a consumer of that topic; here the topic is beside
the logs. What is appended is durable before it counts: after a crash in between, it counts too.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from segstore.errors import ClosedError, SegstoreError
from segstore.remote.metadata.metadata_partition import metadata_partition
from segstore.remote.metadata.metadata_topic import MetadataTopicPartition
from segstore.remote.metadata.remote_log_metadata_cache import check_added, check_updated

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from segstore.remote.metadata.metadata_topic import MetadataTopic
    from segstore.remote.metadata.remote_log_metadata_cache import RemoteLogMetadataCache
    from segstore.remote.metadata.remote_log_metadata_manager import SegmentRange
    from segstore.remote.metadata.segment_metadata import (
        RemoteLogSegmentMetadata,
        RemoteLogSegmentMetadataUpdate,
        RemotePartitionDeleteMetadata,
        TopicIdPartition,
    )

_log = logging.getLogger(__name__)


class TopicBasedRemoteLogMetadataManager:
    """A `RemoteLogMetadataManager` over a topic.

    The first use of a partition reads that partition of the topic which has its events, with the
    events of all others in it: each is read once, except for a partition that was stopped and is
    used again. A method raises what the topic raises, and:

    * CorruptLogError, UnsupportedFormatError or IllegalArgumentError, which names the record, when
      one of them is no event that is known or possible: it may say that a segment is there, or
      deleted. That partition of the topic then answers nothing before
      `on_partition_leadership_changes` reads it again.
    * ClosedError after `close`.

    Parameters
    ----------
    topic : MetadataTopic
        Nobody else appends to it.
    """

    def __init__(self, topic: MetadataTopic) -> None:
        self._partitions = [
            MetadataTopicPartition(topic, number) for number in range(topic.partitions_count)
        ]
        self._is_closed = False

    # ---- changes ---------------------------------------------------------------------------------

    def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Note that a copy begins, durably.

        Raises
        ------
        IllegalArgumentError
            The state is not COPY_SEGMENT_STARTED.
        IllegalStateError
            The copy of this id is further already; nothing was appended.
        """
        check_added(metadata)
        self._holder(metadata.topic_id_partition).change(metadata)

    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Note the next state of a copy, durably.

        Raises
        ------
        IllegalArgumentError
            The state is COPY_SEGMENT_STARTED.
        RemoteResourceNotFoundError
            The copy was never added, or is deleted; nothing was appended.
        IllegalStateError
            That state may not follow [TIER-23]; nothing was appended.
        """
        check_updated(update)
        self._holder(update.topic_id_partition).change(update)

    def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Note how far the deletion of a partition is, durably [TIER-24].

        Nothing is appended when it is as far already, as where a deletion is begun again. The last
        state takes away everything that is known of the partition.

        Raises
        ------
        IllegalStateError
            A state in between is missing.
        """
        self._holder(metadata.topic_id_partition).change_deletion(metadata)

    # ---- answers ---------------------------------------------------------------------------------

    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the finished segment that has *offset* in that epoch [TIER-28]."""
        return self._cache(partition).remote_log_segment_metadata(leader_epoch, offset)

    def segment_range(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> SegmentRange | None:
        """Return the same, and for which other offsets it is the same; as `WatchedMetadata`."""
        return self._cache(partition).segment_range(leader_epoch, offset)

    def highest_offset_for_epoch(
        self, partition: TopicIdPartition, leader_epoch: int
    ) -> int | None:
        """Return the highest offset that was ever finished in an epoch [TIER-27]."""
        return self._cache(partition).highest_offset_for_epoch(leader_epoch)

    def list_remote_log_segments(
        self, partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> Iterable[RemoteLogSegmentMetadata]:
        """Return the segments of a partition in any state but deleted, by start offset [TIER-29].

        With *leader_epoch*, those of that epoch. What is listed is what was there at the call.
        """
        return self._cache(partition).list_remote_log_segments(leader_epoch)

    def remote_log_size(self, partition: TopicIdPartition, leader_epoch: int) -> int:
        """Return the bytes of all segments that `list_remote_log_segments` gives for an epoch."""
        return self._cache(partition).remote_log_size(leader_epoch)

    def next_segment_with_transaction_index(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the segment of *offset*, or the next one in its epoch with aborted transactions.

        Source: [TIER-22].
        """
        return self._cache(partition).next_segment_with_transaction_index(leader_epoch, offset)

    # ---- which partitions ------------------------------------------------------------------------

    def is_ready(self, partition: TopicIdPartition) -> bool:
        """Whether everything about the partition is loaded, after an attempt to load it [TIER-31].

        The reason why it is not is logged.
        """
        error = self._load_error(partition)
        if error is not None:
            _log.warning("the remote log metadata of %s are not loaded: %s", partition, error)
        return error is None

    def on_partition_leadership_changes(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        """Load what is known of these partitions, again where a record was no event before.

        All are tried; then the first error is raised.
        """
        partitions = [*leaders, *followers]
        for each in {self._holder(partition) for partition in partitions}:
            each.forget_damage()
        errors = [error for partition in partitions if (error := self._load_error(partition))]
        if errors:
            raise errors[0]

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        """Forget these partitions: their memory is given up, their events stay [TIER-91]."""
        for partition in partitions:
            self._holder(partition).stop(partition)

    def close(self) -> None:
        """Give up the memory of all partitions; idempotent."""
        self._is_closed = True
        for each in self._partitions:
            each.close()
        self._partitions.clear()

    def _load_error(self, partition: TopicIdPartition) -> SegstoreError | None:
        try:
            self._cache(partition)
        except SegstoreError as error:
            return error
        return None

    def _cache(self, partition: TopicIdPartition) -> RemoteLogMetadataCache:
        return self._holder(partition).cache(partition)

    def _holder(self, partition: TopicIdPartition) -> MetadataTopicPartition:
        """Return the partition of the topic that has the events of *partition*."""
        if self._is_closed:
            raise ClosedError("the remote log metadata manager is closed")
        return self._partitions[metadata_partition(partition, len(self._partitions))]
