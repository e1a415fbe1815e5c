"""Opening the log of one partition: settings, directory, lock, recovery, then the log itself."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import segstore._core as _core
from segstore.config import MAX_INT, LogConfig
from segstore.errors import CorruptCheckpointError, IllegalArgumentError
from segstore.log.directory.arguments import callback, flag, instance, path_text
from segstore.log.directory.checkpoints import read_topic_id
from segstore.log.directory.durability import Durability
from segstore.log.directory.holdings import Holdings
from segstore.log.directory.log_places import LogPlaces
from segstore.log.directory.partition_lock import PartitionLock
from segstore.log.directory.partition_metadata_file import (
    PartitionMetadataFile,
    check_topic_id,
    inconsistent_topic_id,
)
from segstore.log.directory.partition_path import (
    absolute_path,
    check_file_system,
    open_parent_directory,
    open_partition_directory,
)
from segstore.log.directory.profile import Profile
from segstore.log.loader.kafka_log_loader import KafkaLogLoader
from segstore.log.loader.log_loader import LogLoader
from segstore.log.loader.producer_recovery import recover_producers
from segstore.log.loader.read_only_loader import ReadOnlyLoader
from segstore.log.loader.recovery_report import RecoveryReport
from segstore.log.local.segment_contexts import segment_context
from segstore.log.producers.producer_state_manager import ProducerStateManager
from segstore.log.producers.producer_state_manager_config import ProducerStateManagerConfig
from segstore.log.surroundings import ALONE, Surroundings
from segstore.log.unified_log import UnifiedLog
from segstore.records.compression import codec_table, require_codec
from segstore.records.record_builder import codec_of

if TYPE_CHECKING:
    import os
    import uuid
    from collections.abc import Callable


class OpenOptions(NamedTuple):
    """The arguments of `open`, checked; what they mean is said there."""

    durability: Durability = Durability(sync=True)
    profile: Profile = Profile.SAFE
    read_only: bool = False
    config: LogConfig = LogConfig()
    progress: Callable[[str, int, int], None] | None = None
    allow_network_fs: bool = False
    replicated: bool = False
    state_dir: str | None = None
    topic_id: uuid.UUID | None = None
    producer_config: ProducerStateManagerConfig | None = None


def open_options(  # noqa: PLR0913 - those of `open`
    *,
    durability: str = "sync",
    recovery: str = "safe",
    read_only: bool = False,
    config: LogConfig | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    allow_network_fs: bool = False,
    replicated: bool | None = None,
    state_dir: str | os.PathLike[str] | None = None,
    topic_id: uuid.UUID | None = None,
    producer_config: ProducerStateManagerConfig | None = None,
    **settings: Any,
) -> OpenOptions:
    """Check the arguments of `open`; for one log or for many."""
    if config is not None:
        instance("config", config, LogConfig, "a LogConfig (single settings are keywords)")
    flag("read_only", read_only)
    flag("allow_network_fs", allow_network_fs)
    callback("progress", progress)
    profile = _profile(recovery)
    if replicated is not None:
        flag("replicated", replicated)
    if topic_id is not None:
        check_topic_id(topic_id)
    if producer_config is not None:
        expected = "a ProducerStateManagerConfig"
        instance("producer_config", producer_config, ProducerStateManagerConfig, expected)
    if state_dir is not None and profile is Profile.SAFE:
        raise IllegalArgumentError(
            "state_dir is for recovery='kafka': a safe log keeps its state beside the segments",
            found=f"recovery={recovery!r}",
            expected="recovery='kafka'",
        )
    if state_dir is not None and not path_text("state_dir", state_dir):
        raise IllegalArgumentError("state_dir is empty", found="''", expected="a directory")
    return OpenOptions(
        durability=Durability.parse(durability),
        profile=profile,
        read_only=read_only,
        config=(config or LogConfig()).with_changes(**settings),
        progress=progress,
        allow_network_fs=allow_network_fs,
        replicated=profile is Profile.KAFKA if replicated is None else replicated,
        state_dir=None if state_dir is None else absolute_path(path_text("state_dir", state_dir)),
        topic_id=topic_id,
        producer_config=producer_config,
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
        full_path,
        read_only=read_only,
        environment=environment,
        live_only=options.profile is Profile.SAFE,
    )
    holdings = Holdings(directory)
    try:
        parent = holdings.parent = open_parent_directory(full_path, environment)
        is_kafka = options.profile is Profile.KAFKA
        if options.state_dir is not None:
            holdings.home = _core.Directory(options.state_dir, environment, create=True)
        home = holdings.home if is_kafka else directory
        if not read_only:
            check_file_system(directory, allowed=options.allow_network_fs)
            holdings.lock = PartitionLock.acquire(
                directory, parent, parent_is_locked=surroundings.parent_is_locked, home=home
            )
        report = RecoveryReport(mode=options.profile.value)
        codecs = _codecs_for(options)
        context = segment_context(
            directory, codecs, config, options.profile, writable=not read_only
        )
        places = LogPlaces(
            directory,
            parent,
            topic_partition,
            parent_was_clean=surroundings.parent_was_clean,
            profile=options.profile,
            home=home,
            found=surroundings.found,
        )
        arguments = (directory, places, context, report, options.progress)
        new_producers = partial(
            ProducerStateManager,
            str(topic_partition),
            directory,
            options.producer_config or surroundings.producer_config,
            max_transaction_timeout_ms=surroundings.max_transaction_timeout_ms,
            kafka_profile=is_kafka,
        )
        if read_only:
            loaded = ReadOnlyLoader(*arguments).load()
        elif is_kafka:
            loaded = KafkaLogLoader(
                *arguments,
                codecs=codecs,
                new_producer_state=new_producers,
                now_ms=directory.wall_clock_ms(),
            ).load()
        else:
            loaded = LogLoader(*arguments).load()
            producers = recover_producers(loaded, new_producers, codecs, directory, report)
            loaded = loaded._replace(producer_state=producers)
            if loaded.moves_recovery_point:
                places.write_recovery_point(loaded.recovery_point)
        loaded = loaded._replace(topic_id=_topic_id(directory, options, report))
        log = UnifiedLog(places, loaded, context, codecs, options, report, holdings, surroundings)
        report.seconds = (_core.monotonic_ns() - began) / 1e9
    except BaseException:
        holdings.let_go()
        raise
    return log


def _topic_id(
    directory: _core.Directory, options: OpenOptions, report: RecoveryReport
) -> uuid.UUID | None:
    """Read ``partition.metadata``; one that cannot be read is a warning, or Kafka's failure.

    The id of another topic than was asked for is an error [UNI-5].
    """
    expected = options.topic_id
    try:
        found = read_topic_id(directory)
    except CorruptCheckpointError as error:
        if options.profile is Profile.KAFKA or expected is not None:
            raise
        report.warnings.append(str(error))
        return None
    if expected is not None and found not in {None, expected}:
        raise inconsistent_topic_id(PartitionMetadataFile(directory).path, found, expected)
    return found


def _codecs_for(options: OpenOptions) -> _core.CodecTable:
    """Return the codecs with the limits of the profile: Kafka knows none [DUR-62]."""
    config = options.config
    if options.profile is Profile.KAFKA:
        return codec_table(MAX_INT, MAX_INT)
    return codec_table(config.max_decompressed_batch_bytes, config.max_record_bytes)


def _profile(recovery: str) -> Profile:
    try:
        return Profile(recovery)
    except ValueError:
        expected = " or ".join(repr(profile.value) for profile in Profile)
        raise IllegalArgumentError(
            f"recovery must be {expected}, not {recovery!r}",
            found=repr(recovery),
            expected=expected,
        ) from None
