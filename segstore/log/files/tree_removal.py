"""Removing a directory of a log directory with everything in it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from segstore._core import Barrier, Directory
from segstore.log.files.checkpoints import LOCK

if TYPE_CHECKING:
    from collections.abc import Iterable


def remove_trees(parent: Directory, names: Iterable[str]) -> None:
    """Remove directories of *parent* and what is in them, the deepest first, and sync its names.

    A crash leaves any part of them: what makes them invisible comes before. A ``.lock`` goes last.
    """
    for name in names:
        remove_tree(parent, name)
    parent.sync(Barrier.REMOVED_DIRECTORY)


def remove_tree(parent: Directory, name: str) -> None:
    """Remove one of them, and leave the sync of the names to the caller."""
    waiting = [name]
    emptied: list[str] = []
    while waiting:
        path = waiting.pop()
        emptied.append(path)
        with closing(Directory(f"{parent.path}/{path}", parent.environment)) as inner:
            for entry in sorted(inner.names(), key=lambda entry: entry == LOCK):
                if inner.info(entry).is_directory:
                    waiting.append(f"{path}/{entry}")
                else:
                    inner.unlink(entry)
    for path in reversed(emptied[1:]):
        above, _, last = path.rpartition("/")
        with closing(Directory(f"{parent.path}/{above}", parent.environment)) as outer:
            outer.remove_directory(last)
    parent.remove_directory(name)
