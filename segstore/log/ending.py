"""The end of a log, or of a manager of logs: one thread brings it about, and others wait for it."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from segstore._core import AppendLock

if TYPE_CHECKING:
    from collections.abc import Callable


class Ending:
    """A close comes back when it is over, whoever began it [DUR-70].

    But for one that is called in its midst, by a signal's handler or a finalizer: that would wait
    for itself. And none waits for one whose thread the interpreter's end has stopped.

    Parameters
    ----------
    waits_for_this_thread : callable
        Whether the thread that is asked is one whose end is waited for.

    Attributes
    ----------
    is_over : bool
        Whether all was let go of: not yet behind an end that was interrupted.
    """

    def __init__(self, waits_for_this_thread: Callable[[], bool]) -> None:
        self.is_over = False
        self._lock = AppendLock()  # its wait can be interrupted
        self._thread = 0  # that has it
        self.waits_for_this_thread = waits_for_this_thread

    def is_around_this_thread(self) -> bool:
        """Whether this thread was called in its midst, and must not wait for it."""
        return self._lock.locked() and (
            self._thread == threading.get_ident()
            or sys.is_finalizing()
            or self.waits_for_this_thread()
        )

    def run(self, end: Callable[[], None]) -> None:
        """Call *end*, behind that of another thread: it does what was left of that, if anything."""
        thread = threading.get_ident()  # before: no handler runs where it is stored
        with self._lock:
            try:
                self._thread = thread
                end()
            finally:
                self._thread = 0
