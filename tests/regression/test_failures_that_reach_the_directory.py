"""I/O errors that the logs beside a broken one did not hear of, or heard of too slowly [LOC-27].

In a close, behind its first flush, and in the open of a log; behind a handler of `logging` that
raised. And each open looked at every log that had been opened before.
"""

from __future__ import annotations

import errno
import gc
import logging
import sys

import pytest

import segstore
from segstore._core import Directory, SimulatedDisk
from segstore.errors import FsyncFailedError, LogReadOnlyError, ReadIOError, SegstoreError
from segstore.log.log_dir_failure_channel import IO_ERRORS, LogDirFailureChannel
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.manager import log_manager
from segstore.manager.topic_registry import TopicRegistry

ONE = [(None, b"v")]
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
        log.append(ONE)
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
        made.append("topic", ONE, partition=0)
        made.append("topic", ONE, partition=1)
    return tmp_path


def let_opens_fail(monkeypatch, error: SegstoreError) -> None:
    real = log_manager.open_partition

    def open_one(path, *arguments):
        if path.endswith("topic-1"):
            raise error
        return real(path, *arguments)

    monkeypatch.setattr(log_manager, "open_partition", open_one)


@pytest.mark.parametrize("error", [FsyncFailedError("cannot sync"), ReadIOError("cannot read")])
def test_an_io_error_in_an_open(manager, monkeypatch, error):
    """[LOC-2, LOC-27, DUR-24] it ends writing in all logs of the directory."""
    let_opens_fail(monkeypatch, error)
    again = segstore.open_dir(manager, durability="none")
    log = again.log("topic", 0)
    with pytest.raises(type(error)):
        again.log("topic", 1)
    with pytest.raises(LogReadOnlyError) as refused:
        log.append(ONE)
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
        lambda: log.append(ONE),
        log.roll,
        lambda: log.truncate_to(0),
        lambda: again.append("topic", ONE, partition=1),
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
            log.append(ONE)
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
            log.append(ONE)
        log.close_quietly()
