"""Offsets by partition as a stream keeps them: the JSON object of the connector's checkpoints.

``{"topic": {"0": 301, "1": 500}}``, sorted by topic and partition, so that a checkpoint can be read
by whoever knows Kafka's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from segstore.spark.conditions import ConnectorOptionError
from segstore.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

TopicOffsets: TypeAlias = dict[str, dict[str, int]]
"""What Spark writes as JSON and gives back."""


def to_topic_offsets(offsets: Mapping[TopicPartition, int]) -> TopicOffsets:
    """Return *offsets* in the form that Spark keeps."""
    topics: TopicOffsets = {}
    for partition in sorted(offsets):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return topics


def from_topic_offsets(topics: object) -> dict[TopicPartition, int]:
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
    except (AttributeError, TypeError, ValueError):
        offsets = {}
    if (not offsets and topics != {}) or not all(type(value) is int for value in offsets.values()):
        raise ConnectorOptionError(
            f"the checkpoint of this stream holds {topics!r}: these are no offsets of Kafka's",
            found=repr(topics),
            expected='{"topic": {"0": 301, "1": 500}}',
        )
    return offsets
