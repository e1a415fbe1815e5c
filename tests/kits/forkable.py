"""Keeping the processes of the tests small enough to be forked.

A simulated index has room for 10 MiB of which almost nothing is touched. Thousands of them are more
addresses than the machine has memory: no process can be forked then, though nearly all is free. So
each fork begins with giving back what nobody holds.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from pathlib import Path

M_MMAP_THRESHOLD, LARGE_BYTES = -3, 1024 * 1024  # of mallopt
MANY_BYTES = 4 * 1024**3

# On the heap, where large blocks go once some were given back, small ones keep them from leaving.
with contextlib.suppress(AttributeError):  # another libc
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)


def give_back() -> None:
    """Collect disks that only refer to themselves, where there are many; to look costs 20 µs.

    A log that a test interrupted refers to itself, and what tells of it is kept to the test's end.
    """
    if address_bytes() > MANY_BYTES:
        gc.collect()


def address_bytes() -> int:
    """How many addresses this process has taken; 0 where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_bytes().split()[0]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


os.register_at_fork(before=give_back)
