"""Following all partitions of a topic: new records of each, as they come."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from segstore.arguments import isolation_of, seconds
from segstore.errors import ClosedError
from segstore.tables.topic_scan import first_offset_to_read, offsets_by_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from segstore._core import Record
    from segstore.log.scan import LogScan
    from segstore.log.unified_log import Log
    from segstore.tables.topic_scan import Offsets
    from segstore.types import Isolation, IsolationName


class TopicTail:
    """The logs that are followed, and where in each.

    Parameters
    ----------
    positions : mapping of int to int
        The offset by partition from which on records are new.
    logs : mapping of int to Log
        Those of these partitions.
    numbers : callable
        Returns the partitions to follow as of now; one that came later is read from its start.
    log_of : callable
        Returns the log of a partition, for one that came later, or whose log was closed and is open
        again: it has moved to another log directory.
    """

    def __init__(
        self,
        logs: Mapping[int, Log],
        positions: Mapping[int, int],
        numbers: Callable[[], Sequence[int]],
        log_of: Callable[[int], Log],
    ) -> None:
        self._logs = dict(logs)
        self._positions = dict(positions)
        self._numbers = numbers
        self._log_of = log_of

    def follow(
        self, timeout: float | None, poll_interval: float, isolation: Isolation
    ) -> Iterator[Record]:
        """Yield records and wait for more; a partition has its turn with what it has then.

        Parameters
        ----------
        timeout : float or None
            Seconds without a new record in any partition after which the iterator ends.
        poll_interval : float
            Seconds between two looks at a topic that had nothing new.
        """
        idle_since = time.monotonic()
        while True:
            found = False
            for number in sorted({*self._logs, *self._numbers()}):
                scan = self._new_records(number, isolation)
                if scan is not None:
                    found = True
                    yield from self._noted(number, scan)
            if found:
                idle_since = time.monotonic()
                continue
            pause = poll_interval
            if timeout is not None:
                pause = min(pause, idle_since + timeout - time.monotonic())
                if pause <= 0:
                    return
            time.sleep(pause)

    def _new_records(self, number: int, isolation: Isolation) -> LogScan | None:
        if number not in self._logs:
            self._logs[number] = self._log_of(number)
            self._positions[number] = self._logs[number].log_start_offset
        try:
            return self._logs[number]._new_records(self._positions[number], isolation)  # noqa: SLF001 - as its own `tail` asks
        except ClosedError:
            self._logs[number] = self._log_of(number)
            return self._logs[number]._new_records(self._positions[number], isolation)  # noqa: SLF001 - the same

    def _noted(self, number: int, scan: LogScan) -> Iterator[Record]:
        """Yield the records of *scan*, as far as its log is open, and note how far that was."""
        try:
            for record in scan:
                self._positions[number] = record.offset + 1
                yield record
        except ClosedError:  # the next turn asks for another one
            return
        self._positions[number] = scan.end_offset


def follow_logs(  # noqa: PLR0913 - as `LogManager.tail`
    logs: Mapping[int, Log],
    offset: Offsets | None,
    numbers: Callable[[], Sequence[int]],
    log_of: Callable[[int], Log],
    *,
    timeout: float | None,
    poll_interval: float,
    isolation: Isolation | IsolationName,
) -> Iterator[Record]:
    """Check the arguments of a user, and follow *logs*; `LogManager.tail` describes them."""
    given = offsets_by_partition("offset", offset, logs)
    positions = {number: given.get(number, log.log_end_offset) for number, log in logs.items()}
    for number, log in logs.items():
        if number in given and not isinstance(offset, Mapping):
            first = max(given[number], first_offset_to_read(log))
            positions[number] = min(first, log.log_end_offset)
        log.scan(positions[number], positions[number])  # an error where there is no such offset
    patience = None if timeout is None else seconds("timeout", timeout)
    pause = min(seconds("poll_interval", poll_interval), threading.TIMEOUT_MAX)
    tail = TopicTail(logs, positions, numbers, log_of)
    return tail.follow(patience, pause, isolation_of(isolation))
