"""What a place can do that segments are copied to: a folder, or an object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from segstore._core import Directory


class WritableStore(Protocol):
    """Named files in folders. Each is whole or is not there, whatever a crash interrupts.

    Several threads may call it. All methods raise `RemoteStorageError`, which names the file:
    `RetriableRemoteStorageError` where the place could not be reached, or asked for a later call.

    Attributes
    ----------
    url : str
        For messages: without secrets.
    """

    url: str

    def put(self, folder: str, files: Mapping[str, str | bytes]) -> None:
        """Put files into *folder*, each in the place of one with its name.

        Parameters
        ----------
        folder : str
            It is made where it is not there.
        files : mapping of str to str or bytes
            By name, the path of a file, which is not changed meanwhile, or the content. When the
            call returns, all are durable; after an error, or a crash, any of them are there.

        Raises
        ------
        SegstoreError
            A file at one of the paths cannot be read.
        """

    def get(self, folder: str, name: str, start: int, end: int) -> bytes | memoryview:
        """Return bytes ``[start, end)`` of a file, as far as it has them.

        Raises
        ------
        RemoteResourceNotFoundError
            There is no such file.
        """

    def open_folder(self, folder: str) -> Directory | None:
        """Return a folder of this machine, open; None: there is none. The store closes it."""

    def get_whole(self, folder: str, name: str) -> bytes | memoryview:
        """Return a small file.

        Raises
        ------
        RemoteResourceNotFoundError
            There is no such file.
        """

    def delete(self, folder: str, names: Iterable[str]) -> None:
        """Delete files, and what a `put` of them may have left; what is gone stays gone.

        Names that are not there are deleted already.
        """

    def close(self) -> None:
        """Release what it holds; idempotent, and not an end: a later call works."""
