"""What waits for what in one log, and what a reader sees while others change it [CON-*]."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone
from typing import TYPE_CHECKING

import pytest

from segstore.errors import CorruptRecordError, InvalidRecordError, LogTruncatedError
from segstore.log.local.segment import Segment
from tests.kits.log_kit import TIME, at, bases, offsets, singleton

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore import UnifiedLog

PATIENCE = 20
CHANGES: dict[str, Callable[[UnifiedLog], object]] = {
    "append": lambda log: log.append([(None, b"v")]),
    "append_as_leader": lambda log: log.append_as_leader(singleton()),
    "append_as_follower": lambda log: log.append_as_follower(at(log.log_end_offset), 0),
    "roll": lambda log: log.roll(),
    "truncate_to": lambda log: log.truncate_to(5),
    "truncate_fully_and_start_at": lambda log: log.truncate_fully_and_start_at(5),
    "delete_records": lambda log: log.delete_records(3),
    "close": lambda log: log.close(),
}
LOOKS: dict[str, Callable[[UnifiedLog], object]] = {
    "log_end_offset": lambda log: log.log_end_offset,
    "log_start_offset": lambda log: log.log_start_offset,
    "high_watermark": lambda log: log.high_watermark,
    "durable_offset": lambda log: log.durable_offset,
    "recovery_point": lambda log: log.recovery_point,
    "segments": lambda log: log.segments(),
    "read": lambda log: log.read(2, 1000),
    "slice": lambda log: log.slice(2, 1000).read(),
    "scan": lambda log: list(log.scan()),
    "offset_for_timestamp": lambda log: log.offset_for_timestamp(TIME),
}


@pytest.fixture
def log(new_log) -> UnifiedLog:
    made = new_log(internal_segment_bytes=300)
    for number in range(10):
        made.append([(TIME + number, None, b"%d" % number)])
    return made


@pytest.fixture
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_takes_the_lock(log, elsewhere, name):
    """[CON-1, APP-7] one lock for everything that changes a log: it waits for its turn."""
    with log._append_lock:
        before = log.log_end_offset, log.log_start_offset, bases(log), log.closed
        done = elsewhere.submit(CHANGES[name], log)
        with pytest.raises(NotDone):
            done.result(0.1)
        assert (log.log_end_offset, log.log_start_offset, bases(log), log.closed) == before
    done.result(PATIENCE)
    assert (log.log_end_offset, log.log_start_offset, bases(log), log.closed) != before


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_takes_no_lock(log, elsewhere, name):
    """[CON-2, CON-3]"""
    with log._append_lock:
        elsewhere.submit(LOOKS[name], log).result(PATIENCE)


def test_input_is_analysed_outside_the_lock(log, elsewhere):
    """[CON-2, APP-4] bad batches are refused while somebody else is inside."""
    damaged = bytearray(singleton())
    damaged[-1] ^= 1
    with log._append_lock:
        for batches, error in [
            (bytes(damaged), CorruptRecordError),
            (at(7), InvalidRecordError),  # a client's batch begins at 0
        ]:
            with pytest.raises(error):
                elsewhere.submit(log.append_as_leader, batches).result(PATIENCE)


def test_a_truncation_under_a_reader_is_an_error_of_his(log):
    """[CON-6] Kafka accepts that he gets other bytes; here he is told."""
    scan, found = log.scan(4), log.slice(4, 1000)
    log.truncate_to(4)
    for number in range(6):
        log.append([(TIME, None, b"other %d" % number)])
    with pytest.raises(LogTruncatedError):
        list(scan)
    with pytest.raises(LogTruncatedError):
        found.read()


def test_a_bound_of_before_a_roll_holds(log):
    """[CON-5, CON-8] it names a segment and a byte: what came behind it stays unseen."""
    local_log = log._local_log
    bound = local_log.log_end
    expected = bytes(log.read(9, 1000).records)
    log.append([(None, b"behind the bound")])
    log.roll()
    log.append([(None, b"in the next segment")])
    metadata, fetched = local_log.fetch(9, 1000, bound, min_one_message=True, take=Segment.read)
    assert metadata.message_offset == 9
    assert bytes(fetched) == expected
    assert local_log.fetch(10, 1000, bound, min_one_message=True, take=Segment.read) == (
        bound,
        None,
    )


def test_there_is_an_active_segment_at_every_moment(log):
    """[CON-9] a roll, one at the same base, and a full truncation add before they remove."""
    seen: list[int] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            active = log.segments()[-1]
            seen.append(active.base_offset)
            assert active.size_bytes >= 0

    with ThreadPoolExecutor(2) as pool:
        lookers = [pool.submit(look) for _ in range(2)]
        for number in range(60):
            log.append([(None, b"%d" % number)])
            log.roll()
            log.roll()
            if number % 10 == 9:
                log.truncate_fully_and_start_at(log.log_end_offset + 1)
        stop.set()
        for each in lookers:
            each.result(PATIENCE)
    assert len(seen) > 60
    assert offsets(log) == []
