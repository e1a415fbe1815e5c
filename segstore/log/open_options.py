"""The arguments of `segstore.open`, checked before anything is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Unpack

from segstore.arguments import callback, flag, instance, path_text, seconds
from segstore.config.log_config import LogConfig, LogSettings, refuse_unknown
from segstore.config.topic_config import given_keys
from segstore.errors import IllegalArgumentError
from segstore.log.durability import Durability
from segstore.log.files.partition_directory import parse_directory_name
from segstore.log.files.partition_metadata_file import check_topic_id
from segstore.log.files.partition_path import absolute_path
from segstore.log.files.profile import Profile
from segstore.log.producers.producer_state_manager_config import ProducerStateManagerConfig
from segstore.log.remote_tier import RemoteLogReader

if TYPE_CHECKING:
    import os
    import uuid
    from collections.abc import Callable

    from segstore.types import TopicPartition

_DEFAULTS: Final = LogConfig()
INDEX_MODES: Final = ("heap", "mmap")


class OpenOptions(NamedTuple):
    """The arguments of `open`, checked; what they mean is said there."""

    durability: Durability = Durability(sync=True)
    profile: Profile = Profile.SAFE
    read_only: bool = False
    config: LogConfig = _DEFAULTS
    given: frozenset[str] = frozenset()
    """The keys of *config* that the caller has set."""
    progress: Callable[[str, int, int], None] | None = None
    allow_network_fs: bool = False
    replicated: bool = False
    state_dir: str | None = None
    topic_id: uuid.UUID | None = None
    producer_config: ProducerStateManagerConfig | None = None
    remote_log_reader: RemoteLogReader | None = None
    checksum_sidecar: bool = False
    index_mode: Literal["heap", "mmap"] = "heap"
    as_: TopicPartition | None = None
    lock_timeout: float = 0.0


class OpenKeywords(LogSettings, total=False):
    """The keywords of `open_dir`: those of `open` that are not for one log alone.

    Its ``config`` takes more than that of `open`.
    """

    durability: str
    recovery: Literal["safe", "kafka"]
    progress: Callable[[str, int, int], None] | None
    allow_network_fs: bool
    replicated: bool | None
    state_dir: str | os.PathLike[str] | None
    topic_id: uuid.UUID | None
    producer_config: ProducerStateManagerConfig | None
    remote_log_reader: RemoteLogReader | None
    checksum_sidecar: bool
    index_mode: Literal["heap", "mmap"] | None
    lock_timeout: float | None


_KNOWN: Final = frozenset({*OpenKeywords.__annotations__, "as_", "config", "read_only", "target"})


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
    remote_log_reader: RemoteLogReader | None = None,
    checksum_sidecar: bool = False,
    index_mode: Literal["heap", "mmap"] | None = None,
    as_: str | None = None,
    lock_timeout: float | None = None,
    **settings: Unpack[LogSettings],
) -> OpenOptions:
    """Check the arguments of `open`; for one log or for many."""
    refuse_unknown(settings, _KNOWN)
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
    flag("checksum_sidecar", checksum_sidecar)
    if checksum_sidecar and (read_only or profile is Profile.KAFKA):
        raise IllegalArgumentError(
            "checksum_sidecar is for a handle that writes in the safe profile: a reader makes no"
            " files, and recovery='kafka' none but Kafka's",
            found=f"read_only={read_only}, recovery={recovery!r}",
            expected="read_only=False, recovery='safe'",
        )
    given = given_keys(config, settings)
    config = (config or _DEFAULTS).with_changes(**settings)
    if remote_log_reader is not None:
        expected = "an object with the methods read, aborted_transactions, find_offset_by_timestamp"
        instance("remote_log_reader", remote_log_reader, RemoteLogReader, expected)
        config.check_local_retention()
    return OpenOptions(
        durability=Durability.parse(durability),
        profile=profile,
        read_only=read_only,
        config=config,
        given=given,
        progress=progress,
        allow_network_fs=allow_network_fs,
        replicated=profile is Profile.KAFKA if replicated is None else replicated,
        state_dir=None if state_dir is None else absolute_path(path_text("state_dir", state_dir)),
        topic_id=topic_id,
        producer_config=producer_config,
        remote_log_reader=remote_log_reader,
        checksum_sidecar=checksum_sidecar,
        index_mode=_index_mode(index_mode, profile),
        as_=None if as_ is None else parse_directory_name(as_),
        lock_timeout=0.0 if lock_timeout is None else seconds("lock_timeout", lock_timeout),
    )


def with_settings(
    options: OpenOptions, config: LogConfig | None, settings: LogSettings
) -> OpenOptions:
    """Return *options* with these settings of logs instead of those that it has, checked."""
    refuse_unknown(settings, LogSettings.__annotations__)
    checked = open_options(
        config=config,
        read_only=options.read_only,
        remote_log_reader=options.remote_log_reader,
        **settings,
    )
    return options._replace(config=checked.config, given=checked.given)


def _index_mode(asked: Literal["heap", "mmap"] | None, profile: Profile) -> Literal["heap", "mmap"]:
    """Return what was asked for; else Kafka's way in its profile, whose bytes are a broker's."""
    if asked is None:
        return "mmap" if profile is Profile.KAFKA else "heap"
    if asked not in INDEX_MODES:
        raise IllegalArgumentError(
            f"index_mode must be 'heap' or 'mmap', not {asked!r}",
            found=repr(asked),
            expected="'heap' or 'mmap'",
        )
    return asked


def _profile(recovery: str) -> Profile:
    try:
        return Profile(recovery)
    except ValueError:
        raise IllegalArgumentError(
            f"recovery must be 'safe', 'kafka' or 'salvage' - a copy at target=, by segstore.open -"
            f" not {recovery!r}",
            found=repr(recovery),
            expected="'safe', 'kafka' or 'salvage'",
        ) from None
