"""Look-ups by timestamp, for users of a log.

Source: [TS-*].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore.arguments import timestamp as timestamp_of
from segstore.errors import SegstoreError
from segstore.log.local.timestamp_lookup import fetch_offset, find_offset_by_timestamp
from segstore.log.remote_tier import fetch_tiered_offset
from segstore.log.tail_reader import TailReader
from segstore.types import Isolation

if TYPE_CHECKING:
    from datetime import datetime

    from segstore.types import FileTimestampAndOffset, IsolationName

_LOG_END: Final = Isolation.LOG_END


class TimestampReader(TailReader):
    """What finds offsets by the time of their records."""

    def offset_for_timestamp(self, timestamp: int | datetime) -> int | None:
        """Return the offset of the first record with that timestamp or a later one.

        None without one.

        Parameters
        ----------
        timestamp : int or datetime
            In ms, or a datetime with a time zone; negative ones have no special meaning here.
        """
        local_log, tier = self._local_log, self._tier
        cuts_done = local_log.cuts.done
        found = self._find_offset_by_lane(timestamp) if tier is None else None
        if found is not None:
            local_log.cuts.check_not_cut(cuts_done, found.offset + 1)
            return found.offset
        self._require_open()
        segments, log_start = local_log.segments, self.log_start_offset
        timestamp = timestamp_of("timestamp", timestamp)
        if tier is not None and log_start != self.log_end_offset:
            epochs = self._epochs.entries
            remote = tier.search(self.topic_partition, timestamp, log_start, epochs)
            found = tier.first_of(
                remote, lambda start: find_offset_by_timestamp(local_log, start, timestamp)
            )
        else:
            found = find_offset_by_timestamp(local_log, log_start, timestamp)
        self._teach_lane(segments)
        return None if found is None else found.offset

    def fetch_offset_by_timestamp(
        self, timestamp: int | datetime, isolation: Isolation | IsolationName = Isolation.LOG_END
    ) -> FileTimestampAndOffset:
        """Answer as a broker answers ListOffsets [TS-1].

        Parameters
        ----------
        timestamp : int or datetime
            In ms, a datetime with a time zone, or one of `SpecialTimestamp`: latest, earliest, max,
            and so on.
        isolation : Isolation or str
            Nothing at or behind its end is found; it is the latest offset.

        Returns
        -------
        FileTimestampAndOffset
            ``offset`` -1 when nothing was found.

        Source: [TS-1..TS-4, TS-6]; Kafka ``UnifiedLog.fetchOffsetByTimestamp``.
        """
        tier = self._tier
        if tier is None and isolation is _LOG_END:
            found = self._find_offset_by_lane(timestamp)
            if found is not None:
                return found
        self._require_open()
        is_number = hasattr(timestamp, "__index__")
        timestamp = timestamp_of("timestamp", timestamp)
        if not is_number and timestamp < 0:  # a time before 1970, and none of the special numbers
            timestamp = 0
        bound, log_start = self._visible(isolation).bound.message_offset, self.log_start_offset
        local_log, segments, epochs = self._local_log, self._local_log.segments, self._epochs
        cuts_done = local_log.cuts.done
        try:
            if tier is None:
                found = fetch_offset(local_log, epochs, log_start, bound, timestamp)
            else:
                found = fetch_tiered_offset(
                    tier, local_log, epochs, self.topic_partition, log_start, bound, timestamp
                )
        except SegstoreError as error:
            local_log.check_not_torn(cuts_done, bound, error)
            raise
        self._teach_lane(segments)
        return found
