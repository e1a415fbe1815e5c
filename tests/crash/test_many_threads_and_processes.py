"""Sixteen threads and eight processes on one log: nothing lost, doubled, reordered, torn or stuck.

[DUR-2, DUR-15, DUR-65, DUR-67..DUR-70, DUR-75..DUR-81] The writer's process has sixteen threads:
appenders, a flusher, a roller, one that deletes, and readers. Beside it are seven more: readers,
would-be writers, and one that forks. ``--operations 1000000`` is the long run.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import (
    ForkedHandleError,
    LogLockedError,
    LogNotFoundError,
    OffsetOutOfRangeError,
    WriteError,
)
from tests.kits.log_kit import forked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore import UnifiedLog

APPENDERS, READERS = 6, 7
FLUSHERS_ROLLERS_DELETERS = 3
OPERATIONS_FEW, OPERATIONS_MANY = 500, 1_500
STUCK_SECONDS = 120
KEPT_RECORDS = 3_000
POLL_SECONDS = 0.001
SETTINGS = {
    "internal_segment_bytes": 20_000,
    "index_interval_bytes": 500,
    "segment_ms": None,
    "file_delete_delay_ms": 5,
}


@pytest.fixture
def operations(
    request: pytest.FixtureRequest, few_or_many: Callable[[int, int], int]
) -> Iterator[int]:
    """Appends of all threads together; who is stuck shows where."""
    count = request.config.getoption("--operations")
    seconds = STUCK_SECONDS + (count or 0) / 100
    faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__)
    yield count or few_or_many(OPERATIONS_FEW, OPERATIONS_MANY)
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.parametrize("durability", ["sync", "seconds=0.2"])
def test_sixteen_threads_and_eight_processes(durability: str, tmp_path: Path, operations: int):
    """Each record says who appended it, and as which of its own: the rest follows from that."""
    path, done = tmp_path / "numbers-0", tmp_path / "done"
    log = segstore.open(path, durability=durability, **SETTINGS)
    log.append([(b"\0", b"0")])
    others = [read_from_outside, read_from_outside, follow_from_outside, follow_from_outside]
    others += [want_to_write, want_to_write]
    processes = [forked(lambda act=act: act(path, done)) for act in others]
    processes.append(forked(lambda: fork_again_and_again(log, done)))
    crew = Crew(log, operations // APPENDERS, is_synced=durability == "sync")
    try:
        with ThreadPoolExecutor(APPENDERS + READERS + FLUSHERS_ROLLERS_DELETERS) as pool:
            jobs = [pool.submit(crew.run, crew.append, key + 1) for key in range(APPENDERS)]
            jobs += [pool.submit(crew.run, crew.read, number) for number in range(READERS)]
            jobs += [pool.submit(crew.run, act) for act in (crew.flush, crew.roll, crew.delete)]
            for job in jobs:
                job.result()
    finally:
        crew.is_over = True
        done.touch()
        statuses = [os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in processes]

    assert statuses == [0] * 7
    log.flush()
    assert log.durable_offset == log.log_end_offset == crew.appended + 1
    check_whole(log)
    log.close()
    with segstore.open(path, **SETTINGS) as again:
        assert again.report.clean
        check_whole(again)


def check_whole(log: UnifiedLog) -> None:
    """No offset is missing, and each appender's numbers ascend one by one to its last."""
    rows = log.scan().tuples()
    assert [row[0] for row in rows] == list(range(log.log_start_offset, log.log_end_offset))
    check_rows(rows, {})
    assert log.verify().ok, str(log.verify())


def check_rows(rows: list[tuple[int, int, bytes, bytes]], last: dict[bytes, int]) -> None:
    """Compare each record with the one before it of the same appender."""
    for offset, _, key, value in rows:
        number = int(value)
        assert number == last.get(key, number - 1) + 1, (offset, key, number, last)
        last[key] = number


class Crew:
    """What the threads of the writer's process do, until the appenders are done."""

    def __init__(self, log: UnifiedLog, appends: int, *, is_synced: bool) -> None:
        self.log = log
        self.appends = appends
        self.is_synced = is_synced
        self.ends: list[int] = []
        self.is_over = False

    @property
    def appended(self) -> int:
        """Records that were acknowledged."""
        return sum(self.ends)

    def run(self, act: Callable[..., None], *arguments: int) -> None:
        """Let all others end when one fails."""
        try:
            act(*arguments)
        except BaseException:
            self.is_over = True
            raise

    def _until_over(self) -> Iterator[None]:
        yield
        while not self.is_over:
            time.sleep(POLL_SECONDS)
            yield

    def append(self, key: int) -> None:
        """Numbers, some at once; each is where the answer says, at once."""
        number = 0
        for turn in range(self.appends):
            count = 1 + turn % 4
            records = [(bytes([key]), b"%d" % (number + i)) for i in range(count)]
            try:
                info = self.log.append(records)
            except WriteError:  # a busy disk: the sync is later than was promised [DUR-14]
                time.sleep(0.05)
                continue
            assert info.last_offset - info.base_offset == count - 1
            if self.is_synced:
                assert self.log.durable_offset > info.last_offset
            number += count
        self.ends.append(number)
        if len(self.ends) == APPENDERS:
            self.is_over = True

    def read(self, reader: int) -> None:
        """From where it was, up to one end or another; behind the log start after a deletion."""
        isolation = ["log_end", "high_watermark", "durable"][reader % 3]
        position, last = 0, {}
        for _ in self._until_over():
            try:
                rows = self.log.scan(position, isolation=isolation).tuples()
            except OffsetOutOfRangeError:
                assert position < self.log.log_start_offset
                position, last = self.log.log_start_offset, {}
                continue
            assert [row[0] for row in rows] == list(range(position, position + len(rows)))
            check_rows(rows, last)
            position += len(rows)
            assert position <= self.log.log_end_offset
        assert position > 0 or isolation == "durable"

    def flush(self) -> None:
        """Durable is at least what was appended before."""
        for _ in self._until_over():
            end = self.log.log_end_offset
            assert self.log.flush(force_active_segment=end % 2 == 0) >= end

    def roll(self) -> None:
        """Now and then beside the rolls that come by themselves."""
        for _ in self._until_over():
            self.log.roll()
            time.sleep(0.02)

    def delete(self) -> None:
        """Keep the last records."""
        for _ in self._until_over():
            kept_from = self.log.high_watermark - KEPT_RECORDS
            self.log.delete_records(max(self.log.log_start_offset, kept_from))
            time.sleep(0.01)


# ---- the other processes -------------------------------------------------------------------------


def until(done: Path) -> Iterator[None]:
    """Go on until the writer is done, or gone."""
    parent = os.getppid()
    while not done.exists() and os.getppid() == parent:
        yield
        time.sleep(POLL_SECONDS)


def read_from_outside(path: Path, done: Path) -> None:
    """A new handle each time: all that it sees is whole, and in order [DUR-71, DUR-76]."""
    for _ in until(done):
        try:
            with segstore.open(path, read_only=True) as log:
                rows = log.scan().tuples()
        except (LogNotFoundError, OffsetOutOfRangeError):  # deleted beside the look [DUR-78]
            continue
        assert [row[0] for row in rows] == list(range(rows[0][0], rows[0][0] + len(rows)))
        check_rows(rows, {})


def follow_from_outside(path: Path, done: Path) -> None:
    """One handle, and each record once, in order [DUR-75..DUR-78]."""
    with segstore.open(path, read_only=True) as log:
        position, last = log.log_start_offset, {}
        for _ in until(done):
            log.refresh()
            try:
                rows = log.scan(position).tuples()
            except (LogNotFoundError, OffsetOutOfRangeError):
                log.refresh()
                position, last = max(position, log.log_start_offset), {}
                continue
            assert [row[0] for row in rows] == list(range(position, position + len(rows)))
            check_rows(rows, last)
            position += len(rows)


def want_to_write(path: Path, done: Path) -> None:
    """There is a writer: no other gets in [DUR-65]."""
    for _ in until(done):
        with pytest.raises(LogLockedError):
            segstore.open(path, **SETTINGS)


def fork_again_and_again(log: UnifiedLog, done: Path) -> None:
    """The writer's handle is of no use in a child, nor in a child of that [DUR-68]."""

    def use() -> None:
        for act in (lambda: log.append([(b"\0", b"1")]), log.flush, log.close, log.scan):
            with pytest.raises(ForkedHandleError):
                act()

    for _ in until(done):
        use()
        _, status = os.waitpid(forked(use), 0)
        assert status == 0
        time.sleep(0.01)
