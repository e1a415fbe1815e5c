"""The producer snapshots of a partition directory, by their offsets.

Source: [PSM-50, PSM-55..PSM-58]; Kafka ``ProducerStateManager.snapshots``.
"""

from __future__ import annotations

import logging
from bisect import insort
from typing import TYPE_CHECKING

from segstore.errors import CorruptSnapshotError, LogNotFoundError
from segstore.log.partition_directory import base_offsets_of, file_name, stems_by_extension
from segstore.log.producer_snapshot import format_snapshot
from segstore.log.snapshot_file import SNAPSHOT_FILE_SUFFIX, SnapshotFile

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from segstore._core import Directory
    from segstore.log.producer_state_entry import ProducerStateEntry

_log = logging.getLogger(__name__)


def snapshot_offsets(directory: Directory) -> list[int]:
    """List the offsets of a partition's snapshots, ascending; other names do not count."""
    extension = f".{SNAPSHOT_FILE_SUFFIX}"
    names = [name for name in directory.names(ordered=False) if name.endswith(extension)]
    return base_offsets_of(stems_by_extension(names)[SNAPSHOT_FILE_SUFFIX])


def remove_snapshots_above(directory: Directory, offset: int) -> list[str]:
    """Remove the snapshots that describe offsets above *offset*; returns their names."""
    return _remove(directory, lambda snapshot_offset: snapshot_offset > offset)


def remove_snapshots_at(directory: Directory, offsets: set[int]) -> list[str]:
    """Remove the snapshots of exactly *offsets*, the bases of removed segments."""
    return _remove(directory, offsets.__contains__)


def _remove(directory: Directory, goes: Callable[[int], bool]) -> list[str]:
    names = [
        file_name(offset, SNAPSHOT_FILE_SUFFIX)
        for offset in snapshot_offsets(directory)
        if goes(offset)
    ]
    for name in names:
        directory.unlink(name, missing_ok=True)
    return names


class SnapshotFiles:
    """The snapshots that are known: those listed when this was made, and what came since.

    Parameters
    ----------
    directory : Directory
        The partition's.
    kafka_profile : bool
        Write in place, and read past bytes behind the last producer [DUR-62].

    Attributes
    ----------
    refused : list of CorruptSnapshotError
        Snapshots that could not be loaded, and so were deleted.
    """

    def __init__(self, directory: Directory, *, kafka_profile: bool = False) -> None:
        self._directory = directory
        self._kafka_profile = kafka_profile
        self.refused: list[CorruptSnapshotError] = []
        self._offsets: list[int] = []
        self._files: dict[int, SnapshotFile] = {}
        self.reload()

    def reload(self) -> None:
        """List the directory again; names that are not ours do not count [PSM-50, DUR-98]."""
        self._offsets = snapshot_offsets(self._directory)
        self._files = {offset: SnapshotFile(self._directory, offset) for offset in self._offsets}

    @property
    def offsets(self) -> tuple[int, ...]:
        """Offsets of the known snapshots, ascending."""
        return tuple(self._offsets)

    @property
    def latest(self) -> SnapshotFile | None:
        """The newest."""
        return self._files[self._offsets[-1]] if self._offsets else None

    @property
    def oldest(self) -> SnapshotFile | None:
        """The oldest."""
        return self._files[self._offsets[0]] if self._offsets else None

    def get(self, offset: int) -> SnapshotFile | None:
        """Return the snapshot of exactly *offset*."""
        return self._files.get(offset)

    def write(
        self, offset: int, entries: Iterable[ProducerStateEntry], *, sync: bool
    ) -> SnapshotFile:
        """Write the state below *offset*, and know the file; *sync* is that of `take_snapshot`."""
        file = SnapshotFile(self._directory, offset)
        data = format_snapshot(entries)
        if self._kafka_profile:
            file.write_in_place(data, sync=sync)
        else:
            file.write(data, sync_directory=sync)
        if offset not in self._files:
            insort(self._offsets, offset)
        self._files[offset] = file
        return file

    def load_latest(self) -> tuple[int, list[ProducerStateEntry]] | None:
        """Return offset and producers of the newest snapshot that is not damaged [PSM-56].

        Those that are go: an older one tells less, but no lies. None when no snapshot is left.
        """
        while (file := self.latest) is not None:
            try:
                return file.offset, file.read(exact_size=not self._kafka_profile)
            except CorruptSnapshotError as error:
                _log.warning("%s; the snapshot is deleted", error)
                self.refused.append(error)
                self.delete(file.offset)
        return None

    def forget(self, offset: int) -> SnapshotFile | None:
        """Know it no longer; the file stays."""
        file = self._files.pop(offset, None)
        if file is not None:
            self._offsets.remove(offset)
        return file

    def delete(self, offset: int) -> None:
        """Remove the snapshot of exactly *offset*, when it is known."""
        file = self.forget(offset)
        if file is not None:
            file.delete_if_exists()

    def mark_for_deletion(self, offset: int) -> SnapshotFile | None:
        """Forget the snapshot and rename its file to ``.deleted`` [PSM-57]; None without one."""
        file = self.forget(offset)
        if file is None:
            return None
        try:
            file.rename_to_delete()
        except LogNotFoundError:  # deleted by a recovery of one segment [LDR-17]: nothing to do
            return None
        return file

    def remove_strays(self, segment_base_offsets: Collection[int]) -> None:
        """List again, and delete the snapshots that no segment begins with, but for the newest.

        That one stays when it is at or above every segment's base: a close wrote it [PSM-55].
        """
        self.reload()
        bases = set(segment_base_offsets)
        strays = [offset for offset in self._offsets if offset not in bases]
        if strays and strays[-1] >= max(bases, default=strays[-1]):
            strays.pop()
        for offset in strays:
            self.delete(offset)

    def update_parent_directory(self, directory: Directory) -> None:
        """Look for all files in *directory* from now on."""
        self._directory = directory
        for file in self._files.values():
            file.update_parent_directory(directory)
