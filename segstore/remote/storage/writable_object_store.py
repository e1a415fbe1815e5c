"""An object store that segments are copied to: S3, Google Cloud Storage or Azure."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from segstore.errors import (
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RetriableRemoteStorageError,
    SegstoreError,
)
from segstore.remote.object_store import PART_BYTES, ObjectStore, refuse_in_fork
from segstore.remote.storage.source_file import read_pieces, size_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from segstore._core import Environment

_UPLOAD_BYTES: Final = 8 * 1024 * 1024
"""Of one request of an upload; 10,000 of them are the most that S3 takes for one object."""
_UPLOADS_AT_ONCE: Final = 4
_MOST_INDEX_BYTES: Final = 64 * 1024 * 1024
_PASSING: Final = re.compile(
    r"status code: (?:408|409|429|5\d\d)\b|HTTP error: (?!builder error)|after \d+ retries"
    r"|timed out|timeout"
)
"""Throttling, time-outs and lost connections, when the library has given up repeating."""
_BEYOND_THE_END: Final = "status code: 416"


class WritableObjectStore(ObjectStore):
    """Objects below a URL, put whole; what fails for a moment is tried again by the library.

    Parameters
    ----------
    url, settings
        As for `ObjectStore`.
    environment : Environment or None
        For tests: where the files are that are copied.
    """

    def __init__(
        self, url: str, settings: Mapping[str, str], environment: Environment | None = None
    ) -> None:
        super().__init__(url, settings)
        self._environment = environment

    def put(self, folder: str, files: Mapping[str, str | bytes]) -> None:
        """Put objects, large ones in parts; see `WritableStore`."""
        for name, content in files.items():
            key = f"{folder}/{name}"
            if isinstance(content, bytes):
                self._put(key, content)
                continue
            pieces = read_pieces(content, _UPLOAD_BYTES, self._environment)
            if size_of(content, self._environment) > _UPLOAD_BYTES:
                self._put(key, pieces)
            else:
                self._put(key, b"".join(pieces))

    def _put(self, key: str, content: bytes | Iterator[bytes]) -> None:
        with self._naming_errors(key):
            self._store.put(
                key,
                content,
                use_multipart=not isinstance(content, bytes),
                chunk_size=_UPLOAD_BYTES,
                max_concurrency=_UPLOADS_AT_ONCE,
            )

    def get(self, folder: str, name: str, start: int, end: int) -> bytes | memoryview:
        """Get a part, by one request for each 16 MiB; see `WritableStore`."""
        parts: list[memoryview] = []
        while start < end:
            part = self._get(f"{folder}/{name}", (start, min(start + PART_BYTES, end)))
            parts.append(part)
            start += PART_BYTES
            if len(part) < PART_BYTES:
                break
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _get(self, key: str, part: tuple[int, int]) -> memoryview:
        with self._naming_errors(key, reading=True):
            try:
                return memoryview(self._store.get(key, options={"range": part}).bytes())
            except Exception as error:
                if _BEYOND_THE_END in str(error):
                    return memoryview(b"")
                raise

    def open_folder(self, folder: str) -> None:
        """Return None: no object is a file of this machine."""

    def close(self) -> None:
        """Hold nothing: connections are the library's."""

    def get_whole(self, folder: str, name: str) -> bytes | memoryview:
        """Get an object; see `WritableStore`."""
        key = f"{folder}/{name}"
        with self._naming_errors(key, reading=True):
            answer = self._store.get(key)
            if answer.meta["size"] > _MOST_INDEX_BYTES:
                raise RemoteStorageError(
                    "the object is too large to be read whole",
                    file=f"{self.url}/{key}",
                    found=f"{answer.meta['size']} bytes",
                    expected=f"at most {_MOST_INDEX_BYTES} bytes",
                )
            return memoryview(answer.bytes())

    def delete(self, folder: str, names: Iterable[str]) -> None:
        """Delete objects; see `WritableStore`."""
        for name in names:
            key = f"{folder}/{name}"
            with self._naming_errors(key), suppress(FileNotFoundError):
                self._store.delete(key)

    @contextmanager
    def _naming_errors(self, key: str, *, reading: bool = False) -> Iterator[None]:
        """Make the library's errors those of remote storage, without secrets."""
        refuse_in_fork(self.url)
        try:
            yield
        except SegstoreError:
            raise
        except Exception as error:  # noqa: BLE001 - the library's own are of many classes
            told, where = self._error_text(error), f"{self.url}/{key}"
            if reading and isinstance(error, FileNotFoundError):
                raise RemoteResourceNotFoundError(
                    f"remote storage has no such object: {told}", file=where
                ) from None
            passes = _PASSING.search(told) is not None
            kind = RetriableRemoteStorageError if passes else RemoteStorageError
            raise kind(f"remote storage failed: {told}", file=where) from None
