"""Kafka's UnifiedLogTest on splitting a segment by itself."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory, SegmentContext
from segstore.errors import IllegalStateError
from segstore.log.files.partition_directory import file_name
from segstore.log.local.segment import Segment
from segstore.log.local.segments import Segments
from segstore.log.recovery.overflow_split import CHUNK_BYTES, has_overflow, split_overflowed_segment
from segstore.records.compression import codec_table
from tests.kits.overflow_kit import (
    BASES,
    OVERFLOWED,
    SPLIT_BASE,
    keys,
    split,
    write_overflowed_log,
)
from tests.kits.records_kit import build, rows

if TYPE_CHECKING:
    from pathlib import Path

FIRST_TOO_FAR = 2**31


def batch(*offsets: int, size: int = 0) -> bytes:
    return build([(offset, offset, b"%d" % offset, bytes(size)) for offset in offsets])


def split_bytes(folder: Path, data: bytes) -> list[tuple[int, bytes]]:
    """Split a segment at 0 with these bytes; base offsets and bytes of what comes out."""
    (folder / file_name(0, "log")).write_bytes(data)
    directory = Directory(str(folder))
    context = SegmentContext(directory, codec_table(), writable=True, kafka_profile=True)
    segment = Segment(context, 0)
    assert has_overflow(segment)
    result = split_overflowed_segment(segment, Segments([segment]), directory, context)
    found = []
    for one in result.segments:
        name = file_name(one.base_offset, "log")
        found.append((one.base_offset, (folder / name).read_bytes()))
        assert not has_overflow(one)
        one.close_quietly()
    assert [old.base_offset for old in result.taken_out] == [0]
    assert (folder / f"{file_name(0, 'log')}.deleted").read_bytes() == data
    return found


def test_split_on_offset_overflow(tmp_path: Path):
    """[LOC-25] UnifiedLogTest.testSplitOnOffsetOverflow."""
    folder = tmp_path / "orders-0"
    written = write_overflowed_log(folder)

    split(folder)

    assert keys(folder) == written
    assert sorted(int(file.stem) for file in folder.glob("*.log")) == sorted([*BASES, SPLIT_BASE])
    old = folder / f"{file_name(OVERFLOWED, 'log')}.deleted"
    new = [(folder / file_name(base, "log")).read_bytes() for base in (OVERFLOWED, SPLIT_BASE)]
    assert old.read_bytes() == b"".join(new)


def test_a_split_keeps_the_time_of_the_segment(tmp_path: Path):
    """[SEG-57, LOC-25, RET-7] by it records without timestamps are as old as they were."""
    folder = tmp_path / "orders-0"
    write_overflowed_log(folder)
    written_ms = 1_600_000_000_123
    os.utime(folder / file_name(OVERFLOWED, "log"), ns=(0, written_ms * 1_000_000))

    split(folder)

    for base in (OVERFLOWED, SPLIT_BASE):
        for kind in ("log", "index", "timeindex"):
            found = (folder / file_name(base, kind)).stat()
            assert found.st_mtime_ns // 1_000_000 == written_ms, (base, kind)


def test_degenerate_segment_split(tmp_path: Path):
    """[LOC-25] UnifiedLogTest.testDegenerateSegmentSplit: no batch fits the old base."""
    data = batch(FIRST_TOO_FAR) + batch(FIRST_TOO_FAR + 1)

    assert split_bytes(tmp_path, data) == [(FIRST_TOO_FAR, data)]


def test_degenerate_segment_split_with_out_of_range_batch_last_offset(tmp_path: Path):
    """[LOC-25] UnifiedLogTest.testDegenerateSegmentSplitWithOutOfRangeBatchLastOffset."""
    first = FIRST_TOO_FAR - 2
    data = batch(first, first + 1, first + 2)

    assert split_bytes(tmp_path, data) == [(first, data)]


def test_batches_larger_than_a_chunk_are_copied_whole(tmp_path: Path):
    """[SEG-11] The first batch of a chunk is always taken; what does not fit ends it."""
    large = [batch(n, size=CHUNK_BYTES) for n in (0, 5, FIRST_TOO_FAR + 7)]
    small = [batch(FIRST_TOO_FAR + n) for n in (9, 10)]

    found = split_bytes(tmp_path, b"".join([*large, *small]))

    assert found == [
        (0, large[0] + large[1]),
        (FIRST_TOO_FAR + 7, large[2] + small[0] + small[1]),
    ]
    assert [row[0] for _, data in found for row in rows(data)] == [
        *(0, 5),
        *(FIRST_TOO_FAR + n for n in (7, 9, 10)),
    ]


def test_a_segment_that_does_not_end_with_a_batch_is_left_as_it_is(tmp_path: Path):
    """[LOC-25] Kafka fails there too, and removes what it made."""
    data = batch(0) + batch(FIRST_TOO_FAR + 1) + b"torn"

    with pytest.raises(IllegalStateError):
        split_bytes(tmp_path, data)

    assert (tmp_path / file_name(0, "log")).read_bytes() == data
    assert list(tmp_path.glob("*.cleaned")) == []
