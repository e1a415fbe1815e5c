"""Files that cannot be used, and may be the only proof of something: they are kept [DUR-7].

A damaged note of missing records, an index that the disk does not give out, or a checkpoint of the
log directory that cannot be read gets the name ``<name>.quarantine-<n>`` before a new one takes its
place. No open reads it again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from segstore.errors import (
    LogNotFoundError,
    LogPermissionError,
    NotALogError,
    ReadIOError,
    WriteError,
)
from segstore.log.files.partition_directory import INDEX_ENTRY_BYTES, MAX_INDEX_BYTES

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from segstore._core import Directory

KEPT_ASIDE: Final = (
    r"(?:\.segstore\.missing|[0-9]{20}\.(?:time)?index)\.quarantine-[1-9][0-9]{0,17}"
)
_NAME: Final = re.compile(KEPT_ASIDE, re.ASCII)
_PIECE_BYTES: Final = 1024 * 1024


def keep_aside(directory: Directory, name: str) -> str:
    """Rename the file *name*, and return its new name; the caller syncs the directory."""
    directory.rename(name, kept := name_aside(directory, name))
    return kept


def name_aside(directory: Directory, name: str) -> str:
    """Return the name that `keep_aside` gives to the file *name*."""
    number = 1
    while directory.exists(kept := f"{name}.quarantine-{number}"):
        number += 1
    return kept


def is_unreadable_index(directory: Directory, name: str) -> bool:
    """Whether *name* is of an index that the disk does not give out, and it is there."""
    if name.rpartition(".")[2] not in INDEX_ENTRY_BYTES:
        return False
    position = 0
    try:
        while position <= MAX_INDEX_BYTES:
            piece = directory.read_range(name, position, _PIECE_BYTES)
            if not piece:
                break
            position += len(piece)
    except (ReadIOError, LogPermissionError):
        return True
    except (LogNotFoundError, NotALogError, WriteError):
        pass
    return False


def take_out(directory: Directory, names: Iterable[str], proofs: Container[str] = ()) -> list[str]:
    """Remove files; indexes that may prove a loss are kept, and their new names returned.

    These are the *proofs*, and those that the disk does not give out.
    """
    kept = []
    for name in names:
        if name in proofs or is_unreadable_index(directory, name):
            kept.append(keep_aside(directory, name))
        else:
            directory.unlink(name, missing_ok=True)
    return kept


def kept_aside(names: Iterable[str]) -> list[str]:
    """Return those of *names* that `keep_aside` gave."""
    return sorted(name for name in names if _NAME.fullmatch(name))


def kept_indexes(names: Iterable[str]) -> list[str]:
    """Return those of *names* that were indexes: the disk did not give them out."""
    return [name for name in kept_aside(names) if "index." in name]
