"""The recovery point and its checkpoint: what the next open need not check again.

When it is written `Flusher` decides.

Source: [DUR-16, DUR-21].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.errors import DiskFullError
from segstore.log.files.checkpoints import RECOVERY_POINT_CHECKPOINT, write_offset

if TYPE_CHECKING:
    from segstore._core import Directory
    from segstore.log.directory_sync import DirectorySync
    from segstore.types import TopicPartition


class RecoveryPoint:
    """What the checkpoint of one log says.

    Attributes
    ----------
    offset : int
        What the checkpoint says: never above what is durable [DUR-4]. The least that it may say,
        where a write was interrupted.
    highest_offset : int
        The most that it may say: a truncation goes by that [DUR-16].
    """

    __slots__ = (
        "_directory",
        "_directory_sync",
        "_hole",
        "_topic_partition",
        "highest_offset",
        "offset",
    )

    def __init__(
        self,
        directory: Directory,
        directory_sync: DirectorySync,
        topic_partition: TopicPartition,
        offset: int,
    ) -> None:
        self.offset = self.highest_offset = offset
        self._directory = directory
        self._directory_sync = directory_sync
        self._topic_partition = topic_partition
        self._hole = (-1, -1)

    def use_name(self, topic_partition: TopicPartition) -> None:
        """Write the recovery point under another name from now on."""
        with self._directory_sync.lock:
            self._topic_partition = topic_partition

    def raise_to(self, durable_offset: int) -> None:
        """Write a durable offset, unless a later one was written; under the directory's lock."""
        hole_start, hole_end = self._hole
        point = hole_start if durable_offset == hole_end else durable_offset
        if point > self.offset:
            self._write(point)

    def lower_to(self, offset: int) -> None:
        """Write *offset* when the checkpoint may say more; under the directory's lock [DUR-16]."""
        if self.highest_offset > offset:
            self._write(offset)

    def note_hole(self, data_end_offset: int, log_end_offset: int) -> None:
        """A truncation took whole batches: there is nothing between the data and the log end.

        Source: [TRU-5]. While the log ends there, the recovery point stays at the end of the data:
        recovery could not tell the hole from records that were lost.
        """
        self._hole = (data_end_offset, log_end_offset)

    def _write(self, offset: int) -> None:
        """Write it, and note before what the file may say when that is interrupted [DUR-16].

        Ctrl-C during the last sync is raised behind it: the file says *offset* then.
        """
        least, most = self.offset, self.highest_offset
        if least == most == offset:
            return
        with self._directory_sync.writing():
            self.offset, self.highest_offset = min(least, offset), max(most, offset)
            try:
                write_offset(
                    self._directory, RECOVERY_POINT_CHECKPOINT, self._topic_partition, offset
                )
            except DiskFullError:  # the old content is there
                self.offset, self.highest_offset = least, most
                raise
        self.offset = self.highest_offset = offset
