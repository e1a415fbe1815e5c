"""The producer snapshots of a partition directory, by their offsets.

Source: [PSM-50, PSM-55..PSM-58]; Kafka ``ProducerStateManager.snapshots``.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING

from segstore._core import AppendLock, Barrier
from segstore.errors import CorruptSnapshotError, LogNotFoundError, SegstoreError
from segstore.log.files.partition_directory import file_name
from segstore.log.producers.producer_snapshot import format_snapshot
from segstore.log.producers.snapshot_file import SNAPSHOT_FILE_SUFFIX, SnapshotFile

if TYPE_CHECKING:
    from array import array
    from collections.abc import Collection, Iterable

    from segstore._core import Directory
    from segstore.log.producers.producer_state_entry import ProducerStateEntry

_log = logging.getLogger(__name__)


def snapshot_offsets(directory: Directory) -> array[int]:
    """List the offsets of a partition's snapshots, ascending; other names do not count."""
    return directory.segment_listing().base_offsets(SNAPSHOT_FILE_SUFFIX)


def remove_snapshots_at(directory: Directory, offsets: set[int]) -> list[str]:
    """Remove the snapshots of exactly *offsets*, the bases of removed segments; returns names."""
    names = [
        file_name(offset, SNAPSHOT_FILE_SUFFIX)
        for offset in snapshot_offsets(directory)
        if offset in offsets
    ]
    for name in names:
        directory.unlink(name, missing_ok=True)
    return names


class SnapshotFiles:
    """The snapshots that are known: those listed at the first use, and what came since.

    To Kafka those that are there when this is made.

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
    sync_lock : AppendLock
        Held while they are synced.
    """

    def __init__(self, directory: Directory, *, kafka_profile: bool = False) -> None:
        self._directory = directory
        self._kafka_profile = kafka_profile
        self.refused: list[CorruptSnapshotError] = []
        self._listed: array[int] | None = None
        self._may_be_missing: set[int] = set()  # of those: an interrupt may come before a file
        self._unsynced: list[int] = []  # may name one twice, or one that is gone
        self.sync_lock = AppendLock()
        if kafka_profile:  # what another state writes beside this one stays unknown to it [LDR-17]
            self.reload()

    @property
    def _offsets(self) -> array[int]:
        if self._listed is None:
            self._listed = snapshot_offsets(self._directory)
        return self._listed

    def reload(self, listed: array[int] | None = None) -> None:
        """List the directory again; names that are not ours do not count [PSM-50, DUR-98].

        Parameters
        ----------
        listed : array of int or None
            What there is, of a caller who has just listed it.
        """
        self._listed = snapshot_offsets(self._directory) if listed is None else listed

    @property
    def offsets(self) -> tuple[int, ...]:
        """Offsets of the known snapshots, ascending."""
        return tuple(self._offsets)

    def outside(self, first: int, last: int) -> array[int]:
        """Return the offsets of known snapshots below *first* and above *last*."""
        known = self._offsets
        below = bisect_left(known, first)
        return known[:below] + known[max(bisect_right(known, last), below) :]

    @property
    def latest(self) -> SnapshotFile | None:
        """The newest."""
        return self._file(self._offsets[-1]) if self._offsets else None

    def get(self, offset: int) -> SnapshotFile | None:
        """Return the snapshot of exactly *offset* [PSM-58]."""
        return self._file(offset) if self._knows(offset) else None

    def write(
        self, offset: int, entries: Iterable[ProducerStateEntry], *, sync: bool
    ) -> SnapshotFile:
        """Write the state below *offset*, and know the file; *sync* is that of `take_snapshot`.

        It is known before it is there: what a truncation does not know it leaves, and an interrupt
        may come between.
        """
        file = self._file(offset)
        data = format_snapshot(entries)
        is_new = not self._knows(offset)
        self._may_be_missing.add(offset)
        if is_new:
            insort(self._offsets, offset)
        try:
            if self._kafka_profile:
                file.write_in_place(data, sync=sync)
            else:
                file.write(data, sync=sync)
        except SegstoreError:
            if is_new:
                self.forget(offset)
            raise
        finally:
            if not sync:  # not before it has its name: who syncs meanwhile would not find it
                self._unsynced.append(offset)
        self._may_be_missing.discard(offset)
        return file

    def sync_unsynced(self) -> None:
        """Bring to stable storage what rolls wrote without a sync: bytes, then names.

        Nothing may go before that could do without the newest snapshot: neither an older one, nor
        the records below a new log start. Nor may a close call the log clean [DUR-22, DUR-24].

        By any thread: at return all is synced that was written before the call, whoever did it.

        Raises
        ------
        FsyncFailedError
            It is not to be tried again: the kernel may have dropped the bytes [DUR-35].
        """
        if not self._unsynced:
            return
        with self.sync_lock:
            count = len(self._unsynced)
            for offset in sorted(set(self._unsynced[:count])):
                self._file(offset).sync()
            if count:
                self._directory.sync(Barrier.ROLLED_SNAPSHOT_NAME)
            del self._unsynced[:count]

    def distrust_latest(self) -> None:
        """Let `sync_unsynced` sync the newest too, behind an unclean stop [DUR-29].

        Its writer may have died before the sync.
        """
        if self._offsets:
            self._unsynced.append(self._offsets[-1])

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
            except LogNotFoundError:
                if file.offset not in self._may_be_missing:
                    raise
                self.forget(file.offset)
        return None

    def forget(self, offset: int) -> SnapshotFile | None:
        """Know it no longer; the file stays."""
        if not self._knows(offset):
            return None
        del self._offsets[bisect_left(self._offsets, offset)]
        self._may_be_missing.discard(offset)
        return self._file(offset)

    def delete(self, offset: int) -> None:
        """Remove the snapshot of exactly *offset*, when it is known."""
        if self._knows(offset):
            self._may_be_missing.add(offset)
            self._file(offset).delete_if_exists()
            self.forget(offset)

    def mark_for_deletion(self, offset: int) -> SnapshotFile | None:
        """Forget the snapshot and rename its file to ``.deleted``; None without one [PSM-57].

        The deletion of the segment deletes the file.
        """
        if not self._knows(offset):
            return None
        file = self._file(offset)
        self._may_be_missing.add(offset)
        try:
            file.rename_to_delete()
        except LogNotFoundError:  # deleted by a recovery of one segment [LDR-17]: nothing to do
            self.forget(offset)
            return None
        self.forget(offset)
        return file

    def remove_strays(
        self, segment_base_offsets: Collection[int], listed: array[int] | None = None
    ) -> None:
        """List the snapshots again, and delete those that no segment begins with [PSM-55].

        The newest stays when it is at or above every segment's base: a close wrote it. *listed* is
        that of `reload`.
        """
        self.reload(listed)
        strays = sorted(set(self._offsets).difference(segment_base_offsets))
        if strays and strays[-1] >= max(segment_base_offsets, default=strays[-1]):
            strays.pop()
        for offset in strays:
            self.delete(offset)

    def _knows(self, offset: int) -> bool:
        index = bisect_left(self._offsets, offset)
        return index < len(self._offsets) and self._offsets[index] == offset

    def _file(self, offset: int) -> SnapshotFile:
        return SnapshotFile(self._directory, offset)
