"""`LogManager.close` by a signal's handler in the midst of an append let go of the directory.

That log could not be closed there, and stayed open for writing without the lock; beside another
thread's close both waited for ever. And at the interpreter's end a finalizer waited for threads
that were no more.
"""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import segstore
from segstore.errors import LogLockedError
from segstore.log.unified_log import UnifiedLog
from tests.log_kit import PATIENCE_SECONDS


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


def test_the_id_of_a_thread_that_ended_is_nobodys(manager):
    """[DUR-70] The next thread gets the same, and its close came back before the log was closed."""
    log = manager.log("t", 0)
    ids = []
    log._background.submit(lambda: ids.append(threading.get_ident()))
    assert log._background.wait_until_idle()
    assert ids == [log._background._queue.runner_id]
    log.close()
    assert log._background._queue.runner_id not in ids


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


AT_THE_END = """
import sys, threading, time
import segstore
from segstore.log.unified_log import UnifiedLog

log = segstore.open(sys.argv[1], durability="none")
log.append([(b"key", b"value")])
is_inside = threading.Event()


class Store:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.close()


def wait(*_):
    is_inside.set()
    time.sleep(60)


def held():
    with log._append_lock:
        wait()


store = Store(log)
"""
ENDS = {
    "in its own thread, which waits": """
log._background.submit(is_inside.set)
assert is_inside.wait(10)
""",
    "in its own thread, which does something": """
log._background.submit(wait)
assert is_inside.wait(10)
""",
    "in an append": """
threading.Thread(target=held, daemon=True).start()
assert is_inside.wait(10)
""",
    "in another close": """
UnifiedLog._close_cleanly = wait
threading.Thread(target=log.close, daemon=True).start()
assert is_inside.wait(10)
""",
}


@pytest.mark.parametrize("where", ENDS)
def test_a_finalizer_at_the_end_waits_for_no_thread_that_is_no_more(tmp_path, where):
    """[DUR-70, DUR-103] And the log is whole."""
    path = tmp_path / "t-0"
    command = [sys.executable, "-c", AT_THE_END + ENDS[where], str(path)]
    subprocess.run(command, check=True, timeout=PATIENCE_SECONDS, capture_output=True)
    with segstore.open(path) as log:
        assert log.log_end_offset == 1
        assert log.report.clean == ("waits" in where)
