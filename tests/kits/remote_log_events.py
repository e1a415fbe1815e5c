"""Events of ``__remote_log_metadata`` in bytes, written from the rules [RLM-2, RLM-3, RLM-5]."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import segstore
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tests.interop.message_writer import varint

if TYPE_CHECKING:
    from pathlib import Path

    from segstore.remote.metadata.segment_metadata import RemoteLogMetadata

TOPIC = "__remote_log_metadata"
NO_TAGS = b"\0"


def compact(data: bytes | None) -> bytes:
    """Return bytes, or null, with their size plus one in front."""
    return varint(0) if data is None else varint(len(data) + 1) + data


def event_bytes(event: RemoteLogMetadata) -> bytes:
    """Return the value of a record as a broker writes it."""
    topic_id, (topic, partition) = event.topic_id_partition
    place = compact(topic.encode()) + topic_id.bytes + struct.pack(">i", partition) + NO_TAGS
    if isinstance(event, RemotePartitionDeleteMetadata):
        end = struct.pack(">iqb", event.broker_id, event.event_timestamp_ms, event.state)
        return bytes([1, 2, 0]) + place + end + NO_TAGS
    segment = place + event.segment_id.id.bytes + NO_TAGS
    end = compact(event.custom_metadata) + struct.pack(">b", event.state)
    if isinstance(event, RemoteLogSegmentMetadataUpdate):
        middle = struct.pack(">iq", event.broker_id, event.event_timestamp_ms)
        return bytes([1, 1, 0]) + segment + middle + end + NO_TAGS
    numbers = struct.pack(
        ">qqiqq",
        event.start_offset,
        event.end_offset,
        event.broker_id,
        event.max_timestamp_ms,
        event.event_timestamp_ms,
    )
    epochs = varint(len(event.segment_leader_epochs) + 1) + b"".join(
        struct.pack(">iq", *entry) + NO_TAGS for entry in event.segment_leader_epochs
    )
    tags = b"\1\0\1\1" if event.is_transaction_index_empty else NO_TAGS
    size = struct.pack(">i", event.segment_size_bytes)
    return bytes([1, 0, 0]) + segment + numbers + epochs + size + end + tags


def write_topic(directory: Path, values: list[bytes | None], partition: int = 0) -> Path:
    """Write a log directory with one partition of the topic; return it."""
    with segstore.open(directory / f"{TOPIC}-{partition}", durability="none") as log:
        log.append([(None, value) for value in values])
    return directory
