"""The topics of a write: how many partitions they have, and making those that are missing.

A new topic's partitions are made from the last to the first, each with an empty log. So a topic
that has no log in partition 0 is one whose making was interrupted, and the next one finishes it.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from segstore._core import Directory
from segstore.errors import IllegalStateError, LogNotFoundError
from segstore.log.directory.partition_directory import check_topic, directory_name
from segstore.log.directory.partition_metadata_file import PartitionMetadataFile
from segstore.manager.partition_directories import (
    holds_a_log,
    list_topic_partitions,
    refuse_partition_directory,
)
from segstore.manager.topic_directories import (
    create_partition_directory,
    make_log_directory,
    new_topic_id,
)
from segstore.spark.conditions import (
    ConnectorOptionError,
    unknown_partition_error,
    unknown_topic_error,
)
from segstore.types import TopicPartition

if TYPE_CHECKING:
    import uuid
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
            "this is a network file system, where locks and syncs may not hold: "
            'option("allowNetworkFs", "true") writes all the same',
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
        if count is not None and is_unfinished(made(self._directory, topic, here), count):
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
        if numbers != list(range(len(numbers))):
            raise IllegalStateError(
                f"topic {topic!r} has only the partitions {numbers} here: how many there are in "
                "all decides where a key belongs; name the partition in a column",
                file=self._directory.path,
                found=str(numbers),
                expected="partitions 0, 1, 2 … without a gap",
            )
        return len(numbers)

    def check_partition(self, topic: str, partition: int) -> None:
        """Raise unless the topic has the partition."""
        numbers = self.partitions_of(topic)
        if partition not in numbers:
            raise unknown_partition_error(topic, partition, len(numbers), self._directory.path)


def made(directory: Directory, topic: str, here: list[int]) -> list[int]:
    """Return which of a topic's partitions, ascending, count as made: partition 0 with its log."""
    has_all = here[:1] != [0] or holds_a_log(directory, TopicPartition(topic, 0))
    return here if has_all else here[1:]


def is_unfinished(here: list[int], count: int) -> bool:
    """Whether partitions, ascending, are what an interrupted making of *count* leaves."""
    return here == list(range(count - len(here), count)) and len(here) < count


def make_missing_topics(
    manager: LogManager, directory: Directory, missing: Mapping[str, int]
) -> None:
    """Make topics, or what an interruption left out of them, with an empty log in each partition.

    Raises
    ------
    IllegalStateError
        Somebody else made one meanwhile, with another number of partitions.
    """
    for topic, count in missing.items():
        here = sorted(p for name, p in list_topic_partitions(directory) if name == topic)
        if made(directory, topic, here) == list(range(count)):
            continue  # by somebody else, meanwhile
        if not is_unfinished(made(directory, topic, here), count):
            raise IllegalStateError(
                f"topic {topic!r} was made by somebody else, with {len(here)} partitions: keys "
                f"were spread over {count}; write again",
                file=directory.path,
                found=f"partitions {here}",
                expected=f"none, or 0 to {count - 1}",
            )
        topic_id = _topic_id(directory, topic, here) or new_topic_id()
        for number in reversed(range(count)):
            if number not in here:
                create_partition_directory(directory, TopicPartition(topic, number), topic_id)
            log = manager.log(topic, number)
            if log.topic_id is None:  # interrupted between the directory and its file
                log.assign_topic_id(topic_id)


def _topic_id(directory: Directory, topic: str, here: list[int]) -> uuid.UUID | None:
    """Return the id that the first partitions were made with."""
    for number in here:
        path = f"{directory.path}/{directory_name(TopicPartition(topic, number))}"
        with closing(Directory(path)) as of_partition:
            topic_id = PartitionMetadataFile(of_partition).read()
        if topic_id is not None:
            return topic_id
    return None
