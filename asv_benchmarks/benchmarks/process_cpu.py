"""CPU seconds of a process and its descendants, as the kernel counts them."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(*process_ids: int) -> float:
    """CPU seconds of these processes, of their descendants, and of those that have ended.

    Parameters
    ----------
    *process_ids : int
        None the descendant of another.
    """
    children: dict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile, and counts with its parent
        process_id = int(file.parent.name)
        children[int(fields[1])].append(process_id)
        ticks[process_id] = sum(map(int, fields[11:15]))  # its own, and of children waited for
    total, left = 0, list(process_ids)
    while left:
        process_id = left.pop()
        total += ticks.get(process_id, 0)
        left += children[process_id]
    return total / TICKS_PER_SECOND
