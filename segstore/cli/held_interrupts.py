"""Ctrl-C that waits for the end of an import of a large package.

An interrupted import ends in whatever its modules make of that: NumPy's in a ``RuntimeError`` of a
class that is half made. Nothing of it is Ctrl-C any more, and the exit code would be 1.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Raise a KeyboardInterrupt that comes in the block at the end of the block.

    Only in the main thread, and where Python handles Ctrl-C: a program's own handler stays.
    """
    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not is_ours:
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if came:
            raise KeyboardInterrupt
