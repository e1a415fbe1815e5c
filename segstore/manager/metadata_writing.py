"""A metadata log for a log directory that never had a broker, so that one takes its topics over.

Source: docs/decisions/metadata-image.md, docs/operations.md; Kafka ``kafka-storage format`` and
what a controller appends for ``kafka-topics --create``.
"""

from __future__ import annotations

import base64
import uuid
from contextlib import closing, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from segstore._core import Barrier, Directory, FileBarrier, RecordsBuilder
from segstore.arguments import natural, path_text
from segstore.errors import (
    AlreadyExistsError,
    IllegalArgumentError,
    IllegalStateError,
    SegstoreError,
    UnknownTopicOrPartitionError,
)
from segstore.log.files.checkpoints import META_PROPERTIES
from segstore.log.files.meta_properties import read_meta_properties
from segstore.log.files.metadata_image import ConfigResourceType
from segstore.log.files.partition_directory import delete_directory_name
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.files.partition_path import absolute_path
from segstore.log.files.topic_names import (
    CLUSTER_METADATA_TOPIC,
    METADATA_LOG,
    REMOTE_LOG_METADATA_TOPIC,
)
from segstore.log.files.tree_removal import remove_trees
from segstore.log.log_environment import STANDALONE
from segstore.manager.log_manager import open_dir
from segstore.manager.topic_description import SettingSource
from segstore.raft.metadata_log import open_metadata_log
from segstore.records.compression import codec_table
from segstore.records.messages.message_schema import parse_schemas
from segstore.records.messages.message_writer import framed_message
from segstore.records.messages.metadata_messages import METADATA_MESSAGES
from segstore.types import TopicPartition

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from segstore._core import Environment, MessageSchema
    from segstore.config.config_key import ConfigValue
    from segstore.log.files.meta_properties import MetaProperties
    from segstore.manager.log_manager import LogManager
    from segstore.manager.topic_description import TopicDescription

METADATA_VERSION: Final = 30
"""The level that ``kafka-storage format`` of Kafka 4.3.1 chooses."""
FEATURES: Final = {
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""Those of the other features."""
EPOCH: Final = 1
BATCH_RECORDS: Final = 1000
NO_LEADER: Final = -1
PARTITION_VERSION: Final = 1
"""The first version of a PartitionRecord that names log directories."""


class WrittenMetadata(NamedTuple):
    """What `write_metadata_log` has written."""

    path: str
    """Of the metadata log."""
    cluster_id: str
    node_id: int
    directory_id: uuid.UUID
    topics: tuple[str, ...]
    records_count: int


def write_metadata_log(
    path: str | os.PathLike[str],
    *,
    node_id: int = 1,
    cluster_id: str | None = None,
    metadata_version: int = METADATA_VERSION,
    environment: Environment | None = None,
) -> WrittenMetadata:
    """Write the metadata log of a log directory that never had a broker.

    A broker with ``process.roles=broker,controller`` and this node id then has all topics, with
    their ids and settings, each partition on this one node. A topic without ``retention.ms`` gets
    -1: nothing has deleted its records so far, and Kafka's default is a week. ``meta.properties``
    is written where there is none. The log is there whole or, also after a crash, not at all.

    Parameters
    ----------
    path : str or PathLike
        The log directory; nobody else may have it open.
    node_id : int
        ``node.id`` of the broker.
    cluster_id : str or None
        None = a new one, or that of ``meta.properties``.
    metadata_version : int
        Level of the feature; with another than the default, other features are left out.
    environment : Environment or None
        Of the files; None = the real ones.

    Raises
    ------
    AlreadyExistsError
        There is a metadata log. Nothing was changed.
    IllegalStateError
        A topic has no id, or lacks a partition; a setting is unknown to Kafka. Nothing was changed.
    IllegalArgumentError
        ``meta.properties`` has another node or cluster.
    LogLockedError
        A program has the directory open.
    """
    node_id = natural("node_id", node_id)
    full_path = absolute_path(path_text("path", path))
    with closing(Directory(full_path, environment)) as directory:
        _refuse_existing(directory)
        properties = read_meta_properties(directory)
        cluster_id = _cluster_id(properties, node_id, cluster_id, directory)
        directory_id = uuid.uuid4() if properties is None else properties.directory_id
        if directory_id is None:
            raise IllegalArgumentError(
                "the log directory has no id: format it again with Kafka's tool",
                file=f"{full_path}/{META_PROPERTIES}",
                found="no directory.id",
                expected="an id",
            )
        with open_dir(full_path) as manager:
            topics = _all_topics(manager)
            for topic in topics:
                _check(topic, directory)
            records = [
                *_cluster_records(manager, node_id, metadata_version),
                *_topic_records(manager, topics, node_id, directory_id),
                _record("EndTransactionRecord"),
            ]
        _write(directory, records)
        if properties is None:  # the last: no broker starts without it
            text = (
                f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\n"
                f"directory.id={topic_id_text(directory_id)}\n"
            )
            directory.write_file_atomically(
                META_PROPERTIES, text.encode(), FileBarrier.PARTITION_METADATA
            )
    names = tuple(topic.name for topic in topics)
    log_path = f"{full_path}/{METADATA_LOG}"
    return WrittenMetadata(log_path, cluster_id, node_id, directory_id, names, len(records))


def _write(directory: Directory, records: list[bytes]) -> None:
    """Write the log under another name, and give it its own when it is whole.

    A broker that finds a part of it, or none, begins a new cluster: all partitions would be strays.
    """
    building = delete_directory_name(TopicPartition(CLUSTER_METADATA_TOPIC, 0))
    log_environment = STANDALONE._replace(environment=directory.environment)
    try:
        with open_metadata_log(
            f"{directory.path}/{building}", log_environment=log_environment
        ) as log:
            now_ms = directory.wall_clock_ms()
            for start in range(0, len(records), BATCH_RECORDS):
                batch = _batch(start, records[start : start + BATCH_RECORDS], now_ms)
                log.append_as_leader(batch, EPOCH)
            log.flush()
        directory.rename(building, METADATA_LOG)
    except BaseException:
        with suppress(SegstoreError):
            remove_trees(directory, [building])
        raise
    directory.sync(Barrier.NEW_DIRECTORY)


def _refuse_existing(directory: Directory) -> None:
    if directory.exists(METADATA_LOG):
        raise AlreadyExistsError(
            "the log directory has a metadata log: its topics are those of a cluster. If an earlier"
            " call was interrupted and there is no meta.properties, remove that directory and call"
            " again",
            file=f"{directory.path}/{METADATA_LOG}",
            found="a directory",
            expected="none",
        )


def _all_topics(manager: LogManager) -> list[TopicDescription]:
    """Return the topics, by name; also the one that says what is in remote storage.

    Without it a broker would make an empty one, and know of no remote segment [TIER-21].
    """
    topics = [manager.describe_topic(name) for name in manager.topics()]
    with suppress(UnknownTopicOrPartitionError):
        topics.append(manager.describe_topic(REMOTE_LOG_METADATA_TOPIC))
    return sorted(topics, key=lambda topic: topic.name)


def _check(topic: TopicDescription, directory: Directory) -> None:
    if topic.topic_id is None:
        raise IllegalStateError(
            f"topic {topic.name} has no id: `segstore recover` gives it one, where a file has it",
            file=directory.path,
            found="no id",
            expected="one in partition.metadata",
        )
    expected = range(len(topic.partitions))
    if topic.partitions != tuple(expected):
        raise IllegalStateError(
            f"topic {topic.name} lacks partitions: a cluster has all from 0 on",
            file=directory.path,
            found=", ".join(map(str, topic.partitions)),
            expected=f"0 to {max(topic.partitions)}",
        )


def _cluster_id(
    properties: MetaProperties | None, node_id: int, cluster_id: str | None, directory: Directory
) -> str:
    if properties is None or properties.cluster_id is None:
        new = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        return new if cluster_id is None else cluster_id
    found = properties.cluster_id, properties.node_id
    if found != (cluster_id or found[0], node_id):
        raise IllegalArgumentError(
            "the log directory belongs to another node",
            file=f"{directory.path}/{META_PROPERTIES}",
            found=f"cluster.id={found[0]}, node.id={found[1]}",
            expected=f"cluster.id={cluster_id or found[0]}, node.id={node_id}",
        )
    return properties.cluster_id


# ---- records -------------------------------------------------------------------------------------


def _cluster_records(manager: LogManager, node_id: int, metadata_version: int) -> Iterator[bytes]:
    yield _record("BeginTransactionRecord", name="Bootstrap records")
    levels = {"metadata.version": metadata_version}
    if metadata_version == METADATA_VERSION:
        levels |= FEATURES
    for name, level in levels.items():
        yield _record("FeatureLevelRecord", name=name, featureLevel=level)
    next_id = 1 + max(
        (
            producer.producer_id
            for topic, numbers in manager.topics().items()
            for number in numbers
            for producer in manager.log(topic, number).active_producers()
        ),
        default=-1,
    )
    if next_id > 0:  # no other producer may get an id that records have
        yield _record("ProducerIdsRecord", brokerId=node_id, brokerEpoch=-1, nextProducerId=next_id)


def _topic_records(
    manager: LogManager, topics: list[TopicDescription], node_id: int, directory_id: uuid.UUID
) -> Iterator[bytes]:
    for topic in topics:
        yield from _records_of(manager, topic, node_id, directory_id)


def _records_of(
    manager: LogManager, topic: TopicDescription, node_id: int, directory_id: uuid.UUID
) -> Iterator[bytes]:
    yield _record("TopicRecord", name=topic.name, topicId=topic.topic_id)
    config = {
        one.name: _text(one.value)
        for one in topic.settings
        if one.source is SettingSource.TOPIC and one.value is not None
    }
    for key, value in ({"retention.ms": "-1"} | config).items():
        yield _record(
            "ConfigRecord",
            resourceType=int(ConfigResourceType.TOPIC),
            resourceName=topic.name,
            name=key,
            value=value,
        )
    for number in topic.partitions:
        epoch = manager.log(topic.name, number).latest_epoch
        yield _record(
            "PartitionRecord",
            PARTITION_VERSION,
            partitionId=number,
            topicId=topic.topic_id,
            replicas=[node_id],
            isr=[node_id],
            leader=NO_LEADER,  # it is elected when the broker has registered, in the next epoch
            leaderEpoch=0 if epoch is None else epoch,
            directories=[directory_id],
        )


def _text(value: ConfigValue) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def _schemas() -> dict[str, MessageSchema]:
    return parse_schemas(METADATA_MESSAGES)


def _record(schema: str, version: int = 0, /, **fields: Any) -> bytes:
    return framed_message(_schemas()[schema], version, fields)


def _batch(offset: int, values: list[bytes], timestamp: int) -> bytes:
    builder = RecordsBuilder(codec_table(), base_offset=offset, partition_leader_epoch=EPOCH)
    for number, value in enumerate(values, offset):
        builder.append(number, timestamp, None, value)
    return builder.build()
