"""The thread for what a log does later."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest

from segstore.log.directory.background import BackgroundWorker


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
    assert worker.wait_until_idle()
    assert ran == [(number, "test-worker") for number in range(20)]


def test_a_delayed_task_waits_its_time_and_lets_others_pass(worker):
    ran = []
    began = time.monotonic()
    later = threading.Event()
    worker.submit(lambda: (ran.append("late"), later.set()), 0.05)
    worker.submit(lambda: ran.append("now"))
    assert worker.wait_until_idle()
    assert ran == ["now"]
    assert later.wait(10)
    assert time.monotonic() - began >= 0.05
    assert ran == ["now", "late"]


def test_a_task_that_raises_does_not_end_the_thread(worker, caplog):
    """[DUR-39] the thread survives; tasks keep their own errors."""
    ran = threading.Event()
    worker.submit(lambda: 1 / 0)
    worker.submit(ran.set)
    assert ran.wait(10)
    assert "background task failed" in caplog.text


def test_close_drops_what_did_not_begin_and_waits_for_what_did(worker):
    began, ran = threading.Event(), []

    def slow() -> None:
        began.set()
        time.sleep(0.05)
        ran.append("slow")

    worker.submit(slow)
    worker.submit(lambda: ran.append("never"), 0.01)
    assert began.wait(10)
    worker.close()
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
        assert calls.acquire(timeout=10)
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    deadline = time.monotonic() + 10
    while gone() is not None and time.monotonic() < deadline:
        time.sleep(0.001)
    assert gone() is None
    time.sleep(0.01)
    while calls.acquire(blocking=False):
        pass
    assert not calls.acquire(timeout=0.02)


def test_a_worker_that_is_dropped_ends_its_thread():
    """Nothing keeps the owner alive: a forgotten log does not leave a thread behind."""
    worker = BackgroundWorker("dropped-worker")
    worker.submit(lambda: None)
    assert worker.wait_until_idle()
    del worker
    gc.collect()
    deadline = time.monotonic() + 10
    while "dropped-worker" in threads() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert "dropped-worker" not in threads()
