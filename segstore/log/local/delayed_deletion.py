"""Files that are unlinked some time after they were renamed to ``.deleted`` [LOC-20]."""

from __future__ import annotations

import logging
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from segstore.errors import SegstoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import Directory
    from segstore.log.files.background import Scheduler

_log = logging.getLogger(__name__)


class DelayedDeletion:
    """What one log has yet to unlink.

    Parameters
    ----------
    directory : Directory
        The partition's, for messages.
    background : Scheduler
        Unlinks when the time has come.
    """

    __slots__ = ("_awaiting", "_background", "_directory", "_numbers")

    def __init__(self, directory: Directory, background: Scheduler) -> None:
        self._directory = directory
        self._background = background
        self._numbers = count()
        self._awaiting: dict[int, Callable[[], object]] = {}

    def unlink_later(self, unlink: Callable[[], object], delay_seconds: float) -> None:
        """Call *unlink* after *delay_seconds*, or in `unlink_now`; once."""
        number = next(self._numbers)
        self._awaiting[number] = unlink  # the task does not keep it: files stay open with it
        self._background.submit(partial(self._unlink, number), delay_seconds)

    def unlink_now(self) -> None:
        """Unlink everything that still waits."""
        for number in list(self._awaiting):
            self._unlink(number)

    def _unlink(self, number: int) -> None:
        unlink = self._awaiting.pop(number, None)
        if unlink is not None:
            try:
                unlink()
            except SegstoreError:  # garbage: tried again by the next open [DUR-42]
                _log.warning("%s: files could not be removed", self._directory.path, exc_info=True)
