"""The lock of a log directory's checkpoints, while a partition merges its line [DUR-65]."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from segstore.errors import LogLockedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import Directory

MERGE_LOCK: Final = ".segstore.lock"
_ATTEMPTS: Final = 500
_PAUSE_SECONDS: Final = 0.01


@contextlib.contextmanager
def merge_lock(parent: Directory) -> Iterator[None]:
    """Keep writers of sibling partitions apart while one of them merges.

    Raises
    ------
    LogLockedError
        Others had the lock for five seconds.
    """
    for attempt in range(_ATTEMPTS):
        try:
            lock = parent.lock(MERGE_LOCK, exclusive=True)
            break
        except LogLockedError:
            if attempt == _ATTEMPTS - 1:
                raise
            time.sleep(_PAUSE_SECONDS)
    try:
        yield
    finally:
        lock.release()
