"""What an unclean stop left above the recovery point is written over itself, and synced [DUR-36].

A page that the page cache holds as clean may not be on the disk: some process may have been told of
a sync that failed, and the kernel does not try it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import Barrier

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore.log.local.segment import Segment


def rewrite_from(segments: Iterable[Segment], offset: int) -> None:
    """Write the batch with *offset*, and all behind it, again in place, and sync them.

    May be repeated when a part of it failed.
    """
    for segment in segments:
        position = _position_of(segment, offset)
        if position < segment.size_bytes:
            segment.rewrite(position)
        segment.flush(Barrier.RECOVERY_RECORDS, indexes=True)


def _position_of(segment: Segment, offset: int) -> int:
    if offset <= segment.base_offset:
        return 0
    found = segment.translate_offset(offset)
    return segment.size_bytes if found is None else found.position
