"""The metadata log of a KRaft quorum, and its snapshots (Kafka ``KafkaRaftLog``)."""

from __future__ import annotations

from segstore.raft.log_history import HistoryEntry, LogHistory
from segstore.raft.metadata_log import METADATA_TOPIC_ID, MetadataLog, open_metadata_log
from segstore.raft.metadata_log_config import MetadataLogConfig
from segstore.raft.offset_and_epoch import OffsetAndEpoch, ValidityKind, ValidOffsetAndEpoch
from segstore.raft.raw_snapshot import RawSnapshotReader, RawSnapshotWriter
from segstore.raft.records_snapshot import (
    RecordsSnapshotReader,
    RecordsSnapshotWriter,
    SnapshotBatch,
)

__all__ = [
    "METADATA_TOPIC_ID",
    "HistoryEntry",
    "LogHistory",
    "MetadataLog",
    "MetadataLogConfig",
    "OffsetAndEpoch",
    "RawSnapshotReader",
    "RawSnapshotWriter",
    "RecordsSnapshotReader",
    "RecordsSnapshotWriter",
    "SnapshotBatch",
    "ValidOffsetAndEpoch",
    "ValidityKind",
    "open_metadata_log",
]
