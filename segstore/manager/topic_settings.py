"""The settings of the topics of a log directory: what each log goes by, and where that comes from.

They are in ``topics.json``; those of a broker's topics are in its metadata log. Source:
[CFG-37…CFG-54, MGR-25], DESIGN D16.
"""

from __future__ import annotations

import logging
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from segstore._core import Directory
from segstore.config.topic_properties import check_change, default_values
from segstore.errors import (
    AlreadyExistsError,
    IllegalStateError,
    InvalidTopicError,
    LogNotFoundError,
    NotALogError,
    SegstoreError,
)
from segstore.log.files.broker_metadata import UNREADABLE_METADATA
from segstore.log.files.checkpoints import LOG_START_OFFSET_CHECKPOINT, UNREADABLE_TO_READERS
from segstore.log.files.log_directory_checkpoints import LogDirectoryCheckpoints
from segstore.log.files.partition_directory import (
    LOG_FILE_SUFFIX,
    MAX_NAME_LENGTH,
    directory_name,
    is_deleted_directory_name,
    parse_directory_name,
    segment_files,
)
from segstore.log.files.profile import Profile
from segstore.log.files.topic_names import CLUSTER_METADATA_TOPIC, REMOTE_LOG_METADATA_TOPIC
from segstore.log.files.topics_file import UNREADABLE_TOPICS, TopicState, read_topics
from segstore.log.settings_above import REFUSED_SETTINGS, id_of_partition, older_settings
from segstore.manager.directory_metadata_topic import NEVER_CLEANED
from segstore.manager.topic_description import TopicDescription, settings_of
from segstore.manager.topic_limits import GivenSettings, config_of_topic
from segstore.records.compression import require_codec
from segstore.records.record_builder import codec_of
from segstore.types import TopicPartition

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Mapping, Sequence

    from segstore.config.log_config import LogConfig
    from segstore.log.files.broker_metadata import BrokerMetadata
    from segstore.log.files.topics_file import TopicEntry
    from segstore.log.open_options import OpenOptions
    from segstore.manager.directory_metadata import DirectoryMetadata
    from segstore.manager.partition_listing import PartitionListing

_log = logging.getLogger(__name__)


class TopicSettings:
    """What a manager knows of its topics.

    Parameters
    ----------
    directory : Directory
        The log directory.
    listing : PartitionListing
        Its partitions, as they are now.
    options : OpenOptions
        Those of the manager: their settings count where a topic was given none.
    metadata : DirectoryMetadata
        What a broker's metadata log says of topics.
    """

    def __init__(
        self,
        directory: Directory,
        listing: PartitionListing,
        options: OpenOptions,
        metadata: DirectoryMetadata,
    ) -> None:
        self._directory = directory
        self._listing = listing
        self._metadata = metadata
        self._options: OpenOptions
        self._configs: tuple[OpenOptions, dict[object, LogConfig]]
        """By what topics were given, for these options: most topics were given the same."""
        self.use_options(options)

    def use_options(self, options: OpenOptions) -> None:
        """Let the settings of *options* count where a topic was given none [MGR-97]."""
        self._options = options
        self._configs = options, {}

    # ---- what logs go by -------------------------------------------------------------------------

    def config_of(self, topic_partition: TopicPartition) -> LogConfig:
        """Return what a log goes by; it has no limit where its settings cannot be read.

        A log of a broker whose log start lies below its first file begins in remote storage. Where
        no settings say so, it would be taken for whole here, and the rest would expire there
        [TIER-5, DUR-143].
        """
        config = self._given_config_of(topic_partition)
        ends_remote_part = config.remote_log_delete_on_disable or config.remote_storage_enable
        if (
            ends_remote_part
            or self._options.profile is not Profile.SAFE
            or not self._begins_in_remote_storage(topic_partition)
        ):
            return config
        return config.with_changes(remote_storage_enable=True)

    def _begins_in_remote_storage(self, topic_partition: TopicPartition) -> bool:
        listed = self._listing.last or self._listing.current()
        if REMOTE_LOG_METADATA_TOPIC not in listed.topics:
            return False
        checkpoints = LogDirectoryCheckpoints(self._directory)
        start = checkpoints.offset(LOG_START_OFFSET_CHECKPOINT, topic_partition)
        if start is None:
            return False
        path = f"{self._directory.path}/{directory_name(topic_partition)}"
        with (
            suppress(LogNotFoundError),
            closing(Directory(path, self._directory.environment)) as directory,
        ):
            files = segment_files(directory.names())
            return start < min(
                (one.offset for one in files if one.kind == LOG_FILE_SUFFIX), default=0
            )
        return False

    def _given_config_of(self, topic_partition: TopicPartition) -> LogConfig:
        topic, number = topic_partition
        if topic == CLUSTER_METADATA_TOPIC:  # its records go with snapshots alone [RAFT-41]
            return self._config(None)
        try:
            metadata = self._metadata.get()
        except UNREADABLE_METADATA:  # reported when it was read
            return self._config(None)
        if metadata is not None and metadata.gives_settings(topic, self._id_in(topic, number)):
            return self._usable_config(topic, _of_broker(metadata, topic))
        try:
            entry = read_topics(self._directory).get(topic)
        except UNREADABLE_TOPICS:  # reported by the listing
            return self._config(None)
        if entry is not None and not entry.counts_for(self._id_in(topic, number)):
            _log.warning("%s: %s", self._directory.path, older_settings(topic))
            entry = None
        return self._usable_config(topic, _of_entry(topic, entry))

    def configs_of(self, topics: Iterable[str]) -> dict[str, LogConfig]:
        """Return what the logs of topics go by that have the ids which are known of the topics.

        Raises
        ------
        SegstoreError, OSError
            The metadata log, or ``topics.json``, cannot be read.
        """
        metadata, entries = self._metadata.get(), read_topics(self._directory)
        found: dict[str, LogConfig] = {}
        for topic in topics:
            given: GivenSettings | None = _of_entry(topic, entries.get(topic))
            if topic == CLUSTER_METADATA_TOPIC:
                given = None
            elif metadata is not None and metadata.has_topic(topic):
                given = _of_broker(metadata, topic)
            found[topic] = self._usable_config(topic, given)
        return found

    # ---- topics ----------------------------------------------------------------------------------

    def describe(self, name: str, numbers: Sequence[int]) -> TopicDescription:
        """Return a topic's id, its partitions, and each setting with where it comes from."""
        topic_id = self.topic_id_of(name, numbers)
        metadata = self._metadata.get()
        if metadata is not None and metadata.owns(name, topic_id):
            is_given = metadata.gives_settings(name, topic_id)
            given = _of_broker(metadata, name) if is_given else GivenSettings()
            topic_id = metadata.id_of(name)
        else:
            entry = read_topics(self._directory).get(name)
            if entry is not None and not entry.counts_for(topic_id):
                entry = None
            given = _of_entry(name, entry)
            if topic_id is None and entry is not None:
                topic_id = entry.topic_id
        options = self._options
        opened = options.config.to_values()
        directory = {key: opened[key] for key in options.given if key in opened}
        settings = tuple(settings_of(given, directory, options.profile))
        return TopicDescription(name, topic_id, tuple(numbers), settings)

    def topic_id_of(self, topic: str, numbers: Sequence[int]) -> uuid.UUID | None:
        """Return the id that the partitions have; None where none has one that can be read."""
        return next((one for n in numbers if (one := self._id_in(topic, n)) is not None), None)

    def partitions_count(self, name: str) -> int:
        """Return how many partitions a topic has, also elsewhere; 0 where there is none.

        A broker's metadata log says so, else ``topics.json``, else the highest number here.

        Raises
        ------
        SegstoreError, OSError
            One of them cannot be read.
        """
        numbers = self._listing.current().topics.get(name, ())
        here = max(numbers) + 1 if numbers else 0
        metadata = self._metadata.get()
        if metadata is not None and (not numbers or self._is_owned(metadata, name, numbers)):
            return max(here, metadata.partitions_count(name))
        entry = read_topics(self._directory).get(name)
        return here if entry is None else max(here, entry.partitions)

    def may_be_here(self, topic_partition: TopicPartition, topic_id: uuid.UUID) -> bool:
        """Whether a directory is, or may be, that of a partition of the topic with this id.

        One that was set aside counts too, and one whose id cannot be read. Where the directory,
        ``topics.json`` or the metadata log cannot be read, every partition may be here.
        """
        try:
            self._metadata.get()
            read_topics(self._directory)
            return any(
                self._id_of(name) in {topic_id, None}
                for name in self._directory.names(ordered=False)
                if _is_named_for(name, topic_partition) and not is_deleted_directory_name(name)
            )
        except (SegstoreError, OSError) as error:
            _log.warning(
                "%s: it is not known whether %s was deleted: %s",
                self._directory.path,
                topic_partition,
                error,
            )
            return True

    def was_deleted(self, topic_partition: TopicPartition, topic_id: uuid.UUID) -> bool:
        """Whether a partition that is not here was deleted here; else it was moved away, perhaps.

        Its topic is in ``topics.json`` no more, or is being deleted. Or a directory of it waits for
        its removal.

        Raises
        ------
        SegstoreError
            The log directory, or ``topics.json``, cannot be read.
        """
        entry = read_topics(self._directory).get(topic_partition.topic)
        if entry is None or entry.topic_id != topic_id or entry.state is TopicState.DELETING:
            return True
        return any(
            self._id_of(name) in {topic_id, None}
            for name in self._directory.names(ordered=False)
            if _is_named_for(name, topic_partition) and is_deleted_directory_name(name)
        )

    def _id_in(self, topic: str, number: int) -> uuid.UUID | None:
        return self._id_of(directory_name(TopicPartition(topic, number)))

    def _id_of(self, name: str) -> uuid.UUID | None:
        path = f"{self._directory.path}/{name}"
        with (
            suppress(LogNotFoundError, *UNREADABLE_TO_READERS),
            closing(Directory(path, self._directory.environment)) as directory,
        ):
            return id_of_partition(directory)
        return None

    # ---- a broker's topics -----------------------------------------------------------------------

    def strays(self) -> dict[TopicPartition, str]:
        """Return the stray partitions, each with the reason [MGR-26].

        None of them without a metadata log.
        """
        metadata = self._metadata.get()
        if metadata is None:
            return {}
        reasons = {
            one: metadata.why_stray(one, self._id_in(*one))
            for one in self._listing.current().partitions
        }
        return {one: reason for one, reason in reasons.items() if reason is not None}

    def refuse_topic_of_broker(self, name: str) -> None:
        """Raise where a metadata log has the settings of a topic: a change here would not count."""
        metadata = self._metadata.get()
        numbers = self._listing.current().topics.get(name, ())
        if metadata is not None and self._is_owned(metadata, name, numbers):
            raise IllegalStateError(
                f"topic {name!r} belongs to the cluster of this metadata log: change it there, with"
                " Kafka's tools. If the directory is not a broker's any more, move the metadata"
                " log away first",
                file=metadata.path,
                found=f"topic {name!r}",
                expected="a topic that the metadata log does not have",
            )

    def refuse_name_of_broker(self, name: str) -> None:
        """Raise where the cluster of a metadata log has a topic of that name, here or elsewhere."""
        metadata = self._metadata.get()
        if metadata is not None and metadata.has_topic(name):
            raise AlreadyExistsError(
                f"the cluster has a topic {name!r}", file=metadata.path, found=f"topic {name!r}"
            )

    def refuse_first_remote_copy(self) -> None:
        """Raise where a metadata log is there: nothing noted yet what is in remote storage.

        A topic of ours for it would be stray to the broker. It would make an empty one, and what
        was deleted here would be gone for it [TIER-21].
        """
        metadata = self._metadata.get()
        if metadata is not None:
            raise IllegalStateError(
                "the cluster of this metadata log would not know what is in remote storage: start"
                " the broker once with remote.log.storage.system.enable=true. If the directory is"
                " not a broker's any more, move the metadata log away first",
                file=metadata.path,
                found=f"no partition of {REMOTE_LOG_METADATA_TOPIC} in the directory",
                expected=f"the cluster's partitions of {REMOTE_LOG_METADATA_TOPIC}",
            )

    def _is_owned(self, metadata: BrokerMetadata, topic: str, numbers: Sequence[int]) -> bool:
        """Whether the metadata log speaks of the topic here: of one of these partitions."""
        return metadata.has_topic(topic) and any(
            metadata.owns(topic, self._id_in(topic, number)) for number in numbers
        )

    # ---- changes ---------------------------------------------------------------------------------

    def check(self, properties: Mapping[str, str], existing: Mapping[str, str]) -> None:
        """Check what a topic is to be given: by Kafka's rules, and that a log here takes it."""
        is_on = self._options.remote_log_reader is not None
        defaults = {**default_values(), **self._config(GivenSettings()).to_values()}
        check_change(properties, existing, defaults, is_tiered_system_on=is_on)
        require_codec(codec_of(self._config(GivenSettings(properties))))

    def _usable_config(self, topic: str, given: GivenSettings | None) -> LogConfig:
        """Return what logs go by; a setting that is refused counts as one that cannot be read."""
        try:
            return self._config(given)
        except REFUSED_SETTINGS as error:
            _log.warning("the settings of topic %r are unknown: %s", topic, error)
        return self._config(None)

    def _config(self, given: GivenSettings | None) -> LogConfig:
        key = None
        if given is not None:
            of_topic, of_broker = map(frozenset, (given.topic.items(), given.broker.items()))
            key = of_topic, of_broker, given.metadata_log
        options, configs = self._configs
        config = configs.get(key)
        if config is None:
            config = configs[key] = config_of_topic(options, given)
        return config


def _is_named_for(name: str, topic_partition: TopicPartition) -> bool:
    """Whether a directory has the name of a partition; the topic is cut in the longest names."""
    with suppress(NotALogError, InvalidTopicError):
        topic, number = parse_directory_name(name)
        is_cut = len(name) == MAX_NAME_LENGTH and topic_partition.topic.startswith(topic)
        return number == topic_partition.partition and (topic == topic_partition.topic or is_cut)
    return False


def _of_broker(metadata: BrokerMetadata, topic: str) -> GivenSettings:
    return GivenSettings(
        metadata.topic_properties(topic), metadata.broker_properties, metadata.path
    )


def _of_entry(topic: str, entry: TopicEntry | None) -> GivenSettings:
    given = {} if entry is None else entry.config
    if topic == REMOTE_LOG_METADATA_TOPIC:  # no limit of the log directory deletes what it says
        given = {**NEVER_CLEANED, **given}
    return GivenSettings(given)
