"""Syncs that fail, that prove too much, or that come too late."""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import logging
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import segstore
from segstore._core import (
    Barrier,
    BatchOptions,
    Directory,
    FileBarrier,
    SimulatedDisk,
    encode_records,
    scan_batches,
)
from segstore.errors import (
    FsyncFailedError,
    IllegalStateError,
    LogReadOnlyError,
    ReadIOError,
    SegstoreError,
    WriteError,
)
from segstore.log import flusher
from segstore.log.durability import sync_failed_before
from segstore.log.failure_mark import FailureMark
from segstore.log.files.checkpoints import SYNC_FAILED_MARK
from segstore.log.files.checksum_sidecar import sidecar_name
from segstore.log.flusher import Flusher
from segstore.log.local.local_log import LocalLog
from segstore.log.local.transaction_index import TransactionIndexes
from segstore.log.log_dir_failure_channel import IO_ERRORS, LogDirFailureChannel
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.manager import current_logs
from segstore.manager.topic_registry import TopicRegistry
from segstore.records.compression import codec_table
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.crash_check import Crash, look
from tests.crash.crash_model import Operation
from tests.crash.crash_script import PATH, START_MS, ManualScheduler, ScriptRunner, Settings
from tests.kits.directory_kit import records
from tests.kits.interrupted_at import InterruptedAt
from tests.kits.log_kit import PATIENCE_SECONDS, lead_rounds_by_layers
from tests.kits.preloaded_library import compiled, environment_with

# ---- failed sync before a clean stop -------------------------------------------------------------
# A handle of Kafka's profile closed cleanly over pages that a failed sync had left behind.


SETTINGS = Settings("none", segment_bytes=100_000)


def closed_over_a_failed_sync() -> SimulatedDisk:
    """Return a disk with a mark, a clean marker, and a recovery point above what is on it."""
    runner = ScriptRunner(SETTINGS, 1)
    runner.do(Operation("append", 2))
    runner.do(Operation("roll"))
    runner.do(Operation("append", 3))
    runner.disk.fail("sync_data", 1, errno.EIO)
    with contextlib.suppress(SegstoreError):
        runner.do(Operation("flush"))
    runner.disk.fail("sync_data", 0, 0)
    runner.abandon()
    disk = Crash(runner.disk.effects, "killed").image(runner.disk)
    scheduler = ManualScheduler()
    log_environment = LogEnvironment(environment=disk, background=lambda *_: scheduler)
    options = open_options(recovery="kafka", state_dir=PATH, durability="none")
    open_partition(PATH, options, log_environment).close()
    return disk


def test_a_mark_outlives_a_clean_stop_of_who_does_not_know_it():
    """[DUR-4, DUR-35, DUR-36] The next safe open reads and writes everything again."""
    disk = closed_over_a_failed_sync()

    with SETTINGS.open(disk) as log:
        assert not log.report.clean
        assert any("is ignored" in warning for warning in log.report.warnings)
        assert log.durable_offset == log.log_end_offset == 5
    assert not Directory(PATH, disk).exists(SYNC_FAILED_MARK)
    after = look(disk.crash_image(fate="lost"), SETTINGS)
    assert after.found.log_end == 5


def test_an_open_that_was_killed_does_not_make_the_recovery_point_right():
    """[DUR-4, DUR-35, DUR-36] It took the clean marker away, and the next one believed the rest."""
    disk = closed_over_a_failed_sync()
    before = disk.effects
    SETTINGS.open(disk).close_quietly()
    were_marked = set()
    for effects in range(before, disk.effects + 1):
        killed = Crash(effects, "killed").image(disk)
        were_marked.add(is_marked := Directory(PATH, killed).exists(SYNC_FAILED_MARK))
        with SETTINGS.open(killed) as log:
            assert len(sizes := [segment.size_bytes for segment in log.segments()]) == 2
            assert not is_marked or log.report.rewritten_bytes == sum(sizes), effects
            assert log.durable_offset == log.log_end_offset == 5, effects
        assert look(killed.crash_image(fate="lost"), SETTINGS).found.log_end == 5, effects
    assert were_marked == {True, False}


# ---- failed sync that is not told ----------------------------------------------------------------
# A sync failed, and a signal came before anybody could note it: the log went on writing.
#
# The next sync of the same file succeeds, and proves nothing of what the first one lost. Files of
# names and the active segment were marked by the core already; sealed segments and transaction
# indexes were not.


ONE_BEFORE_THE_SIGNAL = [(None, b"x")]


@pytest.fixture
def interrupted_report(monkeypatch):
    """Let Control-C come when a failure is about to be noted, once."""
    real, came = FailureMark.poison, []

    def poison(self, error):
        if not came:
            came.append(error)
            raise KeyboardInterrupt
        real(self, error)

    monkeypatch.setattr(FailureMark, "poison", poison)
    return came


def require_read_only(log, came):
    assert came
    for _ in range(2):
        with pytest.raises(LogReadOnlyError):
            log.append(ONE_BEFORE_THE_SIGNAL)
    log.close_quietly()


def fail_sync_of(disk, ending):
    def watch(call: str, name: str) -> None:
        if call.startswith("sync"):
            disk.fail(call, 1 if name.endswith(ending) else 0, errno.EIO)

    disk.watch(watch)


def test_of_a_sealed_segment(interrupted_report):
    """[DUR-35, DUR-38, DUR-70]"""
    disk = new_disk()
    log = open_log(disk, durability="none")
    log.append(ONE_BEFORE_THE_SIGNAL)
    log.roll()
    log.append(ONE_BEFORE_THE_SIGNAL)
    fail_sync_of(disk, ".log")
    with pytest.raises(KeyboardInterrupt):
        log.flush()
    disk.watch(None)

    require_read_only(log, interrupted_report)


def test_of_records_that_the_lane_syncs(interrupted_report):
    """[DUR-35, DUR-38, DUR-70]"""
    disk = new_disk()
    log = open_log(disk, durability="sync")
    for _ in range(3):
        log.append(ONE_BEFORE_THE_SIGNAL)
    assert log._lane_switch.lane.is_armed
    fail_sync_of(disk, ".log")
    with pytest.raises(KeyboardInterrupt):
        log.append(ONE_BEFORE_THE_SIGNAL)
    disk.watch(None)

    require_read_only(log, interrupted_report)


def test_of_a_transaction_index(interrupted_report):
    """[DUR-35, DUR-38, DUR-70]"""
    runner = ScriptRunner(Settings("none", segment_bytes=100_000))
    for operation in (("transactional", 1), ("abort", 1), ("append", 1)):
        runner.do(Operation(*operation))
    log = runner._log
    fail_sync_of(runner.disk, ".txnindex")
    with pytest.raises(KeyboardInterrupt):
        log.flush()
    runner.disk.watch(None)

    require_read_only(log, interrupted_report)


@pytest.mark.parametrize("call", ["truncate", "sync_file"])
def test_the_core_marks_it_whichever_call_it_was(call):
    """[DUR-32, DUR-35] A cut, or the roll-back of an append: the layers come behind it."""
    disk = new_disk()
    log = open_log(disk, durability="none")
    for _ in range(2):
        log.append(ONE_BEFORE_THE_SIGNAL)
    active = log._local_log.segments.active_segment
    disk.fail(call, 1, errno.EIO)
    if call == "sync_file":
        with pytest.raises(FsyncFailedError):
            active.truncate_to(1)
    else:
        disk.fail("write_at", 1, errno.EIO)
        with pytest.raises(WriteError):
            active.append(records(2, 3), scan_batches(records(2, 3))[0])

    assert log._local_log.directory.sync_failed
    log.close_quietly()


# ---- failures that reach the directory -----------------------------------------------------------
# I/O errors that the logs beside a broken one did not hear of, or heard of too slowly [LOC-27].
#
# In a close, behind its first flush, and in the open of a log; behind a handler of `logging` that
# raised. And each open looked at every log that had been opened before.


ONE_OF_TWO_LOGS = [(None, b"v")]
CALLS = ["sync_data", "sync_file", "sync_directory", "rename", "close", "unlink"]
PROFILES = ["safe", "kafka"]


def two_logs(disk: SimulatedDisk, failures: LogDirFailureChannel, recovery: str = "safe"):
    Directory("/", disk).make_directory("logs")
    log_environment = LogEnvironment(environment=disk, failures=failures)
    options = open_options(recovery=recovery, durability="none", segment_ms=None)
    logs = [
        open_partition(f"/logs/topic-{number}", options, log_environment) for number in range(2)
    ]
    for log in logs:
        log.append(ONE_OF_TWO_LOGS)
    return logs


@pytest.mark.parametrize("recovery", PROFILES)
@pytest.mark.parametrize("call", CALLS)
def test_an_io_error_in_a_close(call, recovery):
    """[LOC-2, LOC-27, DUR-24, DUR-35] whichever call it was, the other is not called clean."""
    seen = 0
    for number in range(1, 20):
        disk, failures = SimulatedDisk(), LogDirFailureChannel()
        broken, other = two_logs(disk, failures, recovery)
        disk.fail(call, number, errno.EIO)
        try:
            broken.close()
        except IO_ERRORS as error:
            first = error
        else:
            other.close_quietly()
            break
        disk.fail(call, 0, 0)
        seen += 1
        assert failures.has_offline_log_dir("/logs"), number
        with pytest.raises(LogReadOnlyError) as refused:
            other.close()
        assert refused.value.__cause__ is first
        assert not Directory("/logs/topic-1", disk).exists(".kafka_cleanshutdown")
    assert number < 19
    assert seen > 0 or call in {"sync_file", "unlink"} or recovery == "kafka"


def test_a_failure_of_another_log_in_the_midst_of_a_close(monkeypatch):
    """[LOC-27, DUR-24] there is no clean marker behind it."""
    disk, failures = SimulatedDisk(), LogDirFailureChannel()
    closing, other = two_logs(disk, failures)
    end = closing._flusher.end

    def end_beside_a_failure() -> None:
        other._failure_mark.poison(FsyncFailedError("cannot sync"))
        end()

    monkeypatch.setattr(closing._flusher, "end", end_beside_a_failure)
    with pytest.raises(LogReadOnlyError):
        closing.close()
    assert not Directory("/logs/topic-0", disk).exists(".kafka_cleanshutdown")
    other.close_quietly()


@pytest.fixture
def manager(tmp_path):
    with segstore.open_dir(tmp_path, durability="none") as made:
        made.create_topic("topic", 2)
        made.append("topic", ONE_OF_TWO_LOGS, partition=0)
        made.append("topic", ONE_OF_TWO_LOGS, partition=1)
    return tmp_path


def let_opens_fail(monkeypatch, error: SegstoreError) -> None:
    real = current_logs.open_partition

    def open_one(path, *arguments):
        if path.endswith("topic-1"):
            raise error
        return real(path, *arguments)

    monkeypatch.setattr(current_logs, "open_partition", open_one)


@pytest.mark.parametrize("error", [FsyncFailedError("cannot sync"), ReadIOError("cannot read")])
def test_an_io_error_in_an_open(manager, monkeypatch, error):
    """[LOC-2, LOC-27, DUR-24] it ends writing in all logs of the directory."""
    let_opens_fail(monkeypatch, error)
    again = segstore.open_dir(manager, durability="none")
    log = again.log("topic", 0)
    with pytest.raises(type(error)):
        again.log("topic", 1)
    with pytest.raises(LogReadOnlyError) as refused:
        log.append(ONE_OF_TWO_LOGS)
    assert refused.value.__cause__ is error
    with pytest.raises(LogReadOnlyError):
        again.close()
    assert not (manager / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("recovery", PROFILES)
def test_a_log_that_was_not_open_when_the_directory_failed(manager, recovery):
    """[LOC-27, DUR-38] it is read all the same; every change is refused, and the cause is told."""
    error = FsyncFailedError("cannot sync")
    again = segstore.open_dir(manager, durability="none", recovery=recovery)
    again.log("topic", 0)._failure_mark.poison(error)
    log = again.log("topic", 1)
    assert log is again.log("topic", 1)
    assert [record.value for record in log.scan()] == [b"v"]
    assert log.report.clean
    for change in (
        lambda: log.append(ONE_OF_TWO_LOGS),
        log.roll,
        lambda: log.truncate_to(0),
        lambda: again.append("topic", ONE_OF_TWO_LOGS, partition=1),
    ):
        with pytest.raises(LogReadOnlyError, match="cannot sync") as refused:
            change()
        assert refused.value.__cause__ is error
    with pytest.raises(LogReadOnlyError):
        again.close()
    assert log.closed
    assert not (manager / ".kafka_cleanshutdown").exists()


def test_a_log_that_could_not_be_opened_is_read(manager, monkeypatch):
    """[LOC-27] whatever its open has left."""
    error = FsyncFailedError("cannot sync")
    let_opens_fail(monkeypatch, error)
    again = segstore.open_dir(manager, durability="none")
    with pytest.raises(FsyncFailedError):
        again.log("topic", 1)
    monkeypatch.undo()
    assert [record.value for record in again.log("topic", 1).scan()] == [b"v"]
    with pytest.raises(LogReadOnlyError) as refused:
        again.close()
    assert refused.value.__cause__ is error


def test_a_directory_that_failed_before_a_log_was_open(manager, monkeypatch):
    """[LOC-27, DUR-24, DUR-39] no marker says that it was left well, and the close tells."""
    error = FsyncFailedError("cannot sync")

    def create(*_):
        raise error

    monkeypatch.setattr(TopicRegistry, "create", create)
    again = segstore.open_dir(manager, durability="none")
    with pytest.raises(FsyncFailedError):
        again.create_topic("other")
    with pytest.raises(LogReadOnlyError) as refused:
        again.close()
    assert refused.value.__cause__ is error
    assert not (manager / ".kafka_cleanshutdown").exists()


def test_an_io_error_in_an_open_for_reading(manager, monkeypatch):
    """[LOC-27] a manager that only reads ends nothing."""
    let_opens_fail(monkeypatch, ReadIOError("cannot read"))
    with segstore.open_dir(manager, read_only=True) as reading:
        with pytest.raises(ReadIOError):
            reading.log("topic", 1)
        assert [record.value for record in reading.log("topic", 0).scan()] == [b"v"]


class Raising(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise KeyboardInterrupt(record.getMessage())


@pytest.fixture
def raising():
    handler = Raising()
    logger = logging.getLogger("segstore")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)


@pytest.mark.usefixtures("raising")
def test_a_handler_that_raises():
    """[LOC-27, DUR-38] all logs take no changes all the same."""
    disk, failures = SimulatedDisk(), LogDirFailureChannel()
    broken, other = two_logs(disk, failures)
    disk.fail("sync_data", 1, errno.EIO)
    with pytest.raises(KeyboardInterrupt):
        broken.flush()
    assert failures.has_offline_log_dir("/logs")
    for log in (broken, other):
        with pytest.raises(LogReadOnlyError):
            log.append(ONE_OF_TWO_LOGS)
        log.close_quietly()


class Watching:
    def __init__(self, interrupted: int = 0) -> None:
        self.errors: list[BaseException] = []
        self._interrupted = interrupted

    def poison(self, error: BaseException) -> None:
        if self._interrupted:
            self._interrupted -= 1
            raise KeyboardInterrupt
        self.errors.append(error)


def test_an_interrupt_while_the_others_are_told():
    """[LOC-27] there is no second mark that would tell the rest."""
    failures, error = LogDirFailureChannel(), FsyncFailedError("1")
    watching = [Watching(number == 3) for number in range(8)]
    for one in watching:
        failures.watch("/a", one)
    with pytest.raises(KeyboardInterrupt):
        failures.maybe_add_offline_log_dir("/a", error)
    assert all(error in one.errors for one in watching)
    assert failures.has_offline_log_dir("/a")


def calls_to_watch(failures: LogDirFailureChannel, watching: list[Watching]) -> int:
    """Count calls and resumed iterations of Python and of C while logs are added.

    The collector is off: the finalizers of what other tests left are no calls of `watch`.
    """
    events: list[str] = []
    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(lambda _frame, event, _argument: events.append(event))
    try:
        for one in watching:
            failures.watch("/a", one)
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return len(events)


def test_watching_is_linear():
    """[LOC-27] The last of many logs takes as many calls as the first: it looks at no other."""
    failures, watching = LogDirFailureChannel(), [Watching() for _ in range(2_000)]
    first = calls_to_watch(failures, watching[:100])
    calls_to_watch(failures, watching[100:-100])

    assert calls_to_watch(failures, watching[-100:]) == first


def test_logs_that_are_gone_are_forgotten():
    """[LOC-27] a directory whose logs are opened and closed for ever does not grow."""
    failures, stays = LogDirFailureChannel(), Watching()
    failures.watch("/a", stays)
    for _ in range(100):
        failures.watch("/a", Watching())
    gc.collect()
    assert list(failures._watching["/a"]) == [stays]


def test_a_failure_within_the_open_of_another_log_marks_the_directory():
    """[LOC-27, DUR-70] Of a signal's handler, or a finalizer, that appends in its midst."""
    disk, failures = SimulatedDisk(), LogDirFailureChannel()
    broken, neighbour = two_logs(disk, failures)
    disk.fail("sync_data", 1, errno.EIO)
    with failures._lock, pytest.raises(FsyncFailedError):
        broken.flush()

    assert failures.has_offline_log_dir("/logs")
    for log in (broken, neighbour):
        with pytest.raises(LogReadOnlyError):
            log.append(ONE_OF_TWO_LOGS)
        log.close_quietly()


# ---- first cause of a failed sync ----------------------------------------------------------------
# An append between a sync that failed and its report made what it met the log's failure.
#
# That is no I/O error: the log directory stayed online, and other logs on the disk went on.


PATIENCE_FOR_A_REPORT_SECONDS = 20


@pytest.fixture
def opened():
    """Two durable logs of one directory, with three records each."""
    disk, failures = SimulatedDisk(), LogDirFailureChannel()
    Directory("/data", disk, create=True)
    where = LogEnvironment(environment=disk, failures=failures)
    logs = [
        open_partition(f"/data/{name}", open_options(durability="sync"), where)
        for name in ("topic-0", "other-0")
    ]
    for log in logs:
        for _ in range(3):
            log.append([(None, b"x")])
    yield disk, failures, *logs
    for log in logs:
        log.close_quietly()


def test_the_log_directory_hears_of_the_sync(opened, monkeypatch):
    """[DUR-35, DUR-38, LOC-27]"""
    disk, failures, log, _ = opened
    real, met = Flusher._sync_segment, []

    def append_beside():
        try:
            log.append([(None, b"beside")])
        except SegstoreError as error:
            met.append(error)

    def sync_segment(self, segment, *, indexes):
        try:
            real(self, segment, indexes=indexes)
        except SegstoreError:
            beside = threading.Thread(target=append_beside, daemon=True)
            beside.start()
            beside.join(PATIENCE_FOR_A_REPORT_SECONDS)
            raise

    monkeypatch.setattr(Flusher, "_sync_segment", sync_segment)
    lead_rounds_by_layers(monkeypatch)
    disk.fail("sync_data", 1, errno.EIO)
    with pytest.raises(FsyncFailedError):
        log.append([(None, b"c")])
    assert met
    assert isinstance(log._failure_mark.failure, FsyncFailedError)
    assert failures.has_offline_log_dir("/data")


def test_an_interrupted_truncation_is_no_failure_of_the_disk(opened, monkeypatch):
    """[DUR-38, LOC-27] Who waits for a round is told what ended writing: that is no cause."""
    _, failures, log, other = opened
    real, begun, may_end = Flusher._sync_segment, threading.Event(), threading.Event()

    def sync_segment(self, segment, *, indexes):
        begun.set()
        assert may_end.wait(PATIENCE_FOR_A_REPORT_SECONDS)
        real(self, segment, indexes=indexes)

    def interrupted(*_):
        raise KeyboardInterrupt

    told = []

    def append():
        try:
            log.append([(None, b"waits")])
        except SegstoreError as error:
            told.append(error)

    with monkeypatch.context() as patched:
        patched.setattr(Flusher, "_sync_segment", sync_segment)
        lead_rounds_by_layers(patched)
        waiting = threading.Thread(target=append)
        waiting.start()
        assert begun.wait(PATIENCE_FOR_A_REPORT_SECONDS)
        patched.setattr(LocalLog, "truncate_to", interrupted)
        may_end.set()
        with pytest.raises(KeyboardInterrupt):
            log.truncate_to(1)
        waiting.join(PATIENCE_FOR_A_REPORT_SECONDS)
    assert not failures.has_offline_log_dir("/data")
    assert isinstance(log._failure_mark.failure, IllegalStateError)
    assert other.append([(None, b"goes on")]).durable_offset == 4


def test_what_is_told_again_is_no_cause(opened):
    """[DUR-35, LOC-27] Nothing of the disk has failed: the other logs of the directory go on."""
    _, failures, log, other = opened
    met = IllegalStateError("the log ends where nobody left it")
    log._failure_mark.poison(met)
    log._failure_mark.poison(sync_failed_before(met, log.path))
    assert log._failure_mark.failure is met
    assert not failures.has_offline_log_dir("/data")
    assert other.append([(None, b"goes on")]).durable_offset == 4


# ---- interrupt behind a failed sync --------------------------------------------------------------
# Control-C between a sync of names that failed and the mark that it leaves on the log.
#
# The log stayed writable: an append was called durable, and the names of the files that its epoch
# had been written to were not.


EIO = 5


@contextlib.contextmanager
def interrupted_behind(*_):
    """Stand for `FailureMark.poisoned_by` that is interrupted before it has heard of the error."""
    try:
        yield
    except FsyncFailedError:
        raise KeyboardInterrupt from None


def test_a_log_takes_no_changes_behind_a_failed_sync_that_was_interrupted(monkeypatch):
    """[DUR-12, DUR-35] The directory remembers it."""
    disk = SimulatedDisk()
    disk.wall_clock_ms = START_MS
    log = Settings(durability="sync").open(disk)
    log.append([(None, b"x")])
    batch = encode_records([(None, b"y")], BatchOptions(), codec_table(), START_MS, 10_000)
    disk.fail("sync_directory", 1, EIO)
    with monkeypatch.context() as patched:
        patched.setattr(log._failure_mark, "poisoned_by", interrupted_behind)
        with pytest.raises(KeyboardInterrupt):
            log.append_as_leader(bytes(memoryview(batch)), 5)
    disk.fail("sync_directory", 0, EIO)

    with pytest.raises(LogReadOnlyError):
        log.append([(None, b"z")])
    assert isinstance(log._failure_mark.failure, FsyncFailedError)
    with pytest.raises(LogReadOnlyError):
        log.flush()
    with pytest.raises(LogReadOnlyError):
        log.close()


# ---- interrupts while a directory is marked ------------------------------------------------------
# Control-C while a failed log marked its directory left the logs beside it writable, for good.
#
# Behind the mark, and before the others were told, a second failure returned at once: the directory
# bore its mark already, or the log its own.


STEPS = [
    LogDirFailureChannel.maybe_add_offline_log_dir,
    LogDirFailureChannel._notify,
    LogDirFailureChannel._watched,
    FailureMark.poison,
    FailureMark._end_writing,
    FailureMark._notify_directory,
    FailureMark._error_of_directory,
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__qualname__)
def test_an_interrupt_before_any_instruction(step):
    """[LOC-27, DUR-38] The next who asks the failed log lets the others know, at the latest."""
    for nth in range(1, 1000):
        disk, failures = SimulatedDisk(), LogDirFailureChannel()
        broken, neighbour = two_logs(disk, failures)
        disk.fail("sync_data", 1, errno.EIO)
        with InterruptedAt(step, nth) as interrupt, pytest.raises(BaseException) as raised:
            broken.flush()
        assert isinstance(raised.value, KeyboardInterrupt if interrupt.came else FsyncFailedError)
        with pytest.raises(SegstoreError):  # it may have come before anything has failed
            broken.flush()
        for log in (broken, neighbour):
            with pytest.raises(LogReadOnlyError):
                log.append(ONE_OF_TWO_LOGS)
            log.close_quietly()
        assert failures.has_offline_log_dir("/logs")
        if not interrupt.came:
            break
    assert nth > 3


class OftenInterrupted(dict):
    def setdefault(self, key, value):
        super().setdefault(key, value)
        raise KeyboardInterrupt  # a signal's handler, behind the call


def test_an_interrupt_behind_the_mark_of_the_directory():
    """[LOC-27] The others hear of it all the same, and nobody has to ask the failed log."""
    disk, failures = SimulatedDisk(), LogDirFailureChannel()
    failures._offline = OftenInterrupted()
    broken, neighbour = two_logs(disk, failures)
    disk.fail("sync_data", 1, errno.EIO)
    with pytest.raises(KeyboardInterrupt):
        broken.flush()

    for log in (neighbour, broken):
        with pytest.raises(LogReadOnlyError):
            log.append(ONE_OF_TWO_LOGS)
        log.close_quietly()


def test_a_log_finds_the_mark_of_its_directory():
    """[LOC-27, DUR-38] Where nobody came to tell it: no close of it is clean."""
    disk, failures = SimulatedDisk(), LogDirFailureChannel()
    broken, neighbour = two_logs(disk, failures)
    error = FsyncFailedError("cannot sync")
    failures._offline["/logs"] = error
    for change in (neighbour.flush, neighbour.roll, neighbour.close):
        with pytest.raises(LogReadOnlyError) as refused:
            change()
        assert refused.value.__cause__ is error
    for log in (broken, neighbour):
        log.close_quietly()


# ---- round behind a failed sync ------------------------------------------------------------------
# Who had waited for a round that failed led the next one, and its sync proved too much.
#
# The kernel tells of an error once: the second sync of a directory, or of a list of aborted
# transactions, succeeds though the names or bytes of before may be lost.


PATH_OF_THE_ROUNDS = "/logs/topic-0"


@pytest.fixture
def disk():
    made = SimulatedDisk()
    Directory("/", made).make_directory("logs")
    return made


@pytest.fixture
def scheduler():
    return ManualScheduler()


@pytest.fixture
def open_log_of_rounds(disk, scheduler):
    opened = []

    def open_with(**settings):
        log_environment = LogEnvironment(environment=disk, background=lambda *_: scheduler)
        options = open_options(**{"durability": "none", "segment_ms": None, **settings})
        opened.append(open_partition(PATH_OF_THE_ROUNDS, options, log_environment))
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
    log.append(ONE_OF_TWO_LOGS * 3)
    log.flush()
    log.append(ONE_OF_TWO_LOGS * 3)
    log.roll()
    log.append(ONE_OF_TWO_LOGS)
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
    open_log_of_rounds, disk, scheduler, monkeypatch, who, fail
):
    """[DUR-4, DUR-13, DUR-21, DUR-35] D and RP stay, nothing is synced, the waiter is told."""
    log = synced_below_a_roll(open_log_of_rounds)
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
        log.append(ONE_OF_TWO_LOGS)


def test_a_round_beside_a_sync_that_fails(open_log_of_rounds, monkeypatch):
    """[DUR-13, DUR-35] its own syncs succeeded, perhaps because the other one was told."""
    log = synced_below_a_roll(open_log_of_rounds)
    real = Flusher.sync_names

    def sync_names(self, version=None):
        real(self, version)
        log._failure_mark.poison(FsyncFailedError("the other one"))

    monkeypatch.setattr(Flusher, "sync_names", sync_names)
    with pytest.raises(FsyncFailedError):
        log.flush()
    assert (log.durable_offset, log.recovery_point) == (3, 3)


def test_no_recovery_point_after_a_failure(open_log_of_rounds, disk):
    """[DUR-21, DUR-35] what is durable already is not written down either."""
    log = synced_below_a_roll(open_log_of_rounds)
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


def test_a_recovery_point_that_cannot_be_written(open_log_of_rounds, disk):
    """[DUR-35] its failure is known before the directory is synced for anything else."""
    log = synced_below_a_roll(open_log_of_rounds)
    log._flusher.flush()
    fail_a_directory_sync(disk, None, log._flusher.write_recovery_point)
    assert isinstance(log._failure_mark.failure, FsyncFailedError)


@pytest.mark.parametrize("cut", [lambda log: log.truncate_to(5), lambda log: log.truncate_to(0)])
def test_a_truncation_beside_a_sync_that_fails(open_log_of_rounds, monkeypatch, cut):
    """[DUR-13, DUR-35] D does not rise to the new log end."""
    log = synced_below_a_roll(open_log_of_rounds)
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


def test_two_flushes_as_a_broker_does_them(open_log_of_rounds, disk, monkeypatch):
    """[FLU-2, LOC-27, DUR-35] the one that succeeds does not move the recovery point."""
    log = open_log_of_rounds(recovery="kafka")
    log.append(ONE_OF_TWO_LOGS)
    log.flush()
    log.append(ONE_OF_TWO_LOGS)
    log.roll()
    log.append(ONE_OF_TWO_LOGS)
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
        log.append(ONE_OF_TWO_LOGS * 3)
        acknowledged, threads = [], []

        def write(log=log, acknowledged=acknowledged) -> None:
            for _ in range(5):
                try:
                    acknowledged.append(log.append(ONE_OF_TWO_LOGS))
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


# ---- roll within a round -------------------------------------------------------------------------
# A roll and an append by the layers, in the midst of a round that the layers lead for the lane.
#
# The lane is armed anew behind them: its next round may not take for settled what came meanwhile,
# or it would sync its own segment alone and tell of records that lie unsynced in the one before.


def held_once(real):
    """Return a stand-in that waits in its first call behind *real*, and the two events of that."""
    begun, may_end, calls = threading.Event(), threading.Event(), []

    def hold(*arguments, **options):
        real(*arguments, **options)
        calls.append(1)
        if len(calls) == 1:
            begun.set()
            assert may_end.wait(PATIENCE_SECONDS)

    return hold, begun, may_end


def test_what_was_acknowledged_is_durable(monkeypatch):
    """[DUR-1, DUR-13, DUR-15]"""
    disk = new_disk()
    log = open_log(disk, durability="sync")
    flusher = log._flusher
    monkeypatch.setattr(flusher, "segment_was_sealed", lambda *_: None)  # the background is late
    log.append(ONE_BEFORE_THE_SIGNAL)
    hold_sync, syncs, may_sync = held_once(flusher._sync_segment)
    monkeypatch.setattr(flusher, "_sync_segment", hold_sync)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(log.append, ONE_BEFORE_THE_SIGNAL)
        assert syncs.wait(PATIENCE_SECONDS)
        log.roll()
        hold_wait, waits, may_wait = held_once(lambda *_: None)
        real = flusher.sync_if_due

        def late(*arguments):
            hold_wait()
            real(*arguments)

        monkeypatch.setattr(flusher, "sync_if_due", late)
        second = threads.submit(log.append, iter(ONE_BEFORE_THE_SIGNAL))
        assert waits.wait(PATIENCE_SECONDS)
        monkeypatch.setattr(flusher, "sync_if_due", real)
        may_sync.set()
        first.result(PATIENCE_SECONDS)
        third = log.append(ONE_BEFORE_THE_SIGNAL)
        may_wait.set()
        second.result(PATIENCE_SECONDS)

    assert (third.last_offset, third.durable_offset) == (3, 4)
    with open_log(disk.crash_image(fate="lost")) as found:
        assert found.log_end_offset == 4
    log.close_quietly()


# ---- window behind a rewrite ---------------------------------------------------------------------
# The first append behind an unclean stop wrote again what that had left, and was counted as late.
#
# The window of the timed sync began before that rewrite: the appends right behind a slow one were
# refused, though nothing of theirs waited for a sync.


SECOND = 1_000_000_000


def test_a_slow_rewrite_is_no_late_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """[DUR-14, DUR-36] The window begins behind it, and ends as ever."""
    path = tmp_path / "orders-0"
    log = segstore.open(path, durability="none")
    log.append(ONE_BEFORE_THE_SIGNAL * 5)
    log.close_quietly()
    clock = SimpleNamespace(now=SECOND, rewrites=0)
    rewrite_from = flusher.rewrite_from

    def slow_rewrite(*arguments: Any) -> None:
        rewrite_from(*arguments)
        clock.now += 201 * SECOND
        clock.rewrites += 1

    monkeypatch.setattr(flusher, "rewrite_from", slow_rewrite)
    monkeypatch.setattr(flusher, "_core", SimpleNamespace(monotonic_ns=lambda: clock.now))
    with segstore.open(path, durability="seconds=100") as log:
        assert [log.append(ONE_BEFORE_THE_SIGNAL).base_offset for _ in range(3)] == [5, 6, 7]
        assert clock.rewrites == 1
        clock.now += 201 * SECOND
        with pytest.raises(WriteError, match="every 100 s"):
            log.append(ONE_BEFORE_THE_SIGNAL)


# ---- sidecar beside a roll -----------------------------------------------------------------------
# A roll between the sync of a log and the look at what was sealed, by another thread.
#
# The segment that it sealed got a durable checksum sidecar, and its own bytes were in the cache of
# the kernel: behind a power cut a good log was called damaged.


def test_a_segment_that_is_sealed_behind_the_sync_gets_no_sidecar_yet(monkeypatch):
    """[DUR-60] It comes when all of it is on stable storage."""
    disk = SimulatedDisk()
    disk.wall_clock_ms = START_MS
    log = Settings().open(disk)
    log.append([(None, b"a")] * 3)
    log.roll()
    log.append([(None, b"b")] * 3)
    real = log._flusher.flush

    def flush():
        durable_offset = real()
        log.append([(None, b"c" * 100)] * 3)
        log.roll()
        log.append([(None, b"d")])
        return durable_offset

    with monkeypatch.context() as patched:
        patched.setattr(log._flusher, "flush", flush)
        assert log.write_checksum_sidecars().written == 1

    directory = Directory(PATH, disk.crash_image(fate="lost"))
    assert directory.exists(sidecar_name(0))
    assert not directory.exists(sidecar_name(3))
    assert log.write_checksum_sidecars() == (1, 1, [])
    log.close()
    with Settings().open(disk.crash_image(fate="lost")) as again:
        assert again.verify().ok
        assert again.log_end_offset == 10


# ---- recovery point taken back -------------------------------------------------------------------
# A sync that began earlier wrote its recovery point behind that of a later one.


def recovery_point(log: segstore.UnifiedLog) -> int:
    line = (Path(log.path) / "recovery-point-offset-checkpoint").read_text().splitlines()[2]
    return int(line.split()[2])


def test_the_recovery_point_on_disk_only_rises_between_truncations(tmp_path, monkeypatch):
    """[DUR-16, DUR-21] else the loss of what was synced goes unnoticed."""
    with segstore.open(tmp_path / "t-0") as log:
        log.append([(None, b"a")])
        log.roll()
        log.append([(None, b"b")])
        flusher = log._flusher
        sync_names = Flusher.sync_names

        def sync_beside_another(self, version):
            monkeypatch.undo()
            log.append([(None, b"c")])
            flusher.write_recovery_point()
            sync_names(self, version)

        monkeypatch.setattr(Flusher, "sync_names", sync_beside_another)
        flusher.write_recovery_point()
        assert (recovery_point(log), log.durable_offset) == (3, 3)
        log.truncate_to(1)
        assert recovery_point(log) == 1


# ---- closes beside a sync of the pool ------------------------------------------------------------
# A close that waited for a sync of the descriptor pool held the GIL: all threads stood still.
#
# Looked for of this kind: every call of the environment under the GIL. They were the closes of a
# segment that is dropped, of a directory, of a small file that was read and of a data file; the
# close of an index file was another one. And a close waited for the sync of its directory, which it
# needs for nothing: see tests/c/test_descriptor_pool.c.


REPLACES_A_CALL_OF_LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="replaces a call of Linux"
)
HERE = Path(__file__).parent
SYNC_MS = 1000
CODE = """
import ctypes, gc, json, sys, threading, time, segstore
from segstore import _core

path, library, what, delay = sys.argv[1:]
slow_syncs = ctypes.CDLL(library).slow_syncs
log = segstore.open(path, durability="none")
log.append([(b"k", b"v")])
log.flush()
directory = _core.Directory(path)
open(path + "/a", "w").close()
file = _core.DataFile(directory, "a")
if what == "a directory":
    directory.make_file("x")
elif what == "a data file":
    file.write(0, b"x")
elif what == "a log":
    log.append([(b"k", b"v")])

slow_syncs(int(delay))
syncing = threading.Thread(target=_core.limit_descriptors, args=(1,))
syncing.start()
time.sleep(0.2)  # it is in its sync
ticks, done = [], threading.Event()

def tick():
    while not done.is_set():
        ticks.append(time.monotonic())
        time.sleep(0.001)

ticking = threading.Thread(target=tick)
ticking.start()
time.sleep(0.05)
began = time.monotonic()
if what == "a directory":
    directory.close()
    del file, directory
elif what == "a data file":
    file.close()
else:
    del log
    gc.collect()
ended = time.monotonic()
done.set()
ticking.join()
slow_syncs(0)
syncing.join()
print(json.dumps({"took": ended - began, "ticks": sum(began < at < ended for at in ticks)}))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``slow_sync.c``, compiled."""
    return compiled(HERE / "slow_sync.c", tmp_path_factory.mktemp("slow"))


@REPLACES_A_CALL_OF_LINUX
@pytest.mark.parametrize("what", ["a directory", "a data file", "a log"])
def test_other_threads_go_on_while_a_close_waits(library, tmp_path, what):
    """The close waits for the sync, for most of a second, and another thread works meanwhile."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "t-0"), str(library), what, str(SYNC_MS)],
        capture_output=True, text=True, check=False, timeout=300,
        env=environment_with(library),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["took"] > SYNC_MS / 4000  # it did wait
    assert answer["ticks"] > 10


def test_what_follows_a_roll_at_once_is_synced_in_time_too(tmp_path):
    """[DUR-14, FLU-4] The sync of the sealed segment ends below it, and is not its own."""
    with segstore.open(tmp_path / "t-0", durability="none", flush_ms=20) as log:
        for _ in range(5):
            log.append([(None, b"before")])
            log.roll()
            log.append([(None, b"behind")])
            give_up = time.monotonic() + 20
            while log.durable_offset < log.log_end_offset:
                assert time.monotonic() < give_up, "nothing synced it"
                time.sleep(0.005)
