"""Who may write a partition: one handle, in one process, and no broker [DUR-65..DUR-68]."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
import threading
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import segstore._core as _core
from segstore.errors import LogLockedError, LogNotFoundError, LogPermissionError
from segstore.log.files.checkpoints import LOCK, META_PROPERTIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segstore._core import Directory, FileLock


class _Registry:
    """Who holds which directory for writing in this process, by device and inode [DUR-67].

    It keeps nobody alive: whatever an interrupt leaves undone, no entry outlives its holder.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._process_id = _core.process_id()
        self._holders: WeakValueDictionary[tuple[int, int], PartitionLock] = WeakValueDictionary()

    def add(self, holder: PartitionLock) -> bool:
        with self._mutex:
            if self._process_id != _core.process_id():  # a forked child holds nothing itself
                self._process_id = _core.process_id()
                self._holders = WeakValueDictionary()
            return self._holders.setdefault(holder.identity, holder) is holder

    def remove(self, holder: PartitionLock) -> None:
        """Take its entry out, not that of another one; no mutex: a collector may come here."""
        if self._holders.get(holder.identity) is holder:
            self._holders.pop(holder.identity, None)


_registry: Final = _Registry()
_OWNER_OF_ALL: Final = "a broker or a LogManager"
_OTHER_PROCESS: Final = "another process"
_WHOLE_FILE: Final = struct.Struct("@hhqqi4x")
"""``struct flock``: kind, whence, start, length, process."""


def is_log_directory(directory: Directory) -> bool:
    """Whether *directory* is one that a broker or a ``LogManager`` uses.

    Only there is anything locked.
    """
    return directory.exists(LOCK) or directory.exists(META_PROPERTIES)


class PartitionLock:
    """The right to write one partition, held until `release`.

    A write lock on ``.lock`` in the partition directory, a read lock on that of a log directory
    above it, and an entry in the registry of this process; only the entry where the caller holds
    the lock of the log directory.

    Attributes
    ----------
    identity : tuple of int
        Device and inode of the partition's directory.
    held : bool
        `release` is still to come.
    """

    def __init__(self, identity: tuple[int, int]) -> None:
        self.identity = identity
        self._locks: list[FileLock] = []
        self._process_id = _core.process_id()
        self.held = True

    @classmethod
    def acquire(
        cls,
        directory: Directory,
        parent: Directory | None,
        *,
        parent_is_locked: bool = False,
        home: Directory | None = None,
    ) -> PartitionLock:
        """Lock *directory*, and the log directory *parent* against brokers.

        Parameters
        ----------
        directory : Directory
            The partition's.
        parent : Directory or None
            The one above it; left alone unless it is a log directory.
        parent_is_locked : bool
            The caller holds the parent's ``.lock`` itself. No writer opens a partition beside
            that, so the partition's is only tried, for one that was there before, and let go of.
        home : Directory or None
            Where the partition's ``.lock`` is made. None = nowhere [DUR-62]: one that is there,
            of a handle of the other profile, is respected.

        Raises
        ------
        LogLockedError
            Somebody else writes: this process, another one, or a broker.
        """
        lock = cls(directory.identity)
        try:
            lock._take(directory, parent, home, parent_is_locked=parent_is_locked)
        except BaseException:
            lock.release()
            raise
        return lock

    def _take(
        self,
        directory: Directory,
        parent: Directory | None,
        home: Directory | None,
        *,
        parent_is_locked: bool,
    ) -> None:
        if not _registry.add(self):
            raise LogLockedError(
                "the log is already open for writing in this process: use that handle, or open it"
                " with read_only=True",
                file=directory.path,
                found="a writer in this process",
                expected="no other writer",
            )
        locks, is_at_home = self._locks, home is directory
        with hint_at_read_only():
            above = None if parent_is_locked else parent
            has_parents = above is not None and self._take_parents(above)
            if is_at_home or directory.exists(LOCK):
                lock = _lock(directory, _OTHER_PROCESS, exclusive=True)
                if parent_is_locked:  # no writer comes in now: an idle log holds no descriptor
                    lock.release()
                else:
                    locks.append(lock)
            if home is not None and not is_at_home:
                locks.append(_lock(home, "another log with this state_dir", exclusive=True))
            if above is not None and not has_parents:  # a manager may have made it one meanwhile
                self._take_parents(above)
            if above is not None:
                _check_is_in_place(directory, above)

    def _take_parents(self, parent: Directory) -> bool:
        """Lock a log directory against brokers and managers; return whether it is one."""
        lock = _lock_of_log_directory(parent)
        if lock is not None:
            self._locks.append(lock)
        return lock is not None

    def release(self) -> None:
        """Give the right back; the lock files stay [DUR-66]. Twice is harmless.

        Where an interrupt comes out of one step the others are done; what it has kept from being
        done, a second call does.
        """
        if self.held and self._process_id == _core.process_id():
            try:
                _release_from_last(self._locks)
            finally:
                _registry.remove(self)
            self.held = False

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # a handle that was dropped without close; at the interpreter's end the process lets go
        if getattr(self, "held", False) and not is_finalizing():
            self.release()


def _lock_of_log_directory(parent: Directory) -> FileLock | None:
    return lock_shared(parent) if is_log_directory(parent) else None


def lock_shared(log_directory: Directory) -> FileLock:
    """Keep brokers and managers out of a log directory, and no writer of one of its partitions.

    Raises
    ------
    LogLockedError
        One has the log directory open for writing.
    """
    if not log_directory.exists(LOCK):
        log_directory.make_file(LOCK)  # for who lives: nobody does after a crash
    return _lock(log_directory, _OWNER_OF_ALL, exclusive=False)


@contextlib.contextmanager
def lock_out_owners(log_directory: Directory) -> Iterator[None]:
    """Keep brokers and managers out in the block.

    Raises
    ------
    LogLockedError
        One has the log directory open for writing.
    """
    lock = _lock_of_log_directory(log_directory)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


@contextlib.contextmanager
def hint_at_read_only() -> Iterator[None]:
    """Say of a permission error that reading may work: nothing was created [DUR-40]."""
    try:
        yield
    except LogPermissionError as error:
        raise LogPermissionError(
            f"{error.message}; reading works with read_only=True",
            file=error.file,
            found=error.found,
            expected=error.expected,
            os_error=error.os_error,
        ) from error


def check_no_writer(path: str) -> None:
    """Raise what `PartitionLock.acquire` would; no lock is taken: it could be in the way [DUR-71].

    Raises
    ------
    LogLockedError
        Somebody has the partition at *path*, or the log directory above it, open for writing.
    """
    above = os.path.dirname(path)  # noqa: PTH120 - an absolute path, as it was given
    if _is_locked(f"{above}/{LOCK}", fcntl.F_RDLCK):
        raise _locked(above, _OWNER_OF_ALL)
    if _is_locked(f"{path}/{LOCK}", fcntl.F_WRLCK):
        raise _locked(path, _OTHER_PROCESS)


def _check_is_in_place(directory: Directory, parent: Directory) -> None:
    """Raise where the writer before has deleted or moved *directory* since it was opened here."""
    name = directory.path.rpartition("/")[2]
    try:
        inode = parent.info(name).inode
    except LogNotFoundError:
        inode = None
    if inode != directory.identity[1]:
        raise LogLockedError(
            "another writer has deleted or moved the log at this moment: open it again",
            file=directory.path,
            found="another directory, or none",
            expected="the directory that was opened",
        )


def check_not_removed(directory: Directory) -> None:
    """Raise when the directory of a log that is open for writing was removed.

    Its files can be written and synced for ever, and nobody will see a byte of that [DUR-4]. The
    lock file is the one that nobody of ours removes or renames [DUR-66].

    Raises
    ------
    LogNotFoundError
        The lock file is gone, alone or with the log: another writer would not be kept out.
    """
    if directory.exists(LOCK):
        return
    if not directory.has_segments():
        raise removed_while_open(directory.path)
    raise LogNotFoundError(
        "the lock file of the log was removed while the log was open. Another writer may have the"
        " log, so this handle writes nothing more; the next open makes the file again",
        file=f"{directory.path}/{LOCK}",
        found="no such file",
        expected="the lock file of the open log",
    )


def removed_while_open(path: str) -> LogNotFoundError:
    """Return the error for the writer of a log of which somebody has removed the files."""
    return _removed(path, "what is written there is lost")


def removed_while_read(path: str) -> LogNotFoundError:
    """Return the error for a reader of such a log."""
    return _removed(path, "the log was deleted")


def _removed(path: str, meaning: str) -> LogNotFoundError:
    return LogNotFoundError(
        "the directory of the log, or its files, were removed while the log was open: " + meaning,
        file=path,
        found="no such file",
        expected="the files of the open log",
    )


def _is_locked(path: str, kind: int) -> bool:
    """Whether a lock of that kind would be refused; what cannot be asked is not known to be."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        asked = _WHOLE_FILE.pack(kind, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked)
    except OSError:  # no locks on this file system: an open for writing says so
        return False
    finally:
        os.close(fd)
    return int(_WHOLE_FILE.unpack(answer)[0]) != fcntl.F_UNLCK


def _locked(directory_path: str, holder: str, os_error: int | None = None) -> LogLockedError:
    return LogLockedError(
        f"{holder} has the log open for writing; reading works with read_only=True",
        file=f"{directory_path}/{LOCK}",
        found=f"a lock of {holder}",
        expected="no other writer",
        os_error=os_error,
    )


def _lock(directory: Directory, holder: str, *, exclusive: bool) -> FileLock:
    try:
        return directory.lock(LOCK, exclusive=exclusive)
    except LogLockedError as error:
        raise _locked(directory.path, holder, error.os_error) from error


def _release_from_last(locks: list[FileLock]) -> None:
    if locks:
        try:
            locks[-1].release()
        finally:
            _release_from_last(locks[:-1])
