"""When a segment has had enough, and what it knows about time [SEG-4, SEG-13..SEG-16]."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from segstore import LogConfig
from segstore.log.local.segment import roll_jitter_ms
from segstore.number_limits import MAX_LONG
from tests.kits.log_kit import TIME, at, bases, batch

HOUR = 3600 * 1000


def rolls(segment, **changes) -> bool:
    asked = {
        "max_segment_ms": MAX_LONG,
        "max_segment_bytes": 10**6,
        "max_timestamp": TIME,
        "max_offset": 100,
        "messages_bytes": 100,
        "now_ms": TIME,
    }
    return segment.should_roll(**(asked | changes))


@pytest.fixture
def segment(new_log):
    log = new_log()
    log.append([(TIME, b"key", b"value" * 20)])
    return log.segments()[0]


def test_size(segment):
    """[SEG-13] table T-5: an exact fit stays."""
    size = segment.size_bytes
    assert not rolls(segment, max_segment_bytes=size + 100)
    assert rolls(segment, max_segment_bytes=size + 99)


@pytest.mark.parametrize(
    ("max_timestamp", "expected"),
    [(TIME + HOUR, False), (TIME + HOUR + 1, True), (-1, False), (TIME - 5, False)],
)
def test_age_by_timestamps(segment, max_timestamp, expected):
    """[SEG-13, SEG-14] table T-6: the wall clock does not matter, the comparison is strict."""
    age = {"max_segment_ms": HOUR, "now_ms": TIME + 100 * HOUR}
    assert rolls(segment, max_timestamp=max_timestamp, **age) == expected
    assert segment.time_waited_for_roll(0, max_timestamp) == max_timestamp - TIME


def test_age_by_the_clock(new_log):
    """[SEG-14] table T-6: a first batch without timestamp; [SEG-16] absent is 2^63-1."""
    log = new_log()
    (segment,) = log.segments()
    created = segment.created_ms
    assert segment.rolling_timestamp() == MAX_LONG
    age = {"max_segment_ms": HOUR}
    assert not rolls(segment, now_ms=created + 99 * HOUR, **age)  # empty: never by age
    log.append([(-1, None, b"value")])
    assert segment.first_batch_timestamp() == -1
    assert segment.rolling_timestamp() == MAX_LONG
    assert not rolls(segment, now_ms=created + HOUR, **age)
    assert rolls(segment, now_ms=created + HOUR + 1, **age)
    assert segment.time_waited_for_roll(created + 7, TIME) == 7


@pytest.mark.parametrize(
    ("base", "offset", "expected"),
    [
        (0, 2147483647, True),
        (0, 2147483648, False),
        (100, 99, False),
        (2147483648, 0, False),
        (2147483648, 4294967295, True),
        (2147483648, 4294967296, False),
    ],
)
def test_offsets_that_fit(new_log, base, offset, expected):
    """[SEG-13, IDX-12] table T-7; an empty segment rolls for it too."""
    log = new_log()
    if base:
        log.truncate_fully_and_start_at(base)
    segment = log.segments()[-1]
    assert segment.base_offset == base
    assert segment.can_hold(offset) == expected
    assert rolls(segment, max_offset=offset) != expected


def test_a_full_index(new_log):
    """[CFG-4m, SEG-13, TMX-4] The last slot of a time index is not free: the next append rolls."""
    log = new_log(segment_index_bytes=36, index_interval_bytes=0)
    for number in range(4):
        log.append([(TIME + number, None, b"value")])
    assert bases(log) == [0, 3]  # two entries of three: the last slot is kept for the end
    assert rolls(log.segments()[0])


def test_the_largest_timestamp(new_log):
    """[SEG-4] the time of the file where no record has one."""
    log = new_log()
    log.append([(-1, None, b"value")])
    (segment,) = log.segments()
    os.utime(segment.path, (1_600_000_000, 1_600_000_000))
    assert segment.largest_record_timestamp() == -1
    assert segment.largest_timestamp() == 1_600_000_000_000
    log.append_as_leader(batch([(TIME + 9, None, b""), (TIME, None, b"")]))
    assert segment.largest_timestamp() == segment.largest_record_timestamp() == TIME + 9


def test_a_lost_time_index_costs_no_answer(new_log):
    """[DUR-8] the batch headers tell."""
    log = new_log()
    log.append([(TIME + 5, None, b"value")])
    log.roll()
    path = log.segments()[0].path.replace(".log", ".timeindex")
    log.close()
    os.truncate(path, 0)
    reader = new_log(read_only=True)
    assert reader.segments()[0].largest_record_timestamp() == TIME + 5
    assert reader.offset_for_timestamp(TIME + 1) == 0


@pytest.mark.parametrize("window_batches", [1, 2, 5, 6])
def test_windows_are_the_whole_scan(new_log, monkeypatch, window_batches):
    """[DUR-61] Order and epochs are checked across them; the last one says how the scan ended."""
    log = new_log()
    for offset in range(5):
        log.append_as_follower(at(offset, epoch=offset // 2), 2)
    segment = log.segments()[0]
    how = {"check_order": True, "contiguous": True, "check_epochs": True}
    monkeypatch.setattr("segstore.log.local.segment.WINDOW_BATCHES", window_batches)
    for extra in (b"", at(7, epoch=2), at(5, epoch=1), at(5, epoch=2)[:-1]):
        with Path(segment.path).open("ab") as file:
            file.write(extra)
        reader = new_log(read_only=True).segments()[0]
        headers, whole = reader.scan(**how)
        windows = list(reader.scan_windows(**how))

        joined = np.concatenate([rows for rows, _ in windows])
        assert joined.tobytes() == headers.tobytes()
        assert str(windows[-1][1].why) == str(whole.why)
        ends = ("stop", "valid_bytes", "next_offset", "last_epoch")
        assert all(getattr(windows[-1][1], end) == getattr(whole, end) for end in ends)
        os.truncate(segment.path, segment.size_bytes)


def test_the_jitter_lies_below_its_bound():
    """[CFG-3m, SEG-15]"""
    assert roll_jitter_ms(LogConfig(segment_ms=1000)) == 0
    drawn = {roll_jitter_ms(LogConfig(segment_ms=1000, segment_jitter_ms=10)) for _ in range(500)}
    assert drawn == set(range(10))
    small = {roll_jitter_ms(LogConfig(segment_ms=2, segment_jitter_ms=99)) for _ in range(100)}
    assert small == {0, 1}
    assert roll_jitter_ms(LogConfig(segment_ms=None, segment_jitter_ms=2)) in {0, 1}
