"""The id of a topic by what lies beside a partition: its other partitions, a broker's metadata log.

``topics.json`` may contradict them. Alone it is no source: a broker that removes a topic and makes
it again, with another id, leaves the file as it is.

A broker takes a log without a topic id for a stray one: it renames the directory, and begins an
empty log. So an id that is lost is never made up, and never left out where it is known [UNI-5].
"""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING

from segstore._core import Directory
from segstore.errors import InconsistentTopicIdError, SegstoreError
from segstore.log.files.broker_metadata import UNREADABLE_METADATA, find_broker_metadata
from segstore.log.files.checkpoints import PARTITION_METADATA, read_topic_id
from segstore.log.files.partition_directory import (
    directory_name,
    is_partition_directory_name,
    parse_directory_name,
)
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.files.topic_names import METADATA_LOG
from segstore.log.files.topics_file import TOPICS_FILE, read_topics

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterator

    from segstore.types import TopicPartition


def topic_id_of_siblings(
    log_directory: Directory, topic_partition: TopicPartition
) -> uuid.UUID | None:
    """Return the id that the topic's other partitions have, and the metadata log in the directory.

    None where none of them has one that can be read.

    Raises
    ------
    InconsistentTopicIdError
        They, or ``topics.json``, have different ids: nothing shows which is that of this partition.
    """
    known = dict(_ids_of_siblings(log_directory, topic_partition))
    in_metadata_log = _topic_id_in_metadata_log(log_directory, topic_partition)
    if in_metadata_log is not None:
        known[METADATA_LOG] = in_metadata_log
    in_topics_file = topic_id_in_topics_file(log_directory, topic_partition)
    if known and in_topics_file is not None:
        known[TOPICS_FILE] = in_topics_file
    ids = {*known.values()}
    if len(ids) > 1:
        raise InconsistentTopicIdError(
            f"the topic id of {topic_partition} is unknown, and others beside it contradict each"
            " other",
            file=f"{log_directory.path}/{directory_name(topic_partition)}/{PARTITION_METADATA}",
            found=", ".join(f"{topic_id_text(one)} in {file}" for file, one in known.items()),
            expected="one topic id",
        )
    return ids.pop() if ids else None


def topic_id_in_topics_file(
    log_directory: Directory, topic_partition: TopicPartition
) -> uuid.UUID | None:
    """Return the id that ``topics.json`` has; it may be that of an older topic of this name."""
    with suppress(SegstoreError):  # a file that cannot be read says nothing
        entry = read_topics(log_directory).get(topic_partition.topic)
        return None if entry is None else entry.topic_id
    return None


def _topic_id_in_metadata_log(
    log_directory: Directory, topic_partition: TopicPartition
) -> uuid.UUID | None:
    with suppress(*UNREADABLE_METADATA):  # as above
        metadata = find_broker_metadata(log_directory)
        return None if metadata is None else metadata.topic_id_of(topic_partition)
    return None


def _ids_of_siblings(
    log_directory: Directory, topic_partition: TopicPartition
) -> Iterator[tuple[str, uuid.UUID]]:
    """Yield each ``partition.metadata`` of another partition that has an id of the topic."""
    own = directory_name(topic_partition)
    for name in log_directory.names():
        if name == own or not is_partition_directory_name(name):
            continue
        if parse_directory_name(name).topic == topic_partition.topic:
            with (
                suppress(SegstoreError),
                closing(
                    Directory(f"{log_directory.path}/{name}", log_directory.environment)
                ) as one,
            ):
                topic_id = read_topic_id(one)
                if topic_id is not None:
                    yield f"{name}/{PARTITION_METADATA}", topic_id
