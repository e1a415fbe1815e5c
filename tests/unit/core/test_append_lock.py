"""The lock under which a log is changed [CON-1]."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from segstore._core import AppendLock


def test_the_append_lock_lets_one_in():
    """[CON-1]"""
    lock = AppendLock()
    inside = most = 0

    def enter(_: int) -> None:
        nonlocal inside, most
        for _ in range(300):
            with lock:
                inside += 1
                most = max(most, inside)
                time.sleep(0)
                inside -= 1

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(enter, range(4)))
    assert (inside, most, lock.locked()) == (0, 1, False)


def test_the_append_lock_is_let_go_when_something_is_raised():
    """And who does not hold it lets nothing go."""
    lock = AppendLock()
    with pytest.raises(ZeroDivisionError), lock:
        1 / (not lock.locked())
    assert not lock.locked()
    with pytest.raises(RuntimeError, match="not held"):
        lock.__exit__(None, None, None)


def test_the_append_lock_does_not_wait_for_its_own_thread():
    """[CON-1] An error is told; a wait would have no end."""
    lock = AppendLock()
    with lock:
        with pytest.raises(RuntimeError, match="this thread holds"), lock:
            pytest.fail("it is held")
        assert lock.locked()
    with lock:  # and nothing of that stays
        assert lock.locked()


def test_who_holds_an_inner_lock_does_not_get_the_append_lock():
    """[CON-1, DUR-70] Though it is free; others do, and who takes it first."""
    lock, inner = AppendLock(), AppendLock()
    lock.comes_before(inner)
    with inner:
        with pytest.raises(RuntimeError, match="this thread is writing"), lock:
            pytest.fail("it comes first")
        assert not lock.locked()
        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(lock.__enter__).result(10)
            lock.__exit__()
    with lock, inner:
        assert inner.locked()


def test_who_waits_for_the_append_lock_can_be_interrupted():
    """[DUR-70] And has not got it then."""
    lock = AppendLock()
    raised = threading.Event()

    def raise_it(*_: object) -> None:
        raised.set()
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, raise_it)
    holder = threading.Event()
    is_held = threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            holder.wait(10)

    with ThreadPoolExecutor(1) as elsewhere:
        holding = elsewhere.submit(hold)
        assert is_held.wait(10)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(InterruptedError), lock:
                pytest.fail("it is held by another thread")
            assert lock.locked()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            holder.set()
        holding.result(10)
    assert raised.is_set()
    assert not lock.locked()


def test_a_wait_that_was_interrupted_costs_nobody_his_turn():
    """[CON-1, DUR-70] Whoever is woken comes, whatever happens to the others that wait."""
    lock = AppendLock()
    taken = interrupted = 0

    def enter(_: int) -> None:
        nonlocal taken
        for _ in range(150):
            with lock:
                taken += 1
                time.sleep(0.0004)

    def raise_it(*_: object) -> None:
        nonlocal interrupted
        interrupted += 1
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, raise_it)
    try:
        with ThreadPoolExecutor(3) as threads:
            entered = [threads.submit(enter, i) for i in range(3)]
            while not all(one.done() for one in entered):
                with contextlib.suppress(InterruptedError):
                    signal.setitimer(signal.ITIMER_REAL, 0.0003)
                    with lock:
                        pass
                    signal.setitimer(signal.ITIMER_REAL, 0)
            for one in entered:
                one.result(30)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert (taken, lock.locked()) == (450, False)
    assert interrupted > 0
    with lock:  # and it still opens
        assert lock.locked()
