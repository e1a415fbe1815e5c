"""The settings of the topics of a log directory: what each log goes by, and where that comes from.

They are in ``topics.json``. Source: [CFG-37…CFG-54], DESIGN D16.
"""

from __future__ import annotations

import logging
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from segstore._core import Directory
from segstore.config.topic_properties import check_change, default_values
from segstore.errors import LogNotFoundError
from segstore.log.files.checkpoints import UNREADABLE_TO_READERS
from segstore.log.files.partition_directory import directory_name
from segstore.log.files.topics_file import UNREADABLE_TOPICS, read_topics
from segstore.log.settings_above import entry_that_counts, id_of_partition, older_settings
from segstore.manager.partition_listing import numbers_in
from segstore.manager.topic_description import TopicDescription, settings_of
from segstore.manager.topic_limits import config_of_topic, limits_of_topic
from segstore.records.compression import require_codec
from segstore.records.record_builder import codec_of
from segstore.types import TopicPartition

if TYPE_CHECKING:
    import uuid
    from collections.abc import Mapping, Sequence

    from segstore.config.log_config import LogConfig
    from segstore.log.open_options import OpenOptions
    from segstore.manager.partition_listing import PartitionListing

_log = logging.getLogger(__name__)


class TopicSettings:
    """What a manager knows of its topics; never changed.

    Parameters
    ----------
    directory : Directory
        The log directory.
    listing : PartitionListing
        Its partitions, as they are now.
    options : OpenOptions
        Those of the manager: their settings count where a topic was given none.
    """

    def __init__(
        self, directory: Directory, listing: PartitionListing, options: OpenOptions
    ) -> None:
        self._directory = directory
        self._listing = listing
        self._options = options
        self._configs: dict[frozenset[tuple[str, str]], LogConfig] = {}
        """By what topics were given: most topics were given the same."""

    def config_of(self, topic_partition: TopicPartition) -> LogConfig:
        """Return what a log goes by."""
        topic, number = topic_partition
        try:
            topics = read_topics(self._directory)
        except UNREADABLE_TOPICS:  # told by who lists the directory, and nothing is deleted then
            return config_of_topic(self._options, None)
        topic_id = self.topic_id_of(topic, [number]) if topic in topics else None
        entry = entry_that_counts(topics, topic, topic_id)
        if entry is None and topic in topics:
            _log.warning("%s: %s", self._directory.path, older_settings(topic))
        return limits_of_topic(self._options, topic, {} if entry is None else entry.config)

    def numbers_of(self, topic: str) -> Sequence[int]:
        """Return the partitions of a topic, ascending."""
        return numbers_in(self._listing.current(), topic, self._directory.path)

    def describe(self, name: str) -> TopicDescription:
        """Return a topic's id, its partitions, and each setting with where it comes from."""
        numbers = self.numbers_of(name)
        topic_id = self.topic_id_of(name, numbers)
        entry = entry_that_counts(read_topics(self._directory), name, topic_id)
        if topic_id is None and entry is not None:
            topic_id = entry.topic_id
        options = self._options
        opened = options.config.to_values()
        directory = {key: opened[key] for key in options.given if key in opened}
        properties = {} if entry is None else entry.config
        settings = tuple(settings_of(properties, directory, options.profile))
        return TopicDescription(name, topic_id, tuple(numbers), settings)

    def topic_id_of(self, topic: str, numbers: Sequence[int]) -> uuid.UUID | None:
        """Return the id that the partitions have; None where none has one that can be read."""
        for number in numbers:
            path = f"{self._directory.path}/{directory_name(TopicPartition(topic, number))}"
            with suppress(LogNotFoundError, *UNREADABLE_TO_READERS):
                with closing(Directory(path, self._directory.environment)) as directory:
                    found = id_of_partition(directory)
                if found is not None:
                    return found
        return None

    def check(self, properties: Mapping[str, str], existing: Mapping[str, str]) -> None:
        """Check what a topic is to be given: by Kafka's rules, and that a log here takes it."""
        is_on = self._options.remote_offset_reader is not None
        defaults = {**default_values(), **self._config({}).to_values()}
        check_change(properties, existing, defaults, is_tiered_system_on=is_on)
        require_codec(codec_of(self._config(properties)))

    def _config(self, properties: Mapping[str, str]) -> LogConfig:
        key = frozenset(properties.items())
        config = self._configs.get(key)
        if config is None:
            config = self._configs[key] = config_of_topic(self._options, properties)
        return config
