"""Offsets by partition as a stream keeps them: the JSON object of the connector's checkpoints.

``{"topic": {"0": 301, "1": 500}, "topic topic_id=4z3ThSVLSBa7-gIaY_dGsw": {}}``, sorted by topic
and partition. The connector reads a member without partitions as nothing, and no topic has a blank
in its name: so a topic's id goes into the name of an empty member, and the connector reads the
checkpoint as one of its own. Partitions of one topic with different ids, or some without one, are
listed: ``"topic topic_id=… partitions=0,3"``.
"""

from __future__ import annotations

import base64
import re
import uuid
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.spark.conditions import ConnectorOptionError
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

TopicOffsets: TypeAlias = dict[str, dict[str, int]]
"""What Spark writes as JSON and gives back."""

_ID_MEMBER: Final = re.compile(
    r"(?P<topic>\S+) topic_id=(?P<id>[A-Za-z0-9_-]{22})( partitions=(?P<numbers>\d+(,\d+)*))?",
    re.ASCII,
)


class StreamOffsets(NamedTuple):
    """Where a stream is in each partition, and whose partitions they are.

    Attributes
    ----------
    by_partition : mapping of TopicPartition to int
        The next offset to read.
    topic_ids : mapping of TopicPartition to uuid.UUID
        From ``partition.metadata``; a partition without one, or of an older checkpoint, has none.
    """

    by_partition: Mapping[TopicPartition, int]
    topic_ids: Mapping[TopicPartition, uuid.UUID]


NO_OFFSETS: Final = StreamOffsets({}, {})


def to_topic_offsets(offsets: StreamOffsets) -> TopicOffsets:
    """Return *offsets* in the form that Spark keeps."""
    topics: TopicOffsets = {}
    ids: dict[str, dict[uuid.UUID | None, list[int]]] = {}
    for partition in sorted(offsets.by_partition):
        topic, number = partition
        topics.setdefault(topic, {})[str(number)] = offsets.by_partition[partition]
        by_id = ids.setdefault(topic, {})
        by_id.setdefault(offsets.topic_ids.get(partition), []).append(number)
    for topic, by_id in ids.items():
        for topic_id, numbers in by_id.items():
            if topic_id is not None:
                which = f" partitions={','.join(map(str, numbers))}" if len(by_id) > 1 else ""
                topics[f"{topic} topic_id={topic_id_text(topic_id)}{which}"] = {}
    return topics


def from_topic_offsets(topics: object) -> StreamOffsets:
    """Return the offsets that *topics*, from a checkpoint, holds.

    Raises
    ------
    ConnectorOptionError
        The checkpoint is of another source, or was changed by hand.
    """
    try:
        offsets = {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in topics.items()  # type: ignore[attr-defined]
            for partition, offset in partitions.items()
        }
        members = [_ID_MEMBER.fullmatch(name) for name in topics]  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError):
        offsets, members = {}, []
    if (not offsets and topics != {}) or not all(type(value) is int for value in offsets.values()):
        raise ConnectorOptionError(
            f"the checkpoint of this stream holds {topics!r}: these are no offsets of Kafka's",
            found=repr(topics),
            expected='{"topic": {"0": 301, "1": 500}}',
        )
    topic_ids: dict[TopicPartition, uuid.UUID] = {}
    for member in filter(None, members):
        numbers = None if member["numbers"] is None else set(map(int, member["numbers"].split(",")))
        topic_id = uuid.UUID(bytes=base64.urlsafe_b64decode(f"{member['id']}=="))
        for partition in offsets:
            if partition.topic == member["topic"] and (
                numbers is None or partition.partition in numbers
            ):
                topic_ids[partition] = topic_id
    return StreamOffsets(offsets, topic_ids)
