"""Renaming and removing the directory of a partition [REN-1, DEL-1, LOC-23]."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from segstore._core import Barrier, Directory
from segstore.errors import DirectoryReplacedError, IllegalArgumentError, IllegalStateError
from segstore.log.files.partition_directory import (
    delete_directory_name,
    has_unique_id,
    parse_directory_name,
)
from segstore.log.files.partition_lock import PartitionLock
from segstore.log.files.partition_path import open_parent_directory
from segstore.log.files.tree_removal import remove_trees
from segstore.log.open_handles import OpenHandles

if TYPE_CHECKING:
    from segstore._core import Environment


def parent_to_rename_in(open_handles: OpenHandles) -> Directory:
    """Return the directory above a partition's, which its name is changed in.

    Raises
    ------
    IllegalStateError
        It cannot be opened.
    """
    if open_handles.parent is None:
        raise IllegalStateError(
            "the directory above cannot be written", file=open_handles.directory.path
        )
    return open_handles.parent


def check_new_name(directory: Directory, parent: Directory, name: str) -> None:
    """Raise when *directory* cannot be renamed to *name*: it was moved, or the name is taken."""
    _check_is_the_same(directory, parent, directory.path.rpartition("/")[2])
    if parent.exists(name):
        raise IllegalArgumentError(
            f"there is a {name} already", file=parent.path, found=name, expected="no such"
        )


def rename(directory: Directory, parent: Directory, name: str) -> None:
    """Rename a partition's directory within the one above it, durably."""
    parent.rename(directory.path.rpartition("/")[2], name)
    parent.sync(Barrier.RENAMED_DIRECTORY)
    directory.note_renamed(f"{parent.path}/{name}")


def reopen_handles(path: str, environment: Environment) -> OpenHandles:
    """Open the directory of a log that was closed, to be deleted, and lock it.

    Raises
    ------
    LogLockedError
        Another handle has it open for writing.
    """
    open_handles = OpenHandles(Directory(path, environment))
    try:
        parent = open_handles.parent = open_parent_directory(path, environment)
        open_handles.lock = PartitionLock.acquire(
            open_handles.directory, parent, home=open_handles.directory
        )
    except BaseException:
        open_handles.close()
        raise
    return open_handles


def remove_tree(open_handles: OpenHandles) -> None:
    """Remove the partition's directory and what is in it, the deepest first.

    It gets a name first under which nobody opens it.
    """
    directory, parent = open_handles.directory, parent_to_rename_in(open_handles)
    name = directory.path.rpartition("/")[2]
    _check_is_the_same(directory, parent, name)
    if not has_unique_id(name):
        doomed = delete_directory_name(parse_directory_name(name))
        parent.rename(name, doomed)
        parent.sync(Barrier.DOOMED_DIRECTORY)
        directory.note_renamed(f"{parent.path}/{doomed}")
        name = doomed
    remove_trees(parent, [name])


def _check_is_the_same(directory: Directory, parent: Directory, name: str) -> None:
    """Refuse to touch what has the name of a directory that was moved away."""
    with closing(Directory(f"{parent.path}/{name}", directory.environment)) as there:
        try:
            is_the_same, cause = there.identity == directory.identity, None
        except DirectoryReplacedError as error:  # its descriptor was closed, and is opened by path
            is_the_same, cause = False, error
        if not is_the_same:
            raise IllegalStateError(
                "the log's directory was moved: another one has its name",
                file=directory.path,
                found="another directory",
                expected="the one that was opened",
            ) from cause
