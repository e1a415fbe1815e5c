"""Opening the log of one partition: settings, directory, lock, recovery, then the log itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import segstore._core as _core
from segstore.config import LogConfig
from segstore.errors import IllegalArgumentError
from segstore.log.arguments import callback, flag, instance, path_text
from segstore.log.durability import Durability
from segstore.log.log_loader import LogLoader
from segstore.log.log_places import LogPlaces
from segstore.log.partition_lock import PartitionLock
from segstore.log.partition_path import (
    absolute_path,
    check_file_system,
    open_parent_directory,
    open_partition_directory,
)
from segstore.log.read_only_loader import ReadOnlyLoader
from segstore.log.recovery_report import RecoveryReport
from segstore.log.unified_log import UnifiedLog
from segstore.records.compression import codec_table, require_codec
from segstore.records.record_builder import codec_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

RECOVERIES = ("safe",)


def open(  # noqa: PLR0913 - the front door
    path: str | os.PathLike[str],
    *,
    durability: str = "sync",
    recovery: str = "safe",
    read_only: bool = False,
    config: LogConfig | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    allow_network_fs: bool = False,
    parent_is_locked: bool = False,
    parent_was_clean: bool = False,
    **settings: Any,
) -> UnifiedLog:
    """Open the log of one partition, and make it when it is not there.

    Parameters
    ----------
    path : path
        A directory ``<topic>-<partition>``, of this library or a broker's.
    durability : str
        When an append returns: ``sync`` (the default), ``messages=N``, ``seconds=S`` or ``none``.
    recovery : str
        ``safe``: below the recovery point on disk nothing is dropped to make an open succeed. At or
        above it the first bad batch ends the log: what follows is cut, a copy is kept in a
        ``.quarantine`` file, and the report says so - also when a later batch was good, or had been
        synced after the recovery point was last written [DUR-50, DUR-51, DUR-59].
    read_only : bool
        Take no lock and change nothing; another process may be writing.
    config : LogConfig or None
        Kafka's topic settings.
    progress : callable or None
        Called with a phase, the work done and the work to do, while an unclean log is recovered.
    allow_network_fs : bool
        Write on NFS, CIFS or FUSE, where locks and syncs may not hold what they promise [DUR-72].
    parent_is_locked : bool
        For who holds the ``.lock`` of the directory above.
    parent_was_clean : bool
        For who has removed its clean marker: it was there, and this log has not been open since.
    **settings
        Fields of `LogConfig`: ``segment_bytes=64 * 1024 * 1024``.

    Returns
    -------
    UnifiedLog
        Its ``report`` says what was found and done.

    Raises
    ------
    LogNotFoundError
        There is nothing at *path* to read.
    NotALogError, InvalidTopicError
        The path is not that of a partition.
    LogLockedError
        Another writer has it.
    CorruptLogError
        Data below the recovery point is damaged or missing; ``read_only=True`` opens the log.
    CodecMissingError
        ``compression_type`` needs a library that is not installed; nothing was created.
    IllegalArgumentError
        A setting that does not exist, or is out of range.
    """
    began = _core.monotonic_ns()
    full_path = absolute_path(path_text("path", path))
    flag("read_only", read_only)
    flag("allow_network_fs", allow_network_fs)
    callback("progress", progress)
    if config is not None:
        instance("config", config, LogConfig, "a LogConfig (single settings are keywords)")
    if recovery not in RECOVERIES:
        raise IllegalArgumentError(
            f"recovery {recovery!r} does not exist yet: use 'safe'",
            found=repr(recovery),
            expected="'safe'",
        )
    mode = Durability.parse(durability)
    log_config = (config or LogConfig()).with_changes(**settings)
    if not read_only:
        require_codec(codec_of(log_config))
    directory, topic_partition = open_partition_directory(full_path, read_only=read_only)
    parent = None
    lock = None
    try:
        parent = open_parent_directory(full_path)
        if not read_only:
            check_file_system(directory, allowed=allow_network_fs)
            lock = PartitionLock.acquire(directory, parent, parent_is_locked=parent_is_locked)
        report = RecoveryReport(mode=recovery)
        codecs = codec_table(log_config.max_decompressed_batch_bytes, log_config.max_record_bytes)
        context = _core.SegmentContext(
            directory,
            codecs,
            writable=not read_only,
            heap_indexes=read_only,
            preallocate=log_config.preallocate,
            index_interval_bytes=log_config.index_interval_bytes,
            max_index_bytes=log_config.segment_index_bytes,
            segment_bytes=log_config.roll_bytes,
        )
        places = LogPlaces(directory, parent, topic_partition, parent_was_clean=parent_was_clean)
        loader = ReadOnlyLoader if read_only else LogLoader
        loaded = loader(directory, places, context, report, progress).load()
        mode = mode.with_flush_settings(log_config)
        log = UnifiedLog(places, loaded, context, codecs, log_config, mode, report, lock)
        report.seconds = (_core.monotonic_ns() - began) / 1e9
    except BaseException:
        if lock is not None:
            lock.release()
        directory.close()
        if parent is not None:
            parent.close()
        raise
    return log
