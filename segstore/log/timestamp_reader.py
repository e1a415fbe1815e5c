"""Look-ups by timestamp, for users of a log.

Source: [TS-*].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.arguments import integer
from segstore.errors import SegstoreError
from segstore.log.local.timestamp_lookup import fetch_offset, find_offset_by_timestamp
from segstore.log.tail_reader import TailReader
from segstore.types import Isolation

if TYPE_CHECKING:
    from segstore.types import FileTimestampAndOffset

_LOG_END: Final = Isolation.LOG_END


class TimestampReader(TailReader):
    """What finds offsets by the time of their records."""

    def offset_for_timestamp(self, timestamp: int) -> int | None:
        """Return the offset of the first record with that timestamp or a later one.

        None without one.

        Parameters
        ----------
        timestamp : int
            In ms; negative ones have no special meaning here.
        """
        local_log = self._local_log
        cuts_done = local_log.cuts_done
        found = self._find_offset_by_lane(timestamp)
        if found is not None:
            local_log.check_not_cut(cuts_done, found.offset + 1)
            return found.offset
        self._require_open()
        segments = local_log.segments
        found = find_offset_by_timestamp(
            local_log, self.log_start_offset, integer("timestamp", timestamp)
        )
        self._teach_lane(segments)
        return None if found is None else found.offset

    def fetch_offset_by_timestamp(
        self, timestamp: int, isolation: Isolation | str = Isolation.LOG_END
    ) -> FileTimestampAndOffset:
        """Answer as a broker answers ListOffsets [TS-1].

        Parameters
        ----------
        timestamp : int
            In ms, or one of `SpecialTimestamp`: latest, earliest, max, and so on.
        isolation : Isolation or str
            Nothing at or behind its end is found; it is the latest offset.

        Returns
        -------
        FileTimestampAndOffset
            ``offset`` -1 when nothing was found.

        Source: [TS-1..TS-4, TS-6]; Kafka ``UnifiedLog.fetchOffsetByTimestamp``.
        """
        found = self._find_offset_by_lane(timestamp) if isolation is _LOG_END else None
        if found is not None:
            return found
        self._require_open()
        timestamp = integer("timestamp", timestamp)
        bound, log_start = self._visible(isolation).bound.message_offset, self.log_start_offset
        local_log, segments = self._local_log, self._local_log.segments
        cuts_done = local_log.cuts_done
        try:
            found = fetch_offset(local_log, self._epochs, log_start, bound, timestamp)
        except SegstoreError:
            local_log.check_not_torn(cuts_done, bound)
            raise
        self._teach_lane(segments)
        return found
