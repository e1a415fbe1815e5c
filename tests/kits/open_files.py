"""The files that this process has open."""

from __future__ import annotations

import contextlib
from pathlib import Path


def unlinked_files(path: Path) -> list[str]:
    """Return the files below *path* that are open and deleted: the disk has them still."""
    links = []
    for one in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            links.append(str(one.readlink()))
    return [one for one in links if one.startswith(str(path)) and one.endswith(" (deleted)")]
