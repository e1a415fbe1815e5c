"""What many logs do later: on a few threads, or in the thread of a caller whose clock is moved."""

from __future__ import annotations

import gc
import itertools
import threading
import time
import weakref
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore import _core
from segstore._core import Environment
from segstore.manager import task_pool
from segstore.manager.task_pool import Clock, TaskPool
from tests.crash.interrupts import Interrupt

if TYPE_CHECKING:
    from collections.abc import Iterator

BEGIN_MS = 1_700_000_000_000


class Owner:
    """Something with a method that is repeated."""

    def __init__(self) -> None:
        self.calls = threading.Semaphore(0)
        self.count = 0
        self.fails = False

    def tick(self) -> None:
        self.count += 1
        self.calls.release()
        if self.fails:
            raise OSError("it failed")


def moved_clock() -> Clock:
    return Clock(Environment.with_wall_clock(BEGIN_MS))


@pytest.fixture
def held() -> Iterator[TaskPool]:
    """Nothing runs by itself, and the clock hardly moves."""
    pool = TaskPool(moved_clock(), 0)
    yield pool
    pool.close()


@pytest.fixture
def threaded() -> Iterator[TaskPool]:
    pool = TaskPool(moved_clock(), 4)
    yield pool
    pool.close()


def run_at(pool: TaskPool, now_ms: int) -> int:
    pool._pool.clock.move_to(now_ms)
    return pool.run_due()[0]


def background_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if "segstore-background" in one.name]


def test_a_clock_goes_on_and_is_moved_on_but_never_back():
    """[MGR-38] The wall clock of the system may be set meanwhile."""
    environment = Environment.with_wall_clock(BEGIN_MS)
    clock = Clock(environment)
    environment.wall_clock_ms = 5
    assert BEGIN_MS <= clock.now_ms() < BEGIN_MS + 60_000
    clock.move_to(BEGIN_MS + 10**9)
    assert BEGIN_MS + 10**9 <= clock.now_ms() < BEGIN_MS + 10**9 + 60_000
    clock.move_to(BEGIN_MS)
    assert clock.now_ms() >= BEGIN_MS + 10**9


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), max_size=40))
def test_tasks_run_at_their_times_in_their_order(given_tasks):
    """[MGR-38] The oracle is a sorted list; a log's tasks of one time keep their order."""
    environment = Environment.with_wall_clock(BEGIN_MS)
    clock = Clock(environment)
    pool = TaskPool(clock, 0)
    logs = [pool.tasks(f"log-{number}") for number in range(4)]
    ran: list[int] = []
    for number, (log, hours) in enumerate(given_tasks):
        logs[log].submit(lambda number=number: ran.append(number), hours * 3600)
    for hours in range(0, 51, 5):
        run_at(pool, BEGIN_MS + hours * 3_600_000 + 60_000)
        due = [n for n, (_, due_hours) in enumerate(given_tasks) if due_hours <= hours]
        assert ran == sorted(due, key=lambda n: (given_tasks[n][1], n))
    pool.close()


def test_nothing_runs_before_its_time(held):
    tasks = held.tasks("log")
    ran: list[str] = []
    tasks.submit(lambda: ran.append("late"), 3600)
    assert held.run_due() == (0, [])
    assert run_at(held, BEGIN_MS + 3_000_000) == 0
    assert run_at(held, BEGIN_MS + 3_700_000) == 1
    assert ran == ["late"]
    assert not background_threads()


def test_a_pool_starts_no_thread_before_it_has_a_task():
    """A library starts no thread unasked."""
    pool = TaskPool(moved_clock(), 4)
    tasks = pool.tasks("log")
    assert not background_threads()
    tasks.submit(lambda: None)
    assert tasks.wait_until_idle(60)
    assert "segstore-background-0" in background_threads()
    pool.close()
    assert not background_threads()


def test_as_many_logs_run_at_once_as_there_are_threads(threaded):
    is_over, running = threading.Event(), threading.Semaphore(0)

    def block() -> None:
        running.release()
        is_over.wait(60)

    logs = [threaded.tasks(f"log-{number}") for number in range(6)]
    for log in logs:
        log.submit(block)
    for _ in range(4):
        assert running.acquire(timeout=60)
    assert len(background_threads()) == 4
    assert not running.acquire(blocking=False)
    is_over.set()
    for log in logs:
        assert log.wait_until_idle(60)


def test_tasks_of_one_log_run_one_at_a_time_and_in_order(threaded):
    """[DUR-35] Two syncs of one log would not both hear of an error."""
    log, ran = threaded.tasks("log"), []
    within = threading.Lock()

    def task(number: int) -> None:
        assert within.acquire(blocking=False)
        ran.append(number)
        within.release()

    for number in range(500):
        log.submit(lambda number=number: task(number))
    assert log.wait_until_idle(60)
    assert ran == list(range(500))


def test_a_task_that_fails_stops_no_other(held, caplog):
    """[DUR-131] It is reported; a repeated one runs again at its next time."""
    log, other, owner = held.tasks("log"), held.tasks("other"), Owner()
    owner.fails = True
    ran: list[str] = []
    log.repeat(owner.tick, 3600)
    other.submit(lambda: ran.append("other"), 3600)
    held._pool.clock.move_to(BEGIN_MS + 3_700_000)
    count, failed = held.run_due()
    assert (count, ran, owner.count) == (2, ["other"], 1)
    assert [(name, str(error)) for name, error in failed] == [("log", "it failed")]
    assert "log: background task failed" in caplog.text
    run_at(held, BEGIN_MS + 7_400_000)
    assert owner.count == 2


def test_an_interrupted_task_runs_again(held):
    """[DUR-70] Ctrl-C in the thread of the caller loses no task, also of the same log."""
    log, ran = held.tasks("log"), []

    def interrupted() -> None:
        ran.append("first")
        if len(ran) == 1:
            raise KeyboardInterrupt

    log.submit(interrupted)
    log.submit(lambda: ran.append("second"))
    with pytest.raises(KeyboardInterrupt):
        held.run_due()
    assert held.run_due() == (2, [])
    assert ran == ["first", "first", "second"]


def test_an_interrupt_anywhere_loses_no_task():
    """[DUR-70] Ctrl-C after each call of `run_due`: all tasks run, in their order."""
    for number in itertools.count(1):
        pool, ran = TaskPool(moved_clock(), 0), []
        log, other, timer = pool.tasks("log"), pool.tasks("other"), Owner()
        log.repeat(timer.tick, 3600)
        pool._pool.clock.move_to(BEGIN_MS + 3_700_000)
        for name in ("first", "second"):
            log.submit(lambda name=name, ran=ran: ran.append(name))
        other.submit(lambda ran=ran: ran.append("other"))
        interrupt = Interrupt(number, task_pool.__file__)
        interrupt.run(pool.run_due)
        pool.run_due()

        once = [*dict.fromkeys(ran)]
        assert (interrupt.place, sorted(once)) == (interrupt.place, ["first", "other", "second"])
        assert once.index("first") < once.index("second")
        assert (interrupt.place, timer.count in {1, 2}) == (interrupt.place, True)
        before = timer.count
        run_at(pool, BEGIN_MS + 10**8)
        assert timer.count == before + 1
        pool.close()
        if interrupt.place is None:
            break
    assert number > 20


def test_threads_that_cannot_be_started_leave_the_work_to_others(monkeypatch, caplog):
    """[DUR-131] A process may have no more threads, for a while: no task is lost or waits."""
    started, real = [], task_pool.start_thread

    def start(thread: threading.Thread) -> None:
        if len(started) == allowed:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        real(thread)

    monkeypatch.setattr(task_pool, "start_thread", start)
    pool, allowed, ran = TaskPool(moved_clock(), 4), 0, []
    log, other = pool.tasks("log"), pool.tasks("other")
    log.submit(lambda: ran.append("in a pass"))
    assert "only 0 of 4 background threads started: can't start new thread" in caplog.text
    assert (pool.run_due(), ran) == ((1, []), ["in a pass"])
    allowed = 1
    for one in (log, other, log):
        one.submit(lambda: ran.append("in a thread"))
    assert log.wait_until_idle(60)
    assert other.wait_until_idle(60)
    assert ran[1:] == ["in a thread"] * 3
    assert len(background_threads()) == 1
    pool.settle()
    pool.close()
    assert not background_threads()


def test_a_thread_that_dies_gives_its_task_back(threaded, monkeypatch):
    """[DUR-131] The others go on, and nobody waits for what it had taken."""
    log, ran = threaded.tasks("log"), threading.Event()
    died = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: died.set())

    def exhausted() -> None:
        raise GeneratorExit  # no Exception: nothing catches it

    log.submit(exhausted)
    assert died.wait(60)
    threaded.settle()
    log.submit(ran.set)
    assert ran.wait(60)


def test_idle_threads_sleep(threaded):
    """A task wakes one thread, and that one no other without a task."""
    logs, waits = [threaded.tasks(f"log-{number}") for number in range(8)], []
    for log in logs:
        log.submit(lambda: None)
        log.submit(lambda: None, 3600)
    assert all(log.wait_until_idle(60) for log in logs)
    time.sleep(0.1)
    pool, real = threaded._pool, threaded._pool.wait
    pool.wait = lambda: (waits.append(1), real())
    logs[0].submit(lambda: None)
    assert logs[0].wait_until_idle(60)
    time.sleep(0.2)
    assert len(waits) <= 12


def test_an_interrupted_timer_stays_one_timer(held):
    class Interrupted(Owner):
        def tick(self) -> None:
            super().tick()
            if self.count == 1:
                raise KeyboardInterrupt

    owner, log = Interrupted(), held.tasks("log")
    log.repeat(owner.tick, 3600)
    with pytest.raises(KeyboardInterrupt):
        run_at(held, BEGIN_MS + 3_700_000)
    assert held.run_due()[0] == 1
    assert run_at(held, BEGIN_MS + 7_400_000) == 1
    assert run_at(held, BEGIN_MS + 10**8) == 1


def test_close_drops_what_did_not_begin_and_waits_for_what_did(threaded):
    began, is_closing, ran = threading.Event(), threading.Event(), []
    log, other = threaded.tasks("log", keeps := Owner()), threaded.tasks("other")
    kept = weakref.ref(keeps)
    del keeps

    def slow() -> None:
        began.set()
        is_closing.wait(60)
        ran.append("slow")

    log.submit(slow)
    log.submit(lambda: ran.append("never"))
    assert began.wait(60)
    closer = threading.Thread(target=log.close)
    closer.start()
    while not log._owner.is_closed:
        pass
    assert kept() is not None
    is_closing.set()
    closer.join(60)
    assert not closer.is_alive()
    log.close()
    log.submit(lambda: ran.append("after"))
    other.submit(lambda: ran.append("other"))
    assert other.wait_until_idle(60)
    assert ran == ["slow", "other"]
    gc.collect()
    assert kept() is None


def test_a_task_may_close_its_own_log(threaded):
    log, ran = threaded.tasks("log"), threading.Event()

    def close() -> None:
        assert log.runs_this_thread()
        log.close()
        ran.set()

    log.submit(close)
    assert ran.wait(60)
    assert not log.runs_this_thread()


def test_a_repeated_method_stops_with_its_object(held):
    owner, log = Owner(), held.tasks("log")
    log.repeat(owner.tick, 1)
    assert run_at(held, BEGIN_MS + 100_000) == 1
    del owner
    gc.collect()
    assert run_at(held, BEGIN_MS + 200_000) == 1
    assert run_at(held, BEGIN_MS + 300_000) == 0


def test_a_pool_that_is_dropped_ends_its_threads():
    """Nothing keeps the owner alive; a log that is still held does."""
    pool = TaskPool(Clock(_core.Environment()), 2)
    log = pool.tasks("log")
    del pool
    gc.collect()
    ran = threading.Event()
    log.submit(ran.set)
    assert ran.wait(60)
    assert log.wait_until_idle(60)
    threads = [one for one in threading.enumerate() if "segstore-background" in one.name]
    del log
    gc.collect()
    for thread in threads:
        thread.join(60)
    assert not background_threads()


def test_a_task_that_becomes_due_beside_a_long_one_does_not_wait(threaded):
    """[DUR-14] A long retention pass must not hold up a timed sync."""
    is_over, began, ran = threading.Event(), threading.Event(), threading.Event()
    log, other = threaded.tasks("log"), threaded.tasks("other")
    log.submit(lambda: (began.set(), is_over.wait(60)))
    assert began.wait(60)
    other.submit(ran.set, 0.01)
    assert ran.wait(60)
    is_over.set()


def test_what_a_caller_has_seen_is_run_by_a_thread_at_its_time(threaded):
    """`run_due` takes over what was submitted: the threads have not seen it."""
    log, ran = threaded.tasks("log"), threading.Event()
    log.submit(lambda: None)
    assert log.wait_until_idle(60)
    for _ in range(50):
        ran.clear()
        log.submit(ran.set, 0.01)
        threaded.next_due_ms()
        assert ran.wait(60)


def test_a_moved_clock_wakes_the_threads(threaded):
    log, ran = threaded.tasks("log"), threading.Event()
    log.submit(ran.set, 3600)
    log.submit(lambda: None)
    assert log.wait_until_idle(60)
    threaded._pool.clock.move_to(BEGIN_MS + 4_000_000)
    threaded.settle()
    assert ran.wait(60)
