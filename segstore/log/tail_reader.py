"""Following a log: records as they come, from this process or another one.

Source: [DUR-75..DUR-78].
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from segstore.arguments import integer, isolation_of, seconds
from segstore.log.log_reader import LogReader
from segstore.types import Isolation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import Record
    from segstore.types import IsolationName


class TailReader(LogReader):
    """What waits for the records that are not there yet."""

    def tail(
        self,
        offset: int | None = None,
        *,
        timeout: float | None = None,
        poll_interval: float = 0.05,
        isolation: Isolation | IsolationName = Isolation.LOG_END,
    ) -> Iterator[Record]:
        """Yield records from *offset* on and wait for more; also while another process writes.

        Parameters
        ----------
        offset : int or None
            None = the log end: only what comes.
        timeout : float or None
            Seconds without a new record after which the iterator ends; None = never.
        poll_interval : float
            Seconds between two looks at the log.
        isolation : Isolation or str
            As in `scan`: ``read_committed`` waits for the end of a transaction.

        Raises
        ------
        OffsetOutOfRangeError
            *offset* is not in the log, or was deleted before it could be read.
        LogTruncatedError
            The writer cut the log below what was read already: it ends below that now, or holds
            another batch where the last one was [DUR-77].
        LogNotFoundError
            The log was deleted; one that was made in its place is not followed.
        InconsistentTopicIdError
            The same, where ``partition.metadata`` has another topic's id; the error has both.
        """
        self._require_open()
        start = self.log_end_offset if offset is None else integer("offset", offset)
        self.refresh()
        self._require_in_range(start, self._first_offset_here)
        patience = None if timeout is None else seconds("timeout", timeout)
        pause = min(seconds("poll_interval", poll_interval), threading.TIMEOUT_MAX)
        return self._follow(start, patience, pause, isolation_of(isolation))

    def _follow(
        self, offset: int, timeout: float | None, poll_interval: float, isolation: Isolation
    ) -> Iterator[Record]:
        idle_since = time.monotonic()
        while True:
            self.refresh()
            visible = self._visible(isolation)
            if offset < visible.bound.message_offset or visible.damage is not None:
                scan = self.scan(offset, isolation=isolation)
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
