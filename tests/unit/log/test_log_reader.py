"""Fetches, look-ups by timestamp, following the tail [RD-*, TS-*]."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from segstore import SpecialTimestamp
from segstore.errors import IllegalArgumentError, LogTruncatedError, OffsetOutOfRangeError
from tests.kits.log_kit import TIME, at, bases, batch, offsets, singleton, values


@pytest.fixture
def log(new_log):
    """Batches of three records, two a segment."""
    made = new_log(internal_segment_bytes=200)
    for first in range(0, 15, 3):
        made.append([(TIME + n, None, b"%d" % n) for n in range(first, first + 3)])
    assert bases(made) == [0, 6, 12]
    return made


@pytest.mark.parametrize("offset", range(15))
def test_a_fetch_begins_with_the_batch_that_holds_the_offset(log, offset):
    """[RD-1, RD-6, SEG-21] records from the offset on; the metadata is the batch's."""
    fetched = log.read(offset, 1)
    first = offset - offset % 3
    assert fetched.fetch_offset_metadata.message_offset == first
    assert offsets(fetched) == list(range(offset, first + 3))
    assert not fetched.first_entry_incomplete


def test_a_soft_limit(log):
    """[SEG-19] without min_one_message the first batch may be cut: it says so."""
    size = log.segments()[2].size_bytes
    cut = log.read(12, size - 1, min_one_message=False)
    assert (cut.size_bytes, cut.first_entry_incomplete, offsets(cut)) == (size - 1, True, [])
    nothing = log.read(12, 0, min_one_message=False)
    assert (nothing.size_bytes, nothing.first_entry_incomplete) == (0, False)
    assert offsets(log.read(12, 0)) == [12, 13, 14]
    assert offsets(log.read(0, 2**40)) == [0, 1, 2, 3, 4, 5]  # one segment a fetch


@pytest.mark.parametrize("offset", [-1, 16, 2**63 - 1])
def test_out_of_range(log, offset):
    """[RD-2]"""
    for call in (lambda: log.read(offset, 10), lambda: log.read(offset), lambda: log.tail(offset)):
        with pytest.raises(OffsetOutOfRangeError) as caught:
            call()
        assert (caught.value.found, caught.value.expected) == (str(offset), "0 to 15")
        assert isinstance(caught.value, LookupError)
    assert offsets(log.read(15, 10)) == []
    assert offsets(log.read(15)) == []


@pytest.mark.parametrize("offset", [6, 16])
def test_behind_deleted_records(log, offset):
    """[RD-2] The range that can be read begins at the log start, not at its segment."""
    log.delete_records(7)
    for call in (lambda: log.read(offset, 10), lambda: log.slice(offset, 10)):
        with pytest.raises(OffsetOutOfRangeError) as caught:
            call()
        assert (caught.value.found, caught.value.expected) == (str(offset), "7 to 15")
    assert offsets(log.read(7, 10)) == [7, 8]
    assert offsets(log) == list(range(7, 15))


@pytest.mark.parametrize("wrong", ["3", 1.5, b"3", [3]])
def test_an_offset_of_the_wrong_type(log, wrong):
    calls = [
        lambda: log.read(wrong, 10),
        lambda: log.read(wrong),
        lambda: log.read(0, wrong),
        lambda: log.scan(0, wrong),
        lambda: log.scan(start_timestamp=wrong),
        lambda: log.tail(wrong),
        lambda: log.offset_for_timestamp(wrong),
        lambda: log.fetch_offset_by_timestamp(wrong),
        lambda: log.truncate_to(wrong),
        lambda: log.truncate_fully_and_start_at(wrong),
        lambda: log.delete_records(wrong),
        lambda: log.roll(wrong),
    ]
    for call in calls:
        with pytest.raises(IllegalArgumentError, match="an integer") as caught:
            call()
        assert caught.value.found == repr(wrong)
    assert offsets(log.read(np.int64(3), 10)) == [3, 4, 5]
    assert log.log_end_offset == 15


def test_arguments_that_cannot_be(log):
    with pytest.raises(IllegalArgumentError, match="0 or more"):
        log.read(0, -1)
    with pytest.raises(ValueError, match="stable"):
        log.read(0, 10, "stable")
    with pytest.raises(IllegalArgumentError, match="reversed"):
        log.scan(5, 4)
    with pytest.raises(IllegalArgumentError, match="reversed"):
        log.scan(start_timestamp=5, end_timestamp=4)
    with pytest.raises(IllegalArgumentError, match="colour"):
        log.scan(columns=["colour"])


@pytest.mark.usefixtures("scheduler")  # the flush of the sealed segment waits
def test_bytes_behind_the_bound_are_not_seen(new_log):
    """[RD-3, DUR-81] a durable read stops at the durable offset."""
    log = new_log(internal_segment_bytes=200)
    log.append([(None, b"a")] * 2)
    log.flush()
    log.append([(None, b"b")] * 9)
    log.append([(None, b"c")])
    assert log.durable_offset == 2
    assert offsets(log.read(0, 10**6, "durable")) == [0, 1]
    assert offsets(log.read(2, 10**6, "durable")) == []
    assert offsets(log.read(5, 10**6, "durable")) == []
    assert values(log.scan(isolation="durable")) == [b"a", b"a"]
    assert len(values(log.scan())) == 12
    assert offsets(log.read(2, 10**6, "high_watermark"))[0] == 2


# ---- timestamps ----------------------------------------------------------------------------------


def test_special_timestamps(new_log):
    """[TS-1, TS-4, TS-6] table T-23."""
    log = new_log()
    for number in range(4):
        log.append_as_leader(batch([(TIME + number, None, b"x")]), leader_epoch=3)
    ask = log.fetch_offset_by_timestamp
    assert ask(SpecialTimestamp.LATEST) == (-1, 4, 3)
    assert ask(SpecialTimestamp.EARLIEST) == ask(SpecialTimestamp.EARLIEST_LOCAL) == (-1, 0, 3)
    assert ask(SpecialTimestamp.LATEST_TIERED) == (-1, -1, -1)
    assert ask(SpecialTimestamp.MAX) == (TIME + 3, 3, 3)
    assert ask(-7) == (TIME, 0, 3)
    assert ask(TIME + 9) == (-1, -1, None)


def test_a_pending_upload_is_none_without_remote_storage(new_log):
    """[TS-1, DIFF-13] table T-23: -6."""
    log = new_log()
    log.append_as_leader(batch([(TIME, None, b"x")]), leader_epoch=3)
    assert log.fetch_offset_by_timestamp(-6) == (-1, -1, -1)


def test_special_timestamps_of_an_empty_log(new_log):
    """[TS-1, TS-3]"""
    log = new_log()
    assert log.fetch_offset_by_timestamp(SpecialTimestamp.MAX) == (-1, -1, None)
    assert log.fetch_offset_by_timestamp(SpecialTimestamp.LATEST) == (-1, 0, None)
    assert log.fetch_offset_by_timestamp(SpecialTimestamp.EARLIEST) == (-1, 0, None)
    assert log.offset_for_timestamp(0) is None


def test_by_timestamp(log):
    """[TS-2] every record, and what lies between."""
    for number in range(15):
        assert log.offset_for_timestamp(TIME + number) == number
    assert log.offset_for_timestamp(0) == 0
    assert log.offset_for_timestamp(-9) == 0
    assert log.offset_for_timestamp(TIME + 15) is None
    log.delete_records(8)
    assert log.offset_for_timestamp(TIME) == 8


def test_the_first_segment_that_may_have_it_answers_alone(new_log):
    """[TS-2] a broker asks no later segment when its answer lies below the log start."""
    log = new_log()
    log.append([(TIME + 100, None, b"x"), (TIME, None, b"x"), (TIME, None, b"x")])
    log.roll()
    log.append([(TIME + 100, None, b"x")])
    log.delete_records(1)
    assert log.fetch_offset_by_timestamp(TIME + 50).offset == -1
    assert log.fetch_offset_by_timestamp(TIME).offset == 1
    assert log.offset_for_timestamp(TIME + 50) == 3  # not as a broker: the first there is


def test_the_largest_timestamp(new_log):
    """[TS-3] the first record that has it, not the last of its batch."""
    log = new_log()
    log.append([(TIME + n, None, b"x") for n in (0, 9, 9, 5)])
    log.roll()
    log.append([(TIME + n, None, b"x") for n in (1, 9)])
    assert log.fetch_offset_by_timestamp(SpecialTimestamp.MAX) == (TIME + 9, 1, 0)


def test_records_without_timestamps(new_log):
    """[TS-3] (-1, the first record)"""
    log = new_log()
    log.append([(-1, None, b"x")] * 3)
    assert log.fetch_offset_by_timestamp(SpecialTimestamp.MAX) == (-1, 0, 0)


# ---- the tail ------------------------------------------------------------------------------------


def test_the_tail_of_what_another_thread_writes(new_log):
    """[DUR-75] also across rolls."""
    log = new_log(internal_segment_bytes=300)
    tail = log.tail(0, timeout=10, poll_interval=0.001)

    def write() -> None:
        for number in range(50):
            log.append([(None, b"%d" % number)])

    thread = threading.Thread(target=write)
    thread.start()
    assert [next(tail).value for _ in range(50)] == [b"%d" % n for n in range(50)]
    thread.join()


def test_the_tail_of_what_another_handle_writes(new_log):
    """[DUR-76, DUR-77] and what it says when records that were read are gone."""
    writer = new_log()
    writer.append([(None, b"a")])
    reader = new_log(read_only=True)
    assert offsets(reader.tail(timeout=0)) == []
    tail = reader.tail(0, timeout=5, poll_interval=0.001)
    assert next(tail).value == b"a"
    writer.append([(None, b"b"), (None, b"c")])
    assert [next(tail).value, next(tail).value] == [b"b", b"c"]
    writer.truncate_to(1)
    with pytest.raises(LogTruncatedError) as caught:
        next(tail)
    assert (caught.value.found, caught.value.file) == ("1", reader.path)
    assert reader.log_end_offset == 1


def test_a_tail_that_waits_for_nothing_ends(new_log):
    log = new_log()
    log.append_as_leader(singleton())
    assert offsets(log.tail(0, timeout=0)) == [0]
    assert offsets(log.tail(timeout=0.02)) == []


def test_what_came_after_a_scan_was_made_is_not_in_it(log):
    """[DUR-75]"""
    scan = log.scan(12)
    log.append([(None, b"later")])
    assert offsets(scan) == offsets(scan) == [12, 13, 14]


def test_a_gap_at_the_end(new_log):
    """[TRU-5] offsets that do not exist are skipped, not waited for."""
    log = new_log()
    log.append_as_follower(at(0, 3), 0)
    log.truncate_to(2)
    assert log.log_end_offset == 2
    assert offsets(log.read(0, 100)) == offsets(log) == []
    assert offsets(log.tail(0, timeout=0)) == []
