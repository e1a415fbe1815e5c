"""scrub: the log as it is on the disk, not faster than allowed [DUR-60]."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import TYPE_CHECKING

import pytest

from segstore.errors import ArgumentTypeError, ClosedError, IllegalArgumentError
from segstore.log.check import uncached_scan
from segstore.log.local import segment
from tests.kits.log_kit import TIME

if TYPE_CHECKING:
    from collections.abc import Callable

SEGMENTS = 5


@pytest.fixture
def log(new_log):
    log = new_log(internal_segment_bytes=2000, index_interval_bytes=0)
    number = 0
    while len(log.segments()) < SEGMENTS:
        log.append([(TIME + number, None, b"x" * 20)])
        number += 1
    log.append([(TIME + number, None, b"active")])
    log.flush()
    return log


def hashes(tmp_path):
    files = (tmp_path / "topic-0").iterdir()
    return {file.name: hashlib.sha256(file.read_bytes()).digest() for file in files}


def test_a_good_log_has_no_problem_and_stays_as_it_is(log, tmp_path):
    before, steps = hashes(tmp_path), []
    report = log.scrub(progress=lambda *step: steps.append(step))
    assert report.ok
    assert [check.base_offset for check in report.segments] == [
        segment.base_offset for segment in log.segments()
    ]
    assert report.to_dict() | {"seconds": 0} == log.scrub().to_dict() | {"seconds": 0}
    assert steps[-1] == ("scrub", report.size_bytes, report.size_bytes)
    assert hashes(tmp_path) == before


def test_the_cache_is_dropped_before_anything_is_read(log, monkeypatch):
    calls = []
    segments = log.segments()
    kind = type(segments[0])
    drop, scan, scan_transactions = kind.drop_cache, kind.scan_table, kind.scan_transactions

    def dropped(segment):
        calls.append(("drop", segment.base_offset))
        drop(segment)

    def scanned(segment, **how):
        calls.append(("scan", segment.base_offset))
        return scan(segment, **how)

    def scanned_again(segment, **how):
        calls.append(("transactions", segment.base_offset))
        return scan_transactions(segment, **how)

    monkeypatch.setattr(kind, "scan_transactions", scanned_again, raising=False)
    monkeypatch.setattr(kind, "drop_cache", dropped, raising=False)
    monkeypatch.setattr(kind, "scan_table", scanned, raising=False)
    log.scrub()
    expected = [(what, s.base_offset) for s in segments for what in ("drop", "scan")]
    assert calls[: len(expected)] == expected
    assert {what for what, _ in calls[len(expected) :]} == {"transactions"}  # by headers


@pytest.mark.parametrize("where", ["batch", "index", "timeindex"])
def test_damage_is_told_and_left_as_it_is(log, tmp_path, where):
    name = f"{log.segments()[1].base_offset:020d}"
    file = tmp_path / "topic-0" / f"{name}.{'log' if where == 'batch' else where}"
    data = bytearray(file.read_bytes())
    data[len(data) // 2 // 24 * 24 + 7] ^= 0x40
    file.write_bytes(data)

    report = log.scrub()

    assert not report.ok
    assert all(problem.startswith(name) for problem in report.problems)
    assert file.read_bytes() == data


def test_the_active_segment_is_looked_at_too(log, tmp_path):
    """As `verify` does: every door gives the same findings."""
    file = tmp_path / "topic-0" / f"{log.segments()[-1].base_offset:020d}.log"
    data = file.read_bytes()
    file.write_bytes(data[:-1] + b"!")
    assert log.scrub().findings == log.verify().findings != []


class Clock:
    """Stand for `time` in one module; other threads still sleep."""

    monotonic = staticmethod(time.monotonic)

    def __init__(self, sleep: Callable[[float], object]) -> None:
        self.sleep = sleep


def test_it_keeps_to_the_rate(log, monkeypatch):
    """Half a second at least for half as many bytes as it may read in a second; many windows."""
    monkeypatch.setattr(segment, "FIRST_BATCHES", 3)
    monkeypatch.setattr(uncached_scan, "WINDOW_BYTES", 300)
    size = sum(segment.size_bytes for segment in log.segments())
    pauses, steps = [], []
    monkeypatch.setattr(uncached_scan, "time", Clock(pauses.append))
    began = time.monotonic()
    report = log.scrub(bytes_per_second=size * 2, progress=lambda *step: steps.append(step[1]))
    assert report.size_bytes == size
    assert len(pauses) == len(steps) > SEGMENTS * 3
    assert steps == sorted(steps)
    assert 0.5 - (time.monotonic() - began) <= pauses[-1] <= 0.5


def test_no_limit_is_no_pause(log, monkeypatch):
    monkeypatch.setattr(uncached_scan, "time", Clock(lambda _: pytest.fail("a pause")))
    assert log.scrub(bytes_per_second=None).ok


def test_a_segment_that_is_deleted_meanwhile_is_no_damage(log):
    bases = [segment.base_offset for segment in log.segments()]

    def delete(_what, _done, _total):
        if log.log_start_offset == 0:
            log.delete_records(bases[2])

    report = log.scrub(progress=delete)
    assert report.ok
    assert {bases[2], bases[3]} <= {check.base_offset for check in report.segments}


def test_a_log_that_is_closed_meanwhile_ends_it(log):
    closer = threading.Timer(0.2, log.close)
    closer.start()
    with pytest.raises(ClosedError):
        log.scrub(bytes_per_second=1000)
    closer.join()


def test_wrong_arguments(log):
    with pytest.raises(IllegalArgumentError, match="bytes_per_second"):
        log.scrub(bytes_per_second=0)
    with pytest.raises(ArgumentTypeError, match="bytes_per_second"):
        log.scrub(bytes_per_second="fast")
    log.close()
    with pytest.raises(ClosedError):
        log.scrub()
