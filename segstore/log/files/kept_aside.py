"""Files that cannot be used, and may be the only proof of something: they are kept [DUR-7].

A damaged note of missing records, an index that the disk does not give out, or a checkpoint of the
log directory that cannot be read gets the name ``<name>.quarantine-<n>`` before a new one takes its
place. No open reads it again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore._core import Directory

KEPT_ASIDE: Final = (
    r"(?:\.segstore\.missing|[0-9]{20}\.(?:time)?index)\.quarantine-[1-9][0-9]{0,17}"
)
_NAME: Final = re.compile(KEPT_ASIDE, re.ASCII)


def keep_aside(directory: Directory, name: str) -> str:
    """Rename the file *name*, and return its new name; the caller syncs the directory."""
    number = 1
    while directory.exists(kept := f"{name}.quarantine-{number}"):
        number += 1
    directory.rename(name, kept)
    return kept


def kept_aside(names: Iterable[str]) -> list[str]:
    """Return those of *names* that `keep_aside` gave."""
    return sorted(name for name in names if _NAME.fullmatch(name))


def kept_indexes(names: Iterable[str]) -> list[str]:
    """Return those of *names* that were indexes: the disk did not give them out."""
    return [name for name in kept_aside(names) if "index." in name]
