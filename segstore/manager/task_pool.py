"""What many logs do later, on a few threads: one heap of due times, each log's tasks one at a time.

A log submits its tasks as it does to a `BackgroundWorker` of its own: syncs on a timer or after a
roll, unlinking, the look for silent producers. The log decides what is done; this decides who runs
it: a thread of the pool, or the caller of `TaskPool.run_due`.

THREADS  All start with the first task. Each waits for the first due time; who takes a task wakes
another one, which looks at the next. Who submits takes no lock: a signal handler may come in the
middle of it. What is due is taken under a lock. No task runs under that lock.

Source: DESIGN D18, [MGR-37, DUR-131].
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import queue
import sys
import threading
import time
import weakref
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import AppendLock
from segstore.log.files.background import start_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import Environment

_log = logging.getLogger(__name__)

NS_PER_MS: Final = 1_000_000
_NS: Final = 1_000_000_000
THREADS: Final = 4
"""Retention and removals may take long: others are left for what logs do on time."""
_LONGEST_WAIT_SECONDS: Final = 3600.0

_of_this_thread = threading.local()
"""``owner``: whose task the thread runs."""


class Clock:
    """The time by which tasks are due: it goes on as time does, and a caller may move it on.

    The wall clock of the system may be set at any time, and does not move it.

    Parameters
    ----------
    environment : Environment
        Has the clocks; this one begins at the wall clock.
    """

    def __init__(self, environment: Environment) -> None:
        self._monotonic_ns = environment.monotonic_ns
        self._ahead_ns = environment.wall_clock_ms * NS_PER_MS - environment.monotonic_ns()

    def now_ns(self) -> int:
        """Return the time in ns since 1970."""
        return self._monotonic_ns() + self._ahead_ns

    def now_ms(self) -> int:
        """Return the time in ms since 1970."""
        return self.now_ns() // NS_PER_MS

    def move_to(self, now_ms: int) -> None:
        """Move the clock on to *now_ms*; it never goes back."""
        self._ahead_ns += max(0, now_ms * NS_PER_MS - self.now_ns())


class _Owner:
    """The right to run tasks of one log: one at a time, until it is closed."""

    __slots__ = (
        "__weakref__",
        "is_closed",
        "is_running",
        "is_taken",
        "keeps",
        "name",
        "runner",
        "waiting",
    )

    def __init__(self, name: str, keeps: object) -> None:
        self.name = name
        self.keeps = keeps
        self.is_closed = False
        self.is_running = False
        self.is_taken = False
        """Under the pool's lock: one of its tasks was taken to be run."""
        self.waiting: list[_Task] = []
        """Under the pool's lock: tasks that were due meanwhile."""
        self.runner = threading.Lock()
        """Held by the thread that runs one."""

    def close(self) -> None:
        self.is_closed = True
        if not self.is_running:  # else the thread does it, which looks at is_closed after that
            self.keeps = None


class _Task(NamedTuple):
    due_ns: int
    number: int
    """Keeps tasks of the same time in the order in which they were given."""
    owner: _Owner
    run: Callable[[], None]


class _Pool:
    """What the threads hold on to: tasks, but neither a log nor its manager."""

    def __init__(self, clock: Clock, thread_count: int) -> None:
        self.clock = clock
        self.incoming: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self.is_closed = False
        self.has_started = False
        self.threads: list[threading.Thread] = []
        """Under the lock: those that run."""
        self.taken: set[_Owner] = set()
        """Under the lock: those of which a task was taken."""
        self._lock = AppendLock()  # a handler that comes here in its midst is told
        self._thread_count = thread_count
        self._heap: list[_Task] = []
        self._arrived: list[_Task | None] = []
        """From `incoming`, on the way to the heap."""

    def start_threads(self) -> None:
        """Start the threads. Where the system refuses some, those before them do the work.

        Where it refuses all, the next task that comes tries again, and passes do what is due.
        """
        for number in range(len(self.threads), self._thread_count):
            name = f"segstore-background-{number}"
            thread = threading.Thread(target=_work, args=(self,), name=name, daemon=True)
            try:
                start_thread(thread)
            except RuntimeError as error:
                count = self._thread_count
                _log.warning("only %d of %d background threads started: %s", number, count, error)
                return
            self.has_started = True

    def grow(self, thread_count: int) -> None:
        """Have at least so many threads; where some run already, the others start now."""
        self._thread_count = max(self._thread_count, thread_count)
        if self.has_started and not self.is_closed:
            self.start_threads()

    def enter(self) -> bool:
        """Let this thread be one of the pool; False where two callers have started threads."""
        with self._lock:
            if len(self.threads) >= self._thread_count:
                return False
            self.threads.append(threading.current_thread())
        return True

    def take(self, taken: list[_Task]) -> bool:
        """Put a task that is due into *taken*; False without one. `give_back` follows."""
        now_ns = self.clock.now_ns()
        with self._lock:
            self._gather()
            while self._heap and self._heap[0].due_ns <= now_ns:
                owner = self._heap[0].owner
                if owner.is_closed:
                    heapq.heappop(self._heap)
                elif owner.is_taken:
                    owner.waiting.append(self._heap[0])
                    heapq.heappop(self._heap)
                else:
                    task = self._heap[0]
                    taken.append(task)  # first: an interrupt must not lose it
                    owner.is_taken = True
                    self.taken.add(owner)
                    while self._heap and self._heap[0] is task:  # an interrupt may leave it twice
                        heapq.heappop(self._heap)
                    self.wake()
                    return True
        return False

    def give_back(self, task: _Task, *, again: bool = False) -> None:
        """Let other tasks of its owner run; with *again* also this one, which was interrupted."""
        owner = task.owner
        with self._lock:
            if again:
                heapq.heappush(self._heap, task)
            owner.is_taken = False
            self.taken.discard(owner)
            while owner.waiting:
                heapq.heappush(self._heap, owner.waiting[-1])
                owner.waiting.pop()

    def next_due_ns(self) -> int | None:
        """Return when the next task is due; None without one."""
        with self._lock:
            return self._first_due_ns()

    def _first_due_ns(self) -> int | None:
        self._gather()
        while self._heap and self._heap[0].owner.is_closed:
            heapq.heappop(self._heap)
        return self._heap[0].due_ns if self._heap else None

    def wait(self) -> None:
        """Wait until a task may be due, or another one comes."""
        due_ns, seconds = self.next_due_ns(), None
        if self.is_closed:  # what would wake this thread may have been gathered just now
            return
        if due_ns is not None:
            wait_ns = due_ns - self.clock.now_ns()
            seconds = max(0.0, min(wait_ns / _NS, _LONGEST_WAIT_SECONDS))
        with contextlib.suppress(queue.Empty):
            task = self.incoming.get(timeout=seconds)
            if task is not None:
                with self._lock:
                    heapq.heappush(self._heap, task)

    def wake(self) -> None:
        """Let a thread that waits look at tasks and clock again."""
        self.incoming.put(None)

    def close(self) -> None:
        self.is_closed = True
        self.wake()  # each that ends lets the next one end

    def run(self, task: _Task) -> Exception | None:
        """Run a task that was taken; return what it has raised."""
        owner = task.owner
        around = getattr(_of_this_thread, "owner", None)
        try:
            with owner.runner:
                _of_this_thread.owner = owner
                owner.is_running = True
                if not owner.is_closed:
                    task.run()
        except Exception as error:  # noqa: BLE001 - whatever a task does, the thread goes on [DUR-39]
            _log.exception("%s: background task failed", owner.name)
            return error
        finally:
            owner.is_running = False
            _of_this_thread.owner = around
            if owner.is_closed:
                owner.keeps = None
        return None

    def _gather(self) -> None:
        with contextlib.suppress(queue.Empty):  # in one call: an interrupt cannot lose a task
            self._arrived.extend(iter(self.incoming.get_nowait, self))
        while self._arrived:
            task = self._arrived[-1]
            if task is not None:
                heapq.heappush(self._heap, task)
            self._arrived.pop()


def _work(pool: _Pool) -> None:
    if not pool.enter():
        return
    taken: list[_Task] = []
    while not pool.is_closed:
        try:
            if pool.take(taken):
                pool.run(taken[0])
            else:
                pool.wait()
        finally:
            for task in taken:
                pool.give_back(task)
            taken.clear()
    pool.wake()  # the next one ends too


class TaskPool:
    """The threads of one owner of many logs; they start with the first task that needs one.

    Parameters
    ----------
    clock : Clock
        By which tasks are due.
    thread_count : int
        How many threads; 0 = tasks run in `run_due` alone.
    """

    def __init__(self, clock: Clock, thread_count: int = THREADS) -> None:
        self._pool = _Pool(clock, thread_count)
        self._finalizer = weakref.finalize(self, self._pool.close)

    def tasks(self, name: str, keeps: object = None) -> PooledTasks:
        """Return the scheduler of one log, as `LogEnvironment.background` does."""
        return PooledTasks(self, self._pool, name, keeps)

    def start(self) -> None:
        """Have the threads."""
        pool = self._pool
        if not pool.has_started and not pool.is_closed:
            pool.start_threads()

    def grow(self, thread_count: int) -> None:
        """Have at least so many threads; those that nothing needs any more wait."""
        self._pool.grow(thread_count)

    def run_due(self) -> tuple[int, list[tuple[str, Exception]]]:
        """Run all tasks that are due, in this thread.

        Returns
        -------
        tuple of int and list
            How many were run, and the names and errors of those that failed.
        """
        pool, failed, count = self._pool, [], 0
        taken: list[_Task] = []
        try:
            while pool.take(taken):
                error = pool.run(taken[0])
                pool.give_back(taken[0])
                if error is not None:
                    failed.append((taken[0].owner.name, error))
                taken.clear()
                count += 1
        except BaseException:
            for task in taken:  # interrupted: it runs again
                pool.give_back(task, again=True)
            raise
        finally:
            pool.wake()  # a thread has to watch what was gathered here
        return count, failed

    def settle(self) -> None:
        """The clock was moved: wait for tasks that threads have taken, and let these look at it."""
        for owner in [*self._pool.taken]:
            while owner.is_taken and getattr(_of_this_thread, "owner", None) is not owner:
                with owner.runner:
                    pass
                time.sleep(0)  # between the task and what gives it back
        self._pool.wake()

    def next_due_ms(self) -> int | None:
        """Return the time of the next task, in ms since 1970; None without one."""
        due_ns = self._pool.next_due_ns()
        self._pool.wake()  # as above
        return None if due_ns is None else -(-due_ns // NS_PER_MS)

    def close(self) -> None:
        """End the threads, each after the task that it runs; twice is harmless."""
        self._pool.close()
        if not sys.is_finalizing():
            for thread in [*self._pool.threads]:
                if thread is not threading.current_thread():
                    thread.join()


class PooledTasks:
    """What one log does later (`Scheduler`); nothing here keeps the log alive.

    Parameters
    ----------
    pool : TaskPool
        Lives as long as one of its logs.
    inner : _Pool
        Its tasks.
    name : str
        For messages.
    keeps : object
        What must not be dropped while a task runs, such as the right to write what it writes.
    """

    def __init__(self, pool: TaskPool, inner: _Pool, name: str, keeps: object) -> None:
        self._pool = pool
        self._inner = inner
        self._owner = _Owner(name, keeps)
        self._numbers = _numbers
        self._finalizer = weakref.finalize(self, self._owner.close)

    def submit(self, task: Callable[[], None], delay_seconds: float = 0.0) -> None:
        """Run *task* once, not before *delay_seconds* from now; after `close` it is left out."""
        inner = self._inner
        if self._owner.is_closed:
            return
        due_ns = inner.clock.now_ns() + int(delay_seconds * _NS)
        inner.incoming.put(_Task(due_ns, next(self._numbers), self._owner, task))
        if not inner.has_started:
            self._pool.start()

    def repeat(
        self, method: Callable[[], None], seconds: float, *, first_seconds: float | None = None
    ) -> None:
        """Call the bound *method* every *seconds* until `close`, or until its object is gone.

        The first time after *first_seconds*; None = *seconds*.
        """
        reference = weakref.WeakMethod(method)
        tasks = weakref.ref(self)
        turn = [0]

        def run(number: int) -> None:
            target = reference()
            if target is None or number != turn[0]:  # it was interrupted when all was done
                return
            error = None
            try:
                target()
            except Exception as failed:  # noqa: BLE001 - the next one may go well [DUR-131]
                error = failed
            owner = tasks()
            if owner is not None:
                owner.submit(partial(run, number + 1), seconds)
                turn[0] = number + 1
            if error is not None:
                raise error

        self.submit(partial(run, 0), seconds if first_seconds is None else first_seconds)

    def wait_until_idle(self, timeout: float = 10.0) -> bool:
        """Wait until all tasks that are due have ended; False when *timeout* seconds passed."""
        if self._owner.is_closed:
            return True
        have_ended = threading.Event()
        self.submit(have_ended.set)
        if self._inner.has_started:
            return have_ended.wait(timeout)
        deadline = time.monotonic() + timeout
        while not have_ended.is_set() and time.monotonic() < deadline:
            self._pool.run_due()
        return have_ended.is_set()

    @property
    def is_closed(self) -> bool:
        """Whether no task runs any more, after `close`."""
        return self._owner.is_closed

    def runs_this_thread(self) -> bool:
        """Whether a task runs here, which `close` by another thread waits for."""
        return getattr(_of_this_thread, "owner", None) is self._owner

    def close(self) -> None:
        """Drop the tasks that did not begin and wait for the one that runs; twice is harmless.

        Raises
        ------
        RuntimeError
            The interpreter ended the thread in the midst of one.
        """
        owner = self._owner
        owner.close()
        if self.runs_this_thread():
            return
        if sys.is_finalizing():  # there is no other thread any more, and no end of it to wait for
            if owner.runner.locked():
                raise RuntimeError(
                    "the interpreter is shutting down: a task of the log cannot finish"
                )
            return
        with owner.runner:
            pass

    def drop(self) -> None:
        """Drop the tasks that did not begin; wait for nothing."""
        self._owner.close()


_numbers = itertools.count()
