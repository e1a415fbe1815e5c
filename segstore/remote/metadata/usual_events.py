"""Events of ``__remote_log_metadata`` in their usual bytes: a topic of a million is read so.

Usual is what Kafka writes of a segment whose topic's name and custom bytes are short. Whatever is
different is left to the reader of all messages, which also says what is wrong.
"""

from __future__ import annotations

import itertools
import struct
from functools import lru_cache
from typing import Final
from uuid import UUID

from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from segstore.types import EpochEntry, TopicPartition

_ADDED: Final = 0
_UPDATED: Final = 1
_ONE_BYTE: Final = 0x80  # a varint below that has one
_STATES: Final = tuple(RemoteLogSegmentState)

_ID: Final = struct.Struct(">16sB")
_PARTITION: Final = struct.Struct(">16siB")
_SEGMENT: Final = struct.Struct(">qqiqqB")
_EPOCH: Final = struct.Struct(">iqB")
_SIZE: Final = struct.Struct(">i")
_UPDATE: Final = struct.Struct(">iq")
_TRANSACTION_INDEX_EMPTY: Final = {b"\0": False, b"\1\0\1\1": True}


def usual_event(
    value: bytes | None,
) -> RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | None:
    """Return the event in *value*, None where the bytes are not the usual ones."""
    if value is None or len(value) <= _ID.size or value[0] != 1 or value[2] != 0:
        return None
    try:
        if value[1] == _UPDATED:
            return _update(value)
        return _segment(value) if value[1] == _ADDED else None
    except (struct.error, IndexError, KeyError):
        return None


def _segment_id(value: bytes) -> tuple[RemoteLogSegmentId | None, int]:
    """Return which segment it is, None for other bytes, and the position behind it."""
    end = 3 + value[3] + _PARTITION.size
    partition = _partition(value[3:end])
    segment_id, tags = _ID.unpack_from(value, end)
    if partition is None or tags != 0:
        return None, 0
    return RemoteLogSegmentId(partition, UUID(bytes=segment_id)), end + _ID.size


@lru_cache(4096)
def _partition(place: bytes) -> TopicIdPartition | None:
    size = place[0]
    if not 1 <= size < _ONE_BYTE:
        return None
    topic_id, number, tags = _PARTITION.unpack_from(place, size)
    try:
        name = place[1:size].decode()
    except UnicodeDecodeError:
        return None
    if tags != 0:
        return None
    return TopicIdPartition(UUID(bytes=topic_id), TopicPartition(name, number))


def _custom_metadata(value: bytes, at: int) -> tuple[bytes | None, int]:
    """Return the bytes at a position, and the position behind them."""
    size = value[at]
    if size == 0:
        return None, at + 1
    if size >= _ONE_BYTE:
        raise IndexError
    return value[at + 1 : at + size], at + size


def _update(value: bytes) -> RemoteLogSegmentMetadataUpdate | None:
    segment_id, at = _segment_id(value)
    if segment_id is None:
        return None
    broker_id, event_timestamp_ms = _UPDATE.unpack_from(value, at)
    custom_metadata, at = _custom_metadata(value, at + _UPDATE.size)
    if value[at + 1 :] != b"\0":
        return None
    return RemoteLogSegmentMetadataUpdate(
        segment_id=segment_id,
        event_timestamp_ms=event_timestamp_ms,
        custom_metadata=custom_metadata,
        state=_STATES[value[at]],
        broker_id=broker_id,
    )


def _segment(value: bytes) -> RemoteLogSegmentMetadata | None:
    segment_id, at = _segment_id(value)
    if segment_id is None:
        return None
    start, end, broker_id, max_timestamp_ms, event_timestamp_ms, count = _SEGMENT.unpack_from(
        value, at
    )
    at += _SEGMENT.size
    epochs_end = at + (count - 1) * _EPOCH.size
    epochs = list(_EPOCH.iter_unpack(value[at:epochs_end]))
    (segment_size_bytes,) = _SIZE.unpack_from(value, epochs_end)
    custom_metadata, at = _custom_metadata(value, epochs_end + _SIZE.size)
    numbers = [epoch for epoch, _, _ in epochs]
    if (
        not 1 < count < _ONE_BYTE
        or any(tags for _, _, tags in epochs)
        or any(after <= before for before, after in itertools.pairwise(numbers))
        or not 0 <= start <= end
    ):
        return None
    return RemoteLogSegmentMetadata(
        segment_id=segment_id,
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=max_timestamp_ms,
        broker_id=broker_id,
        event_timestamp_ms=event_timestamp_ms,
        segment_size_bytes=segment_size_bytes,
        state=_STATES[value[at]],
        segment_leader_epochs=tuple(EpochEntry(epoch, offset) for epoch, offset, _ in epochs),
        custom_metadata=custom_metadata,
        is_transaction_index_empty=_TRANSACTION_INDEX_EMPTY[value[at + 1 :]],
    )
