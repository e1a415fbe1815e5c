"""The front door: one partition's log, opened, made or salvaged."""

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

    from segstore.config import LogConfig, LogSettings
    from segstore.log.producers.producer_state_manager_config import ProducerStateManagerConfig
    from segstore.log.remote_tier import RemoteOffsetReader
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
    remote_offset_reader: RemoteOffsetReader | None = None,
    checksum_sidecar: bool = False,
    index_mode: Literal["heap", "mmap"] | None = None,
    target: str | os.PathLike[str] | None = None,
    as_: str | None = None,
    **settings: Unpack[LogSettings],
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
        synced after the recovery point was last written [DUR-50, DUR-51, DUR-59]. ``kafka``: this
        open, and all that the handle does, are a broker's, its losses included [DUR-62].
        ``salvage``: the log at *path* stays as it is; what can be proven of it is copied into a new
        one at *target*, which is opened, as `segstore.salvage` does it.
    read_only : bool
        Take no lock and change nothing; another process may be writing.
    config : LogConfig or None
        Kafka's topic settings.
    progress : callable or None
        Called with a phase, the work done and the work to do, while an unclean log is recovered.
    allow_network_fs : bool
        Write on NFS, CIFS or FUSE, where locks and syncs may not hold what they promise [DUR-72].
    replicated : bool or None
        True: the caller moves the high watermark, which is the log start at first [UNI-4]. False:
        it is the log end. None = True with ``recovery="kafka"`` only.
    state_dir : path or None
        With ``recovery="kafka"``: where lock and checkpoints of this partition go. None = there are
        none, and only the clean marker and the checkpoints of the log directory above say what was
        synced. Each partition has its own.
    topic_id : uuid.UUID or None
        Of the topic: written to ``partition.metadata`` before the first batch; an open of a log
        with another one fails [UNI-5].
    producer_config : ProducerStateManagerConfig or None
        When producers are forgotten, and whether a transaction's first batch needs a
        `VerificationGuard`; may be shared by many logs, and change while they are open [PSM-36].
    remote_offset_reader : RemoteOffsetReader or None
        Finds records by time in remote storage, to which the caller copies segments. Given, a log
        with ``remote_storage_enable=True`` has a part there [UNI-6].
    checksum_sidecar : bool
        Write the checksums of all bytes of a ``.log`` beside it, behind its roll, in a file that
        `scrub` and `verify` compare: also what no batch's checksum covers, the leader epoch above
        all [DUR-60]. Files that are there are kept true without it too.
    index_mode : str or None
        ``heap`` (the default): a writer's indexes are in memory and are written to their files.
        ``mmap`` (the default of ``recovery="kafka"``): they are shared mappings of these files, as
        a broker's, which saves memory where an old segment is seldom asked; but another process
        that cuts an index file ends this process by SIGBUS. On a network file system it is ``heap``
        in any case. A reader's indexes are in memory [DUR-25].
    target : path or None
        With ``recovery="salvage"``: where the new log is made; there must be nothing.
    as_ : str or None
        With *read_only* or ``recovery="salvage"``: read the directory as that of the partition
        ``<topic>-<partition>``, whatever its own name is, as of a copy ``orders-0.bak``. Where the
        directory of that name is beside it, the checkpoints above speak of that one, and are not
        read.
    **settings
        Fields of `LogConfig`: ``segment_bytes=64 * 1024 * 1024``.

    Returns
    -------
    UnifiedLog
        Its ``report`` says what was found and done. With *read_only* it is a `Log`, which has all
        that reads, and refuses what changes a log with `LogReadOnlyError`.

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
        remote_offset_reader=remote_offset_reader,
        checksum_sidecar=checksum_sidecar,
        index_mode=index_mode,
        as_=as_,
        **settings,
    )
    if target is not None:
        return salvage_and_open(path, target, options)[0]
    # type checkers see a UnifiedLog in any case: overloads hide which argument is wrong
    return cast("UnifiedLog", open_partition(path, options))
