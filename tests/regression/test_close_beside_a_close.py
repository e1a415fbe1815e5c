"""A close came back while another thread still closed the log, and the manager let go of its lock.

Somebody else had the directory then, while the log merged its line into the checkpoints there.
And in a forked child the close of a manager waited for a thread that only the parent has.
"""

from __future__ import annotations

import signal
import threading

import pytest

import segstore
from segstore.errors import ForkedHandleError, LogLockedError
from segstore.log.unified_log import UnifiedLog
from tests.kits.log_kit import PATIENCE_SECONDS, in_a_child

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
