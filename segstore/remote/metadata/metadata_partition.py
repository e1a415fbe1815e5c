"""In which partition of ``__remote_log_metadata`` the events of a partition are."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from segstore.records.partitioner import partition_for_key

if TYPE_CHECKING:
    from segstore.remote.metadata.segment_metadata import TopicIdPartition

_LOW_INT: Final = 2**32 - 1
_FACTOR: Final = 31


@lru_cache(maxsize=1024)  # each read asks
def metadata_partition(partition: TopicIdPartition, partitions_count: int) -> int:
    """Return the partition of ``__remote_log_metadata`` for *partition*.

    Parameters
    ----------
    partition : TopicIdPartition
        Of a user. Its name does not count: the id stays when a topic is renamed.
    partitions_count : int
        Of ``__remote_log_metadata``, at least 1.

    Source: Kafka ``RemoteLogMetadataTopicPartitioner``, ``Uuid.hashCode``.
    """
    high, low = divmod(partition.topic_id.int, 2**64)
    number = _FACTOR * (_FACTOR * (_FACTOR + _folded(low)) + _folded(high))
    number += partition.topic_partition.partition
    return partition_for_key((number & _LOW_INT).to_bytes(4), partitions_count)


def _folded(value: int) -> int:
    """Return what Java's ``Long.hashCode`` gives."""
    return (value ^ value >> 32) & _LOW_INT
