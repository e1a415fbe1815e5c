"""A limit of bytes a second for what several threads do together (Kafka ``Throttler``) [CLN-9]."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from segstore._core import AppendLock

if TYPE_CHECKING:
    from collections.abc import Callable

CHECK_INTERVAL_MS: Final = 300
_LONGEST_SLEEP_NS: Final = 50_000_000
"""Who aborts a pass waits so long at most."""
_LONGEST_MS: Final = 86_400_000
"""No rate makes a pass wait for longer than a day at once."""
_NS_PER_SECOND: Final = 1_000_000_000
_NS_PER_MS: Final = 1_000_000
_MS_PER_SECOND: Final = 1000


class Throttler:
    """Lets a thread that comes after too many bytes sleep until the rate is kept.

    Parameters
    ----------
    desired_rate_per_sec : float
        Bytes a second; ``inf`` = no limit.
    monotonic_ns : callable
        The clock.
    sleep : callable or None
        Takes seconds; None = sleep until then, or until `stop`.
    """

    def __init__(
        self,
        desired_rate_per_sec: float,
        monotonic_ns: Callable[[], int],
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self.desired_rate_per_sec = desired_rate_per_sec
        self._monotonic_ns = monotonic_ns
        self._stopped = threading.Event()
        self._sleep = self._stopped.wait if sleep is None else sleep
        self._lock = AppendLock()
        self._period_start_ns = monotonic_ns()
        self._observed_so_far = 0

    def maybe_throttle(self, observed: int, check_done: Callable[[], None] = lambda: None) -> None:
        """Count bytes; sleep when more came than may, in more than 300 ms.

        Parameters
        ----------
        observed : int
            Bytes that were read or written since the last call.
        check_done : callable
            Called at least every 50 ms of the sleep; an error that it raises ends it.
        """
        with self._lock:
            rate = self.desired_rate_per_sec
            ns = self._ns_to_sleep(observed)
        if ns > 0:
            until = self._monotonic_ns() + ns
            while (
                (left := until - self._monotonic_ns()) > 0
                and not self._stopped.is_set()
                and self.desired_rate_per_sec == rate
            ):
                self._sleep(min(left, _LONGEST_SLEEP_NS) / _NS_PER_SECOND)
                check_done()
            with self._lock:
                self._period_start_ns = self._monotonic_ns()

    def update_desired_rate(self, desired_rate_per_sec: float) -> None:
        """Go by another limit; a sleep that keeps the one before ends [CLN-8]."""
        with self._lock:
            self.desired_rate_per_sec = desired_rate_per_sec

    def _ns_to_sleep(self, observed: int) -> int:
        self._observed_so_far += observed
        elapsed_ns = self._monotonic_ns() - self._period_start_ns
        if elapsed_ns <= CHECK_INTERVAL_MS * _NS_PER_MS or self._observed_so_far == 0:
            return 0
        wanted_ms = self._observed_so_far * _MS_PER_SECOND / self.desired_rate_per_sec
        self._period_start_ns += elapsed_ns
        self._observed_so_far = 0
        return round(min(wanted_ms, _LONGEST_MS) - elapsed_ns // _NS_PER_MS) * _NS_PER_MS

    def stop(self) -> None:
        """End the sleep of all threads; none sleeps after that."""
        self._stopped.set()
