"""The background work of a log when a script says so, with no thread."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class ManualScheduler:
    """Runs the background work of a log when a script says so (`BackgroundWorker`'s promises)."""

    def __init__(self, _name: str = "", _keeps: object = None) -> None:
        self._tasks: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._is_closed = False

    def submit(self, task: Callable[[], None], delay_seconds: float = 0.0) -> None:
        if not self._is_closed:
            heapq.heappush(self._tasks, (delay_seconds, next(self._numbers), task))

    def repeat(
        self, method: Callable[[], None], seconds: float, *, first_seconds: float | None = None
    ) -> None:
        """Scripts end before any of it is due: producers expire after a day."""

    def wait_until_idle(self, _timeout: float = 10.0) -> bool:
        return True

    def runs_this_thread(self) -> bool:
        """Tasks run where the test says so: nobody waits for them."""
        return False

    def close(self) -> None:
        self._is_closed = True
        self._tasks.clear()

    drop = close

    def run(self, delay_seconds: float = 0.0) -> None:
        """Run what was to be done within so many seconds."""
        while self._tasks and self._tasks[0][0] <= delay_seconds:
            heapq.heappop(self._tasks)[2]()
