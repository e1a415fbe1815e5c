"""Following a log: records as they come, from this process or another one [DUR-75..DUR-78]."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore._core import Record
    from segstore.log.unified_log import Log
    from segstore.log.visible_range import VisibleRange
    from segstore.types import Isolation


def follow(  # noqa: PLR0913 - the log, and how it is waited for
    log: Log,
    look: Callable[[Isolation], VisibleRange],
    offset: int,
    timeout: float | None,
    poll_interval: float,
    isolation: Isolation,
) -> Iterator[Record]:
    """Yield records from *offset* on and wait for more.

    Parameters
    ----------
    look : callable
        Says where visible data ends now.
    timeout : float or None
        Seconds without a new record after which the iterator ends; None = never.
    poll_interval : float
        Seconds between two looks.
    """
    idle_since = time.monotonic()
    while True:
        log.refresh()
        visible = look(isolation)
        if offset < visible.bound.message_offset or visible.damage is not None:
            scan = log.scan(offset, isolation=isolation)
            yield from scan
            offset = scan.end_offset
            idle_since = time.monotonic()
            continue
        pause = poll_interval
        if timeout is not None:
            pause = min(pause, idle_since + timeout - time.monotonic())
            if pause <= 0:
                return
        time.sleep(pause)
