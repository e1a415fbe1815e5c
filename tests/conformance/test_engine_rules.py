"""Rules of the engine that no test of Kafka's is about [APP-*, CON-*, DIFF-*, LST-*]."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from segstore.errors import (
    InvalidRecordError,
    LimitExceededError,
    LogReadOnlyError,
    SegstoreError,
)
from segstore.log.files.profile import Profile
from segstore.records.error_mapping import ErrorCode, code_for
from segstore.types import Codec, LogAppendInfo
from tests.kits.log_kit import TIME, at, bases, batch, offsets
from tests.kits.unified_log_kit import Producer, follow, write_plain

PATIENCE = 20


@pytest.fixture(params=["safe", "kafka"])
def replica(new_log, request):
    """Open a log whose high watermark is the test's."""

    def open_replica(**settings: object):
        return new_log(recovery=request.param, replicated=True, **settings)

    return open_replica


# ---- appends -------------------------------------------------------------------------------------


def test_a_transaction_index_that_cannot_be_written(replica):
    """[APP-16] data and producers are there, the transaction stays open, the log takes no more.

    The safe profile looks before the marker is written: nothing has happened, and it can be sent
    again.
    """
    log = replica()
    producer = Producer(log, 1)
    producer.write_in_transaction(3)
    follow(log)
    index = Path(log.path) / f"{0:020}.txnindex"
    index.mkdir()
    with pytest.raises(SegstoreError):
        producer.abort()
    assert (log.first_unstable_offset, log.last_stable_offset) == (0, 0)
    if log.profile is Profile.SAFE:
        assert log.log_end_offset == 3
        index.rmdir()
        producer.abort()
    else:
        assert log.log_end_offset == 4
        with pytest.raises(LogReadOnlyError):
            write_plain(log)
        index.rmdir()
    log.close_quietly()
    again = replica()
    follow(again)
    assert (again.first_unstable_offset, again.last_stable_offset) == (None, 4)
    assert again.read(0, 1000, "read_committed").aborted_transactions == [(1, 0)]


def test_no_offset_belongs_to_the_largest_timestamp(replica):
    """[APP-35, DIFF-21] the time index takes it from the batch."""
    log = replica(index_interval_bytes=1)
    info = log.append_as_leader(
        batch([(TIME + 5, None, b"a"), (TIME + 9, None, b"b"), (TIME, None, b"c")]), 0
    )
    assert info.max_timestamp == TIME + 9
    assert not any("max_timestamp" in name for name in LogAppendInfo._fields if "offset" in name)
    write_plain(log)
    assert log.fetch_offset_by_timestamp(-3) == (TIME + 9, 1, 0)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
def test_a_record_that_is_too_large_when_decompressed(new_log, codec):
    """[APP-36, DIFF-27] refused before it is made; uncompressed, and from a leader, it is taken."""
    large, small = bytes(10_000), bytes(900)
    log = new_log(max_record_bytes=1000)
    log.append_as_leader(batch([(None, small)], codec=codec), 0)
    with pytest.raises(InvalidRecordError, match="larger than a record may be") as caught:
        log.append_as_leader(batch([(None, large)], codec=codec), 0)
    assert isinstance(caught.value, LimitExceededError)
    assert code_for(caught.value) is ErrorCode.INVALID_RECORD
    assert log.log_end_offset == 1
    log.append_as_leader(batch([(None, large)]), 0)
    log.append_as_follower(batch([(None, large)], codec=codec, base_offset=2, epoch=0), 0)
    assert log.log_end_offset == 3


@pytest.mark.parametrize(
    ("topic_codec", "given", "is_rebuilt"),
    [
        ("producer", Codec.NONE, False),
        ("producer", Codec.GZIP, False),
        ("gzip", Codec.GZIP, False),
        ("gzip", Codec.NONE, True),
        ("uncompressed", Codec.GZIP, True),
    ],
)
def test_what_is_rebuilt_counts_its_records(replica, topic_codec, given, is_rebuilt):
    """[APP-30, APP-37] what stays in place is stored as it came but for what is stamped."""
    log = replica(compression_type=topic_codec)
    data = batch([(None, b"value" * 20)] * 4, codec=given)
    info = log.append_as_leader(data, 0)
    assert info.records_count == 4
    stored = bytes(log.read(0, 10_000).records)
    assert (stored[61:] != data[61:]) == is_rebuilt
    assert info.size_bytes == len(stored)


# ---- locks ---------------------------------------------------------------------------------------


def test_the_listener_runs_under_the_lock(replica):
    """[CON-10, LIS-1] in the thread that moves the watermark."""
    log = replica()
    write_plain(log, 3)
    seen: list[tuple[bool, int]] = []

    def listen(_: int) -> None:
        seen.append((log._append_lock.locked(), threading.get_ident()))

    log.set_high_watermark_listener(listen)
    log.update_high_watermark(2)
    assert seen == [(True, threading.get_ident())]


def test_a_place_is_looked_up_once_under_the_lock(replica):
    """[CON-11, HW-6, RD-1] and after that reads take none."""
    log = replica()
    for _ in range(3):
        write_plain(log)
    log.update_high_watermark(2)
    assert log._offsets.high_watermark_metadata.message_offset_only
    with ThreadPoolExecutor(1) as elsewhere:
        with log._append_lock:
            waiting = elsewhere.submit(log.read, 0, 1000, "high_watermark")
            with pytest.raises(TimeoutError):
                waiting.result(0.1)
        assert offsets(waiting.result(PATIENCE)) == [0, 1]
        assert not log._offsets.high_watermark_metadata.message_offset_only
        with log._append_lock:
            found = elsewhere.submit(log.read, 0, 1000, "high_watermark").result(PATIENCE)
    assert offsets(found) == [0, 1]


# ---- log start -----------------------------------------------------------------------------------


def test_a_log_that_is_loaded_again(replica):
    """[LST-8, LST-9, UNI-2] producers and the first unstable offset come from the files."""
    log = replica()
    log._producers.config.producer_id_expiration_ms = 2**62
    producer = Producer(log, 1)
    write_plain(log, 2)
    producer.write_in_transaction(3)
    log._producers.truncate_fully_and_start_at(0)
    assert log.producer_id_count == 0
    with log._append_lock:
        log._writer.rebuild_producers()
    follow(log)
    assert (log.producer_id_count, log.first_unstable_offset) == (1, 2)


def test_the_log_start_moves_forwards_only(replica):
    """[LST-1, LST-5, UNI-3] with high watermark and recovery point above it."""
    log = replica()
    for _ in range(5):
        write_plain(log)
    log.update_high_watermark(4)
    assert log.maybe_increment_log_start_offset(3)
    assert not log.maybe_increment_log_start_offset(3)
    assert not log.maybe_increment_log_start_offset(2)
    assert log.log_start_offset == 3
    if log.profile == "kafka":  # the safe one's is what its checkpoint says
        assert log.recovery_point == 3
    assert bases(log) == [0]  # files go at the next run of retention


# ---- files ---------------------------------------------------------------------------------------


def test_a_reader_sees_an_append_whole_or_not_at_all(replica):
    """[CON-4, CON-5, CON-8] bytes, then indexes, then the log end."""
    log = replica(internal_segment_bytes=300, index_interval_bytes=1)
    stop = threading.Event()
    errors: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                end = log.log_end_offset
                if end:
                    assert offsets(log.read(end - 1, 1))[-1] == end - 1
        except BaseException as error:  # noqa: BLE001 - told below
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for number in range(300):
            log.append_as_follower(at(number), 0)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert errors == []
