"""A file of a remote directory as a listing shows it, and what a store can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from segstore.errors import CorruptLogError, LogNotFoundError, LogTruncatedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from segstore.errors import SegstoreError
    from segstore.log.files.file_origin import FileOrigin
    from segstore.types import EpochEntry


class RemoteFile(NamedTuple):
    """One file, as it was when it was listed.

    Attributes
    ----------
    path : str
        Below the URL of the store: ``orders-0/00000000000000000000.log``.
    size_bytes : int
        Of the whole file.
    identity : str or None
        Entity tag, or time of the last change: another one is another file. None: the store tells
        neither.
    modified_ns : int or None
        When it was changed, in ns since 1970.
    block_bytes : int
        It is fetched in blocks of so many bytes, those that are read; 0: whole, before it is read.
    block_phase : int
        The first block is by so many bytes smaller: bytes ``[n * block_bytes - block_phase, (n + 1)
        * block_bytes - block_phase)`` are block *n*.
    origin : FileOrigin or None
        What errors call it; None: by *path*.
    """

    path: str
    size_bytes: int
    identity: str | None
    modified_ns: int | None
    block_bytes: int = 0
    block_phase: int = 0
    origin: FileOrigin | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


class ShownLog(NamedTuple):
    """A log that a store shows as a partition's directory, and what it knows of it.

    Attributes
    ----------
    reader : FileReader
        Reads the files as they were listed.
    lineage : tuple of EpochEntry
        The leader epochs that the batches must have.
    notes : tuple of str
        What who opens the log is to be told.
    max_timestamps : mapping of int to int
        The largest timestamp of each segment, in ms, by its base offset.
    end_offset : int or None
        Where the log ends; None: where its files do.
    way_on : str
        What a user can do where they end before that.
    """

    reader: ListedReader
    lineage: tuple[EpochEntry, ...]
    notes: tuple[str, ...]
    max_timestamps: Mapping[int, int]
    end_offset: int | None = None
    way_on: str = ""


class Folder(NamedTuple):
    """What is in one remote directory.

    Attributes
    ----------
    files : dict of str to RemoteFile
        By name.
    folders : list of str
        Names.
    shown : ShownLog or None
        None: the files lie there, and the store that listed them reads them.
    lost : SegstoreError or None
        Why none of a log is shown, although there is something of it.
    """

    files: dict[str, RemoteFile]
    folders: list[str]
    shown: ShownLog | None = None
    lost: SegstoreError | None = None


class FileReader(Protocol):
    """Reads files that were listed.

    Attributes
    ----------
    url : str
        For messages: without secrets.
    key : str
        For the spool: two stores with one key hold the same files.
    requests_at_once : int
        How many threads may ask it.
    """

    url: str
    key: str
    requests_at_once: int

    def read(self, file: RemoteFile, write: Callable[[bytes | memoryview], object]) -> None:
        """Hand all bytes of *file*, as it was listed, to *write*.

        Raises
        ------
        LogTruncatedError, LogNotFoundError
            The file is another one by now, or gone.
        LogPermissionError, ReadIOError
            As `RemoteStore.list_folder`.
        """
        ...

    def read_range(self, file: RemoteFile, start: int, end: int) -> bytes | memoryview:
        """Return bytes ``[start, end)`` of *file*, which lie within the size that was listed.

        Raises
        ------
        LogTruncatedError, LogNotFoundError, LogPermissionError, ReadIOError
            As `read`.
        """
        ...


class ListedReader(FileReader, Protocol):
    """Reads the files of one listing, of which some may lie on this machine as they are shown."""

    def read_into(self, file: RemoteFile, start: int, target: memoryview) -> bool:
        """Fill *target* with the bytes of *file* from *start* on.

        Returns
        -------
        bool
            False: nothing was read, since `read_range` has more to do for them than to read.

        Raises
        ------
        LogTruncatedError, LogNotFoundError, LogPermissionError, ReadIOError
            As `read`.
        """
        ...


class RemoteStore(FileReader, Protocol):
    """A directory at a URL.

    Attributes
    ----------
    has_checkpoints : bool
        Files of the log directory itself may lie beside the partitions.
    """

    has_checkpoints: bool

    def list_folder(self, folder: str) -> Folder:
        """Return what is in *folder*, ``""`` for the directory itself; empty when it is not there.

        Raises
        ------
        LogPermissionError, LogNotFoundError, ReadIOError
            The store refuses it, is not there, or cannot be reached.
        """
        ...


class BucketStore(RemoteStore, Protocol):
    """A directory at a URL that may hold very many objects."""

    def iter_files(self, folder: str) -> Iterator[RemoteFile]:
        """Yield the files in *folder*, page by page, mostly in the order of their paths.

        Errors are those of `list_folder`.
        """
        ...


def changed_error(url: str, file: RemoteFile, found: str) -> LogTruncatedError:
    """Return what is raised when *file* is not what was listed any more."""
    return LogTruncatedError(
        "the file was changed while it was read",
        file=f"{url}/{file.path}",
        found=found,
        expected=f"{file.size_bytes} bytes"
        + ("" if file.identity is None else f", identity {file.identity}"),
    )


def vanished_error(url: str, file: RemoteFile) -> LogNotFoundError:
    """Return what is raised when *file* was listed, and is gone."""
    return LogNotFoundError(
        "the file was listed, but was gone when it was read",
        file=f"{url}/{file.path}",
        found="no file",
        expected=f"{file.size_bytes} bytes",
    )


def folder_of(url: str, files: list[RemoteFile], folders: list[str]) -> Folder:
    """Put a listing together.

    Raises
    ------
    CorruptLogError
        It names a file twice, or with a size that cannot be.
    """
    by_name: dict[str, RemoteFile] = {}
    for file in files:
        other = by_name.setdefault(file.name, file)
        if other != file or file.size_bytes < 0:
            raise CorruptLogError(
                "the store's listing contradicts itself",
                file=f"{url}/{file.path}",
                found=f"sizes {other.size_bytes} and {file.size_bytes}",
                expected="each file once, with its size",
            )
    return Folder(by_name, sorted(set(folders)))
