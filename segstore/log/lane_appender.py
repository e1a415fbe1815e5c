"""The short way of an append for which nothing has to be decided [D11].

Batches without a producer, in the latest epoch, that fit into the active segment: they go down in
one call of the core, with the same checks, the same bytes and the same state as by the layers. For
all else the core's lane is not armed, or does not take them and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import AppendLane
from segstore.log.directory.checkpoints import LOCK
from segstore.log.log_writer import LogWriter

if TYPE_CHECKING:
    from segstore._core import BatchOptions
    from segstore.log.directory.durability import Durability
    from segstore.log.producers.producer_input import ProducerInput


class LaneAppender(LogWriter):
    """What tries the lane before the layers, and arms it behind them."""

    _batch_bytes: int
    _batch_options: BatchOptions
    _has_window: bool
    _input: ProducerInput
    _lane: AppendLane | None = None
    _syncs_on_append: bool
    durability: Durability

    def _new_lane(self) -> AppendLane:
        """Return a lane that goes by the settings of now; an append by the layers arms it."""
        waits_for_each_sync = self.durability.sync and not self._offsets.replicated
        self._append_lock.expect_syncs(self._syncs_on_append)
        validator_of_sent, validator_of_own = self._input.validators_of_lane()
        return AppendLane(
            validator_of_sent,
            validator_of_own,
            self._batch_options,
            self._codecs,
            self._append_lock,
            self._local_log.published,
            local_log=self._local_log,
            offsets=self._offsets,
            flusher=self._flusher,
            rounds=self._flusher.rounds if waits_for_each_sync else None,
            lock_file=LOCK,
            syncs_on_append=self._syncs_on_append,
            max_segment_bytes=self.config.roll_bytes,
            max_message_bytes=self.config.max_message_bytes,
            max_batch_bytes=self._batch_bytes,
        )

    def _settle_records(self) -> None:
        self._settle_lane()
        super()._settle_records()

    def _settle_lane(self) -> None:
        """Take over where the lane has left the log, also when a write was interrupted."""
        lane = self._lane
        if lane is None:
            return
        self._flusher.rounds.require_another_leader()
        if not lane.is_armed:
            return
        lane.publish_written()
        lane.disarm()

    def _arm_lane(self) -> None:
        """Tell the lane where the log ends; the last step of an append by the layers."""
        lane, epoch = self._lane, self._epochs.latest_epoch
        if lane is None or epoch is None or self._has_window:
            return
        self._local_log.arm(lane, epoch, self._offsets.log_start_offset)
