"""How much of a log a recovery may trust: the recovery point, and the names below it.

Source: [DUR-16, DUR-21].
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from segstore._core import Barrier
from segstore.errors import DiskFullError, FsyncFailedError
from segstore.log.directory.checkpoints import RECOVERY_POINT_CHECKPOINT, write_offset
from segstore.log.sidecar_flusher import SidecarFlusher
from segstore.types import LogOffsetMetadata

if TYPE_CHECKING:
    from segstore._core import AppendLock, PublishedEnd


class RecoveryPointFlusher(SidecarFlusher):
    """Writes down how far a log is durable: what is below, the next open does not read.

    Attributes
    ----------
    recovery_point : int
        What the checkpoint says: never above what is durable [DUR-4]. The least that it may say,
        where a write was interrupted.
    highest_recovery_point : int
        The most that it may say: a truncation goes by that [DUR-16].
    """

    __slots__ = ()

    _published: PublishedEnd
    highest_recovery_point: int
    recovery_point: int
    _append_lock: AppendLock
    _hole: tuple[int, int]
    _synced_names_version: int

    def sync_names(self, version: int) -> None:
        """Sync the directory when files were created or renamed since it last was.

        Not beside the recovery point, whose file's name is synced too: of two syncs of one
        directory only one hears of an error [DUR-35].

        Parameters
        ----------
        version : int
            What `LocalLog.names_version` was under the append lock: in the midst of a roll it
            counts a name that is not there yet.
        """
        if version > self._synced_names_version:
            with self._checkpoint_lock, self.poisoned_by(FsyncFailedError):
                self._require_not_failed()
                self._local_log.directory.sync(Barrier.APPENDED_NAMES)
                self._synced_names_version = max(version, self._synced_names_version)

    def write_recovery_point(self, *, is_locked: bool = False) -> None:
        """Write a durable offset [DUR-21]; with *is_locked* the caller holds the append lock."""
        offset = self._published.durable_offset
        with contextlib.nullcontext() if is_locked else self._append_lock:
            names_version = self._local_log.names_version
        # a segment that begins there, and is empty yet, may be all that says where the log ends
        self.sync_names(names_version)
        with self._checkpoint_lock:
            offset = min(offset, self._published.durable_offset)
            hole_start, hole_end = self._hole
            point = hole_start if offset == hole_end else offset
            if point > self.recovery_point:  # else somebody wrote a later one meanwhile
                self._write_recovery_point(point)

    def lower_recovery_point(self, offset: int) -> None:
        """Lower durable offset and checkpoint to *offset*, before a truncation.

        Called under the append lock; the checkpoint is on stable storage at return [DUR-16].
        """
        with self._checkpoint_lock:
            if self.highest_recovery_point > offset:
                self._write_recovery_point(offset)
            if self._published.durable_offset > offset:
                self._published.durable = LogOffsetMetadata(offset)

    def raise_recovery_point(self, offset: int) -> None:
        """Nothing below *offset*, the log start, is to be recovered; in memory only [UNI-3]."""

    def _write_recovery_point(self, offset: int) -> None:
        """Write it, and note before what the file may say when that is interrupted [DUR-16].

        Ctrl-C during the last sync is raised behind it: the file says *offset* then.
        """
        least, most = self.recovery_point, self.highest_recovery_point
        if not least == most == offset:
            self._require_not_ended()
            self._require_not_failed()
            directory = self._local_log.directory
            lower, higher = min(least, offset), max(most, offset)
            self.recovery_point, self.highest_recovery_point = lower, higher
            try:
                with self.poisoned_by(FsyncFailedError):
                    write_offset(
                        directory, RECOVERY_POINT_CHECKPOINT, self._topic_partition, offset
                    )
            except DiskFullError:  # the old content is there
                self.recovery_point, self.highest_recovery_point = least, most
                raise
            self.recovery_point = self.highest_recovery_point = offset

    def note_hole(self, data_end_offset: int, log_end_offset: int) -> None:
        """A truncation took whole batches: there is nothing between the data and the log end.

        Source: [TRU-5]. While the log ends there, the recovery point stays at the end of the data:
        recovery could not tell the hole from records that were lost.
        """
        self._hole = (data_end_offset, log_end_offset)
