"""The topics of a write: how many partitions they have, and making those that are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import Directory
from segstore.errors import IllegalStateError, LogNotFoundError
from segstore.log.files.partition_directory import check_topic
from segstore.log.files.partition_path import refuse_partition_directory
from segstore.log.files.topic_directories import make_log_directory
from segstore.manager.partition_directories import check_no_gap, list_topic_partitions
from segstore.spark.conditions import (
    ConnectorOptionError,
    unknown_partition_error,
    unknown_topic_error,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segstore.manager.log_manager import LogManager
    from segstore.spark.sink_options import SinkOptions


def open_sink_directory(options: SinkOptions) -> Directory:
    """Open the log directory; where topics may be made, so may be the directory."""
    if options.partitions_count is not None:
        directory = make_log_directory(options.path)
    else:
        directory = _existing(options.path)
    try:
        refuse_partition_directory(directory)
        _check_file_system(directory, allowed=options.allow_network_fs)
    except BaseException:
        directory.close()
        raise
    return directory


def _existing(path: str) -> Directory:
    try:
        return Directory(path)
    except LogNotFoundError as error:
        raise LogNotFoundError(
            'there is no log directory; option("numPartitions", n) makes it, and missing topics',
            file=path,
            found="nothing",
            expected="a directory",
        ) from error


def _check_file_system(directory: Directory, *, allowed: bool) -> None:
    """Refuse a network file system before anything is written [DUR-72]."""
    if not allowed and directory.is_network_file_system():
        raise ConnectorOptionError(
            "this is a network file system, where locks and syncs may not work: "
            'option("allowNetworkFs", "true") permits writing',
            file=directory.path,
        )


class SinkTopics:
    """The topics as one task finds them.

    Parameters
    ----------
    directory : Directory
        The log directory.
    partitions_count : int or None
        For topics that are missing; None = they are errors.

    Attributes
    ----------
    missing : dict of str to int
        The topics that were asked for and are to be made, with their number of partitions.
    """

    def __init__(self, directory: Directory, partitions_count: int | None) -> None:
        self._directory = directory
        self._partitions_count = partitions_count
        self._here: dict[str, list[int]] = {}
        for topic, partition in list_topic_partitions(directory):
            self._here.setdefault(topic, []).append(partition)
        self.missing: dict[str, int] = {}

    def partitions_of(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions, ascending.

        Raises
        ------
        UnknownTopicOrPartitionError
            The topic is missing, and nothing says how many partitions it should have.
        InvalidTopicError
            *topic* is no topic's name.
        """
        check_topic(topic)
        here = self._here.get(topic, [])
        count = self._partitions_count
        if not here and count is not None:
            self.missing[topic] = count
            return list(range(count))
        if not here:
            hint = '; option("numPartitions", n) makes topics that are missing'
            raise unknown_topic_error(topic, self._directory.path, hint)
        return here

    def count_for_keys(self, topic: str) -> int:
        """Return how many partitions keys are spread over.

        Raises
        ------
        IllegalStateError
            Not all partitions are here, so it cannot be said where a key belongs.
        """
        numbers = self.partitions_of(topic)
        check_no_gap(self._directory, topic, numbers, " in a column")
        return len(numbers)

    def check_partition(self, topic: str, partition: int) -> None:
        """Raise unless the topic has the partition."""
        numbers = self.partitions_of(topic)
        if partition not in numbers:
            raise unknown_partition_error(topic, partition, len(numbers), self._directory.path)


def make_missing_topics(manager: LogManager, missing: Mapping[str, int]) -> None:
    """Make topics, each with an empty log in each partition, or not at all.

    Raises
    ------
    IllegalStateError
        Somebody else made one meanwhile, with another number of partitions.
    """
    for topic, count in missing.items():
        here = manager.topics().get(topic)
        if here is None:
            manager.create_topic(topic, count)
        elif here != list(range(count)):  # by somebody else, meanwhile
            raise IllegalStateError(
                f"another process made topic {topic!r} with {len(here)} partitions: keys were "
                f"spread over {count}; write again",
                file=manager.path,
                found=f"partitions {here}",
                expected=f"none, or 0 to {count - 1}",
            )
