"""Batches with one control record of KRaft (Kafka ``MemoryRecords.with...Record``)."""

from __future__ import annotations

import struct

from segstore._core import RecordsBuilder
from segstore.errors import IllegalArgumentError
from segstore.records.compression import codec_table
from segstore.records.kraft_record import KRaftValue, LeaderChange, encode_kraft_value
from segstore.types import NO_PARTITION_LEADER_EPOCH

__all__ = ["build_kraft_batch"]


def build_kraft_batch(
    offset: int, timestamp: int, partition_leader_epoch: int, value: KRaftValue
) -> bytes:
    """Return the control batch that holds *value*.

    Parameters
    ----------
    offset : int
        Of the record.
    timestamp : int
        In ms.
    partition_leader_epoch : int
        A leader change must have one.
    value : KRaftValue
        Written as version 0.

    Raises
    ------
    IllegalArgumentError
        A leader change without a leader epoch.
    UnsupportedFormatError
        Directory ids in a leader change.

    Source: [format.md 6.3, 19.7].
    """
    if isinstance(value, LeaderChange) and partition_leader_epoch == NO_PARTITION_LEADER_EPOCH:
        raise IllegalArgumentError(
            "a leader change needs a leader epoch", found="-1 (none)", expected="0 or more"
        )
    kind, content = encode_kraft_value(value)
    builder = RecordsBuilder(
        codec_table(),
        control=True,
        base_offset=offset,
        partition_leader_epoch=partition_leader_epoch,
    )
    builder.append(offset, timestamp, struct.pack(">hh", 0, kind), content)
    return builder.build()
