"""Where the temporary files of tests lie: in memory, where there is room.

The tests write and sync many small files. On a disk they wait for its syncs half of the time.
Tests that ask what a disk does use the fixture ``disk_path``.
"""

from __future__ import annotations

import os
import tempfile

SHARED_MEMORY = "/dev/shm"
LEAST_FREE_BYTES = 4 << 30
"""More than all tests need at once, on the machine that has the least memory."""


def keep_temporary_files_in_memory() -> str:
    """Let this process and its children make temporary files in memory, and return the old folder.

    A ``TMPDIR`` that the caller chose stays.
    """
    disk = tempfile.gettempdir()
    if "TMPDIR" not in os.environ and _has_room():
        os.environ["TMPDIR"] = SHARED_MEMORY
        tempfile.tempdir = None  # the module asks for TMPDIR again
    return disk


def _has_room() -> bool:
    if not os.access(SHARED_MEMORY, os.W_OK | os.X_OK):
        return False
    found = os.statvfs(SHARED_MEMORY)
    return found.f_bavail * found.f_frsize >= LEAST_FREE_BYTES
