"""Waiting for the lock of another writer: ``lock_timeout=`` of the opens, ``--wait`` of commands.

A try takes its locks without waiting [DUR-65], and gives back what it took when one is refused. So
two that wait hold nothing in between, and neither keeps the other from its turn.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

import segstore._core as _core
from segstore.errors import LogLockedError

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

_FIRST_PAUSE_SECONDS: Final = 0.001
_LONGEST_PAUSE_SECONDS: Final = 0.1


def waiting_for_lock(timeout: float, attempt: Callable[[], _T]) -> _T:
    """Return what *attempt* returns; call it again while another writer has the lock.

    The pauses grow from 1 ms to 100 ms. A signal interrupts them as it does any sleep. The last try
    comes when the time is over.

    Parameters
    ----------
    timeout : float
        How long to wait, in seconds; 0 = one try alone.
    attempt : callable
        Takes the locks, or raises `LogLockedError` and holds none of them.

    Raises
    ------
    LogLockedError
        The lock was not free within that time; its text says how long that was.
    """
    began_ns, pause = _core.monotonic_ns(), _FIRST_PAUSE_SECONDS
    while True:
        try:
            return attempt()
        except LogLockedError as error:
            left = timeout - (_core.monotonic_ns() - began_ns) / 1e9
            if left <= 0:
                if timeout > 0:
                    error.message += f"; it was not free within {timeout:g} seconds"
                raise
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
