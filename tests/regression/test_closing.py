"""Closes of logs and managers: at once, interrupted, failing, at the interpreter's end."""

from __future__ import annotations

import dis
import errno
import signal
import subprocess
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore.errors import (
    ClosedError,
    ForkedHandleError,
    FsyncFailedError,
    InternalError,
    InvalidEpochError,
    LogLockedError,
    LogReadOnlyError,
)
from segstore.log import recovery_point
from segstore.log.closing import Closing
from segstore.log.files import checkpoint_store
from segstore.log.flusher import Flusher
from segstore.log.local.segment import Segment
from segstore.log.shutdown import Shutdown, suppress_repeated_error
from segstore.log.unified_log import UnifiedLog
from segstore.manager import current_logs
from segstore.manager.current_logs import CurrentLogs
from segstore.manager.log_manager import LogManager
from segstore.manager.owned_log_directory import OwnedLogDirectory
from segstore.manager.pending_closes import PendingCloses
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.failing_scenarios_of_managers import Managed, living_on
from tests.crash.interrupts import Interrupt
from tests.kits.log_kit import PATIENCE_SECONDS, in_a_child, offsets, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore._core import SimulatedDisk


# ---- close at the interpreters end ---------------------------------------------------------------
# At the interpreter's end a finalizer waited for threads that were no more, for ever.
#
# They stop where they are, in the midst of a sync or with a lock. Nothing of a thread may keep the
# object alive that has the finalizer: the functions of the threads have a namespace of their own.


BEGIN = """
import os, sys, threading
import segstore

class Store:
    def __init__(self, closes):
        self.closes = closes

    def __del__(self, write=os.write):
        try:
            self.closes.close()
        except RuntimeError as error:
            assert "the interpreter is shutting down" in str(error)
            write(1, b"refused")
        else:
            write(1, b"closed")

manager = segstore.open_dir(sys.argv[1], durability=sys.argv[2])
if "t" not in manager.topics():
    manager.create_topic("t")
manager.append("t", [(b"key", b"value")])
names = {"manager": manager, "log": manager.log("t", 0), "is_inside": threading.Event()}
exec(sys.argv[4], names)
threading.Thread(target=names["run"], daemon=True).start()
assert names["is_inside"].wait(10)
store = Store(names[sys.argv[3]])
del manager, names
"""
WAITS = """
import time

def wait(*_):
    is_inside.set()
    time.sleep(60)

def run():
"""
ANY, REFUSED = {b"closed", b"refused"}, {b"refused"}
THREADS = {
    "that appends": (
        """
def run():
    while True:
        log.append([(b"key", b"value")])
        is_inside.set()
""",
        ANY,
    ),
    "that flushes": (
        """
def run():
    while True:
        log.append([(b"key", b"value")])
        log.flush()
        is_inside.set()
""",
        ANY,
    ),
    "of its own, which waits": (
        "def run():\n    log._background.submit(is_inside.set)",
        {b"closed"},
    ),
    "of its own, in a task": (WAITS + "    log._background.submit(wait)", REFUSED),
    "in an append": (WAITS + "    with log._append_lock: wait()", REFUSED),
    "in a round of syncs": (WAITS + "    log._flusher.rounds.join(wait)", REFUSED),
    "with the checkpoint": (WAITS + "    with log._flusher._directory_sync.lock: wait()", REFUSED),
    "that closes it": (WAITS + "    log._close_cleanly = wait; log.close()", REFUSED),
    "that moves a partition": (
        WAITS + "    manager._moves._under_way = {'t-0': manager._failures._lock}\n"
        "    with manager._failures._lock: wait()",
        REFUSED,
    ),
    "that opens a log": (WAITS + "    with manager._mutex: wait()", REFUSED),
}


@pytest.mark.parametrize("durability", ["none", "sync"])
@pytest.mark.parametrize("thread", THREADS)
def test_a_finalizer_waits_for_no_thread_that_is_no_more(tmp_path, thread, durability):
    """[DUR-70, DUR-103] It says that it could not close the log, and the log is whole."""
    run, answers = THREADS[thread]
    closes = "manager" if "manager" in run else "log"
    command = [sys.executable, "-c", BEGIN, str(tmp_path), durability, closes, run]
    done = subprocess.run(command, check=True, timeout=PATIENCE_SECONDS, capture_output=True)
    assert done.stdout in answers
    with segstore.open_dir(tmp_path) as manager:
        log = manager.log("t", 0)
        assert log.log_end_offset >= 1
        assert log.report.clean or done.stdout == b"refused"
        assert sum(1 for _ in log) == log.log_end_offset


OUTLIVES = """
import json, sys  # what was imported first is cleared last

import segstore

json.kept = segstore.open(sys.argv[1], durability=sys.argv[2])
json.kept.append([(b"key", b"value")])
sys.kept = json, sys.modules["segstore.log.unified_log"]
"""


@pytest.mark.parametrize("durability", ["none", "sync", "seconds=1"])
def test_a_log_that_outlives_its_modules_complains_of_nothing(tmp_path, durability):
    """[DUR-70] It was not closed: the process lets go of it, and the next open recovers it."""
    command = [sys.executable, "-c", OUTLIVES, str(tmp_path / "t-0"), durability]
    done = subprocess.run(command, check=True, timeout=PATIENCE_SECONDS, capture_output=True)
    assert done.stderr == b""
    with segstore.open(tmp_path / "t-0") as log:
        assert log.log_end_offset == 1


# ---- close beside a close ------------------------------------------------------------------------
# A close came back while another thread still closed the log, and the manager let go of its lock.
#
# Somebody else had the directory then, while the log merged its line into the checkpoints there.
# And in a forked child the close of a manager waited for a thread that only the parent has.


A_MOMENT = 0.3
MARKER = ".kafka_cleanshutdown"


class HeldClose:
    """Holds a log's close in its midst, in a thread of its own, until it is to go on."""

    def __init__(self, monkeypatch, log):
        self.is_inside, self.may_go_on = threading.Event(), threading.Event()
        self.meanwhile = lambda: None
        real = type(log)._close_cleanly

        def close_cleanly(closing):
            if closing is log:
                self.is_inside.set()
                assert self.may_go_on.wait(PATIENCE_SECONDS)
                self.meanwhile()
            real(closing)

        monkeypatch.setattr(UnifiedLog, "_close_cleanly", close_cleanly)
        self.thread = threading.Thread(target=log.close, daemon=True)
        self.thread.start()
        assert self.is_inside.wait(PATIENCE_SECONDS)

    def go_on(self):
        self.may_go_on.set()
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()


def begun(call):
    """Return a thread that does *call*, and has had the time to come back from it."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(A_MOMENT)
    return thread


def has_ended(thread):
    thread.join(PATIENCE_SECONDS)
    return not thread.is_alive()


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_manager_waits_for_the_log_that_another_thread_closes(
    manager, tmp_path, monkeypatch, is_forgotten
):
    """[DUR-65, DUR-70] Also for one that it does not know by its name any more."""
    held = HeldClose(monkeypatch, manager.log("t", 0))
    if is_forgotten:  # the open logs are looked through for one that is not there yet
        manager.create_topic("other")
    closing = begun(manager.close)
    assert closing.is_alive()
    assert not manager.closed
    with pytest.raises(LogLockedError):
        segstore.open_dir(tmp_path / "logs")
    held.go_on()
    assert has_ended(closing)
    assert manager.closed
    assert (tmp_path / "logs" / MARKER).exists()
    with segstore.open_dir(tmp_path / "logs") as again:
        assert all(again.log("t", number).report.clean for number in range(2))


def test_a_close_waits_for_that_of_another_thread(tmp_path, monkeypatch):
    """[DUR-70] Who comes back from it can open the log again."""
    log = segstore.open(tmp_path / "t-0", durability="none")
    log.append([(b"key", b"value")])
    held = HeldClose(monkeypatch, log)
    closing = begun(log.close)
    assert closing.is_alive()
    held.go_on()
    assert has_ended(closing)
    with segstore.open(tmp_path / "t-0") as again:
        assert again.report.clean


@pytest.mark.parametrize("what", ["log", "manager"])
def test_a_wait_that_is_interrupted_leaves_all_to_the_next_close(
    manager, tmp_path, monkeypatch, what
):
    """[DUR-70] Control-C, where another thread closes the log."""
    log = manager.log("t", 0)
    held = HeldClose(monkeypatch, log)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, A_MOMENT)
    try:
        with pytest.raises(KeyboardInterrupt):
            {"log": log, "manager": manager}[what].close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not manager.closed
    held.go_on()
    manager.close()
    assert manager.closed
    assert (tmp_path / "logs" / MARKER).exists()


def test_a_manager_is_not_closed_from_the_midst_of_a_logs_close(manager, tmp_path, monkeypatch):
    """[DUR-65] As by a signal's handler: the log still writes behind it."""
    held = HeldClose(monkeypatch, manager.log("t", 0))
    closing = begun(manager.close)  # which waits for who would wait for it
    held.meanwhile = manager.close
    held.go_on()
    assert has_ended(closing)
    assert (tmp_path / "logs" / MARKER).exists()


def test_a_handlers_close_of_the_manager_in_a_logs_close_keeps_the_directory(
    manager, tmp_path, monkeypatch
):
    """[DUR-65, DUR-70] The next close does what it could not."""
    seen = []
    held = HeldClose(monkeypatch, manager.log("t", 0))

    def close_the_manager():
        manager.close()
        seen.append(manager.closed)

    held.meanwhile = close_the_manager
    held.go_on()
    assert seen == [False]
    manager.close()
    assert (tmp_path / "logs" / MARKER).exists()


@pytest.mark.parametrize("where", ["append", "round"])
def test_who_is_awaited_by_a_close_is_told(tmp_path, where):
    """[CON-4] A handler's close amid an append, while another thread closes the log."""
    log = segstore.open(tmp_path / "t-0", durability="sync")
    log.append([(b"key", b"value")])
    closing = []

    def close_beside_a_close():
        closing.append(begun(log.close))
        assert closing[0].is_alive()
        with pytest.raises(RuntimeError, match="wait for"):
            log.close()

    if where == "append":
        with log._append_lock:
            close_beside_a_close()
    else:
        log._flusher.rounds.join(close_beside_a_close)
    assert has_ended(closing[0])
    with segstore.open(tmp_path / "t-0") as again:
        assert again.report.clean


def test_a_task_of_a_log_that_is_closed_does_not_wait_for_its_own_end(tmp_path):
    """[DUR-70] Nor a finalizer that closes the log in its thread."""
    log = segstore.open(tmp_path / "t-0", durability="none")
    log.append([(b"key", b"value")])
    has_begun, is_closing = threading.Event(), threading.Event()

    def close_there():
        has_begun.set()
        assert is_closing.wait(PATIENCE_SECONDS)
        log.close()

    log._background.submit(close_there)
    assert has_begun.wait(PATIENCE_SECONDS)
    closing = begun(log.close)
    is_closing.set()
    assert has_ended(closing)
    with segstore.open(tmp_path / "t-0") as again:
        assert again.report.clean


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent(manager):
    """[DUR-68] One that was opening a log, at the fork."""
    has_it, may_go_on = threading.Event(), threading.Event()

    def hold():
        with manager._mutex:
            has_it.set()
            assert may_go_on.wait(PATIENCE_SECONDS)

    def close_there():
        signal.alarm(5)  # which ends it where it waits
        with pytest.raises(ForkedHandleError):
            manager.close()

    holding = threading.Thread(target=hold)
    holding.start()
    assert has_it.wait(PATIENCE_SECONDS)
    status = in_a_child(close_there)
    may_go_on.set()
    holding.join()
    assert status == 0


# ---- close by a handler --------------------------------------------------------------------------
# `LogManager.close` by a signal's handler in the midst of an append let go of the directory.
#
# That log could not be closed there, and stayed open for writing without the lock; also one that
# was just being opened. Beside another thread's close both waited for ever, and so did a log's own
# thread that was told to close what waited for it.


def test_in_the_midst_of_an_append_nothing_is_closed(manager, tmp_path):
    """[DUR-65, DUR-70]"""
    logs = [manager.log("t", number) for number in range(2)]
    with logs[0]._append_lock, pytest.raises(RuntimeError):
        manager.close()
    assert not manager.closed
    assert not any(log.closed for log in logs)
    with pytest.raises(LogLockedError):
        segstore.open_dir(tmp_path / "logs")
    logs[0].append([(b"key", b"after")])
    manager.close()
    assert all(log.closed for log in logs)


def test_in_the_midst_of_an_append_nobody_waits_for_another_close(manager):
    """[DUR-70] That one waits for the append."""
    log = manager.log("t", 0)
    closing = threading.Thread(target=manager.close, daemon=True)
    with log._append_lock:
        closing.start()
        closing.join(0.3)
        with pytest.raises(RuntimeError):
            manager.close()
    closing.join(PATIENCE_SECONDS)
    assert manager.closed


def test_the_thread_of_a_log_does_not_wait_for_the_managers_close(manager, monkeypatch):
    """[DUR-70] That one waits for it."""
    first, second = (manager.log("t", number) for number in range(2))
    real = UnifiedLog._close_cleanly
    is_inside, may_go_on, is_back = threading.Event(), threading.Event(), threading.Event()

    def close_cleanly(self) -> None:
        if self is first:
            is_inside.set()
            assert may_go_on.wait(PATIENCE_SECONDS)
        real(self)

    def close_both() -> None:
        manager.close()
        is_back.set()

    monkeypatch.setattr(UnifiedLog, "_close_cleanly", close_cleanly)
    closing = threading.Thread(target=manager.close, daemon=True)
    closing.start()
    assert is_inside.wait(PATIENCE_SECONDS)
    second._background.submit(close_both)
    assert is_back.wait(PATIENCE_SECONDS)
    may_go_on.set()
    closing.join(PATIENCE_SECONDS)
    assert manager.closed


def test_while_a_log_is_opened_nothing_is_closed(manager, tmp_path, monkeypatch):
    """[DUR-65] It was open for writing behind that, and the directory was anybody's."""
    manager.close()
    manager = segstore.open_dir(tmp_path / "logs", durability="none")
    real = current_logs.open_partition

    def opened(*args):
        log = real(*args)
        with pytest.raises(RuntimeError):
            manager.close()  # as by a handler
        return log

    monkeypatch.setattr(current_logs, "open_partition", opened)
    log = manager.log("t", 0)
    assert not manager.closed
    with pytest.raises(LogLockedError):
        segstore.open_dir(tmp_path / "logs")
    manager.close()
    assert log.closed


def test_the_id_of_a_thread_that_ended_is_nobodys(tmp_path, monkeypatch):
    """[DUR-70] The next thread gets the same, and its close came back before the log was closed."""
    log = segstore.open(tmp_path / "t-0")  # the threads of a manager outlive the log
    ids = []
    log._background.submit(lambda: ids.append(threading.get_ident()))
    assert log._background.wait_until_idle()
    held = HeldClose(monkeypatch, log)  # behind the end of that thread
    seen = {}

    def look() -> None:
        seen[threading.get_ident()] = log._background.runs_this_thread()

    for _ in range(1000):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        if ids[0] in seen:
            break
    assert seen[ids[0]] is False
    held.go_on()


class ClosesWhenDropped:
    """As an application's object that has a log."""

    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.close()

    def look(self):
        """Do what a task does."""


def test_a_finalizer_in_the_last_steps_of_a_logs_thread(manager):
    """[DUR-70] A task that is dropped may own what closes the log: its close waited for itself."""
    log = manager.log("t", 0)
    log._background.submit(ClosesWhenDropped(log).look, delay_seconds=3600)
    assert log._background.wait_until_idle()
    assert has_ended(begun(log.close))


@pytest.mark.parametrize("call", ["close", "delete"])
def test_a_wait_ends_where_its_end_would_not_come(manager, monkeypatch, call):
    """[DUR-70] Whose thread is waited for was seen before the other close began."""
    log = manager.log("t", 0)
    real = Shutdown.run
    errors, is_back = [], threading.Event()

    def run(shutdown, end) -> bool:
        if shutdown.waits_for_this_thread():  # the log's own: let the other one be first
            closing.start()
            while not shutdown._lock.locked():
                assert closing.is_alive()
            monkeypatch.undo()
        return real(shutdown, end)

    def end() -> None:
        try:
            getattr(log, call)()
        except RuntimeError as error:
            errors.append(str(error))
        is_back.set()

    monkeypatch.setattr(Shutdown, "run", run)
    closing = threading.Thread(target=log.close, daemon=True)
    log._background.submit(end)
    assert is_back.wait(PATIENCE_SECONDS)
    assert has_ended(closing)
    assert len(errors) == (call == "delete")  # nothing was removed


def test_a_log_that_waits_for_the_managers_close_keeps_the_directory(
    manager, tmp_path, monkeypatch
):
    """[DUR-65, DUR-70] The manager forgot it, and let go, while it was still being closed."""
    log = manager.log("t", 0)
    real = PendingCloses.close
    seen, is_back = [], threading.Event()

    def close_logs(to_close) -> bool:
        monkeypatch.undo()
        closing.start()
        while not log.shutdown._lock.locked():
            assert closing.is_alive()
        return real(to_close)

    def close_there() -> None:
        manager.close()
        seen.append(manager.closed)
        is_back.set()

    monkeypatch.setattr(PendingCloses, "close", close_logs)
    closing = threading.Thread(target=log.close, daemon=True)
    log._background.submit(close_there)
    assert is_back.wait(PATIENCE_SECONDS)
    assert seen == [False]
    assert has_ended(closing)
    with pytest.raises(LogLockedError):
        segstore.open_dir(tmp_path / "logs")
    manager.close()
    assert manager.closed
    with segstore.open_dir(tmp_path / "logs") as again:
        assert all(again.log("t", number).report.clean for number in range(2))


def test_the_thread_of_a_log_that_waits_for_an_append_beside_its_close(manager):
    """[DUR-70] Of two who wait for the same append, one ends the log, and waits for the other."""
    log = manager.log("t", 0)
    closing = threading.Thread(target=log.close, daemon=True)
    is_called, is_back = threading.Event(), threading.Event()

    def close() -> None:
        is_called.set()
        log.close()
        is_back.set()

    with log._append_lock:
        closing.start()
        log._background.submit(close)
        assert is_called.wait(PATIENCE_SECONDS)
    assert is_back.wait(PATIENCE_SECONDS)
    closing.join(PATIENCE_SECONDS)
    assert not closing.is_alive()


# ---- flush beside a close ------------------------------------------------------------------------
# ``flush()`` in one thread and ``close()`` in another wrote the same ``.tmp``, both at once.
#
# The recovery point went to disk under the flusher's lock in one place and without it in the other:
# one rename took the file away that the other was to rename, and the close was none.


class OneWriter:
    """Stands for ``write_offset``; the first call is slow, and no other may begin meanwhile."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.was_joined = threading.Event()
        self._write = recovery_point.write_offset
        self._running = 0

    def __call__(self, *arguments: Any) -> None:
        is_first = not self.has_begun.is_set()
        self._running += 1
        if self._running > 1:
            self.was_joined.set()
        self.has_begun.set()
        if is_first:
            self.was_joined.wait(0.3)
        try:
            self._write(*arguments)
        finally:
            self._running -= 1


def test_a_flush_beside_a_close_leaves_a_clean_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """[DUR-21, DUR-24] The close waits for the flush that writes the recovery point."""
    writer = OneWriter()
    monkeypatch.setattr(recovery_point, "write_offset", writer)
    monkeypatch.setattr(checkpoint_store, "write_offset", writer)
    log = segstore.open(tmp_path / "orders-0", durability="none")
    log.append([(b"key", b"value")])
    flushing = threading.Thread(target=log.flush)
    flushing.start()
    assert writer.has_begun.wait(10)
    log.close()
    flushing.join()

    assert not writer.was_joined.is_set()
    with segstore.open(tmp_path / "orders-0") as log:
        assert log.report.clean


def test_a_flush_that_comes_after_the_last_sync_writes_nothing(tmp_path: Path):
    """[DUR-24] The recovery point is the close's, from before it is marked clean."""
    log = segstore.open(tmp_path / "orders-0", durability="none")
    log.append([(b"key", b"value")])
    places = log._checkpoint_store
    mark_clean, late = places.mark_clean, []

    def mark_after_a_flush(*arguments: Any) -> None:
        try:
            log._flusher.write_recovery_point()
        except segstore.ClosedError as error:
            late.append(error)
        mark_clean(*arguments)

    places.mark_clean = mark_after_a_flush
    log.close()

    assert len(late) == 1


# ---- interrupted close ---------------------------------------------------------------------------
# Control-C in a close left the lock of a log behind that called itself closed.
#
# A second close did nothing, and nobody could write the log while the old handle was kept.


ENDS_OF_A_CLOSE = {
    "close": (UnifiedLog.close, Closing.end, Closing._end_alone),
    "close_quietly": (UnifiedLog.close_quietly, Closing.end, Closing._end_alone),
    "delete": (UnifiedLog.delete, Closing._end_alone),
}


def lines_of(functions):
    """Yield each line of each, but for the first ones."""
    for function in functions:
        code = function.__code__
        for line in sorted({line for _, line in dis.findlinestarts(code)} - {code.co_firstlineno}):
            yield code, line


def interrupting(code, line):
    """Return a tracer that raises where *line* of *code* begins, once."""
    is_over = False

    def trace_line(frame, event, _):
        nonlocal is_over
        if event == "line" and frame.f_lineno == line and not is_over:
            is_over = True
            raise KeyboardInterrupt
        return trace_line

    def trace(frame, _, __):
        return trace_line if frame.f_code is code else None

    return trace


@pytest.mark.parametrize("how", ENDS_OF_A_CLOSE)
def test_an_interrupted_close_of_a_log_is_finished_by_the_next(tmp_path, how):
    """[DUR-70] And what was acknowledged is there."""
    interrupts = 0
    for number, (code, line) in enumerate(lines_of(ENDS_OF_A_CLOSE[how])):
        path, before = tmp_path / f"t-{number}", sys.gettrace()
        log = segstore.open(path, durability="sync")
        log.append([(None, b"x")] * 3)
        sys.settrace(interrupting(code, line))
        try:
            getattr(log, how)()
        except KeyboardInterrupt:
            interrupts += 1
        finally:
            sys.settrace(before)
        log.close()
        assert log.closed
        with segstore.open(path) as again:
            assert [record.value for record in again] in (
                [b"x"] * 3,
                [b"x"] * 3 * (how != "delete"),
            )
    assert interrupts > 1


def test_a_close_of_a_log_within_another_does_nothing(tmp_path, monkeypatch):
    """[DUR-70] As that of a signal's handler; the first one writes the clean marker."""
    log = segstore.open(tmp_path / "t-0", durability="sync")
    log.append([(None, b"x")])
    real = log._take_last_snapshot

    def take_last_snapshot():
        log.close()
        log.close_quietly()
        real()

    with monkeypatch.context() as patched:
        patched.setattr(log, "_take_last_snapshot", take_last_snapshot)
        log.close()
    with segstore.open(tmp_path / "t-0") as again:
        assert again.report.clean


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_finishes_no_close_of_its_parent(tmp_path, monkeypatch):
    """[DUR-68, DUR-70] It waited for threads that it does not have."""
    log = segstore.open(tmp_path / "t-0", durability="sync")
    log.append([(None, b"x")])

    def interrupted(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(log._background), "close", interrupted)
        patched.setattr(Closing, "_close_all", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.close()

    def close_there():
        signal.alarm(20)  # which ends it where it waits
        with pytest.raises(ForkedHandleError):
            log.close()

    assert in_a_child(close_there) == 0
    log.close()


# ---- interrupted close of a manager --------------------------------------------------------------
# Control-C in a close of a log directory kept its lock, in a manager that called itself closed.
#
# A second close did nothing: the logs that were left were never closed, and nobody could write in
# the directory while the process lived.


STEPS = {
    step.__code__
    for step in (
        LogManager.close,
        LogManager._close_alone,
        LogManager._release,
        CurrentLogs.note_new_names,
        Shutdown.run,
        PendingCloses.__init__,
        PendingCloses.close,
        OwnedLogDirectory.mark_clean,
        OwnedLogDirectory.release,
    )
}


class InterruptOfTheManager(Interrupt):
    """One behind a call that the manager's own steps make."""

    def _enter(self, frame, event, argument):
        return super()._enter(frame, event, argument) if frame.f_code in STEPS else None


def manager_of(path):
    """Return a manager of two logs, one of which has another name by now."""
    manager = segstore.open_dir(path, durability="none")
    manager.create_topic("t", 2)
    for number in range(2):
        manager.append("t", [(None, b"x")], partition=number)
    manager.log("t", 0).rename_dir("t-9")
    return manager


def opens_clean(path):
    with segstore.open_dir(path) as manager:
        return {number: manager.log("t", number).report.clean for number in (1, 9)}


def test_an_interrupted_close_of_a_manager_is_finished_by_the_next(tmp_path):
    """[DUR-24, DUR-70] Behind any call of the manager's own."""
    places = []
    while True:
        path = tmp_path / f"{len(places)}"
        manager = manager_of(path)
        logs = list(manager._directories[0].logs.by_name.values())
        interrupt = InterruptOfTheManager(len(places) + 1)
        interrupt.run(manager.close)
        if interrupt.place is None:
            break
        places.append(interrupt.place)
        manager.close()
        assert manager.closed, interrupt.place
        assert all(log.closed for log in logs), interrupt.place
        assert opens_clean(path) == {1: True, 9: True}, interrupt.place
    assert len(places) > 10
    assert (path / MARKER).exists()


def test_what_an_interrupt_leaves_belongs_to_the_manager(tmp_path, monkeypatch):
    """[DUR-24, DUR-65] The log that was being closed is recovered; nothing else is to be."""
    manager, ended = manager_of(tmp_path), []
    real = UnifiedLog._close_cleanly

    def close_cleanly(log):
        ended.append(log)
        if len(ended) == 1:
            raise KeyboardInterrupt
        real(log)

    with monkeypatch.context() as patched:
        patched.setattr(UnifiedLog, "_close_cleanly", close_cleanly)
        with pytest.raises(KeyboardInterrupt):
            manager.close()
        assert not manager.closed
        with pytest.raises(ClosedError):
            manager.topics()
        with pytest.raises(LogLockedError):
            segstore.open_dir(tmp_path)
        manager.close()
    assert manager.closed
    assert len(ended) == 2
    assert not (tmp_path / MARKER).exists()
    interrupted = ended[0].topic_partition.partition
    assert opens_clean(tmp_path) == {1: interrupted != 1, 9: interrupted != 9}


def test_an_interrupt_does_not_hide_a_log_that_could_not_be_closed(tmp_path, monkeypatch):
    """[DUR-24] The second close raises what nobody was told of, and leaves no marker."""
    manager, ended = manager_of(tmp_path), []

    def close_cleanly(log):
        ended.append(log)
        raise ValueError("broken") if len(ended) == 1 else KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(UnifiedLog, "_close_cleanly", close_cleanly)
        with pytest.raises(KeyboardInterrupt):
            manager.close()
        with pytest.raises(ValueError, match="broken"):
            manager.close()
        manager.close()
    assert manager.closed
    assert not (tmp_path / MARKER).exists()
    assert opens_clean(tmp_path) == {1: False, 9: False}


def test_a_close_of_a_manager_within_another_does_nothing(tmp_path, monkeypatch):
    """[DUR-70] As that of a signal's handler."""
    manager = manager_of(tmp_path)
    real = UnifiedLog._close_cleanly

    def close_cleanly(log):
        manager.close()
        assert not manager.closed
        real(log)

    with monkeypatch.context() as patched:
        patched.setattr(UnifiedLog, "_close_cleanly", close_cleanly)
        manager.close()
    assert manager.closed
    assert (tmp_path / MARKER).exists()


# ---- with and a close that fails -----------------------------------------------------------------
# ``with`` replaced a failed sync by "the log is read-only": who caught the sync's error never did.
#
# The close at its end cannot do its work for the same cause. Found by a new user.


ONE_OF_A_BLOCK = [(None, b"v")]


@pytest.fixture
def disk() -> SimulatedDisk:
    return new_disk()


def failing_append(disk: SimulatedDisk, log: segstore.UnifiedLog) -> None:
    disk.fail("sync_data", 1, errno.EIO)
    log.append(ONE_OF_A_BLOCK)


def within(log: segstore.UnifiedLog, act: Callable[[], object]) -> None:
    with log:
        act()


def test_the_error_of_the_block_comes_out(disk):
    """[DUR-35] And what the close said is its note."""
    log = open_log(disk, durability="sync")
    with pytest.raises(FsyncFailedError) as caught:
        within(log, lambda: failing_append(disk, log))

    (note,) = [text for text in caught.value.__notes__ if "the close failed too" in text]
    assert "the log takes no changes since an earlier error" in note


def test_the_error_of_the_close_alone_comes_out(disk):
    """[DUR-35] The block had dealt with its own."""
    log = open_log(disk, durability="sync")

    def act() -> None:
        with pytest.raises(FsyncFailedError):
            failing_append(disk, log)

    with pytest.raises(LogReadOnlyError):
        within(log, act)


ENDS_OF_A_BLOCK = {
    "an error": KeyError("mine"),
    "an exit": SystemExit(0),
    "a generator that is closed": GeneratorExit(),
    "an error of this library": InvalidEpochError("of another call"),
}


@pytest.mark.parametrize("error", ENDS_OF_A_BLOCK.values(), ids=ENDS_OF_A_BLOCK)
def test_a_sync_that_fails_at_the_end_comes_out(error):
    """[DUR-35] However the block ends: what was appended may not be on the disk."""
    disk = new_disk()
    log = open_log(disk, durability="none")

    def act() -> None:
        log.append(ONE_OF_A_BLOCK)
        disk.fail("sync_data", 1, errno.EIO, for_ever=True)
        raise error

    with pytest.raises(FsyncFailedError) as caught:
        within(log, act)
    assert caught.value.__context__ is error


def test_so_does_one_that_nobody_was_told_of():
    """[DUR-35, DUR-38] The error of the block has another cause than the log's."""
    disk = new_disk()
    log = open_log(disk, durability="sync")

    def act() -> None:
        with pytest.raises(FsyncFailedError):
            failing_append(disk, log)
        raise InvalidEpochError("of another call")

    with pytest.raises(LogReadOnlyError):
        within(log, act)


def test_of_a_manager_too(tmp_path, monkeypatch):
    """[DUR-38] The echo of what the block had raised is its note; all else comes out."""
    manager = segstore.LogManager(tmp_path)
    close, failure = manager.close, FsyncFailedError("on purpose")

    def closing() -> None:
        close()
        raise LogReadOnlyError("the echo") from failure

    def act() -> None:
        raise failure

    monkeypatch.setattr(manager, "close", closing)
    with pytest.raises(FsyncFailedError) as caught:
        within(manager, act)
    assert caught.value.__notes__ == ["the close failed too: the echo"]
    with pytest.raises(LogReadOnlyError):
        within(manager, lambda: {}["mine"])


@pytest.mark.parametrize(("dead", "bad"), ["ab", "ba"])
def test_a_manager_tells_of_each_of_its_logs(dead, bad):
    """[DUR-35, DUR-38] One log ends the block, and the sync of another fails at the close."""
    disk = new_disk()
    with living_on(disk):
        manager = Managed(disk, durability="none").manager()
        for topic in (dead, bad):
            manager.create_topic(topic)
            manager.log(topic, 0).append(ONE_OF_A_BLOCK)

        def act() -> None:
            disk.fail("sync_data", 1, errno.EIO, for_ever=True)
            with manager.log(dead, 0)._failure_mark.poisoned_by():
                raise InternalError("on purpose")

        with pytest.raises((FsyncFailedError, LogReadOnlyError)) as caught:
            within(manager, act)
    assert "sync_data" in " ".join([str(caught.value), *caught.value.__notes__])


def test_causes_in_a_circle_end():
    """Python lets an error be its own cause."""
    error = KeyError("mine")
    error.__cause__ = error
    with pytest.raises(LogReadOnlyError), suppress_repeated_error(error):
        raise LogReadOnlyError("the echo") from FsyncFailedError("of another")


# ---- who may write -------------------------------------------------------------------------------
# Writers that were let go too early: by close_quietly, by a truncation, by the collector.
#
# And failures of the background thread, of which nobody heard [DUR-13, DUR-15, DUR-39, DUR-65..70].


ONE_OF_A_WRITER = [(None, b"x")]


def test_close_quietly_waits_for_an_append_that_is_inside(tmp_path, monkeypatch):
    """[DUR-65, DUR-70] A second writer was let in while the first was still in its write."""
    log = segstore.open(tmp_path / "topic-0", durability="none")
    inside, may_write = threading.Event(), threading.Event()
    real = Segment.append

    def slow(segment, batches, headers):
        inside.set()
        assert may_write.wait(20)
        real(segment, batches, headers)

    monkeypatch.setattr(Segment, "append", slow)
    appending = threading.Thread(target=log.append, args=(ONE_OF_A_WRITER,))
    appending.start()
    assert inside.wait(20)
    closing = threading.Thread(target=log.close_quietly)
    closing.start()
    time.sleep(0.05)
    with pytest.raises(LogLockedError):
        segstore.open(tmp_path / "topic-0")
    may_write.set()
    appending.join(20)
    closing.join(20)
    monkeypatch.undo()

    with segstore.open(tmp_path / "topic-0") as again:
        assert again.append(ONE_OF_A_WRITER).base_offset == 1
        assert offsets(again) == [0, 1]


def test_close_quietly_waits_for_a_sync_and_refuses_later_ones(tmp_path, monkeypatch):
    """[DUR-15] What was not synced is not acknowledged, and writes no checkpoint any more."""
    log = segstore.open(tmp_path / "topic-0", durability="sync")
    syncing, may_sync = threading.Event(), threading.Event()
    real = Flusher._sync_segment

    def slow(flusher, segment, *, indexes):
        syncing.set()
        assert may_sync.wait(20)
        real(flusher, segment, indexes=indexes)

    monkeypatch.setattr(Flusher, "_sync_segment", slow)
    answers = []

    def write() -> None:
        try:
            answers.append(log.append(ONE_OF_A_WRITER).base_offset)
        except ClosedError as error:
            answers.append(type(error))

    threads = [threading.Thread(target=write) for _ in range(2)]
    threads[0].start()
    assert syncing.wait(20)
    threads[1].start()
    wait_for(lambda: log._lane_switch.lane.next_offset == 2)  # readers see it when its sync begins
    threads.append(threading.Thread(target=log.close_quietly))
    threads[2].start()
    while not log._flusher._directory_sync.has_ended:
        time.sleep(0.001)
    with pytest.raises(LogLockedError):
        segstore.open(tmp_path / "topic-0")
    may_sync.set()
    for thread in threads:
        thread.join(20)

    assert answers == [0, ClosedError]


def test_a_truncation_lets_nobody_go_without_a_sync(new_log, monkeypatch):
    """[DUR-13, DUR-15] An append that waited was acknowledged unsynced when others truncated."""
    log = new_log(durability="sync")
    log.append(ONE_OF_A_WRITER)
    synced: list[int] = []
    leading, may_lead = threading.Event(), threading.Event()
    real = Segment.flush

    def flush(segment, barrier, *, indexes=False):
        size = segment.size_bytes
        if threading.current_thread() is threads[0]:
            leading.set()
            assert may_lead.wait(20)
        real(segment, barrier, indexes=indexes)
        synced.append(size)

    infos = []
    threads = [
        threading.Thread(
            target=lambda: infos.append((log.append(ONE_OF_A_WRITER).base_offset, max(synced)))
        )
        for _ in range(2)
    ]
    monkeypatch.setattr(Segment, "flush", flush)
    threads[0].start()
    assert leading.wait(20)
    threads[1].start()
    wait_for(lambda: log._lane_switch.lane.next_offset == 3)
    size = log.segments()[0].size_bytes
    monkeypatch.setattr(log._flusher, "segment_was_sealed", lambda *_: None)
    log.roll()
    with log._append_lock:
        log._truncation._truncate(3)
    assert max(synced) == size  # before anybody is let go
    may_lead.set()
    for thread in threads:
        thread.join(20)
    assert sorted(offset for offset, _ in infos) == [1, 2]
    assert all(reached == size for _, reached in infos)


def test_an_unexpected_failure_behind_the_scenes_is_told(new_log, monkeypatch):
    """[DUR-39] By the next change, and by close."""
    log = new_log()
    log.append(ONE_OF_A_WRITER)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("unexpected")

    monkeypatch.setattr(log._flusher, "_sync_segment", fail)
    log.roll()
    assert log._background.wait_until_idle()
    with pytest.raises(LogReadOnlyError, match="unexpected"):
        log.append(ONE_OF_A_WRITER)
    with pytest.raises(LogReadOnlyError, match="unexpected"):
        log.close()


@pytest.mark.filterwarnings("ignore:the log:ResourceWarning")
def test_a_dropped_log_keeps_its_lock_while_its_thread_writes(tmp_path):
    """[DUR-65]"""
    path = tmp_path / "topic-0"
    log = segstore.open(path, durability="none")
    running, may_end = threading.Event(), threading.Event()

    def task() -> None:
        running.set()
        assert may_end.wait(20)

    log._background.submit(task)
    assert running.wait(20)
    del log
    with pytest.raises(LogLockedError):
        segstore.open(path)
    may_end.set()
    deadline = time.monotonic() + 20
    while True:
        try:
            segstore.open(path).close()
            break
        except LogLockedError:
            assert time.monotonic() < deadline
            time.sleep(0.005)


def test_a_log_that_a_reader_drops_during_a_close(tmp_path: Path, monkeypatch):
    """[DUR-70] `close` looks at the logs without the mutex; one more comes while it looks."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders", 2)
    reader = segstore.open_dir(tmp_path, read_only=True)
    current = reader._directories[0].logs
    arriving = [reader.log("orders", 1)]
    kept = reader.log("orders", 0)

    class Growing(weakref.WeakSet):
        def __iter__(self):
            for one in super().__iter__():
                if arriving:
                    self.add(arriving.pop())
                yield one

    monkeypatch.setattr(current, "_gone", Growing([kept]))
    reader.close()

    assert not arriving
    assert kept.closed
