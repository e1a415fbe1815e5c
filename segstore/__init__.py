"""Apache Kafka's partition log as a library.

Durable, append-only, offset-addressed logs in Kafka's own files.

``segstore.open`` gives the log of one partition, ``segstore.open_dir`` all of a directory.
Everything is loaded when it is first asked for.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if sys.platform in {"win32", "cygwin", "darwin"}:
    message = "segstore runs on Linux only: use a Linux machine, a container, or WSL on Windows"
    raise ImportError(message)

from segstore import errors
from segstore.errors import *  # noqa: F403 - the names of errors.__all__

if TYPE_CHECKING:
    from segstore._core import Record
    from segstore.config.log_config import LogConfig
    from segstore.log.check.verify_report import VerifyReport
    from segstore.log.file_records import FileRecords
    from segstore.log.files.metadata_image import MetadataImage
    from segstore.log.files.metadata_image_reader import read_metadata_image
    from segstore.log.latest_values import LatestValues
    from segstore.log.local.segment import Segment
    from segstore.log.log_offsets import LogOffsetSnapshot
    from segstore.log.log_salvage import salvage
    from segstore.log.lone_segment import LoneSegment, open_segment
    from segstore.log.open_log import open
    from segstore.log.open_transaction import OpenTransaction
    from segstore.log.producers.producer_state_manager_config import ProducerStateManagerConfig
    from segstore.log.producers.verification_state_entry import VerificationGuard
    from segstore.log.recovery.recovery_report import RecoveryReport
    from segstore.log.recovery.salvage_report import (
        LostRange,
        SalvageReport,
        UncertainTransaction,
    )
    from segstore.log.remote_tier import RemoteLogReader, RemoteRead
    from segstore.log.scan import LogScan
    from segstore.log.unified_log import Log, UnifiedLog
    from segstore.manager.cleaner_config import CleanerConfig
    from segstore.manager.log_manager import LogManager, open_dir
    from segstore.records.error_mapping import ErrorCode
    from segstore.records.fetch_data_info import FetchDataInfo
    from segstore.records.memory_records import MemoryRecords
    from segstore.records.message_set_reader import MessageSetReader
    from segstore.records.message_set_receive import (
        MessageSet,
        MessageSetReceive,
        MultiMessageSetReceive,
    )
    from segstore.records.message_set_send import MessageSetSend, MultiMessageSetSend
    from segstore.records.partitioner import partition_for_key
    from segstore.records.record_batch import RecordBatch
    from segstore.remote.bucket import Bucket, open_bucket
    from segstore.remote.bucket_restore import RestoreReport, restore_bucket
    from segstore.tables.parquet_transfer import ImportReport, export_parquet, import_parquet
    from segstore.tables.partition_export import ExportReport
    from segstore.tables.topic_scan import TopicScan
    from segstore.types import (
        AppendOrigin,
        Codec,
        EpochEntry,
        FileTimestampAndOffset,
        Isolation,
        LogAppendInfo,
        LogOffsetMetadata,
        SpecialTimestamp,
        TimestampType,
        TopicPartition,
    )

__version__ = "0.1.0"

_HOMES = {
    "AppendOrigin": "segstore.types",
    "Bucket": "segstore.remote.bucket",
    "CleanerConfig": "segstore.manager.cleaner_config",
    "Codec": "segstore.types",
    "EpochEntry": "segstore.types",
    "ErrorCode": "segstore.records.error_mapping",
    "ExportReport": "segstore.tables.partition_export",
    "FetchDataInfo": "segstore.records.fetch_data_info",
    "FileRecords": "segstore.log.file_records",
    "FileTimestampAndOffset": "segstore.types",
    "ImportReport": "segstore.tables.parquet_transfer",
    "Isolation": "segstore.types",
    "LatestValues": "segstore.log.latest_values",
    "Log": "segstore.log.unified_log",
    "LogAppendInfo": "segstore.types",
    "LogConfig": "segstore.config.log_config",
    "LogManager": "segstore.manager.log_manager",
    "LogOffsetMetadata": "segstore.types",
    "LogOffsetSnapshot": "segstore.log.log_offsets",
    "LogScan": "segstore.log.scan",
    "LoneSegment": "segstore.log.lone_segment",
    "LostRange": "segstore.log.recovery.salvage_report",
    "MemoryRecords": "segstore.records.memory_records",
    "MessageSet": "segstore.records.message_set_receive",
    "MessageSetReader": "segstore.records.message_set_reader",
    "MessageSetReceive": "segstore.records.message_set_receive",
    "MessageSetSend": "segstore.records.message_set_send",
    "MetadataImage": "segstore.log.files.metadata_image",
    "MultiMessageSetReceive": "segstore.records.message_set_receive",
    "MultiMessageSetSend": "segstore.records.message_set_send",
    "OpenTransaction": "segstore.log.open_transaction",
    "ProducerStateManagerConfig": "segstore.log.producers.producer_state_manager_config",
    "Record": "segstore._core",
    "RecordBatch": "segstore.records.record_batch",
    "RecoveryReport": "segstore.log.recovery.recovery_report",
    "RemoteLogReader": "segstore.log.remote_tier",
    "RemoteRead": "segstore.log.remote_tier",
    "RestoreReport": "segstore.remote.bucket_restore",
    "SalvageReport": "segstore.log.recovery.salvage_report",
    "Segment": "segstore.log.local.segment",
    "SpecialTimestamp": "segstore.types",
    "TimestampType": "segstore.types",
    "TopicPartition": "segstore.types",
    "TopicScan": "segstore.tables.topic_scan",
    "UncertainTransaction": "segstore.log.recovery.salvage_report",
    "UnifiedLog": "segstore.log.unified_log",
    "VerificationGuard": "segstore.log.producers.verification_state_entry",
    "VerifyReport": "segstore.log.check.verify_report",
    "export_parquet": "segstore.tables.parquet_transfer",
    "import_parquet": "segstore.tables.parquet_transfer",
    "open": "segstore.log.open_log",
    "open_bucket": "segstore.remote.bucket",
    "open_dir": "segstore.manager.log_manager",
    "open_segment": "segstore.log.lone_segment",
    "partition_for_key": "segstore.records.partitioner",
    "read_metadata_image": "segstore.log.files.metadata_image_reader",
    "restore_bucket": "segstore.remote.bucket_restore",
    "salvage": "segstore.log.log_salvage",
}

__all__ = [
    "AppendOrigin",
    "Bucket",
    "CleanerConfig",
    "Codec",
    "EpochEntry",
    "ErrorCode",
    "ExportReport",
    "FetchDataInfo",
    "FileRecords",
    "FileTimestampAndOffset",
    "ImportReport",
    "Isolation",
    "LatestValues",
    "Log",
    "LogAppendInfo",
    "LogConfig",
    "LogManager",
    "LogOffsetMetadata",
    "LogOffsetSnapshot",
    "LogScan",
    "LoneSegment",
    "LostRange",
    "MemoryRecords",
    "MessageSet",
    "MessageSetReader",
    "MessageSetReceive",
    "MessageSetSend",
    "MetadataImage",
    "MultiMessageSetReceive",
    "MultiMessageSetSend",
    "OpenTransaction",
    "ProducerStateManagerConfig",
    "Record",
    "RecordBatch",
    "RecoveryReport",
    "RemoteLogReader",
    "RemoteRead",
    "RestoreReport",
    "SalvageReport",
    "Segment",
    "SpecialTimestamp",
    "TimestampType",
    "TopicPartition",
    "TopicScan",
    "UncertainTransaction",
    "UnifiedLog",
    "VerificationGuard",
    "VerifyReport",
    "export_parquet",
    "import_parquet",
    "open",
    "open_bucket",
    "open_dir",
    "open_segment",
    "partition_for_key",
    "read_metadata_image",
    "restore_bucket",
    "salvage",
]
__all__ += errors.__all__  # with `open`, which a star takes from `gzip`, `io` and `tarfile` too


_MODULES = ("polars", "spark")
"""Those of users: `segstore.polars.scan_log` needs no import of its own."""


def __getattr__(name: str) -> Any:
    """Import what is asked for, once."""
    if name in _MODULES:
        return import_module(f"segstore.{name}")
    home = _HOMES.get(name)
    if home is None:
        message = f"module 'segstore' has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
