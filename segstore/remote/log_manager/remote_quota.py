"""A limit of bytes a second for what all logs copy to remote storage, or read from it.

Source: [TIER-34], KIP-956, Kafka ``RLMQuotaManager``.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from segstore.number_limits import MAX_LONG

if TYPE_CHECKING:
    from collections.abc import Callable

_MS_PER_SECOND: Final = 1000
_CHECK_INTERVAL_MS: Final = 1000
"""A longer wait looks again meanwhile."""


class RemoteQuota:
    """Bytes of the last seconds; who comes when they are too many waits. Any thread may ask.

    Parameters
    ----------
    max_bytes_per_second : int
        The limit; 2^63-1 = none.
    window_num, window_size_seconds : int
        The rate is that of so many samples of so many seconds.
    clock_ms : callable
        Returns ms; only differences count.
    """

    def __init__(
        self,
        max_bytes_per_second: int,
        window_num: int,
        window_size_seconds: int,
        clock_ms: Callable[[], int],
    ) -> None:
        self._limit = max_bytes_per_second
        self._window_ms = window_size_seconds * _MS_PER_SECOND
        self._length_ms = max(window_num - 1, 1) * self._window_ms
        self._clock_ms = clock_ms
        self._samples: deque[tuple[int, int]] = deque()  # when, and how many bytes
        self._lock = threading.Lock()

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self._limit != MAX_LONG

    def update(self, max_bytes_per_second: int) -> None:
        """Go by another limit from now on."""
        self._limit = max_bytes_per_second

    def record(self, size_bytes: int) -> None:
        """Count bytes."""
        if self._limit == MAX_LONG:
            return
        with self._lock:
            now = self._clock_ms()
            begin = now - now % self._window_ms
            if self._samples and self._samples[-1][0] == begin:
                size_bytes += self._samples.pop()[1]
            self._samples.append((begin, size_bytes))

    def throttle_ms(self) -> int:
        """Return how long to wait before the next bytes; 0 = they may come now."""
        if self._limit == MAX_LONG:
            return 0
        with self._lock:
            now = self._clock_ms()
            while self._samples and self._samples[0][0] <= now - self._length_ms - self._window_ms:
                self._samples.popleft()
            total = sum(size for _, size in self._samples)
            allowed = self._limit * self._length_ms // _MS_PER_SECOND
            if total <= allowed:
                return 0
            return min((total - allowed) * _MS_PER_SECOND // self._limit + 1, self._length_ms)

    def wait(self, is_over: Callable[[], bool], sleep: Callable[[float], object]) -> bool:
        """Wait until bytes may come; returns False where *is_over* ends it before."""
        while not is_over():
            left = self.throttle_ms()
            if left == 0:
                return True
            sleep(min(left, _CHECK_INTERVAL_MS) / _MS_PER_SECOND)
        return False
