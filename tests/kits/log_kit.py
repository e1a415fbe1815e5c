"""Logs for tests, in a folder of their own and closed at the end; batches to put into them."""

from __future__ import annotations

import contextlib
import itertools
import os
import struct
import time
import traceback
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import _core
from segstore._core import BatchOptions, Environment, encode_records
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LOG_STATE,
    RECOVERY_POINT_CHECKPOINT,
    LogState,
)
from segstore.log.flusher import Flusher
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore import UnifiedLog

TIME = 1_700_000_000_000


@pytest.fixture
def new_log(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., UnifiedLog]]:
    """Open ``<tmp_path>/topic-0``, or another path; what is open is closed at the end.

    A test that has the `clock` or the `scheduler` too has logs that go by it.
    """
    log_environment = LogEnvironment()
    if "clock" in request.fixturenames:
        environment = request.getfixturevalue("clock").environment
        log_environment = log_environment._replace(environment=environment)
    if "scheduler" in request.fixturenames:
        scheduler = request.getfixturevalue("scheduler")
        log_environment = log_environment._replace(background=lambda *_: scheduler)
    opened: list[UnifiedLog] = []

    def open_log(path: Path | None = None, **settings: object) -> UnifiedLog:
        options = open_options(**{"durability": "none", "segment_ms": None, **settings})
        opened.append(open_partition(path or tmp_path / "topic-0", options, log_environment))
        return opened[-1]

    yield open_log
    for log in opened:
        with contextlib.suppress(segstore.SegstoreError):
            log.close()


class Clock:
    """The wall clock of logs, in ms; times at which files were modified are real."""

    def __init__(self) -> None:
        self.environment = Environment.with_wall_clock(_core.wall_clock_ms())

    @property
    def now(self) -> int:
        return self.environment.wall_clock_ms

    def sleep(self, milliseconds: int) -> None:
        self.environment.wall_clock_ms += milliseconds


@pytest.fixture
def clock() -> Clock:
    """A clock that moves when the test says so; `new_log` opens logs that go by it."""
    return Clock()


class Scheduler:
    """Runs what a log does later when the test says so; its time is its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.tasks: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def submit(self, task: Callable[[], None], delay_seconds: float = 0.0) -> None:
        self.tasks.append((self.now + delay_seconds, next(self._numbers), task))

    def repeat(
        self, method: Callable[[], None], seconds: float, *, first_seconds: float | None = None
    ) -> None:
        def run() -> None:
            method()
            self.submit(run, seconds)

        self.submit(run, seconds if first_seconds is None else first_seconds)

    def wait_until_idle(self, timeout: float = 10.0) -> bool:
        self.sleep(0)
        return timeout > 0

    def sleep(self, milliseconds: float) -> None:
        """Let time pass, and run what becomes due in its order."""
        end = self.now + milliseconds / 1000
        while due := sorted(one for one in self.tasks if one[0] <= end):
            self.tasks.remove(due[0])
            self.now = max(self.now, due[0][0])
            due[0][2]()
        self.now = end

    def runs_this_thread(self) -> bool:
        """Tasks run where the test says so: nobody waits for them."""
        return False

    def close(self) -> None:
        self.tasks.clear()

    drop = close


@pytest.fixture
def scheduler() -> Scheduler:
    """What `new_log` gives its logs instead of a thread."""
    return Scheduler()


def lead_rounds_by_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No round of syncs is led by the lane: all pass `Flusher._sync_segment`, as a test needs."""
    monkeypatch.setattr(Flusher, "sync_round", lambda self, lane: self._sync_round(lane=lane))


PATIENCE_SECONDS = 20


def wait_for(condition: Callable[[], object]) -> None:
    """Return when *condition* holds, which is asked again and again."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def forked(act: Callable[[], object]) -> int:
    """Return the number of a forked child that ends with 0 when *act* returns, with 1 else."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            act()
            status = 0
        except BaseException:  # noqa: BLE001 - told here: nobody else will hear of it
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def in_a_child(check: Callable[[], object]) -> int:
    """Run *check* in a forked child; its exit status, 1 where it raises."""
    _, status = os.waitpid(forked(check), 0)
    return os.waitstatus_to_exitcode(status)


def two_segments(new_log: Callable[..., UnifiedLog]) -> UnifiedLog:
    """A log with a batch a record: 0 to 5 in its first segment, 6 and 7 in the other."""
    log = new_log(internal_segment_bytes=6 * len(at(0)), index_interval_bytes=0)
    for offset in range(8):
        log.append_as_follower(at(offset), 0)
    return log


def batch(
    records: list[object], *, epoch: int = -1, timestamp: int = TIME, **options: int
) -> bytes:
    """One batch of `(key, value)` or `(timestamp, key, value)`; options as in `BatchOptions`."""
    chosen = BatchOptions(partition_leader_epoch=epoch, **options)
    return bytes(encode_records(records, chosen, codec_table(), timestamp, 2**30))


def singleton(value: bytes = b"value", key: bytes | None = None, **options: int) -> bytes:
    """A batch of one record."""
    return batch([(key, value)], **options)


def at(base_offset: int, count: int = 1, *, epoch: int = 0, value: bytes = b"value") -> bytes:
    """A batch as a follower gets it: with its offsets and its leader epoch."""
    return batch([(None, value)] * count, base_offset=base_offset, epoch=epoch)


def note_being_emptied(path: Path, *, is_being_emptied: bool = True) -> None:
    """Let ``.segstore`` of a partition say what a full truncation says of itself, or not."""
    state = LogState.parse((path / LOG_STATE).read_bytes())
    assert state is not None
    (path / LOG_STATE).write_bytes(replace(state, is_being_emptied=is_being_emptied).format())


def remove_own_notes(path: Path) -> None:
    """Leave a partition as a broker that is alone would: nothing there is of this library."""
    for name in (LOG_STATE, RECOVERY_POINT_CHECKPOINT, CLEAN_SHUTDOWN_MARKER):
        (path / name).unlink(missing_ok=True)


def message_of_magic_1(
    offset: int, value: bytes = b"value", timestamp: int = TIME, key: bytes | None = None
) -> bytes:
    """One message of the format before batches, which has no leader epoch [format.md 7.1]."""
    sized = struct.pack(">i", -1) if key is None else struct.pack(">i", len(key)) + key
    body = struct.pack(">bbq", 1, 0, timestamp) + sized + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def offsets(records: object) -> list[int]:
    """Offsets of a fetch, a scan or a log."""
    return [record.offset for record in records]


def values(records: object) -> list[bytes | None]:
    """Values of a fetch, a scan or a log."""
    return [record.value for record in records]


def bases(log: UnifiedLog) -> list[int]:
    """Base offsets of the segments."""
    return [segment.base_offset for segment in log.segments()]


def remove_segment(path: Path, base_offset: int) -> None:
    """Remove a segment with its indexes: an index alone would show what is missing."""
    for kind in ("log", "index", "timeindex", "txnindex"):
        (path / f"{base_offset:020d}.{kind}").unlink(missing_ok=True)
