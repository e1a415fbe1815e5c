"""Names of a copied segment's files, as Kafka's ``LocalTieredStorage`` has them [TIER-95].

``kafka-tiered-storage/<topic>-<partition>-<topic id>/<start offset>-<segment id>.<suffix>``
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.remote.storage.remote_storage_manager import IndexType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segstore.remote.metadata.segment_metadata import RemoteLogSegmentMetadata

STORAGE_FOLDER: Final = "kafka-tiered-storage"
"""The last part of the path, whatever ``dir`` of the plug-in is [TIER-95]."""

LOG: Final = "log"
INDEXES: Final[Mapping[IndexType, str]] = MappingProxyType(
    {
        IndexType.OFFSET: "index",
        IndexType.TIMESTAMP: "timeindex",
        IndexType.TRANSACTION: "txnindex",
        IndexType.LEADER_EPOCH: "leader_epoch_checkpoint",
        IndexType.PRODUCER_SNAPSHOT: "snapshot",
    }
)
"""The suffix of each index; the last one is put last, and makes a copy whole."""
WHOLE: Final = INDEXES[IndexType.PRODUCER_SNAPSHOT]


def folder_name(metadata: RemoteLogSegmentMetadata) -> str:
    """Return the folder of a segment's partition, below `STORAGE_FOLDER`."""
    topic_id, (topic, partition) = metadata.segment_id.topic_id_partition
    return f"{topic}-{partition}-{topic_id_text(topic_id)}"


def stored_name(metadata: RemoteLogSegmentMetadata, suffix: str) -> str:
    """Return the name of one of a segment's files in that folder."""
    return f"{metadata.start_offset:020}-{topic_id_text(metadata.segment_id.id)}.{suffix}"


def object_name(metadata: RemoteLogSegmentMetadata, suffix: str = LOG) -> str:
    """Return what errors call one of a segment's files: partition, first offset and id."""
    topic, partition = metadata.segment_id.topic_id_partition.topic_partition
    return f"remote storage/{topic}-{partition}/{stored_name(metadata, suffix)}"


def storage_place(place: str) -> str:
    """Return the folder ``kafka-tiered-storage`` of a path or URL, which may be that itself."""
    place = place.rstrip("/")
    return place if place.rpartition("/")[2] == STORAGE_FOLDER else f"{place}/{STORAGE_FOLDER}"
