"""What a handle promised as one class holds over its collaborators, too.

Also looked for: other context managers in Python that hold the append lock (none is left), other
answers that a reader's handle gives although it takes no changes, and numbers that a collaborator
was given once and that move afterwards (the log start of a check).
"""

from __future__ import annotations

import random
import signal
import struct
import time
from contextlib import contextmanager

import pytest

import segstore
from segstore import Isolation
from segstore.errors import LogLockedError, LogReadOnlyError
from segstore.log.unified_log import Log

TIMES = 2_000
SLOWEST_SECONDS = 20


@contextmanager
def interrupts():
    """Let a timer raise KeyboardInterrupt, once for each time that it is set."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_interrupted_change_keeps_no_lock(tmp_path):
    """[DUR-70] A context manager in Python kept it, one time in ten, while its traceback lived."""
    kept, end = 0, time.monotonic() + SLOWEST_SECONDS
    choice = random.Random(7)
    with segstore.open(tmp_path / "t-0", durability="none") as log, interrupts():
        log.append([(b"k", b"v")])
        for _ in range(TIMES):
            try:
                signal.setitimer(signal.ITIMER_REAL, choice.uniform(1e-6, 4e-5))
                while True:
                    log.maybe_increment_log_start_offset(0)
            except KeyboardInterrupt:
                kept += log._append_lock.locked()
            if time.monotonic() > end:
                break

        assert kept == 0
        assert log.append([(b"k", b"w")]).base_offset == 1


def test_what_a_log_to_be_read_answers(tmp_path):
    """It has all of `UnifiedLog`: what only looks answers, the rest is refused."""
    with segstore.open(tmp_path / "t-0") as log:
        log.append([(b"k", b"v")])
    with segstore.open(tmp_path / "t-0", read_only=True) as log:
        assert type(log) is Log
        assert log.collect_aborted_transactions(0, 1) == []
        assert log.retention_size_in_percent == 0
        log.set_high_watermark_listener(None)
        for name in ("append", "truncate_to", "flush", "delete", "update_config"):
            with pytest.raises(LogReadOnlyError):
                getattr(log, name)()
        with pytest.raises(LogReadOnlyError):
            _ = log.producer_id_count
        with pytest.raises(AttributeError):
            _ = log.no_such_thing


def test_a_readers_lane_looks_at_the_segment_before_in_each_profile(tmp_path):
    """[DUR-54, DUR-79] Kafka's profile believes the files of a log that it writes, not others."""
    with segstore.open(tmp_path / "t-0") as log:
        for value in (b"a", b"moved", b"b", b"c"):
            if value in {b"b", b"c"}:
                log.roll()
            log.append([(1000, b"k", value)])
        with segstore.open(tmp_path / "t-0", read_only=True, recovery="kafka") as reader:
            with (tmp_path / "t-0" / f"{0:020}.log").open("r+b") as file:
                (length,) = struct.unpack(">i", file.read(12)[8:])
                file.seek(12 + length)
                file.write(struct.pack(">q", 2))  # the offset of another segment's record
            by_lane = reader.read(0, 10_000)
            by_layers = reader._reader.fetch(0, 10_000, Isolation.LOG_END, min_one_message=True)

            assert [one.value for one in by_lane] == [one.value for one in by_layers] == [b"a"]
            assert by_lane.end_offset == by_layers.end_offset == 2


def test_a_check_looks_at_the_log_as_it_is_now(tmp_path):
    """[DUR-71] What was deleted since a reader was opened is not missing."""
    with segstore.open(tmp_path / "t-0", file_delete_delay_ms=0) as log:
        for _ in range(6):
            log.append([(b"k", b"v")])
            log.roll()
        with segstore.open(tmp_path / "t-0", read_only=True) as reader:
            log.delete_records(4)
            report = reader.verify()

    assert report.ok
    assert (report.log_start_offset, report.segments[0].base_offset) == (4, 4)


def test_a_slice_keeps_its_log(tmp_path):
    """[DUR-77] As long as it is there nobody else writes what it is about to send."""
    with segstore.open(tmp_path / "t-0") as log:
        log.append([(b"k", b"old")])
    slice_of_it = segstore.open(tmp_path / "t-0").slice(0, 1000)

    with pytest.raises(LogLockedError):
        segstore.open(tmp_path / "t-0")
    assert [one.value for one in slice_of_it] == [b"old"]
    slice_of_it._log.close()


def test_a_scan_has_numbers_of_its_own(tmp_path):
    """An object that is a number by ``__index__`` is one."""

    class Two:
        def __index__(self) -> int:
            return 2

    with segstore.open(tmp_path / "t-0") as log:
        log.append([(b"k", b"v")] * 4)
        scan = log.scan(Two(), 4)

        assert type(scan.start_offset) is int
        assert [one.offset for one in scan] == [2, 3]
