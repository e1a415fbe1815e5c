"""The short way of an append: which lane of the core is in use, and whether it is armed [D11].

Batches without a producer, in the latest epoch, that fit into the active segment go down in one
call of the core (`AppendLane`), with the same checks, bytes and state as by the layers. For all
else the lane is not armed, or does not take them and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segstore._core import AppendLane
    from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
    from segstore.log.flusher import LogFlusher
    from segstore.log.local.local_log import LocalLog
    from segstore.log.log_offsets import LogOffsets


class LaneSwitch:
    """Arms a lane behind an append by the layers, and takes over what the lane has written.

    Attributes
    ----------
    lane : AppendLane or None
        None in Kafka's profile.
    """

    __slots__ = ("_epochs", "_flusher", "_is_held", "_local_log", "_offsets", "lane")

    def __init__(
        self,
        local_log: LocalLog,
        offsets: LogOffsets,
        epochs: LeaderEpochFileCache,
        flusher: LogFlusher,
    ) -> None:
        self.lane: AppendLane | None = None
        self._is_held = False
        self._local_log = local_log
        self._offsets = offsets
        self._epochs = epochs
        self._flusher = flusher

    def use(self, lane: AppendLane | None, *, held: bool) -> None:
        """Go by another lane from now on; with *held* it is never armed."""
        self.reconcile()
        self.lane, self._is_held = lane, held

    def reconcile(self) -> None:
        """Take over where the lane has left the log, also when a write was interrupted."""
        lane = self.lane
        if lane is None:
            return
        self._flusher.rounds.require_another_leader()
        if not lane.is_armed:
            return
        lane.publish_written()  # nothing of it has a producer
        lane.disarm()

    def arm(self) -> None:
        """Tell the lane where the log ends; the last step of an append by the layers."""
        lane, epoch = self.lane, self._epochs.latest_epoch
        if lane is None or epoch is None or self._is_held:
            return
        self._local_log.arm(lane, epoch, self._offsets.log_start_offset)
