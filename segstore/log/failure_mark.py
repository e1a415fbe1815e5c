"""The failure in memory that makes a handle read-only from its first failure on [DUR-35, DUR-38].

A failed sync is such a failure, and so is an invariant of our own that does not hold [DUR-44]. The
file that makes the next open write again what a failed sync left is ``SYNC_FAILED_MARK`` in
`files.checkpoints`; the core writes it, `recovered_tail` reads it.

Where one owner writes several logs of a directory, they share one failure [LOC-27].
"""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING

from segstore.errors import (
    FsyncFailedError,
    IllegalStateError,
    InternalError,
    LogNotFoundError,
    SegstoreError,
)
from segstore.log.durability import sync_failed_before
from segstore.log.files.partition_lock import check_not_removed
from segstore.log.log_dir_failure_channel import IO_ERRORS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import AppendLock, Directory
    from segstore.log.log_dir_failure_channel import LogDirFailureChannel

_log = logging.getLogger(__name__)


class FailureMark:
    """Whether a log takes changes, and what has ended that.

    Parameters
    ----------
    append_lock : AppendLock
        Barred by the mark: nobody gets in who does not look why.
    directory : Directory
        The partition's.
    failures : LogDirFailureChannel or None
        Of the log directory; None = the log was opened alone.

    Attributes
    ----------
    failure : SegstoreError or None
        The first error that ended writing. A sync that failed is not tried again: the kernel may
        have dropped the bytes, so that a later success would prove nothing [DUR-35].
    """

    __slots__ = ("__dict__", "__weakref__")

    def __init__(
        self,
        append_lock: AppendLock,
        directory: Directory,
        failures: LogDirFailureChannel | None,
    ) -> None:
        self.failure: SegstoreError | None = None
        self._unreported: SegstoreError | None = None  # its directory is still to be told of it
        self._append_lock = append_lock
        self._directory = directory
        self._failures = failures
        append_lock.tell_of_broken_invariants(self)
        if failures is not None:
            failures.watch(self._log_dir, self)

    @property
    def _name(self) -> str:
        return self._directory.path.rpartition("/")[2]

    @property
    def _log_dir(self) -> str:
        return os.path.dirname(self._directory.path)  # noqa: PTH120 - as the directory spells it

    def poison(self, error: BaseException) -> None:
        """Make the log read-only, by an I/O error its log directory too; the first error stays.

        But for that of an append in the moment between a sync that failed and its report: it only
        met what the sync had left. The failure is told last: nothing that a handler of `logging`
        raises leaves a log writable [LOC-27].
        """
        first = self.failure
        if first is not None and not (_is_met(first) and _is_cause(error)):
            return
        is_reported = self._error_of_directory() is not None  # for all logs at once
        try:
            self._end_writing(error)
        except BaseException:  # interrupted: nobody may come here again
            self._end_writing(error)
            raise
        finally:
            if not is_reported:
                _log.error("%s is read-only from here on: %s", self._name, error)

    def _end_writing(self, error: BaseException) -> None:
        """May be interrupted anywhere, and be done again."""
        failure = error
        if not isinstance(failure, SegstoreError):
            failure = IllegalStateError(f"interrupted by {type(error).__name__}: {error}")
            failure.__cause__ = error
        if isinstance(error, IO_ERRORS) and self._error_of_directory() is not error:
            self._unreported = error
        self.failure = failure
        self._append_lock.bar()
        self._notify_directory()

    def _notify_directory(self) -> None:
        """Whoever has done so may have been interrupted: until he has not, it is done again."""
        failures, error = self._failures, self._unreported
        if failures is not None and error is not None:
            failures.maybe_add_offline_log_dir(self._log_dir, error)
        self._unreported = None

    def _error_of_directory(self) -> SegstoreError | None:
        failures = self._failures
        return None if failures is None else failures.error_of(self._log_dir)

    @contextlib.contextmanager
    def poisoned_by(self, *causes: type[BaseException]) -> Iterator[None]:
        """Make the log read-only when one of these errors comes out of the block [DUR-38].

        What says that we do not know what we do is always one [DUR-44].
        """
        fatal: tuple[type[BaseException], ...] = (InternalError, *causes)
        try:
            yield
        except fatal as error:
            self.poison(error)
            raise

    @contextlib.contextmanager
    def telling_of_failures(self, what: str) -> Iterator[None]:
        """End an error that nobody waits for: a failed sync makes the log read-only [DUR-39]."""
        try:
            yield
        except (FsyncFailedError, InternalError) as error:
            self.poison(error)  # every later mutation and close raise it
        except SegstoreError:
            _log.warning("%s: %s failed", self._name, what, exc_info=True)
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it
            self.poison(error)

    def find_failure(self) -> SegstoreError | None:
        """Return what has ended writing, also where nobody was told of it.

        An interrupt may have come between a failed sync and its mark, or that of the directory and
        its logs [DUR-35, DUR-70, LOC-27].
        """
        if self.failure is None:
            error = self._error_of_directory()
            if error is None and self._directory.sync_failed:
                error = sync_failed_before(None, self._directory.path)
            if error is not None:
                self.poison(error)
        self._notify_directory()
        return self.failure

    def require_not_failed(self) -> None:
        """Raise for who would lead a sync, or say that one was enough [DUR-13, DUR-35].

        The kernel tells an error once: what is synced after it proves nothing of what was before.
        """
        failure = self.find_failure()
        if failure is not None:
            raise sync_failed_before(failure, self._directory.path)

    def require_untouched(self) -> None:
        """Raise when writing has ended, or the log was removed: a sync proves nothing then."""
        self.require_not_failed()
        check_not_removed(self._directory)

    def poison_by_round(self, error: BaseException) -> None:
        """Before anybody gets the lock, or leads the next round."""
        if isinstance(error, (FsyncFailedError, InternalError, LogNotFoundError)):
            self.poison(error)


def _is_met(failure: SegstoreError) -> bool:
    """Whether an append has met what another failure left; an interrupted one has a cause."""
    return isinstance(failure, IllegalStateError) and failure.__cause__ is None


def _is_cause(error: BaseException) -> bool:
    """Whether it is an I/O error of its own, not one told again of what ended writing before."""
    return isinstance(error, IO_ERRORS) and error.__cause__ is None
