"""One round of writes, then one round of syncs, for many directories that are made together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import Barrier

if TYPE_CHECKING:
    from segstore._core import Directory


class PostponedSyncs:
    """New directories whose syncs are done together; none counts for anything before `sync_names`.

    A crash before that leaves any part of them: what their maker wrote down first lets the next
    open for writing remove them. The order within each is that of any small file: its content is on
    stable storage before it has its name [DUR-21].
    """

    def __init__(self) -> None:
        self._directories: list[Directory] = []

    def add(self, directory: Directory) -> None:
        """Let a new directory sync nothing by itself from here on."""
        directory.postpone_syncs()
        self._directories.append(directory)

    def sync_files(self) -> None:
        """Bring the content of all small files to stable storage, then give them their names."""
        for directory in self._directories:
            directory.sync_postponed()
        for directory in self._directories:
            directory.put_postponed_in_place()

    def sync_names(self) -> None:
        """Bring all names in the directories to stable storage."""
        for directory in self._directories:
            directory.sync(Barrier.NEW_DIRECTORY)
