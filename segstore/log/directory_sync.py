"""Syncs of the partition's directory: one at a time, and none once the log has ended [DUR-35].

Of two syncs of one directory at the same time only one hears of an error.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from segstore._core import AppendLock, Barrier
from segstore.errors import ClosedError, FsyncFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import Directory
    from segstore.log.failure_mark import FailureMark


class DirectorySync:
    """Syncs names, and lets small files be written beside them, one after another.

    Attributes
    ----------
    lock : AppendLock
        Held by each sync of the directory.
    synced_names_version : int
        The `LocalLog.names_version` whose names are all on stable storage.
    has_ended : bool
        The log was closed: nothing is written any more.
    """

    __slots__ = ("_directory", "_failure_mark", "has_ended", "lock", "synced_names_version")

    def __init__(
        self, directory: Directory, append_lock: AppendLock, failure_mark: FailureMark
    ) -> None:
        self.lock = AppendLock()
        append_lock.comes_before(self.lock)
        self.synced_names_version = 0
        self.has_ended = False
        self._directory = directory
        self._failure_mark = failure_mark

    def sync_names(self, version: int) -> None:
        """Sync the directory when files were created or renamed since it last was.

        Parameters
        ----------
        version : int
            What `LocalLog.names_version` was under the append lock: in the midst of a roll it
            counts a name that is not there yet.
        """
        if version > self.synced_names_version:
            with self.lock, self._failure_mark.poisoned_by(FsyncFailedError):
                self._failure_mark.require_not_failed()
                self._directory.sync(Barrier.APPENDED_NAMES)
                self.synced_names_version = max(version, self.synced_names_version)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let the block, under `lock`, write a small file and sync its name."""
        self.require_not_ended()
        self._failure_mark.require_not_failed()
        with self._failure_mark.poisoned_by(FsyncFailedError):
            yield

    def end(self) -> None:
        """Write nothing any more; under the append lock."""
        self.has_ended = True

    def wait(self) -> None:
        """Return when no thread is about to write."""
        with self.lock:
            pass

    def require_not_ended(self) -> None:
        """Raise when the log was closed."""
        if self.has_ended:
            raise ClosedError("the log is closed", file=self._directory.path)
