"""A folder of hard links into the spool, on which a log is opened.

It is there as long as the process that made it holds its lock, and does not close it: what a
killed process leaves is removed by the next who makes room.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from segstore._core import FileLock

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_LOCK: Final = ".lock"


class SpoolView:
    """A folder of one process.

    Parameters
    ----------
    folder : Path
        Of all views; who makes one keeps others from removing those that were left.

    Attributes
    ----------
    path : Path
        Of the folder itself.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / uuid.uuid4().hex
        lock = self.path.with_suffix(_LOCK)
        # a forked child, which may live longer, closes it
        held = FileLock.open_flock(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        fcntl.flock(held.fileno(), fcntl.LOCK_EX)
        self.path.mkdir(mode=0o700)
        self._remove = weakref.finalize(self, _remove, self.path, lock, held)

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Make the file *name*, a path below the folder, which nobody else has."""
        (self.path / name).write_bytes(data)

    def stand_in(self, name: str, size_bytes: int, modified_ns: int | None) -> None:
        """Make a file *name* of that size, which takes no room: its bytes come from elsewhere."""
        path = self.path / name
        path.touch()
        os.truncate(path, size_bytes)
        if modified_ns is not None:
            os.utime(path, ns=(modified_ns, modified_ns))

    def close(self) -> None:
        """Remove the folder; twice is harmless. What an open log has mapped stays readable."""
        self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _remove(path: Path, lock: Path, held: FileLock) -> None:
    if held.held:  # a fork has no part in it
        shutil.rmtree(path, ignore_errors=True)
        with suppress(FileNotFoundError):
            lock.unlink()
        held.release()


def remove_left_views(folder: Path) -> None:
    """Remove the views whose processes are gone."""
    for lock in folder.glob(f"*{_LOCK}"):
        try:
            held = FileLock.open_flock(lock, os.O_RDWR)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(held.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.release()
            continue
        _remove(lock.with_suffix(""), lock, held)
