"""Who had waited for a round that failed led the next one, and its sync proved too much.

The kernel tells of an error once: the second sync of a directory, or of a list of aborted
transactions, succeeds though the names or bytes of before may be lost.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time

import pytest

from segstore._core import Barrier, Directory, FileBarrier, SimulatedDisk
from segstore.errors import FsyncFailedError, LogReadOnlyError, SegstoreError
from segstore.log.flusher import Flusher
from segstore.log.local.local_log import LocalLog
from segstore.log.local.transaction_index import TransactionIndexes
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from tests.crash.crash_script import ManualScheduler

ONE = [(None, b"v")]
PATH = "/logs/topic-0"


@pytest.fixture
def disk():
    made = SimulatedDisk()
    Directory("/", made).make_directory("logs")
    return made


@pytest.fixture
def scheduler():
    return ManualScheduler()


@pytest.fixture
def open_log(disk, scheduler):
    opened = []

    def open_with(**settings):
        log_environment = LogEnvironment(environment=disk, background=lambda *_: scheduler)
        options = open_options(**{"durability": "none", "segment_ms": None, **settings})
        opened.append(open_partition(PATH, options, log_environment))
        return opened[-1]

    yield open_with
    for log in opened:
        log.close_quietly()


def in_another_thread(action) -> list[SegstoreError]:
    errors = []

    def run() -> None:
        try:
            action()
        except SegstoreError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return errors


def fail_a_directory_sync(disk, _monkeypatch, action) -> None:
    disk.fail("sync_directory", 1, errno.EIO)
    errors = in_another_thread(action)
    disk.fail("sync_directory", 0, 0)
    assert [type(error) for error in errors] == [FsyncFailedError]


def fail_a_transaction_index_sync(_disk, monkeypatch, action) -> None:
    def fail(_log, _base_offset):
        raise FsyncFailedError("cannot sync the index", file="0.txnindex", os_error=errno.EIO)

    with monkeypatch.context() as patched:
        patched.setattr(TransactionIndexes, "sync", fail)
        errors = in_another_thread(action)
    assert [type(error) for error in errors] == [FsyncFailedError]


def synced_below_a_roll(open_log):
    """Return a log with records, and names, above what is durable."""
    log = open_log()
    log.append(ONE * 3)
    log.flush()
    log.append(ONE * 3)
    log.roll()
    log.append(ONE)
    return log


FAILURES = [fail_a_directory_sync, fail_a_transaction_index_sync]
WHO_WAITS = {
    "flush": lambda log, _scheduler: log.flush(),
    "append": lambda log, _scheduler: log._flusher.wait_until_durable(
        log.log_end_offset, log._local_log.generation
    ),
    "timer": lambda log, _scheduler: log._flusher._flush_by_timer(),
    "roll": lambda _log, scheduler: scheduler.run(3600),
}
WAITING = {"flush", "append"}


@pytest.mark.parametrize("fail", FAILURES)
@pytest.mark.parametrize("who", WHO_WAITS)
def test_nobody_leads_another_round(  # noqa: PLR0913 - its fixtures
    open_log, disk, scheduler, monkeypatch, who, fail
):
    """[DUR-4, DUR-13, DUR-21, DUR-35] D and RP stay, nothing is synced, the waiter is told."""
    log = synced_below_a_roll(open_log)
    flusher = log._flusher
    lead, calls = Flusher._lead_round, []

    def lead_behind_one_that_fails(self, up_to_offset=None):
        if not calls:
            calls.append("other")
            fail(disk, monkeypatch, lambda: lead(self))
            calls.append((disk.effects, disk.calls()))
        return lead(self, up_to_offset)

    if who == "timer":
        flusher._oldest_unsynced_ns = 1
    monkeypatch.setattr(Flusher, "_lead_round", lead_behind_one_that_fails)
    told = in_another_thread(lambda: WHO_WAITS[who](log, scheduler))
    assert calls[1:] == [(disk.effects, disk.calls())]  # nothing after the failure
    assert [type(error) for error in told] == ([FsyncFailedError] if who in WAITING else [])
    assert (log.durable_offset, log.recovery_point) == (3, 3)
    with pytest.raises(LogReadOnlyError):
        log.append(ONE)


def test_a_round_beside_a_sync_that_fails(open_log, monkeypatch):
    """[DUR-13, DUR-35] its own syncs succeeded, perhaps because the other one was told."""
    log = synced_below_a_roll(open_log)
    real = Flusher.sync_names

    def sync_names(self, version=None):
        real(self, version)
        log._failure_mark.poison(FsyncFailedError("the other one"))

    monkeypatch.setattr(Flusher, "sync_names", sync_names)
    with pytest.raises(FsyncFailedError):
        log.flush()
    assert (log.durable_offset, log.recovery_point) == (3, 3)


def test_no_recovery_point_after_a_failure(open_log, disk):
    """[DUR-21, DUR-35] what is durable already is not written down either."""
    log = synced_below_a_roll(open_log)
    log._flusher.flush()
    assert (log.durable_offset, log.recovery_point) == (7, 3)
    log._failure_mark.poison(FsyncFailedError("cannot sync"))
    before = disk.effects
    for write in (
        log._flusher.write_recovery_point,
        lambda: log._flusher.lower_recovery_point(1),
    ):
        with pytest.raises(FsyncFailedError):
            write()
    assert (log.recovery_point, disk.effects) == (3, before)


def test_a_recovery_point_that_cannot_be_written(open_log, disk):
    """[DUR-35] its failure is known before the directory is synced for anything else."""
    log = synced_below_a_roll(open_log)
    log._flusher.flush()
    fail_a_directory_sync(disk, None, log._flusher.write_recovery_point)
    assert isinstance(log._failure_mark.failure, FsyncFailedError)


@pytest.mark.parametrize("cut", [lambda log: log.truncate_to(5), lambda log: log.truncate_to(0)])
def test_a_truncation_beside_a_sync_that_fails(open_log, monkeypatch, cut):
    """[DUR-13, DUR-35] D does not rise to the new log end."""
    log = synced_below_a_roll(open_log)
    before = log.recovery_point
    for name in ("truncate_to", "truncate_fully_and_start_at"):
        real = getattr(LocalLog, name)

        def truncate(self, *arguments, real=real):
            log._failure_mark.poison(FsyncFailedError("beside it"))
            return real(self, *arguments)

        monkeypatch.setattr(LocalLog, name, truncate)
    with pytest.raises(FsyncFailedError):
        cut(log)
    assert log.durable_offset <= 3
    assert log.recovery_point <= before


def test_two_flushes_as_a_broker_does_them(open_log, disk, monkeypatch):
    """[FLU-2, LOC-27, DUR-35] the one that succeeds does not move the recovery point."""
    log = open_log(recovery="kafka")
    log.append(ONE)
    log.flush()
    log.append(ONE)
    log.roll()
    log.append(ONE)
    real, flushes = TransactionIndexes.sync, []

    def sync(self, base_offset):
        if not flushes:
            flushes.append(base_offset)
            fail_a_directory_sync(disk, monkeypatch, log._flusher.flush)
        return real(self, base_offset)

    monkeypatch.setattr(TransactionIndexes, "sync", sync)
    with pytest.raises(FsyncFailedError):
        log.flush()
    assert (log.durable_offset, log.recovery_point) == (1, 1)


def test_writers_beside_a_roll_whose_sync_fails(disk):
    """[DUR-13, DUR-15, DUR-35] nothing is acknowledged after it, whoever waits for whom."""
    for number in range(150):
        log_environment = LogEnvironment(environment=disk)
        options = open_options(durability="sync", segment_ms=None)
        log = open_partition(f"/logs/topic-{number}", options, log_environment)
        log.append(ONE * 3)
        acknowledged, threads = [], []

        def write(log=log, acknowledged=acknowledged) -> None:
            for _ in range(5):
                try:
                    acknowledged.append(log.append(ONE))
                except SegstoreError:
                    return

        disk.fail("sync_directory", 1, errno.EIO)
        with contextlib.suppress(FsyncFailedError):
            log.roll()
        for _ in range(4):
            threads.append(threading.Thread(target=write))
            threads[-1].start()
        for thread in threads:
            thread.join()
        time.sleep(0.001)
        disk.fail("sync_directory", 0, 0)
        assert isinstance(log._failure_mark.failure, FsyncFailedError)
        assert (log.durable_offset, acknowledged) == (3, []), number
        log.close_quietly()


def test_a_directory_whose_sync_failed(disk):
    """[DUR-35] the directory remembers it, whatever the next sync is for; names can be read."""
    directory = Directory("/logs", disk)
    directory.write_file_atomically("a", b"1", FileBarrier.LOG_STATE)
    disk.fail("sync_directory", 1, errno.EIO)
    with pytest.raises(FsyncFailedError) as first:
        directory.write_file_atomically("b", b"2", FileBarrier.LOG_STATE)
    disk.fail("sync_directory", 0, 0)
    assert first.value.os_error == errno.EIO
    before = disk.calls()
    with pytest.raises(FsyncFailedError, match="failed before and is not tried again") as later:
        directory.sync(Barrier.APPENDED_NAMES)
    assert later.value.file.startswith("/logs")
    assert disk.calls() == before
    with pytest.raises(FsyncFailedError, match="failed before and is not tried again"):
        directory.create_file("c", b"3", FileBarrier.CLEAN_MARKER)
    assert directory.read_file("a") == b"1"
    Directory("/logs", disk).sync(
        Barrier.APPENDED_NAMES
    )  # of who opens it anew, and looks what is there
