"""Where Kafka's versions differ, the newest is followed; one test each [DIFF-*]."""

from __future__ import annotations

import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

import segstore
from segstore import LogConfig
from segstore._core import Directory, OffsetIndex
from segstore.errors import (
    CloseError,
    OffsetsOutOfOrderError,
    UnsupportedFormatError,
)
from segstore.log.local.local_log import LocalLog
from segstore.log.local.transaction_index import TransactionIndex
from segstore.types import LogAppendInfo
from tests.kits.log_kit import TIME, at, bases, batch, offsets


def test_an_index_entry_a_batch(new_log):
    """[CFG-10m, DIFF-1, DIFF-2] Each has its batch's position and last offset, in one append."""
    log = new_log(index_interval_bytes=100)
    data = b"".join(at(3 * n, 3, value=b"x" * 200) for n in range(4))
    log.append_as_follower(data, 0)
    size = len(data) // 4
    found = log.segments()[0].offset_index_entries()
    assert found == [(3 * n + 2, n * size) for n in range(1, 4)]


def test_the_roll_timestamp_is_that_of_the_first_batch(new_log, tmp_path):
    """[DIFF-3] the largest of the first batch, not of the first append; the same after an open."""
    log = new_log()
    data = b"".join(batch([(TIME + n, None, b"v")], base_offset=n, epoch=0) for n in range(3))
    log.append_as_follower(data, 0)
    assert log.segments()[0].first_batch_timestamp() == TIME
    log.close()
    with segstore.open(tmp_path / "topic-0", read_only=True) as again:
        assert again.segments()[0].first_batch_timestamp() == TIME


def test_answers_speak_of_the_batch(new_log):
    """[DIFF-4, DIFF-5] KAFKA-17803: the base offset of the batch found, not what was asked for."""
    log = new_log()
    log.append_as_follower(at(0, 5) + at(5, 5), 0)
    for found in (log.read(7, 1), log.slice(7, 1)):
        assert found.fetch_offset_metadata.message_offset == 5
    assert log.segments()[0].translate_offset(7).base_offset == 5
    assert offsets(log.read(7, 1)) == [7, 8, 9]


class ClosesBadly(SimpleNamespace):
    """A segment whose close fails, or does not."""

    def close(self) -> None:
        self.closed = True
        if self.error is not None:
            raise self.error


def test_a_close_closes_everything_and_tells_the_first_failure():
    """[DIFF-7, DIFF-23, MAP-8] KAFKA-19221: no failure is swallowed, none keeps others open."""
    errors = [None, CloseError("first"), None, CloseError("second"), None]
    segments = [ClosesBadly(error=error, closed=False) for error in errors]
    nothing = SimpleNamespace(unlink_now=lambda: None)
    log = SimpleNamespace(segments=segments, _deletion=nothing, _note_missing=lambda: None)
    with pytest.raises(CloseError, match="first"):
        LocalLog.close(log)
    assert all(segment.closed for segment in segments)


def test_a_follower_leaves_out_what_is_newer_than_its_leader(new_log):
    """[DIFF-8] KAFKA-18723: a batch of a later epoch, and all behind it."""
    log = new_log()
    log.append_as_follower(at(0, epoch=1) + at(1, epoch=3) + at(2, epoch=1), 2)
    assert (offsets(log), log.log_end_offset) == ([0], 1)


def test_there_is_an_epoch_cache_always(new_log):
    """[DIFF-9] whatever the log was configured with: it is written with the first epoch."""
    log = new_log()
    log.append_as_follower(at(0, 3, epoch=7), 7)
    log.close()
    lines = (Path(log.path) / "leader-epoch-checkpoint").read_text().splitlines()
    assert lines == ["0", "1", "7 0"]


@pytest.mark.parametrize("version", [1, 256, -1])
def test_a_transaction_index_has_version_0(tmp_path, version):
    """[DIFF-12] both bytes of it, not the first one only."""
    entry = struct.pack(">hqqqq", version, 5, 0, 10, 11)
    (tmp_path / f"{0:020}.txnindex").write_bytes(entry)
    directory = Directory(str(tmp_path))
    with pytest.raises(UnsupportedFormatError):
        list(TransactionIndex(directory, 0))
    directory.close()


def test_a_cleanup_policy_may_be_empty():
    """[DIFF-14] and the end of a timestamp's range is an hour ahead [DIFF-20]."""
    assert LogConfig(cleanup_policy="").cleanup_policy == ""
    assert LogConfig().message_timestamp_after_max_ms == 3_600_000


def test_segments_are_those_of_the_call(new_log):
    """[DIFF-15] a copy, not a view of what comes."""
    log = new_log()
    log.append([(None, b"v")])
    before = log.segments()
    log.roll()
    assert [segment.base_offset for segment in before] == [0]
    assert bases(log) == [0, 1]


def test_a_closed_index_is_trimmed_and_flushed_to_no_effect(tmp_path):
    """[DIFF-18, DIFF-26]"""
    directory = Directory(str(tmp_path))
    index = OffsetIndex(directory, f"{0:020}.index", 0, max_size_bytes=80)
    index.append(1, 10)
    index.close()
    size = (tmp_path / f"{0:020}.index").stat().st_size
    index.trim_to_valid_size()
    index.flush()
    assert (tmp_path / f"{0:020}.index").stat().st_size == size == 8
    directory.close()


def test_the_largest_timestamp_is_looked_for_once_at_a_time(new_log, tmp_path):
    """[DIFF-19] KAFKA-19407: threads that ask an untouched segment at once get one answer."""
    log = new_log(index_interval_bytes=1)
    for number in range(50):
        log.append([(TIME + (number * 37) % 50, None, b"v")])
    log.close()
    with segstore.open(tmp_path / "topic-0", read_only=True) as again:
        segment = again.segments()[0]
        together = threading.Barrier(4)

        def ask() -> int:
            together.wait()
            return segment.largest_timestamp()

        with ThreadPoolExecutor(4) as pool:
            answers = [each.result() for each in [pool.submit(ask) for _ in range(4)]]
    assert answers == [TIME + 49] * 4


def test_an_append_tells_no_offset_of_the_largest_timestamp():
    """[DIFF-21]"""
    assert "max_timestamp" in LogAppendInfo._fields
    assert not any("offset_of_max_timestamp" in name for name in LogAppendInfo._fields)


def test_the_order_of_kept_offsets_is_refused_at_the_first_batch_out_of_it(new_log):
    """[DIFF-22] before what is wrong with a later one is looked at."""
    log = new_log()
    damaged = bytearray(at(20))
    damaged[-1] ^= 1
    with pytest.raises(OffsetsOutOfOrderError):
        log.append_as_follower(at(5) + at(3) + bytes(damaged), 0)
    assert log.log_end_offset == 0
