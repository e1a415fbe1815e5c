"""The thread for what a log does later."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest

from segstore import _core
from segstore.log.files.background import BackgroundWorker


@pytest.fixture
def worker():
    made = BackgroundWorker("test-worker")
    yield made
    made.close()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def test_tasks_run_in_order_on_one_thread_that_starts_with_the_first(worker):
    assert "test-worker" not in threads()
    ran = []
    for number in range(20):
        worker.submit(lambda number=number: ran.append((number, threading.current_thread().name)))
    assert worker.wait_until_idle(60)
    assert ran == [(number, "test-worker") for number in range(20)]


def test_a_delayed_task_lets_others_pass(worker):
    """However slow the machine is: its time does not come here."""
    ran = []
    worker.submit(lambda: ran.append("late"), 3600)
    worker.submit(lambda: ran.append("now"))
    assert worker.wait_until_idle(60)
    assert ran == ["now"]


def test_a_delayed_task_waits_its_time(worker):
    """By the clock that the worker goes by; how much longer it takes is the machine's affair."""
    ran_at = []
    ran = threading.Event()
    began = _core.monotonic_ns()
    worker.submit(lambda: (ran_at.append(_core.monotonic_ns()), ran.set()), 0.05)
    assert ran.wait(60)
    assert ran_at[0] - began >= 50_000_000


def test_a_task_that_raises_does_not_end_the_thread(worker, caplog):
    """[DUR-39] the thread survives; tasks keep their own errors."""
    ran = threading.Event()
    worker.submit(lambda: 1 / 0)
    worker.submit(ran.set)
    assert ran.wait(60)
    assert "background task failed" in caplog.text


def test_close_drops_what_did_not_begin_and_waits_for_what_did(worker):
    began, is_closing, ran = threading.Event(), threading.Event(), []

    def slow() -> None:
        began.set()
        is_closing.wait(60)
        ran.append("slow")

    worker.submit(slow)
    worker.submit(lambda: ran.append("never"))
    assert began.wait(60)
    closer = threading.Thread(target=worker.close)
    closer.start()
    while not worker._queue.is_closed:
        time.sleep(0.001)
    is_closing.set()
    closer.join(60)
    assert not closer.is_alive()
    assert ran == ["slow"]
    assert "test-worker" not in threads()
    worker.close()
    worker.submit(lambda: ran.append("after"))
    assert ran == ["slow"]


def test_a_repeated_method_stops_with_its_object(worker):
    class Owner:
        def __init__(self) -> None:
            self.calls = threading.Semaphore(0)

        def tick(self) -> None:
            self.calls.release()

    owner = Owner()
    calls = owner.calls
    worker.repeat(owner.tick, 0.001)
    for _ in range(3):
        assert calls.acquire(timeout=60)
    is_gone = threading.Event()
    weakref.finalize(owner, is_gone.set)  # the thread may be in a call of it
    del owner
    gc.collect()
    assert is_gone.wait(60)
    assert worker.wait_until_idle(60)
    while calls.acquire(blocking=False):
        pass
    while worker._queue.tasks:  # the call that finds nobody is not followed by another
        assert worker.wait_until_idle(60)
    assert not calls.acquire(blocking=False)


def test_a_worker_that_is_dropped_ends_its_thread():
    """Nothing keeps the owner alive: a forgotten log does not leave a thread behind."""
    worker = BackgroundWorker("dropped-worker")
    worker.submit(lambda: None)
    assert worker.wait_until_idle(60)
    (thread,) = (one for one in threading.enumerate() if one.name == "dropped-worker")
    del worker
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()
