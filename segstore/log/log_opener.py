"""Opening the log of one partition: settings, directory, lock, recovery, then the log itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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
from segstore.log.profile import Profile
from segstore.log.read_only_loader import ReadOnlyLoader
from segstore.log.recovery_report import RecoveryReport
from segstore.log.surroundings import ALONE, Surroundings
from segstore.log.unified_log import UnifiedLog
from segstore.records.compression import codec_table, require_codec
from segstore.records.record_builder import codec_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable


def open(  # noqa: PLR0913 - the front door
    path: str | os.PathLike[str],
    *,
    durability: str = "sync",
    recovery: str = "safe",
    read_only: bool = False,
    config: LogConfig | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    allow_network_fs: bool = False,
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
    options = open_options(
        durability=durability,
        recovery=recovery,
        read_only=read_only,
        config=config,
        progress=progress,
        allow_network_fs=allow_network_fs,
        **settings,
    )
    return open_partition(path, options)


class OpenOptions(NamedTuple):
    """The arguments of `open`, checked; what they mean is said there."""

    durability: Durability = Durability(sync=True)
    profile: Profile = Profile.SAFE
    read_only: bool = False
    config: LogConfig = LogConfig()
    progress: Callable[[str, int, int], None] | None = None
    allow_network_fs: bool = False


def open_options(  # noqa: PLR0913 - those of `open`
    *,
    durability: str = "sync",
    recovery: str = "safe",
    read_only: bool = False,
    config: LogConfig | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    allow_network_fs: bool = False,
    **settings: Any,
) -> OpenOptions:
    """Check the arguments of `open`; for one log or for many."""
    if config is not None:
        instance("config", config, LogConfig, "a LogConfig (single settings are keywords)")
    flag("read_only", read_only)
    flag("allow_network_fs", allow_network_fs)
    callback("progress", progress)
    return OpenOptions(
        durability=Durability.parse(durability),
        profile=_profile(recovery),
        read_only=read_only,
        config=(config or LogConfig()).with_changes(**settings),
        progress=progress,
        allow_network_fs=allow_network_fs,
    )


def open_partition(
    path: str | os.PathLike[str], options: OpenOptions, surroundings: Surroundings = ALONE
) -> UnifiedLog:
    """Do what `open` does, for who opens a log on behalf of others."""
    began = _core.monotonic_ns()
    full_path = absolute_path(path_text("path", path))
    config, read_only = options.config, options.read_only
    if not read_only:
        require_codec(codec_of(config))
    environment = surroundings.environment
    directory, topic_partition = open_partition_directory(
        full_path, read_only=read_only, environment=environment
    )
    parent = None
    lock = None
    try:
        parent = open_parent_directory(full_path, environment)
        if not read_only:
            check_file_system(directory, allowed=options.allow_network_fs)
            lock = PartitionLock.acquire(
                directory, parent, parent_is_locked=surroundings.parent_is_locked
            )
        report = RecoveryReport(mode=options.profile.value)
        codecs = codec_table(config.max_decompressed_batch_bytes, config.max_record_bytes)
        context = _core.SegmentContext(
            directory,
            codecs,
            writable=not read_only,
            heap_indexes=read_only,
            preallocate=config.preallocate,
            index_interval_bytes=config.index_interval_bytes,
            max_index_bytes=config.segment_index_bytes,
            segment_bytes=config.roll_bytes,
        )
        places = LogPlaces(
            directory, parent, topic_partition, parent_was_clean=surroundings.parent_was_clean
        )
        loader = ReadOnlyLoader if read_only else LogLoader
        loaded = loader(directory, places, context, report, options.progress).load()
        log = UnifiedLog(places, loaded, context, codecs, options, report, lock, surroundings)
        report.seconds = (_core.monotonic_ns() - began) / 1e9
    except BaseException:
        if lock is not None:
            lock.release()
        directory.close()
        if parent is not None:
            parent.close()
        raise
    return log


def _profile(recovery: str) -> Profile:
    if recovery != Profile.SAFE:
        raise IllegalArgumentError(
            f"recovery {recovery!r} does not exist yet: use 'safe'",
            found=repr(recovery),
            expected="'safe'",
        )
    return Profile.SAFE
