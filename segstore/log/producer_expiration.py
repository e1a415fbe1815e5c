"""When silent producers are forgotten: each ten minutes since the open, as Kafka does [EXP-1].

`ProducerStateManager` says which ones have been silent for too long, and removes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from segstore._core import AppendLock, Directory
    from segstore.log.files.background import Scheduler
    from segstore.log.producers.producer_state_manager import ProducerStateManager

PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS: Final = 600_000


class ProducerExpiration:
    """The timer of one log. A log that never had a producer needs no thread for it."""

    __slots__ = (
        "__weakref__",
        "_append_lock",
        "_background",
        "_directory",
        "_opened_ms",
        "_producers",
        "is_running",
    )

    def __init__(
        self,
        producers: ProducerStateManager,
        append_lock: AppendLock,
        background: Scheduler,
        directory: Directory,
    ) -> None:
        self._producers = producers
        self._append_lock = append_lock
        self._background = background
        self._directory = directory
        self.is_running = False
        self._opened_ms = directory.wall_clock_ms()

    def start(self) -> None:
        """Look for expired producers from now on, at the intervals since the open."""
        if self.is_running:
            return
        self.is_running = True
        interval = PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS
        passed = (self._directory.wall_clock_ms() - self._opened_ms) % interval
        self._background.repeat(
            self._expire, interval / 1000, first_seconds=(interval - passed) / 1000
        )

    def _expire(self) -> None:
        with self._append_lock:
            self._producers.remove_expired_producers(self._directory.wall_clock_ms())
