"""A folder of this machine as a store: what its files hold is what objects of a bucket hold."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from segstore.errors import LogNotFoundError, LogPermissionError, ReadIOError
from segstore.remote.remote_file import (
    Folder,
    RemoteFile,
    changed_error,
    folder_of,
    vanished_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

READ_BYTES: Final = 16 * 1024 * 1024


class LocalFolder:
    """A directory of a file system; its files are opened for each read.

    Parameters
    ----------
    path : path
        Of the directory, which need not be there.
    """

    requests_at_once = 8
    has_checkpoints = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.url = os.path.abspath(os.fspath(path))  # noqa: PTH100 - a link is not followed
        self.key = hashlib.sha256(os.fsencode(self.url)).hexdigest()

    def list_folder(self, folder: str) -> Folder:
        """Return the regular files and the directories in *folder*; what is not there is empty."""
        files, folders = [], []
        try:
            with os.scandir(os.path.join(self.url, folder)) as entries:  # noqa: PTH118
                for entry in entries:
                    try:
                        status = entry.stat()
                    except FileNotFoundError:  # removed meanwhile, or a link to nothing
                        continue
                    if stat.S_ISDIR(status.st_mode):
                        folders.append(entry.name)
                    elif stat.S_ISREG(status.st_mode):
                        files.append(_listed(f"{folder}/{entry.name}".lstrip("/"), status))
        except (FileNotFoundError, NotADirectoryError):
            return Folder({}, [])
        except OSError as error:
            raise self._error(error, folder) from None
        return folder_of(self.url, files, folders)

    def iter_files(self, folder: str) -> Iterator[RemoteFile]:
        """Yield the regular files in *folder* in the order of their names."""
        where = os.path.join(self.url, folder)  # noqa: PTH118
        try:
            names = sorted(os.listdir(where))  # noqa: PTH208 - names alone take the least memory
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise self._error(error, folder) from None
        for name in names:
            try:
                status = os.stat(os.path.join(where, name))  # noqa: PTH116, PTH118
            except FileNotFoundError:  # removed meanwhile, or a link to nothing
                continue
            except OSError as error:
                raise self._error(error, f"{folder}/{name}") from None
            if stat.S_ISREG(status.st_mode):
                yield _listed(f"{folder}/{name}".lstrip("/"), status)

    def read(self, file: RemoteFile, write: Callable[[bytes | memoryview], object]) -> None:
        """Hand all bytes of *file*, as it was listed, to *write*."""
        for start in range(0, file.size_bytes, READ_BYTES):
            write(self.read_range(file, start, min(start + READ_BYTES, file.size_bytes)))

    def read_range(self, file: RemoteFile, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)`` of *file*."""
        with self._opened(file) as descriptor:
            data = _read_all(descriptor, start, end)
        if len(data) != end - start:
            raise self._short(file, start, len(data), end - start)
        return data

    def read_into(self, file: RemoteFile, start: int, target: memoryview) -> None:
        """Fill *target* with the bytes of *file* from *start* on."""
        with self._opened(file) as descriptor:
            got = read_into(descriptor, start, target)
        if got != len(target):
            raise self._short(file, start, got, len(target))

    @contextmanager
    def _opened(self, file: RemoteFile) -> Iterator[int]:
        """Open *file*, as it was listed; errors in the block are of this file."""
        path = os.path.join(self.url, file.path)  # noqa: PTH118
        try:
            # A pipe in the place of the file must not make the reader wait.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            raise vanished_error(self.url, file) from None
        except OSError as error:
            raise self._error(error, file.path) from None
        try:
            now = _listed(file.path, os.fstat(descriptor))
            if now != file:
                raise changed_error(
                    self.url, file, f"{now.size_bytes} bytes, identity {now.identity}"
                )
            yield descriptor
        except OSError as error:
            raise self._error(error, file.path) from None
        finally:
            os.close(descriptor)

    def _short(self, file: RemoteFile, start: int, got: int, wanted: int) -> ReadIOError:
        return ReadIOError(
            "the file ended early",
            file=os.path.join(self.url, file.path),  # noqa: PTH118
            position=start + got,
            found=f"{got} bytes",
            expected=f"{wanted} bytes from {start} on",
        )

    def _error(
        self, error: OSError, path: str
    ) -> LogPermissionError | LogNotFoundError | ReadIOError:
        kind = LogPermissionError if isinstance(error, PermissionError) else ReadIOError
        where = os.path.join(self.url, path).rstrip("/")  # noqa: PTH118
        return kind(f"the file cannot be read: {error.strerror}", file=where, os_error=error.errno)


def read_into(descriptor: int, start: int, target: memoryview) -> int:
    """Fill *target* with what a file has from *start* on; return how many bytes there were."""
    at = 0
    while at < len(target) and (got := os.preadv(descriptor, [target[at:]], start + at)):
        at += got
    return at


def _listed(path: str, status: os.stat_result) -> RemoteFile:
    identity = f"{status.st_ino} {status.st_mtime_ns}"
    return RemoteFile(path, status.st_size, identity, status.st_mtime_ns)


def _read_all(descriptor: int, start: int, end: int) -> bytes:
    parts = []
    while start < end:
        part = os.pread(descriptor, min(end - start, READ_BYTES), start)
        if not part:
            break
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
