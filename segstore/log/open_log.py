"""Opens, creates or salvages the log of one partition: `open`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from segstore.errors import IllegalArgumentError
from segstore.log.files.profile import Profile
from segstore.log.log_opener import open_partition
from segstore.log.log_salvage import salvage_and_open
from segstore.log.open_options import open_options

if TYPE_CHECKING:
    import os
    import uuid
    from collections.abc import Callable
    from typing import Literal, Unpack

    from segstore.config.log_config import LogConfig, LogSettings
    from segstore.log.producers.producer_state_manager_config import ProducerStateManagerConfig
    from segstore.log.remote_tier import RemoteLogReader
    from segstore.log.unified_log import UnifiedLog

SALVAGE: Final = "salvage"
"""A value of ``recovery=`` that is no profile: the handle is that of another log, and safe."""


def open(  # noqa: PLR0913 - the front door
    path: str | os.PathLike[str],
    *,
    durability: str = "sync",
    recovery: Literal["safe", "kafka", "salvage"] = "safe",
    read_only: bool = False,
    config: LogConfig | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    allow_network_fs: bool = False,
    replicated: bool | None = None,
    state_dir: str | os.PathLike[str] | None = None,
    topic_id: uuid.UUID | None = None,
    producer_config: ProducerStateManagerConfig | None = None,
    remote_log_reader: RemoteLogReader | None = None,
    checksum_sidecar: bool = False,
    index_mode: Literal["heap", "mmap"] | None = None,
    target: str | os.PathLike[str] | None = None,
    as_: str | None = None,
    lock_timeout: float | None = None,
    **settings: Unpack[LogSettings],
) -> UnifiedLog:
    """Open the log of one partition; create it when it does not exist.

    Parameters
    ----------
    path : path
        A directory ``<topic>-<partition>``, of this library or a broker's.
    durability : str
        When an append returns: ``sync``, ``messages=N``, ``seconds=S`` or ``none``.
    recovery : str
        ``safe``: an open never drops data below the recovery point on disk. From there on, the
        first bad batch ends the log. The rest is cut and kept in a ``.quarantine-`` file, and the
        report says so. It may contain good batches, and batches that were synced after the last
        write of the recovery point [DUR-50, DUR-51, DUR-59].
        ``kafka``: the open and the handle do what a broker does, its losses included [DUR-62].
        ``salvage``: as `segstore.salvage`, copy what can be proven of *path* into a new log at
        *target*, and open that one. *path* stays as it is.
    read_only : bool
        Take no lock and change nothing; another process may write the log.
    config : LogConfig or None
        Kafka's topic settings. What is not set here, nor by a keyword, is as the topic was given it
        in ``topics.json`` of the directory above.
    progress : callable or None
        Called with a phase, the work done and the work to do, during recovery.
    allow_network_fs : bool
        Write on NFS, CIFS or FUSE, where locks and syncs may not do what they promise [DUR-72].
    replicated : bool or None
        True: the caller moves the high watermark, which begins at the log start [UNI-4]. False:
        the high watermark is the log end. None = True only with ``recovery="kafka"``.
    state_dir : path or None
        With ``recovery="kafka"``: directory for the lock and the checkpoints of this partition
        alone. None = none are written; only the clean shutdown marker and the checkpoints of the
        log directory then say what was synced.
    topic_id : uuid.UUID or None
        Id of the topic, written to ``partition.metadata`` before the first batch. A log with
        another id is not opened [UNI-5].
    producer_config : ProducerStateManagerConfig or None
        When producers expire, and whether a transaction's first batch needs a
        `VerificationGuard`. Many logs may share one; it may change while they are open [PSM-36].
    remote_log_reader : RemoteLogReader or None
        Reads in remote storage, to which the caller copies segments. With it, a log with
        ``remote_storage_enable=True`` has a remote part [UNI-6].
    checksum_sidecar : bool
        After each roll, write a sidecar with checksums of all bytes of the sealed ``.log``, which
        `scrub` and `verify` compare. It also covers what a batch's CRC does not, such as the leader
        epoch [DUR-60]. Existing sidecars are kept correct in any case.
    index_mode : str or None
        ``heap`` (the default): a writer keeps its indexes in memory and writes them to their files.
        ``mmap`` (the default of ``recovery="kafka"``): a writer maps the files, as a broker does.
        This saves memory for old segments, but another process that cuts an index file ends this
        process by SIGBUS. Readers, and all logs on a network file system, use ``heap`` [DUR-25].
    target : path or None
        With ``recovery="salvage"``: path of the new log, which must not exist.
    as_ : str or None
        With *read_only* or ``recovery="salvage"``: name ``<topic>-<partition>`` to use for a
        directory with another name, such as the copy ``orders-0.bak``. If a directory with that
        name is beside it, the checkpoints of the log directory belong to that one and are not read.
    lock_timeout : float or None
        How long to wait, in seconds, while another writer has the log: one of another process, or
        of this one, which another thread may close. None or 0 = not at all.
    **settings
        Fields of `LogConfig`, such as ``segment_bytes=64 * 1024 * 1024``.

    Returns
    -------
    UnifiedLog
        ``report`` says what the open found and did. With *read_only* it is a `Log`: methods that
        change a log raise `LogReadOnlyError`.

    Raises
    ------
    LogNotFoundError
        There is no log at *path* to read or to salvage.
    NotALogError, InvalidTopicError
        *path* is not the directory of a partition.
    LogLockedError
        Another writer has the log open, and did not close it within *lock_timeout*.
    CorruptLogError
        Data below the recovery point is damaged or missing; ``read_only=True`` opens the log.
    CodecMissingError
        ``compression_type`` needs a library that is not installed; nothing was created.
    IllegalArgumentError
        A setting is unknown or out of range.
    """
    is_salvage = recovery == SALVAGE
    if (target is not None) != is_salvage or (is_salvage and read_only):
        raise IllegalArgumentError(
            "recovery='salvage' makes a new log at target=: give both, or neither",
            found=f"recovery={recovery!r}, target={target!r}, read_only={read_only!r}",
            expected="recovery='salvage' with a target",
        )
    if as_ is not None and not (read_only or is_salvage):
        raise IllegalArgumentError(
            "as_ is for reading: a log is written under the name of its directory",
            found=f"as_={as_!r}, read_only=False",
            expected="read_only=True",
        )
    options = open_options(
        durability=durability,
        recovery=Profile.SAFE.value if is_salvage else recovery,
        read_only=read_only,
        config=config,
        progress=progress,
        allow_network_fs=allow_network_fs,
        replicated=replicated,
        state_dir=state_dir,
        topic_id=topic_id,
        producer_config=producer_config,
        remote_log_reader=remote_log_reader,
        checksum_sidecar=checksum_sidecar,
        index_mode=index_mode,
        as_=as_,
        lock_timeout=lock_timeout,
        **settings,
    )
    if target is not None:
        return salvage_and_open(path, target, options)[0]
    # type checkers see a UnifiedLog in any case: overloads hide which argument is wrong
    return cast("UnifiedLog", open_partition(path, options))
