"""A clock that a test moves, and a scheduler that goes by it (Kafka ``MockTime``)."""

from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING

from segstore._core import Environment

if TYPE_CHECKING:
    from collections.abc import Callable


class MockTime:
    """Wall clock in ms, and the tasks that wait for it; nothing runs by itself.

    A task runs in `run_due` or `sleep`, on the thread of the test, so never inside a call of a log.
    """

    def __init__(self, now_ms: int) -> None:
        self.environment = Environment.with_wall_clock(now_ms)
        self._tasks: list[tuple[int, int, Callable[[], None], MockScheduler]] = []
        self._numbers = count()

    @property
    def now_ms(self) -> int:
        return self.environment.wall_clock_ms

    def sleep(self, milliseconds: int) -> None:
        """Move the clock and run what is due by then."""
        self.environment.wall_clock_ms += milliseconds
        self.run_due()

    def run_due(self) -> None:
        while self._tasks and self._tasks[0][0] <= self.now_ms:
            _, _, task, owner = heapq.heappop(self._tasks)
            if not owner.is_closed:
                task()

    def add_at(
        self, due_ms: int, task: Callable[[], None], owner: MockScheduler, number: int | None = None
    ) -> int:
        """Add a task, behind those of that moment that were added before; returns its number."""
        number = next(self._numbers) if number is None else number
        heapq.heappush(self._tasks, (due_ms, number, task, owner))
        return number

    def scheduler(self, name: str, keeps: object) -> MockScheduler:
        """Stand in for `BackgroundWorker`."""
        del name, keeps
        return MockScheduler(self)


class MockScheduler:
    """The tasks of one log."""

    def __init__(self, time: MockTime) -> None:
        self.is_closed = False
        self._time = time

    def submit(self, task: Callable[[], None], delay_seconds: float = 0.0) -> None:
        self._time.add_at(self._time.now_ms + round(delay_seconds * 1000), task, self)

    def repeat(
        self, method: Callable[[], None], seconds: float, *, first_seconds: float | None = None
    ) -> None:
        """At fixed times, however late it is when one comes: as Kafka's ``MockScheduler``."""
        interval_ms = round(seconds * 1000)
        first_ms = interval_ms if first_seconds is None else round(first_seconds * 1000)
        due_times = count(self._time.now_ms + first_ms, interval_ms)

        def run() -> None:
            method()
            self._time.add_at(next(due_times), run, self, number)

        number = self._time.add_at(next(due_times), run, self)

    def wait_until_idle(self, timeout: float = 10.0) -> bool:
        del timeout
        self._time.run_due()
        return True

    def runs_this_thread(self) -> bool:
        """Tasks run where the test says so: nobody waits for them."""
        return False

    def close(self) -> None:
        self.is_closed = True

    def drop(self) -> None:
        self.is_closed = True
