"""Payloads of ``__remote_log_metadata``: text forms of Kafka's metadata objects [18.2]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segstore._core import FramedMessages, MessageError
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.records.messages.message_schema import parse_schemas
from segstore.records.messages.remote_log_messages import REMOTE_LOG_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore._core import RawRecord

SEGMENT_STATES = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
PARTITION_STATES = (
    "DELETE_PARTITION_MARKED",
    "DELETE_PARTITION_STARTED",
    "DELETE_PARTITION_FINISHED",
)


class RemoteLogMetadataDecoder:
    """What Kafka's ``RemoteMetadataLogMessageParser`` prints."""

    def __init__(self) -> None:
        self._messages = FramedMessages(parse_schemas(REMOTE_LOG_MESSAGES).values())
        self._texts = {
            "RemoteLogSegmentMetadataRecord": _segment,
            "RemoteLogSegmentMetadataUpdateRecord": _update,
            "RemotePartitionDeleteMetadataRecord": _partition_delete,
            "RemoteLogSegmentMetadataSnapshotRecord": _snapshot,
        }

    def decode(self, record: RawRecord) -> tuple[str | None, str | None]:
        """Return no key and the text of the payload."""
        try:
            message = self._messages.read(record.value)
            return None, self._texts[message.schema.name](message.fields)
        except MessageError as error:
            return None, f"Error at offset {record.offset}, skipping. {error}"


def _segment(fields: dict[str, Any]) -> str:
    _check_segment(fields)
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(fields)}, "
        f"startOffset={fields['startOffset']}, endOffset={fields['endOffset']}, "
        f"brokerId={fields['brokerId']}, maxTimestampMs={fields['maxTimestampMs']}, "
        f"eventTimestampMs={fields['eventTimestampMs']}, {_end_of_segment(fields)}"
    )


def _update(fields: dict[str, Any]) -> str:
    return (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(fields)}, "
        f"customMetadata={_custom_metadata(fields)}, state={_segment_state(fields)}, "
        f"eventTimestampMs={fields['eventTimestampMs']}, brokerId={fields['brokerId']}}}"
    )


def _partition_delete(fields: dict[str, Any]) -> str:
    state = _state(fields["remotePartitionDeleteState"], PARTITION_STATES, "null")
    return (
        f"RemotePartitionDeleteMetadata{{topicPartition={_topic_partition(fields)}, "
        f"state={state}, eventTimestampMs={fields['eventTimestampMs']}, "
        f"brokerId={fields['brokerId']}}}"
    )


def _snapshot(fields: dict[str, Any]) -> str:
    _segment_state(fields)
    if not fields["segmentLeaderEpochs"]:
        raise MessageError("segmentLeaderEpochs can not be null or empty")
    return (
        f"RemoteLogSegmentMetadataSnapshot{{segmentId={topic_id_text(fields['segmentId'])}, "
        f"startOffset={fields['startOffset']}, endOffset={fields['endOffset']}, "
        f"maxTimestampMs={fields['maxTimestampMs']}, {_end_of_segment(fields)}"
    )


def _check_segment(fields: dict[str, Any]) -> None:
    start, end = fields["startOffset"], fields["endOffset"]
    if start < 0:
        raise MessageError(
            f"Unexpected start offset = {start}. "
            "StartOffset for a remote segment cannot be negative"
        )
    if end < start:
        raise MessageError(
            f"Unexpected end offset = {end}. "
            f"EndOffset for a remote segment cannot be less than startOffset = {start}"
        )
    if not fields["segmentLeaderEpochs"]:
        raise MessageError("segmentLeaderEpochs can not be null or empty")


def _end_of_segment(fields: dict[str, Any]) -> str:
    epochs = {entry["leaderEpoch"]: entry["offset"] for entry in fields["segmentLeaderEpochs"]}
    listed = ", ".join(f"{epoch}={offset}" for epoch, offset in sorted(epochs.items()))
    return (
        f"segmentLeaderEpochs={{{listed}}}, segmentSizeInBytes={fields['segmentSizeInBytes']}, "
        f"customMetadata={_custom_metadata(fields)}, state={_segment_state(fields)}, "
        f"txnIdxEmpty={'true' if fields.get('txnIndexEmpty') else 'false'}}}"
    )


def _segment_state(fields: dict[str, Any]) -> str:
    return _state(fields["remoteLogSegmentState"], SEGMENT_STATES, "state can not be null")


def _state(number: int, names: Sequence[str], otherwise: str) -> str:
    if not 0 <= number < len(names):
        raise MessageError(otherwise)
    return names[number]


def _custom_metadata(fields: dict[str, Any]) -> str:
    data = fields["customMetadata"]
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _segment_id(fields: dict[str, Any]) -> str:
    entry = fields["remoteLogSegmentId"]
    segment_id = topic_id_text(entry["id"])
    return f"RemoteLogSegmentId{{topicIdPartition={_topic_partition(entry)}, id={segment_id}}}"


def _topic_partition(fields: dict[str, Any]) -> str:
    entry = fields["topicIdPartition"]
    return f"{topic_id_text(entry['id'])}:{entry['name']}-{entry['partition']}"
