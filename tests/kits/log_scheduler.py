"""Background work of a log that runs when a test says so, with a clock that the test moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class HeldScheduler:
    """Keeps what a log submits; a test runs what is due."""

    def __init__(self) -> None:
        self._tasks: list[tuple[float, Callable[[], None]]] = []
        self._now = 0.0

    def __call__(self, name: str, keeps: object) -> HeldScheduler:
        """Stand in for `BackgroundWorker` of one log."""
        del name, keeps
        return self

    def submit(self, task: Callable[[], None], delay_seconds: float = 0.0) -> None:
        """Keep *task* until it is due."""
        self._tasks.append((self._now + delay_seconds, task))

    def repeat(
        self, method: Callable[[], None], seconds: float, *, first_seconds: float | None = None
    ) -> None:
        """Repeat nothing: a test calls what it wants."""

    def run_due(self, seconds: float = 0.0) -> None:
        """Let *seconds* pass, and run what is due, also what that submits."""
        self._now += seconds
        while due := [entry for entry in self._tasks if entry[0] <= self._now]:
            for entry in due:
                self._tasks.remove(entry)
                entry[1]()

    def wait_until_idle(self, timeout: float = 10.0) -> bool:
        """Run what is due."""
        del timeout
        self.run_due()
        return True

    def runs_this_thread(self) -> bool:
        """Tasks run where the test says so: nobody waits for them."""
        return False

    def close(self) -> None:
        """Drop everything."""
        self._tasks.clear()

    drop = close
