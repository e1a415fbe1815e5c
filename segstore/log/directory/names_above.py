"""The names on the way to a log: they are on stable storage before its first record is [DUR-11]."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import segstore._core as _core
from segstore.errors import LogPermissionError
from segstore.log.directory.copied_log import sync_copy

if TYPE_CHECKING:
    from segstore._core import Directory, Environment


def sync_names_above(path: str, environment: Environment | None = None) -> None:
    """Bring the names on the way to *path* to the disk, up to the root of its file system.

    Whoever made one of them may have been killed before he synced it, or have been no segstore at
    all. What this process may not read was made by somebody who has more to say here.

    Parameters
    ----------
    path : str
        Absolute. Where links are on the way, both the directories that it names and those that
        really hold it are synced.
    environment : Environment or None
        Another one than the system's knows no links.

    Source: [DUR-3, DUR-11].
    """
    spellings = [path] if environment is not None else [path, os.path.realpath(path)]
    synced: set[tuple[int, int]] = set()
    for spelling in dict.fromkeys(spellings):
        _sync_upwards(spelling, environment, synced)


def _sync_upwards(path: str, environment: Environment | None, synced: set[tuple[int, int]]) -> None:
    device: int | None = None
    here, above = path, _above(path)
    while above != here:
        try:
            directory = _core.Directory(above, environment)
        except LogPermissionError:
            return
        try:
            identity = directory.identity
            before, device = device, identity[0]
            if before is not None and before != device:
                return
            if identity not in synced:
                directory.sync(_core.Barrier.NEW_DIRECTORY)
                synced.add(identity)
        finally:
            directory.close()
        here, above = above, _above(above)


def _above(path: str) -> str:
    return os.path.dirname(path)  # noqa: PTH120 - as the name: links are not resolved


def sync_names_of_log(
    directory: Directory,
    parent: Directory | None,
    environment: Environment | None,
    *,
    parent_is_locked: bool,
) -> None:
    """Bring the names that a log hangs on to the disk.

    Not again where it was closed cleanly by this library: who did so had synced them before.

    A log that was copied, or restored, has none of them there, however old its records are. The
    names of its files are synced by its recovery, or with the first ``.segstore``.

    Parameters
    ----------
    directory : Directory
        The partition's, locked.
    parent : Directory or None
        The one above it, where it can be opened.
    environment : Environment or None
        Theirs.
    parent_is_locked : bool
        The owner of the log directory has synced the names above that when he opened it.

    Source: [DUR-3, DUR-11].
    """
    if sync_copy(directory):
        return
    if not parent_is_locked:
        sync_names_above(directory.path, environment)
    elif parent is not None and not directory.created:
        parent.sync(_core.Barrier.NEW_DIRECTORY)
