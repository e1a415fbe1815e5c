"""One daemon thread for what a log does later: syncs on a timer or after a roll, unlinking."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import weakref
from typing import TYPE_CHECKING, NamedTuple

import segstore._core as _core

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)
_NS = 1_000_000_000


class _Task(NamedTuple):
    due_ns: int
    number: int
    """Keeps tasks of the same time in the order in which they were given."""
    run: Callable[[], None]


class _Queue:
    """What the thread holds on to: tasks, but not the log that gave them."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.tasks: list[_Task] = []
        self.is_closed = False
        self.is_running = False

    def close(self) -> None:
        with self.changed:
            self.is_closed = True
            self.tasks.clear()
            self.changed.notify_all()

    def next_task(self) -> _Task | None:
        """Wait for the next task that is due, None when the queue was closed."""
        with self.changed:
            self.is_running = False
            self.changed.notify_all()
            while not self.is_closed:
                if not self.tasks:
                    self.changed.wait()
                    continue
                wait_ns = self.tasks[0].due_ns - _core.monotonic_ns()
                if wait_ns <= 0:
                    self.is_running = True
                    return heapq.heappop(self.tasks)
                self.changed.wait(wait_ns / _NS)
            return None


def _run_tasks(queue: _Queue) -> None:
    while (task := queue.next_task()) is not None:
        try:
            task.run()
        except Exception:  # noqa: BLE001 - the thread survives whatever a task does [DUR-39]
            _log.exception("background task failed")
        del task


class BackgroundWorker:
    """Runs tasks on a thread of its own, which starts with the first task and ends with `close`.

    Tasks report their own failures; the thread survives them. Nothing here keeps the owner alive:
    a worker that is dropped ends its thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue = _Queue()
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._finalizer = weakref.finalize(self, self._queue.close)

    def submit(self, task: Callable[[], None], delay_seconds: float = 0.0) -> None:
        """Run *task* once, not before *delay_seconds* from now; after `close` it is left out."""
        due_ns = _core.monotonic_ns() + int(delay_seconds * _NS)
        queue = self._queue
        with queue.changed:
            if queue.is_closed:
                return
            if self._thread is None:
                self._thread = threading.Thread(
                    target=_run_tasks, args=(queue,), name=self._name, daemon=True
                )
                self._thread.start()
            heapq.heappush(queue.tasks, _Task(due_ns, next(self._numbers), task))
            queue.changed.notify_all()

    def repeat(self, method: Callable[[], None], seconds: float) -> None:
        """Call the bound *method* every *seconds* until `close`, or until its object is gone."""
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

        self.submit(run, seconds)

    def wait_until_idle(self, timeout: float = 10.0) -> bool:
        """Wait until no task is running and none is due; False when *timeout* seconds passed."""

        def is_idle() -> bool:
            queue = self._queue
            is_due = bool(queue.tasks) and queue.tasks[0].due_ns <= _core.monotonic_ns()
            return not queue.is_running and not is_due

        with self._queue.changed:
            return self._queue.changed.wait_for(is_idle, timeout)

    def close(self) -> None:
        """Drop the tasks that did not begin and wait for the one that runs; twice is harmless."""
        self._queue.close()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def abandon(self) -> None:
        """Forget the thread, in a forked child where it does not exist."""
        self._finalizer.detach()
        self._thread = None
