"""``len(log)``, ``log[n]`` and ``log[a:b]``, of logs, of scans and of one file alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import (
    ArgumentTypeError,
    CorruptRecordError,
    IllegalArgumentError,
    LogTruncatedError,
    OffsetOutOfRangeError,
)
from segstore.log import chunk_reader
from tests.kits.log_kit import TIME, at, offsets
from tests.kits.transactions_kit import ABORT, COMMIT, Producer

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import UnifiedLog

THERE = [10, 11, 12, 20, 21, 30, 33]
"""Offsets of the records; the log begins at 10."""


@pytest.fixture
def log(new_log: Callable[..., UnifiedLog]) -> UnifiedLog:
    """A log with gaps: between batches, between segments, and at its start."""
    log = new_log()
    log.truncate_fully_and_start_at(10)
    for first, count in ((10, 3), (20, 2), (30, 1)):
        log.append_as_follower(at(first, count, epoch=0, value=b"v%d" % first), 0)
        log.roll()
    log.append_as_follower(at(33, 1, epoch=0), 0)
    return log


@pytest.fixture(params=["log", "scan", "reader", "scan around damage"])
def readable(request, log, new_log):
    """Each of what has a length."""
    return {
        "log": lambda: log,
        "scan": log.scan,
        "reader": lambda: new_log(log.path, read_only=True),
        "scan around damage": lambda: log.scan(on_damage="skip"),
    }[request.param]()


def test_the_length_is_the_number_of_records(readable):
    assert len(readable) == len(list(readable)) == len(THERE)


def test_an_offset_has_its_record(readable):
    for offset in THERE:
        assert readable[offset].offset == offset
    assert readable[20].value == b"v20"


@pytest.mark.parametrize(("offset", "following"), [(0, 10), (9, 10), (13, 20), (22, 30), (31, 33)])
def test_an_offset_without_a_record_names_the_next_one(readable, offset, following):
    with pytest.raises(
        IndexError, match=f"no record of topic-0 has offset {offset} here"
    ) as caught:
        readable[offset]
    assert isinstance(caught.value, OffsetOutOfRangeError)
    assert caught.value.expected == f"offset {following}, the next one with a record"


@pytest.mark.parametrize("offset", [34, 10**12])
def test_behind_the_last_record_there_is_none(readable, offset):
    with pytest.raises(IndexError, match="none comes after it"):
        readable[offset]


def test_offsets_are_not_counted_from_the_end(readable):
    with pytest.raises(IndexError, match="not counted from the end"):
        readable[-1]
    with pytest.raises(
        IllegalArgumentError, match="the start of a slice must be 0 or more, not -5"
    ):
        readable[-5:]
    with pytest.raises(TypeError):
        reversed(readable)


@pytest.mark.parametrize("key", [1.5, "1", None, True, (1, 2)])
def test_what_is_no_offset(readable, key):
    with pytest.raises(ArgumentTypeError, match="an offset must be an integer"):
        readable[key]


def test_slices_are_scans(readable):
    for start in (None, 10, 12, 20, 25, 34):
        for end in (None, 12, 20, 25, 33, 99):
            if start is not None and end is not None and end < start:
                continue
            part = readable[start:end]
            expected = [n for n in THERE if (start or 0) <= n < (end or 99)]
            assert isinstance(part, segstore.LogScan)
            assert offsets(part) == part.to_arrow()["offset"].to_pylist() == expected
            assert len(part) == part.count() == len(expected)
            assert bool(part) == bool(expected)


@pytest.mark.parametrize("step", [1, 2, -1])
def test_a_step_is_refused(readable, step):
    with pytest.raises(IllegalArgumentError, match="has no step: use log"):
        readable[10:20:step]


def test_a_reversed_slice_is_refused(readable):
    with pytest.raises(IllegalArgumentError, match="from 20 to 12 is reversed"):
        readable[20:12]


def test_a_slice_of_a_log_must_begin_in_it(log):
    with pytest.raises(OffsetOutOfRangeError):
        log[0:12]
    assert offsets(log.scan()[0:12]) == [10, 11]


def test_a_slice_of_a_scan_keeps_its_query(new_log):
    log = new_log()
    log.append([(TIME + n, None, b"%d" % n) for n in range(10)])
    scan = log.scan(2, 9, columns=["value"], start_timestamp=TIME + 4, end_timestamp=TIME + 8)
    part = scan[5:]
    assert (part.start_offset, part.end_offset, part.columns) == (5, 9, ("value",))
    assert part.to_arrow().to_pydict() == {"value": [b"5", b"6", b"7"]}
    assert (len(scan), len(part), len(part[:6])) == (4, 3, 1)
    assert scan[4].offset == 4
    with pytest.raises(IndexError, match="offset 4, the next one"):
        scan[2]
    with pytest.raises(IndexError, match="none comes after"):
        scan[8]


def test_markers_and_aborted_records_do_not_count(new_log):
    log = new_log()
    for producer, end in ((Producer(log, 1), ABORT), (Producer(log, 2), COMMIT)):
        producer.write()
        producer.end(end)
    assert (len(log), log[2].offset) == (2, 2)
    with pytest.raises(IndexError, match="offset 2, the next one"):
        log[1]
    committed = log.scan(isolation="read_committed")
    assert (len(committed), len(committed[1:])) == (1, 1)
    with pytest.raises(IndexError, match="offset 2, the next one"):
        committed[0]


def test_a_log_without_records_is_true_and_its_scan_is_not(new_log):
    log = new_log()
    assert (len(log), len(log.scan())) == (0, 0)
    assert log
    assert not log.scan()
    with pytest.raises(IndexError, match="none comes after it"):
        log[0]


def test_a_slice_is_of_the_moment_of_its_scan(log):
    """[DUR-77] Records that came, or were cut off, since then are not in it."""
    scan = log.scan()
    log.append([(None, b"later")])
    assert offsets(scan[30:]) == [30, 33]
    log.truncate_to(30)
    for _ in range(9):
        log.append([(None, b"other")])
    part = scan[30:]
    with pytest.raises(LogTruncatedError):
        list(part)


def test_one_record_is_read_and_not_a_chunk(log, monkeypatch):
    read: list[int] = []
    original = chunk_reader._read

    def noted(segment, offset, size, *more):
        read.append(size)
        return original(segment, offset, size, *more)

    monkeypatch.setattr(chunk_reader, "_read", noted)
    scan = log.scan()
    assert scan[11].offset == 11
    assert set(read) <= {0, 1}  # 0 asks what comes behind
    monkeypatch.setattr(chunk_reader.ChunkReader, "__iter__", None)
    assert log[20].offset == 20


def test_damage_is_an_error_of_the_record_that_is_asked_for(log, tmp_path):
    log.close()
    file = tmp_path / "topic-0" / f"{13:020d}.log"
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)
    with segstore.open(tmp_path / "topic-0", read_only=True) as damaged:
        assert damaged[12].offset == 12
        with pytest.raises(CorruptRecordError):
            damaged[21]
        with pytest.raises(CorruptRecordError):
            damaged[15]
        around = damaged.scan(on_damage="skip")[11:]
        assert offsets(around) == [11, 12, 30, 33]
        assert [(one.first_offset, one.next_offset) for one in around.skipped] == [(13, 22)]


def test_one_file_alone(log, tmp_path):
    log.close()
    with segstore.open_segment(tmp_path / "topic-0" / f"{10:020d}.log") as segment:
        assert (len(segment), bool(segment)) == (3, True)
        assert segment[11].offset == 11
        assert offsets(segment[12:40]) == [12]
        with pytest.raises(IndexError, match="none comes after it"):
            segment[13]
