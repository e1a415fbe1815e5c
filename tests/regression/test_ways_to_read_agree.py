"""Rows, tuples, Arrow and `count` gave different records of the same bytes.

A record's offset beyond what its batch's header says; a control batch that nobody could open;
records of one offset; a count in the header that is not that of the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import segstore
from segstore._core import RecordsBuilder, check_batch
from segstore.records.compression import codec_table
from tests.kits.log_kit import TIME

if TYPE_CHECKING:
    from pathlib import Path


def built(offsets: list[int], base_offset: int = 0, *, control: bool = False) -> bytearray:
    builder = RecordsBuilder(codec_table(), base_offset=base_offset, control=control)
    for offset in offsets:
        key = b"\0\0\0\1" if control else b"k"
        builder.append(offset, TIME, key, b"\0" * 6)
    return bytearray(builder.build())


def with_crc(batch: bytearray) -> bytes:
    from segstore._core import crc32c

    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4)
    check_batch(bytes(batch))
    return bytes(batch)


def beyond_its_header() -> bytes:
    batch = built([0])
    delta_at = 61 + 3  # behind size, attributes and timestamp delta
    assert batch[delta_at] == 0
    batch[delta_at] = 2 * 60  # zigzag
    return with_crc(batch) + with_crc(built([1], 1))


def control_of_unknown_codec() -> bytes:
    batch = built([0], control=True)
    batch[22] |= 7
    return with_crc(batch) + with_crc(built([1], 1))


def two_of_one_offset() -> bytes:
    batch = built([0, 1])
    second = batch.index(b"k", 61 + 8) - 2
    assert batch[second] == 2
    batch[second] = 0
    return with_crc(batch) + with_crc(built([2], 2))


@pytest.mark.parametrize(
    ("content", "offsets"),
    [(beyond_its_header, [1]), (control_of_unknown_codec, [1]), (two_of_one_offset, [0, 2])],
)
def test_every_way_gives_the_same(tmp_path: Path, content, offsets):
    path = tmp_path / "a-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(content())
    with segstore.open(path, read_only=True) as log:
        assert [record.offset for record in log] == offsets
        assert [row[0] for row in log.scan().tuples()] == offsets
        assert log.to_arrow()["offset"].to_pylist() == offsets
        assert log.scan().count() == len(offsets)


def test_a_bound_that_asks_for_nothing_is_refused(new_log):
    """It gave empty Arrow batches without end."""
    log = new_log()
    log.append([(TIME, b"k", b"v")] * 10)
    for wrong in ({"rows": 0}, {"rows": -1}, {"max_bytes": 0}, {"max_bytes": -1}):
        with pytest.raises(segstore.IllegalArgumentError, match="above 0"):
            log.scan().arrow_batches(**wrong)
    with pytest.raises(segstore.ArgumentTypeError):
        log.scan().arrow_batches(rows="x")
    with pytest.raises(segstore.IllegalArgumentError):
        log.scan().arrow_batches(rows=10**30)
    assert sum(batch.rows_count for batch in log.scan().arrow_batches(rows=3)) == 10


def test_a_refused_record_is_named_by_its_index(new_log):
    """It was that in a batch of which the caller knows nothing."""
    log = new_log(message_timestamp_after_max_ms=5, max_message_bytes=2000)
    with pytest.raises(segstore.InvalidTimestampError, match=r"^record 30: timestamp") as caught:
        log.append([(TIME, None, b"x" * 500)] * 30 + [(2**60, None, b"x")])
    assert [index for index, _ in caught.value.record_errors] == [30]
    assert caught.value.message == caught.value.record_errors[0][1]


@pytest.mark.parametrize("seconds", ["1e10", "1e30", "inf", "nan"])
def test_no_sync_is_promised_for_the_end_of_time(tmp_path, seconds):
    """The thread that syncs died of it, silently."""
    with pytest.raises(segstore.IllegalArgumentError):
        segstore.open(tmp_path / "a-0", durability=f"seconds={seconds}")
    with segstore.open(tmp_path / "a-0", durability="seconds=9e9") as log:
        log.append([(TIME, b"k", b"v")])
        assert log.flush() == 1
