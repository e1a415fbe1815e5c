"""Threads that fetch ahead for all open logs; the last log that used them ends them."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class FetchThreads:
    """Some threads, started when the first one is needed.

    Parameters
    ----------
    count : int
        How many at most.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Have no thread, as in a fork."""
        self._lock = threading.Lock()
        self._users: set[object] = set()
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, user: object, task: Callable[[], object]) -> None:
        """Let a thread run *task*, for *user*, which is to `leave`.

        Raises
        ------
        RuntimeError
            No thread can be started, as when the process ends.
        """
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._count, "segstore-fetch-ahead")
            self._users.add(user)
            self._pool.submit(task)

    def leave(self, user: object) -> None:
        """End the threads if no other uses them; what they have begun ends before."""
        with self._lock:
            if user not in self._users:
                return
            self._users.discard(user)
            ended, self._pool = (self._pool, None) if not self._users else (None, self._pool)
        if ended is not None:
            ended.shutdown(cancel_futures=True)
