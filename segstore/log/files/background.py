"""One daemon thread for what a log does later: syncs on a timer or after a roll, unlinking."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import queue
import sys
import threading
import weakref
from typing import TYPE_CHECKING, NamedTuple, Protocol

import segstore._core as _core

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)
_NS = 1_000_000_000
_LONGEST_WAIT_SECONDS = 3600.0  # a platform's clocks have less room than a float
_of_this_thread = threading.local()
"""``queue``: whose tasks the thread runs, to its last step: ids of threads are used again."""


class Scheduler(Protocol):
    """Runs what a log does later; `BackgroundWorker` says what each method promises."""

    def submit(self, task: Callable[[], None], delay_seconds: float = 0.0) -> None:
        """Run *task* once, not before *delay_seconds* from now."""

    def repeat(
        self, method: Callable[[], None], seconds: float, *, first_seconds: float | None = None
    ) -> None:
        """Call *method* every *seconds*, the first time after *first_seconds*."""

    def wait_until_idle(self, timeout: float = 10.0) -> bool:
        """Wait until all tasks that are due have ended."""

    def runs_this_thread(self) -> bool:
        """Whether a task runs here, which `close` by another thread waits for."""

    def close(self) -> None:
        """Drop the tasks that did not begin and wait for the one that runs."""

    def drop(self) -> None:
        """Drop the tasks that did not begin; wait for nothing."""


class _Task(NamedTuple):
    due_ns: int
    number: int
    """Keeps tasks of the same time in the order in which they were given."""
    run: Callable[[], None]


class _Queue:
    """What the thread holds on to: tasks, but not the log that gave them.

    Only the thread touches `tasks`. What is shared is made of C: nothing here can be left locked by
    an exception that a signal handler raises in the midst of it.
    """

    def __init__(self, keeps: object) -> None:
        self.incoming: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self.tasks: list[_Task] = []
        self.runner = threading.Lock()
        """Held by the thread as long as it runs."""
        self.is_closed = False
        self.is_running = False
        self.keeps = keeps

    def close(self) -> None:
        self.is_closed = True
        if not self.is_running:  # else the thread does it, which looks at is_closed after that
            self.keeps = None
        self.incoming.put(None)

    def next_task(self) -> _Task | None:
        """Wait for the next task that is due, None when the queue was closed."""
        self.is_running = False
        while not self.is_closed:
            seconds = None
            if self.tasks:
                wait_ns = self.tasks[0].due_ns - _core.monotonic_ns()
                if wait_ns <= 0:
                    self.is_running = True
                    return self._first_task()
                seconds = min(wait_ns / _NS, _LONGEST_WAIT_SECONDS)
            with contextlib.suppress(queue.Empty):
                task = self.incoming.get(timeout=seconds)
                if task is not None:
                    heapq.heappush(self.tasks, task)
        return None

    def _first_task(self) -> _Task | None:
        return None if self.is_closed else heapq.heappop(self.tasks)

    def clear(self) -> None:
        """Drop what will not be run."""
        self.tasks.clear()
        with contextlib.suppress(queue.Empty):
            while True:
                self.incoming.get_nowait()


def _run_tasks(tasks: _Queue) -> None:
    with tasks.runner:
        _of_this_thread.queue = tasks
        while (task := tasks.next_task()) is not None:
            try:
                task.run()
            except Exception:  # noqa: BLE001 - the thread survives whatever a task does [DUR-39]
                _log.exception("background task failed")
            del task
        tasks.clear()
        tasks.keeps = None


def start_thread(thread: threading.Thread) -> None:
    """Start it, and let out what a signal handler raises meanwhile.

    `Thread.start` waits on a condition. Struck in the midst of that, CPython lets a lock go twice,
    and the error that says so would replace a Ctrl-C.
    """
    handled = sys.exception()
    try:
        thread.start()
    except RuntimeError as error:
        interrupt = error.__context__
        if interrupt is None or interrupt is handled:
            raise
        raise interrupt from None


class BackgroundWorker:
    """Runs tasks on a thread of its own, which starts with the first task and ends with `close`.

    Tasks report their own failures; the thread survives them. Nothing here keeps the owner alive:
    a worker that is dropped ends its thread.

    Parameters
    ----------
    name : str
        Of the thread.
    keeps : object
        What must not be dropped while a task runs, such as the right to write what it writes.
    """

    def __init__(self, name: str, keeps: object = None) -> None:
        self._name = name
        self._queue = _Queue(keeps)
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._finalizer = weakref.finalize(self, self._queue.close)

    def submit(self, task: Callable[[], None], delay_seconds: float = 0.0) -> None:
        """Run *task* once, not before *delay_seconds* from now; after `close` it is left out."""
        due_ns = _core.monotonic_ns() + int(delay_seconds * _NS)
        tasks = self._queue
        if tasks.is_closed:
            return
        tasks.incoming.put(_Task(due_ns, next(self._numbers), task))
        if self._thread is None:  # a second one, of two who come here at once, has nothing to do
            thread = threading.Thread(
                target=_run_tasks, args=(tasks,), name=self._name, daemon=True
            )
            start_thread(thread)
            self._thread = thread

    def repeat(
        self, method: Callable[[], None], seconds: float, *, first_seconds: float | None = None
    ) -> None:
        """Call the bound *method* every *seconds* until `close`, or until its object is gone.

        The first time after *first_seconds*; None = *seconds*.
        """
        reference = weakref.WeakMethod(method)
        worker = weakref.ref(self)

        def run() -> None:
            target = reference()
            if target is None:
                return
            target()
            owner = worker()
            if owner is not None:
                owner.submit(run, seconds)

        self.submit(run, seconds if first_seconds is None else first_seconds)

    def wait_until_idle(self, timeout: float = 10.0) -> bool:
        """Wait until all tasks that are due have ended; False when *timeout* seconds passed."""
        if self._thread is None or self._queue.is_closed:
            return True
        have_ended = threading.Event()
        self.submit(have_ended.set)
        return have_ended.wait(timeout)

    def runs_this_thread(self) -> bool:
        """Whether a task runs here, which `close` by another thread waits for."""
        return getattr(_of_this_thread, "queue", None) is self._queue

    def close(self) -> None:
        """Drop the tasks that did not begin and wait for the one that runs; twice is harmless.

        Raises
        ------
        RuntimeError
            The interpreter ended the thread in the midst of one.
        """
        tasks = self._queue
        tasks.close()
        if self.runs_this_thread():
            return
        if sys.is_finalizing():  # there is no other thread any more, and no end of it to wait for
            if tasks.is_running:
                raise RuntimeError(
                    "the interpreter is shutting down: a task of the log cannot finish"
                )
            return
        with tasks.runner:
            pass
        if self._thread is not None:
            self._thread.join()

    def drop(self) -> None:
        """Drop the tasks that did not begin; wait for nothing."""
        self._queue.close()
