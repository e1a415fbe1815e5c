"""Bytes that recovery takes out of a log are kept beside it, under names that nobody reads.

Source: [DUR-59].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore._core import Barrier, DataFile, FileBarrier
from segstore.errors import DiskFullError, ReadIOError
from segstore.log.files.partition_directory import INDEX_FILE_SUFFIXES, file_name
from segstore.log.files.recovery_advice import salvage_hint
from segstore.log.recovery.quarantined_file import newest_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import Directory
    from segstore.log.recovery.recovery_report import RecoveryReport

MAX_QUARANTINE_BYTES: Final = 64 * 1024 * 1024
_PIECE_BYTES: Final = 1024 * 1024
_KEPT_ZEROS: Final = 4096


class Quarantine:
    """Keeps what one recovery takes out of a log as ``<base offset>.quarantine-<n>``.

    A file of that name is whole. Where an open failed behind it, or died, the next one takes the
    same bytes out again: they are kept once.
    """

    def __init__(self, directory: Directory, report: RecoveryReport) -> None:
        self._directory = directory
        self._report = report
        self._newest: dict[int, int] | None = None

    def keep_tail(
        self, base_offset: int, position: int, size_bytes: int, *, holds_batches: bool = False
    ) -> None:
        """Copy bytes ``[position, size_bytes)`` of a ``.log`` before they are cut.

        Of zeros at the end no more than 4096 are: most batches end in one, files in more of them
        have room that was allocated ahead. Of bytes that *holds_batches* says nothing good of, the
        first 64 MiB are kept, and none where there is no room. Records among them may have been
        acknowledged: then it is all of them, 64 MiB a file.

        Raises
        ------
        DiskFullError
            No room to keep whole batches; nothing was changed.
        """
        made: list[str] = []
        try:
            names = self._keep(made, base_offset, position, size_bytes, holds_batches=holds_batches)
        except BaseException as error:
            for name in made:  # the next open tries again: others may need the room
                self._directory.unlink(name, missing_ok=True)
            if holds_batches or not isinstance(error, DiskFullError):
                raise
            self._report.warnings.append("no room to keep the bytes that were cut")
        else:
            self._report.quarantined += names

    def _keep(
        self,
        made: list[str],
        base_offset: int,
        position: int,
        size_bytes: int,
        *,
        holds_batches: bool,
    ) -> list[str]:
        """Return the names of all that it takes; *made* gets those that were not there before."""
        names: list[str] = []
        number = 0  # they ascend: one behind the other is what was cut
        log_name = file_name(base_offset, "log")
        for content, end in self._contents(log_name, position, size_bytes):
            number += 1
            while is_there := self._directory.exists(name := _name_of(base_offset, number)):
                if self._is_in(name, content):
                    break
                number += 1
            if not is_there:
                made.append(name)
            names.append(name)
            try:  # also what is there: nobody knows whether it was synced
                self._directory.write_file_atomically(name, content, FileBarrier.QUARANTINE)
            except DiskFullError as error:
                if not is_there:
                    raise self._no_room(log_name, position, size_bytes) from error
                self._sync(name)
            if not holds_batches and end < size_bytes:
                self._report.warnings.append(
                    f"only the first {len(content)} bytes that were cut from {log_name} are kept"
                )
                break
        return names

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

    def set_aside(self, base_offset: int, suffix: str = "", *, name: str | None = None) -> str:
        """Rename a whole ``.log``, to *name* if there is one; its index files go.

        Returns the new name.
        """
        if name is None:
            name = self.free_name(base_offset)
        self._directory.rename(f"{file_name(base_offset, 'log')}{suffix}", name)
        for kind in INDEX_FILE_SUFFIXES:
            self._directory.unlink(f"{file_name(base_offset, kind)}{suffix}", missing_ok=True)
        self._report.set_aside.append(name)
        return name

    def free_name(self, base_offset: int) -> str:
        """Return that of the next quarantine file: it is newer than any that is there."""
        if self._newest is None:
            self._newest = newest_numbers(self._directory.names(ordered=False))
        number = self._newest.get(base_offset, 0) + 1
        while self._directory.exists(name := _name_of(base_offset, number)):  # of this recovery
            number += 1
        return name


def _name_of(base_offset: int, number: int) -> str:
    return f"{base_offset:020d}.quarantine-{number}"
