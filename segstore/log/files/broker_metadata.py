"""What a broker's metadata log says of the topics of a log directory: their ids and settings.

The log knows a topic by its id. A partition that has another id is of an older topic of that name,
and nothing is said of it. Where `metadata_log` is not named, the log directory has the log, as a
broker's first one does.

Source: [CFG-52, MGR-25, MGR-26]; docs/decisions/metadata-image.md.
"""

from __future__ import annotations

import copy
import os
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import Directory
from segstore.config.broker_config import topic_properties_of
from segstore.errors import CorruptLogError, LogNotFoundError, SegstoreError
from segstore.log.files.meta_properties import read_meta_properties
from segstore.log.files.parsed_file import SETTLED_NS
from segstore.log.files.topic_names import CLUSTER_METADATA_TOPIC, METADATA_LOG

if TYPE_CHECKING:
    import uuid
    from collections.abc import Mapping

    from segstore._core import Environment
    from segstore.log.files.metadata_image import MetadataImage
    from segstore.types import TopicPartition

UNREADABLE_METADATA: Final = (SegstoreError, OSError)
"""Whatever keeps the metadata log from being read: nothing is deleted by retention then."""


class _Kept(NamedTuple):
    environment: Environment
    files: tuple[tuple[str, int, int, int], ...]
    image: MetadataImage | SegstoreError


_kept: dict[str, _Kept] = {}
"""The image that was read last, by its directory; a frozen value. One is kept."""


class BrokerMetadata:
    """What is known of the topics of one log directory; never changed.

    Parameters
    ----------
    image : MetadataImage
        What the metadata log says.
    node_id : int or None
        Of the broker that the directory belongs to; None = unknown.

    Attributes
    ----------
    path : str
        The directory of the metadata log.
    broker_properties : mapping of str to str
        What the brokers' settings in the log give topics, by the topics' keys.

    Raises
    ------
    IllegalArgumentError
        A broker's setting has a value that Kafka refuses.
    """

    def __init__(self, image: MetadataImage, node_id: int | None) -> None:
        self.path = image.path
        self.broker_properties: Mapping[str, str] = topic_properties_of(
            image.broker_config(node_id)
        )
        self._image = image
        self._node_id = node_id

    def has_topic(self, name: str) -> bool:
        """Whether the cluster has a topic of that name, here or on other brokers."""
        return name in self._image.topics

    def partitions_count(self, name: str) -> int:
        """Return how many partitions a topic has, on all brokers; 0 where there is none."""
        topic = self._image.topics.get(name)
        return 0 if topic is None else max(topic.partitions, default=-1) + 1

    def owns(self, name: str, topic_id: uuid.UUID | None) -> bool:
        """Whether it speaks of a directory with that id; one that lost its id counts by name."""
        topic = self._image.topics.get(name)
        return topic is not None and topic_id in {None, topic.topic_id}

    def gives_settings(self, name: str, topic_id: uuid.UUID | None) -> bool:
        """Whether its settings count for a directory: only for the id that it names.

        A directory without an id may be of another topic, whose records they would delete
        [DUR-120, DUR-128].
        """
        topic = self._image.topics.get(name)
        return topic is not None and topic_id == topic.topic_id

    def id_of(self, name: str) -> uuid.UUID | None:
        """Return the id of a topic; None where the cluster has none of that name."""
        topic = self._image.topics.get(name)
        return None if topic is None else topic.topic_id

    def topic_properties(self, name: str) -> Mapping[str, str]:
        """Return what a topic was given."""
        return self._image.topic_config(name)

    def properties_of(self, name: str) -> dict[str, str]:
        """Return what counts for a topic: what it was given, then its broker, then all brokers."""
        return {**self.broker_properties, **self.topic_properties(name)}

    def topic_id_of(self, topic_partition: TopicPartition) -> uuid.UUID | None:
        """Return the id of a partition's topic; None where the cluster has no such partition."""
        topic = self._image.topics.get(topic_partition.topic)
        if topic is None or topic_partition.partition not in topic.partitions:
            return None
        return topic.topic_id

    def why_stray(self, topic_partition: TopicPartition, topic_id: uuid.UUID | None) -> str | None:
        """Return why a broker that starts renames a directory to a stray one [MGR-26].

        None where it serves the directory. Nothing is done about it here.
        """
        topic = self._image.topics.get(topic_partition.topic)
        if topic_partition.topic == CLUSTER_METADATA_TOPIC:
            return None
        if topic_id is None:
            return "it has no topic id"
        if topic is None or topic.topic_id != topic_id:
            return "the cluster has no topic with its id"
        partition = topic.partitions.get(topic_partition.partition)
        if partition is None:
            return "the topic has no such partition"
        if self._node_id is not None and self._node_id not in partition.replicas:
            return f"its replicas are on the brokers {', '.join(map(str, partition.replicas))}"
        return None


def find_broker_metadata(
    log_directory: Directory, metadata_log: str | None = None
) -> BrokerMetadata | None:
    """Return what a metadata log says of a log directory; None where there is none.

    Parameters
    ----------
    log_directory : Directory
        The log directory; its ``meta.properties`` names the broker.
    metadata_log : str or None
        The metadata log, or the directory that holds it; None = what is in the log directory.

    Raises
    ------
    LogNotFoundError
        There is no metadata log at *metadata_log*.
    CorruptLogError, CorruptCheckpointError, IllegalArgumentError
        It cannot be used; docs/decisions/metadata-image.md says when.
    """
    if metadata_log is None:
        metadata_log = metadata_log_in(log_directory)
        if metadata_log is None:
            return None
    image = _image(metadata_log, log_directory.environment)
    if image.torn_bytes:  # a setting may be in them
        raise CorruptLogError(
            "the metadata log ends in a write that is not whole: newer settings may be lost",
            file=image.path,
            found=f"{image.torn_bytes} bytes at its end",
            expected="whole batches",
        )
    properties = read_meta_properties(log_directory)
    return BrokerMetadata(image, None if properties is None else properties.node_id)


def metadata_log_in(log_directory: Directory) -> str | None:
    """Return the path of the metadata log in a log directory; None where it has none.

    An empty directory of that name says nothing of any topic, and is none.
    """
    path = os.path.join(log_directory.path, METADATA_LOG)  # noqa: PTH118 - its own spelling
    try:
        with closing(Directory(path, log_directory.environment)) as directory:
            return path if directory.names(ordered=False) else None
    except LogNotFoundError:
        return None


def _image(path: str, environment: Environment) -> MetadataImage:
    """Return the image; where no file has changed, the one that was read before."""
    from segstore.log.files.metadata_image_reader import (
        read_metadata_image,  # most have no such log
    )

    kept = _kept.get(path)
    files = _files(path, environment)
    if kept is None or kept.environment is not environment or not files or kept.files != files:
        try:
            kept = _Kept(environment, files, read_metadata_image(path, environment))
        except CorruptLogError as error:
            kept = _Kept(environment, files, error.with_traceback(None))
        _kept.clear()
        if files:
            _kept[path] = kept
    if isinstance(kept.image, SegstoreError):
        raise copy.copy(kept.image)  # each has a traceback, and may get notes, of its own
    return kept.image


def _files(path: str, environment: Environment) -> tuple[tuple[str, int, int, int], ...]:
    """Return what tells the files from later ones; nothing where they may change in this moment."""
    found = []
    try:
        with closing(Directory(path, environment)) as directory:
            if directory.exists(METADATA_LOG):
                return _files(f"{path}/{METADATA_LOG}", environment)
            for name in directory.names():
                info = directory.info(name)
                found.append((name, info.inode, info.size, info.changed_ns))
            now_ns = directory.wall_clock_ms() * 1_000_000
    except LogNotFoundError:
        return ()
    is_settled = all(changed_ns + SETTLED_NS < now_ns for _, _, _, changed_ns in found)
    return tuple(found) if is_settled else ()
