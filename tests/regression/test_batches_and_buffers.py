"""Batches: their limits, their bytes, and the memory that holds them."""

from __future__ import annotations

import gc
import gzip
import os
import struct
import subprocess
import sys
import threading
import time
import zlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import segstore
from segstore import AppendOrigin, MemoryRecords, _core
from segstore._core import RecordsBuilder, crc32c, iterate_records, write_varint
from segstore.errors import (
    CodecError,
    CorruptLogError,
    IllegalArgumentError,
    IllegalStateError,
    InvalidOffsetError,
    InvalidRecordError,
    LimitExceededError,
    OffsetsOutOfOrderError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    SegstoreError,
    UnsupportedFormatError,
)
from segstore.records import gzip_codec, lz4_codec, zstd_codec
from segstore.records.compression import codec_table
from segstore.types import Codec
from tests.kits.log_kit import TIME, at, batch, offsets, remove_own_notes, singleton

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

    from segstore import UnifiedLog


# ---- append of no complete batch -----------------------------------------------------------------
# A cut batch given to `append_as_leader` was dropped, and the append looked like a success.
#
# Bytes behind the last whole batch are left out, as Kafka does; bytes without any whole batch hold
# nothing that could be appended [APP-31].


@pytest.mark.parametrize("data", [singleton()[:-3], b"junk", b"\0", bytes(5)])
def test_no_complete_batch_is_an_error(new_log, data):
    """[APP-31, DUR-85]"""
    log = new_log()
    for append in (log.append_as_leader, lambda given: log.append_as_follower(given, 0)):
        with pytest.raises(segstore.CorruptRecordError, match="no complete batch") as caught:
            append(data)
        assert (caught.value.position, caught.value.found) == (0, f"{len(data)} bytes")
    assert log.log_end_offset == 0


def test_what_follows_a_complete_batch_is_left_out(new_log):
    """[APP-31] Kafka's clients may be given a cut batch behind whole ones."""
    log = new_log()
    assert log.append_as_leader(singleton() + singleton()[:-3]).records_count == 1
    assert log.append_as_follower(at(1) + at(2)[:-1], 0).records_count == 1
    assert log.append_as_leader(b"").records_count == 0
    assert offsets(log) == [0, 1]


# ---- batch larger than a segment -----------------------------------------------------------------
# `append` took a batch larger than a segment; `append_as_leader` refused the same batch.
#
# [APP-11] Kafka: ``RecordBatchTooLargeException`` for what is larger than ``segment.bytes``. What
# else of the kind was looked for: the lane's single record, lists, iterables, Arrow tables and
# compressed batches, a leader's and a follower's batches, both profiles, a log that has records
# already, the hidden ``internal_segment_bytes`` and Spark's sink. A list that is larger than a
# segment, in batches that are not, is still split over segments.


MIB = 1024 * 1024
WIDE = (b"k", b"x" * (2 * MIB))
SMALL = (b"k", b"v")


def arrow(*records: tuple[bytes, bytes]) -> pa.Table:
    keys, values = zip(*records, strict=True)
    return pa.table({"key": list(keys), "value": list(values)})


WAYS_OF_A_LARGE_BATCH = {
    "one record": lambda log: log.append([WIDE]),
    "among others": lambda log: log.append([SMALL, WIDE, SMALL]),
    "a generator": lambda log: log.append(record for record in (SMALL, WIDE)),
    "a record": lambda log: log.append(segstore.Record(key=WIDE[0], value=WIDE[1])),
    "arrow": lambda log: log.append(arrow(SMALL, WIDE)),
    "a leader's": lambda log: log.append_as_leader(segstore.MemoryRecords.with_records([WIDE])),
}


@pytest.fixture(params=["safe", "kafka"])
def log(request, tmp_path):
    with segstore.open(
        tmp_path / "topic-0",
        durability="none",
        recovery=request.param,
        segment_bytes=MIB,
        max_message_bytes=10 * MIB,
    ) as log:
        yield log


@pytest.mark.parametrize("way", WAYS_OF_A_LARGE_BATCH.values(), ids=WAYS_OF_A_LARGE_BATCH)
@pytest.mark.parametrize("before", [0, 3])
def test_every_way_refuses_it_and_appends_nothing(log, way, before):
    """[APP-11] the error names both sizes and the setting; the log goes on."""
    for _ in range(before):
        log.append([SMALL])
    with pytest.raises(RecordBatchTooLargeError, match="segment_bytes") as caught:
        way(log)
    assert caught.value.expected == f"at most {MIB} bytes"
    assert str(2 * MIB)[:4] in caught.value.found
    assert log.log_end_offset == before
    assert log.append([SMALL]).base_offset == before


def test_a_followers_batch(log):
    """[APP-2, APP-11]"""
    records = segstore.MemoryRecords.with_records([WIDE], partition_leader_epoch=0)
    with pytest.raises(RecordBatchTooLargeError, match="segment_bytes"):
        log.append_as_follower(records, 0)
    assert log.log_end_offset == 0


def test_a_list_that_is_larger_than_a_segment_is_split(log):
    """Its batches fit: as a producer that sends several requests."""
    log.append([(b"k", b"x" * 1000)] * 3000)
    assert log.log_end_offset == 3000
    sizes = [segment.size_bytes for segment in log.segments()]
    assert len(sizes) >= 3
    assert max(sizes) <= MIB


@pytest.mark.parametrize("compression", ["gzip", "lz4", "zstd"])
def test_what_fits_when_it_is_compressed(tmp_path, compression):
    """[APP-11] the stored size counts."""
    pytest.importorskip({"gzip": "zlib", "lz4": "lz4.frame", "zstd": "zstandard"}[compression])
    with segstore.open(
        tmp_path / "topic-0",
        durability="none",
        segment_bytes=MIB,
        max_message_bytes=10 * MIB,
        compression_type=compression,
    ) as log:
        log.append([WIDE])
        assert [record.value for record in log.read(0)] == [WIDE[1]]


def test_the_hidden_setting_is_named(tmp_path):
    """``internal_segment_bytes`` limits, where it is set."""
    with (
        segstore.open(tmp_path / "topic-0", internal_segment_bytes=500) as log,
        pytest.raises(RecordBatchTooLargeError, match="which internal_segment_bytes limits"),
    ):
        log.append([(b"k", b"x" * 500)])


def test_the_limit_of_a_batch_comes_first(tmp_path):
    """[APP-4.6] as for a broker: ``max_message_bytes``, where both are too small."""
    with (
        segstore.open(tmp_path / "topic-0", segment_bytes=MIB) as log,
        pytest.raises(RecordTooLargeError),
    ):
        log.append([WIDE])


# ---- batch that ends before it begins ------------------------------------------------------------
# A follower's batch that ends before it begins: acknowledged, it took all behind it.


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


# ---- last offset of int64 ------------------------------------------------------------------------
# No record has the offset 2^63-1, so that the log end behind it is a number too [DUR-89].
#
# A follower's append that ended there was acknowledged with a log end of -2^63, and gone after the
# next open. Looked for besides: each way into a log (lane and layers; leader, follower and Raft
# leader; one batch and several; both profiles), the builders of batches, logs that begin there, and
# what each way of reading says of such a batch in a file or a buffer: it was left out in silence
# where the offsets asked for have no upper bound. The C paths are in tests/c/test_segment_append.c,
# test_record.c and test_batch_scan.c.


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


WAYS_TO_THE_LAST_OFFSET = [
    as_records,
    as_leader,
    as_several,
    as_follower,
    as_several_of_a_follower,
    as_raft_leader,
]


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
@pytest.mark.parametrize("is_armed", [False, True])
@pytest.mark.parametrize("append", WAYS_TO_THE_LAST_OFFSET)
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


READERS_OF_THE_LAST_OFFSET: list[Callable[[bytes], object]] = [
    lambda data: list(_core.iterate_records(data, codec_table())),
    lambda data: _core.decode_tuples(data, codec_table()),
    lambda data: _core.decode_values(data, codec_table()),
    lambda data: _core.ColumnDecoder(codec_table()).append(data),
]


@pytest.mark.parametrize("read", READERS_OF_THE_LAST_OFFSET)
def test_no_reader_leaves_such_a_batch_out_in_silence(read: Callable[[bytes], object]):
    """[DUR-7, DUR-89] Its first offset is at or above every end offset that can be asked for."""
    read(ending_at(LAST - 1))
    with pytest.raises(InvalidRecordError):
        read(ending_at(LAST))


@pytest.mark.parametrize("read", READERS_OF_THE_LAST_OFFSET)
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


# ---- record limit --------------------------------------------------------------------------------
# `max_record_bytes` stood in the documents and was enforced nowhere [DUR-92].


SIZE = 5000
LIMIT = SIZE // 2
CODECS = [1, 2, 3, 4]


def large(codec: int, **options: int) -> bytes:
    return batch([(TIME, None, b"small"), (TIME, None, b"x" * SIZE)], codec=codec, **options)


READERS_OF_LARGE_RECORDS = {
    "rows": lambda log, start: [r.offset for r in log.scan(start)],
    "arrow": lambda log, start: log.scan(start).to_arrow().column("offset").to_pylist(),
    "tail": lambda log, start: [r.offset for r in log.tail(start, timeout=0)],
}


@pytest.mark.parametrize("read", READERS_OF_LARGE_RECORDS.values(), ids=READERS_OF_LARGE_RECORDS)
@pytest.mark.parametrize("codec", CODECS)
def test_a_larger_record_is_refused_by_its_offset_and_what_follows_is_read(new_log, read, codec):
    """[DUR-92] of compressed batches only: what is not compressed takes no memory of its own."""
    log = new_log()
    log.append_as_follower(large(codec, epoch=0), 0)
    log.append_as_follower(at(2), 0)
    assert read(log, 0) == [0, 1, 2]
    log.close()
    limited = new_log(read_only=True, max_record_bytes=LIMIT)
    with pytest.raises(LimitExceededError, match="record of offset 1 is larger") as caught:
        read(limited, 0)
    assert caught.value.expected == (
        f"at most {LIMIT} bytes (max_record_bytes, max.decompressed.message.bytes)"
    )
    assert int(caught.value.found.removesuffix(" bytes")) > SIZE
    assert read(limited, 2) == [2]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("compression_type", ["producer", "zstd"])
def test_a_larger_record_is_not_appended(new_log, codec, compression_type):
    log = new_log(max_record_bytes=LIMIT, compression_type=compression_type)
    for given in (large(codec), MemoryRecords(large(codec))):
        with pytest.raises(LimitExceededError, match="batch 0, record 1"):
            log.append_as_leader(given)
    assert log.log_end_offset == 0


def test_what_the_log_compresses_itself_can_be_read_again(new_log):
    log = new_log(max_record_bytes=LIMIT, compression_type="gzip")
    table = pa.table({"value": [b"x" * SIZE]})
    for records in ([(None, b"x" * SIZE)], [segstore.Record(value=b"x" * SIZE)], table):
        with pytest.raises(LimitExceededError, match="max_record_bytes"):
            log.append(records)
    assert log.log_end_offset == 0
    log.append([(None, b"x" * (LIMIT - 200))] * 10)
    log.append(pa.table({"value": [b"x" * (LIMIT - 200)] * 10}))
    assert [r.offset for r in log] == list(range(20))


def test_no_batch_is_compressed_that_could_not_be_decompressed(new_log):
    log = new_log(max_decompressed_batch_bytes=LIMIT, compression_type="gzip")
    with pytest.raises(LimitExceededError, match="max_decompressed_batch_bytes"):
        log.append([(None, b"x" * SIZE)])
    log.append([(None, b"x" * (LIMIT - 200))] * 10)
    assert [r.offset for r in log] == list(range(10))


def test_records_that_are_not_compressed_have_the_limits_of_their_batch(new_log):
    log = new_log(max_record_bytes=LIMIT)
    log.append([(None, b"x" * SIZE)])
    log.append_as_leader(large(0))
    assert [r.offset for r in log] == [0, 1, 2]


def message(value: bytes) -> bytes:
    body = struct.pack(">bbqii", 1, 0, TIME, -1, len(value)) + value
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


def test_a_message_of_an_old_wrapper_has_the_same_limit(new_log):
    """[DUR-92] magic 1"""
    value = gzip.compress(message(b"x" * SIZE))
    body = struct.pack(">bbqii", 1, 1, TIME, -1, len(value)) + value
    wrapper = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    log = new_log(max_record_bytes=LIMIT)
    with pytest.raises(LimitExceededError, match="batch 0, record 0"):
        log.append_as_leader(wrapper)
    log.close()
    assert new_log().append_as_leader(wrapper).last_offset == 0


# ---- what was written is read --------------------------------------------------------------------
# A batch that compressed well was accepted, and refused by every reader [DUR-92].
#
# The limit on decompressed batches was checked for prebuilt batches only.


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_records_that_no_reader_would_take_are_refused(new_log, codec):
    pa = pytest.importorskip("pyarrow")
    log = new_log(compression_type=codec, max_decompressed_batch_bytes=1000)
    log.append([(TIME, b"k", bytes(800))])
    for records in ([(TIME, b"k", bytes(5000))], pa.table({"value": [bytes(5000)]})):
        with pytest.raises(segstore.LimitExceededError) as caught:
            log.append(records)
        assert "max_decompressed_batch_bytes = 1000" in caught.value.message
        assert caught.value.expected == "at most 1000 bytes"
    log.append([(TIME, b"k", b"ok")])
    assert [len(value) for *_, value in log.scan().tuples()] == [800, 2]
    assert log.verify().ok


# ---- payload in a codec error --------------------------------------------------------------------
# What is no frame was told by its first four bytes, which are those of a record.


PAYLOAD = b"SECRET payload of a record"
TOLD_AS = ("SECR", PAYLOAD[:4].hex(), PAYLOAD[3::-1].hex())


@pytest.mark.parametrize(
    ("codec", "before"),
    [(lz4_codec, b""), (zstd_codec, b""), (zstd_codec, zstd_codec.compress(b"good", 3))],
    ids=["lz4", "zstd", "zstd, behind a good frame"],
)
def test_no_byte_of_it_is_in_the_message(codec: ModuleType, before: bytes):
    """[DUR-105] Sizes are."""
    with pytest.raises(CodecError, match=f"{len(PAYLOAD)} other bytes") as caught:
        codec.decompress(memoryview(before + PAYLOAD), 1000)

    assert not any(told in f"{caught.value} {caught.value.found}" for told in TOLD_AS)


# ---- builder in two threads ----------------------------------------------------------------------
# A builder whose `build` runs without the interpreter lock was changed by another thread.
#
# The section was moved while it was compressed: the process crashed.


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [0, 1, 4])
def test_nothing_is_appended_during_a_build(magic, codec):
    if magic == 1 and codec == 4:
        pytest.skip("zstd needs magic 2")
    value = os.urandom(1 << 20)
    builder = RecordsBuilder(codec_table(), codec=codec, magic=magic)
    count = 12
    for offset in range(count):
        builder.append(offset, 0, None, value)
    built = []
    thread = threading.Thread(target=lambda: built.append(builder.build()))
    thread.start()
    refused = 0
    while thread.is_alive():
        try:
            builder.append(count, 0, None, value)
            count += 1
        except IllegalStateError:  # it is busy, or has been built
            refused += 1
    thread.join()

    records = list(iterate_records(built[0], codec_table()))
    assert len(records) <= count
    assert {record.value for record in records} == {value}


# ---- buffer changed while decoding ---------------------------------------------------------------
# A buffer that its owner changes while it is decoded crashes nothing [DUR-85].
#
# Headers of a record were parsed a second time without bounds. Each place of that kind is in
# tests/c/test_changing_bytes.c, where every byte changes at every allocation, and in the corpus of
# `fuzz_columns`; here another thread writes, as long as the test takes. A compressed batch of such
# a buffer is copied before its library sees it; appends copy whatever is no `bytes`.


KEY = "\u07ff\x7f" + "a" * 50
SECONDS = 0.4

READERS_OF_A_CHANGING_BUFFER: list[Callable[[bytearray], object]] = [
    lambda data: _core.ColumnDecoder(codec_table(), ("headers",), check_crc=False).append(data),
    lambda data: list(_core.iterate_records(data, codec_table(), check_crc=False)),
    lambda data: list(_core.iterate_raw_records(data, codec_table())),
]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
@pytest.mark.parametrize("read", READERS_OF_A_CHANGING_BUFFER)
def test_headers_that_change_meanwhile(read: Callable[[bytearray], object], codec: Codec):
    """The size of a header key becomes 127, and what it was, again and again."""
    record = _core.Record(key=b"k", value=b"v", timestamp=1, headers=[(KEY, b"x" * 4)] * 8)
    options = _core.BatchOptions(base_offset=0, codec=codec)
    batch = bytes(_core.encode_records([record] * 200, options, codec_table(), 1, 10**7))
    data = bytearray(batch)
    size = bytes([2 * len(KEY.encode())])
    begin = 61 if codec is Codec.NONE else len(data) // 2
    places = [i for i in range(begin, len(data)) if data[i : i + 1] == size] or [begin]
    has_ended = threading.Event()

    def change() -> None:
        while not has_ended.is_set():
            for place in places[::3]:
                data[place] = 0xFE
                data[place] = batch[place]

    writer = threading.Thread(target=change)
    writer.start()
    read_count = 0
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            try:
                read(data)
            except SegstoreError:
                continue
            finally:
                read_count += 1
    finally:
        has_ended.set()
        writer.join()
    assert read_count
    read(bytearray(batch))


# ---- gzip members are linear ---------------------------------------------------------------------
# Decompressing many gzip members, or finding where bad data breaks, copied the rest each time.
#
# A batch of a megabyte took seconds [DUR-103].


EMPTY = gzip.compress(b"", 9, mtime=0)


class CountingView:
    """An inflater's input, counted: whatever it is given more than once is a copy."""

    given = 0

    def __init__(self, module):
        self.module = module
        self.error = module.error

    def decompressobj(self, window_bits):
        member = self.module.decompressobj(window_bits)
        return _CountingMember(member)


class _CountingMember:
    def __init__(self, member):
        self.member = member

    def __getattr__(self, name):
        return getattr(self.member, name)

    def decompress(self, data, most):
        CountingView.given += len(data)
        return self.member.decompress(data, most)


@pytest.mark.parametrize("content", [b"", b"x" * 5000])
def test_members_are_given_about_once(monkeypatch, content):
    counting = CountingView(gzip_codec._inflater())
    monkeypatch.setattr(gzip_codec, "_inflater", lambda: counting)
    one = gzip.compress(content, 9, mtime=0)
    data = one * 3000
    CountingView.given = 0
    assert gzip_codec.decompress(memoryview(data), 1 << 28) == content * 3000
    assert CountingView.given <= len(data) + 3000 * (gzip_codec.FIRST_STEP_BYTES + 2 * len(one))


def test_members_of_any_size_come_back():
    parts = [bytes([n % 251]) * (n * 97) for n in range(200)]
    data = b"".join(gzip.compress(part, 1, mtime=0) for part in parts)
    assert gzip_codec.decompress(memoryview(data), 1 << 28) == b"".join(parts)
    size = sum(map(len, parts))
    assert len(gzip_codec.decompress(memoryview(data), size)) == size
    with pytest.raises(LimitExceededError):
        gzip_codec.decompress(memoryview(data), size - 1)


def test_what_comes_before_a_break_is_told():
    good = [b"first" * 3000, b"second" * 3000]
    data = b"".join(gzip.compress(part, 1, mtime=0) for part in good)
    broken = bytearray(gzip.compress(b"third" * 3000, 1, mtime=0))
    broken[-5] ^= 1
    with pytest.raises(CodecError) as caught:
        gzip_codec.decompress(memoryview(data + bytes(broken)), 1 << 28)
    assert caught.value.decoded == b"".join(good) + b"third" * 3000


# ---- collector and held buffers ------------------------------------------------------------------
# A read that failed half-way leaves its iterator in a cycle; collecting that crashed.


BATCHES = 5
READERS_THAT_HOLD_BUFFERS = {
    "iterate": "for record in log: print(record.offset)",
    "tuples": "log.scan().tuples()",
    "arrow": "list(log.scan().arrow_batches())",
    "batches": "[list(batch) for batch in log.scan().batches()]",
    "time": "log.offset_for_timestamp(1)",
    "fetch": "list(log.read(0, 10**6))",
}


@pytest.fixture
def damaged_log(tmp_path):
    path = tmp_path / "topic-0"
    with segstore.open(path) as log:
        for i in range(BATCHES):
            log.append([(b"k%d" % i, b"v" * 50)], timestamp=1000 * i)
        position = log.segments()[0].translate_offset(2).position
    file = path / "00000000000000000000.log"
    data = bytearray(file.read_bytes())
    data[position + 16] = 127  # the magic of the third batch
    file.write_bytes(data)
    return path


@pytest.mark.parametrize("reader", READERS_THAT_HOLD_BUFFERS)
def test_the_process_survives_a_collection_after_a_failed_read(damaged_log, reader):
    program = f"""
import gc, sys
import segstore
log = segstore.open(sys.argv[1], read_only=True)
for _ in range(2):
    try:
        {READERS_THAT_HOLD_BUFFERS[reader]}
    except segstore.SegstoreError as error:
        print(error)
    gc.collect()
"""
    result = subprocess.run(
        [sys.executable, "-c", program, str(damaged_log)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (result.returncode, result.stderr) == (0, "")


def test_the_process_survives_an_iterator_over_a_view_in_a_cycle():
    """The records of one batch, as the engine reads those of control batches."""
    program = """
import gc
from segstore import _core
from segstore.records.compression import codec_table
data = _core.encode_records([(b"k", b"v")] * 3, _core.BatchOptions(), codec_table(), 1, 1000)
for _ in range(3):
    view = memoryview(bytes(data))
    records = _core.iterate_raw_records(view, codec_table())
    next(records)
    cycle = [view, records]
    cycle.append(cycle)
    del view, records, cycle
    gc.collect()
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )

    assert (result.returncode, result.stderr) == (0, "")


def test_what_a_dropped_iterator_read_from_is_given_back():
    """Held until the iterator goes, and no longer."""
    from segstore import _core
    from segstore.records.compression import codec_table

    data = bytearray(
        _core.encode_records([(b"k", b"v")], _core.BatchOptions(), codec_table(), 1, 1000)
    )
    iterator = _core.iterate_records(data, codec_table())
    with pytest.raises(BufferError):
        data.append(0)
    del iterator
    gc.collect()
    data.append(0)


# ---- memory of headers ---------------------------------------------------------------------------
# Headers take two bytes each: 32 bytes of every one were kept, and for good [DUR-102].


HEADERS_COUNT = 12_000_000
PEAK_BYTES = 200 * MIB
KEPT_BYTES = 40 * MIB
APPEND = """
import sys
import segstore
from pathlib import Path

def memory(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name))

batch = Path(sys.argv[2]).read_bytes()
outcome = "appended"
with segstore.open(sys.argv[1], durability="none", compression_type="lz4") as log:
    log.append_as_leader(segstore.MemoryRecords(Path(sys.argv[3]).read_bytes()))
    peak, kept = memory("VmHWM"), memory("VmRSS")
    try:
        log.append_as_leader(batch)
    except segstore.errors.InvalidRecordError:
        outcome = "refused"
    print(memory("VmHWM") - peak, memory("VmRSS") - kept, outcome)
"""


def zstd_batch(headers_count: int, *, headers: bytes = b"\x00\x01", more: bytes = b"") -> bytes:
    body = b"\x00\x00\x00" + write_varint(-1) * 2 + write_varint(headers_count)
    body += headers * headers_count
    payload = zstd_codec.compress(write_varint(len(body)) + body + more, 3)
    tail = struct.pack(">hiqqqhii", 4, 0, 0, 0, -1, -1, -1, 1) + payload
    return struct.pack(">qiibI", 0, 9 + len(tail), -1, 2, crc32c(tail)) + tail


@pytest.mark.parametrize(
    ("batch", "outcome"),
    [
        ({}, "appended"),
        ({"headers": b"\x02\xff\x01", "headers_count": HEADERS_COUNT // 3}, "appended"),
        ({"more": b"\x00"}, "refused"),
    ],
    ids=["copied", "keys_replaced", "refused"],
)
def test_a_batch_of_many_headers_takes_memory_by_its_bytes(
    tmp_path: Path, batch: dict[str, object], outcome: str
):
    """[DUR-85, DUR-102] Nothing is kept of the rare large batch, taken or not."""
    given, small = tmp_path / "given", tmp_path / "small"
    given.write_bytes(zstd_batch(**({"headers_count": HEADERS_COUNT} | batch)))
    small.write_bytes(zstd_batch(2))
    assert given.stat().st_size < 64 * 1024

    command = (sys.executable, "-c", APPEND, str(tmp_path / "topic-0"), str(given), str(small))
    done = subprocess.run(command, check=True, capture_output=True, text=True)

    peak, kept, was = done.stdout.split()
    assert was == outcome
    assert int(peak) < PEAK_BYTES
    assert int(kept) < KEPT_BYTES
