"""What an I/O error makes of a log, of what was asked, and of the logs beside it [LOC-2, LOC-27].

Kafka marks the directory of all logs, by its path and for the life of the process. Here the mark
is that of a handle [DUR-38]: a log that was opened alone, or a log directory and all its logs.
"""

from __future__ import annotations

import errno
import gc
import logging

import pytest

import segstore
from segstore._core import Directory, SimulatedDisk
from segstore.errors import (
    DiskFullError,
    FsyncFailedError,
    IllegalArgumentError,
    LogReadOnlyError,
    UnexpectedAppendOffsetError,
)
from segstore.log.local.segment import Segment
from segstore.log.log_dir_failure_channel import LogDirFailureChannel
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.records.error_mapping import ErrorCode, code_for
from tests.kits.log_kit import at, offsets

PROFILES = ["safe", "kafka"]


@pytest.fixture
def disk() -> SimulatedDisk:
    made = SimulatedDisk()
    Directory("/", made).make_directory("logs")
    return made


@pytest.fixture(params=PROFILES)
def open_log(request, disk):
    """Open ``/logs/<name>``, alone or as one of a directory."""
    opened = []

    def open_named(name: str, failures: LogDirFailureChannel | None = None):
        options = open_options(recovery=request.param, durability="none", segment_ms=None)
        log_environment = LogEnvironment(environment=disk, failures=failures)
        log = open_partition(f"/logs/{name}", options, log_environment)
        opened.append(log)
        return log

    yield open_named
    for log in opened:
        log.close_quietly()


def changes(log):
    """Every kind of call that changes a log."""
    return [
        lambda: log.append([(None, b"v")]),
        lambda: log.append_as_follower(at(1), 0),
        log.roll,
        log.flush,
        lambda: log.truncate_to(0),
        lambda: log.truncate_fully_and_start_at(5),
        lambda: log.delete_records(1),
        log.delete_old_segments,
        lambda: log.assign_epoch_start_offset(7, 1),
    ]


def test_an_io_error_marks_the_log(open_log, disk, caplog):
    """[LOC-2, LOC-27, CLO-3] once; from then on nothing is tried, and the first error is told."""
    log = open_log("topic-0")
    log.append([(None, b"v")])
    disk.fail("sync_data", 1, errno.EIO)
    disk.fail("sync_file", 1, errno.EIO)
    with caplog.at_level(logging.ERROR), pytest.raises(FsyncFailedError) as first:
        log.flush()
    assert code_for(first.value) is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(caplog.records) == 1
    for call in ("sync_data", "sync_file"):
        disk.fail(call, 0, 0)  # the disk is well again
    check_all_refused(disk, log, first.value)
    assert len(caplog.records) == 1
    assert offsets(log) == [0]  # nobody may write; it can be read


def test_another_error_is_no_mark(open_log):
    """[LOC-2] what the caller did wrong passes through, and the log goes on."""
    log = open_log("topic-0")
    log.append_as_follower(at(5), 0)
    for wrong, error in (
        (lambda: log.append_as_follower(at(2), 0), UnexpectedAppendOffsetError),
        (lambda: log.truncate_to(-1), IllegalArgumentError),
    ):
        with pytest.raises(error):
            wrong()
    for change in changes(log)[:1]:
        change()
    assert offsets(log) == [5, 6]


def check_all_refused(disk, log, cause):
    """Every change raises for *cause*, and nothing is done."""
    before = disk.effects, disk.calls()
    for change in changes(log):
        with pytest.raises(LogReadOnlyError) as later:
            change()
        assert later.value.__cause__ is cause
        assert code_for(later.value) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (disk.effects, disk.calls()) == before


def fail_syncs(disk):
    disk.fail("sync_data", 1, errno.EIO)
    disk.fail("sync_file", 1, errno.EIO)


def be_well(disk):
    for call in ("sync_data", "sync_file"):
        disk.fail(call, 0, 0)


def test_the_mark_of_one_is_that_of_its_directory(open_log, disk, caplog):
    """[LOC-2, LOC-27, RD-2, DUR-38] once; every log of it is refused all changes, and can be read.

    Kafka refuses reads too; a handle that is read-only answers them.
    """
    failures = LogDirFailureChannel()
    marked, other = (open_log(name, failures) for name in ("topic-0", "topic-1"))
    for log in (marked, other):
        log.append([(None, b"v")])
    fail_syncs(disk)
    with caplog.at_level(logging.ERROR), pytest.raises(FsyncFailedError) as first:
        marked.flush()
    be_well(disk)
    told = [record.getMessage() for record in caplog.records]
    assert [text.split(":")[0] for text in told] == [
        "/logs",
        "topic-0 is read-only from here on",
    ]
    check_all_refused(disk, other, first.value)
    assert len(caplog.records) == len(told)
    assert offsets(other) == [0]
    with pytest.raises(LogReadOnlyError):
        other.close()  # without a mark of a clean stop
    assert not Directory("/logs/topic-1", disk).exists(".kafka_cleanshutdown")


def test_a_log_that_is_opened_in_a_marked_directory(open_log, disk):
    """[LOC-27] the mark is never taken away; of another directory nothing is known."""
    failures = LogDirFailureChannel()
    marked = open_log("topic-0", failures)
    marked.append([(None, b"v")])
    fail_syncs(disk)
    with pytest.raises(FsyncFailedError):
        marked.flush()
    be_well(disk)
    later = open_log("topic-1", failures)
    with pytest.raises(LogReadOnlyError):
        later.append([(None, b"v")])
    Directory("/", disk).make_directory("more")
    beside = open_log("../more/topic-1", failures)
    assert beside.append([(None, b"v")]).base_offset == 0


def test_what_marks_no_directory(open_log):
    """[LOC-2, DUR-30, DUR-38] a full disk is not a broken one, nor an interrupted call."""
    failures = LogDirFailureChannel()
    full, interrupted, other = (open_log(f"topic-{number}", failures) for number in range(3))
    for log in (full, interrupted, other):
        log.append([(None, b"v")])
    full._failure_mark.poison(DiskFullError("no space left"))
    interrupted._failure_mark.poison(KeyboardInterrupt())
    assert not failures.has_offline_log_dir("/logs")
    for log in (full, interrupted):
        with pytest.raises(LogReadOnlyError):
            log.append([(None, b"v")])
    assert other.append([(None, b"v")]).base_offset == 1


class Watching:
    def __init__(self):
        self.errors = []

    def poison(self, error):
        self.errors.append(error)


def test_the_failure_channel():
    """[LOC-27] A mark is made once, by path."""
    failures, first, second = LogDirFailureChannel(), FsyncFailedError("1"), FsyncFailedError("2")
    watching, elsewhere, gone = Watching(), Watching(), Watching()
    for log_dir, one in (("/a", watching), ("/b", elsewhere), ("/a", gone)):
        failures.watch(log_dir, one)
    del one, gone
    gc.collect()
    failures.maybe_add_offline_log_dir("/a", first)
    failures.maybe_add_offline_log_dir("/a", second)
    assert failures.has_offline_log_dir("/a")
    assert not failures.has_offline_log_dir("/a/")
    assert (watching.errors, elsewhere.errors) == ([first], [])
    failures.check("/b")
    with pytest.raises(LogReadOnlyError) as refused:
        failures.check("/a")
    assert refused.value.__cause__ is first
    with pytest.raises(FsyncFailedError), failures.guard("/b"):
        raise second
    with pytest.raises(DiskFullError), failures.guard("/c"):
        raise DiskFullError("no space left")
    assert [failures.has_offline_log_dir(one) for one in ("/b", "/c")] == [True, False]


@pytest.mark.parametrize("recovery", PROFILES)
def test_a_log_directory_with_a_log_that_failed(tmp_path, monkeypatch, recovery):
    """[LOC-27, DUR-24, DUR-35] every change in it is refused, and no clean marker is left."""
    real, broken = Segment.flush, "topic-1"

    def flush(segment, barrier, **arguments):
        if broken in segment.path:
            raise FsyncFailedError("the sync failed", file=segment.path, os_error=errno.EIO)
        return real(segment, barrier, **arguments)

    manager = segstore.open_dir(tmp_path, recovery=recovery, durability="none")
    manager.create_topic("topic", 3)
    manager.create_topic("later", 1)
    manager.log("later", 0).close()
    for number in range(3):
        manager.append("topic", [(None, b"v")], partition=number)
    monkeypatch.setattr(Segment, "flush", flush)
    with pytest.raises(FsyncFailedError) as first:
        manager.log("topic", 1).flush()
    monkeypatch.undo()

    for refused in (
        lambda: manager.append("topic", [(None, b"v")], partition=0),
        lambda: manager.append("topic", [(b"k", b"v")]),
        lambda: manager.log("topic", 2).append([(None, b"v")]),
        lambda: manager.create_topic("more"),
        lambda: manager.log("later", 0).append([(None, b"v")]),
    ):
        with pytest.raises(LogReadOnlyError) as later:
            refused()
        assert later.value.__cause__ is first.value
    assert manager.topics() == {"later": [0], "topic": [0, 1, 2]}
    assert [record.value for record in manager.log("topic", 2).read(0)] == [b"v"]
    with pytest.raises(LogReadOnlyError):
        manager.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    with segstore.open_dir(tmp_path, recovery=recovery, durability="none") as again:
        assert [offsets(again.log("topic", number)) for number in range(3)] == [[0]] * 3
        assert again.append("topic", [(None, b"v")], partition=1)[1].base_offset == 1


def test_the_logs_beside_it_go_on(open_log, disk):
    """[LOC-27, DUR-38] each opened alone; and so does the log itself, when it is opened again."""
    marked, other = open_log("topic-0"), open_log("topic-1")
    for log in (marked, other):
        log.append([(None, b"v")])
    fail_syncs(disk)
    with pytest.raises(FsyncFailedError):
        marked.flush()
    be_well(disk)
    other.append([(None, b"v")])
    other.flush()
    assert (offsets(other), other.durable_offset) == ([0, 1], 2)
    marked.close_quietly()
    again = open_log("topic-0")
    assert again.append([(None, b"v")]).base_offset == again.log_end_offset - 1
