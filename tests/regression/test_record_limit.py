"""`max_record_bytes` stood in the documents and was enforced nowhere [DUR-92]."""

from __future__ import annotations

import gzip
import struct
import zlib

import pyarrow as pa
import pytest

import segstore
from segstore import MemoryRecords
from segstore.errors import LimitExceededError
from tests.kits.log_kit import TIME, at, batch

SIZE = 5000
LIMIT = SIZE // 2
CODECS = [1, 2, 3, 4]


def large(codec: int, **options: int) -> bytes:
    return batch([(TIME, None, b"small"), (TIME, None, b"x" * SIZE)], codec=codec, **options)


READERS = {
    "rows": lambda log, start: [r.offset for r in log.scan(start)],
    "arrow": lambda log, start: log.scan(start).to_arrow().column("offset").to_pylist(),
    "tail": lambda log, start: [r.offset for r in log.tail(start, timeout=0)],
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
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
    assert caught.value.expected == f"at most {LIMIT} bytes, max_record_bytes"
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
