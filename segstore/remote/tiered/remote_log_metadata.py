"""The events of ``__remote_log_metadata``: which copies Kafka has finished or is deleting [RLM].

A broker keeps them in an ordinary topic, whose log directory may lie beside a bucket. The bucket
alone does not say whether Kafka has noted a copy, or has begun to delete it [SEL-13].
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from segstore._core import read_uvarint, read_varlong
from segstore.errors import CorruptLogError, SegstoreError, UnsupportedFormatError
from segstore.records.messages.framed_messages import (
    FramedMessage,
    FramedMessages,
    UnknownMessageError,
    UnknownVersionError,
)
from segstore.records.messages.message_reader import MessageError
from segstore.records.messages.remote_log_messages import REMOTE_LOG_MESSAGES
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)
from segstore.types import EpochEntry, TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

_StateT = TypeVar("_StateT", RemoteLogSegmentState, RemotePartitionDeleteState)


class CopiedSegment(NamedTuple):
    """What only the first event of a copy says.

    Attributes
    ----------
    start_offset, end_offset : int
        Both inclusive.
    max_timestamp_ms : int
        Largest timestamp of its records.
    size_bytes : int
        Of the plain segment.
    leader_epochs : tuple of EpochEntry
        Each leader epoch with its first offset in the segment, ascending.
    is_transaction_index_empty : bool
        False also where the broker did not say it.
    """

    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    size_bytes: int
    leader_epochs: tuple[EpochEntry, ...]
    is_transaction_index_empty: bool


class SegmentEvent(NamedTuple):
    """A copy began, or its state changed (Kafka ``RemoteLogSegmentMetadata`` and its update).

    Attributes
    ----------
    topic_partition, topic_id, segment_id : TopicPartition, UUID, UUID
        Of which copy.
    state : RemoteLogSegmentState
        From now on.
    broker_id, event_timestamp_ms : int
        Which broker says so, and when by its clock.
    custom_metadata : bytes or None
        Of the plug-in, from now on; see `parse_custom_metadata`.
    copied : CopiedSegment or None
        None: the event is an update.
    """

    topic_partition: TopicPartition
    topic_id: UUID
    segment_id: UUID
    state: RemoteLogSegmentState
    broker_id: int
    event_timestamp_ms: int
    custom_metadata: bytes | None
    copied: CopiedSegment | None


class PartitionDeletion(NamedTuple):
    """A partition is being deleted (Kafka ``RemotePartitionDeleteMetadata``)."""

    topic_partition: TopicPartition
    topic_id: UUID
    state: RemotePartitionDeleteState
    broker_id: int
    event_timestamp_ms: int


class CustomMetadata(NamedTuple):
    """What the plug-in was set to note of a copy; None: it was not [RLM-5].

    Attributes
    ----------
    remote_size_bytes : int or None
        Stored bytes of the three objects.
    key_prefix : str or None
        ``rsm.config.key.prefix`` at the time of the copy.
    main_key : str or None
        Key without that prefix and without suffix.
    """

    remote_size_bytes: int | None = None
    key_prefix: str | None = None
    main_key: str | None = None


def parse_event(value: bytes | None) -> SegmentEvent | PartitionDeletion:
    """Parse the value of one record [RLM-2, RLM-3].

    Raises
    ------
    CorruptLogError
        It is no event, was cut, or says what cannot be.
    UnsupportedFormatError
        It is of another kind or version.
    """
    try:
        message = _messages().read(value, known_versions=True)
        return _event(message)
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


def parse_custom_metadata(data: bytes) -> CustomMetadata:
    """Parse the custom bytes of Aiven's plug-in; fields that are not known are passed over [RLM-5].

    Raises
    ------
    CorruptLogError
        They are of another plug-in, or damaged.
    """
    try:
        fields, rest = _tagged_fields(data)
        if rest:
            raise _wrong_custom_metadata(f"{len(rest)} bytes after the fields")
        size = _varlong(fields[0]) if 0 in fields else None
        prefix, key = (_compact_string(fields[tag]) if tag in fields else None for tag in (1, 2))
    except CorruptLogError:
        raise
    except (SegstoreError, UnicodeDecodeError) as error:
        raise _wrong_custom_metadata(str(error)) from error
    return CustomMetadata(size, prefix, key)


@cache
def _messages() -> FramedMessages:
    return FramedMessages(REMOTE_LOG_MESSAGES)


def _event(message: FramedMessage) -> SegmentEvent | PartitionDeletion:
    fields = message.fields
    if message.schema.name == "RemoteLogSegmentMetadataSnapshotRecord":
        raise UnsupportedFormatError(
            "the event is a snapshot of a segment, which Kafka keeps in files of its own",
            found="kind 3",
            expected="kind 0, 1 or 2",
        )
    if message.schema.name == "RemotePartitionDeleteMetadataRecord":
        state = _state(RemotePartitionDeleteState, fields["remotePartitionDeleteState"])
        return PartitionDeletion(
            *_partition(fields), state, fields["brokerId"], fields["eventTimestampMs"]
        )
    copied = _copied(fields) if message.schema.name == "RemoteLogSegmentMetadataRecord" else None
    segment = fields["remoteLogSegmentId"]
    return SegmentEvent(
        *_partition(segment),
        segment["id"],
        _state(RemoteLogSegmentState, fields["remoteLogSegmentState"]),
        fields["brokerId"],
        fields["eventTimestampMs"],
        fields["customMetadata"],
        copied,
    )


def _partition(fields: dict[str, Any]) -> tuple[TopicPartition, UUID]:
    found = fields["topicIdPartition"]
    return TopicPartition(found["name"], found["partition"]), found["id"]


def _state(states: type[_StateT], number: int) -> _StateT:
    try:
        return states(number)
    except ValueError:
        raise MessageError(f"state {number} of {len(states)} states") from None


def _copied(fields: dict[str, Any]) -> CopiedSegment:
    start, end = fields["startOffset"], fields["endOffset"]
    epochs = {one["leaderEpoch"]: one["offset"] for one in fields["segmentLeaderEpochs"]}
    if not 0 <= start <= end or not epochs:  # as the constructor of Kafka's class
        raise MessageError(f"a segment from {start} to {end} with {len(epochs)} leader epochs")
    return CopiedSegment(
        start,
        end,
        fields["maxTimestampMs"],
        fields["segmentSizeInBytes"],
        tuple(EpochEntry(*entry) for entry in sorted(epochs.items())),
        fields.get("txnIndexEmpty", False),
    )


def _tagged_fields(data: bytes) -> tuple[dict[int, bytes], bytes]:
    fields: dict[int, bytes] = {}
    count, rest = _uvarint(data)
    for _ in range(count):
        tag, rest = _uvarint(rest)
        size, rest = _uvarint(rest)
        if size > len(rest):
            raise _wrong_custom_metadata(f"a field of {size} bytes, {len(rest)} are left")
        fields[tag], rest = rest[:size], rest[size:]
    return fields, rest


def _uvarint(data: bytes) -> tuple[int, bytes]:
    value, size = read_uvarint(data)
    return value, data[size:]


def _varlong(data: bytes) -> int:
    value, size = read_varlong(data)
    if size != len(data):
        raise _wrong_custom_metadata(f"a number of {size} bytes in {len(data)}")
    return value


def _compact_string(data: bytes) -> str:
    size, rest = _uvarint(data)
    if size - 1 != len(rest):
        raise _wrong_custom_metadata(f"a string of {size - 1} bytes in {len(rest)}")
    return rest.decode()


def _wrong_custom_metadata(found: str) -> CorruptLogError:
    return CorruptLogError(
        "the custom metadata of a segment cannot be read",
        found=found,
        expected="fields as Aiven's plug-in writes them",
    )
