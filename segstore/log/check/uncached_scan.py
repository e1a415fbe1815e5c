"""The segment scan of a scrub: past the page cache, at a limited rate [DUR-60]."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from segstore.numpy_on_demand import np

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import BatchHeaders, ScanResult
    from segstore.log.local.segment import Segment

WINDOW_BYTES: Final = 4 * 1024 * 1024
"""About so much is read between two looks at the clock."""


class UncachedScan:
    """A `SegmentScan` that bypasses the page cache and keeps to a rate.

    Parameters
    ----------
    bytes_per_second : int or None
        At most so many on average; None = no limit.
    progress : callable or None
        Called with the bytes read so far.
    """

    def __init__(
        self, bytes_per_second: int | None, progress: Callable[[int], None] | None = None
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._progress = progress
        self._bytes = 0
        self._began = time.monotonic()

    def __call__(self, segment: Segment, **how: Any) -> tuple[BatchHeaders, ScanResult]:
        """Read one segment, with what its ``scan`` takes."""
        segment.drop_cache()
        tables, position, latest = [], 0, -1
        for headers, result in segment.scan_windows(window_bytes=WINDOW_BYTES, **how):
            tables.append(headers)
            self._took(result.valid_bytes - position)
            position, latest = result.valid_bytes, max(latest, result.max_timestamp)
        return np.concatenate(tables), result._replace(max_timestamp=latest)

    def _took(self, size: int) -> None:
        """Report *size* bytes, and wait until they may have been read."""
        self._bytes += size
        if self._progress is not None:
            self._progress(self._bytes)
        if self._bytes_per_second is not None:
            due = self._began + self._bytes / self._bytes_per_second
            time.sleep(max(0.0, due - time.monotonic()))
