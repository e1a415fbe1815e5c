"""Whether a log may be read or changed now: its process, its end, its first failure.

Every public method of a log asks here once, before it does anything [DUR-38, DUR-68].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from segstore._core import process_id
from segstore.errors import ClosedError, ForkedHandleError, IllegalStateError, LogReadOnlyError

if TYPE_CHECKING:
    from segstore.log.failure_mark import FailureMark
    from segstore.log.files.checkpoint_store import CheckpointStore
    from segstore.log.log_dir_failure_channel import LogDirFailureChannel


class LogAccess:
    """The state of one handle: opened by a process, closed once, perhaps ended by a failure.

    Parameters
    ----------
    checkpoint_store : CheckpointStore
        Has the name and the directory of the partition.
    failure_mark : FailureMark or None
        What ends writing; None: the handle only reads.
    failures : LogDirFailureChannel or None
        Of the log directory: says why a handle of it only reads.

    Attributes
    ----------
    process_id : int
        The process that opened the log.
    is_closed : bool
        True also until a log that is written is complete: an open that fails warns of nothing.
    is_renamed_for_deletion : bool
        The partition was deleted, and its directory is there until the delay is over.
    """

    __slots__ = (
        "_checkpoint_store",
        "_failure_mark",
        "_failures",
        "is_closed",
        "is_renamed_for_deletion",
        "process_id",
    )

    def __init__(
        self,
        checkpoint_store: CheckpointStore,
        failure_mark: FailureMark | None,
        failures: LogDirFailureChannel | None,
    ) -> None:
        self.process_id = process_id()
        self.is_closed = failure_mark is not None
        self.is_renamed_for_deletion = False
        self._checkpoint_store = checkpoint_store
        self._failure_mark = failure_mark
        self._failures = failures

    @property
    def takes_no_changes(self) -> bool:
        """Whether the handle only reads, or a failure has ended writing."""
        return self._failure_mark is None or self._failure_mark.failure is not None

    def open(self) -> None:
        """The log is complete."""
        self.is_closed = False

    def close(self) -> None:
        """Take no calls any more; under the append lock."""
        self.is_closed = True

    def require_same_process(self) -> None:
        """Raise ForkedHandleError in a forked child of the process that opened the log."""
        if self.process_id != process_id():
            raise ForkedHandleError(
                f"the log was opened by process {self.process_id}: open it in this one instead",
                found=f"process {process_id()}",
                expected=f"process {self.process_id}",
            )

    def require_open(self) -> None:
        """Raise when the log was closed, or belongs to another process."""
        self.require_same_process()
        if self.is_closed:
            name = self._checkpoint_store.topic_partition
            end = "was deleted: it is" if self.is_renamed_for_deletion else "is"
            raise ClosedError(f"the log {name} {end} closed")

    def require_writable(self) -> None:
        """Raise when the log takes no changes.

        Most changes ask by `ChangeLock`: before the wait for the append lock, and with it.
        """
        self.require_open()
        if self._failure_mark is None:
            self.refuse()
        self.require_not_failed()

    def refuse(self) -> NoReturn:
        """Raise for a change that a handle for reading was asked for."""
        self.require_open()
        path = self._checkpoint_store.directory.path
        if self._failures is not None:  # why it is, where an earlier error has ended writing
            self._failures.check(path.rpartition("/")[0])
        shared = "" if self._failures is None else ", or is one of a directory with shared=True:"
        way_on = shared and f"{shared} LogManager.log_to_write opens it for writing"
        raise LogReadOnlyError(f"the log was opened with read_only=True{way_on}", file=path)

    def require_not_failed(self) -> None:
        """Raise the first error again, as what it has made of the log [DUR-38]."""
        mark = self._failure_mark
        cause = None if mark is None else mark.find_failure()
        if cause is not None:
            path = self._checkpoint_store.directory.path
            raise LogReadOnlyError(
                f"the log takes no changes since an earlier error: {cause.text_within(path)}",
                file=path,
            ) from cause

    # ---- renamed for deletion --------------------------------------------------------------------

    def note_rename(self, *, for_deletion: bool) -> None:
        """A directory that was renamed for deletion takes no records from then on [REN-1]."""
        self.is_renamed_for_deletion = for_deletion

    def require_not_doomed(self) -> None:
        """Raise when the directory was renamed for deletion."""
        if self.is_renamed_for_deletion:
            raise IllegalStateError(
                "the partition was deleted: its log takes no changes",
                file=self._checkpoint_store.directory.path,
            )
