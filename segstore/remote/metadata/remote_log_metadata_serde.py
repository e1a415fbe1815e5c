"""The events of ``__remote_log_metadata`` as bytes: values of its records; they have no key [RLM].

Source: Kafka ``RemoteLogMetadataSerde`` and its message definitions.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, TypeVar

from segstore._core import (
    FramedMessages,
    MessageError,
    UnknownMessageError,
    UnknownVersionError,
)
from segstore.errors import CorruptLogError, IllegalArgumentError, UnsupportedFormatError
from segstore.records.messages.message_schema import parse_schemas
from segstore.records.messages.message_writer import framed_message
from segstore.records.messages.remote_log_messages import REMOTE_LOG_MESSAGES
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from segstore.remote.metadata.usual_events import usual_event
from segstore.types import EpochEntry, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segstore.remote.metadata.segment_metadata import RemoteLogMetadata

    Serializable = RemoteLogMetadata | RemoteLogSegmentMetadataSnapshot

_StateT = TypeVar("_StateT", RemoteLogSegmentState, RemotePartitionDeleteState)

_SCHEMAS = parse_schemas(REMOTE_LOG_MESSAGES)
_MESSAGES = FramedMessages(_SCHEMAS.values())


def parse_event(value: bytes | None) -> RemoteLogMetadata:
    """Parse the value of a record of the topic [RLM-2, RLM-3].

    Raises
    ------
    CorruptLogError
        It is no event, was cut, or says what cannot be.
    UnsupportedFormatError
        It is of another kind or version, or a snapshot.
    """
    found = usual_event(value) or deserialize(value)
    if isinstance(found, RemoteLogSegmentMetadataSnapshot):
        raise UnsupportedFormatError(
            "the event is a snapshot of a segment, which Kafka keeps in files of its own",
            found="kind 3",
            expected="kind 0, 1 or 2",
        )
    return found


def deserialize(value: bytes | None) -> Serializable:
    """Parse any of the four kinds, otherwise as `parse_event`; a tag that is not known is ignored.

    Raises
    ------
    CorruptLogError, UnsupportedFormatError
        See `parse_event`.
    """
    try:
        message = _MESSAGES.read(value, known_versions=True)
        return _PARSERS[message.schema.name](message.fields)
    except (UnknownMessageError, UnknownVersionError) as error:
        raise UnsupportedFormatError(
            "the event is of a kind or version that is not known",
            found=str(error),
            expected="kind 0, 1 or 2 in version 0",
        ) from error
    except MessageError as error:
        raise CorruptLogError(
            "this is no event of a remote log segment",
            found=": ".join(str(one) for one in (error, error.__cause__) if one is not None),
            expected="an event as Kafka writes it",
        ) from error


def serialize(event: Serializable) -> bytes:
    """Return the bytes that Kafka writes for *event*.

    Raises
    ------
    IllegalArgumentError
        A number is out of the range of its field.
    """
    if isinstance(event, RemoteLogSegmentMetadata):
        name, segment = "RemoteLogSegmentMetadataRecord", _id_fields(event.segment_id)
        fields = {"remoteLogSegmentId": segment, **_segment_fields(event)}
    elif isinstance(event, RemoteLogSegmentMetadataUpdate):
        name = "RemoteLogSegmentMetadataUpdateRecord"
        fields = {
            "remoteLogSegmentId": _id_fields(event.segment_id),
            "brokerId": event.broker_id,
            "eventTimestampMs": event.event_timestamp_ms,
            "customMetadata": event.custom_metadata,
            "remoteLogSegmentState": event.state,
        }
    elif isinstance(event, RemotePartitionDeleteMetadata):
        name = "RemotePartitionDeleteMetadataRecord"
        fields = {
            "topicIdPartition": _partition_fields(event.topic_id_partition),
            "brokerId": event.broker_id,
            "eventTimestampMs": event.event_timestamp_ms,
            "remotePartitionDeleteState": event.state,
        }
    else:
        name = "RemoteLogSegmentMetadataSnapshotRecord"
        fields = {"segmentId": event.segment_id, **_segment_fields(event)}
    try:
        return framed_message(_SCHEMAS[name], 0, fields)
    except (struct.error, UnicodeEncodeError) as error:
        raise IllegalArgumentError(
            "the metadata of a remote log segment have no bytes",
            found=str(error),
            expected="numbers within their fields, and a name in UTF-8",
        ) from error


def _partition_fields(partition: TopicIdPartition) -> dict[str, Any]:
    (topic, number), topic_id = partition.topic_partition, partition.topic_id
    return {"name": topic, "id": topic_id, "partition": number}


def _id_fields(segment_id: RemoteLogSegmentId) -> dict[str, Any]:
    return {
        "topicIdPartition": _partition_fields(segment_id.topic_id_partition),
        "id": segment_id.id,
    }


def _segment_fields(
    metadata: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataSnapshot,
) -> dict[str, Any]:
    return {
        "startOffset": metadata.start_offset,
        "endOffset": metadata.end_offset,
        "brokerId": metadata.broker_id,
        "maxTimestampMs": metadata.max_timestamp_ms,
        "eventTimestampMs": metadata.event_timestamp_ms,
        "segmentLeaderEpochs": [
            {"leaderEpoch": epoch, "offset": offset}
            for epoch, offset in metadata.segment_leader_epochs
        ],
        "segmentSizeInBytes": metadata.segment_size_bytes,
        "customMetadata": metadata.custom_metadata,
        "remoteLogSegmentState": metadata.state,
        "txnIndexEmpty": metadata.is_transaction_index_empty,
    }


def _partition(fields: dict[str, Any]) -> TopicIdPartition:
    found = fields["topicIdPartition"]
    return TopicIdPartition(found["id"], TopicPartition(found["name"], found["partition"]))


def _segment_id(fields: dict[str, Any]) -> RemoteLogSegmentId:
    found = fields["remoteLogSegmentId"]
    return RemoteLogSegmentId(_partition(found), found["id"])


def _state(states: type[_StateT], number: int) -> _StateT:
    try:
        return states(number)
    except ValueError:
        raise MessageError(f"state {number} of {len(states)} states") from None


def _said_of_segment(fields: dict[str, Any]) -> dict[str, Any]:
    start, end = fields["startOffset"], fields["endOffset"]
    epochs = {one["leaderEpoch"]: one["offset"] for one in fields["segmentLeaderEpochs"]}
    if not 0 <= start <= end or not epochs:  # as the constructor of Kafka's class
        raise MessageError(f"a segment from {start} to {end} with {len(epochs)} leader epochs")
    return {
        "start_offset": start,
        "end_offset": end,
        "max_timestamp_ms": fields["maxTimestampMs"],
        "segment_size_bytes": fields["segmentSizeInBytes"],
        "segment_leader_epochs": tuple(EpochEntry(*entry) for entry in sorted(epochs.items())),
        "is_transaction_index_empty": fields.get("txnIndexEmpty", False),
        **_said_of_state(fields),
    }


def _said_of_state(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "broker_id": fields["brokerId"],
        "event_timestamp_ms": fields["eventTimestampMs"],
        "custom_metadata": fields["customMetadata"],
        "state": _state(RemoteLogSegmentState, fields["remoteLogSegmentState"]),
    }


def _segment(fields: dict[str, Any]) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(segment_id=_segment_id(fields), **_said_of_segment(fields))


def _update(fields: dict[str, Any]) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(segment_id=_segment_id(fields), **_said_of_state(fields))


def _partition_delete(fields: dict[str, Any]) -> RemotePartitionDeleteMetadata:
    return RemotePartitionDeleteMetadata(
        topic_id_partition=_partition(fields),
        state=_state(RemotePartitionDeleteState, fields["remotePartitionDeleteState"]),
        event_timestamp_ms=fields["eventTimestampMs"],
        broker_id=fields["brokerId"],
    )


def _snapshot(fields: dict[str, Any]) -> RemoteLogSegmentMetadataSnapshot:
    return RemoteLogSegmentMetadataSnapshot(
        segment_id=fields["segmentId"], **_said_of_segment(fields)
    )


_PARSERS: Final[Mapping[str, Callable[[dict[str, Any]], Serializable]]] = {
    "RemoteLogSegmentMetadataRecord": _segment,
    "RemoteLogSegmentMetadataUpdateRecord": _update,
    "RemotePartitionDeleteMetadataRecord": _partition_delete,
    "RemoteLogSegmentMetadataSnapshotRecord": _snapshot,
}
