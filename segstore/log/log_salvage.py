"""Salvage: every batch of a damaged log that can be proven, copied into a new log.

The source is only read, and no lock is taken there [DUR-62, DUR-71]: of a log that somebody writes
meanwhile, what is there now is copied. The new log is built in a directory whose name says that it
may be deleted, as Kafka's does: after a crash the target is absent or valid.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

import segstore._core as _core
from segstore.arguments import path_text
from segstore.errors import (
    AlreadyExistsError,
    IllegalArgumentError,
    InvalidTopicError,
    NotALogError,
    SegstoreError,
)
from segstore.log.files.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    read_topic_id,
    write_offset,
)
from segstore.log.files.lock_waiting import waiting_for_lock
from segstore.log.files.partition_directory import (
    delete_directory_name,
    has_unique_id,
    parse_directory_name,
)
from segstore.log.files.partition_lock import PartitionLock
from segstore.log.files.partition_path import (
    absolute_path,
    check_file_system,
    likely_name,
    make_directory,
)
from segstore.log.files.stored_state import StoredState
from segstore.log.files.unknown_log_state import write_unknown_state
from segstore.log.log_environment import STANDALONE, LogEnvironment
from segstore.log.log_opener import open_partition_to_write
from segstore.log.open_options import OpenOptions, open_options
from segstore.log.recovery.salvage_report import SalvageReport
from segstore.log.salvage.salvage_source import SalvageSource
from segstore.log.salvage.salvage_target import SalvageTarget

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.config.log_config import LogConfig
    from segstore.log.unified_log import UnifiedLog
    from segstore.types import TopicPartition


def salvage(  # noqa: PLR0913 - each by its name
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    config: LogConfig | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    allow_network_fs: bool = False,
    as_: str | None = None,
    **settings: Any,
) -> SalvageReport:
    """Copy every batch of a damaged log that can be proven into a new log [DUR-62].

    A batch is copied byte for byte when its CRC is right and its offsets fit those of its
    neighbours. This includes batches after the damage at which an open ends the log. The new log
    has no byte of a batch that *source* does not have: salvage repairs no leader epoch and makes no
    transaction marker. No CRC covers offsets, leader epochs and the ends of transactions: the
    report lists those that no other file confirms. *source* is only read.

    Parameters
    ----------
    source, target : path
        *target* is a directory ``<topic>-<partition>`` and must not exist. After a crash too, it
        is complete or absent.
    config : LogConfig or None
        Kafka's topic settings, for the indexes of the new log.
    progress : callable or None
        Called with a phase, the work done and the work to do. An exception ends the salvage.
    allow_network_fs : bool
        Write on NFS, CIFS or FUSE.
    as_ : str or None
        Name ``<topic>-<partition>`` to use for *source*, as in `open`. None = its own name, or
        that of *target* when its own name is not one of a partition.
    **settings
        Fields of `LogConfig`, such as ``segment_bytes``.

    Returns
    -------
    SalvageReport
        What was copied, and the bytes and offsets of each loss with its reason.

    Raises
    ------
    LogNotFoundError, NotALogError, InvalidTopicError
        *source* is not a log, or *target* is not a partition's name.
    AlreadyExistsError
        *target* exists.
    CorruptLogError
        No batch can be proven, or *source* changed during the salvage.
    """
    options = open_options(
        config=config, progress=progress, allow_network_fs=allow_network_fs, as_=as_, **settings
    )
    log, report = salvage_and_open(source, target, options)
    log.close()
    return report


def salvage_and_open(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    options: OpenOptions,
    log_environment: LogEnvironment = STANDALONE,
) -> tuple[UnifiedLog, SalvageReport]:
    """Do what `salvage` does, and return the new log too, open; its report has the salvage's."""
    began = _core.monotonic_ns()
    source_path = absolute_path(path_text("path", source))
    target_path = absolute_path(path_text("target", target))
    topic_partition = _check_target(source_path, target_path)
    environment = log_environment.environment
    report = SalvageReport(source=source_path, target=target_path)
    above, name = os.path.split(target_path)
    with contextlib.ExitStack() as stack:
        as_ = options.as_ or _name_of_copy(source_path, topic_partition)
        found = SalvageSource(source_path, report, options.progress, environment, as_)
        stack.callback(found.close)
        parent = make_directory(above, environment)
        stack.callback(parent.close)
        if parent.exists(name):
            raise AlreadyExistsError(
                "a salvage makes a new log, and this path exists already: give a path where there"
                " is nothing",
                file=target_path,
                found="a file or directory",
                expected="nothing",
            )
        check_file_system(parent, allowed=options.allow_network_fs)
        building = delete_directory_name(topic_partition)
        directory = _core.Directory(f"{above}/{building}", environment, create=True)
        stack.callback(directory.close)
        try:
            acquire = partial(PartitionLock.acquire, directory, parent)
            lock = waiting_for_lock(
                options.lock_timeout,
                lambda: acquire(parent_is_locked=log_environment.parent_is_locked),
            )
            stack.callback(lock.release)
            _build(found, directory, topic_partition, report)
            parent.rename(building, name)
        except BaseException:
            with contextlib.suppress(SegstoreError):
                _remove(parent, directory, building)
            raise
        parent.sync(_core.Barrier.NEW_DIRECTORY)
    start = report.log_start_offset
    log = open_partition_to_write(
        target_path,
        options,
        log_environment._replace(
            found=StoredState(start, start, parent_is_clean=False, own_marker=None)
        ),
    )
    try:
        _complete(report, log)
    except BaseException:
        log.close_quietly()
        raise
    report.seconds = (_core.monotonic_ns() - began) / 1e9
    return log, report


def _name_of_copy(source: str, target: TopicPartition) -> TopicPartition | None:
    """Return what partition a directory is salvaged as whose name is of none: the target's."""
    try:
        parse_directory_name(os.path.split(source)[1])
    except (NotALogError, InvalidTopicError):
        return target
    return None


def _check_target(source: str, target: str) -> TopicPartition:
    above, name = os.path.split(target)
    try:
        topic_partition = parse_directory_name(name)
    except (NotALogError, InvalidTopicError) as error:
        below = f"{target}/{likely_name(os.path.split(source)[1])}"
        raise NotALogError(
            f"the new log is a directory <topic>-<partition>, which {name!r} is not; give {below}",
            file=target,
            found=repr(name),
            expected="<topic>-<partition>",
        ) from error
    if has_unique_id(name):
        raise NotALogError(
            f"{name} is the name of a directory that is being deleted or moved",
            file=target,
            found=name,
            expected="<topic>-<partition>",
        )
    real_source, real_above = os.path.realpath(source), os.path.realpath(above)
    if os.path.commonpath([real_source, real_above]) == real_source:
        raise IllegalArgumentError(
            "a salvage changes nothing in the damaged log: give a path outside of it",
            file=target,
            found=target,
            expected=f"a directory outside of {source}",
        )
    return topic_partition


def _build(
    found: SalvageSource,
    directory: _core.Directory,
    topic_partition: TopicPartition,
    report: SalvageReport,
) -> None:
    """Write segments and checkpoints, all of it on stable storage; indexes are for the open."""
    target = SalvageTarget(directory, found, report)
    target.copy()
    found.note_quarantined()
    try:
        topic_id = read_topic_id(found.directory)
    except SegstoreError as error:
        report.warnings.append(f"the topic id is lost: {error}")
    else:
        if topic_id is not None:
            content = found.directory.read_file(PARTITION_METADATA)
            directory.write_file_atomically(
                PARTITION_METADATA, content, _core.FileBarrier.PARTITION_METADATA
            )
    start = report.log_start_offset
    # with their names, those of the segments come to stable storage
    write_offset(directory, LOG_START_OFFSET_CHECKPOINT, topic_partition, start)
    write_unknown_state(directory)  # before what would say that it was lost
    write_offset(directory, RECOVERY_POINT_CHECKPOINT, topic_partition, start)


def _remove(parent: _core.Directory, directory: _core.Directory, name: str) -> None:
    """Leave nothing behind; what cannot be removed now has a name that says what it is."""
    if not parent.exists(name):
        return
    for file in directory.names(ordered=False):
        directory.unlink(file)
    parent.remove_directory(name)
    parent.sync(_core.Barrier.REMOVED_DIRECTORY)


def _complete(report: SalvageReport, log: UnifiedLog) -> None:
    """Take over what the new log shows of itself."""
    report.log_end_offset = log.log_end_offset
    report.segments = log.report.segments
    report.warnings += report.doubts()
    stable = log.last_stable_offset
    if stable < log.log_end_offset:
        is_whole = report.complete and not report.maybe_lost
        lost = "" if is_whole else ", and its end marker may be lost"
        command = f"segstore abort-transaction {shlex.quote(report.target)} --start-offset {stable}"
        report.warnings.append(
            f"a transaction is open from offset {stable} on{lost}:"
            " isolation='read_committed' reads no further. If its producer will not end it, run"
            f" `{command}`"
        )
    log.report.salvage = report
