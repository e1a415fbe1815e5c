"""Shutdown of a log or a manager: one thread closes it, the others wait until it is done.

What is closed, and in which order, is `Closing` for a log.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from segstore._core import AppendLock
from segstore.errors import LogReadOnlyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Shutdown:
    """A close comes back when it is over, whoever began it [DUR-70].

    But for one that is called in its midst, by a signal's handler or a finalizer, or by a thread
    that it waits for: that would wait for itself. And one at the interpreter's end raises
    RuntimeError where that has stopped the thread which it would wait for.

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

    def finish(self) -> None:
        """All was let go of."""
        self.is_over = True

    def runs_in_this_thread(self) -> bool:
        """Whether this thread was called in its midst, and must not wait for it."""
        return self._lock.locked() and (
            self._thread == threading.get_ident() or self.waits_for_this_thread()
        )

    def run(self, end: Callable[[], None]) -> bool:
        """Call *end*, behind that of another thread: it does what was left of that, if anything.

        False = not called: another one is around this thread, also one that began meanwhile.
        """
        thread = threading.get_ident()  # before: no handler runs where it is stored
        with self._lock.unless(self.runs_in_this_thread) as is_first:
            if is_first:
                try:
                    self._thread = thread
                    end()
                finally:
                    self._thread = 0
        return is_first


@contextmanager
def suppress_repeated_error(error: BaseException | None) -> Iterator[None]:
    """Let a close at the end of a ``with`` not replace *error*, which ends its block, by its echo.

    A log whose sync has failed cannot be closed for it. What else a close raises comes out, as it
    is nowhere told but there: a failed sync, whatever ends the block [DUR-35]; so does an echo with
    notes, which are of other logs.
    """
    try:
        yield
    except LogReadOnlyError as failed:
        is_echo = any(one is failed.__cause__ for one in _causes(error))
        if error is None or not is_echo or hasattr(failed, "__notes__"):
            raise
        error.add_note(f"the close failed too: {failed}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield *error* and what it came of; Python lets these be a circle."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__
