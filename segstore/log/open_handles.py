"""The directories and the write lock that one log handle holds; released together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segstore._core import Directory
    from segstore.log.files.partition_lock import PartitionLock


@dataclass(slots=True)
class OpenHandles:
    """Taken one after another by an open; given back together.

    Attributes
    ----------
    directory : Directory
        The partition's.
    parent : Directory or None
        The one above it, where it can be opened.
    home : Directory or None
        Where lock and checkpoints are by the caller's choice; *directory* itself when it is that.
    lock : PartitionLock or None
        The right to write; None for a reader.
    """

    directory: Directory
    parent: Directory | None = None
    home: Directory | None = None
    lock: PartitionLock | None = None

    def close(self) -> None:
        """Give the lock back, then close; twice is harmless."""
        if self.lock is not None:
            self.lock.release()
        for directory in (self.home, self.directory, self.parent):
            if directory is not None:
                directory.close()
