"""Errors of the data source, under the names and in the words of Spark's Kafka connector [D10].

Whoever moved a query from ``format("kafka")`` finds the same condition in the message; what a log
directory can say more (its path, what is there) is added behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from segstore.errors import IllegalArgumentError, IllegalStateError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segstore.types import TopicPartition

DATA_LOSS: Final = (
    "Some data may have been lost because they are not available any more; either the data was "
    "aged out or the topic may have been deleted before all the data in the topic was processed. "
    "If you don't want your query to fail on such cases, set the source option failOnDataLoss to "
    "false. Reason: "
)

MESSAGES: Final = {
    "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED": (
        "Partitions specified for Kafka start offsets don't match what are assigned. Maybe topic "
        "partitions are "
        "created or deleted while the query is running. Specified: {specifiedPartitions} "
        "Assigned: {assignedPartitions}"
    ),
    "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED": (
        "Partitions specified for Kafka timestamp based {position} offsets don't match what are "
        "assigned. Maybe "
        "topic partitions are created or deleted while the query is running. Specified: "
        "{specifiedPartitions} "
        "Assigned: {assignedPartitions}"
    ),
    "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET": (
        "The specified start offset and end offset should have the same topic-partitions. "
        "Topic-partitions for start offset: {tpsForStartOffset}. "
        "Topic-partitions for end offset: {tpsForEndOffset}."
    ),
    "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET": (
        "The specified start {offsetType} {startOffset} is greater than the end {offsetType} "
        "{endOffset} "
        "for topic {topic} partition {partition}."
    ),
    "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET": (
        "The resolved start offset {startOffset} is greater than the resolved end offset "
        "{endOffset} "
        "for topic {topic} partition {partition}."
    ),
    "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE": (
        DATA_LOSS + "Could not read records in "
        "offset [{startOffset}, {endOffset}) for topic partition {topicPartition}: "
        "the log holds [{logStartOffset}, {logEndOffset})."
    ),
    "KAFKA_DATA_LOSS.PARTITIONS_DELETED": (
        DATA_LOSS + "Partitions {partitions} have been deleted, or are no longer asked for."
    ),
    "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED": (
        DATA_LOSS + "Partition {topicPartition}'s offset was changed from {prevOffset} to "
        "{newOffset}."
    ),
    "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO": (
        DATA_LOSS + "Added partition {topicPartition} starts from {startOffset} instead of 0."
    ),
    "KAFKA_NULL_TOPIC_IN_DATA": (
        "The Kafka message data sent to the producer contains a null topic. Use the `topic` option "
        "for setting a default topic."
    ),
}
"""Condition to text; placeholders are the connector's message parameters, and the log's bounds."""

MAX_SHOWN: Final = 200
"""Characters of an option's value that the plain part of an error repeats."""


class ConnectorOptionError(IllegalArgumentError):
    """An option is missing, wrong or contradicts another.

    The connector's IllegalArgumentException; like it, raised by ``load()``.
    """


class ConnectorConditionError(IllegalStateError):
    """What was asked and what the directory holds do not go together.

    Attributes
    ----------
    condition : str
        Spark's name, a key of ``MESSAGES``.
    parameters : dict of str to str
        The connector's message parameters.
    """

    def __init__(
        self, message: str = "", *, condition: str = "", parameters: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.condition = condition
        self.parameters = dict(parameters or {})


class UnresolvedConditionError(ConnectorConditionError, ConnectorOptionError):
    """The same, seen from the options alone, without looking at the directory."""


def option_error(
    option: str, found: str, expected: str, connector_says: str
) -> ConnectorOptionError:
    """Return the error for an option's value: plainly, then in the connector's words.

    The connector often leaves out which option it means, and writes names in lower case.
    """
    shown = repr(found if len(found) <= MAX_SHOWN else f"{found[:MAX_SHOWN]}…")
    return ConnectorOptionError(
        f"option {option} is {shown}, expected {expected}. "
        f"Spark's Kafka source says: {connector_says}",
        found=shown,
        expected=expected,
    )


def condition_error(
    condition: str,
    kind: type[ConnectorConditionError] = ConnectorConditionError,
    detail: str = "",
    **parameters: Any,
) -> ConnectorConditionError:
    """Return the error for *condition*, its text filled in; *detail* comes after it."""
    texts = {name: str(value) for name, value in parameters.items()}
    message = f"[{condition}] {MESSAGES[condition].format(**texts)}{detail}"
    return kind(message, condition=condition, parameters=texts)


def deleted_error(partitions: object, made_again: str = "") -> ConnectorConditionError:
    """Return the error for partitions that were deleted; *made_again* names both topic ids."""
    detail = ""
    if made_again:
        detail = (
            f" The topic was deleted and made again: {made_again}. To read the new topic from its "
            "first record, start the query with a new checkpoint, or set failOnDataLoss=false."
        )
    condition = "KAFKA_DATA_LOSS.PARTITIONS_DELETED"
    return condition_error(condition, detail=detail, partitions=partitions)


def unknown_topic_error(topic: str, path: str, hint: str = "") -> UnknownTopicOrPartitionError:
    """Return the error for a topic that was asked for by name and has no partition in *path*."""
    return UnknownTopicOrPartitionError(
        f"This server does not host this topic-partition: no partition of topic {topic!r} in the "
        f"log directory{hint}",
        file=path,
        found="no such topic",
        expected=f"directories {topic}-0, {topic}-1 …",
    )


def unknown_partition_error(
    topic: str, partition: int, count: int, path: str
) -> UnknownTopicOrPartitionError:
    """Return the error for a partition that a row names and the topic does not have."""
    return UnknownTopicOrPartitionError(
        f"Partition {partition} of topic {topic} with partition count {count} is not present in "
        "metadata",
        file=path,
        found=f"partition {partition}",
        expected=f"0 to {count - 1}",
    )


def unknown_partitions_error(
    partitions: Sequence[TopicPartition], path: str
) -> UnknownTopicOrPartitionError:
    """Return the error for partitions that were asked for by number and are not in *path*."""
    names = ", ".join(map(str, partitions))
    return UnknownTopicOrPartitionError(
        "This server does not host this topic-partition: option assign names partitions that are "
        f"not in the log directory: {names}. Spark's Kafka source reads the others and says "
        "nothing; so it is with option connectorCompatible=true",
        file=path,
        found=f"no {names}",
        expected="partitions that exist",
    )
