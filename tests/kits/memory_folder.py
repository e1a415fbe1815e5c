"""A folder whose syncs cost nothing, for tests that do not ask what a disk keeps."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

SHARED_MEMORY = "/dev/shm"
LEAST_FREE_BYTES = 256 * 1024 * 1024


def memory_folder(prefix: str) -> Path:
    """Make a folder of the system's memory, where there is room; else one of the disk."""
    return Path(tempfile.mkdtemp(prefix=prefix, dir=SHARED_MEMORY if _has_room() else None))


def _has_room() -> bool:
    if not os.access(SHARED_MEMORY, os.W_OK | os.X_OK):
        return False
    found = os.statvfs(SHARED_MEMORY)
    return found.f_bavail * found.f_frsize >= LEAST_FREE_BYTES
