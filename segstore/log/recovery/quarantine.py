"""Bytes that recovery takes out of a log are kept beside it, under names that nobody reads.

Source: [DUR-59].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import Barrier, DataFile, FileBarrier
from segstore.errors import DiskFullError, ReadIOError
from segstore.log.files.partition_directory import (
    INDEX_FILE_SUFFIXES,
    LOG_FILE_SUFFIX,
    file_name,
)
from segstore.log.files.recovery_advice import salvage_hint
from segstore.log.recovery.quarantined_file import base_offset_of, quarantine_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import Directory

MAX_QUARANTINE_BYTES: Final = 64 * 1024 * 1024
_PIECE_BYTES: Final = 1024 * 1024
_KEPT_ZEROS: Final = 4096


class _Piece(NamedTuple):
    """A part of a tail, and the file that keeps it."""

    name: str
    content: bytes
    end: int
    """Up to which byte the ``.log`` was read for it."""
    is_there: bool
    """The file has these very bytes."""


class Quarantine:
    """Keeps the end of a ``.log`` that is cut, as ``<base offset>.quarantine-<n>``.

    A file of that name is whole. Where an open failed behind it, or died, the next one takes the
    same bytes out again: they are kept once.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def names_of_tail(
        self, log_name: str, position: int, size_bytes: int, *, holds_batches: bool
    ) -> tuple[list[str], list[str]]:
        """Return the names that `keep_tail` would take, and its warnings; nothing is written."""
        names, warnings = [], []
        for piece in self._pieces(log_name, position, size_bytes):
            names.append(piece.name)
            if not holds_batches and piece.end < size_bytes:
                warnings.append(_only_the_first(piece, log_name))
                break
        return names, warnings

    def keep_tail(
        self, log_name: str, position: int, size_bytes: int, *, holds_batches: bool = False
    ) -> tuple[list[str], list[str]]:
        """Copy bytes ``[position, size_bytes)`` of a ``.log`` before they are cut.

        Of zeros at the end no more than 4096 are: most batches end in one, files in more of them
        have room that was allocated ahead. Of bytes that *holds_batches* says nothing good of, the
        first 64 MiB are kept, and none where there is no room. Records among them may have been
        acknowledged: then it is all of them, 64 MiB a file. Returns the names of the files, and
        warnings.

        Raises
        ------
        DiskFullError
            No room to keep whole batches; nothing was changed.
        """
        made: list[str] = []
        names: list[str] = []
        try:
            for piece in self._pieces(log_name, position, size_bytes):
                names.append(piece.name)
                if not piece.is_there:
                    made.append(piece.name)
                self._write(piece, log_name, position, size_bytes)
                if not holds_batches and piece.end < size_bytes:
                    return names, [_only_the_first(piece, log_name)]
        except BaseException as error:
            for name in made:  # the next open tries again: others may need the room
                self._directory.unlink(name, missing_ok=True)
            if holds_batches or not isinstance(error, DiskFullError):
                raise
            return [], ["no room to keep the bytes that were cut"]
        return names, []

    def _pieces(self, log_name: str, position: int, size_bytes: int) -> Iterator[_Piece]:
        number = 0  # they ascend: one behind the other is what was cut
        for content, end in self._contents(log_name, position, size_bytes):
            number += 1
            while is_there := self._directory.exists(
                name := quarantine_name(base_offset_of(log_name), number)
            ):
                if self._is_in(name, content):
                    break
                number += 1
            yield _Piece(name, content, end, is_there)

    def _write(self, piece: _Piece, log_name: str, position: int, size_bytes: int) -> None:
        """Write one file, also one that is there: nobody knows whether it was synced."""
        try:
            self._directory.write_file_atomically(piece.name, piece.content, FileBarrier.QUARANTINE)
        except DiskFullError as error:
            if not piece.is_there:
                raise self._no_room(log_name, position, size_bytes) from error
            self._sync(piece.name)

    def _sync(self, name: str) -> None:
        """Bring to the disk what is whole: a file gets its name behind its sync [DUR-57].

        Two of it need the room twice, and who wrote the first had it.
        """
        with DataFile(self._directory, name) as file:
            file.sync(Barrier.RECOVERY_RECORDS)
        self._directory.sync(Barrier.RECOVERY_NAMES)

    def _no_room(self, log_name: str, position: int, size_bytes: int) -> DiskFullError:
        return DiskFullError(
            f"no room to keep the {size_bytes - position} bytes that would be cut: there may be"
            " whole batches among them. No record was changed: make room, or"
            f" {salvage_hint(self._directory.path)}",
            file=f"{self._directory.path}/{log_name}",
            position=position,
        )

    def _is_in(self, name: str, content: bytes) -> bool:
        """Whether a file has just that content; one that cannot be read has another."""
        info = self._directory.info(name)
        if not info.is_regular or info.size != len(content):
            return False
        try:
            return all(
                self._directory.read_range(name, position, _PIECE_BYTES)
                == content[position : position + _PIECE_BYTES]
                for position in range(0, len(content), _PIECE_BYTES)
            )
        except ReadIOError:
            return False

    def _contents(
        self, log_name: str, position: int, size_bytes: int
    ) -> Iterator[tuple[bytes, int]]:
        """Yield what the files are to hold, and up to which byte of the ``.log`` was read."""
        kept = bytearray()
        zeros_count = 0  # behind what is kept; they matter only when something else follows
        while position < size_bytes:
            piece = self._directory.read_range(
                log_name, position, min(_PIECE_BYTES, size_bytes - position)
            )
            if not piece:
                break
            position += len(piece)
            content = piece.rstrip(b"\0")
            zeros_at_end = len(piece) - len(content)
            while content:
                room = MAX_QUARANTINE_BYTES - len(kept)
                if not room:
                    yield bytes(kept), position - zeros_at_end - len(content)
                    kept.clear()
                elif zeros_count:
                    kept += bytes(min(zeros_count, room))
                    zeros_count -= min(zeros_count, room)
                else:
                    kept += content[:room]
                    content = content[room:]
            zeros_count += zeros_at_end
        if kept:
            room = MAX_QUARANTINE_BYTES - len(kept)
            yield bytes(kept) + bytes(min(zeros_count, _KEPT_ZEROS, room)), size_bytes


def _only_the_first(piece: _Piece, log_name: str) -> str:
    return f"only the first {len(piece.content)} bytes that were cut from {log_name} are kept"


def set_aside(directory: Directory, base_offset: int, name: str, suffix: str = "") -> None:
    """Rename a whole ``.log`` to *name*; its index files go.

    They go first: left without their ``.log`` by a kill, they would show a loss [DUR-7].
    """
    for kind in INDEX_FILE_SUFFIXES:
        directory.unlink(f"{file_name(base_offset, kind)}{suffix}", missing_ok=True)
    directory.rename(f"{file_name(base_offset, LOG_FILE_SUFFIX)}{suffix}", name)
