"""`LogManager.close` by a signal's handler in the midst of an append let go of the directory.

That log could not be closed there, and stayed open for writing without the lock; also one that was
just being opened. Beside another thread's close both waited for ever, and so did a log's own thread
that was told to close what waited for it.
"""

from __future__ import annotations

import threading

import pytest

import segstore
from segstore.errors import LogLockedError
from segstore.log.shutdown import Shutdown
from segstore.log.unified_log import UnifiedLog
from segstore.manager import log_manager
from segstore.manager.pending_closes import PendingCloses
from tests.kits.log_kit import PATIENCE_SECONDS
from tests.regression.test_close_beside_a_close import HeldClose, begun, has_ended


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
    real = log_manager.open_partition

    def opened(*args):
        log = real(*args)
        with pytest.raises(RuntimeError):
            manager.close()  # as by a handler
        return log

    monkeypatch.setattr(log_manager, "open_partition", opened)
    log = manager.log("t", 0)
    assert not manager.closed
    with pytest.raises(LogLockedError):
        segstore.open_dir(tmp_path / "logs")
    manager.close()
    assert log.closed


def test_the_id_of_a_thread_that_ended_is_nobodys(manager, monkeypatch):
    """[DUR-70] The next thread gets the same, and its close came back before the log was closed."""
    log = manager.log("t", 0)
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
