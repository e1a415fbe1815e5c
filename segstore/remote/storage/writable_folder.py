"""A folder that segments are copied to: of this machine, or of a network's file system."""

from __future__ import annotations

import errno
import os
from contextlib import closing, contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Final

from segstore._core import Barrier, DataFile, Directory
from segstore.errors import (
    LogNotFoundError,
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RetriableRemoteStorageError,
    SegstoreError,
)
from segstore.log.files.parent_directory_sync import sync_parent_directories

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from segstore._core import Environment

_TEMPORARY: Final = ".tmp"
_MOST_KEPT_FOLDERS: Final = 1000
"""As many as a reader knows logs; the pool of descriptors closes those that are not used."""
_PASSING: Final = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EINTR,
        errno.ENETDOWN,
        errno.ENETRESET,
        errno.ENETUNREACH,
        errno.ENOTCONN,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)
"""Of a network's file system; a full disk is none of these: what was copied has to go then."""


class WritableFolder:
    """Folders of files below *path*, each written beside its name and synced before it has it.

    Parameters
    ----------
    path : str
        Its last two parts are made where they are not there.
    environment : Environment or None
        For tests; also where the files are that are copied.
    """

    def __init__(self, path: str, environment: Environment | None = None) -> None:
        self.url = os.path.abspath(path)  # noqa: PTH100 - a link is not followed
        self._environment = environment
        self._synced: set[str] = set()
        """Folders whose name is known to be durable."""
        self._lock = Lock()
        self._kept: dict[str, Directory] = {}
        """Folders that are read from; the one asked for longest ago first."""

    def put(self, folder: str, files: Mapping[str, str | bytes]) -> None:
        """Copy files; see `WritableStore`."""
        with self._naming_errors(), closing(self._made(folder)) as directory:
            for name, content in files.items():
                self._write(directory, name + _TEMPORARY, content)
            for name in files:
                directory.rename(name + _TEMPORARY, name)
            directory.sync(Barrier.REMOTE_COPY_NAMES)

    def get(self, folder: str, name: str, start: int, end: int) -> memoryview:
        """Read a part; see `WritableStore`."""
        with self._naming_errors(f"{folder}/{name}"), closing(self._opened(folder)) as directory:
            return directory.read_view(name, start, max(end - start, 0))

    def open_folder(self, folder: str) -> Directory | None:
        """Return a folder that is kept open; see `WritableStore`."""
        with self._lock:
            kept = self._kept.pop(folder, None)
            if kept is None or kept.closed:
                kept = None
                with suppress(SegstoreError):  # a read of a file of it says why
                    kept = self._opened(folder)
            if kept is not None:
                self._kept[folder] = kept
                while len(self._kept) > _MOST_KEPT_FOLDERS:
                    self._kept.pop(next(iter(self._kept))).close()
        return kept

    def close(self) -> None:
        """Close the folders that are kept open."""
        with self._lock:
            for kept in self._kept.values():
                kept.close()
            self._kept.clear()

    def get_whole(self, folder: str, name: str) -> bytes:
        """Read a file; see `WritableStore`."""
        with self._naming_errors(f"{folder}/{name}"), closing(self._opened(folder)) as directory:
            return directory.read_file(name)

    def delete(self, folder: str, names: Iterable[str]) -> None:
        """Delete files and temporary ones, and a folder that is empty then; see `WritableStore`.

        A crash may leave the folder: readers of the bucket would list its topic, without records.
        """
        with self._naming_errors():
            try:
                directory = self._opened(folder)
            except LogNotFoundError:
                return
            with closing(directory):
                for name in names:
                    directory.unlink(name, missing_ok=True)
                    directory.unlink(name + _TEMPORARY, missing_ok=True)
                directory.sync(Barrier.REMOTE_DELETION)  # also where a call before failed to
                is_empty = not directory.names()
            if is_empty:
                with self._lock:
                    kept = self._kept.pop(folder, None)
                if kept is not None:
                    kept.close()  # a folder that is made again is another one
                with (
                    closing(Directory(self.url, self._environment)) as above,
                    suppress(SegstoreError),
                ):
                    above.remove_directory(folder)  # refused where another file came meanwhile

    def _write(self, directory: Directory, name: str, content: str | bytes) -> None:
        with DataFile(directory, name, create=True) as file:
            file.truncate(0)
            if isinstance(content, bytes):
                file.write(0, content)
            else:
                above, source = os.path.split(content)
                with closing(Directory(above, self._environment)) as local:
                    file.copy_from(local, source)
            file.sync(Barrier.REMOTE_COPY)

    def _opened(self, folder: str) -> Directory:
        return Directory(f"{self.url}/{folder}", self._environment)

    def _made(self, folder: str) -> Directory:
        """Open a folder; it and what it is in are durable afterwards [DUR-11]."""
        if folder in self._synced:
            with suppress(LogNotFoundError):
                return self._opened(folder)
        for path in (os.path.dirname(self.url), self.url):  # noqa: PTH120 - as it was given
            Directory(path, self._environment, create=True).close()
        directory = Directory(f"{self.url}/{folder}", self._environment, create=True)
        # Another program may have made any of them, without a sync.
        sync_parent_directories(directory.path, self._environment)
        self._synced.add(folder)
        return directory

    @contextmanager
    def _naming_errors(self, read: str | None = None) -> Iterator[None]:
        """Make errors of this folder those of remote storage; those of local files stay.

        One about *read* names that file, also where the folder that it was in is missing.
        """
        try:
            yield
        except SegstoreError as error:
            if error.file is None or not f"{error.file}/".startswith(f"{self.url}/"):
                raise
            if read is not None and isinstance(error, LogNotFoundError):
                raise RemoteResourceNotFoundError(
                    "remote storage has no such file",
                    file=f"{self.url}/{read}",
                    os_error=error.os_error,
                ) from None
            raise _remote_error(error) from None


def _remote_error(error: SegstoreError) -> RemoteStorageError:
    kind, message = RemoteStorageError, f"remote storage failed: {error.message}"
    if error.os_error in _PASSING:
        kind = RetriableRemoteStorageError
    return kind(
        message,
        file=error.file,
        position=error.position,
        found=error.found,
        expected=error.expected,
        os_error=error.os_error,
    )
