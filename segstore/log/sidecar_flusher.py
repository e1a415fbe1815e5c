"""Checksum sidecars behind the sync of a sealed segment: the part of `Flusher` that writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.errors import FsyncFailedError
from segstore.log.failure_mark import FailureMark

if TYPE_CHECKING:
    from segstore._core import AppendLock
    from segstore.log.local.local_log import LocalLog
    from segstore.log.local.segment import Segment


class SidecarFlusher(FailureMark):
    """What brings checksum sidecars to stable storage; never a gate [DUR-41, DUR-60]."""

    __slots__ = ()

    _local_log: LocalLog
    _checkpoint_lock: AppendLock

    def _require_not_ended(self) -> None:
        raise NotImplementedError

    def _note_for_sidecar(self, segment: Segment) -> None:
        """Let a segment that was sealed get one, where they are wanted."""
        sidecars = self._local_log.checksum_sidecars
        if sidecars is not None and sidecars.are_written:
            sidecars.note_sealed(segment)

    def _write_sidecar_behind_roll(self, segment: Segment) -> None:
        if self.failure is None:
            with self._telling_of_failures("checksum sidecar"):
                self.write_checksum_sidecar(segment)

    def write_checksum_sidecar(self, segment: Segment, **how: bool) -> bool:
        """Write that of a segment which is sealed and synced, when it was noted.

        *how* is that of `ChecksumSidecars.make`. Not beside another sync of the directory: of two
        only one hears of an error [DUR-35].
        """
        sidecars = self._local_log.checksum_sidecars
        made = None if sidecars is None else sidecars.make(segment, **how)
        if sidecars is None or made is None:
            return False
        with self._checkpoint_lock, self.poisoned_by(FsyncFailedError):
            self._require_not_ended()
            self._require_not_failed()
            return sidecars.publish(made)
