"""Kafka's FileRecordsTest: the .log file of a segment."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore._core import Directory, LogSegment, SegmentContext, scan_batches
from segstore.cli.batch_file import BatchFile
from segstore.errors import IllegalArgumentError, SegstoreError
from segstore.records.compression import codec_table
from segstore.types import Codec
from tests.kits.records_kit import as_magic, build, headers, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from segstore import FileRecords
    from segstore.log.unified_log import UnifiedLog

LOG = f"{0:020}.log"
VALUES = [b"abcd", b"efgh", b"ijkl"]
MAX_FILE_BYTES = 2**31 - 1
MEGABYTE = 1 << 20


def batch_of(offset: int, value: bytes = b"abcd", timestamp: int = 1, **options) -> bytes:
    return build([(offset, timestamp, None, value)], **options)


PARTS = [batch_of(offset, value) for offset, value in enumerate(VALUES)]


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[LogSegment]:
    """Three batches of one record each."""
    opened = LogSegment(context(tmp_path), 0, create=True)
    for part in PARTS:
        append(opened, part)
    yield opened
    opened.close_quietly()


def context(folder: Path, **options) -> SegmentContext:
    return SegmentContext(Directory(str(folder)), codec_table(), writable=True, **options)


def append(segment: LogSegment, data: bytes) -> None:
    segment.append(data, headers(data))


def test_a_full_file_takes_no_append(tmp_path: Path):
    """[format.md 9.4] FileRecordsTest.testAppendProtectsFromOverflow: nothing is written."""
    (tmp_path / LOG).touch()
    os.truncate(tmp_path / LOG, MAX_FILE_BYTES)
    full = LogSegment(context(tmp_path), 0)

    with pytest.raises(SegstoreError):
        append(full, batch_of(0))
    assert (tmp_path / LOG).stat().st_size == MAX_FILE_BYTES
    full.close_quietly()


def test_a_file_that_is_too_large_is_not_opened(tmp_path: Path):
    """[format.md 9.4] FileRecordsTest.testOpenOversizeFile."""
    (tmp_path / LOG).touch()
    os.truncate(tmp_path / LOG, MAX_FILE_BYTES + 5)

    with pytest.raises(SegstoreError):
        LogSegment(context(tmp_path), 0)
    with pytest.raises(SegstoreError):
        BatchFile(str(tmp_path / LOG))


@pytest.mark.usefixtures("segment")
def test_a_slice_behind_the_end_is_refused(tmp_path: Path):
    """[format.md 9.4] FileRecordsTest.testOutOfRangeSlice."""
    with BatchFile(str(tmp_path / LOG)) as file, pytest.raises(IllegalArgumentError):
        next(file.batches(file.size_bytes + 1, 15))


def test_the_size_is_that_of_the_file(segment: LogSegment, tmp_path: Path):
    """[format.md 9.4] FileRecordsTest.testFileSize."""
    for offset in range(3, 24):
        assert segment.size_bytes == (tmp_path / LOG).stat().st_size
        append(segment, batch_of(offset))


@pytest.mark.usefixtures("segment")
def test_zeros_behind_the_end_are_no_batches(tmp_path: Path):
    """[format.md 9.1] FileRecordsTest.testIterationOverPartialAndTruncation."""
    for zeros in (0, 2, 4, 5, 6):
        with (tmp_path / LOG).open("ab") as file:
            file.write(bytes(zeros))

        data = (tmp_path / LOG).read_bytes()
        table, result = scan_batches(data, rules="file")
        assert result.why is None
        assert [row[3] for row in rows(data[: result.valid_bytes])] == VALUES
        with BatchFile(str(tmp_path / LOG)) as batches:
            assert [batch.base_offset for batch in batches.batches()] == [0, 1, 2]
        assert len(table) == 3


def test_a_read_beside_a_writer_has_the_size_that_was_asked_for(tmp_path: Path):
    """[format.md 9.4] FileRecordsTest.testSliceSizeLimitWithConcurrentWrite."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        log.append([(None, b"abcd")])

        def write() -> None:
            while log.segments()[0].size_bytes < 16384:
                log.append([(None, b"abcd")])

        writer = threading.Thread(target=write)
        writer.start()
        while writer.is_alive():
            size = log.read(0, MAX_FILE_BYTES).size_bytes
            assert log.read(0, size).size_bytes == size
            found = log.slice(0, MAX_FILE_BYTES)
            assert found.slice(0, size).size_bytes == size
        writer.join()


def test_reading_leaves_the_place_of_the_next_append(segment: LogSegment, tmp_path: Path):
    """[format.md 9.4] FileRecordsTest.testIterationDoesntChangePosition."""
    fetched = segment.read(0, MAX_FILE_BYTES, segment.size_bytes, min_one_message=True)
    assert [row[3] for row in rows(bytes(fetched))] == VALUES

    append(segment, batch_of(3))

    assert (tmp_path / LOG).read_bytes() == b"".join(PARTS) + batch_of(3)


@pytest.mark.usefixtures("segment")
def test_a_slice_has_whole_batches_only(tmp_path: Path):
    """[format.md 9.4] FileRecordsTest.testIteratorWithLimits."""
    start, size = len(PARTS[0]), len(PARTS[1])
    with BatchFile(str(tmp_path / LOG)) as file:
        assert [batch.data for batch in file.batches(start, size)] == [PARTS[1]]
        assert list(file.batches(start, size - 1)) == []


def test_truncation_at_a_batch(segment: LogSegment, tmp_path: Path):
    """[format.md 9.4] FileRecordsTest.testTruncate."""
    segment.truncate_to(1)

    assert segment.size_bytes == len(PARTS[0])
    assert (tmp_path / LOG).read_bytes() == PARTS[0]


def test_truncation_at_the_end_touches_nothing(segment: LogSegment, tmp_path: Path):
    """[format.md 9.4] FileRecordsTest.testTruncateNotCalledIfSizeIsSameAsTargetSize."""
    os.utime(tmp_path / LOG, ns=(1, 1))

    segment.truncate_to(3)

    assert (tmp_path / LOG).stat().st_mtime_ns == 1
    assert segment.size_bytes == len(b"".join(PARTS))


@pytest.mark.parametrize("preallocate", [True, False])
def test_preallocation_is_physical_only(tmp_path: Path, *, preallocate: bool):
    """[format.md 9.4] FileRecordsTest.testPreallocateTrue, FileRecordsTest.testPreallocateFalse,
    FileRecordsTest.testPreallocateClearShutdown: a clean close trims the file."""
    settings = {"preallocate": preallocate, "internal_segment_bytes": MEGABYTE}
    with segstore.open(tmp_path / "t-0", **settings) as log:
        assert log.segments()[0].size_bytes == 0
        assert (tmp_path / "t-0" / LOG).stat().st_size == (MEGABYTE if preallocate else 0)
        log.append([(None, value) for value in VALUES])
        size = log.segments()[0].size_bytes

    assert (tmp_path / "t-0" / LOG).stat().st_size == size
    with segstore.open(tmp_path / "t-0", read_only=True) as log:
        assert log.segments()[0].size_bytes == size
        assert [record.value for record in log] == VALUES


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_searching_for_a_timestamp(tmp_path: Path, magic: int):
    """[format.md 9.4] FileRecordsTest.testSearchForTimestamp, in a preallocated file."""
    epochs = [{"partition_leader_epoch": epoch} if magic == 2 else {} for epoch in (0, 1)]
    data = batch_of(5, timestamp=10, magic=magic, **epochs[0]) + batch_of(
        6, timestamp=11, magic=magic, **epochs[1]
    )
    opened = LogSegment(context(tmp_path, preallocate=True, segment_bytes=MEGABYTE), 0, create=True)
    append(opened, data)

    def search(timestamp: int) -> tuple[int, int, int | None] | None:
        found = opened.find_offset_by_timestamp(timestamp, 0)
        return None if found is None else tuple(found)

    first, second = (10, 5, 0 if magic == 2 else None), (11, 6, 1 if magic == 2 else None)
    answers = [search(timestamp) for timestamp in (9, 10, 11, 12)]
    assert answers == ([None] * 4 if magic == 0 else [first, first, second, None])
    opened.close_quietly()


def offsets_read_in_steps(log: UnifiedLog, max_bytes: int) -> list[int]:
    """Offsets of all records, by reads of so many bytes, each behind what the last one gave."""
    found: list[int] = []
    next_offset = log.log_start_offset
    while next_offset < log.log_end_offset:
        found += [record.offset for record in log.read(next_offset, max_bytes)]
        assert found[-1] >= next_offset
        next_offset = found[-1] + 1
    return found


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_one_file_may_mix_magics(tmp_path: Path, codec: Codec):
    """[format.md 3] FileRecordsTest.testConversion: gaps between offsets, headers at the end."""
    offsets = [0, 2, 3, 9, 11, 15, 16, 17, 22, 24]
    header = [("headerKey1", b"headerValue1"), ("headerKey1", b"v2"), ("headerKey2", None)]
    given = [
        (offset, i + 1, b"k%d" % i, b"hello %d" % i, header if i in {7, 9} else [])
        for i, offset in enumerate(offsets)
    ]
    parts = [given[:3], given[3:6], given[6:]]
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / LOG).write_bytes(
        b"".join(build(part, magic, codec) for magic, part in enumerate(parts))
    )

    with segstore.open(folder, read_only=True) as log:
        found = list(log)
        for max_bytes in (1, 100, 250, 10_000):
            assert offsets_read_in_steps(log, max_bytes) == offsets

    expected = [row for magic, part in enumerate(parts) for row in as_magic(part, magic)]
    assert [
        (r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value) for r in found
    ] == (expected)
    assert [list(record.headers) for record in found] == [row[4] for row in given]


@pytest.fixture
def records(tmp_path: Path) -> Iterator[FileRecords]:
    """The same three batches in a log, as Kafka's FileRecords of the whole file."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        for value in VALUES:
            log.append([(None, value)])
        yield log.slice(0, MAX_FILE_BYTES)


def test_a_copy_ends_at_the_end_of_the_file(records: FileRecords, tmp_path: Path):
    """[format.md 9.4] FileRecordsTest.testBytesLengthOfWriteTo."""
    size = records.size_bytes
    third = size // 3
    data = (tmp_path / "t-0" / LOG).read_bytes()
    with (tmp_path / "copy").open("wb") as copy:
        assert records.write_to(copy, 0, third) == third
        assert records.write_to(copy, third, size - third + 1) == size - third
    assert (tmp_path / "copy").read_bytes() == data


def test_slices_of_file_records(records: FileRecords):
    """[format.md 9.4] FileRecordsTest.testOutOfRangeSlice, FileRecordsTest.testIteratorWithLimits.

    A slice of exactly the second batch gives that batch, one byte less gives nothing.
    """
    with pytest.raises(IllegalArgumentError):
        records.slice(records.size_bytes + 1, 15)
    first, second, _ = (batch.size_bytes for batch in records.batches())
    assert [record.value for record in records.slice(first, second)] == [b"efgh"]
    assert list(records.slice(first, second - 1)) == []
