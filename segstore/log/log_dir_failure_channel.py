"""Which log directories have failed (Kafka ``LogDirFailureChannel``) [LOC-2, LOC-27].

A disk that refuses to sync one log cannot be trusted with those beside it. Whoever opens the logs
of a directory gives all of them one channel: the first I/O error of one ends writing in all.
"""

from __future__ import annotations

import contextlib
import logging
import weakref
from typing import TYPE_CHECKING, Final, Protocol

from segstore._core import AppendLock
from segstore.errors import (
    CloseError,
    FsyncFailedError,
    LogReadOnlyError,
    ReadIOError,
    WriteError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore.errors import SegstoreError

IO_ERRORS: Final = (CloseError, FsyncFailedError, ReadIOError, WriteError)
"""What says that a disk has failed; a full one has not, nor has who holds too many files."""

_log = logging.getLogger(__name__)


class DirectoryFailureListener(Protocol):
    """A log, to the channel."""

    def poison(self, error: BaseException) -> None:
        """Take no changes from here on; may be called by any thread, and more than once."""


class LogDirFailureChannel:
    """The marks of log directories: each is made once, and stays.

    In Kafka there is one a process, which ends with its last directory. Here there is one a handle
    of a log directory, since a handle is what has no way back from read-only [DUR-38]: the embedder
    closes it, looks after the disk and opens another one.
    """

    def __init__(self) -> None:
        self._offline: dict[str, SegstoreError] = {}
        self._reported: set[str] = set()  # of those that are offline: all their logs know
        self._watching: dict[str, weakref.WeakSet[DirectoryFailureListener]] = {}
        self._lock = AppendLock()  # a handler that comes here in its midst is told

    def watch(self, log_dir: str, one: DirectoryFailureListener) -> None:
        """Poison *one* when its directory fails, or has."""
        with self._lock:
            self._watching.setdefault(log_dir, weakref.WeakSet()).add(one)
            error = self._offline.get(log_dir)
        if error is not None:
            one.poison(error)

    def maybe_add_offline_log_dir(self, log_dir: str, error: SegstoreError) -> None:
        """Mark *log_dir*, if it is not, and every log of it; waits for nobody.

        An interrupt may come anywhere: all of it is done again by the next call, until one returns.

        Parameters
        ----------
        log_dir : str
            The path as its logs have it: another spelling is another directory.
        error : SegstoreError
            What the logs of the directory raise from here on, as the cause.
        """
        # without the lock: a signal's handler that comes in the midst of `watch` marks it, too
        if log_dir in self._reported:
            return
        try:
            first = self._notify(log_dir, error)
        except BaseException:  # interrupted: who knows when the next call comes
            self._notify(log_dir, error)
            raise
        _log.error("%s: its logs take no changes from here on: %s", log_dir, first)

    def _notify(self, log_dir: str, error: SegstoreError) -> SegstoreError:
        first = self._offline.get(log_dir) or self._offline.setdefault(log_dir, error)
        for one in self._watched(log_dir):
            one.poison(first)
        self._reported.add(log_dir)
        return first

    def _watched(self, log_dir: str) -> tuple[DirectoryFailureListener, ...]:
        """Whoever comes while we look finds the mark himself."""
        while True:
            try:
                return tuple(self._watching.get(log_dir, ()))
            except RuntimeError:  # one came: look again
                continue

    def has_offline_log_dir(self, log_dir: str) -> bool:
        """Whether *log_dir* bears a mark."""
        return log_dir in self._offline

    def error_of(self, log_dir: str) -> SegstoreError | None:
        """Return the first error of *log_dir*, None when it bears no mark."""
        return self._offline.get(log_dir)

    def check(self, log_dir: str) -> None:
        """Raise when *log_dir* bears a mark: what it was given for is the cause [DUR-38]."""
        failure = self._offline.get(log_dir)
        if failure is not None:
            raise LogReadOnlyError(
                "the log directory takes no changes since an earlier error:"
                f" {failure.text_within(log_dir)}",
                file=log_dir,
            ) from failure

    @contextlib.contextmanager
    def guard(self, log_dir: str) -> Iterator[None]:
        """Mark *log_dir* when an I/O error comes out of the block [LOC-2]."""
        try:
            yield
        except IO_ERRORS as error:
            self.maybe_add_offline_log_dir(log_dir, error)
            raise
