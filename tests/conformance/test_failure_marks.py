"""What an I/O error makes of a log, of what was asked, and of the logs beside it [LOC-2, LOC-27].

Kafka marks the directory of all logs, by its path and for the life of the process. Here each log
bears its own mark, for as long as it is open [DUR-38].
"""

from __future__ import annotations

import errno
import logging

import pytest

from segstore._core import Directory, SimulatedDisk
from segstore.errors import (
    FsyncFailedError,
    IllegalArgumentError,
    LogReadOnlyError,
    UnexpectedAppendOffsetError,
)
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.log.surroundings import Surroundings
from segstore.records.error_mapping import ErrorCode, code_for
from tests.log_kit import at, offsets

PROFILES = ["safe", "kafka"]


@pytest.fixture
def disk() -> SimulatedDisk:
    made = SimulatedDisk()
    Directory("/", made).make_directory("logs")
    return made


@pytest.fixture(params=PROFILES)
def open_log(request, disk):
    """Open ``/logs/<name>``."""
    opened = []

    def open_named(name: str):
        options = open_options(recovery=request.param, durability="none", segment_ms=None)
        log = open_partition(f"/logs/{name}", options, Surroundings(environment=disk))
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
    before = disk.effects, disk.calls()
    for change in changes(log):
        with pytest.raises(LogReadOnlyError) as later:
            change()
        assert later.value.__cause__ is first.value
        assert code_for(later.value) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (disk.effects, disk.calls()) == before
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


def test_the_logs_beside_it_go_on(open_log, disk):
    """[LOC-27] and so does the log itself, when it is opened again: the mark is the handle's."""
    marked, other = open_log("topic-0"), open_log("topic-1")
    for log in (marked, other):
        log.append([(None, b"v")])
    disk.fail("sync_data", 1, errno.EIO)
    disk.fail("sync_file", 1, errno.EIO)
    with pytest.raises(FsyncFailedError):
        marked.flush()
    for call in ("sync_data", "sync_file"):
        disk.fail(call, 0, 0)
    other.append([(None, b"v")])
    other.flush()
    assert (offsets(other), other.durable_offset) == ([0, 1], 2)
    marked.close_quietly()
    again = open_log("topic-0")
    assert again.append([(None, b"v")]).base_offset == again.log_end_offset - 1
