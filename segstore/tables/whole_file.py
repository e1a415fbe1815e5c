"""Files that appear whole and on stable storage, or not at all; and what killed tasks left of them.

Until then a file is ``.segstore-part-<run>-<attempt>`` in the same folder, both 32 hexadecimal
digits: whose it is is known, and names that begin with a dot are no data for Spark.
"""

from __future__ import annotations

import os
import re
import shutil
import time
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ORPHAN_AGE_SECONDS: Final = 7 * 24 * 3600
"""Unfinished files of others that are older belong to nobody: no task runs for so long."""

_PART: Final = re.compile(r"\.segstore-part-(?P<run>[0-9a-f]{32})-[0-9a-f]{32}")


def new_run() -> str:
    """Return a name for the parts of one run of a job."""
    return uuid.uuid4().hex


@contextmanager
def whole_file(file: Path, run: str) -> Iterator[Path]:
    """Give the path to write under; at the end it is synced, and gets its own name."""
    part = part_of(file, run)
    try:
        yield part
        sync_path(part)
        part.replace(file)
        sync_path(file.parent)
    finally:
        part.unlink(missing_ok=True)


def part_of(path: Path, run: str) -> Path:
    """Return a new name, in the same folder, for what gets its own name when it is whole."""
    return path.with_name(f".segstore-part-{run}-{uuid.uuid4().hex}")


def remove_parts(folder: str, run: str) -> None:
    """Remove what tasks of *run* left, which is over, and what is old.

    A part that cannot be removed stays: the files themselves are as they should be.
    """
    oldest = time.time() - ORPHAN_AGE_SECONDS
    with suppress(OSError):
        for path in Path(folder).iterdir():
            part = _PART.fullmatch(path.name)
            if part is not None and (part["run"] == run or path.lstat().st_mtime < oldest):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)


def sync_path(path: Path) -> None:
    """Bring a file, or the names in a folder, to stable storage."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
