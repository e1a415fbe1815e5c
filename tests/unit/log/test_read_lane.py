"""The short way of a read: bytes, places, errors are those of the layers [D11, LOC-6, TS-2]."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from segstore.errors import (
    ClosedError,
    CorruptLogError,
    CorruptRecordError,
    ForkedHandleError,
    LogTruncatedError,
    SegstoreError,
)
from segstore.log.local.timestamp_lookup import fetch_offset, find_offset_by_timestamp
from tests.kits.log_kit import TIME, at, batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import UnifiedLog

SETTINGS: list[dict[str, Any]] = [
    {},
    {"index_interval_bytes": 0},
    {"index_interval_bytes": 300, "recovery": "kafka"},
    {"segment_index_bytes": 64, "index_interval_bytes": 1},
    {"replicated": True},
]
BY_NAME = "log_end"  # not the constant: the layers look it up


def answer(call: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, ...]:
    """What a call gives, or what it says."""
    try:
        found = call(*arguments, **options)
    except SegstoreError as error:
        return type(error), str(error)
    fetched = found.read() if hasattr(found, "read") else found
    return (
        fetched.records.tobytes(),
        found.fetch_offset_metadata,
        found.first_entry_incomplete,
        fetched.start_offset,
        fetched.end_offset,
        fetched.file,
        fetched.aborted_transactions,
        [(record.topic, record.partition, record.offset, record.value) for record in fetched],
    )


def change(chooser: random.Random, log: UnifiedLog) -> None:
    """Do something to a log, mostly an append; batches are small or larger than the interval."""
    end = log.log_end_offset
    match chooser.randrange(12):
        case 0:
            log.roll()
        case 1 if end > 4:
            log.truncate_to(chooser.randrange(max(log.log_start_offset, end - 8), end))
        case 2 if end > 4:
            if log.high_watermark >= (start := chooser.randrange(log.log_start_offset, end)):
                log.delete_records(start)
        case 3:
            sent = at(end + chooser.choice((0, 3)), chooser.randint(1, 3))  # a gap at times
            log.append_as_follower(sent, 0)
        case _:
            size = chooser.choice((0, 10, 400, 6000, 9000))
            records: list[object] = [
                (TIME + end * 10 + chooser.randrange(-30, 30), b"k", chooser.randbytes(size))
                for _ in range(chooser.randint(1, 4))
            ]
            log.append_as_leader(batch(records))


def questions(chooser: random.Random, log: UnifiedLog) -> list[tuple[int, int, bool]]:
    """Ask within the log, at its ends and beyond them."""
    first, end = log.log_start_offset, log.log_end_offset
    return [
        (
            chooser.choice((chooser.randint(first, end), end, end - 1, end + 1, first, first - 1)),
            chooser.choice((0, 1, 70, 500, 8192, 20_000, 1 << 20)),
            chooser.random() < 0.5,
        )
        for _ in range(6)
    ]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_the_lane_answers_as_the_layers(
    new_log: Callable[..., UnifiedLog], settings: dict[str, Any], seed: int
):
    """Both are asked the same after every change of a log, headers seen before or not."""
    chooser = random.Random(seed)
    log = new_log(**settings)
    for _ in range(25):
        change(chooser, log)
        for offset, max_bytes, min_one in questions(chooser, log):
            for call in (log.read, log.slice):
                by_lane = answer(call, offset, max_bytes, min_one_message=min_one)
                by_layers = answer(call, offset, max_bytes, BY_NAME, min_one_message=min_one)
                assert by_lane == by_layers
        timestamp = TIME + chooser.randint(-5, log.log_end_offset * 10 + 40)
        local_log, start = log._local_log, log.log_start_offset
        expected = find_offset_by_timestamp(local_log, start, timestamp)
        assert log.offset_for_timestamp(timestamp) == (
            None if expected is None else expected.offset
        )
        end = log.log_end_offset
        by_layers = fetch_offset(local_log, log._epochs, start, end, timestamp)
        assert log.fetch_offset_by_timestamp(timestamp) == by_layers


def test_plain_reads_take_the_lane(new_log: Callable[..., UnifiedLog], monkeypatch):
    """Else the test above compares the layers with themselves."""
    log = new_log()
    for number in range(30):
        if number % 10 == 5:
            log.roll()
        log.append_as_leader(batch([(TIME + number, None, b"v" * 9000)]))
    assert log.offset_for_timestamp(TIME + 29) == 29  # the layers look at all segments once
    for first in (5, 15, 25):  # of its segment: once, the layers look at the one before [DUR-79]
        assert log.offset_for_timestamp(TIME + first) == first
    for name in ("fetch", "slice", "visible"):
        monkeypatch.setattr(type(log._reader), name, None)
    monkeypatch.setattr(type(log._access), "require_open", None)

    for number in range(30):
        fetched = log.read(number, 100)
        assert [record.offset for record in fetched] == [number]
        assert fetched.file == log.segments()[(number + 5) // 10].path
        assert [record.offset for record in log.slice(number, 100)] == [number]
        assert log.offset_for_timestamp(TIME + number) == number
        assert log.fetch_offset_by_timestamp(TIME + number) == (TIME + number, number, 0)


def test_the_lane_steps_over_no_gap(new_log: Callable[..., UnifiedLog]):
    """[DUR-79] What is missing before a segment is told as often as its first record is asked."""
    log = new_log()
    for number in range(6):
        if number in {2, 4}:
            log.roll()
        log.append_as_leader(batch([(TIME + number, None, b"v")]))
    log.close()
    log = new_log()
    second = Path(log.segments()[1].path)
    os.truncate(second, second.stat().st_size // 2)

    for _ in range(3):
        for wanted in (4, 5):  # what is missing may have any time
            with pytest.raises((CorruptLogError, CorruptRecordError)) as caught:
                log.offset_for_timestamp(TIME + wanted)
            assert caught.value.file == str(second)
        with pytest.raises((CorruptLogError, CorruptRecordError)):
            log.slice(3, 1000)
        assert [record.offset for record in log.slice(4, 1000)] == [4, 5]
    log.close_quietly()


def test_headers_seen_before_a_truncation_are_not_believed_behind_it(
    new_log: Callable[..., UnifiedLog],
):
    """[DUR-77] Other batches lie where those were; slices are asked again and again."""
    log = new_log()
    for _ in range(8):
        log.append_as_leader(batch([(TIME, None, b"a" * 9000)] * 2))
    old = [log.slice(offset, 100) for offset in range(16)]
    log.truncate_to(8)
    log.append_as_leader(batch([(TIME, None, b"b" * 4500)] * 4))
    log.append_as_leader(batch([(TIME, None, b"c" * 4500)] * 4))

    found = [[record.value[:1] for record in log.slice(offset, 40_000)] for offset in range(8, 16)]
    assert found == [[b"b"] * (12 - n) + [b"c"] * 4 for n in range(8, 12)] + [
        [b"c"] * (16 - n) for n in range(12, 16)
    ]
    assert [record.offset for record in old[7]] == [7]
    with pytest.raises(LogTruncatedError):
        old[8].read()


def test_a_log_emptied_at_the_same_offset_restarts(new_log: Callable[..., UnifiedLog]):
    """[LOC-15] The new segment has the name of one whose headers were seen."""
    log = new_log()
    for count in (2, 3):
        log.truncate_fully_and_start_at(0)
        for first in range(0, 12, count):
            log.append_as_follower(at(first, count, value=b"v" * 5000), 0)
        positions = {log.slice(offset, 1).position for offset in range(12)}
        assert len(positions) == 12 // count


def test_what_was_fetched_outlives_the_log(new_log: Callable[..., UnifiedLog], tmp_path: Path):
    """The bytes are the fetch's, and so is the name of what they are from."""
    log = new_log(tmp_path / "orders-3")
    log.append([(b"k", b"value")])
    fetched = log.read(0, 1000)
    log.close()

    assert [(record.topic, record.partition, record.value) for record in fetched] == [
        ("orders", 3, b"value")
    ]
    assert fetched.records.readonly
    assert fetched.size_bytes == len(fetched.records)
    assert fetched.file == str(tmp_path / "orders-3" / f"{0:020}.log")


def test_a_closed_log_and_a_forked_one_answer_nothing(new_log: Callable[..., UnifiedLog]):
    """[DUR-68] The lane leaves them to the layers, which say why."""
    log = new_log()
    log.append([(None, b"value")])
    calls = (
        lambda: log.read(0, 100),
        lambda: log.slice(0, 100),
        lambda: log.offset_for_timestamp(0),
        lambda: log.fetch_offset_by_timestamp(0),
    )
    for call in calls:
        call()
    child = os.fork()
    if child == 0:  # no pytest in here
        refused = 0
        for call in calls:
            try:
                call()
            except ForkedHandleError:
                refused += 1
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(calls)
    log.close()
    for call in calls:
        with pytest.raises(ClosedError):
            call()
