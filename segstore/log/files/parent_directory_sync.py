"""Fsync of the directories above a log, before its first record is durable [DUR-11]."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import segstore._core as _core
from segstore.errors import LogPermissionError
from segstore.log.files.copied_log import sync_copy

if TYPE_CHECKING:
    from segstore._core import Directory, Environment


def sync_parent_directories(path: str, environment: Environment | None = None) -> None:
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
    real = path if environment is not None else os.path.realpath(path)
    synced: set[tuple[int, int]] = set()
    with contextlib.suppress(LogPermissionError):
        own = _identity_of(real, environment)
        synced.add(own)  # the names in it are for others
        _sync_upwards(_above(real), own[0], environment, synced)
    if path != real:  # a link may lead to another file system
        _sync_upwards(_above(path), None, environment, synced)


def _identity_of(path: str, environment: Environment | None) -> tuple[int, int]:
    with contextlib.closing(_core.Directory(path, environment)) as directory:
        return directory.identity


def _sync_upwards(
    path: str,
    device: int | None,
    environment: Environment | None,
    synced: set[tuple[int, int]],
) -> None:
    """Sync *path* and those above it, as far as they are on *device*, None for that of *path*."""
    here = ""
    while path != here:
        try:
            directory = _core.Directory(path, environment)
        except LogPermissionError:
            return
        with contextlib.closing(directory):
            identity = directory.identity
            if device not in {None, identity[0]}:
                return
            device = identity[0]
            if identity not in synced:
                directory.sync(_core.Barrier.NEW_DIRECTORY)
                synced.add(identity)
        here, path = path, _above(path)


def _above(path: str) -> str:
    return os.path.dirname(path)  # noqa: PTH120 - as the name: links are not resolved


def sync_directory_names(
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
        sync_parent_directories(directory.path, environment)
    elif parent is not None and not directory.created:
        parent.sync(_core.Barrier.NEW_DIRECTORY)
