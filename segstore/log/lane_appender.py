"""The short way of an append for which nothing has to be decided [D11].

Batches without a producer, in the latest epoch, that fit into the active segment: they go down in
one call of the core, with the same checks, the same bytes and the same state as by the layers. For
all else the core's lane is not armed, or does not take them and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.config import MAX_INT
from segstore.errors import SegstoreError
from segstore.log.log_writer import LogWriter
from segstore.log.profile import Profile
from segstore.types import LogAppendInfo, LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore._core import AppendLane, EncodedBatches

    LaneAnswer = tuple[int, int, int, int] | None

_new = tuple.__new__  # what a named tuple's class does, without its Python function


class LaneAppender(LogWriter):
    """What tries the lane before the layers, and arms it behind them."""

    _has_window: bool
    _lane: AppendLane | None = None
    _stamps_append_time: bool
    _syncs_on_append: bool

    def _begin_change(self) -> None:
        if self._lane is not None:
            self._lane.disarm()
        super()._begin_change()

    def _arm_lane(self) -> None:
        """Tell the lane where the log ends; the last step of an append by the layers."""
        lane, epoch = self._lane, self._epochs.latest_epoch
        if lane is None or epoch is None or self.profile is not Profile.SAFE or self._has_window:
            return
        self._local_log.arm(lane, epoch)

    def _begin_append(self) -> None:
        if self._is_closed or self._flusher.failure is not None:  # while we waited
            self._require_writable()
        if self._has_window:
            self._flusher.check_window()
        self._begin_change()
        self._flush_topic_id()

    def _lane_as_leader(self, data: bytes, leader_epoch: object) -> LogAppendInfo | None:
        """One batch as a producer sends it."""
        lane = self._lane
        if lane is None or not lane.is_armed:
            return None
        if leader_epoch is None:
            epoch = -1  # the latest
        elif type(leader_epoch) is int and 0 <= leader_epoch <= MAX_INT:
            epoch = leader_epoch
        else:
            return None
        now_ms = self._directory.wall_clock_ms()
        append_time = now_ms if self._stamps_append_time else -1
        return self._by_lane(
            lane, lane.append_as_leader, (data, epoch, now_ms), len(data), append_time
        )

    def _lane_own(self, batches: EncodedBatches, now_ms: int) -> LogAppendInfo | None:
        """What was built here."""
        lane = self._lane
        if lane is None or not lane.is_armed:
            return None
        return self._by_lane(lane, lane.append_own, (batches, now_ms), batches.size_bytes, -1)

    def _lane_as_follower(self, data: bytes, leader_epoch: object) -> LogAppendInfo | None:
        """Batches of another log."""
        lane = self._lane
        if lane is None or not lane.is_armed:
            return None
        if type(leader_epoch) is not int or not 0 <= leader_epoch <= MAX_INT:
            return None
        arguments = (data, leader_epoch, self._directory.wall_clock_ms())
        return self._by_lane(lane, lane.append_as_follower, arguments, len(data), -1)

    def _by_lane(
        self,
        lane: AppendLane,
        append: Callable[..., LaneAnswer],
        arguments: tuple[object, ...],
        size: int,
        append_time: int,
    ) -> LogAppendInfo | None:
        """Append, publish, sync as the layers do; None when the lane did not take it."""
        local_log, flusher = self._local_log, self._flusher
        if self._append_lock.locked():  # who has to wait looks at his batches meanwhile [CON-2]
            return None
        with self._append_lock:
            if self._is_closed or flusher.failure is not None:
                return None
            before = lane.next_offset
            try:
                answer = append(*arguments)
            except SegstoreError as error:
                if local_log.is_poisoned:
                    flusher.poison(error)
                raise
            finally:  # also when something is raised behind the write: the bytes are there
                end = lane.next_offset
                if end != before:
                    base = local_log.log_end[1]
                    local_log.log_end = _new(LogOffsetMetadata, (end, base, lane.position))
            if answer is None:
                return None
            self._producers.update_map_end_offset(end)
            offsets = self._offsets
            if offsets.replicated:
                offsets.follow_log_end()
                offsets.update_first_unstable_offset()
            generation = local_log.generation
        if self._syncs_on_append:
            flusher.sync_if_due(end, generation)
        first, last, max_timestamp, count = answer
        start, durable = offsets.log_start_offset, flusher.durable[0]
        answered = (first, last, max_timestamp, append_time, start, count, size, durable, False)
        return _new(LogAppendInfo, answered)
