"""The short way of a read for which nothing has to be decided [D11].

Up to the log end, where one segment holds what was asked for: such a read is one call of the core
on the objects of this moment. None means that the layers have to do it: nothing has happened then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import ReadLane
from segstore.log.file_records import FileRecords
from segstore.records.fetch_data_info import FetchDataInfo

if TYPE_CHECKING:
    from datetime import datetime

    from segstore._core import CodecTable
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segments import Segments
    from segstore.log.log_offsets import LogOffsets
    from segstore.types import FileTimestampAndOffset, TopicPartition

    Lane = ReadLane[FetchDataInfo, FileRecords]


class LaneReader:
    """What tries the lane before the layers."""

    topic_partition: TopicPartition
    _local_log: LocalLog
    _codecs: CodecTable
    _offsets: LogOffsets

    def _new_read_lane(self, segments: Segments) -> Lane:
        """Make the lane of a snapshot, with which it ends: it keeps no file of a deleted one."""
        lane: Lane = ReadLane(
            segments.as_tuple,
            self._codecs,
            self._local_log.directory,
            fetch_class=FetchDataInfo,
            slice_class=FileRecords,
            check_order=self._local_log.written_order,
            is_kafkas=self._local_log.is_kafkas,
        )
        segments.lane = lane
        return lane

    def _read_by_lane(
        self,
        offset: int,
        max_bytes: int,
        min_one_message: bool,  # noqa: FBT001 - as the caller gave it
    ) -> FetchDataInfo | None:
        local_log = self._local_log
        segments = local_log.segments
        lane = segments.lane or self._new_read_lane(segments)
        start, published = self._offsets.log_start_offset, local_log.published
        return lane.read(offset, max_bytes, min_one_message, start, published, self.topic_partition)

    def _slice_by_lane(
        self,
        offset: int,
        max_bytes: int,
        min_one_message: bool,  # noqa: FBT001 - as the caller gave it
    ) -> FileRecords | None:
        local_log = self._local_log
        cuts_done, segments = local_log.cuts.done, local_log.segments
        lane = segments.lane or self._new_read_lane(segments)
        start, published = self._offsets.log_start_offset, local_log.published
        return lane.slice(self, offset, max_bytes, min_one_message, start, published, cuts_done)

    def _find_offset_by_lane(self, timestamp: int | datetime) -> FileTimestampAndOffset | None:
        local_log = self._local_log
        segments = local_log.segments
        lane = segments.lane or self._new_read_lane(segments)
        start, published = self._offsets.log_start_offset, local_log.published
        return lane.find_offset_by_timestamp(timestamp, start, published)

    def _teach_lane(self, segments: Segments) -> None:
        """Tell the lane which of the largest timestamps the layers have asked for meanwhile."""
        lane = segments.lane
        if lane is not None:
            lane.learn(segments.running_maxima)
