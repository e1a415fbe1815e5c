"""The directories of deleted partitions, which wait for their removal [MGR-66, MGR-67].

A directory that is deleted gets a name that ends in ``-delete``. Open handles read on until the
delay is over. Source: Kafka's ``LogManager.deleteLogs``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from segstore._core import Barrier
from segstore.errors import LogNotFoundError, SegstoreError
from segstore.log.files.partition_directory import is_deleted_directory_name
from segstore.log.files.tree_removal import remove_tree
from segstore.log.log_dir_failure_channel import IO_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segstore._core import Directory

_log = logging.getLogger(__name__)


class DeletedPartitions:
    """The queue of these directories; guarded by the manager's mutex.

    Parameters
    ----------
    directory : Directory
        The log directory, whose ``.lock`` is held.
    delay_ms : int
        See `delay_ms` below.
    close_quietly : callable
        Closes the log of a directory, by its name, if one is open.
    now_ms : callable
        Returns the time in ms by the clock of the log directory, which ends the delay.

    Attributes
    ----------
    delay_ms : int
        Time in ms from the new name to the removal, for all that wait.
    """

    def __init__(
        self,
        directory: Directory,
        delay_ms: int,
        close_quietly: Callable[[str], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._directory = directory
        self.delay_ms = delay_ms
        self._close_quietly = close_quietly
        self._now_ms = now_ms
        self._waiting: dict[str, int] = {}
        self._own: set[str] = set()

    @property
    def waiting(self) -> dict[str, int]:
        """When each directory was deleted, in ms; in the order of their deletion."""
        return dict(self._waiting)

    @property
    def next_due_ms(self) -> int | None:
        """When the next directory is due, None without one."""
        return min(self._waiting.values()) + self.delay_ms if self._waiting else None

    def add(self, name: str) -> None:
        """Queue a directory that has its new name now."""
        self._waiting[name] = self._now_ms()
        self._own.add(name)

    def find_left(self) -> None:
        """Queue what another process has left: a broker, or one that was killed.

        The delay begins with the time of the directory's last change, which is its new name.
        """
        directory, now_ms = self._directory, self._now_ms()
        for name in directory.names():
            if is_deleted_directory_name(name):
                try:
                    info = directory.info(name)
                except LogNotFoundError:
                    continue
                if info.is_directory:
                    self._waiting[name] = min(now_ms, info.changed_ns // 1_000_000)

    def delete_due(self, now_ms: int) -> list[str]:
        """Remove the directories whose delay is over; return their names.

        A directory that cannot be removed keeps no other one. It is tried again after the delay.

        Raises
        ------
        SegstoreError
            The first error, after all were tried.
        """
        return self._delete(
            [name for name, at in self._waiting.items() if at + self.delay_ms <= now_ms], now_ms
        )

    def delete_at_close(self) -> None:
        """Remove what is due, and what this manager has deleted: no handle is open any more.

        What cannot be removed is left to the next open, unless the disk has failed.
        """
        now_ms = self._now_ms()
        try:
            self.delete_due(now_ms)
            self._delete([name for name in self._waiting if name in self._own], now_ms)
        except IO_ERRORS:
            raise
        except SegstoreError as error:
            _log.warning(
                "%s: a deleted partition is not removed yet: %s", self._directory.path, error
            )

    def _delete(self, names: Iterable[str], now_ms: int) -> list[str]:
        errors: list[SegstoreError] = []
        removed = []
        for name in names:
            try:
                self._close_quietly(name)
                remove_tree(self._directory, name)
            except SegstoreError as error:
                if isinstance(error, LogNotFoundError) and not self._directory.exists(name):
                    del self._waiting[name]  # another process has removed it [DUR-132]
                    continue
                self._waiting[name] = now_ms
                errors.append(error)
            else:
                del self._waiting[name]
                removed.append(name)
        if removed:
            self._directory.sync(Barrier.REMOVED_DIRECTORY)
        if errors:
            raise errors[0]
        return removed
