"""No record has the offset 2^63-1, so that the log end behind it is a number too [DUR-89].

A follower's append that ended there was acknowledged with a log end of -2^63, and gone after the
next open. Looked for besides: each way into a log (lane and layers; leader, follower and Raft
leader; one batch and several; both profiles), the builders of batches, logs that begin there, and
what each way of reading says of such a batch in a file or a buffer: it was left out in silence
where the offsets asked for have no upper bound. The C paths are in tests/c/test_segment_append.c,
test_record.c and test_batch_scan.c.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore import _core
from segstore.errors import (
    CorruptLogError,
    IllegalArgumentError,
    InvalidOffsetError,
    InvalidRecordError,
    SegstoreError,
)
from segstore.records.compression import codec_table
from segstore.records.memory_records import MemoryRecords
from segstore.types import AppendOrigin
from tests.kits.log_kit import batch, offsets, remove_own_notes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore import UnifiedLog

LAST = 2**63 - 1
NO_OFFSET_LEFT = (IllegalArgumentError, InvalidOffsetError)


def ending_at(last_offset: int, count: int = 1) -> bytes:
    """A batch that no builder makes."""
    data = bytearray(batch([(1, None, b"value")] * count))
    struct.pack_into(">q", data, 0, last_offset - count + 1)
    struct.pack_into(">i", data, 12, 0)
    return bytes(data)


def log_from(path: Path, begin: int, **settings: Any) -> UnifiedLog:
    log = segstore.open(path, durability="none", **settings)
    log.truncate_fully_and_start_at(begin)
    return log


def as_records(log: UnifiedLog, count: int) -> object:
    return log.append([(1, None, b"value")] * count)


def as_leader(log: UnifiedLog, count: int) -> object:
    return log.append_as_leader(batch([(1, None, b"value")] * count))


def as_several(log: UnifiedLog, count: int) -> object:
    return log.append_as_leader(MemoryRecords(batch([(1, None, b"value")]) * count))


def as_follower(log: UnifiedLog, count: int) -> object:
    return log.append_as_follower(ending_at(log.log_end_offset + count - 1, count), 0)


def as_several_of_a_follower(log: UnifiedLog, count: int) -> object:
    first = log.log_end_offset
    return log.append_as_follower(b"".join(ending_at(first + i) for i in range(count)), 0)


def as_raft_leader(log: UnifiedLog, count: int) -> object:
    data = ending_at(log.log_end_offset + count - 1, count)
    return log.append_as_leader(data, 0, origin=AppendOrigin.RAFT_LEADER)


WAYS = [
    as_records,
    as_leader,
    as_several,
    as_follower,
    as_several_of_a_follower,
    as_raft_leader,
]


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
@pytest.mark.parametrize("is_armed", [False, True])
@pytest.mark.parametrize("append", WAYS)
def test_an_append_that_would_end_at_the_last_offset_is_refused(
    tmp_path: Path, append: Callable[[UnifiedLog, int], object], recovery: str, *, is_armed: bool
):
    """Nothing is written, and what one record less fills is there after an open."""
    path = tmp_path / "t-0"
    begin = LAST - 3 if is_armed else LAST - 2
    log = log_from(path, begin, recovery=recovery)
    if is_armed:
        log.append([(1, None, b"arms the lane")])
    before = (log.log_end_offset, log.segments()[-1].size_bytes)

    with pytest.raises(NO_OFFSET_LEFT):
        append(log, 3)
    assert (log.log_end_offset, log.segments()[-1].size_bytes) == before

    append(log, 2)
    with pytest.raises(NO_OFFSET_LEFT):
        append(log, 1)
    assert log.log_end_offset == LAST
    log.close()
    with segstore.open(path, recovery=recovery) as log:
        assert log.log_end_offset == LAST
        assert offsets(log.read(log.log_start_offset)) == list(range(begin, LAST))


def test_a_log_may_begin_at_the_last_log_end(tmp_path: Path):
    """It takes nothing, also after a roll and an open; no log begins behind it."""
    path = tmp_path / "t-0"
    log = log_from(path, LAST)
    with pytest.raises(NO_OFFSET_LEFT):
        log.append([(1, None, b"value")])
    log.roll()
    with pytest.raises(IllegalArgumentError):
        log.truncate_fully_and_start_at(LAST + 1)
    log.close()
    with segstore.open(path) as log:
        assert (log.log_start_offset, log.log_end_offset) == (LAST, LAST)
        with pytest.raises(NO_OFFSET_LEFT):
            log.append([(1, None, b"value")])


# ---- a file that has such a record: a fault of this library wrote it, or another did ----


def log_with_the_last_offset(path: Path, count: int) -> None:
    with log_from(path, LAST - count) as log:
        log.append([(1, None, b"before")])
    segment = next(path.glob("*.log"))
    with segment.open("ab") as file:
        file.write(ending_at(LAST, count))


@pytest.mark.parametrize("count", [1, 2])
def test_an_open_tells_of_a_record_at_the_last_offset(tmp_path: Path, count: int):
    """[DUR-50] What stands before it is read, and the writer keeps a copy of the batch."""
    path = tmp_path / "t-0"
    log_with_the_last_offset(path, count)
    expected = [LAST - count]

    with segstore.open(path, read_only=True) as log:
        assert offsets(log.read(log.log_start_offset)) == expected
        assert "2^63-1" in str(log.report)
    with segstore.open(path) as log:
        assert offsets(log.read(log.log_start_offset)) == expected
        assert log.report.quarantined
        assert "2^63-1" in str(log.report)


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_brokers_open_refuses_a_record_at_the_last_offset(tmp_path: Path, *, is_clean: bool):
    """A broker's log end would be -2^63 there, and LDR-25 then deletes all segments."""
    path = tmp_path / "t-0"
    log_with_the_last_offset(path, 1)
    remove_own_notes(path)
    if is_clean:
        (path / ".kafka_cleanshutdown").write_bytes(b'{"version":0}')
    before = {file.name: file.read_bytes() for file in path.glob("*.log")}

    with pytest.raises(CorruptLogError, match=r"2\^63-1"):
        segstore.open(path, recovery="kafka")
    assert {file.name: file.read_bytes() for file in path.glob("*.log")} == before


READERS: list[Callable[[bytes], object]] = [
    lambda data: list(_core.iterate_records(data, codec_table())),
    lambda data: _core.decode_tuples(data, codec_table()),
    lambda data: _core.decode_values(data, codec_table()),
    lambda data: _core.ColumnDecoder(codec_table()).append(data),
]


@pytest.mark.parametrize("read", READERS)
def test_no_reader_leaves_such_a_batch_out_in_silence(read: Callable[[bytes], object]):
    """[DUR-7, DUR-89] Its first offset is at or above every end offset that can be asked for."""
    read(ending_at(LAST - 1))
    with pytest.raises(InvalidRecordError):
        read(ending_at(LAST))


@pytest.mark.parametrize("read", READERS)
def test_nor_a_record_beyond_the_offsets_of_its_batch(read: Callable[[bytes], object]):
    """A batch of one offset whose second record has the last offset of all."""
    data = bytearray(ending_at(LAST - 1, count=2))  # at 2^63-3 and 2^63-2
    struct.pack_into(">q", data, 0, LAST - 1)
    struct.pack_into(">i", data, 23, 0)
    struct.pack_into(">I", data, 17, _core.crc32c(bytes(data[21:])))

    with pytest.raises(InvalidRecordError):
        read(bytes(data))


def test_no_builder_makes_such_a_record():
    for count in (1, 2):
        with pytest.raises(SegstoreError):
            _core.encode_records(
                [(1, None, b"value")] * count,
                _core.BatchOptions(base_offset=LAST - count + 1),
                codec_table(),
                1,
                10**6,
            )
