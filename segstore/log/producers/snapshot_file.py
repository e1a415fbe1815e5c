"""One producer snapshot on disk (Kafka ``SnapshotFile``) [PSM-51, PSM-54, PSM-57, DUR-22]."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from segstore._core import Barrier, DataFile, FileBarrier
from segstore.errors import (
    CorruptSnapshotError,
    LimitExceededError,
    LogNotFoundError,
    SegstoreError,
)
from segstore.log.files.partition_directory import DELETED_FILE_SUFFIX, file_name
from segstore.log.producers.producer_snapshot import MAX_SNAPSHOT_BYTES, parse_snapshot

if TYPE_CHECKING:
    from segstore._core import Directory
    from segstore.log.producers.producer_state_entry import ProducerStateEntry

SNAPSHOT_FILE_SUFFIX: Final = "snapshot"
TEMPORARY_SUFFIX: Final = ".tmp"


class SnapshotFile:
    """A snapshot on disk; its offset is exclusive."""

    __slots__ = ("_directory", "name", "offset")

    def __init__(self, directory: Directory, offset: int) -> None:
        self._directory = directory
        self.offset = offset
        self.name = file_name(offset, SNAPSHOT_FILE_SUFFIX)

    @property
    def path(self) -> str:
        """Directory and name."""
        return f"{self._directory.path}/{self.name}"

    def delete_if_exists(self) -> bool:
        """Remove the file; returns whether there was one. The directory is not synced."""
        existed = self._directory.exists(self.name)
        self._directory.unlink(self.name, missing_ok=True)
        return existed

    def rename_to_delete(self) -> None:
        """Mark the file as one that the next open removes; the directory is not synced [PSM-57].

        Raises
        ------
        LogNotFoundError
            There is no file any more.
        """
        name = self.name + DELETED_FILE_SUFFIX
        self._directory.rename(self.name, name)
        self.name = name

    def read(self, *, exact_size: bool = True) -> list[ProducerStateEntry]:
        """Return the producers, in the order of the file.

        Raises
        ------
        CorruptSnapshotError
            What is there is no snapshot. That it cannot be read, or is gone, is another error.
        """
        try:
            data = self._directory.read_file(self.name, MAX_SNAPSHOT_BYTES)
        except LimitExceededError as error:
            raise CorruptSnapshotError(
                error.message,
                file=self.path,
                position=MAX_SNAPSHOT_BYTES,
                found=error.found,
                expected=error.expected,
            ) from error
        return parse_snapshot(data, self.path, exact_size=exact_size)

    def write(self, data: bytes, *, sync: bool) -> None:
        """Replace the file as a whole; bytes and name are on stable storage when asked for.

        Else `sync` brings the bytes there: what a crash leaves of them before fails the CRC, and an
        older snapshot counts [DUR-29]. Kafka writes in place and leaves the end of a longer file of
        the same name, which then fails its CRC too [PSM-51].

        Source: [DUR-22].
        """
        if sync:
            self._directory.write_file_atomically(self.name, data, FileBarrier.SNAPSHOT)
            return
        temporary = self.name + TEMPORARY_SUFFIX
        try:
            with DataFile(self._directory, temporary, create=True) as file:
                file.truncate(0)  # what a crash left
                file.write(0, data)
            self._directory.rename(temporary, self.name)
        except SegstoreError:
            with suppress(SegstoreError):  # the next open removes it else
                self._directory.unlink(temporary, missing_ok=True)
            raise

    def write_in_place(self, data: bytes, *, sync: bool) -> None:
        """Write as Kafka does [PSM-51]: for the profile that gives Kafka's outcome [DUR-62]."""
        with DataFile(self._directory, self.name, create=True) as file:
            file.write(0, data)
            if sync:
                file.sync(Barrier.ROLLED_SNAPSHOT)

    def sync(self) -> None:
        """Bring the bytes to stable storage, if the file is there still."""
        with suppress(LogNotFoundError), DataFile(self._directory, self.name) as file:
            file.sync(Barrier.ROLLED_SNAPSHOT)

    def __repr__(self) -> str:
        return f"SnapshotFile({self.path!r}, offset={self.offset})"
