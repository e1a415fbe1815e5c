"""Events of ``__remote_log_metadata`` in bytes, written from the rules [RLM-2, RLM-3, RLM-5]."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import segstore
from segstore.remote.tiered.remote_log_metadata import PartitionDeletion
from tests.interop.message_writer import varint

if TYPE_CHECKING:
    from pathlib import Path

    from segstore.remote.tiered.remote_log_metadata import SegmentEvent

TOPIC = "__remote_log_metadata"
NO_TAGS = b"\0"


def compact(data: bytes | None) -> bytes:
    """Return bytes, or null, with their size plus one in front."""
    return varint(0) if data is None else varint(len(data) + 1) + data


def event_bytes(event: SegmentEvent | PartitionDeletion) -> bytes:
    """Return the value of a record as a broker writes it."""
    topic, partition = event.topic_partition
    place = compact(topic.encode()) + event.topic_id.bytes + struct.pack(">i", partition) + NO_TAGS
    if isinstance(event, PartitionDeletion):
        end = struct.pack(">iqb", event.broker_id, event.event_timestamp_ms, event.state)
        return bytes([1, 2, 0]) + place + end + NO_TAGS
    segment = place + event.segment_id.bytes + NO_TAGS
    end = compact(event.custom_metadata) + struct.pack(">b", event.state)
    if event.copied is None:
        middle = struct.pack(">iq", event.broker_id, event.event_timestamp_ms)
        return bytes([1, 1, 0]) + segment + middle + end + NO_TAGS
    copied = event.copied
    numbers = struct.pack(
        ">qqiqq",
        copied.start_offset,
        copied.end_offset,
        event.broker_id,
        copied.max_timestamp_ms,
        event.event_timestamp_ms,
    )
    epochs = varint(len(copied.leader_epochs) + 1) + b"".join(
        struct.pack(">iq", *entry) + NO_TAGS for entry in copied.leader_epochs
    )
    tags = b"\1\0\1\1" if copied.is_transaction_index_empty else NO_TAGS
    size = struct.pack(">i", copied.size_bytes)
    return bytes([1, 0, 0]) + segment + numbers + epochs + size + end + tags


def write_topic(directory: Path, values: list[bytes | None], partition: int = 0) -> Path:
    """Write a log directory with one partition of the topic; return it."""
    with segstore.open(directory / f"{TOPIC}-{partition}", durability="none") as log:
        log.append([(None, value) for value in values])
    return directory
