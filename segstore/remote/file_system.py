"""Directories of whatever ``fsspec`` knows: ``memory``, ``hdfs``, ``http``, ``sftp`` and so on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from segstore.errors import (
    IllegalArgumentError,
    LogNotFoundError,
    LogPermissionError,
    ReadIOError,
    SegstoreError,
)
from segstore.remote.remote_file import (
    Folder,
    RemoteFile,
    changed_error,
    folder_of,
    vanished_error,
)
from segstore.remote.urls import place_key, scheme_of, secrets_in, shown_url, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

READ_BYTES: Final = 4 * 1024 * 1024
_TAGS: Final = ("ETag", "etag", "e_tag", "md5Hash", "checksum", "generation", "version")
_TIMES: Final = ("LastModified", "last_modified", "mtime", "modified", "updated", "created")
_MILLISECONDS_FROM: Final = 100_000_000_000
"""Numbers above are ms since 1970, as HDFS tells them, and not seconds."""


class FileSystem:
    """A directory of an ``fsspec`` file system.

    Parameters
    ----------
    url : str
        ``memory://logs``, ``hdfs://host/logs``.
    settings : mapping of str to str
        Arguments of the file system.

    Raises
    ------
    ImportError
        The package that the scheme needs is not installed.
    IllegalArgumentError
        ``fsspec`` does not know the scheme, or a setting.
    """

    requests_at_once = 1  # not every file system can be asked by several threads
    has_checkpoints = True

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        import fsspec

        self.url, self.key = shown_url(url), place_key(url, settings)
        self._secrets = secrets_in(settings)
        self._system: Any
        self._root: str
        try:
            self._system, self._root = fsspec.core.url_to_fs(url, **settings)
        except ImportError as error:
            message = f"{scheme_of(url)}:// needs a package that is not installed: {error}"
            raise ImportError(message) from None
        except Exception as error:  # noqa: BLE001 - each file system has its own
            raise IllegalArgumentError(
                f"the file system cannot be opened: {self._error_text(error)}",
                file=self.url,
                found=f"{scheme_of(url)}://",
                expected="a URL and settings that fsspec takes",
            ) from None

    def list_folder(self, folder: str) -> Folder:
        """Return what is in *folder*; one that is not there is empty."""
        files, folders = [], []
        for entry in self._entries(folder):
            name = str(entry["name"]).rstrip("/").rpartition("/")[2]
            if entry.get("type") == "directory":
                folders.append(name)
            elif name:
                files.append(self._file(f"{folder}/{name}".lstrip("/"), entry))
        return folder_of(self.url, files, folders)

    def iter_files(self, folder: str) -> Iterator[RemoteFile]:
        """Yield the files in *folder*; fsspec lists all of it at once."""
        files = self.list_folder(folder).files
        yield from map(files.__getitem__, sorted(files))

    def read(self, file: RemoteFile, write: Callable[[bytes | memoryview], object]) -> None:
        """Hand the first bytes of *file*, as many as were listed, to *write*."""
        self._read(file, 0, file.size_bytes, write)

    def read_range(self, file: RemoteFile, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)`` of *file*."""
        parts: list[bytes | memoryview] = []
        self._read(file, start, end, parts.append)
        return b"".join(parts)

    def _read(
        self, file: RemoteFile, start: int, end: int, write: Callable[[bytes | memoryview], object]
    ) -> None:
        left = end - start
        try:
            with self._system.open(f"{self._root}/{file.path}", "rb", cache_type="none") as stream:
                if start:
                    stream.seek(start)
                while left:
                    data = stream.read(min(left, READ_BYTES))
                    if not data:
                        break
                    left -= len(data)
                    write(data)
            self._system.invalidate_cache()
            now = self._file(file.path, self._system.info(f"{self._root}/{file.path}"))
        except FileNotFoundError:
            raise vanished_error(self.url, file) from None
        except SegstoreError:
            raise
        except Exception as error:  # noqa: BLE001 - see _error
            raise self._error(error, file.path) from None
        if now.size_bytes != file.size_bytes or _are_different(now.identity, file.identity):
            raise changed_error(self.url, file, f"{now.size_bytes} bytes, identity {now.identity}")
        if left:
            raise ReadIOError(
                "the file ended early",
                file=f"{self.url}/{file.path}",
                position=end - left,
                found=f"{end - left} bytes",
                expected=f"{file.size_bytes} bytes",
            )

    def _entries(self, folder: str) -> list[dict[str, Any]]:
        try:
            self._system.invalidate_cache()
            return list(self._system.ls(f"{self._root}/{folder}".rstrip("/"), detail=True))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except Exception as error:  # noqa: BLE001 - see _error
            raise self._error(error, folder) from None

    def _file(self, path: str, entry: Mapping[str, Any]) -> RemoteFile:
        size = entry.get("size")
        if size is None:  # a web server's listing has names only
            entry = self._system.info(f"{self._root}/{path}")
            size = entry.get("size")
        if size is None:
            raise ReadIOError(
                "the file system does not report the size of the file",
                file=f"{self.url}/{path}",
                found="no size",
                expected="bytes",
            )
        tags = [f"{name} {entry[name]}" for name in _TAGS if entry.get(name) is not None]
        times = [time for name in _TIMES if (time := _microseconds(entry.get(name))) is not None]
        identity = next(iter([*tags, *(f"time {time}" for time in times)]), None)
        return RemoteFile(path, int(size), identity, times[0] * 1000 if times else None)

    def _error(self, error: Exception, path: str) -> SegstoreError:
        where = f"{self.url}/{path}".rstrip("/")
        told = self._error_text(error)
        if isinstance(error, PermissionError):
            return LogPermissionError(f"the file system refuses it: {told}", file=where)
        if isinstance(error, FileNotFoundError):
            return LogNotFoundError(f"there is no such place: {told}", file=where)
        return ReadIOError(f"the file system cannot be read: {told}", file=where)

    def _error_text(self, error: Exception) -> str:
        text = f"{type(error).__name__}: {error}"
        return without_secrets(" ".join(text.split()), self._secrets)


def _are_different(now: str | None, then: str | None) -> bool:
    """Whether two identities of one kind differ; a listing may tell another kind than a look."""
    if now is None or then is None or now.split(" ")[0] != then.split(" ")[0]:
        return False
    return now != then


def _microseconds(time: Any) -> int | None:
    """Return a time as file systems tell it, since 1970; None for one that cannot be read."""
    if isinstance(time, datetime):
        aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        return round(aware.timestamp() * 1_000_000)
    if isinstance(time, int | float):
        return round(time * (1000 if time > _MILLISECONDS_FROM else 1_000_000))
    return None
