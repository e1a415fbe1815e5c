"""Opening the log of one partition: settings, directory, lock, recovery, then the log itself."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import segstore._core as _core
from segstore.arguments import path_text
from segstore.errors import (
    CorruptCheckpointError,
    IllegalArgumentError,
    LimitExceededError,
    LogNotFoundError,
    ReadIOError,
    SegstoreError,
)
from segstore.log.access import LogAccess
from segstore.log.closing import Closing
from segstore.log.codec_limits import codecs_of
from segstore.log.files.checkpoint_store import CheckpointStore
from segstore.log.files.checkpoints import UNREADABLE_TO_READERS, read_topic_id
from segstore.log.files.lock_waiting import waiting_for_lock
from segstore.log.files.ownership import ownership_warnings
from segstore.log.files.parent_directory_sync import sync_directory_names
from segstore.log.files.partition_lock import PartitionLock
from segstore.log.files.partition_metadata_file import (
    PartitionMetadataFile,
    inconsistent_topic_id,
)
from segstore.log.files.partition_path import (
    absolute_path,
    check_file_system,
    make_directory,
    open_parent_directory,
    open_partition_directory,
    refuse_unfinished_import,
)
from segstore.log.files.profile import Profile
from segstore.log.files.recovery_advice import recovery_advice
from segstore.log.files.stale_partition_state import remove_stale_checkpoints, remove_stale_state
from segstore.log.follower import LogFollower
from segstore.log.kafka_profile.kafka_log_loader import KafkaLogLoader
from segstore.log.local.segment import segment_context
from segstore.log.log_environment import STANDALONE, LogEnvironment
from segstore.log.log_parts import log_parts
from segstore.log.open_handles import OpenHandles
from segstore.log.producers.producer_state_manager import ProducerStateManager
from segstore.log.recovery.opening import load_to_write
from segstore.log.recovery.plan import RemoteRecords
from segstore.log.recovery.producer_recovery import recover_producers
from segstore.log.recovery.recovery_report import RecoveryReport
from segstore.log.recovery.view import LogView
from segstore.log.remote_tier import is_remote_log_enabled, may_have_copies
from segstore.log.settings_above import config_above
from segstore.log.unified_log import Log, UnifiedLog
from segstore.records.compression import require_codec
from segstore.records.record_builder import codec_of

if TYPE_CHECKING:
    import os
    import uuid

    from segstore.log.local.observed_end import ObservedEnd
    from segstore.log.log_parts import LogParts
    from segstore.log.open_options import OpenOptions
    from segstore.types import TopicPartition


def open_partition(
    path: str | os.PathLike[str], options: OpenOptions, log_environment: LogEnvironment = STANDALONE
) -> Log:
    """Do what `open` does, for who opens a log on behalf of others."""
    # each try looks at the path again: who has had the lock may have deleted the directory
    return waiting_for_lock(
        options.lock_timeout, lambda: _open_partition(path, options, log_environment)
    )


def _open_partition(
    path: str | os.PathLike[str], options: OpenOptions, log_environment: LogEnvironment
) -> Log:
    began = _core.monotonic_ns()
    full_path = absolute_path(path_text("path", path))
    read_only = options.read_only
    _require_codec(options)
    environment = log_environment.environment
    open_handles, topic_partition = _open_directories(full_path, options, log_environment)
    directory = open_handles.directory
    report = RecoveryReport(mode=options.profile.value)
    try:
        parent = open_handles.parent = open_parent_directory(
            full_path, environment, topic_partition if read_only else None
        )
        is_kafka = options.profile is Profile.KAFKA
        home = open_handles.home if is_kafka else directory
        if not read_only:
            _take_lock(open_handles, home, options, log_environment)
        if not log_environment.fills_import:
            refuse_unfinished_import(directory)
        options = _with_settings(
            options, parent, topic_partition.topic, directory, log_environment, report
        )
        config = options.config
        # loading removes the clean marker; a broker has loaded a log when it looks at its topic
        topic_id = None if is_kafka else _topic_id(directory, options, report)
        codecs = codecs_of(config, options.profile)
        context = segment_context(
            directory,
            codecs,
            config,
            writable=not read_only,
            kafka_profile=is_kafka,
            heap_indexes=_has_heap_indexes(directory, options, report),
        )
        checkpoint_store = CheckpointStore(
            directory,
            parent,
            topic_partition,
            parent_was_clean=log_environment.parent_was_clean,
            profile=options.profile,
            home=home,
            found=log_environment.found,
            above=log_environment.checkpoints_above,
            is_for_writing=not read_only,
        )
        arguments = (directory, checkpoint_store, context, report)
        is_tiered = is_remote_log_enabled(
            config,
            topic_partition.topic,
            system_enabled=options.remote_log_reader is not None,
        )
        new_producers = partial(
            ProducerStateManager,
            str(topic_partition),
            directory,
            options.producer_config or log_environment.producer_config,
            max_transaction_timeout_ms=log_environment.max_transaction_timeout_ms,
            kafka_profile=is_kafka,
        )
        if read_only:
            loaded = LogView(*arguments, remote_log_enabled=is_tiered).load()
        elif is_kafka:
            loaded = KafkaLogLoader(
                *arguments,
                options.progress,
                codecs=codecs,
                new_producer_state=new_producers,
                now_ms=directory.wall_clock_ms(),
                remote_log_enabled=is_tiered,
            ).load()
        else:
            remote = RemoteRecords(
                is_tiered,
                config.remote_log_delete_on_disable,
                may_have_copies(config, topic_partition.topic),
            )
            loaded = load_to_write(*arguments, options.progress, remote)
            loaded = loaded._replace(
                producer_state=recover_producers(loaded, new_producers, codecs, directory, report)
            )
            if loaded.restart_marker is not None:  # behind it no other step needs what it says
                loaded.restart_marker.remove()
            if loaded.moves_recovery_point:
                checkpoint_store.write_recovery_point(loaded.recovery_point)
            report.warnings += ownership_warnings(directory.path, environment)
        if is_kafka:
            topic_id = _topic_id(directory, options, report)
        loaded = loaded._replace(topic_id=topic_id)
        parts = log_parts(
            checkpoint_store,
            loaded,
            context,
            codecs,
            options,
            report,
            open_handles,
            log_environment,
        )
        log = (
            UnifiedLog(parts)
            if parts.observed_end is None
            else _log_to_read(parts, parts.observed_end)
        )
        report.seconds = (_core.monotonic_ns() - began) / 1e9
    except BaseException as error:
        _explain(error, report, full_path, is_for_writing=not read_only)
        open_handles.close()
        raise
    return log


def _take_lock(
    open_handles: OpenHandles,
    home: _core.Directory | None,
    options: OpenOptions,
    log_environment: LogEnvironment,
) -> None:
    """Keep other writers out, and bring the names on the way to the directory to the disk."""
    directory, parent = open_handles.directory, open_handles.parent
    check_file_system(directory, allowed=options.allow_network_fs)
    open_handles.lock = PartitionLock.acquire(
        directory, parent, parent_is_locked=log_environment.parent_is_locked, home=home
    )
    if options.profile is not Profile.KAFKA and log_environment.postponed is None:
        sync_directory_names(
            directory,
            parent,
            log_environment.environment,
            parent_is_locked=log_environment.parent_is_locked,
        )


def _explain(
    error: BaseException, report: RecoveryReport, path: str, *, is_for_writing: bool
) -> None:
    """Add what the open had found, and how the records are read that the disk gives out."""
    report.add_notes_to(error)
    if isinstance(error, ReadIOError) and is_for_writing:
        error.go_on(None, recovery_advice(path))


def open_partition_to_write(
    path: str | os.PathLike[str], options: OpenOptions, log_environment: LogEnvironment = STANDALONE
) -> UnifiedLog:
    """As `open_partition`, for options without ``read_only``."""
    log = open_partition(path, options, log_environment)
    if not isinstance(log, UnifiedLog):
        log.close()
        raise IllegalArgumentError(
            "a log is to be written, and was opened to be read",
            found=f"read_only={options.read_only}",
            expected="read_only=False",
        )
    return log


def _log_to_read(parts: LogParts, observed_end: ObservedEnd) -> Log:
    """Return a handle that reads, and follows what another process writes."""
    parts.remote.show(parts.options.config, parts.local_log, parts.offsets)
    follower = LogFollower(parts, observed_end)
    access = LogAccess(parts.checkpoint_store, None, parts.log_environment.failures)
    return Log(parts, access, Closing(parts, access), follower, follower)


def _open_directories(
    path: str, options: OpenOptions, log_environment: LogEnvironment
) -> tuple[OpenHandles, TopicPartition]:
    """Open the partition's directory and the one for its state, or make them.

    That for the state comes first: where it cannot be made, nothing else was.
    """
    home, environment = None, log_environment.environment
    if options.state_dir is not None:
        home = make_directory(options.state_dir, environment)
    try:
        directory, topic_partition = open_partition_directory(
            path,
            read_only=options.read_only,
            environment=environment,
            as_broker=options.profile is Profile.KAFKA,
            before_making=partial(_forget_older, path, options, log_environment),
            as_=options.as_,
        )
    except BaseException:
        if home is not None:
            home.close()
        raise
    if log_environment.postponed is not None:
        log_environment.postponed.add(directory)
    if home is not None and home.identity == directory.identity:  # by another path
        home.close()
        home = directory
    return OpenHandles(directory, home=home), topic_partition


def _forget_older(
    path: str,
    options: OpenOptions,
    log_environment: LogEnvironment,
    topic_partition: TopicPartition,
) -> None:
    """Remove what is left of an older partition of that name, before there is a directory.

    Raises
    ------
    LogNotFoundError
        None is to be made.
    """
    if not log_environment.makes_directory:
        raise LogNotFoundError("there is no such directory", file=path)
    environment = log_environment.environment
    if log_environment.checkpoints_above is not None:
        log_environment.checkpoints_above.forget([topic_partition])
    else:
        remove_stale_checkpoints(path, topic_partition, environment)
    if options.state_dir is not None:
        remove_stale_state(options.state_dir, topic_partition, environment)


def _with_settings(  # noqa: PLR0913 - where they are, and for what
    options: OpenOptions,
    parent: _core.Directory | None,
    topic: str,
    directory: _core.Directory,
    log_environment: LogEnvironment,
    report: RecoveryReport,
) -> OpenOptions:
    """Return the options with what the topic was given [DUR-128]."""
    if parent is None or log_environment.has_settings:
        return options
    config = config_above(options, parent, topic, directory, report.warnings)
    options = options._replace(config=config)
    _require_codec(options)
    return options


def _require_codec(options: OpenOptions) -> None:
    """Raise where the codec of appends is missing, and there may be appends."""
    if not options.read_only:
        require_codec(codec_of(options.config))


def _has_heap_indexes(
    directory: _core.Directory, options: OpenOptions, report: RecoveryReport
) -> bool:
    """Return whether indexes are in memory: on a network file system whatever was asked for."""
    if options.read_only or options.index_mode == "heap":
        return True
    if not directory.is_network_file_system():
        return False
    report.warnings.append(
        f"{directory.path} is on a network file system: index_mode='mmap' is not used there, the"
        " indexes are in memory"
    )
    return True


def _topic_id(
    directory: _core.Directory, options: OpenOptions, report: RecoveryReport
) -> uuid.UUID | None:
    """Read ``partition.metadata``; one that cannot be read is a warning, or Kafka's failure.

    An open for writing refuses a file that the disk does not give out, and what is no file. The id
    of another topic than was asked for is an error [UNI-5].
    """
    expected = options.topic_id
    unreadable: tuple[type[SegstoreError], ...] = (CorruptCheckpointError, LimitExceededError)
    if options.read_only:
        unreadable = UNREADABLE_TO_READERS
    try:
        found = read_topic_id(directory)
    except unreadable as error:
        if options.profile is Profile.KAFKA or expected is not None:
            raise
        report.warnings.append(str(error))
        return None
    if expected is not None and found not in {None, expected}:
        raise inconsistent_topic_id(PartitionMetadataFile(directory).path, found, expected)
    return found
