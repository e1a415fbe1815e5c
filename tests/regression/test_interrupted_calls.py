"""Signals, finalizers and exceptions in the middle of a call: nothing is left half done."""

from __future__ import annotations

import errno
import gc
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

import segstore
from segstore import UnifiedLog, _core, cli
from segstore._core import (
    AppendLock,
    BatchOptions,
    Directory,
    SimulatedDisk,
    SyncRounds,
    encode_records,
)
from segstore.cli.held_interrupts import held_interrupts
from segstore.errors import (
    DiskFullError,
    IllegalStateError,
    InvalidOffsetError,
    LogLockedError,
    LogReadOnlyError,
    SegstoreError,
    WriteError,
)
from segstore.log.check import partition_check
from segstore.log.files import partition_lock as module
from segstore.log.files.checkpoints import LogState
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
from segstore.log.files.log_state_file import LogStateFile
from segstore.log.files.partition_lock import PartitionLock
from segstore.log.flusher import Flusher
from segstore.log.local.local_log import LocalLog
from segstore.log.log_dir_failure_channel import LogDirFailureChannel
from segstore.log.producers.snapshot_file import SnapshotFile
from segstore.manager.repair_session import RepairSession
from segstore.records.compression import codec_table
from segstore.tables import parquet_files, parquet_writer, partition_import
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.interrupts import interrupts
from tests.kits.cli_process import environment
from tests.kits.interrupted_at import InterruptedAt
from tests.kits.log_kit import (
    PATIENCE_SECONDS,
    at,
    bases,
    lead_rounds_by_layers,
    offsets,
    singleton,
)
from tests.kits.remote_kit import TIERED, RemoteRecords

# ---- interrupted calls ---------------------------------------------------------------------------
# Ctrl-C at any moment: what a call had begun was left half done, and later records were lost.
#
# An append whose bytes were written, but whose log end was not published, left a batch behind the
# log end; the next append used the same offsets again, was acknowledged and synced, and was cut by
# the next recovery [CON-4, DUR-2, DUR-15].


# The exception may strike inside a finalizer or a collector's hook, where Python only tells of it.
UNRAISABLE_IGNORED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
BUDGET_SECONDS = 1.5


class InterruptedCallError(BaseException):
    """What the signal handler raises."""


@pytest.fixture
def interrupt():
    """Arm a timer that raises in the main thread after some seconds; 0 takes it back."""
    is_armed = False

    def raise_it(*_: object) -> None:
        nonlocal is_armed
        if is_armed:  # a signal that was on its way may arrive after it was taken back
            is_armed = False  # or for the next one, whose own signal comes when nothing catches it
            raise InterruptedCallError

    def arm(seconds: float) -> None:
        nonlocal is_armed
        is_armed = seconds > 0
        signal.setitimer(signal.ITIMER_REAL, seconds)

    before = signal.signal(signal.SIGALRM, raise_it)
    yield arm
    arm(0)
    signal.signal(signal.SIGALRM, before)


def interrupt_often(interrupt, act, longest_seconds: float) -> int:
    """Call *act* again and again, with an interrupt at a random moment; returns how many came."""
    interrupts = 0
    deadline = time.monotonic() + BUDGET_SECONDS
    while time.monotonic() < deadline:
        try:
            interrupt(random.uniform(1e-5, longest_seconds))
            act()
            interrupt(0)
        except InterruptedCallError:
            interrupts += 1
    interrupt(0)
    return interrupts


def check_contents(log, acked: dict[int, bytes]) -> None:
    """Every acknowledged record is there, at its offset, once, and all offsets ascend."""
    found = {record.offset: record.value for record in log}
    assert list(found) == sorted(found)
    assert {offset: found.get(offset) for offset in acked} == acked
    assert log.verify().ok


@UNRAISABLE_IGNORED
@pytest.mark.parametrize("settings", [{}, {"internal_segment_bytes": 3000}], ids=["append", "roll"])
def test_appends(new_log, interrupt, settings):
    """[CON-4] The log end is where the bytes end, and the next append goes on there."""
    log = new_log(**settings)
    log.append([(None, b"first")])
    acked = {}
    number = 0

    def act() -> None:
        nonlocal number
        number += 1
        value = b"%d " % number + b"x" * 500
        offset = log.append([(None, value)]).base_offset
        acked[offset] = value

    assert interrupt_often(interrupt, act, 3e-4) > 0
    value = b"after the interrupts"
    acked[log.append([(None, value)]).base_offset] = value
    assert log.flush() == log.log_end_offset
    check_contents(log, acked)
    log.close_quietly()
    again = new_log(**settings)
    assert again.report.truncated_bytes == 0
    check_contents(again, acked)


@UNRAISABLE_IGNORED
def test_rolls_and_syncs(new_log, interrupt):
    """[LOC-11] A roll that was interrupted is undone; it failed for ever after."""
    log = new_log(file_delete_delay_ms=0)
    log.append([(None, b"first")])
    acked = {}

    def act() -> None:
        acked[log.append([(None, b"x")]).base_offset] = b"x"
        log.roll()
        log.roll()
        if len(acked) % 10 == 0:
            log.flush()

    assert interrupt_often(interrupt, act, 2e-3) > 0
    log.roll()
    acked[log.append([(None, b"last")]).base_offset] = b"last"
    check_contents(log, acked)
    log.close()
    again = new_log()
    assert again.report.clean
    check_contents(again, acked)


@UNRAISABLE_IGNORED
def test_the_first_task_of_the_background_thread(new_log, monkeypatch):
    """[CON-4] The handler's exception comes out, not what it makes of CPython's `Condition.wait`.

    Struck between two lines there, a lock is let go twice: "release unlocked lock".
    """
    wait = threading.Event.wait

    def wait_interrupted(event: threading.Event, timeout: float | None = None) -> bool:
        wait(event, timeout)
        with event._cond:
            event._cond.release()
            raise InterruptedCallError

    log = new_log(durability="none")
    log.append([(None, b"first")])
    with monkeypatch.context() as patched:
        patched.setattr(threading.Event, "wait", wait_interrupted)
        with pytest.raises(InterruptedCallError):
            log.roll()
    log.append([(None, b"second")])
    log.roll()
    assert log._background.wait_until_idle()
    check_contents(log, {0: b"first", 1: b"second"})


@UNRAISABLE_IGNORED
def test_truncations(new_log, interrupt):
    """[DUR-38] One that was interrupted is finished, or the log takes no changes any more."""
    deadline = time.monotonic() + BUDGET_SECONDS
    while time.monotonic() < deadline:
        log = new_log(durability="none")
        log.append([(None, b"x")] * 3)
        log.roll()
        end = log.append([(None, b"y")] * 3).last_offset + 1
        try:
            interrupt(random.uniform(1e-5, 4e-3))
            log.truncate_to(end - 4)
            interrupt(0)
        except InterruptedCallError:
            pass
        try:
            acked = {log.append([(None, b"after")]).base_offset: b"after"}
            log.close()
        except SegstoreError:
            acked = {}
            log.close_quietly()
        again = new_log()
        found = {record.offset: record.value for record in again}
        assert {offset: found.get(offset) for offset in acked} == acked
        again.close()


@UNRAISABLE_IGNORED
def test_no_clean_mark_on_a_log_end_that_is_not_the_files(new_log):
    """[DUR-24] And no append either."""
    log = new_log()
    log.append([(None, b"x")])
    before = log._local_log.log_end
    log.append([(None, b"y")])
    log._local_log.published.log_end = before
    log._lane_switch.lane.disarm()  # which knows better, and would go on from where the file ends

    with pytest.raises(IllegalStateError, match="interrupted"):
        log.append([(None, b"z")])
    with pytest.raises(IllegalStateError, match="interrupted"):
        log.close()
    assert offsets(new_log()) == [0, 1]


@UNRAISABLE_IGNORED
def test_the_segment_refuses_offsets_that_it_has(new_log):
    """[SEG-5] By its last batch, not by the last entry of its index."""
    log = new_log()
    for _ in range(3):
        log.append([(None, b"x")])
    log.close()
    for opens in range(2):
        log = new_log()
        segment = log._local_log.segments.active_segment
        batches = _core.encode_records([(None, b"y")], _core.BatchOptions(), codec_table(), 0, 1000)
        for _ in range(2):
            with pytest.raises(InvalidOffsetError, match="come after 2"):
                segment.append(batches, batches.headers)
        log.close()
        assert opens < 2


@UNRAISABLE_IGNORED
def test_a_flush_that_was_interrupted_forgets_no_names(new_log, monkeypatch):
    """[DUR-13] The directory is synced by the next one."""
    log = new_log()
    log.append([(None, b"x")])
    log.flush()
    monkeypatch.setattr(log._flusher, "segment_was_sealed", lambda *_: None)
    log.roll()
    log.append([(None, b"y")])
    version = log._local_log.names_version
    real = log._flusher._sync_segment

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(log._flusher, "_sync_segment", interrupted)
    with pytest.raises(KeyboardInterrupt):
        log.flush()
    monkeypatch.setattr(log._flusher, "_sync_segment", real)
    assert log._flusher._directory_sync.synced_names_version < version

    assert log.flush() == 2
    assert log._flusher._directory_sync.synced_names_version == version


@UNRAISABLE_IGNORED
def test_two_interrupts_in_a_roll(new_log, monkeypatch):
    """The second comes while the first is being dealt with: the next change does that."""
    log = new_log()
    log.append([(None, b"x")])

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LocalLog, "_publish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.roll()
    assert len(list(Path(log.path).glob("*.log"))) == 2

    assert log.append([(None, b"y")]).base_offset == 1
    assert len(list(Path(log.path).glob("*.log"))) == 1
    assert log.roll().base_offset == 2
    log.close()
    assert offsets(new_log()) == [0, 1]


@UNRAISABLE_IGNORED
def test_ctrl_c_in_many_threads(tmp_path):
    """[DUR-70] The main thread is interrupted while others append and sync: nobody hangs."""
    log = segstore.open(tmp_path / "topic-0", durability="sync")
    stop = threading.Event()
    acked: dict[int, bytes] = {}

    def write(name: bytes) -> None:
        while not stop.is_set():
            acked[log.append([(None, name)]).base_offset] = name

    threads = [threading.Thread(target=write, args=(b"%d" % n,), daemon=True) for n in range(2)]
    for thread in threads:
        thread.start()
    interrupts = 0
    deadline = time.monotonic() + BUDGET_SECONDS
    while time.monotonic() < deadline:
        timer = threading.Timer(random.uniform(1e-4, 5e-3), signal.raise_signal, (signal.SIGINT,))
        try:
            timer.start()
            acked[log.append([(None, b"main")]).base_offset] = b"main"
            timer.join()
            time.sleep(0.01)
        except KeyboardInterrupt:
            interrupts += 1
    stop.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert interrupts > 0
    check_contents(log, acked)
    log.close()


# ---- interrupted durable append ------------------------------------------------------------------
# Control-C in an append that waited for its sync left records in the file that the log denied.
#
# The next append came behind them: a record that was sent again was there twice, and a truncation
# to the log end, which said that there was nothing, brought them back.


ROUNDS = 150
PATIENCE_FOR_SYNCS_SECONDS = 20
NOW_MS = 1_700_000_000_000


class InterruptedAppend(Exception):  # noqa: N818 - no error
    """Raised by the handler, as KeyboardInterrupt is."""


@pytest.fixture
def memory_path():
    path = Path(tempfile.mkdtemp(prefix="interrupted-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def alarms():
    """Raise in the main thread after a while: ``alarms(seconds)``; 0 = not any more."""

    def interrupt(*_):
        raise InterruptedAppend

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("beside", [0, 2], ids=["alone", "beside other threads"])
def test_what_an_interrupted_append_wrote_is_in_the_log(memory_path, alarms, beside):
    """[CON-4, DUR-5] The log end says whether it was written, and the next append begins there."""
    log = segstore.open(memory_path / "t-0", durability="sync")
    log.append([(b"k", b"first")])
    is_over = threading.Event()

    def write():
        while not is_over.is_set():
            log.append([(b"other", b"v")])

    threads = [threading.Thread(target=write) for _ in range(beside)]
    for thread in threads:
        thread.start()
    interrupts = 0
    try:
        for number in range(ROUNDS):
            try:
                alarms(20e-6 + (number % 40) * 4e-6)
                for _ in range(50):
                    log.append([(b"k", b"v%d" % number)])
                alarms(0)
            except InterruptedAppend:
                alarms(0)
                interrupts += 1
                assert log._lane_switch.lane is not None
                if not beside:
                    seen = log.log_end_offset
                    assert not log.truncate_to(seen)
                    assert log.append([(b"k", b"again")]).base_offset == seen
    finally:
        alarms(0)
        is_over.set()
        for thread in threads:
            thread.join()
    assert interrupts > 0
    assert log.flush() == log.log_end_offset
    assert [record.offset for record in log] == list(range(log.log_end_offset))
    assert log.verify().ok
    log.close()


def test_a_handler_that_uses_the_log_in_its_own_round_is_told(memory_path, monkeypatch):
    """[DUR-70] It would wait for itself. Nothing was changed: the log goes on, and closes."""
    log = segstore.open(memory_path / "t-0", durability="sync")
    log.append([(None, b"x")])
    real, told = log._flusher._sync_segment, []
    uses = [log.flush, lambda: log.append([(None, b"inside")]), log.roll, log.close, log.delete]

    def sync_segment(segment, *, indexes):
        for use in uses:
            try:
                use()
            except RuntimeError as error:
                told.append(error)
        real(segment, indexes=indexes)

    with monkeypatch.context() as patched:
        patched.setattr(log._flusher, "_sync_segment", sync_segment)
        thread = threading.Thread(target=log.append, args=([(None, b"y")],), daemon=True)
        thread.start()
        thread.join(PATIENCE_FOR_SYNCS_SECONDS)  # one that waits for itself stays
        assert not thread.is_alive()
    assert len(told) == len(uses)
    assert log.append([(None, b"z")]).base_offset == 2
    log.close()
    with segstore.open(memory_path / "t-0") as again:
        assert again.report.clean
        assert [record.value for record in again] == [b"x", b"y", b"z"]


LOCKS = {
    "recovery point": lambda log: log._flusher._directory_sync.lock,
    "state": lambda log: log._metadata.state_file.lock,
    "checksum sidecar": lambda log: log._local_log.checksum_sidecars.lock,
    "producer snapshot": lambda log: log._producers.snapshots.sync_lock,
}
NEW_EPOCH = 5
CHANGES = {
    "append": lambda log: log.append([(None, b"inside")]),
    "append of a new epoch": lambda log: log.append_as_leader(one_batch(), NEW_EPOCH),
    "roll": lambda log: log.roll(),
    "flush": lambda log: log.flush(),
    "truncation": lambda log: log.truncate_to(4),
    "full truncation": lambda log: log.truncate_fully_and_start_at(20),
    "deletion": lambda log: log.delete_records(3),
    "sidecars": lambda log: log.write_checksum_sidecars(),
    "close": lambda log: log.close(),
    "delete": lambda log: log.delete(),
}


def one_batch():
    encoded = encode_records([(None, b"new")], BatchOptions(), codec_table(), NOW_MS, 10_000)
    return bytes(memoryview(encoded))


def bytes_of(path):
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


@pytest.mark.parametrize("durability", ["none", "messages=1", "sync"])
@pytest.mark.parametrize("file", LOCKS)
def test_a_handler_that_changes_the_log_while_a_file_is_written_is_told(
    memory_path, file, durability
):
    """[DUR-70] Before anything changes, and so the log goes on.

    A flush wrote `.segstore` when a handler truncated: it waited for itself, under the append lock.
    """
    path = memory_path / "t-0"
    log = segstore.open(path, durability=durability)
    log.append([(None, b"x")] * 3)
    log.roll()
    log.append([(None, b"y")] * 3)
    log.flush()
    log._background.wait_until_idle()
    before, told = bytes_of(path), {}

    def handle():
        with LOCKS[file](log):
            for name, change in CHANGES.items():
                if durability == "none" and name == "append":
                    continue  # nobody waits behind it
                try:
                    change(log)
                except RuntimeError as error:
                    told[name] = (str(error), log.log_end_offset, bytes_of(path) == before)

    thread = threading.Thread(target=handle, daemon=True)
    thread.start()
    thread.join(PATIENCE_FOR_SYNCS_SECONDS)  # one that waits for itself stays
    assert not thread.is_alive()
    expected = (
        "this thread is writing a file of the log already: to wait for that is a deadlock",
        6,
        True,
    )
    assert told == dict.fromkeys(
        [name for name in CHANGES if durability != "none" or name != "append"], expected
    )
    assert log.append_as_leader(one_batch(), NEW_EPOCH).base_offset == 6
    assert log.truncate_to(6)
    assert log.delete_records(3) == 3
    assert log.write_checksum_sidecars().problems == []
    log.close()
    with segstore.open(path) as again:
        assert again.report.clean
        assert [record.offset for record in again] == [3, 4, 5]


def test_a_handler_that_reports_a_failure_within_another_does_not_wait():
    """[DUR-70, LOC-27] And the directory is marked, once."""
    failures, first = LogDirFailureChannel(), WriteError("first")

    def handle():
        with failures._lock:
            failures.maybe_add_offline_log_dir("d", first)

    thread = threading.Thread(target=handle, daemon=True)
    thread.start()
    thread.join(PATIENCE_FOR_SYNCS_SECONDS)
    assert not thread.is_alive()
    assert failures.has_offline_log_dir("d")
    failures.maybe_add_offline_log_dir("d", WriteError("second"))
    with pytest.raises(LogReadOnlyError) as caught:
        failures.check("d")
    assert caught.value.__cause__ is first


def test_an_append_in_its_own_round_is_told_before_it_is_written(memory_path, monkeypatch):
    """[DUR-70] With a sync behind each so many records it was written, and called failed."""
    log = segstore.open(memory_path / "t-0", durability="messages=2")
    log.append([(None, b"x")])
    real, told = log._flusher._sync_segment, []

    def sync_segment(segment, *, indexes):
        with pytest.raises(RuntimeError):
            log.append([(None, b"inside")] * 3)
        told.append(log.log_end_offset)
        real(segment, indexes=indexes)

    with monkeypatch.context() as patched:
        patched.setattr(log._flusher, "_sync_segment", sync_segment)
        thread = threading.Thread(target=log.append, args=([(None, b"y")],), daemon=True)
        thread.start()
        thread.join(PATIENCE_FOR_SYNCS_SECONDS)
        assert not thread.is_alive()
    assert told == [2]
    assert [record.value for record in log] == [b"x", b"y"]
    assert log.append([(None, b"z")] * 3).base_offset == 2
    log.close()


# ---- interrupted epoch assignment ----------------------------------------------------------------
# The assignment of a leader epoch was interrupted: its checkpoint stayed ahead of the log.
#
# In memory the old epoch went on, with records that were acknowledged; behind a crash they belonged
# to a newer epoch that had begun before them, and a follower would have cut them off.


def test_the_epoch_goes_with_the_next_change(monkeypatch):
    """[DUR-12, DUR-21, DUR-70] Control-C came behind the checkpoint's sync."""
    disk = new_disk()
    log = open_log(disk, durability="sync")
    log.append([(None, b"x")] * 3)
    real = LeaderEpochFileCache.flush

    def interrupted(self, **options):
        real(self, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LeaderEpochFileCache, "flush", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.assign_epoch_start_offset(1, log.log_end_offset)
    assert log.append([(None, b"acknowledged")] * 2).durable_offset == 5
    assert (log.latest_epoch, log.end_offset_for_epoch(0)) == (0, (0, 5))

    for fate in ("lost", "kept", "killed"):
        with closing(open_log(disk.crash_image(fate=fate))) as found:
            assert (found.latest_epoch, found.end_offset_for_epoch(0)) == (0, (0, 5)), fate
    log.close_quietly()


# ---- interrupted lock ----------------------------------------------------------------------------
# Control-C while the lock of a log was given back locked this process out of the log, for good.
#
# The lock counted as given back before it was, so that neither a second close nor a collector took
# it out of the registry of this process.


STEPS = {
    "acquire": [PartitionLock.acquire.__func__, PartitionLock.__init__, PartitionLock._take],
    "release": [PartitionLock.release, module._release_from_last, module._Registry.remove],
}
"""Of the registry's ``add`` no instruction but those behind calls: it is a ``with`` of a lock."""


@pytest.fixture
def directories(tmp_path):
    """A log directory, a partition in it, and one for its state: a writer takes three locks."""
    (tmp_path / "meta.properties").write_text("version=1\n")
    found = [tmp_path, tmp_path / "orders-0", tmp_path / "state"]
    for path in found[1:]:
        path.mkdir()
    (tmp_path / "orders-0" / ".lock").write_bytes(b"")
    opened = [_core.Directory(str(path)) for path in found]
    yield opened
    for directory in opened:
        directory.close()


@pytest.fixture
def nothing_else_to_collect():
    """What other tests have left on the heap is not gone through after each instruction."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def acquire(directories) -> PartitionLock:
    parent, partition, home = directories
    return PartitionLock.acquire(partition, parent, home=home)


def count_until_it_ends(interrupt_at) -> int:
    """Interrupt before the first instruction, the second, and so on; returns how many there are."""
    for nth in range(1, 2000):
        if not interrupt_at(nth):
            return nth - 1
    raise AssertionError("it never ended")


@pytest.mark.usefixtures("nothing_else_to_collect")
@pytest.mark.parametrize("step", STEPS["acquire"], ids=lambda step: step.__qualname__)
def test_a_lock_that_was_not_taken_to_the_end_is_free(directories, step):
    """[DUR-65, DUR-67] Whatever instruction an interrupt comes before."""

    def interrupt_at(nth: int) -> bool:
        with InterruptedAt(step, nth) as interrupt:
            try:
                acquire(directories)
            except KeyboardInterrupt:
                assert interrupt.came
        gc.collect()
        acquire(directories).release()
        return interrupt.came

    assert count_until_it_ends(interrupt_at) > 5


@pytest.mark.usefixtures("nothing_else_to_collect")
@pytest.mark.parametrize("is_kept", [True, False], ids=["released again", "dropped"])
@pytest.mark.parametrize("step", STEPS["release"], ids=lambda step: step.__qualname__)
def test_a_lock_that_was_not_given_back_to_the_end(directories, step, is_kept):
    """[DUR-67, DUR-70] The next `release` does the rest, or its end, whatever was interrupted."""

    def interrupt_at(nth: int) -> bool:
        lock = acquire(directories)
        with InterruptedAt(step, nth) as interrupt:
            try:
                lock.release()
            except KeyboardInterrupt:
                assert interrupt.came
        if is_kept:
            lock.release()
            assert not lock.held
        else:
            del lock
            gc.collect()
        acquire(directories).release()
        return interrupt.came

    assert count_until_it_ends(interrupt_at) > 5


class Interrupting:
    """A lock whose release ends in an interrupt, twice, as CPython does it: it is released."""

    def __init__(self, lock) -> None:
        self._lock = lock
        self._left = 2

    def release(self) -> None:
        self._lock.release()
        if self._left:
            self._left -= 1
            raise KeyboardInterrupt


@pytest.mark.usefixtures("nothing_else_to_collect")
@pytest.mark.parametrize("nth", [0, 1, 2])
def test_an_interrupt_behind_any_lock_leaves_none(directories, nth):
    """[DUR-65, DUR-67] Though nobody asks again, and the handle is kept."""
    lock = acquire(directories)
    lock._locks[nth] = Interrupting(lock._locks[nth])

    with pytest.raises(KeyboardInterrupt):
        lock.release()

    parent = directories[0]
    parent.lock(".lock", exclusive=True).release()
    again = acquire(directories)
    with pytest.raises(KeyboardInterrupt):
        lock.release()
    lock.release()
    assert not lock.held
    with pytest.raises(LogLockedError, match="in this process"):  # that is not the first one's
        acquire(directories)
    again.release()


@pytest.mark.usefixtures("nothing_else_to_collect")
@pytest.mark.filterwarnings("ignore:.*was dropped without close:ResourceWarning")
def test_a_log_opens_again_behind_any_interrupted_open_or_close(tmp_path, one_in):
    """[DUR-67, DUR-70] Behind whatever call it comes, once the handle is closed or dropped."""
    path, opened = tmp_path / "orders-0", []

    def open_it() -> None:
        opened.append(segstore.open(path))

    def close_it():
        open_it()
        return opened[0].close

    def open_again() -> None:
        while opened:
            opened.pop().close()
        try:
            segstore.open(path).close()
        except LogLockedError:
            gc.collect()  # as long as the interrupted call's frames are there, so is the lock
            segstore.open(path).close()

    for begin in (lambda: open_it, close_it):
        places = []
        for place in interrupts(begin, one_in(5)):
            places.append(place)
            open_again()
        open_again()
        assert any("PartitionLock" in place for place in places)


# ---- interrupted sends ---------------------------------------------------------------------------
# Signals and slow readers while a log is sent: every byte once, and in order [DUR-37].
#
# A send that retried EINTR by itself would keep Ctrl-C waiting for as long as its peer does not
# read.


SECONDS = 1.0


@pytest.fixture
def log(new_log):
    made = new_log()
    for first in range(0, 3000, 30):
        made.append([(None, b"%d" % n * 100) for n in range(first, first + 30)])
    return made


@pytest.fixture
def timer():
    """Arm a timer for a handler, again and again; taken back at the end."""
    before = signal.getsignal(signal.SIGALRM)

    def arm(handler, first: float, interval: float = 0) -> None:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, first, interval)

    yield arm
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def sip(descriptor: int, arrived: bytearray, seed: int) -> None:
    """Read little, at odd moments, until the end."""
    chance = random.Random(seed)
    while data := os.read(descriptor, chance.choice([1, 100, 5000, 70_000])):
        arrived += data
        if chance.random() < 0.02:
            time.sleep(0.002)


@pytest.mark.parametrize("in_memory", [False, True], ids=["file", "memory"])
@pytest.mark.parametrize("kind", ["socket", "pipe"])
def test_signals_that_are_handled(log, timer, kind, in_memory):
    """The handler runs while the peer does not read, and the send goes on behind it."""
    records = log.slice(0, 2**31) if not in_memory else log.read(0, 2**31)
    expected = bytes(log.read(0, 2**31).records)
    handled = []
    timer(lambda *_: handled.append(None), 0.001, 0.001)
    deadline = time.monotonic() + SECONDS
    seed = 0
    while time.monotonic() < deadline:
        seed += 1
        reading, writing = os.pipe() if kind == "pipe" else connected()
        arrived = bytearray()
        reader = threading.Thread(target=sip, args=(reading, arrived, seed))
        reader.start()
        assert records.write_to(writing) == len(expected)
        os.close(writing)
        reader.join()
        os.close(reading)
        assert arrived == expected
    assert len(handled) > 50


def connected() -> tuple[int, int]:
    """Descriptors of two connected sockets."""
    near, far = socket.socketpair()
    return near.detach(), far.detach()


def test_a_signal_that_raises_ends_a_send_to_a_peer_that_never_reads(log, timer):
    """Ctrl-C does not wait for the peer."""

    def raise_it(*_: object) -> None:
        raise InterruptedCallError

    near, far = socket.socketpair()
    timer(raise_it, 0.1)
    start = time.monotonic()
    with pytest.raises(InterruptedCallError):
        log.slice(0, 2**31).write_to(near)
    assert time.monotonic() - start < 5
    near.close()
    far.close()
    assert log.append([(None, b"goes on")]).base_offset == 3000


def test_a_log_that_is_closed_while_it_is_sent(log):
    """Whoever is inside keeps the descriptor: nobody else's file is sent in its place."""
    expected = bytes(log.read(0, 2**31).records)
    near, far = socket.socketpair()
    arrived = bytearray()
    done: list[object] = []

    def send() -> None:
        try:
            done.append(log.slice(0, 2**31).write_to(near))
        except ValueError as error:  # ClosedError, between two steps
            done.append(error)
        near.close()

    sender = threading.Thread(target=send)
    sender.start()
    while not far.recv(1, socket.MSG_PEEK):
        time.sleep(0.001)
    log.close()
    other = os.open(os.devnull, os.O_RDONLY)  # would get the number of a descriptor that was closed
    while data := far.recv(1 << 16):
        arrived += data
    sender.join()
    os.close(other)
    far.close()
    assert arrived == expected[: len(arrived)]
    assert len(done) == 1
    assert done[0] == len(expected) or len(arrived) < len(expected)


# ---- signals that restart calls ------------------------------------------------------------------
# [DUR-70] Control-C ends a wait also where a library had the handler installed with SA_RESTART.
#
# The import of polars does that: a wait of the system then goes on behind the signal, and nobody
# looked.


@pytest.fixture
def restarting_alarm() -> Iterator[None]:
    """SIGALRM raises, and the system goes on with what it interrupts."""

    def raise_it(*_: object) -> None:
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, raise_it)
    signal.siginterrupt(signal.SIGALRM, False)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def interrupt_soon() -> None:
    """Long enough that the wait has begun, and again in case that it had not."""
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.5)


@pytest.mark.usefixtures("restarting_alarm")
@pytest.mark.parametrize("wait", ["acquire", "wait", "join"])
def test_a_wait_for_another_thread(wait: str):
    """[CON-1, DUR-15]"""
    lock = AppendLock()
    rounds = SyncRounds(lock)
    begun, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert may_end.wait(PATIENCE_SECONDS)

    def hold_the_lock() -> None:
        with lock:
            hold()

    waits = {"acquire": lock.__enter__, "wait": rounds.wait, "join": lambda: rounds.join(hold)}
    with ThreadPoolExecutor(1) as elsewhere:
        held = elsewhere.submit(hold_the_lock if wait == "acquire" else lambda: rounds.join(hold))
        assert begun.wait(PATIENCE_SECONDS)
        interrupt_soon()
        with pytest.raises(InterruptedError):
            waits[wait]()
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert not held.done()
        may_end.set()
        held.result()


@pytest.mark.usefixtures("restarting_alarm")
def test_an_append_that_waits_for_a_sync_of_another_thread(
    new_log: Callable[..., UnifiedLog],
    monkeypatch: pytest.MonkeyPatch,
):
    """[DUR-15] The record was written, and is not acknowledged: it is there, and nothing hangs."""
    begun, may_end, real = threading.Event(), threading.Event(), Flusher._sync_segment

    def sync(self: Flusher, segment: object, *, indexes: bool) -> None:
        begun.set()
        assert may_end.wait(PATIENCE_SECONDS)
        real(self, segment, indexes=indexes)

    monkeypatch.setattr(Flusher, "_sync_segment", sync)
    lead_rounds_by_layers(monkeypatch)
    may_end.set()
    log = new_log(durability="sync")
    log.append([(None, b"first")])
    begun.clear()
    may_end.clear()
    with ThreadPoolExecutor(1) as elsewhere:
        held = elsewhere.submit(log.append, [(None, b"held")])
        assert begun.wait(PATIENCE_SECONDS)
        interrupt_soon()
        with pytest.raises(InterruptedError):
            log.append([(None, b"interrupted")])
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert not held.done()
        may_end.set()
        held.result()
    log.append([(None, b"last")])
    assert [one.value for one in log] == [b"first", b"held", b"interrupted", b"last"]


# ---- files ahead of memory -----------------------------------------------------------------------
# Ctrl-C behind a call that wrote a small file: the file was ahead of memory, which decides.
#
# A truncation lowered no log start and no recovery point that only the disk knew: acknowledged
# records were gone behind a crash, or the log could not be opened. A permitted gap that nobody had
# filled hid lost records, and a snapshot that nobody knew outlived its records. The other way
# round, segments that only memory had taken out lay where a truncation made new ones.


Act = Callable[[UnifiedLog], object]

ACTS: dict[str, Act] = {
    "delete_records": lambda log: log.delete_records(4),
    "delete_records of two segments": lambda log: log.delete_records(5),
    "flush": lambda log: log.flush(),
    "gap": lambda log: log.append_as_follower(at(log.log_end_offset + 9), 0),
    "epoch": lambda log: log.append_as_follower(at(log.log_end_offset, epoch=3), 3),
    "assign epoch": lambda log: log.assign_epoch_start_offset(3, log.log_end_offset),
    "truncate_to": lambda log: log.truncate_to(5),
    "truncate_fully_and_start_at, ahead": lambda log: log.truncate_fully_and_start_at(12),
    "truncate_fully_and_start_at, back": lambda log: log.truncate_fully_and_start_at(1),
    "roll": lambda log: log.roll(),
}
ONE_ACKNOWLEDGED = [(None, b"acknowledged")]


def truncate_and_append(log: UnifiedLog) -> None:
    log.truncate_to(4)
    for _ in range(2):
        log.append(ONE_ACKNOWLEDGED)


def append_and_roll(log: UnifiedLog) -> None:
    log.append(ONE_ACKNOWLEDGED)
    log.roll()
    log.append(ONE_ACKNOWLEDGED)


def truncate_at_the_end(log: UnifiedLog) -> None:
    """Only what is said of epochs can change."""
    log.truncate_to(log.log_end_offset)
    log.append(ONE_ACKNOWLEDGED)


FOLLOWING = [truncate_and_append, append_and_roll, truncate_at_the_end]


def write_three_segments(log: UnifiedLog) -> None:
    for number in range(6):
        if number in {2, 4}:
            log.roll()
        log.append([(None, b"%d" % number)] if number else [(None, b"0")] * 2)


class Scene:
    """A log on a disk of its own, made anew for each interrupt of *act*."""

    def __init__(self, act: Act, write: Act = write_three_segments, **settings: object) -> None:
        self._act = act
        self._write = write
        self._settings = {"durability": "sync", **settings}

    def places(self, nth: int = 1) -> Iterator[str]:
        """Yield where *act* was interrupted, after each *nth* call in turn."""
        for place in interrupts(self.begin, nth):
            yield place
            self.log.close_quietly()
        self.log.close_quietly()

    def begin(self) -> Callable[[], object]:
        """Make it anew; returns what is to be interrupted."""
        self.disk = new_disk()
        self.log = log = open_log(self.disk, **self._settings)
        self._write(log)
        return lambda: self._act(log)

    def opened(self, fate: str = "killed", seed: int = 0) -> AbstractContextManager[UnifiedLog]:
        """Open what a crash leaves."""
        return closing(open_log(self.disk.crash_image(fate=fate, seed=seed), **self._settings))


class Contents(NamedTuple):
    """What a user of a log sees."""

    records: list[tuple[int, bytes | None]]
    log_start_offset: int
    log_end_offset: int
    latest_epoch: int | None


def contents(log: UnifiedLog) -> Contents:
    records = [(record.offset, record.value) for record in log]
    return Contents(records, log.log_start_offset, log.log_end_offset, log.latest_epoch)


def producers_of(log: UnifiedLog) -> list[tuple[int, int]]:
    return [(one.producer_id, one.last_sequence) for one in log.active_producers()]


def is_tied(disk: SimulatedDisk, path: str) -> bool:
    """Whether ``.segstore`` counts, by the epochs of the same disk."""
    directory = Directory(path, disk)
    state = LogState.read(directory)
    epochs = LeaderEpochFileCache.read(directory, writable=False)
    return state is not None and state.fits(None if epochs is None else epochs.latest_entry)


@pytest.mark.parametrize("follow", FOLLOWING, ids=lambda follow: follow.__name__)
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_what_comes_behind_an_interrupt_is_kept(act, follow, one_in):
    """[DUR-1, DUR-5, DUR-16, DUR-18, DUR-19] Acknowledged is what a crash leaves, and it opens."""
    scene, writable = Scene(act), 0
    for place in scene.places(one_in(31)):
        expected = None
        with suppress(LogReadOnlyError):  # a truncation that had begun to cut
            follow(scene.log)
            expected = contents(scene.log)
            writable += 1
        for fate in ("killed", "lost"):
            assert is_tied(scene.disk.crash_image(fate=fate), scene.log.path), place
            with scene.opened(fate) as found:
                assert expected is None or contents(found) == expected, place
    assert writable


def test_a_permitted_gap_that_nobody_filled_hides_none(one_in):
    """[DUR-1, DUR-2, DUR-64] Lost records are noticed, whatever the crash has left."""
    scene = Scene(ACTS["gap"], durability="none")
    for place in scene.places(one_in(31)):
        for _ in range(2):
            append_and_roll(scene.log)
        expected = offsets(scene.log)
        for seed in range(12):
            with scene.opened("seed", seed) as found:
                assert offsets(found) == expected[: len(offsets(found))], (place, seed)


@pytest.mark.parametrize("act", ["delete_records", "gap", "epoch"])
def test_a_close_behind_an_interrupt_marks_what_is_there(act, one_in):
    """[DUR-24] The next open finds what this handle has shown, and nothing that never came."""
    scene = Scene(ACTS[act])
    for place in scene.places(one_in(31)):
        expected = contents(scene.log)
        scene.log.close()
        state = LogState.read(Directory(scene.log.path, scene.disk))
        assert state is not None
        assert state.contiguous_from <= expected.log_end_offset, place
        with scene.opened() as found:
            assert found.report.clean, place
            assert contents(found)[:3] == expected[:3], place  # of an epoch are records, or none is


def test_a_full_disk_that_keeps_a_file_ahead_refuses_records_alone(monkeypatch, one_in):
    """[DUR-30] What makes room is done; records come when there is some."""

    def refuse(*_: object) -> None:
        raise DiskFullError("no space left on the device")

    scene, doubts = Scene(ACTS["gap"]), 0
    for place in scene.places(one_in(10)):
        log = scene.log
        if log._metadata.state_file.is_in_doubt:
            doubts += 1
            with monkeypatch.context() as patched:
                patched.setattr(LogStateFile, "_write", refuse)
                assert log.delete_records(4) == 4, place
                with pytest.raises(DiskFullError):
                    log.append(ONE_ACKNOWLEDGED)
                with pytest.raises(DiskFullError):
                    log.truncate_to(5)
            assert (log.append(ONE_ACKNOWLEDGED).base_offset, log.truncate_to(5)) == (7, True), (
                place
            )
    assert doubts


def test_what_a_full_disk_refuses_leaves_no_file_in_doubt():
    """[DUR-30, DUR-77] The old content is there; a truncation that cannot be told is refused."""
    scene = Scene(ACTS["flush"])
    scene.begin()
    log, disk = scene.log, scene.disk
    disk.fail("write_at", 1, errno.ENOSPC, for_ever=True)
    assert (log.flush(), log.recovery_point) == (7, 0)
    for act in ("delete_records", "gap"):
        with pytest.raises(DiskFullError):
            ACTS[act](log)

    with pytest.raises(DiskFullError):
        log.truncate_to(5)
    assert log.log_end_offset == 7
    disk.fail("write_at", 0, errno.ENOSPC)
    assert log.truncate_to(5)
    assert log.append(ONE_ACKNOWLEDGED).durable_offset == 6
    with scene.opened() as found:
        assert contents(found) == contents(log)
    log.close_quietly()


def test_a_snapshot_that_an_interrupt_left_goes_with_its_records(monkeypatch, one_in):
    """[DUR-22, PSM-57, PSM-60] It was not known, stayed, and told of producers that were cut.

    A roll to the same offset writes over it, unless the disk is full then.
    """

    def write(log: UnifiedLog, producer_id: int = 1, count: int = 4) -> None:
        for sequence in range(count):
            batch = singleton(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            log.append_as_leader(batch)

    def refuse(*_: object, **__: object) -> None:
        raise DiskFullError("no space left on the device")

    scene = Scene(ACTS["roll"], write)
    for place in scene.places(one_in(31)):
        log = scene.log
        log.truncate_to(1)
        write(log, producer_id=2, count=3)
        with monkeypatch.context() as patched:
            patched.setattr(SnapshotFile, "write", refuse)
            log.roll()
        log.append(ONE_ACKNOWLEDGED)
        log.flush()
        with scene.opened() as found:
            assert producers_of(found) == producers_of(log) == [(1, 0), (2, 2)], place


def test_a_local_log_start_that_no_deletion_followed_takes_none_away(one_in):
    """[DUR-26, RET-4] Segments were to go that are in remote storage; others are there by now."""

    def write(log: UnifiedLog) -> None:
        for _ in range(4):
            log.append(ONE_ACKNOWLEDGED)
            log.roll()
        log.update_highest_offset_in_remote_storage(3)

    settings = {"local_retention_bytes": 1, "remote_log_reader": RemoteRecords(), **TIERED}
    scene = Scene(lambda log: log.delete_old_segments(), write, **settings)
    for place in scene.places(one_in(31)):
        log = scene.log
        log.truncate_to(1)
        for _ in range(2):
            append_and_roll(log)
        expected = bases(log), offsets(log.scan(bases(log)[0]))
        with scene.opened() as found:
            shown = offsets(found.scan(bases(found)[0]))
            assert (bases(found), shown) == expected, place


# ---- lane in the midst of an append --------------------------------------------------------------
# An append of several segments was interrupted behind its first step, and the lane was armed.
#
# The first step had told the lane where the log ends. When the next one broke off in its roll,
# twice, appends by the lane did not look at what was left undone: what they wrote, and
# acknowledged, lay in the segment before one that was there already, which the next open called
# damage.


ONE_BY_THE_LANE = [(None, b"x")]
SEVERAL_SEGMENTS = [(None, b"y" * 400)] * 20
SETTINGS = {"durability": "sync", "internal_segment_bytes": 3000, "max_message_bytes": 1000}


def test_what_is_left_undone_is_done_before_the_next_append(monkeypatch):
    """[CON-4, DUR-1, DUR-70] Control-C comes behind the new file, and again while it goes."""
    disk = new_disk()
    log, real = open_log(disk, **SETTINGS), LocalLog._create_segment
    log.append(ONE_BY_THE_LANE)

    def interrupted(*_):
        raise KeyboardInterrupt

    def interrupted_behind(self, base_offset):
        real(self, base_offset)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LocalLog, "_create_segment", interrupted_behind)
        patched.setattr(LocalLog, "_undo_roll", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.append(SEVERAL_SEGMENTS)
    first = log.log_end_offset
    assert first > 1
    assert not log._lane_switch.lane.is_armed
    assert log.append(ONE_BY_THE_LANE).base_offset == first

    for fate, seed in [("lost", 0), ("kept", 0), ("killed", 0), *(("seed", n) for n in range(20))]:
        with open_log(disk.crash_image(fate=fate, seed=seed), **SETTINGS) as found:
            assert found.log_end_offset == first + 1
    log.close_quietly()


# ---- finalizer that appends ----------------------------------------------------------------------
# A finalizer that appended hung the log: the append in whose midst it ran had no owner.
#
# What shows readers the new log end may allocate, and with that start the collector, in any append
# that goes by the lane. Who appends from there waits for himself, unless the lock knows whose it
# is.


class Audit:
    """Only the collector frees it, and it keeps a record of its end."""

    told: list[BaseException | None]

    def __init__(self, log: segstore.UnifiedLog, told: list[BaseException | None]) -> None:
        self.itself, self.log, self.told = self, log, told

    def __del__(self) -> None:
        try:
            self.log.append([(None, b"finalized")])
        except RuntimeError as error:
            self.told.append(error)
        else:
            self.told.append(None)


@pytest.mark.parametrize("durability", ["none", "messages=5", "seconds=5", "sync"])
def test_it_is_told_that_it_would_wait_for_itself(durability: str, tmp_path):
    """[CON-4] Wherever the collector runs, the log goes on."""
    told, ends = [], []
    with segstore.open(tmp_path / "audited-0", durability=durability) as log:
        log.append(ONE_BY_THE_LANE)

        def append_beside_the_collector() -> None:
            for number in range(300):
                ends.append(log._local_log.log_end)  # which the next append cannot use again
                Audit(log, told)
                gc.set_threshold(number % 30 + 1, 1000, 1000)
                gc.enable()
                log.append(ONE_BY_THE_LANE)
                gc.disable()

        thresholds = gc.get_threshold()
        gc.disable()
        try:
            appending = threading.Thread(target=append_beside_the_collector, daemon=True)
            appending.start()
            appending.join(PATIENCE_SECONDS)
        finally:
            gc.set_threshold(*thresholds)
            gc.enable()
        assert not appending.is_alive()
        gc.collect()
        assert len(told) == 300
        assert 301 + told.count(None) <= log.log_end_offset <= 601


# ---- recover is stopped --------------------------------------------------------------------------
# Ctrl-C while `segstore recover` repaired many partitions: it began to check all that it had
# repaired, and only a second Ctrl-C ended it. What it had cut was said nowhere then.


NAMES = ("notes-0", "notes-1", "notes-2")


@pytest.fixture
def torn_logs(tmp_path: Path) -> Path:
    """Three partitions of killed writers, each with half a batch at its end."""
    for name in NAMES:
        log = segstore.open(tmp_path / "data" / name)
        log.append([(None, b"kept")])
        log.close_quietly()
        with (tmp_path / "data" / name / "00000000000000000000.log").open("ab") as file:
            file.write(b"half a batch")
    return tmp_path / "data"


def interrupt_the_check(monkeypatch, number: int) -> list[str]:
    """Raise Ctrl-C in that check of a partition; return the paths of all checks."""
    checked, real = [], partition_check.check_partition

    def check(path, *arguments, **more):
        checked.append(path)
        if len(checked) == number:
            raise KeyboardInterrupt
        return real(path, *arguments, **more)

    monkeypatch.setattr(partition_check, "check_partition", check)
    return checked


@pytest.mark.parametrize("number", range(1, 2 * len(NAMES) + 1))
def test_ctrl_c_ends_recover_at_once(torn_logs, monkeypatch, capfd, number: int):
    """[DUR-6, DUR-58] No check begins after it; each repair is reported, and the logs are valid."""
    with monkeypatch.context() as patched:
        checked = interrupt_the_check(patched, number)
        code = cli.main(["recover", "-q", str(torn_logs)])
    out, err = capfd.readouterr()
    done = min(number - 1, len(NAMES))

    assert code == 130
    assert len(checked) == number
    assert [name for name in NAMES if f"{name}:\n" in out] == [*NAMES[:done]]
    assert out.count("cut 12 bytes") == out.count("repaired: 1 finding") == done
    assert err.count("\n") == 1
    assert f"repaired {done} of 3 partitions" in err
    assert ("not repaired: " in err) == (done < len(NAMES))
    assert f"`segstore {'recover' if done < len(NAMES) else 'verify'}`" in err
    assert cli.main(["recover", "-q", str(torn_logs)]) == (1 if done < len(NAMES) else 0)
    assert cli.main(["verify", "-q", str(torn_logs)]) == 0
    for name in NAMES:
        with segstore.open(torn_logs / name) as log:
            assert [record.value for record in log] == [b"kept"]


@pytest.mark.parametrize("is_json", [False, True])
def test_ctrl_c_within_a_repair_leaves_that_log_to_the_next_recover(
    torn_logs, monkeypatch, capfd, *, is_json: bool
):
    """[DUR-6, DUR-58] It is named as not repaired, though its open was done."""
    real = RepairSession.open

    def open_and_stop(self, path, **settings):
        log = real(self, path, **settings)
        if path.endswith(NAMES[1]):
            log.close_quietly()
            raise KeyboardInterrupt
        return log

    with monkeypatch.context() as patched:
        patched.setattr(RepairSession, "open", open_and_stop)
        code = cli.main(["recover", "-q", *(["--json"] if is_json else []), str(torn_logs)])
    out, err = capfd.readouterr()

    assert code == 130
    assert (NAMES[0] in out, NAMES[1] in out) == (True, False)
    assert f"not repaired: {torn_logs / NAMES[1]} and 1 more" in err
    if is_json:
        (found,) = map(json.loads, out.splitlines())
        assert (found["truncated_bytes"], len(found["repaired"])) == (12, 1)
    assert cli.main(["recover", "-q", str(torn_logs)]) == 1
    assert cli.main(["verify", "-q", str(torn_logs)]) == 0


# ---- Ctrl-C while pyarrow works ------------------------------------------------------------------
# pyarrow imports pandas, where it is installed, when it is first asked to convert something. Ctrl-C
# in that import ended `segstore export` with an AttributeError or a SystemError of half an import,
# and exit code 1; once it was ignored. The thread that writes imported modules too.

IMPORTS = """
import sys, threading

noted = []

class Watcher:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas" or threading.current_thread() is not threading.main_thread():
            noted.append(name)

sys.meta_path.insert(0, Watcher())
from segstore.cli import main

log, file, back = sys.argv[1:]
codes = [
    main(["export", log, file, "-q", "--verify"]),
    main(["import", file, back, "-q", "--verify"]),
    main(["import", file, back, "-q"]),
]
print(codes, noted, file=sys.stderr)
"""


def test_a_transfer_imports_no_pandas_and_nothing_in_a_thread(tmp_path):
    with segstore.open(tmp_path / "orders-0", durability="none") as log:
        log.append([(b"k", b"v")] * 10)
    places = [tmp_path / name for name in ("orders-0", "out.parquet", "back-0")]
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, *places],
        capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS, env=environment(),
    )  # fmt: skip
    assert done.stderr == "[0, 0, 0] []\n"


FRAMES = """
import sys
import segstore

with segstore.open_dir(sys.argv[1], durability="none") as logs:
    for topic in ("orders", "copies"):
        logs.create_topic(topic, partitions=3)
    logs.append("orders", [(b"%d" % n, b"v") for n in range(1000)])
    logs.append("copies", logs.to_arrow("orders", columns=["key", "value"]))
    rows = logs.to_arrow("copies", order="timestamp").num_rows
print(rows, "pandas" in sys.modules, file=sys.stderr)
"""


def test_a_merge_by_timestamp_and_an_append_of_a_frame_import_no_pandas(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FRAMES, tmp_path / "data"],
        capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS, env=environment(),
    )  # fmt: skip
    assert done.stderr == "1000 False\n"


@pytest.mark.parametrize("nth", [1, 2, 5])
def test_an_export_that_is_interrupted_while_a_thread_writes(tmp_path, monkeypatch, capsys, nth):
    """Exit code 130, no word, and no file."""
    out = tmp_path / "out"
    out.mkdir()
    with segstore.open(tmp_path / "orders-0", durability="none") as log:
        for _ in range(20):
            log.append([(b"k", b"v")] * 10)
    monkeypatch.setattr(parquet_writer, "ROW_GROUP_ROWS", 30)
    monkeypatch.setattr(parquet_writer, "ROWS_AT_ONCE", 10)
    write = parquet_writer._RowGroups._write
    writes = iter(range(1, 1000))

    def interrupted(*arguments: object) -> None:
        if next(writes) == nth:
            os.kill(os.getpid(), signal.SIGINT)
        write(*arguments)

    monkeypatch.setattr(parquet_writer._RowGroups, "_write", interrupted)
    command = ["export", str(tmp_path / "orders-0"), str(out / "out.parquet"), "-q"]
    assert cli.main(command) == 130
    assert capsys.readouterr() == ("", "segstore: interrupted: no file was written\n")
    assert [*out.iterdir()] == []
    assert cli.main(command) == 0


def test_an_import_that_is_interrupted(tmp_path, monkeypatch, capsys):
    """Exit code 130, and what to do next; the same command does the rest."""
    with segstore.open(tmp_path / "orders-0", durability="none") as log:
        for _ in range(20):
            log.append([(b"k", b"v")] * 10)
    file, back = str(tmp_path / "out.parquet"), str(tmp_path / "back-0")
    segstore.export_parquet(tmp_path / "orders-0", file)
    monkeypatch.setattr(partition_import, "ROWS_OF_AN_APPEND", 10)
    assign = partition_import._assign_epochs
    pieces = iter(range(1000))

    def interrupted(*arguments: object) -> None:
        if next(pieces) == 7:
            os.kill(os.getpid(), signal.SIGINT)
        assign(*arguments)

    monkeypatch.setattr(partition_import, "_assign_epochs", interrupted)
    assert cli.main(["import", file, back, "-q"]) == 130
    assert "the same command goes on where the logs end" in capsys.readouterr().err
    with pytest.raises(IllegalStateError, match="the import of this log is not finished"):
        segstore.open(back, read_only=True)
    assert cli.main(["import", file, back, "-q"]) == 0
    assert "130 records written, log end 200" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["export", "import"])
def test_ctrl_c_while_pyarrow_is_imported(tmp_path, monkeypatch, capsys, command):
    """NumPy's import made a RuntimeError of it; now it waits for the end of the import."""
    segstore.open(tmp_path / "orders-0").close()
    segstore.export_parquet(tmp_path / "orders-0", tmp_path / "in.parquet")
    source = tmp_path / {"export": "orders-0", "import": "in.parquet"}[command]
    is_whole = False

    def imported() -> None:
        nonlocal is_whole
        os.kill(os.getpid(), signal.SIGINT)
        is_whole = True

    monkeypatch.setattr(parquet_files, "require_pyarrow", imported)
    assert cli.main([command, str(source), str(tmp_path / "out-0"), "-q"]) == 130
    assert capsys.readouterr() == ("", "")
    assert is_whole
    assert not (tmp_path / "out-0").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_program_s_own_handler_of_ctrl_c_stays():
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        with held_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            assert seen == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("topic", [[], ["-t", "t", "--partitions", "2"]], ids=["log", "topic"])
def test_ctrl_c_in_an_append_of_the_command_line_counts_its_records(
    tmp_path, monkeypatch, capsys, topic
):
    """It said "appended 0 records" of 76,485 that were in the log."""
    reading, writing = os.pipe()
    os.write(writing, b"one\ntwo\nthree\n")  # and no end: it is not read again
    append = UnifiedLog.append

    def interrupted(*arguments: object, **names: object):
        info = append(*arguments, **names)
        os.kill(os.getpid(), signal.SIGINT)
        return info

    monkeypatch.setattr(UnifiedLog, "append", interrupted)
    with os.fdopen(reading) as lines, os.fdopen(writing, "wb"):
        monkeypatch.setattr(sys, "stdin", lines)
        path = tmp_path if topic else tmp_path / "t-0"
        assert cli.main(["append", str(path), *topic]) == 130
    assert capsys.readouterr().err.startswith("appended 3 records, ")


@pytest.mark.parametrize("durability", ["none", "sync"])
@pytest.mark.parametrize("records", [[(b"k", b"v")] * 3, None], ids=["a list", "a frame"])
def test_ctrl_c_in_an_append_to_a_log_says_how_many_records_stay(tmp_path, durability, records):
    """[DUR-131] Before each instruction but the last one, where Python looks for no signal."""
    if records is None:
        records = pytest.importorskip("pyarrow").table({"value": [b"v"] * 3})
    with segstore.open(tmp_path / "t-0", durability=durability) as log:
        log.append(records)
        wrong = []
        for nth in range(1, 1000):
            before = log.log_end_offset
            notes: list[str] = []
            with InterruptedAt(UnifiedLog.append, nth) as interrupt:
                try:
                    log.append(records)
                except KeyboardInterrupt as caught:
                    notes = getattr(caught, "__notes__", [])
            if not interrupt.came:
                break
            end = log.log_end_offset
            said = (
                f"up to 3 records of this append were appended to t-0 before the error, and stay"
                f" there: offsets {before} to {end - 1}"
            )
            if notes != ([said] if end > before else []):
                wrong.append(nth)
        assert nth < 1000
        assert wrong in ([], [nth - 1])
