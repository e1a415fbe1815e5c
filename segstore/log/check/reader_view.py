"""What only an opened log says of a partition: its end for a reader, its transaction indexes.

No lock is taken.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from segstore._core import PublishedEnd, SegmentContext
from segstore.config.log_config import LogConfig
from segstore.log.files.background import BackgroundWorker
from segstore.log.files.checkpoint_store import CheckpointStore
from segstore.log.files.partition_path import (
    absolute_path,
    open_parent_directory,
    open_partition_directory,
)
from segstore.log.local.local_log import LocalLog
from segstore.log.local.transaction_index_check import wrong_indexes
from segstore.log.recovery.recovery_report import RecoveryReport
from segstore.log.recovery.view import LogView
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import Environment
    from segstore.log.local.transaction_index_check import WrongIndex
    from segstore.types import TopicPartition


def wrong_transaction_indexes_of(
    path: str, environment: Environment, as_: TopicPartition | None = None
) -> list[WrongIndex]:
    """As `wrong_indexes`, of the partition at *path*; *as_* says whose it is, else its name."""
    with _log_to_read(path, environment, as_) as (local_log, log_start_offset):
        return wrong_indexes(local_log, log_start_offset, may_grow=True)


def readable_end_of(path: str, environment: Environment, as_: TopicPartition | None = None) -> int:
    """Return the log end offset of an open to read of the partition at *path*."""
    with _log_to_read(path, environment, as_) as (local_log, _):
        return local_log.log_end.message_offset


@contextmanager
def _log_to_read(
    path: str, environment: Environment, as_: TopicPartition | None
) -> Iterator[tuple[LocalLog, int]]:
    """Open the partition as a reader does; yield the log and its log start offset."""
    path, codecs = absolute_path(path), codec_table()
    directory, topic_partition = open_partition_directory(
        path, read_only=True, environment=environment, as_=as_
    )
    parent = None
    try:
        parent = open_parent_directory(path, environment, as_)
        context = SegmentContext(directory, codecs, writable=False, heap_indexes=True)
        checkpoint_store = CheckpointStore(directory, parent, topic_partition, is_for_writing=False)
        loaded = LogView(directory, checkpoint_store, context, RecoveryReport()).load()
        worker = BackgroundWorker("")
        local_log = LocalLog(
            directory,
            context,
            LogConfig(),
            loaded.segments,
            loaded.log_end,
            PublishedEnd(),
            worker,
            codecs,
            may_have_gaps=loaded.may_have_gaps,
        )
        try:
            yield local_log, loaded.log_start_offset
        finally:
            local_log.close_quietly()
    finally:
        directory.close()
        if parent is not None:
            parent.close()
