"""Bytes that recovery takes out of a log are kept beside it, under names that nobody reads.

Source: [DUR-59].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segstore._core import FileBarrier
from segstore.errors import DiskFullError
from segstore.log.directory.partition_directory import INDEX_FILE_SUFFIXES, file_name

if TYPE_CHECKING:
    from segstore._core import Directory
    from segstore.log.loader.recovery_report import RecoveryReport

MAX_QUARANTINE_BYTES: Final = 64 * 1024 * 1024
_PIECE_BYTES: Final = 1024 * 1024
_KEPT_ZEROS: Final = 4096


class Quarantine:
    """Keeps what one recovery takes out of a log as ``<base offset>.quarantine-<n>``."""

    def __init__(self, directory: Directory, report: RecoveryReport) -> None:
        self._directory = directory
        self._report = report
        self._bytes_left = MAX_QUARANTINE_BYTES

    def keep_tail(self, base_offset: int, position: int, size_bytes: int) -> None:
        """Copy bytes ``[position, size_bytes)`` of a ``.log`` before they are cut.

        Of zeros at the end no more than 4096 are: most batches end in one, files in more of them
        have room that was allocated ahead.
        """
        log_name = file_name(base_offset, "log")
        kept = bytearray()
        zeros_count = 0  # behind what is kept; they matter only when something else follows
        while position < size_bytes and len(kept) < self._bytes_left:
            piece = self._directory.read_range(
                log_name, position, min(_PIECE_BYTES, size_bytes - position)
            )
            if not piece:
                break
            position += len(piece)
            content = piece.rstrip(b"\0")
            if content:
                kept += bytes(min(zeros_count, self._bytes_left - len(kept)))
                kept += content
                zeros_count = 0
            zeros_count += len(piece) - len(content)
        if not kept:
            return
        kept += bytes(min(zeros_count, _KEPT_ZEROS, max(self._bytes_left - len(kept), 0)))
        if len(kept) > self._bytes_left or position < size_bytes:
            self._report.warnings.append(
                f"only the first {self._bytes_left} bytes that were cut from {log_name} are kept"
            )
        self._write(base_offset, bytes(kept[: self._bytes_left]))

    def _write(self, base_offset: int, content: bytes) -> None:
        name = self._free_name(base_offset)
        try:
            self._directory.create_file(name, content, FileBarrier.QUARANTINE)
        except DiskFullError:
            self._directory.unlink(name, missing_ok=True)
            self._report.warnings.append("no room to keep the bytes that were cut")
            return
        self._bytes_left -= len(content)
        self._report.quarantined.append(name)

    def set_aside(self, base_offset: int, suffix: str = "") -> str:
        """Rename a whole ``.log``; its index files go. Returns the new name."""
        name = self._free_name(base_offset)
        self._directory.rename(f"{file_name(base_offset, 'log')}{suffix}", name)
        for kind in INDEX_FILE_SUFFIXES:
            self._directory.unlink(f"{file_name(base_offset, kind)}{suffix}", missing_ok=True)
        self._report.set_aside.append(name)
        return name

    def _free_name(self, base_offset: int) -> str:
        number = 1
        while self._directory.exists(name := f"{base_offset:020d}.quarantine-{number}"):
            number += 1
        return name
