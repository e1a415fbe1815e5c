"""A follower's batch that ends before it begins: acknowledged, it took all behind it."""

from __future__ import annotations

import struct

import pytest

import segstore
from segstore import AppendOrigin, MemoryRecords
from segstore._core import crc32c
from segstore.errors import OffsetsOutOfOrderError, UnsupportedFormatError

DOORS = {
    "follower": lambda log, data: log.append_as_follower(data, 0),
    "raft leader": lambda log, data: log.append_as_leader(data, 0, origin=AppendOrigin.RAFT_LEADER),
}


def changed(position: int, field: bytes) -> bytes:
    """A batch from offset 1000 on with a field that no producer writes, and the CRC for it."""
    records = MemoryRecords.with_records([(b"k", b"v")], base_offset=1000, partition_leader_epoch=0)
    data = bytearray(records.data)
    data[position : position + len(field)] = field
    data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    return bytes(data)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("delta", [-1, -5, -998, -1000, -(2**31)])
@pytest.mark.parametrize("before", [0, 2])
def test_it_is_refused_and_nothing_behind_it_is_lost(tmp_path, door, delta, before):
    """[DUR-1, DUR-50, DUR-64]"""
    with segstore.open(tmp_path / "t-0") as log:
        for _ in range(before):
            log.append([(None, b"x")])
        with pytest.raises(OffsetsOutOfOrderError):
            DOORS[door](log, changed(23, struct.pack(">i", delta)))
        assert log.log_end_offset == before
        log.append([(None, b"acked")] * 20)
    with segstore.open(tmp_path / "t-0") as log:
        assert (log.report.clean, log.log_end_offset) == (True, before + 20)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("profile", ["safe", "kafka"])
@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_batch_that_nobody_can_read_is_refused(tmp_path, door, profile, codec):
    """[APP-4.8] in Kafka by ``CompressionType.forId``, before the batch is written."""
    with segstore.open(tmp_path / "t-0", recovery=profile) as log:
        with pytest.raises(UnsupportedFormatError, match=f"codec id {codec}"):
            DOORS[door](log, changed(21, struct.pack(">h", codec)))
        assert log.log_end_offset == 0
