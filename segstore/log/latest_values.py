"""The last committed value of each key, from the logs of a topic, as Arrow.

Two passes over one log at a time: the first notes the offset of each key's last record in a map,
the second one gives out the records at those offsets. A compaction meanwhile keeps the last record
of each key at its offset. Only where it reaches beyond the end of the range, a later record may
have taken that one away: that is an error.

Source: [CLN-45, CLN-84, DUR-126].
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from segstore._core import OffsetMap
from segstore.notebook import as_html
from segstore.records.arrow_rows import ArrowRows
from segstore.records.columns import MAX_BATCH_BYTES, MAX_BATCH_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from segstore._core import ArrowBatch
    from segstore.log.scan import LogScan

_FIRST_MAP_BYTES: Final = 24 * 1024
"""What the map begins with; it grows."""
_SECRET_BYTES: Final = 16


class LatestOfLog:
    """The last value of each key in the range of a scan of committed records.

    Parameters
    ----------
    scan : LogScan
        Of the whole log, ``read_committed``.
    require_complete : callable
        Called after each pass; raises where compaction may have removed a last value.
    """

    def __init__(self, scan: LogScan, require_complete: Callable[[], None]) -> None:
        self.scan = scan
        self._require_complete = require_complete

    def arrow_batches(
        self, columns: Sequence[str], rows: int, max_bytes: int, *, microseconds: bool
    ) -> Iterator[ArrowBatch]:
        """Yield the rows of this log; the map lives as long as the iterator."""
        read = self.scan._arrow_batches  # noqa: SLF001 - the same range, twice
        last_offsets = OffsetMap(_FIRST_MAP_BYTES, os.urandom(_SECRET_BYTES))
        for _ in read((), last_offsets=last_offsets, notes_last_offsets=True):
            pass  # it has no rows
        self._require_complete()
        yield from read(
            columns, rows, max_bytes, microseconds=microseconds, last_offsets=last_offsets
        )
        self._require_complete()


class LatestValues(ArrowRows):
    """The last committed value of each key of a topic, read lazily; `LogManager.latest` returns it.

    It is an Arrow stream: ``polars.DataFrame(latest)`` and all that take ``__arrow_c_stream__``
    read it. It can be read any number of times while the logs are open, and gives the same rows.

    The rows come partition after partition, each in the order of its offsets.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns, as in `LogScan`.

    Raises
    ------
    CorruptRecordError, CorruptLogError
        While it is read: a log is damaged, with file and position. No row of its partition came.
    LogTruncatedError
        A log was truncated since the call of `LogManager.latest`, at any offset [DUR-77].
    OffsetOutOfRangeError
        Segments were deleted since, such as by retention [DUR-78].
    IllegalStateError
        A log was compacted beyond the end of the range since: the last value of a key may be
        missing. After each of these three, call `LogManager.latest` again.
    ResourceError
        There is no memory for the map of keys.
    """

    __slots__ = ("_logs", "_topic", "columns")

    def __init__(self, topic: str, logs: Sequence[LatestOfLog]) -> None:
        self._topic = topic
        self._logs = logs
        self.columns: tuple[str, ...] = logs[0].scan.columns

    def _arrow_batches(
        self,
        columns: Sequence[str],
        rows: int = MAX_BATCH_ROWS,
        max_bytes: int = MAX_BATCH_BYTES,
        *,
        microseconds: bool = False,
    ) -> Iterator[ArrowBatch]:
        for log in self._logs:
            yield from log.arrow_batches(columns, rows, max_bytes, microseconds=microseconds)

    @as_html
    def _repr_html_(self) -> Iterator[tuple[str, object]]:
        yield "columns", ", ".join(self.columns)

    def __repr__(self) -> str:
        return f"LatestValues({self._topic!r}, {len(self._logs)} partitions)"
