"""The segments of all partitions in remote storage, and which partitions are being deleted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from segstore.errors import (
    IllegalStateError,
    RemoteResourceNotFoundError,
    RetriableRemoteStorageError,
)
from segstore.remote.metadata.remote_log_metadata_cache import RemoteLogMetadataCache
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteState,
    is_of_a_partition_that_stays,
)

if TYPE_CHECKING:
    from segstore.remote.metadata.segment_metadata import (
        RemoteLogMetadata,
        RemotePartitionDeleteMetadata,
        TopicIdPartition,
    )

_log = logging.getLogger(__name__)


class RemotePartitionMetadataStore:
    """Takes the events of assigned partitions (Kafka's class of the same name).

    One thread at a time changes it; others may ask it meanwhile.
    """

    def __init__(self) -> None:
        self._caches: dict[TopicIdPartition, RemoteLogMetadataCache] = {}
        self._deletions: dict[TopicIdPartition, RemotePartitionDeleteMetadata] = {}

    def assign(self, partition: TopicIdPartition) -> None:
        """Take events of *partition* from now on."""
        if partition not in self._caches:
            self._caches[partition] = RemoteLogMetadataCache()

    def forget(self, partition: TopicIdPartition) -> None:
        """Take no more events of *partition*, and give up its memory."""
        cache = self._caches.pop(partition, None)
        self._deletions.pop(partition, None)
        if cache is not None:
            cache.changes.end()  # lanes that know its segments end

    def forget_all(self) -> None:
        """Give up the memory of all partitions."""
        for partition in list(self._caches):
            self.forget(partition)

    def mark_initialized(self, partition: TopicIdPartition) -> None:
        """Note that all events of *partition* up to now were taken, where it is assigned."""
        cache = self._caches.get(partition)
        if cache is not None:
            cache.mark_initialized()

    def apply(self, event: RemoteLogMetadata) -> None:
        """Take the next event; an update of a segment that is not known is dropped [TIER-30].

        The end of a partition's deletion takes away all that is known of it. A segment that is kept
        takes its mark away, see `is_of_a_partition_that_stays`.

        Raises
        ------
        IllegalStateError
            The event is of a segment of a partition that is not assigned.
        IllegalArgumentError
            See `RemoteLogMetadataCache`.
        """
        partition = event.topic_id_partition
        marked = self._deletions.get(partition)
        if (
            marked is not None
            and marked.state is RemotePartitionDeleteState.DELETE_PARTITION_MARKED
            and is_of_a_partition_that_stays(event)
        ):
            del self._deletions[partition]
        if isinstance(event, RemoteLogSegmentMetadata):
            cache = self._assigned(event.topic_id_partition)
            cache.add_copy_in_progress_segment(event)
        elif isinstance(event, RemoteLogSegmentMetadataUpdate):
            cache = self._assigned(event.topic_id_partition)
            try:
                cache.update_remote_log_segment_metadata(event)
            except RemoteResourceNotFoundError as error:
                _log.warning("%s: the event is dropped: %s", event.segment_id, error)
        elif event.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
            self.forget(event.topic_id_partition)
        else:
            self._deletions[event.topic_id_partition] = event

    def find(self, partition: TopicIdPartition) -> RemoteLogMetadataCache | None:
        """Return what `cache` returns, None where it has nothing to return."""
        cache = self._caches.get(partition)
        return cache if cache is not None and cache.is_initialized else None

    def cache(self, partition: TopicIdPartition) -> RemoteLogMetadataCache:
        """Return what is known of *partition*.

        Raises
        ------
        RemoteResourceNotFoundError
            It is not assigned, or deleted.
        RetriableRemoteStorageError
            Not all of its events were taken yet.
        """
        cache = self._caches.get(partition)
        if cache is None:
            raise RemoteResourceNotFoundError(
                "nothing is known of the remote log segments of a partition",
                found=str(partition),
                expected="a partition that is led or followed here",
            )
        if not cache.is_initialized:
            raise RetriableRemoteStorageError(
                "the metadata of the remote log segments of a partition are still being loaded",
                found=str(partition),
                expected="a partition whose events were all read",
            )
        return cache

    def deletion(self, partition: TopicIdPartition) -> RemotePartitionDeleteMetadata | None:
        """Return how far the deletion of *partition* is; None: it is not, or all is deleted."""
        return self._deletions.get(partition)

    def _assigned(self, partition: TopicIdPartition) -> RemoteLogMetadataCache:
        cache = self._caches.get(partition)
        if cache is None:
            raise IllegalStateError(
                "an event of a remote log segment is of a partition that is not assigned",
                found=str(partition),
                expected="a partition that is led or followed here",
            )
        return cache
