"""Segments as one sequence of offsets: fetch, roll, places of offsets [LOC-*, ROL-1]."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from segstore.errors import (
    IllegalArgumentError,
    LogReadOnlyError,
    OffsetOutOfRangeError,
    RecordBatchTooLargeError,
)
from segstore.log.local.segment import Segment
from segstore.log.local.transaction_index import AbortedTransaction, TransactionIndex
from segstore.types import LogOffsetMetadata
from tests.kits.log_kit import TIME, at, bases, offsets, singleton


def files(log, kind: str) -> list[str]:
    return sorted(path.name for path in Path(log.path).iterdir() if path.name.endswith(kind))


@pytest.fixture
def table_t8(new_log):
    """Batches of 69 bytes, one record each; segments 0-1, 2-3, 4-."""
    log = new_log(internal_segment_bytes=2 * 69)
    for _ in range(5):
        log.append([(None, b"x")])
    assert bases(log) == [0, 2, 4]
    assert log.segments()[0].size_bytes == 2 * 69
    return log._local_log


@pytest.mark.parametrize(
    ("start", "bound", "metadata", "found"),
    [
        (3, (4, 4, 0), (3, 2, 69), [3]),
        (4, (4, 4, 0), (4, 4, 0), []),
        (5, (4, 4, 0), (5, 4, 69), []),
        (3, (4, -1, -1), (3, 2, 69), []),
        (3, (4, 0, 40), (3, 2, 69), []),
        (0, (5, 4, 69), (0, 0, 0), [0]),
    ],
)
def test_a_fetch_up_to_a_bound(table_t8, start, bound, metadata, found):
    """[LOC-6, CON-5] table T-8."""
    place, fetched = table_t8.fetch(
        start, 1, LogOffsetMetadata(*bound), min_one_message=True, take=Segment.read
    )
    assert place == metadata
    assert (fetched is None or fetched.size_bytes == 0) == (not found)
    if found:
        assert (fetched.size_bytes, fetched.base_offset) == (69, found[0])


def test_a_fetch_outside_the_log(table_t8):
    """[LOC-6, RD-2]"""
    with pytest.raises(OffsetOutOfRangeError) as caught:
        table_t8.fetch(6, 1, table_t8.log_end, min_one_message=True, take=Segment.read)
    assert (caught.value.found, caught.value.expected) == ("6", "0 to 5")
    with pytest.raises(OffsetOutOfRangeError):
        table_t8.fetch(-1, 1, table_t8.log_end, min_one_message=True, take=Segment.read)


def test_the_place_of_an_offset(table_t8):
    """[LOC-8, HW-9] what is not in the log has none."""
    assert table_t8.offset_metadata(3) == (3, 2, 69)
    assert table_t8.offset_metadata(5) == (5, 4, 69)
    for offset in (6, -1):
        assert table_t8.offset_metadata(offset) == (offset, -1, -1)
        assert table_t8.offset_metadata(offset).message_offset_only


def test_a_fetch_goes_on_in_the_next_segment_behind_a_gap(new_log):
    """[LOC-7] one segment a call."""
    log = new_log()
    log.append_as_follower(at(0, 2), 0)
    log.roll()
    log.append_as_follower(at(10, 2), 0)
    log.append_as_follower(at(12), 0)
    log.roll()
    fetched = log.read(5, 10**6)
    assert offsets(fetched) == [10, 11, 12]
    assert fetched.fetch_offset_metadata == (10, 2, 0)
    assert log.read(13, 10**6).fetch_offset_metadata == log._local_log.log_end


def test_roll(new_log):
    """[ROL-1, LOC-11, SEG-50] indexes are trimmed, with the last time entry."""
    log = new_log(index_interval_bytes=0)
    for number in range(3):
        log.append([(TIME + number, None, b"x")])
    sealed = log.segments()[0]
    created = log.roll()
    assert (created.base_offset, bases(log), log.log_end_offset) == (3, [0, 3], 3)
    assert log._local_log.log_end == (3, 3, 0)
    assert os.path.getsize(sealed.path.replace(".log", ".index")) == 2 * 8  # noqa: PTH202
    assert sealed.time_index_entries()[-1] == (TIME + 2, 2)
    assert log.append([(None, b"y")]).base_offset == 3
    assert log.segments()[1].size_bytes == 69


def test_a_roll_of_an_empty_segment_makes_it_anew(new_log):
    """[LOC-11, LOC-12] KAFKA-6388; Kafka's profile makes new files, ours keeps the one name."""
    log = new_log()
    before = log.segments()[0]
    assert log.roll() is log.segments()[0] is before
    assert bases(log) == [0]
    assert files(log, ".deleted") == []
    assert log.segments()[0].offset_index_entries() == []
    log.append([(None, b"x")])
    log.roll(0)
    log.roll(1)
    assert bases(log) == [0, 1]


def test_a_roll_that_would_leave_a_gap_is_refused(new_log):
    """[LOC-11] Kafka makes a log that takes no append any more."""
    log = new_log()
    log.append([(None, b"x")])
    with pytest.raises(IllegalArgumentError, match="gap") as caught:
        log.roll(2)
    assert (caught.value.found, caught.value.expected) == ("2", "at most 1")
    assert bases(log) == [0]
    assert log.append([(None, b"x")]).base_offset == 1


def test_index_files_at_the_new_base_are_not_believed(new_log):
    """[LOC-11] what lies there is removed."""
    log = new_log(index_interval_bytes=0)
    log.append([(None, b"x")])
    for kind in ("index", "timeindex", "txnindex"):
        with open(f"{log.path}/{1:020d}.{kind}", "wb") as file:  # noqa: PTH123
            file.write(b"\1" * 240)
    log.roll()
    for _ in range(3):
        log.append([(None, b"x")])
    assert log.segments()[1].offset_index_entries() == [(2, 69), (3, 138)]
    assert log.verify().ok
    assert files(log, "txnindex") == []


@pytest.mark.parametrize(("first", "second", "expected"), [(900, 100, [0]), (901, 100, [0, 1])])
def test_a_roll_by_size(new_log, first, second, expected):
    """[APP-12, SEG-13] table T-5: an exact fit stays."""

    def of_size(size: int) -> bytes:
        made = singleton(b"x" * (size - 70))
        made = singleton(b"x" * (size - 70 - len(made) + size))
        assert len(made) == size
        return made

    log = new_log(internal_segment_bytes=1000)
    log.append_as_leader(of_size(first))
    log.append_as_leader(of_size(second))
    assert bases(log) == expected
    with pytest.raises(RecordBatchTooLargeError):
        log.append_as_leader(of_size(1001))


def test_a_roll_begins_at_the_first_offset_of_what_is_appended(new_log):
    """[APP-12] a follower's gap lies before the new segment."""
    log = new_log(internal_segment_bytes=100)
    log.append_as_follower(at(0), 0)
    log.append_as_follower(at(7), 0)
    assert bases(log) == [0, 7]
    assert log.log_end_offset == 8


def test_offsets_further_than_an_index_reaches(new_log):
    """[SEG-13] table T-18: a segment for each stretch of 2^31 offsets."""
    log = new_log()
    log.append_as_follower(at(0), 0)
    log.append_as_follower(at(2147483649), 0)
    assert bases(log) == [0, 2147483649]
    assert offsets(log) == [0, 2147483649]
    assert offsets(log.read(1, 100)) == [2147483649]


def test_a_reader_does_not_roll(new_log):
    new_log().close()
    with pytest.raises(LogReadOnlyError):
        new_log(read_only=True).roll()


def test_aborted_transactions_of_all_segments(table_t8):
    """[LOC-10, TXX-4] on into later segments, until one of them says that it was all."""
    first, second, third = (
        AbortedTransaction(7, 0, 1, 2),
        AbortedTransaction(8, 0, 3, 4),
        AbortedTransaction(9, 2, 4, 5),
    )
    for base_offset, entry in zip((0, 2, 4), (first, second, third), strict=True):
        TransactionIndex(table_t8.directory, base_offset).append(entry)
    collect = table_t8.collect_aborted_transactions

    assert collect(0, 0, 100) == [first, second, third]
    assert collect(0, 0, 4) == [first, second]
    assert collect(0, 3, 100) == [second, third]
    assert collect(2, 0, 100) == [second, third]
    assert collect(0, 0, 1) == [first]
    assert collect(0, -1, 100) == []


def test_aborted_transactions_of_a_range_that_begins_in_remote_storage(table_t8):
    """[TIER-69] all segments that are here are searched; Kafka's look-up by offset finds none."""
    first, second = AbortedTransaction(7, 0, 3, 4), AbortedTransaction(8, 3, 4, 5)
    for base_offset, entry in zip((2, 4), (first, second), strict=True):
        TransactionIndex(table_t8.directory, base_offset).append(entry)
    table_t8.delete_segments([table_t8.segments.first_segment])
    assert table_t8.segments.first_segment.base_offset == 2

    assert table_t8.collect_aborted_transactions(0, 0, 100) == []
    assert table_t8.aborted_from(0, 100) == [first, second]
    assert table_t8.aborted_from(0, 3) == [first]
    assert table_t8.aborted_from(4, 100) == [second]
