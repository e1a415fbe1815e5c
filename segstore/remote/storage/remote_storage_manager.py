"""The contract of remote storage: where the bytes of segments are [TIER-10…TIER-16]."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from segstore._core import Directory
    from segstore.remote.metadata.segment_metadata import RemoteLogSegmentMetadata


class IndexType(StrEnum):
    """What is stored beside a segment (Kafka ``RemoteStorageManager.IndexType``)."""

    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    PRODUCER_SNAPSHOT = "producer_snapshot"
    TRANSACTION = "transaction"
    LEADER_EPOCH = "leader_epoch"


class LogSegmentData(NamedTuple):
    """What is copied of one sealed segment (Kafka ``LogSegmentData``) [TIER-11].

    Attributes
    ----------
    log_segment, offset_index, time_index, producer_snapshot_index : str
        Paths of files, which do not change until the copy is over.
    transaction_index : str or None
        Path; None: no transaction was aborted.
    leader_epoch_index : bytes
        The leader epochs up to the end of the segment, as a checkpoint [TIER-36].
    """

    log_segment: str
    offset_index: str
    time_index: str
    transaction_index: str | None
    producer_snapshot_index: str
    leader_epoch_index: bytes


@runtime_checkable
class RemoteStorageManager(Protocol):
    """Keeps the bytes of remote segments (KIP-405).

    Several threads may call it. Each method raises RemoteStorageError where it fails:
    RetriableRemoteStorageError where the same call may succeed later, and
    RemoteResourceNotFoundError where what is asked for is not there [TIER-16].
    """

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        """Copy a segment; return custom metadata, which each later call gets with the metadata.

        A copy that failed may be copied again under the same id: it replaces what is there
        [TIER-10].
        """

    def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> bytes | memoryview:
        """Return bytes ``[start_position, end_position)`` of the segment.

        Of a range that reaches beyond its end, what there is [TIER-12].
        """

    def fetch_index(
        self, metadata: RemoteLogSegmentMetadata, index_type: IndexType
    ) -> bytes | memoryview:
        """Return all bytes of an index.

        Raises
        ------
        RemoteResourceNotFoundError
            Also where the segment has no transaction index, which is normal.
        """

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Delete a segment and its indexes; what is not there is deleted already [TIER-13]."""

    def close(self) -> None:
        """Release what it holds; idempotent."""


@runtime_checkable
class StorageOfFiles(Protocol):
    """A `RemoteStorageManager` whose segments may be plain files: no part of KIP-405."""

    def log_segment_folder(self, metadata: RemoteLogSegmentMetadata) -> Directory | None:
        """Return the folder that has the segment as a file `stored_name`; it closes that itself.

        None: there is no such folder on this machine.
        """
